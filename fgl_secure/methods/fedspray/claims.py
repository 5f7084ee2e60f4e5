"""What FedSpray promises under each scheme, and what it gives away."""

from __future__ import annotations

from fgl_secure.protocols.scheme import Scheme
from fgl_secure.runtime import Circumstance, Claim, Guarantee, Leak, Role, Secret, Strength
from fgl_secure.training.server_sums import promises

PAPER = "FedSpray (KDD 2024)"

PUBLISHED = (
    Guarantee(
        Secret.STRUCTURE_FEATURE,
        {Role.SERVER: 1},
        Strength.COMPUTATIONAL,
        "local class proxies are averages of the structure proxies of nodes of one class, which is irreversible",
        f"{PAPER}, 4.5.1",
    ),
)
"""What the paper promises of class proxies in the clear."""

CLEAR_LEAKS = (
    Leak(
        Secret.CLASS_PRESENCE,
        Role.SERVER,
        Circumstance.ANY,
        "the server gets every client's shares and class proxies, and both are zero for classes without a labelled "
        "node",
    ),
    Leak(
        Secret.LABEL_SHARES,
        Role.SERVER,
        Circumstance.ANY,
        "shares are sent as they are; their denominators tell how many labelled nodes there are",
    ),
)

CLIENT_LEAKS = (
    Leak(
        Secret.STRUCTURE_FEATURE,
        Role.SILO,
        Circumstance.ANY,
        "all clients get the mean class proxies; the mean of a class that one client alone has is that client's, and "
        "the node's own where it has a single one",
    ),
)
"""What goes to clients, whatever computes the sum."""

SUM_LEAKS = (
    Leak(
        Secret.LABEL_SHARES,
        Role.SERVER,
        Circumstance.ANY,
        "exact shares are fractions of each client's number of labelled nodes: where few clients have different "
        "numbers, one sum has one explanation, which counts every client's labelled nodes of each class; shares on a "
        "grid have many explanations, but few clients or few labels leave few",
    ),
    Leak(
        Secret.CLASS_PRESENCE,
        Role.SERVER,
        Circumstance.ANY,
        "the same explanation tells which classes each client has labelled nodes of",
    ),
    Leak(
        Secret.LABEL,
        Role.SERVER,
        Circumstance.ANY,
        "the sum tells the shares of all clients together, and which classes are labelled by nobody",
    ),
    Leak(
        Secret.STRUCTURE_FEATURE,
        Role.SERVER,
        Circumstance.ANY,
        "where one client alone has labelled nodes of a class, the sum holds its class proxy, and the node's own where "
        "there is a single one",
    ),
    Leak(
        Secret.LABEL_SHARES,
        Role.SERVER,
        Circumstance.REPEATED_SUM,
        "when one client alone labels a node more between two rounds, the change of the sum tells how many labelled "
        "nodes of each class that client has",
    ),
    Leak(
        Secret.TRAINING_NODE,
        Role.SERVER,
        Circumstance.REPEATED_SUM,
        "the same change tells about what proxy the new node has, by which it is told from others",
    ),
)
"""What an exact sum tells the server, whatever computes it."""

PAIR_LEAKS = (
    Leak(
        Secret.SUMMAND,
        Role.SILO,
        Circumstance.ANY,
        "of two clients each can take its own part from the means that the server sends back: what is left is the "
        "other's encoder, its proxy of every class that it alone has, its loss, and how many nodes it predicts right",
    ),
)


def claim_of(scheme: Scheme, clients: int) -> Claim:
    """The claim of a run.

    Args:
        scheme: how summands are added up; one that promises nothing sends them in the clear.
        clients: how many there are.
    """
    inner = promises(scheme, clients)
    if inner is None:
        return Claim(PUBLISHED, (*CLEAR_LEAKS, *CLIENT_LEAKS), ("clients follow the protocol",))
    pair = PAIR_LEAKS if clients == 2 else ()
    return Claim(inner.guarantees, (*inner.leaks_by_design, *SUM_LEAKS, *CLIENT_LEAKS, *pair), inner.assumptions)
