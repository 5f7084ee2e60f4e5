"""What FedStar promises under each scheme for its sums, and what it gives away.

The paper has clients share an encoder of structure so that features stay, and promises nothing of what it tells.
"""

from __future__ import annotations

from fgl_secure.protocols.scheme import Scheme
from fgl_secure.runtime import Circumstance, Claim, Leak, Role, Secret
from fgl_secure.training.server_sums import promises

CLEAR_LEAKS = (
    Leak(
        Secret.SUMMAND,
        Role.SERVER,
        Circumstance.ANY,
        "the server sees every client's structure encoder, from which it reads which degrees the nodes around the "
        "labelled ones have; and how many labelled nodes a client has",
    ),
)

SUM_LEAKS = tuple(
    Leak(
        Secret.DEGREE,
        role,
        Circumstance.ANY,
        f"{who} learns the mean of the structure encoders, which is exact and tells which degrees occur, and at about "
        "how many clients; at which, it does not say",
    )
    for role, who in ((Role.SERVER, "the server"), (Role.SILO, "every client"))
)
"""What a mean tells, whatever computes it."""

PAIR_LEAKS = (
    Leak(
        Secret.SUMMAND,
        Role.SILO,
        Circumstance.ANY,
        "of two clients each can take its own part from the mean that the server sends back: what is left is the "
        "other's structure encoder",
    ),
)
"""What two clients learn of each other, whatever adds encoders up."""


def claim_of(scheme: Scheme, clients: int) -> Claim:
    """The claim of a run.

    Args:
        scheme: adds up structure encoders; one that promises nothing sends them in the clear.
        clients: how many there are.
    """
    inner, pair = promises(scheme, clients), PAIR_LEAKS if clients == 2 else ()
    if inner is None:
        return Claim((), (*CLEAR_LEAKS, *SUM_LEAKS, *pair), ())
    return Claim(inner.guarantees, (*inner.leaks_by_design, *SUM_LEAKS, *pair), inner.assumptions)
