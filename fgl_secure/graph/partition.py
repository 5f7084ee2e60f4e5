"""Assigning the nodes of one graph to silos, as the literature does it for experiments."""

from __future__ import annotations

import heapq
import warnings
from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from fgl_secure.errors import InputError, UnknownNameError
from fgl_secure.graph.attributed_graph import Graph
from fgl_secure.graph.communities import louvain_communities
from fgl_secure.graph.packing import pack_groups, pack_in_turn
from fgl_secure.graph.split import seeded_generator

Partition = Callable[[Graph, int, int], NDArray[np.int64]]

FED2GNN_DELTA = 40
"""Fed2GNN's "Louvain split parameter" (table of hyper-parameters in appendix D)."""


def random_partition(graph: Graph, silos: int, seed: int) -> NDArray[np.int64]:
    """Deal the shuffled nodes to the silos in turn, so that the sizes differ by at most one.

    The setting of HiFGL (section 5.1): almost every edge crosses silos.

    Args:
        graph: The graph.
        silos: The number of silos, 1..n.
        seed: Repeats the partition.

    Returns:
        The silo of each node, int64 [n] in 0..silos-1.

    Raises:
        InputError: `silos` or `seed` is out of range.
    """
    _check_silos(graph, silos)
    silo_of = np.empty(graph.num_nodes, dtype=np.int64)
    silo_of[seeded_generator(seed).permutation(graph.num_nodes)] = np.arange(graph.num_nodes) % silos
    return silo_of


def louvain_partition(graph: Graph, silos: int, seed: int) -> NDArray[np.int64]:
    """Find Louvain communities and pack them whole into silos: the largest first, into the smallest silo so far.

    The setting of subgraph federated learning (FedSage+, FedSpray and others): few edges cross silos. The sizes of the
    silos may differ. The direction of edges is ignored.

    Args:
        graph: The graph.
        silos: The number of silos, from 1 to the number of communities found.
        seed: Repeats the partition under one version of networkx.

    Returns:
        The silo of each node, int64 [n] in 0..silos-1.

    Raises:
        InputError: `silos` or `seed` is out of range, or there are fewer communities than silos.
    """
    _check_silos(graph, silos)
    communities = louvain_communities(graph, seed)
    if len(communities) < silos:
        raise InputError(
            f"silos must be at most {len(communities)}, the number of Louvain communities of {graph.name}; "
            f"found {silos}"
        )
    silo_of = np.empty(graph.num_nodes, dtype=np.int64)
    load = [(0, silo) for silo in range(silos)]
    for community in sorted(communities, key=lambda nodes: (-len(nodes), min(nodes))):
        size, silo = load[0]
        heapq.heapreplace(load, (size + len(community), silo))
        silo_of[list(community)] = silo
    return silo_of


def binomial_partition(graph: Graph, silos: int, seed: int) -> NDArray[np.int64]:
    """Draw the silo of every node independently and uniformly, so that sizes are binomial.

    What the experiments of FedStruct (ICLR 2025) call random. In a small graph a silo may stay empty, which
    `FederatedGraph` refuses.

    Args:
        graph: The graph.
        silos: The number of silos, 1..n.
        seed: Repeats the partition.

    Returns:
        The silo of each node, int64 [n] in 0..silos-1.

    Raises:
        InputError: `silos` or `seed` is out of range.
    """
    _check_silos(graph, silos)
    return seeded_generator(seed).integers(silos, size=graph.num_nodes, dtype=np.int64)


def packed_louvain_partition(graph: Graph, silos: int, seed: int) -> NDArray[np.int64]:
    """Find Louvain communities, split those above n/K nodes, and pack them into silos of about equal size.

    The Louvain setting of FedStruct (ICLR 2025, appendix F), which follows FedSage+; `pack_groups` says how ties and
    leftovers go. The direction of edges is ignored.

    Args:
        graph: The graph.
        silos: The number of silos, 1..n.
        seed: Repeats the partition under one version of networkx.

    Returns:
        The silo of each node, int64 [n] in 0..silos-1; every silo has a node.

    Raises:
        InputError: `silos` or `seed` is out of range.
    """
    _check_silos(graph, silos)
    return pack_groups(louvain_communities(graph, seed), silos)


