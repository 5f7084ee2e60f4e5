"""What pairwise masking hides, from whom, and what it gives away."""

from __future__ import annotations

import math

from fgl_secure.crypto.keys import KeyAgreement
from fgl_secure.protocols.pairwise_masking.graph import MOST_WITHHELD, SparseGraph
from fgl_secure.runtime import Circumstance, Claim, Guarantee, Leak, Role, Secret, Strength

_SOURCE = "Bonawitz et al. (CCS 2017), theorems 6.3 to 6.5"
MOST_BITS = 200
"""Probabilities below 2^-200 are not told apart."""
_SPARSE = "Bell et al. (CCS 2020), theorem 3.6"


def claim_of(
    colluding: int, lying: int, keys: KeyAgreement, *, sparse: bool = False, graph: SparseGraph | None = None
) -> Claim:
    """The claim of a session.

    Args:
        colluding: most senders that may pool their views with the aggregator, who follows the protocol; negative
            where not even the aggregator alone is kept out.
        lying: most senders that may do so with an aggregator that departs from it; negative for none, not even alone.
        keys: how senders agree on keys.
        sparse: whether senders mask with a few neighbours each.
        graph: with whom, where they do and their number is known.
    """
    promises = []
    if colluding >= 0:
        odds = "" if graph is None else f", but for a probability of at most {_chance(graph.privacy_bits(colluding))}"
        promises.append(
            Guarantee(
                Secret.SUMMAND,
                {Role.SERVER: 1, Role.SILO: colluding},
                Strength.COMPUTATIONAL,
                f"the aggregator with up to {colluding} senders learns of the others' vectors no more than the sum "
                f"that the receiver is entitled to, and not that where it is not the receiver{odds}"
                + ("" if graph is None else f" over the graph of each sum that is begun ({_of(graph)})"),
                _SPARSE if sparse else _SOURCE,
            )
        )
    if lying >= 0 and not sparse:
        promises.append(
            Guarantee(
                Secret.SUMMAND,
                {Role.SERVER: 1, Role.SILO: lying},
                Strength.COMPUTATIONAL,
                f"where everybody masks with everybody, an aggregator that lies about who dropped out learns, with up "
                f"to {lying} senders, no more than one sum over at least `threshold` vectors",
                _SOURCE,
            )
        )
    more: tuple[str, ...] = _RANDOM_DROPOUTS if sparse else ()
    if graph is not None:
        more += (
            f"where up to {graph.gone:,} of {graph.senders:,} senders drop out at random, the sum is opened but for a "
            f"probability of at most {_chance(graph.recovery_bits)}, in which it stops and nothing is",
        )
    return Claim(tuple(promises), SUM_LEAKS, (*_ASSUMPTIONS, primitives(keys), *more))


def _of(graph: SparseGraph) -> str:
    return (
        f"each of {graph.senders:,} senders has {graph.degree} neighbours, of whom {graph.needed} open its secrets, "
        f"and up to {graph.gone:,} drop out"
    )


def _chance(bits: float) -> str:
    """A probability, never below what it is."""
    return f"2^-{math.floor(10 * bits) / 10:.1f}" if 0 <= bits <= MOST_BITS else f"2^-{MOST_BITS}" if bits > 0 else "1"


def sum_leaks(server: str, receiver: str, terms: str) -> tuple[Leak, ...]:
    """What exact sums tell, whatever hides their terms.

    Args:
        server: what the server is called that learns the sum.
        receiver: what others are called that learn it.
        terms: what those are called whose vectors are summed.
    """
    return tuple(
        leak
        for role, who in ((Role.SERVER, server), (Role.SILO, receiver))
        for leak in (
            Leak(
                Secret.SUMMAND,
                role,
                Circumstance.SPARSE_SUM,
                f"{who} learns the exact sum, from which sparse vectors can be taken apart; noise prevents it",
            ),
            Leak(
                Secret.SUMMAND,
                role,
                Circumstance.REPEATED_SUM,
                f"{who} learns the difference of two sums of the same vectors over different {terms}",
            ),
        )
    )


SUM_LEAKS = sum_leaks("an aggregator that is the receiver", "the receiver", "senders")
"""What the receiver of an exact sum learns by it, whatever hides the vectors."""

_ASSUMPTIONS = (
    "public keys are authentic: the aggregator forwards them as they are, as a register of keys or signatures ensure",
    "the aggregator and the receiver learn who took part in which sum and the length of the vectors; senders learn who "
    "dropped out",
    "a sender may spoil a sum with a wrong vector or mask, unseen; it learns nothing by that",
)


VETOES = (
    "where senders may veto a sum, the aggregator learns whether somebody in it does, and neither who nor how many; "
    "with senders that collude, whether somebody does beside them. One veto in as many as the field has elements is "
    "not seen. A vetoed sum is opened by nobody, and a vector of who vetoes is uniform, so an aggregator that opens it "
    "all the same learns nothing of the vectors"
)
"""What there is to know of vetoes."""


def primitives(keys: KeyAgreement) -> str:
    """What has to hold of what keys, masks and seals are made with."""
    return (
        "AES-256 in counter mode is a pseudo-random generator, AES-256-GCM authenticated encryption, HMAC-SHA256 and "
        f"HKDF-SHA256 pseudo-random functions, and {keys.words} a key agreement"
    )


_RANDOM_DROPOUTS = (
    "who drops out, and who colludes, does not depend on the graph, which everybody knows once it is drawn: an "
    "aggregator that leaves senders out because of where they stand learns more. Nobody chooses the graph itself: it "
    "is drawn from nonces that all senders have committed to, and been told of, before the first is revealed, of "
    f"which up to {MOST_WITHHELD} may be withheld; the probability is that of the worst graph that this leaves",
)
