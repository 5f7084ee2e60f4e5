"""Clients of FedSpray (KDD 2024): large Louvain communities or the authors' files, and the graph of their nodes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fgl_secure.errors import DataNotFoundError, InputError, UnknownNameError
from fgl_secure.graph import FederatedGraph, Graph, SplitMasks
from fgl_secure.graph.attributed_graph import integers, read_only
from fgl_secure.graph.own_files import DATA_VARIABLE, chosen_folder
from fgl_secure.graph.partition import louvain_communities, seeded_generator

DROPPED = -1
"""The client number of a node without a client."""
TRAIN, VALIDATION = 0.4, 0.3
"""Shares of the training and validation nodes of every client; the rest tests."""


def louvain_floor(graph: Graph, floor: int, seed: int) -> NDArray[np.int64]:
    """Make every Louvain community with enough nodes a client, and drop the others (section 3.3).

    Args:
        graph: the graph.
        floor: fewest nodes of a client, at least 1.
        seed: repeats the communities under one version of networkx.

    Returns:
        The client of each node, int64 [n]: 0 is the largest community, and -1 means dropped.

    Raises:
        InputError: an argument is out of range, or no community is large enough.
    """
    if floor < 1:
        raise InputError(f"floor must be at least 1 node; found {floor}")
    communities = louvain_communities(graph, seed)
    largest = max(len(community) for community in communities)
    if largest < floor:
        raise InputError(
            f"floor must be at most {largest}, the size of the largest Louvain community of {graph.name}; found {floor}"
        )
    clients = sorted((c for c in communities if len(c) >= floor), key=lambda nodes: (-len(nodes), min(nodes)))
    client_of = np.full(graph.num_nodes, DROPPED, dtype=np.int64)
    for client, community in enumerate(clients):
        client_of[list(community)] = client
    return client_of


def kept_clients(graph: Graph, client_of: ArrayLike, seed: int, partition: str = "louvain-floor") -> FederatedGraph:
    """Omit nodes without a client, renumber the others, and split the nodes of every client.

    Edges between clients stay: `FederatedGraph.restricted_to_silos` drops them, as FedSpray does.

    Args:
        graph: the graph, n nodes.
        client_of: integers [n], 0..K-1 or -1 for a node that is omitted; see `louvain_floor`, `fedspray_partition`.
        seed: repeats the split.
        partition: name of the assignment in tables.

    Raises:
        InputError: an argument breaks one of these rules, or a client has no node.
    """
    clients = integers("client_of", client_of)
    if clients.shape != (graph.num_nodes,):
        raise InputError(f"client_of must have shape ({graph.num_nodes},), one a node; found shape {clients.shape}")
    if clients.min() < DROPPED:
        node = int(np.argmax(clients < DROPPED))
        raise InputError(f"client_of must be a client or {DROPPED}; node {node} has {clients[node]}")
    kept = np.flatnonzero(clients != DROPPED)
    if not len(kept):
        raise InputError(f"client_of must give at least one node to a client; found only {DROPPED}")
    split = per_client_split(clients[kept], seed)
    return FederatedGraph.from_assignment(induced_subgraph(graph, kept), clients[kept], split, partition)


def per_client_split(client_of: NDArray[np.int64], seed: int) -> SplitMasks:
    """Split the nodes of every client separately, uniformly at random, without regard to their labels.

    The two cuts are rounded as in `random_split`, but every client has a training node.

    Args:
        client_of: int64 [n] in 0..K-1, the client of each node; every client has a node.
        seed: repeats the split.

    Raises:
        InputError: a client has no node; the message names it.
    """
    sizes = np.bincount(client_of) if len(client_of) else np.zeros(1, dtype=np.int64)
    if not sizes.all():
        raise InputError(f"client_of must give every client a node; client {int(np.argmin(sizes))} has none")
    shuffled = seeded_generator(seed).permutation(len(client_of))
    by_client = shuffled[np.argsort(client_of[shuffled], kind="stable")]
    rank = np.empty(len(client_of), dtype=np.int64)
    rank[by_client] = np.arange(len(client_of)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    train_end = np.maximum(np.rint(sizes * TRAIN), 1)[client_of]
    validation_end = np.rint(sizes * (TRAIN + VALIDATION))[client_of]
    return SplitMasks(
        train=rank < train_end,
        validation=(rank >= train_end) & (rank < validation_end),
        test=(rank >= train_end) & (rank >= validation_end),
    )


def induced_subgraph(graph: Graph, nodes: NDArray[np.int64]) -> Graph:
    """Return the graph of some nodes and all edges between them; its node i is `nodes[i]`.

    Args:
        graph: the graph.
        nodes: int64 [n'], ascending, none twice, at least one.
    """
    number = np.full(graph.num_nodes, -1, dtype=np.int64)
    number[nodes] = np.arange(len(nodes))
    edges = number[graph.edges]
    # Nodes keep their order, and so do edges: what was checked once holds, and is not copied a second time.
    return Graph(
        graph.name,
        read_only(graph.features_of(nodes)),
        read_only(graph.labels[nodes]),
        read_only(edges[:, (edges >= 0).all(axis=0)]),
        graph.image_shape,
    )


FOLDER = "FedSpray-partitions"
FEDSPRAY_NODES: Mapping[str, int] = MappingProxyType({"PubMed": 19717, "Physics": 34493})
"""Graphs with published partitions, and their numbers of nodes."""


def fedspray_partition(name: str, data_root: str | os.PathLike[str] | None = None) -> NDArray[np.int64]:
    """Read the published client of each node: 7 clients of PubMed, 12 of Physics.

    The files are numbered with gaps; clients are numbered 0..K-1 in the order of the files.

    Args:
        name: "PubMed" or "Physics", in upper or lower case.
        data_root: Holds FedSpray-partitions/<name>_*.txt; by default the environment variable FGL_SECURE_DATA.

    Returns:
        The client of each node, int64 [n]; -1 means that no client has it.

    Raises:
        UnknownNameError: There is no such partition.
        DataNotFoundError: The files are not there.
        InputError: A file has something else than node numbers, or a node twice; the message names the file.
    """
    known = {graph.casefold(): graph for graph in FEDSPRAY_NODES}
    if name.casefold() not in known:
        raise UnknownNameError("FedSpray partition", name, tuple(FEDSPRAY_NODES))
    graph = known[name.casefold()]
    client_of = np.full(FEDSPRAY_NODES[graph], DROPPED, dtype=np.int64)
    for client, file in enumerate(_files(graph, chosen_folder(data_root, DATA_VARIABLE))):
        nodes = _nodes(file, len(client_of))
        taken = nodes[client_of[nodes] != DROPPED]
        if len(taken):
            raise InputError(f"{file.name} must not have a node of another client; it has node {taken[0]}")
        client_of[nodes] = client
    return client_of


def _files(graph: str, root: Path | None) -> list[Path]:
    folder = None if root is None else root / FOLDER
    files = [] if folder is None else sorted(folder.glob(f"{graph}_*.txt"))
    if not files:
        raise DataNotFoundError(
            f"data_root must hold {FOLDER}/{graph}_*.txt, the files of FedSpray's public repository under partition/; "
            f"not in {folder}. Give data_root or set {DATA_VARIABLE}"
        )
    return files


def _nodes(file: Path, num_nodes: int) -> NDArray[np.int64]:
    """Return the node numbers of one file, which are written as floats."""
    try:
        values = np.array(file.read_text(encoding="utf-8").split(), dtype=np.float64)
    except ValueError as error:
        raise InputError(f"{file.name} must have one node number a line; {error}") from None
    wrong = ~((values >= 0) & (values < num_nodes) & (values == np.floor(values)))
    if wrong.any() or not len(values):
        result = values[int(np.argmax(wrong))] if len(values) else "none"
        raise InputError(f"{file.name} must have node numbers in 0..{num_nodes - 1}; found {result}")
    nodes = values.astype(np.int64)
    if len(np.unique(nodes)) < len(nodes):
        raise InputError(f"{file.name} must have each node once; found {len(nodes) - len(np.unique(nodes))} repeated")
    return nodes
