"""Assigning the nodes of one graph to silos, as the literature does it for experiments."""

from __future__ import annotations

import heapq
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from fgl_secure.errors import InputError, UnknownNameError
from fgl_secure.graph.attributed_graph import Graph
from fgl_secure.graph.split import seeded_generator


def _pack_groups(groups: Iterable[Collection[int]], silos: int) -> NDArray[np.int64]:
    """Split what is too large, and pack the pieces into silos, the largest first.

    With n nodes and K silos, a silo has room for n // K nodes. A group above that is split in two, the first n // K of
    its nodes by number and the rest, until none is larger. The K largest pieces go to a silo each, and every further
    piece to the first silo that has room for it. The paper doesn't say what happens to a piece that fits nowhere; here,
    as in its public code, it goes to the smallest silo. So every silo has a node, and some are larger than n // K.

    Args:
        groups: Sets of nodes; together each of 0..n-1 once.
        silos: The number of silos K, 1..n.

    Returns:
        The silo of each node, int64 [n] in 0..K-1.
    """
    ordered = [sorted(group) for group in groups]
    n = sum(len(group) for group in ordered)
    pieces = [group[start : start + n // silos] for group in ordered for start in range(0, len(group), n // silos)]
    pieces.sort(key=lambda piece: (-len(piece), piece[0]))
    silo_of = np.empty(n, dtype=np.int64)
    sizes = np.zeros(silos, dtype=np.int64)
    for place, piece in enumerate(pieces):
        silo = place if place < silos else _first_with_room(sizes, len(piece), n // silos)
        silo_of[piece] = silo
        sizes[silo] += len(piece)
    return silo_of


def pack_in_turn(groups: Iterable[Collection[int]], silos: int, delta: int) -> NDArray[np.int64]:
    """Cut what is too large, and fill one silo after the other, as FedSage+ (NeurIPS 2021) does.

    With n nodes and M silos, a group above n // M - delta nodes is cut into pieces of that size. Pieces are dealt by
    falling size. A silo takes pieces until one would bring it to n // M + delta nodes or more, or until it has n // M;
    then the next silo that may takes over. A piece that fits nowhere goes to the smallest silo. The last pieces go to
    silos that would stay empty otherwise.

    Args:
        groups: Sets of nodes; together each of 0..n-1 once.
        silos: The number of silos M, 1..n.
        delta: 0 .. n // M - 1.

    Returns:
        The silo of each node, int64 [n] in 0..M-1; every silo has a node.
    """
    ordered = [sorted(group) for group in groups]
    n = sum(len(group) for group in ordered)
    size = n // silos - delta
    pieces = [group[start : start + size] for group in ordered for start in range(0, len(group), size)]
    pieces.sort(key=lambda piece: (-len(piece), piece[0]))
    silo_of = np.empty(n, dtype=np.int64)
    sizes = np.zeros(silos, dtype=np.int64)
    silo = 0
    for place, piece in enumerate(pieces):
        if len(pieces) - place == np.count_nonzero(sizes == 0):
            silo = int(np.argmin(sizes))
        else:
            silo = _next_with_room(sizes, silo, len(piece), n // silos, delta)
        silo_of[piece] = silo
        sizes[silo] += len(piece)
    return silo_of


def _next_with_room(sizes: NDArray[np.int64], silo: int, added: int, share: int, delta: int) -> int:
    # An empty silo has room even where delta is 0 and the piece is a whole share.
    fits = (sizes < share) & ((sizes + added < share + delta) | (sizes == 0))
    turn = (silo + np.arange(len(sizes))) % len(sizes)
    return int(turn[np.argmax(fits[turn])] if fits.any() else np.argmin(sizes))


def _first_with_room(sizes: NDArray[np.int64], added: int, room: int) -> int:
    fits = sizes + added <= room
    return int(np.argmax(fits) if fits.any() else np.argmin(sizes))


FED2GNN_DELTA = 40
"""Fed2GNN's "Louvain split parameter" (table of hyper-parameters in appendix D)."""


def _dealt(graph: Graph, silos: int, seed: int) -> NDArray[np.int64]:
    """Deal the shuffled nodes to the silos in turn: sizes differ by at most one, and almost every edge crosses silos.

    The setting of HiFGL (section 5.1).
    """
    silo_of = np.empty(graph.num_nodes, dtype=np.int64)
    silo_of[seeded_generator(seed).permutation(graph.num_nodes)] = np.arange(graph.num_nodes) % silos
    return silo_of


def louvain_communities(graph: Graph, seed: int) -> list[Collection[int]]:
    """Return the Louvain communities of a graph (Blondel et al. 2008), without regard to the direction of edges.

    Args:
        graph: the graph.
        seed: repeats them under one version of networkx.

    Returns:
        Sets of nodes, together each node once.

    Raises:
        InputError: `seed` is negative.
    """
    import networkx as nx  # noqa: PLC0415 # takes a quarter of a second

    undirected = nx.Graph()
    undirected.add_nodes_from(range(graph.num_nodes))
    undirected.add_edges_from(graph.edges.T.tolist())
    # networkx wants its own seed: drawing one here also refuses a negative seed.
    communities: list[Collection[int]] = nx.community.louvain_communities(
        undirected, seed=int(seeded_generator(seed).integers(2**31))
    )
    return communities


def _whole_communities(graph: Graph, silos: int, seed: int) -> NDArray[np.int64]:
    """Pack Louvain communities whole into silos: the largest first, into the smallest silo so far.

    The setting of subgraph federated learning (FedSage+, FedSpray and others): few edges cross silos. The sizes of the
    silos may differ.
    """
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


def _draw_silos(graph: Graph, silos: int, seed: int) -> NDArray[np.int64]:
    """Draw the silo of every node independently and uniformly, so that sizes are binomial.

    What the experiments of FedStruct (ICLR 2025) call random. In a small graph a silo may stay empty, which
    `FederatedGraph` refuses.
    """
    return seeded_generator(seed).integers(silos, size=graph.num_nodes, dtype=np.int64)


def _packed_communities(graph: Graph, silos: int, seed: int) -> NDArray[np.int64]:
    """Split Louvain communities above n/K nodes, and pack them into silos of about equal size.

    The Louvain setting of FedStruct (ICLR 2025, appendix F), which follows FedSage+; `_pack_groups` says how ties and
    leftovers go.
    """
    return _pack_groups(louvain_communities(graph, seed), silos)


def _cut_communities(graph: Graph, silos: int, seed: int) -> NDArray[np.int64]:
    """Cut Louvain communities above n/M - delta nodes, and pack the pieces up to n/M + delta.

    The setting of FedSage+ (NeurIPS 2021) with M silos, which Fed2GNN takes with delta 40 (its table of settings); here
    it is half of n // M in a graph where that is less. `pack_in_turn` says how pieces are dealt.
    """
    delta = min(FED2GNN_DELTA, graph.num_nodes // silos // 2)
    return pack_in_turn(louvain_communities(graph, seed), silos, delta)


def _clusters(graph: Graph, silos: int, seed: int) -> NDArray[np.int64]:
    """Find K clusters of nodes with similar features, split those above n/K nodes, and move the rest to other silos.

    The K-means setting of FedStruct (ICLR 2025, appendix F): silos have unlike features and labels. Edges are not
    looked at. Where fewer than K feature vectors differ there are fewer clusters, and splitting alone makes up for it.
    """
    from sklearn.cluster import KMeans  # noqa: PLC0415 (seconds that only this partition needs)
    from sklearn.exceptions import ConvergenceWarning  # noqa: PLC0415

    search = KMeans(silos, n_init=1, random_state=int(seeded_generator(seed).integers(2**31)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer different nodes than silos, which is said above
        cluster = search.fit_predict(graph.features)
    return _pack_groups([np.flatnonzero(cluster == k).tolist() for k in range(silos)], silos)


PARTITIONS: Mapping[str, Callable[[Graph, int, int], NDArray[np.int64]]] = MappingProxyType(
    {
        "random": _dealt,
        "louvain": _whole_communities,
        "binomial": _draw_silos,
        "louvain-packed": _packed_communities,
        "louvain-delta": _cut_communities,
        "kmeans": _clusters,
    }
)


def partition(name: str, graph: Graph, silos: int, seed: int) -> NDArray[np.int64]:
    """Assign the nodes of a graph to silos by the partition of that name.

    Args:
        name: One of `PARTITIONS`: "random", silos of equal size; "louvain", whole communities; "binomial", a silo drawn
            for each node; "louvain-packed" and "louvain-delta", communities that are split for silos of about equal
            size; "kmeans", nodes with similar features. The direction of edges is ignored.
        graph: The graph.
        silos: The number of silos, 1..n; for "louvain" at most the number of communities.
        seed: Repeats the partition, under one version of networkx or scikit-learn.

    Returns:
        The silo of each node, int64 [n] in 0..silos-1; every silo has a node, but of "binomial".

    Raises:
        UnknownNameError: There is no partition of that name.
        InputError: `silos` or `seed` is out of range.

    Examples:
        partition("louvain", graph, silos=5, seed=0)
    """
    if name not in PARTITIONS:
        raise UnknownNameError("partition", name, tuple(PARTITIONS))
    if not 1 <= silos <= graph.num_nodes:
        raise InputError(f"silos must be in 1..{graph.num_nodes}, the number of nodes; found {silos}")
    return PARTITIONS[name](graph, silos, seed)
