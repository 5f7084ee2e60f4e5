"""What one silo holds of a federated graph, and what every party knows of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph, Graph
from fgl_secure.graph.attributed_graph import read_only
from fgl_secure.private_files import write_private
from fgl_secure.runtime.packing import Arrays, named_from_bytes, named_to_bytes, under, within
from fgl_secure.runtime.transcript import Numbers, narrow
from fgl_secure.typing import Ids

_Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Facts:
    """What every party knows before a run.

    Attributes:
        sizes: nodes of each silo.
        features: d, of a node.
        classes: of labels.
        labelled: training nodes of all silos together.
        largest_degree: a bound on the edges along which rows travel that end in one node, and that start in one.
        name: what the graph is called.
        feature_bits: behind the binary point of any feature, as its description says: 0 where they are integers; None
            where they are any real numbers.
        large_features: whether a feature exceeds 4 in magnitude or those of a node add up to more than 32; ranges of
            sums are found then, see `Ranges`.
    """

    sizes: tuple[int, ...]
    features: int
    classes: int
    labelled: int
    largest_degree: int
    name: str = ""
    feature_bits: int | None = None
    large_features: bool = False

    @property
    def silos(self) -> int:
        """K."""
        return len(self.sizes)

    @property
    def nodes(self) -> int:
        """n, of all silos together."""
        return sum(self.sizes)


@dataclass(frozen=True, slots=True, eq=False)
class Silo:
    """What one silo holds: its nodes, all edges that end or start in one, and who has their other ends.

    Attributes:
        facts: what every party knows.
        silo: its number.
        nodes: int64 [m], the numbers of its nodes in the whole graph, ascending.
        features: float32 [m, d].
        labels: int64 [m].
        train: bool [m].
        validation: bool [m].
        test: bool [m].
        degrees: int64 [m], how many neighbours each node has, also those that it does not exchange rows with.
        kept_edges: [2, e], numbers of sources above those of targets, sorted by target, then source; one end of each
            is the silo's, or both; int32 where that holds them, see `edges`.
        foreign: int64 [f, 3], for each end that is not: its number, ascending, its silo, and its place among the nodes
            of that silo.
        own: what else it holds where its method has need of it, arrays by name.
    """

    facts: Facts
    silo: int
    nodes: Ids
    features: NDArray[np.float32]
    labels: Ids
    train: _Mask
    validation: _Mask
    test: _Mask
    degrees: Ids
    kept_edges: Numbers
    foreign: Ids
    own: Arrays = field(default_factory=dict)

    def __post_init__(self) -> None:
        size = self.facts.sizes[self.silo] if 0 <= self.silo < self.facts.silos else -1
        if size != len(self.nodes):
            raise InputError(f"silo must be one of {self.facts.silos} with {size} nodes; found {len(self.nodes)}")
        rows = {name: len(getattr(self, name)) for name in _ROWS}
        if set(rows.values()) != {size} or self.kept_edges.shape[:1] != (2,) or self.foreign.shape[1:] != (3,):
            raise InputError(f"share must have {size} rows of everything and edges of two ends; found {rows}")
        ends = np.union1d(self.nodes, self.foreign[:, 0])
        if not np.isin(self.kept_edges, ends).all() or not np.logical_or(*self.inside).all():
            raise InputError(
                "edges must have an end in the silo, and the other one there or among foreign; one has not"
            )
        # Check what arrays are looked up by: a file may name places that no silo has.
        numbers, silos, places = self.foreign.T
        if not (_ascends(self.nodes) and _ascends(numbers) and not np.isin(numbers, self.nodes).any()):
            raise InputError("nodes and foreign must be numbers from 0 that ascend, and have none in common")
        sizes = np.asarray(self.facts.sizes)
        known = (silos >= 0) & (silos < self.facts.silos) & (silos != self.silo) & (places >= 0)
        if not known.all() or not (places < sizes[silos]).all():
            raise InputError("foreign must name another silo and one of its places; at least one row does not")
        if self.labels.size and not 0 <= int(self.labels.min()) <= int(self.labels.max()) < self.facts.classes:
            raise InputError(f"labels must lie in 0..{self.facts.classes - 1}; at least one does not")

    @classmethod
    def of(
        cls, graph: FederatedGraph, silo: int, message_graph: FederatedGraph | None = None, facts: Facts | None = None
    ) -> Silo:
        """Cuts a silo out of a whole graph, where a party has it: for simulations and for tests.

        Args:
            graph: who has what.
            silo: its number.
            message_graph: the graph along whose edges rows travel; all of them unless given.
            facts: what every party knows, where it has been worked out.

        Raises:
            InputError: there is no such silo.
        """
        devices = graph.devices_of(silo)
        inside = graph.silo_of == silo
        edges = (message_graph or graph).edges
        edges = edges[:, inside[edges[0]] | inside[edges[1]]]
        ends = np.unique(edges)
        foreign = ends[~inside[ends]]
        places = np.empty(graph.num_devices, dtype=np.int64)
        for other in range(graph.num_silos):
            places[graph.silo_of == other] = np.arange((graph.silo_of == other).sum())
        table = np.stack([foreign, graph.silo_of[foreign], places[foreign]], axis=1)
        masks = (graph.train_mask[devices], graph.validation_mask[devices], graph.test_mask[devices])
        labels = np.maximum(graph.labels[devices], 0)  # a node without one is in no mask
        rows = (graph.graph.features_of(devices), labels, *masks, graph.in_degree[devices].astype(np.int64))
        facts = facts or facts_of(graph, message_graph)
        return cls(facts, silo, devices, *rows, narrow(edges, graph.num_devices), table)

    @classmethod
    def all_of(cls, graph: FederatedGraph, message_graph: FederatedGraph | None = None) -> list[Silo]:
        """Cuts a whole graph into all its silos; see `of`."""
        facts = facts_of(graph, message_graph)
        return [cls.of(graph, silo, message_graph, facts) for silo in range(graph.num_silos)]

    @property
    def alone(self) -> FederatedGraph:
        """The nodes of the silo and the edges between them, numbered from 0."""
        edges = self.local(self.kept_edges[:, np.logical_and(*self.inside)])
        labels, zeros = read_only(self.labels), np.zeros(len(self.labels), dtype=np.int64)
        graph = Graph(self.facts.name, read_only(self.features), labels, read_only(edges))
        return FederatedGraph(graph, read_only(zeros), self.train, self.validation, self.test, "own")

    @property
    def edges(self) -> Ids:
        """int64 [2, e], see `kept_edges`; laid out anew."""
        return self.kept_edges.astype(np.int64)

    @property
    def others(self) -> list[int]:
        """The numbers of all other silos."""
        return [silo for silo in range(self.facts.silos) if silo != self.silo]

    def local(self, numbers: Ids) -> Ids:
        """The places of own nodes among them."""
        return np.searchsorted(self.nodes, numbers)

    @property
    def neighbour_counts(self) -> Ids:
        """int64 [m]: from how many neighbours each node hears."""
        return np.bincount(self.local(self.kept_edges[1, self.inside[1]]), minlength=len(self.nodes)).astype(np.int64)

    @property
    def inside(self) -> tuple[_Mask, _Mask]:
        """Whether the source, and the target, of each edge is the silo's: bool [e] each."""
        source, target = np.isin(self.kept_edges, self.nodes)
        return source, target

    def owners(self, numbers: Ids) -> tuple[Ids, Ids]:
        """The silos of nodes that this one knows of, and their places there."""
        is_own = np.isin(numbers, self.nodes)
        silos, places = np.full(len(numbers), self.silo), np.empty(len(numbers), dtype=np.int64)
        places[is_own] = self.local(numbers[is_own])
        row = np.searchsorted(self.foreign[:, 0], numbers[~is_own])
        silos[~is_own], places[~is_own] = self.foreign[row, 1], self.foreign[row, 2]
        return silos, places

    def save(self, path: Path) -> None:
        """Write the share into a file of plain arrays that only its owner reads; see `write_private`.

        Raises:
            InputError: the file cannot be written.
        """
        values = {name: getattr(self.facts, name) for name in _FACTS}
        facts = {name: np.asarray(-1 if fact is None else fact, dtype=np.int64) for name, fact in values.items()}
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        arrays["name"] = np.frombuffer(self.facts.name.encode(), dtype=np.uint8)
        number = np.asarray(self.silo, dtype=np.int64)
        parts = {"silo": number, **under("facts", facts), **under("own", self.own), **arrays}
        write_private(path, named_to_bytes(parts))

    @classmethod
    def load(cls, path: Path) -> Silo:
        """Reads a file that `save` wrote.

        Raises:
            MalformedMessageError: it holds something else.
            InputError: something is missing, of another kind, or does not fit together.
        """
        result = named_from_bytes(path.read_bytes())
        kinds = {
            "silo": ("<i8", 0),
            "name": ("|u1", 1),
            **{f"facts/{name}": kind for name, kind in _FACTS.items()},
            **_ARRAYS,
        }
        for name, kind in kinds.items():
            if name not in result or (result[name].dtype.str, result[name].ndim) != kind:
                raise InputError(f"{path.name} must hold {name} of type {kind[0]} with {kind[1]} axes; it does not")
        apart = ("sizes", "feature_bits", "large_features")
        facts = {name: int(result[f"facts/{name}"]) for name in _FACTS if name not in apart}
        sizes, bits = tuple(result["facts/sizes"].tolist()), int(result["facts/feature_bits"])
        large = bool(result["facts/large_features"])
        called = result["name"].tobytes().decode("utf-8", errors="replace")
        arrays, own = {name: result[name] for name in _ARRAYS if name != "edges"}, within("own", result)
        arrays["kept_edges"] = narrow(result["edges"])
        known = Facts(sizes, **facts, name=called, feature_bits=None if bits < 0 else bits, large_features=large)
        return cls(known, int(result["silo"]), own=own, **arrays)


