"""What FED-PUB promises under each scheme for its averages, and what it gives away. The paper promises nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.topology import Topology
from fgl_secure.runtime import Circumstance, Claim, Directory, Guarantee, Leak, Role, Secret

EMBEDDINGS = (
    Leak(
        Secret.LABEL_SHARES,
        Role.SILO,
        Circumstance.ANY,
        "every client's functional embedding goes to all others every round: models that are alike were trained on "
        "labels that are alike, which is what weights are made of",
    ),
)
"""What weights cost, whatever computes the averages."""

CLEAR_LEAKS = (
    Leak(
        Secret.SUMMAND,
        Role.SILO,
        Circumstance.ANY,
        "every client gets each other client's model times a weight that both of them know; as published the server "
        "gets them all",
    ),
)

AVERAGE_LEAKS = (
    Leak(
        Secret.SUMMAND,
        Role.SILO,
        Circumstance.SINGLE_NEIGHBOUR,
        "where one other client weighs nearly everything in a client's average, the average is nearly its model",
    ),
    Leak(
        Secret.SUMMAND,
        Role.SILO,
        Circumstance.REPEATED_SUM,
        "weights are known: clients that pool their averages solve for all models where they are as many as the "
        "others, and one client gets sums of models that hardly change any more over many rounds",
    ),
    Leak(
        Secret.CLASS_PRESENCE,
        Role.SILO,
        Circumstance.ANY,
        "the average is exact, and its last bias tells which labels those who weigh most in it have",
    ),
)
"""What one exact weighted sum a round tells its receiver."""

ALONE = "no two clients pool their averages"


def claim_of(scheme: Scheme, averaging: Scheme, clients: int) -> Claim:
    """The claim of a run.

    Args:
        scheme: computes the averages.
        averaging: adds up figures for the server.
        clients: how many there are.
    """
    parties = Directory.hierarchy(clients, clients)
    first, *others = parties.ids(Role.SILO).tolist()
    topology = Topology.to_client(parties, np.array(others, dtype=np.int64), first, 1, 1)
    inner = scheme.claim_for(topology)
    if not inner.guarantees:
        return Claim((), (*CLEAR_LEAKS, *EMBEDDINGS), inner.assumptions)
    promises = tuple({each.statement: each for each in map(_of_one, reversed(inner.guarantees))}.values())
    figures = averaging.claim_for(Topology.to_server(parties, 1, 1)).assumptions
    leaks = (*inner.leaks_by_design, *AVERAGE_LEAKS, *EMBEDDINGS)
    return Claim(promises, leaks, tuple(dict.fromkeys((*inner.assumptions, *figures, ALONE))))


def _of_one(inner: Guarantee) -> Guarantee:
    """What is promised of one sum, said of the sums of all clients: each of them gets one, so one alone may look."""
    server, client = (min(inner.coalition.get(role, 0), 1) for role in (Role.SERVER, Role.SILO))
    coalition = {role: 1 for role, there in ((Role.SERVER, server), (Role.SILO, client)) if there}
    statement = "the server learns nothing of any model"
    if client:
        who = "the server with one client learns" if server else "one client learns"
        statement = f"{who} of the others' models no more than the weighted sum that this client gets, round by round"
    return replace(inner, coalition=coalition, statement=statement)
