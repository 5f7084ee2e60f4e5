"""What FedVN promises under each scheme, and what it gives away."""

from __future__ import annotations

from fgl_secure.protocols.staged.interface import StagedScheme
from fgl_secure.runtime import Circumstance, Claim, Guarantee, Leak, Role, Secret

CLEAR_LEAKS = (
    Leak(
        Secret.LABEL_SHARES,
        Role.SERVER,
        Circumstance.ANY,
        "every client's model arrives as it is, and the bias of its last layer tells how often each label occurs",
    ),
    Leak(
        Secret.CLIENT_IDENTITY,
        Role.SERVER,
        Circumstance.ANY,
        "a client pulls model and virtual nodes its own way, so that a summand tells whose it is without a name",
    ),
)
"""What the paper leaves open."""

SUM_LEAKS = (
    Leak(
        Secret.LABEL,
        Role.SERVER,
        Circumstance.ANY,
        "the sum is exact, and the bias of the mean model tells how often each label occurs at all clients together",
    ),
)
"""What a sum tells, whatever computes it."""

PAIR_LEAKS = (
    Leak(
        Secret.SUMMAND,
        Role.SILO,
        Circumstance.ANY,
        "of two clients each can take its own part from the mean that the server sends back: what is left is the "
        "other's model and its virtual nodes",
    ),
)

FOLLOWING = (
    (Secret.LABEL_SHARES, "of one client's label shares the server learns no more than those of all tell"),
    (Secret.CLIENT_IDENTITY, "there is no summand that the server could put a name to"),
)
"""What is hidden with a summand, and why."""


def claim_of(scheme: StagedScheme | None, clients: int) -> Claim:
    """The claim of a run.

    Args:
        scheme: how summands are added up; None for in the clear, which promises nothing.
        clients: how many there are.
    """
    if scheme is None:
        return Claim((), CLEAR_LEAKS, ())
    inner = scheme.claim_for(clients)
    summands = [each for each in inner.guarantees if each.secret is Secret.SUMMAND and Role.SERVER in each.coalition]
    following = tuple(_following(each, *rest) for rest in FOLLOWING for each in summands)
    pair = PAIR_LEAKS if clients == 2 else ()  # a pair
    return Claim((*inner.guarantees, *following), (*inner.leaks_by_design, *SUM_LEAKS, *pair), inner.assumptions)


def _following(promise: Guarantee, secret: Secret, consequence: str) -> Guarantee:
    """The promise about a summand, said of what a summand tells."""
    return Guarantee(secret, promise.coalition, promise.strength, f"{promise.statement}; {consequence}", promise.source)
