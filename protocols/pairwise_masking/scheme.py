"""Pairwise masking: sums of vectors under masks that cancel (Bonawitz et al., CCS 2017).

Every sender adds to its vector one mask for each neighbour, with opposite signs at both ends, and a mask of its own.
It shares the secrets of these masks among its neighbours, so that the others can take away what a sender that drops
out has left behind: its pairwise masks if its vector is not in the sum, its own mask if it is, and never both. Where
the receiver is not the one who adds up, a further mask agreed with the receiver keeps the sum from the aggregator.
Few senders are all each other's neighbours; many mask along a sparse graph (Bell et al., CCS 2020).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import ClassVar

from fgl_secure.algebra import PrimeField
from fgl_secure.crypto.cryptography import SEED_BITS
from fgl_secure.crypto.keys import KeyAgreement
from fgl_secure.crypto.streams import ModularRing
from fgl_secure.errors import InputError
from fgl_secure.protocols.identity import Names
from fgl_secure.protocols.pairwise_masking.clients import MaskingClients
from fgl_secure.protocols.pairwise_masking.graph import COLLUSION, MOST_WITHHELD, SparseGraph, colluding_for, degree_for
from fgl_secure.protocols.pairwise_masking.plan import MaskingPlan
from fgl_secure.protocols.pairwise_masking.server import MaskingServer
from fgl_secure.protocols.scheme import Scheme, SumMachine
from fgl_secure.protocols.secagg.scheme import FEWEST, MaskedScheme, threshold_of
from fgl_secure.protocols.secagg.server import SumReceiver
from fgl_secure.protocols.topology import Topology
from fgl_secure.runtime import Circumstance, Claim, Draws, Guarantee, Leak, Role, Secret, Strength
from fgl_secure.typing import Ids

_SOURCE = "Bonawitz et al. (CCS 2017), theorems 6.3 to 6.5"
MOST_BITS = 200
"""Probabilities below 2^-200 are not told apart."""
_SPARSE = "Bell et al. (CCS 2020), theorem 3.6"


def _claim_of(
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
                f"if each pair of clients shares a mask, an aggregator that lies about who dropped out learns, with up "
                f"to {lying} senders, no more than one sum over at least `threshold` vectors",
                _SOURCE,
            )
        )
    more: tuple[str, ...] = _RANDOM_DROPOUTS if sparse else ()
    if graph is not None:
        more += (
            f"where up to {graph.max_dropouts:,} of {graph.senders:,} senders drop out at random, the sum is opened "
            f"but for a probability of at most {_chance(graph.recovery_bits)}, in which it stops and nothing is",
        )
    return Claim(tuple(promises), SUM_LEAKS, (*_ASSUMPTIONS, primitives(keys), *more))


def _of(graph: SparseGraph) -> str:
    return (
        f"each of {graph.senders:,} senders has {graph.degree} neighbours, of whom {graph.required_shares} open its "
        f"secrets, and up to {graph.max_dropouts:,} drop out"
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
        for role, observer in ((Role.SERVER, server), (Role.SILO, receiver))
        for leak in (
            Leak(
                Secret.SUMMAND,
                role,
                Circumstance.SPARSE_SUM,
                f"{observer} learns the exact sum, from which sparse vectors can be taken apart; noise prevents it",
            ),
            Leak(
                Secret.SUMMAND,
                role,
                Circumstance.REPEATED_SUM,
                f"{observer} learns the difference of two sums of the same vectors over different {terms}",
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


def _part_of(share: float, senders: int) -> int:
    """How many senders a share of them is, rounded down; a share that is written in decimals counts as it reads."""
    return int(share * senders + 1e-9)


@dataclass(frozen=True, slots=True)
class PairwiseMasking(MaskedScheme):
    """The scheme. Its default threshold withstands an aggregator that lies together with fewer than a third of senders.

    Attributes:
        degree: neighbours of each sender, even, for those who state their own bounds; None takes every party for up to
            64 senders, and beyond that what `degree_for` finds.
        dropout: the share of the senders that may drop out, below one half, from which the threshold follows: m less
            that many, rounded down. The fewer may, the fewer neighbours are enough. None where the threshold says it.
        collusion: the share of the senders that may pool their views with the aggregator, below one half, for which a
            sparse graph is made; None takes a tenth. It says nothing where every party masks with every party, where
            `threshold` - 1 may.
        precision: bits at which real numbers of means are written, 8, 16 or 32; None takes all that the field has
            room for. Vectors are then summed modulo the least 2^k that holds their sum, k bits of each number travel,
            and masks are uniform over that ring; shares of secrets stay in the field.
        clients: the machine of senders; another one only in tests of what its checks are for.
    """

    label: ClassVar[str] = "pairwise-masking"
    summary: ClassVar[str] = "one sum over clients under masks that cancel (Bonawitz et al., CCS 2017)"
    parameters: ClassVar[tuple[str, ...]] = (
        "threshold", "degree", "modulus", "keys", "dropout", "collusion", "precision", "rounding",
    )  # fmt: skip

    degree: int | None = None
    dropout: float | None = None
    collusion: float | None = None
    clients: type[MaskingClients] = field(default=MaskingClients, repr=False)

    def __post_init__(self) -> None:
        MaskedScheme.__post_init__(self)
        if self.degree is not None and (self.degree < 2 or self.degree % 2):
            raise InputError(f"degree must be even and at least 2; found {self.degree}")
        for name, share in (("dropout", self.dropout), ("collusion", self.collusion)):
            if share is not None and not 0 <= share < 0.5:
                raise InputError(f"{name} must be a share of the senders, at least 0 and below 0.5; found {share}")
        if self.dropout is not None and self.threshold is not None:
            raise InputError(f"threshold must follow from dropout where that is given; found {self.threshold}")
        if self.collusion is not None and self.degree is not None:
            raise InputError(f"degree must follow from collusion where that is given; found {self.degree}")

    def claim_among(self, clients: int) -> Claim:
        """What holds for so many senders."""
        threshold, degree = self.threshold_for(clients), self.degree_for(clients)
        colluding = colluding_for(clients, degree, threshold)
        sparse = degree < clients - 1
        graph = SparseGraph(clients, degree, threshold) if sparse else None
        claim = _claim_of(colluding, 2 * threshold - clients - 1, self.keys, sparse=sparse, graph=graph)
        return self._with_feedback(claim)

    def vetoes(self, topology: Topology) -> bool:
        """Where every sender shares its secrets with all others, for a receiver that adds up, in the field."""
        m, alone = len(topology.senders), topology.receiver == topology.aggregator
        return self.refuses(topology) is None and alone and self.precision is None and self.degree_for(m) == m - 1

    def claim_for(self, topology: Topology) -> Claim:
        """What holds for the senders of a topology."""
        claim = self.claim_among(len(topology.senders))
        return replace(claim, assumptions=(*claim.assumptions, VETOES)) if topology.veto else claim

    def ring_of(self, topology: Topology) -> ModularRing:
        """See `Scheme.ring_of`: the field, or at a precision and with a bound the least ring that holds the sums."""
        if self.precision is None or topology.bound is None:
            return ModularRing(self.modulus)
        return ModularRing.least(topology.terms * max(topology.bound, 1))

    def threshold_for(self, clients: int) -> int:
        """The threshold among so many senders.

        Raises:
            InputError: there are fewer than two senders, or the threshold is not above half of them, so that a lying
                aggregator could have one half open one secret of a sender and the other half the other.
        """
        chosen = self.threshold
        if self.dropout is not None:
            chosen = max(clients - _part_of(self.dropout, clients), FEWEST)
        return threshold_of(chosen, clients, clients // 2 + 1)

    def require_all(self, senders: int) -> PairwiseMasking:
        """See `Scheme.require_all`. All mask with all, for in a sparse graph a majority of neighbours opens secrets.

        Raises:
            InputError: it was made for fewer senders, or for fewer neighbours.
        """
        chosen = self.threshold_for(senders) if self.dropout is not None else self.threshold
        result = Scheme.require_all(replace(self, threshold=chosen, dropout=None), senders)
        assert isinstance(result, PairwiseMasking)
        if result.degree_for(senders) == senders - 1:
            return result
        if self.degree is not None:
            raise InputError(
                f"degree must be {senders - 1} of {senders} senders, for none may be missing here; found "
                f"{self.degree}, so omit the parameter"
            )
        return replace(result, degree=senders + senders % 2, collusion=None)

    def degree_for(self, clients: int) -> int:
        """Neighbours of each of so many senders."""
        if self.degree is None:
            colluding = _part_of(COLLUSION if self.collusion is None else self.collusion, clients)
            return degree_for(clients, self.threshold_for(clients), colluding)
        return min(self.degree, clients - 1)

    def plan_for(self, topology: Topology, session: bytes, words: int | None = None) -> MaskingPlan:
        """What all parties know.

        Args:
            topology: that is served.
            session: see `machines`.
            words: elements that hold a shared secret; those of a seed unless given.

        Raises:
            InputError: see `machines`.
            FieldRangeError: see `machines`.
        """
        terms, prime = self.terms_for(topology, session), PrimeField(self.modulus)
        words = -(-SEED_BITS // (self.modulus.bit_length() - 1)) if words is None else words
        ring = None if self.precision is None else self.ring_of(topology)
        plan = MaskingPlan(terms, prime, self.degree_for(terms.n), words, self.keys, ring)
        _ = plan.sharing.code  # raises where the field has too few points
        return plan

    def machines(
        self, topology: Topology, session: bytes, draws: Draws, hosted: Ids | None = None, *, names: Names | None = None
    ) -> tuple[SumMachine, ...]:
        """See `OneSumScheme.machines`: server, clients, and receiver where it is neither.

        Raises:
            InputError: the scheme refuses the topology, a threshold that privacy forbids, or a session that is too
                short.
            FieldRangeError: the field cannot hold the sums, or has fewer points than shares.
        """
        self.terms_for(topology, session)  # raises where sums would wrap
        crypto = self.cryptography(draws, self.modulus, self.keys, self.ring_of(topology))
        words = crypto.words(topology.width, self.degree_for(len(topology.senders)))
        plan = self.plan_for(topology, session, words)
        return self._roles(
            plan.terms,
            hosted,
            lambda: MaskingServer(plan, crypto, draws),
            lambda here: self.clients(here, plan, crypto, draws, names),
            (lambda: SumReceiver(plan, crypto, draws, names, ("sealing", "mask"))) if plan.terms.split else None,
        )