def _ascends(numbers: Ids) -> bool:
    return bool((np.diff(numbers, prepend=-1) > 0).all())


_ROWS = ("features", "labels", "train", "validation", "test", "degrees")
_FACTS = {
    "sizes": ("<i8", 1),
    **dict.fromkeys(
        ("features", "classes", "labelled", "largest_degree", "feature_bits", "large_features"), ("<i8", 0)
    ),
}
_ARRAYS = {
    "nodes": ("<i8", 1),
    "features": ("<f4", 2),
    "labels": ("<i8", 1),
    **dict.fromkeys(("train", "validation", "test"), ("|b1", 1)),
    "degrees": ("<i8", 1),
    "edges": ("<i8", 2),
    "foreign": ("<i8", 2),
}
"""Type and number of axes of what a file holds."""


def facts_of(graph: FederatedGraph, message_graph: FederatedGraph | None = None) -> Facts:
    """What every party knows of a whole graph, and of the one along whose edges rows travel."""
    sizes = tuple(int(size) for size in np.bincount(graph.silo_of))
    sent_along = graph if message_graph is None else message_graph
    largest = max(int(sent_along.in_degree.max()), int(np.bincount(sent_along.edges[0], minlength=1).max()))
    attributed, labelled = graph.graph, int(graph.train_mask.sum())
    shape = attributed.num_features, graph.num_classes, labelled, largest
    return Facts(sizes, *shape, attributed.name, attributed.feature_bits, attributed.has_large_features)