def louvain_delta_partition(graph: Graph, silos: int, seed: int, delta: int | None = None) -> NDArray[np.int64]:
    """Find Louvain communities, cut those above n/M - delta nodes, and pack the pieces up to n/M + delta.

    The setting of FedSage+ (NeurIPS 2021) with M silos, which Fed2GNN takes with delta 40 (its table of settings);
    FedSage+ has 20. `pack_in_turn` says how pieces are dealt. The direction of edges is ignored.

    Args:
        graph: The graph.
        silos: The number of silos M, 1..n.
        seed: Repeats the partition under one version of networkx.
        delta: Nodes by which pieces are smaller, and silos may be larger, than n // M; 0 .. n // M - 1. By default 40,
            or half of n // M in a graph where that is less.

    Returns:
        The silo of each node, int64 [n] in 0..silos-1; every silo has a node.

    Raises:
        InputError: An argument is out of range.
    """
    _check_silos(graph, silos)
    share = graph.num_nodes // silos
    slack = min(FED2GNN_DELTA, share // 2) if delta is None else delta
    if not 0 <= slack < share:
        raise InputError(f"delta must be in 0..{share - 1}, below the {share} nodes of an even share; found {slack}")
    return pack_in_turn(louvain_communities(graph, seed), silos, slack)


def kmeans_partition(graph: Graph, silos: int, seed: int) -> NDArray[np.int64]:
    """Find K clusters of nodes with similar features, split those above n/K nodes, and move the rest to other silos.

    The K-means setting of FedStruct (ICLR 2025, appendix F): silos have unlike features and labels. Edges are not
    looked at. Where fewer than K feature vectors differ there are fewer clusters, and splitting alone makes up for it.

    Args:
        graph: The graph.
        silos: The number of silos K, 1..n.
        seed: Repeats the partition under one version of scikit-learn.

    Returns:
        The silo of each node, int64 [n] in 0..silos-1; every silo has a node.

    Raises:
        InputError: `silos` or `seed` is out of range.
    """
    from sklearn.cluster import KMeans  # noqa: PLC0415 (seconds that only this partition needs)
    from sklearn.exceptions import ConvergenceWarning  # noqa: PLC0415

    _check_silos(graph, silos)
    search = KMeans(silos, n_init=1, random_state=int(seeded_generator(seed).integers(2**31)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer different nodes than silos, which is said above
        cluster = search.fit_predict(graph.features)
    return pack_groups([np.flatnonzero(cluster == k).tolist() for k in range(silos)], silos)


PARTITIONS: Mapping[str, Partition] = MappingProxyType(
    {
        "random": random_partition,
        "louvain": louvain_partition,
        "binomial": binomial_partition,
        "louvain-packed": packed_louvain_partition,
        "louvain-delta": louvain_delta_partition,
        "kmeans": kmeans_partition,
    }
)


def partition(name: str, graph: Graph, silos: int, seed: int) -> NDArray[np.int64]:
    """Assign the nodes of a graph to silos by the partition of that name.

    Args:
        name: One of `PARTITIONS`.
        graph: The graph.
        silos: The number of silos.
        seed: Repeats the partition.

    Returns:
        The silo of each node, int64 [n] in 0..silos-1.

    Raises:
        UnknownNameError: There is no partition of that name.
        InputError: As the named partition says.
    """
    if name not in PARTITIONS:
        raise UnknownNameError("partition", name, tuple(PARTITIONS))
    return PARTITIONS[name](graph, silos, seed)


def _check_silos(graph: Graph, silos: int) -> None:
    if not 1 <= silos <= graph.num_nodes:
        raise InputError(f"silos must be in 1..{graph.num_nodes}, the number of nodes; found {silos}")
