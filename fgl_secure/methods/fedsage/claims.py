"""What FedSage+ promises under each scheme for its sums, and what it gives away.

The paper has clients exchange gradients so that features stay, and promises nothing of what gradients tell; embeddings
and generators go to all clients as they are. Schemes hide one client's gradients in the sum of all, and its models.
"""

from __future__ import annotations

import numpy as np

from fgl_secure.methods.fedavg.claims import SUM_LEAKS
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.topology import Topology
from fgl_secure.runtime import Circumstance, Claim, Directory, Leak, Role, Secret
from fgl_secure.training.server_sums import promises

TOLD = (
    Leak(
        Secret.NODE_FEATURES,
        Role.SILO,
        Circumstance.ANY,
        "every client gets the generators of all others, which were fitted to their nodes' features, and the "
        "embeddings that they generate from, whose noise is drawn anew in each round and so averages out: what these "
        "tell of single nodes is not hidden from clients, whatever adds gradients up",
    ),
    Leak(
        Secret.DEGREE,
        Role.SILO,
        Circumstance.ANY,
        "a client sends one noisy embedding for each neighbour that it hid, at most as many for a node as are "
        "generated: how many there are is told, and how many of a node where its noise averages out",
    ),
    Leak(
        Secret.FOREIGN_EDGE,
        Role.SILO,
        Circumstance.ANY,
        "embeddings are made of a node's row and its neighbours': those of neighbours are alike",
    ),
)
"""What clients tell each other in the clear under every scheme."""

GRADIENTS_IN_THE_CLEAR = (
    Leak(
        Secret.SUMMAND,
        Role.SILO,
        Circumstance.ANY,
        "a client gets each other client's gradient of its generator; where it generates no more rows than its last "
        "layer is wide, it solves each for the feature rows that are nearest to what it generated",
    ),
)

GRADIENT_SUMS = (
    Leak(
        Secret.NODE_FEATURES,
        Role.SILO,
        Circumstance.ANY,
        "the sum of the gradients is exact: from it follows, for each row that a client generates, the mean of the "
        "nearest rows of all other clients",
    ),
)
"""What the sum of gradients tells the client that it is for, whatever computes it."""

MODELS_IN_THE_CLEAR = (
    Leak(
        Secret.SUMMAND,
        Role.SERVER,
        Circumstance.ANY,
        "the server sees every client's model, and how many labelled and validation nodes it has",
    ),
)

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


def claim_of(gradients: Scheme, averaging: Scheme, clients: int) -> Claim:
    """The claim of a run.

    Args:
        gradients: adds up gradients of generators.
        averaging: adds up models; of either, one that promises nothing sends in the clear.
        clients: how many there are.
    """
    return Claim((), TOLD, ()).joined(_gradients(gradients, clients)).joined(_models(averaging, clients))


def _gradients(scheme: Scheme, clients: int) -> Claim:
    parties = Directory.hierarchy(clients, clients)
    first, *others = parties.ids(Role.SILO).tolist()
    inner = scheme.claim_for(Topology.to_client(parties, np.array(others, dtype=np.int64), first, 1, 1))
    if not inner.guarantees:
        return Claim((), GRADIENTS_IN_THE_CLEAR, ())
    return Claim(inner.guarantees, (*inner.leaks_by_design, *GRADIENT_SUMS), inner.assumptions)


def _models(scheme: Scheme, clients: int) -> Claim:
    inner = promises(scheme, clients)
    if inner is None:
        return Claim((), MODELS_IN_THE_CLEAR, ())
    pair = PAIR_LEAKS if clients == 2 else ()
    return Claim(inner.guarantees, (*inner.leaks_by_design, *SUM_LEAKS, *pair), inner.assumptions)
