"""What LightSecAgg hides, from whom, and what it gives away."""

from __future__ import annotations

from fgl_secure.crypto.keys import KeyAgreement
from fgl_secure.protocols.pairwise_masking.claim import SUM_LEAKS, primitives
from fgl_secure.runtime import Claim, Guarantee, Role, Secret, Strength

_SOURCE = "So et al. (MLSys 2022), theorem 1"


def claim_of(colluding: int, lying: int, keys: KeyAgreement) -> Claim:
    """The claim of a session.

    Args:
        colluding: T, most senders that may pool their views with the aggregator, who follows the protocol.
        lying: most senders that may do so with an aggregator that departs from it: min(T, 2U - N - 1).
        keys: how senders agree on keys.
    """
    return Claim((_honest(colluding), _lying(lying)), SUM_LEAKS, (*_ASSUMPTIONS, primitives(keys)))


def _honest(colluding: int) -> Guarantee:
    return Guarantee(
        Secret.SUMMAND,
        {Role.SERVER: 1, Role.SILO: colluding},
        Strength.COMPUTATIONAL,
        f"the aggregator with up to {colluding} senders learns of the others' vectors no more than the sum that the "
        "receiver is entitled to, and not that where it is not the receiver; perfectly so but for the seals of coded "
        "masks and the expansion of masks from seeds",
        _SOURCE,
    )


def _lying(lying: int) -> Guarantee:
    return Guarantee(
        Secret.SUMMAND,
        {Role.SERVER: 1, Role.SILO: lying},
        Strength.COMPUTATIONAL,
        f"an aggregator that lies about who dropped out learns, with up to {lying} senders (T, and 2U - N - 1), no "
        "more than one sum over at least `threshold` vectors, because senders open no roster before U of them said "
        "that they were told it; with 2U - N of them it opens two. Without that agreement T + 1 - c honest answers "
        "for each of two rosters, with c senders that collude, would tell a combination of the U - T parts of each of "
        "two sums",
        "So et al. (MLSys 2022) with the consistency check of Bonawitz et al. (CCS 2017), figure 4, round 3",
    )


_ASSUMPTIONS = (
    "public keys are authentic: the aggregator forwards them as they are, as a register of keys or signatures ensure",
    "the aggregator and the receiver learn who took part in which sum and the length of the vectors; senders learn who "
    "dropped out",
    "a sender may spoil a sum with a wrong vector or wrong coded masks, unseen; it learns nothing by that. Wrong sums "
    "of coded masks are corrected, one for every two answers beyond U, and noticed where there are fewer",
)
