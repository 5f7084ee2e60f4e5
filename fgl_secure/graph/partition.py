"""Which silo has which node, as the literature deals them, and which nodes train, choose and test a model."""

from __future__ import annotations

import heapq
import math
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fgl_secure.errors import InputError, UnknownNameError
from fgl_secure.graph.attributed_graph import Graph, as_array, integers

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class SplitMasks:
    """Three disjoint sets of nodes. A node may be in none of them.

    Attributes:
        train: bool [n], the nodes whose labels train the model.
        validation: bool [n], the nodes whose labels choose the model.
        test: bool [n], the nodes whose labels only score it.
    """

    train: NDArray[np.bool_]
    validation: NDArray[np.bool_]
    test: NDArray[np.bool_]


def random_split(n: int, seed: int, fractions: tuple[float, float, float] = (0.6, 0.2, 0.2)) -> SplitMasks:
    """Split n nodes uniformly at random, without regard to their labels or silos.

    The two cuts through the shuffled nodes are rounded, not the three sizes: so every node falls into one set, and
    each size is less than one node away from its fraction of n.

    Args:
        n: The number of nodes, at least 1.
        seed: Repeats the split. A split is no secret, so numpy's generator is good enough for it.
        fractions: Shares of training, validation and test nodes, 0 or more, with sum 1.

    Returns:
        The masks of the three sets, bool [n] each.

    Raises:
        InputError: An argument breaks one of these rules.

    Examples:
        >>> int(random_split(10, seed=0).train.sum())
        6
    """
    if n < 1:
        raise InputError(f"n must be at least 1; found {n}")
    if min(fractions) < 0 or not math.isclose(sum(fractions), 1.0, abs_tol=1e-9):
        raise InputError(f"fractions must be 0 or more, with sum 1; found {fractions}")
    order = seeded_generator(seed).permutation(n)
    train_end, validation_end = round(n * fractions[0]), round(n * (fractions[0] + fractions[1]))
    rank = np.empty(n, dtype=np.int64)
    rank[order] = np.arange(n)
    return SplitMasks(
        train=rank < train_end, validation=(rank >= train_end) & (rank < validation_end), test=rank >= validation_end
    )


def seeded_generator(seed: int) -> np.random.Generator:
    """A generator for choices that are no secret: splits and partitions.

    Raises:
        InputError: The seed is negative.
    """
    if seed < 0:
        raise InputError(f"seed must be 0 or more; found {seed}")
    return np.random.default_rng(seed)


def read_mask(name: str, values: Any, number: int, *, split: int | None = None, thing: str = "node") -> Mask:
    """Return a mask as bool [number], from any form that says clearly what is in it.

    Args:
        name: What the mask is called in messages.
        values: True or False, or 0 or 1, of shape [number] or [number, 1]; or [number, k], of which a column is taken;
            or the numbers of the things that are in the mask, each once. An array or tensor of any type, or a list.
        number: The number of things.
        split: The column that is taken of [number, k].
        thing: What is in the mask, for messages.

    Raises:
        InputError: It is none of these, or has several columns and `split` is none of them.
    """
    array = as_array(name, values)
    result = f"found {array.dtype} of shape {array.shape}"
    if array.ndim == 2 and len(array) == number:
        columns = array.shape[1]
        if columns > 1 and split is None:
            raise InputError(
                f"{name} must hold one split; {result}: choose a column with split=0 to {columns - 1}, or --split"
            )
        if isinstance(split, bool) or not isinstance(split or 0, int | np.integer) or not 0 <= (split or 0) < columns:
            raise InputError(f"split must be a column of {name}, 0..{columns - 1}; found {split!r}")
        array = array[:, split or 0]
    if array.shape == (number,) and np.isin(array, (0, 1)).all():
        return array.astype(np.bool_)
    # numpy makes floats of an empty list of numbers
    if array.ndim == 1 and (array.dtype.kind in "iu" or (array.dtype.kind == "f" and not array.size)):
        mask = np.zeros(number, dtype=np.bool_)
        if not array.size or (array.min() >= 0 and array.max() < number and len(np.unique(array)) == len(array)):
            mask[array.astype(np.int64)] = True
            return mask
    hint = ", with other values than 0 and 1" if array.shape == (number,) else ""
    raise InputError(
        f"{name} must be bool of shape ({number},), one entry a {thing} (or 0 and 1, or the numbers of its {thing}s, "
        f"each once); {result}{hint}"
    )


