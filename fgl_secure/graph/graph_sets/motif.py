"""Motif graphs: a base that says nothing about the label, joined to the motif that is the label.

Written from the description of GOOD-Motif (Gui et al., NeurIPS 2022) and of Spurious-Motif, which it builds on (Wu et
al., ICLR 2022). What the papers leave open is settled here: sizes of bases, see `motif_basis` and `motif_size`; the
motif is joined to the base by one edge between two nodes drawn uniformly; motifs are drawn uniformly; and every node
has the one feature 1, since the papers say that only the structure tells the label.

Spurious-Motif (Wu et al., ICLR 2022) has the bases tree, ladder and wheel and the motifs house, cycle and crane;
GOOD-Motif (Gui et al., NeurIPS 2022) adds star and path. The papers name and draw the shapes; the definitions are ours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from fgl_secure.errors import InputError
from fgl_secure.graph.graph_sets.graph_set import GraphSet, client_split
from fgl_secure.graph.split import seeded_generator

Edges = NDArray[np.int64]

SMALLEST_BASE = 6
"""Below this some bases are no longer what they are called, or are motifs themselves."""


def wheel(nodes: int) -> Edges:
    """A hub, node 0, joined to every node of a ring. Edges [2, 2(n-1)], one direction each."""
    ring = np.arange(1, nodes)
    return np.concatenate([np.stack([np.zeros_like(ring), ring]), np.stack([ring, np.roll(ring, -1)])], axis=1)


def tree(nodes: int) -> Edges:
    """The complete binary tree, whose lowest level fills from the left. Edges [2, n-1], from parent to child."""
    child = np.arange(1, nodes)
    return np.stack([(child - 1) // 2, child])


def ladder(nodes: int) -> Edges:
    """Two rails with a rung between any two opposite nodes; an odd node ends one rail. One direction each."""
    along = np.arange(nodes - 2)
    rung = np.arange(0, nodes - 1, 2)
    return np.concatenate([np.stack([along, along + 2]), np.stack([rung, rung + 1])], axis=1)


def star(nodes: int) -> Edges:
    """Node 0 joined to all others. Edges [2, n-1], one direction each."""
    leaf = np.arange(1, nodes)
    return np.stack([np.zeros_like(leaf), leaf])


def path(nodes: int) -> Edges:
    """A line. Edges [2, n-1], one direction each."""
    along = np.arange(nodes - 1)
    return np.stack([along, along + 1])


BASES: Mapping[str, Callable[[int], Edges]] = MappingProxyType(
    {"wheel": wheel, "tree": tree, "ladder": ladder, "star": star, "path": path}
)
"""By name; the first three are the bases of Spurious-Motif."""

MOTIFS: Mapping[str, Edges] = MappingProxyType(
    {
        # A square with a roof.
        "house": np.array([[0, 1, 2, 3, 0, 1], [1, 2, 3, 0, 4, 4]]),
        # A ring of six.
        "cycle": np.array([[0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 0]]),
        # A square with one diagonal, and a node that hangs from the other corner.
        "crane": np.array([[0, 1, 2, 3, 0, 1], [1, 2, 3, 0, 2, 4]]),
    }
)
"""By name, in the order of the labels 0, 1, 2. Each has six edges, so that the number of edges does not tell them."""


SIZES = ((6, 12), (13, 22), (23, 34), (40, 60), (70, 100))
"""Nodes of a base at each client of `motif_size`."""


@dataclass(frozen=True, slots=True)
class MotifEnvironment:
    """What the graphs of one client have in common.

    Attributes:
        bases: Names of `BASES`; the base of each graph is drawn uniformly.
        smallest: The least number of nodes of a base.
        largest: The greatest; the number is drawn uniformly between the two.

    Raises:
        InputError: A base is unknown, or the numbers are not in order or too small.
    """

    bases: tuple[str, ...]
    smallest: int
    largest: int

    def __post_init__(self) -> None:
        unknown = [base for base in self.bases if base not in BASES]
        if unknown or not self.bases:
            raise InputError(f"bases must be one or more of {', '.join(BASES)}; found {self.bases}")
        if not SMALLEST_BASE <= self.smallest <= self.largest:
            raise InputError(
                f"smallest must be at least {SMALLEST_BASE} and at most largest; found {self.smallest} and "
                f"{self.largest}"
            )


@dataclass(frozen=True, slots=True, eq=False)
class _Piece:
    edges: NDArray[np.int64]
    nodes: int
    label: int


def motif_basis(seed: int, graphs: int = 1000, validation: float = 0.1) -> GraphSet:
    """GOOD-Motif with basis shift, a client for every base: wheel, tree, ladder, then star and path.

    As in FedVN (AAAI 2025, table 3): three training environments, the OOD validation set and the OOD test set make five
    clients. Bases have 10 to 43 nodes everywhere, our choice: graphs have 32 nodes and 81 directed edges on average.

    Args:
        seed: Repeats the set.
        graphs: Graphs a client.
        validation: Share of a client's graphs, of the 80 % that would train, that choose the model instead.

    Raises:
        InputError: An argument is out of range.
    """
    environments = [MotifEnvironment((base,), 10, 43) for base in BASES]
    return motif_set("Motif-basis", environments, "basis", seed, graphs, validation)


def motif_size(seed: int, graphs: int = 1000, validation: float = 0.1) -> GraphSet:
    """GOOD-Motif with size shift, a client for every range of sizes; the base of each graph is any of the five.

    Three training environments of small bases, then the larger ones of the OOD validation set and the largest, of the
    OOD test set. The papers say that sizes differ and not by how much; ours do not overlap.

    Args:
        seed: Repeats the set.
        graphs: Graphs a client.
        validation: Share of a client's graphs that choose the model.

    Raises:
        InputError: An argument is out of range.
    """
    environments = [MotifEnvironment(tuple(BASES), smallest, largest) for smallest, largest in SIZES]
    return motif_set("Motif-size", environments, "size", seed, graphs, validation)


def motif_mini(seed: int, graphs: int = 60, validation: float = 0.2) -> GraphSet:
    """Three clients with small wheels, trees and ladders, for tries, tests and audits; arguments as `motif_basis`."""
    environments = [MotifEnvironment((base,), 6, 12) for base in ("wheel", "tree", "ladder")]
    return motif_set("Motif-mini", environments, "basis", seed, graphs, validation)


def motif_set(
    name: str, environments: Sequence[MotifEnvironment], shift: str, seed: int, graphs: int, validation: float
) -> GraphSet:
    """Draw the same number of graphs from every environment, one client each.

    Args:
        name: What the set is called.
        environments: One a client, in the order of the clients.
        shift: What differs between the environments.
        seed: Repeats the set.
        graphs: Graphs a client, 10 or more.
        validation: Share of a client's graphs that choose the model, 0 to 0.7; 20 % test it and the rest train it.

    Raises:
        InputError: An argument is out of range.
    """
    if graphs < 10:
        raise InputError(f"graphs must be at least 10 a client; found {graphs}")
    if not environments:
        raise InputError("environments must name at least one client; found none")
    draw = seeded_generator(seed)
    pieces = [_graph(environment, draw) for environment in environments for _ in range(graphs)]
    sizes = np.array([piece.nodes for piece in pieces])
    first = np.cumsum(sizes) - sizes
    edges = np.concatenate([piece.edges + start for piece, start in zip(pieces, first, strict=True)], axis=1)
    client_of = np.repeat(np.arange(len(environments)), graphs)
    return GraphSet.from_arrays(
        name,
        np.ones((sizes.sum(), 1)),
        np.concatenate([edges, edges[::-1]], axis=1),
        np.repeat(np.arange(len(sizes)), sizes),
        [piece.label for piece in pieces],
        client_of,
        client_split(client_of, draw, validation),
        shift,
    )


def _graph(environment: MotifEnvironment, draw: np.random.Generator) -> _Piece:
    base_nodes = int(draw.integers(environment.smallest, environment.largest + 1))
    base = BASES[environment.bases[draw.integers(len(environment.bases))]](base_nodes)
    label = int(draw.integers(len(MOTIFS)))
    motif = list(MOTIFS.values())[label]
    motif_nodes = int(motif.max()) + 1
    bridge = np.array([[draw.integers(base_nodes)], [base_nodes + draw.integers(motif_nodes)]])
    return _Piece(np.concatenate([base, motif + base_nodes, bridge], axis=1), base_nodes + motif_nodes, label)
