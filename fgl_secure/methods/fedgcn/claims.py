"""What FedGCN promises under each scheme for its sums, and what it gives away.

The paper has clients see sums and not rows, and proposes homomorphic encryption to hide both from the server that adds
up. A sum over one neighbour hides nothing, so rows are promised to be hidden from clients here where the scheme refuses
such sums, and not else.
"""

from __future__ import annotations

from fgl_secure.methods.fed2gnn import claims as hop_claims
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.runtime import Circumstance, Claim, Leak, Role, Secret

ONE_HOP = (
    Leak(
        Secret.NODE_FEATURES,
        Role.SILO,
        Circumstance.REPEATED_SUM,
        "sums are exact and overlap: a client subtracts those of different nodes from each other; what that determines "
        "of single nodes' rows is read, whatever computes the sums",
    ),
    Leak(
        Secret.NODE_FEATURES,
        Role.SILO,
        Circumstance.SPARSE_SUM,
        "features are summed as they are but for a factor each: a sum of a few sparse rows can be taken apart by "
        "whoever knows what rows look like",
    ),
    Leak(
        Secret.FOREIGN_NODE,
        Role.SILO,
        Circumstance.ANY,
        "a client that is asked for sums learns which of its nodes are next to which node of another client, and that "
        "this one has neighbours at enough clients for a sum",
    ),
    Leak(
        Secret.DEGREE,
        Role.SILO,
        Circumstance.ANY,
        "rows are divided by the root of their nodes' numbers of neighbours: where features are zeros and ones, sums "
        "tell what these may be",
    ),
)
"""What exact sums around own nodes tell a client, whatever computes them."""

TWO_HOPS = (
    Leak(
        Secret.FOREIGN_EDGE,
        Role.SILO,
        Circumstance.ANY,
        "a client gets the sum around every node next to its own that enough clients have neighbours of, in the clear "
        "and with the number of neighbours: where its row and those around it are known, so are its edges elsewhere",
    ),
    Leak(
        Secret.DEGREE,
        Role.SILO,
        Circumstance.ANY,
        "the number of neighbours goes with each such sum",
    ),
)
"""What sums around neighbours elsewhere tell a client beside that."""

PAIR_LEAKS = (
    Leak(
        Secret.SUMMAND,
        Role.SILO,
        Circumstance.ANY,
        "of two clients each can take its own part from the mean that the server sends back: what is left is the "
        "other's model",
    ),
)
"""What two clients learn of each other, whatever adds the models up."""


def claim_of(scheme: Scheme, averaging: Scheme, clients: int, hops: int) -> Claim:
    """The claim of a run.

    Args:
        scheme: computes the sums of features.
        averaging: adds up the models; one that promises nothing sends them in the clear.
        clients: how many there are.
        hops: 1 or 2.
    """
    told = ONE_HOP if hops == 1 else (*ONE_HOP, *TWO_HOPS)
    return hop_claims.claim_of(scheme, averaging, clients, told, PAIR_LEAKS)