def check_disjoint(masks: Mapping[str, Mask], thing: str) -> None:
    """Raise unless nothing is in two masks.

    Raises:
        InputError: Something is; the message names it and the masks.
    """
    shared = np.sum(list(masks.values()), axis=0) > 1
    if shared.any():
        first = int(np.argmax(shared))
        names = " and ".join(name for name, mask in masks.items() if mask[first])
        raise InputError(f"masks must not overlap; {thing} {first} is in more than one: {names}")


_Masks = tuple[Mask, Mask, Mask]


@dataclass(frozen=True, slots=True)
class AssignmentRules:
    """What things are called in messages.

    Attributes:
        argument: the assignment, such as "silo_of".
        thing: what is assigned, such as "node".
        owner: to whom, such as "silo".
    """

    argument: str
    thing: str
    owner: str

    def checked_owners(self, values: ArrayLike, number: int) -> NDArray[np.int64]:
        """The owner of each thing, int64 [number] in 0..K-1, no owner left out.

        Raises:
            InputError: They are not; the message names the thing or the owner.
        """
        owner_of = integers(self.argument, values)
        if owner_of.shape != (number,):
            raise InputError(
                f"{self.argument} must have shape ({number},), one entry a {self.thing}; found shape {owner_of.shape}"
            )
        if owner_of.min() < 0:
            index = int(np.argmax(owner_of < 0))
            raise InputError(
                f"{self.argument} must be 0 or more; {self.thing} {index} has {self.owner} {owner_of[index]}"
            )
        used = np.unique(owner_of)
        skipped = np.flatnonzero(used != np.arange(len(used)))
        if len(skipped):
            raise InputError(
                f"{self.argument} must use every {self.owner} from 0 to {used[-1]}; {self.owner} {skipped[0]} has no "
                f"{self.thing}: number them from 0 on, without gaps"
            )
        return owner_of

    def checked_masks(self, masks: SplitMasks, owner_of: NDArray[np.int64]) -> _Masks:
        """Three disjoint bool masks of the things, the first with one of every owner; see `read_mask` for their forms.

        Raises:
            InputError: They are not; the message names the thing or the owner.
        """
        if not isinstance(masks, SplitMasks):
            raise InputError(f"masks must be SplitMasks(train, validation, test); found {type(masks).__name__}")
        given = {"masks.train": masks.train, "masks.validation": masks.validation, "masks.test": masks.test}
        named = {name: read_mask(name, mask, len(owner_of), thing=self.thing) for name, mask in given.items()}
        check_disjoint(named, self.thing)
        train, validation, test = named.values()
        if not train.any():
            raise InputError(f"masks.train must mark at least one {self.thing}; found none")
        idle = np.bincount(owner_of[train], minlength=int(owner_of.max()) + 1) == 0
        if idle.any():
            raise InputError(
                f"masks.train must mark at least one {self.thing} of every {self.owner}; {self.owner} "
                f"{int(np.argmax(idle))} has no training {self.thing}"
            )
        return train, validation, test


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
            share = n // silos
            fits = (sizes < share) & ((sizes + len(piece) < share + delta) | (sizes == 0))
            turn = (silo + np.arange(len(sizes))) % len(sizes)
            silo = int(turn[np.argmax(fits[turn])] if fits.any() else np.argmin(sizes))
        silo_of[piece] = silo
        sizes[silo] += len(piece)
    return silo_of


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
