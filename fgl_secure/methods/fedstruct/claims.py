"""What FedStruct promises under each exchange, and what it gives away."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fgl_secure.methods.fedstruct.exchange import (
    Exchange,
    FeatureSharing,
    GradientDelivery,
    HopwiseExchange,
    RowExchange,
)
from fgl_secure.methods.fedstruct.program import HOP2VEC
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.topology import NEIGHBOURS, Topology
from fgl_secure.runtime import Circumstance, Claim, Directory, Guarantee, Leak, Role, Secret, Strength

PAPER = "FedStruct (ICLR 2025)"

PUBLISHED = (
    Guarantee(
        Secret.FOREIGN_EDGE,
        {Role.SILO: 1},
        Strength.COMPUTATIONAL,
        "a client cannot reconstruct another's powers of the adjacency from the terms B_ijk, whose factor is of low "
        "rank, and pruning removes any concern",
        f"{PAPER}, App. D.1",
    ),
)
"""What the paper promises of terms in the clear."""

QUERIES_PUBLISHED = (
    Guarantee(
        Secret.STRUCTURE_FEATURE,
        {Role.SILO: 1},
        Strength.COMPUTATIONAL,
        "a client that counts queries keeps others from reconstructing single structure features",
        f"{PAPER}, App. G.1",
    ),
)


def claim_of(exchange: Exchange, features: str, clients: int) -> Claim:
    """The claim of a run.

    Args:
        exchange: how structure is exchanged.
        features: name of the structure features; "hop2vec" learns them.
        clients: how many there are.
    """
    if isinstance(exchange, HopwiseExchange):
        return _hopwise(exchange)
    parts = [_terms(exchange.terms, clients), _features(exchange, features), _gradients(exchange, features)]
    if exchange.k_min > 1 and (features == HOP2VEC or exchange.sharing is FeatureSharing.QUERIES):
        parts.append(_closed_rows(exchange))
    guarantees = tuple(each for part in parts for each in part.guarantees)
    leaks = tuple(each for part in parts for each in part.leaks_by_design)
    return Claim(guarantees, leaks, tuple(dict.fromkeys(each for part in parts for each in part.assumptions)))


def _terms(scheme: Scheme | None, clients: int) -> Claim:
    if scheme is None:
        return Claim(PUBLISHED, (), ("clients follow the protocol",))
    parties = Directory.hierarchy(clients, clients)
    first, *others = parties.ids(Role.SILO).tolist()
    topology = Topology.to_client(parties, np.array(others, dtype=np.int64), first, 1, 1)
    inner = scheme.claim_for(topology)
    edges = Leak(
        Secret.FOREIGN_EDGE,
        Role.SILO,
        Circumstance.ANY,
        "a client's rows of the powers tell it edges between nodes of other clients: hiding single terms does not "
        "change what their sum says",
    )
    sizes = Leak(
        Secret.SUMMAND,
        Role.SERVER,
        Circumstance.ANY,
        "all parties learn about how many entries each client's rows of a power have, from the cells it asks for, and "
        "a bound on degrees; nobody learns how many a single term has",
    )
    return Claim(inner.guarantees, (*inner.leaks_by_design, edges, sizes), inner.assumptions)


def _features(exchange: RowExchange, features: str) -> Claim:
    if exchange.sharing is FeatureSharing.QUERIES:
        asked = Leak(
            Secret.FOREIGN_EDGE,
            Role.SILO,
            Circumstance.ANY,
            "a client that is asked learns the weights: which nodes of the requester reach which of its own; and which "
            "of them train the model, for these ask first",
        )
        if exchange.rule is None:
            return Claim(QUERIES_PUBLISHED, (asked,), ("clients follow the protocol",))
        rule = exchange.rule
        who = "all requesters together" if exchange.pooled else "one requester"
        solved = Guarantee(
            Secret.STRUCTURE_FEATURE,
            {Role.SILO: 1},
            Strength.PERFECT,
            f"no linear combination of the answers to {who} is the embedding of one node: its leverage stays at "
            f"{rule.most_leverage:g} or below, over the whole run",
            "audit of the row space of queries",
        )
        near = Leak(
            Secret.LABEL,
            Role.SILO,
            Circumstance.ANY,
            "answers are exact weighted sums: a leverage below 1 is no guarantee of differential privacy, and what it "
            "leaves can be estimated",
        )
        return Claim((solved,), (asked, near), ("clients follow the protocol",))
    identity = tuple(
        Leak(secret, Role.SILO, Circumstance.ANY, statement)
        for secret, statement in (
            (Secret.STRUCTURE_FEATURE, "every client holds the structure features of all nodes"),
            (Secret.IDENTITY, "structure features recognise nodes that are known from elsewhere"),
            (Secret.DEGREE, "structure features tell degrees and surroundings"),
        )
    )
    learnt = (
        Leak(Secret.LABEL, Role.SILO, Circumstance.ANY, "learnt structure features tell the labels that they learnt"),
    )
    near = Leak(
        Secret.FOREIGN_EDGE,
        Role.SILO,
        Circumstance.SHARED_FEATURES,
        "nodes with similar features are likely neighbours",
    )
    return Claim((), (*identity, near, *(learnt if features == HOP2VEC else ())), ())


def _gradients(exchange: RowExchange, features: str) -> Claim:
    if features != HOP2VEC:
        return Claim((), (), ())
    labels = Leak(
        Secret.LABEL,
        Role.SERVER,
        Circumstance.ANY,
        "the server reads labels off the gradient of the structure features, also off the sum over clients, in which "
        "rows of different clients barely meet"
        if exchange.k_min == 1
        else "rows of the summed gradient of the structure features that are opened may tell labels of those who "
        "contribute",
    )
    nodes = Leak(
        Secret.FOREIGN_NODE, Role.SERVER, Circumstance.ANY, "the size of a gradient's rows tells who is near to whom"
    )
    if exchange.delivery is GradientDelivery.SERVER:
        return Claim((), (labels, nodes), ())
    sealed = Guarantee(
        Secret.LABEL,
        {Role.SERVER: 1},
        Strength.COMPUTATIONAL,
        "gradients of structure features go to the owners of the nodes, and the server sees none of them",
        "owner-addressed delivery",
    )
    at_owner = Leak(
        Secret.LABEL,
        Role.SILO,
        Circumstance.ANY,
        "the owner of a node learns the gradient of its row, which tells labels of labelled nodes nearby",
    )
    return Claim((sealed,), (at_owner,), ("clients follow the protocol",))


def _closed_rows(exchange: RowExchange) -> Claim:
    """What rows that few clients contribute to tell, and to whom."""
    role = Role.SERVER if exchange.delivery is GradientDelivery.SERVER else Role.SILO
    who = "the server" if role is Role.SERVER else "the owner of a node"
    told = Leak(
        Secret.FOREIGN_NODE,
        role,
        Circumstance.ANY,
        f"{who} learns how many clients contribute to each row of the gradient, and every client which rows are "
        f"opened; those that fewer than {exchange.k_min} contribute to are opened by nobody",
    )
    return Claim((), (told,), ("clients and server follow the protocol",))


def _hopwise(exchange: HopwiseExchange) -> Claim:
    inner = exchange.sums.claim_for(Topology.example(NEIGHBOURS))
    outside = (Role.SERVER, Role.RELAY)  # a client is a silo and all its devices: what hides from one alone is void
    kept = tuple(
        replace(each, coalition={role: count for role, count in each.coalition.items() if role in outside})
        for each in inner.guarantees
        if any(role in outside for role in each.coalition)
    )
    leaks = tuple(each for each in inner.leaks_by_design if each.role in outside)
    return Claim((*kept, *HOPWISE_PROMISES), (*leaks, *HOPWISE_LEAKS), inner.assumptions)


HOPWISE_PROMISES = (
    Guarantee(
        Secret.LABEL,
        {Role.SERVER: 1},
        Strength.COMPUTATIONAL,
        "the server sees neither embeddings nor gradients of structure, and no power of the adjacency",
        "hop-by-hop sums between clients",
    ),
)

HOPWISE_LEAKS = (
    Leak(
        Secret.STRUCTURE_FEATURE,
        Role.SILO,
        Circumstance.ANY,
        "sums over foreign neighbours are exact: where a client's sums can be solved for one of them, above all where "
        "a node has a single one, it reads that neighbour's embedding of every hop; never its structure feature",
    ),
    Leak(
        Secret.FOREIGN_EDGE,
        Role.SILO,
        Circumstance.ANY,
        "from how the embedding of such a neighbour changes from hop to hop, which known nodes are next to it",
    ),
    Leak(
        Secret.LABEL,
        Role.SILO,
        Circumstance.ANY,
        "the gradient that comes back to a node with a single foreign neighbour tells that neighbour's label if it "
        "trains the model; sums of k_min neighbours or more keep single ones apart",
    ),
)
