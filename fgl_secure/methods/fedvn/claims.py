"""What FedVN promises under each scheme, and what it gives away."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from fgl_secure.protocols.scheme import Scheme
from fgl_secure.runtime import Circumstance, Claim, Guarantee, Leak, Role, Secret
from fgl_secure.training.server_sums import promises

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

PAIR_LEAKS = tuple(
    Leak(
        secret,
        Role.SILO,
        Circumstance.ANY,
        "of two clients each can take its own part from the mean that the server sends back: what is left is the "
        f"other's model and its virtual nodes{told}",
    )
    for secret, told in (
        (Secret.SUMMAND, ""),
        (Secret.LABEL_SHARES, ", and the bias of its last layer tells how often each label occurs there"),
        (Secret.CLIENT_IDENTITY, ", and whose they are is no question"),
    )
)
"""What two clients learn of each other, whatever computes the sum."""

FOLLOWING = (
    (Secret.LABEL_SHARES, "of one client's label shares the server learns no more than those of all tell"),
    (Secret.CLIENT_IDENTITY, "there is no summand that the server could put a name to"),
)
"""What is hidden with a summand while two clients are left that did not collude, and why."""


def claim_of(scheme: Scheme, clients: int) -> Claim:
    """The claim of a run.

    Args:
        scheme: how summands are added up; one that promises nothing sends them in the clear.
        clients: how many there are.
    """
    inner = promises(scheme, clients)
    if inner is None:
        return Claim((), CLEAR_LEAKS, ())
    following = tuple(_following(inner.guarantees, clients))
    pair = PAIR_LEAKS if clients == 2 else ()
    return Claim((*inner.guarantees, *following), (*inner.leaks_by_design, *SUM_LEAKS, *pair), inner.assumptions)


def _following(promises: tuple[Guarantee, ...], clients: int) -> Iterator[Guarantee]:
    """What is promised about summands, said of what they tell; two clients must be left that did not collude."""
    limits = {Role.SILO: clients - 2}
    for promise in promises:
        if promise.secret is not Secret.SUMMAND or Role.SERVER not in promise.coalition:
            continue
        capped = {role: min(count, limits.get(role, count)) for role, count in promise.coalition.items()}
        coalition = {role: count for role, count in capped.items() if count > 0}
        for secret, consequence in FOLLOWING:
            statement = f"{promise.statement}; {consequence}"
            yield replace(promise, secret=secret, coalition=coalition, statement=statement)
