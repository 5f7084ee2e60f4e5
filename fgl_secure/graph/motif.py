"""Motif graphs: a base that says nothing about the label, joined to the motif that is the label.

GOOD-Motif (Gui et al., NeurIPS 2022) as its public generator draws it, of which this is no copy. Bases and motifs are
those of Spurious-Motif (Wu et al., ICLR 2022), to which GOOD adds star and path; every node has the one feature 1,
since only the structure is to tell the label. A graph is drawn in five steps.

1. Its base: a width w is drawn from its environment's +- 5. Wheel and path have w nodes, a star has w + 1, a ladder
   2 w, and a tree is binary and int(log2 w) - 1 high, at least 1.
2. Its motif, of five nodes, which is its label.
3. The joint: an edge from motif node 0 to a node of the base.
4. Random edges, 5 % of those that there are, rounded down: pairs of nodes without an edge, of base and motif alike. One
   that touches no inner node of the base is dropped and not drawn again, so motifs stay whole. All nodes of a base are
   inner ones but a star's leaves and a path's ends.
5. Noise: one label in ten is replaced by a uniform one of the three, which may be the same.

Environments differ in base or in width, and labels don't (covariate shift); or the base, or the width, follows the
label more or less often (concept shift). Of either there are GOOD's three training environments, its validation and
its test environment: five clients.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from fgl_secure.errors import InputError
from fgl_secure.graph.graph_sets import GraphSet, client_split
from fgl_secure.graph.partition import seeded_generator

Edges = NDArray[np.int64]


def _wheel(width: int) -> Edges:
    """A hub, node 0, joined to every node of a ring; w nodes. A ring of two is an edge, and one of one is a node."""
    ring = np.arange(1, width)
    around = np.stack([ring, np.roll(ring, -1)])[:, : width - 1 if width > 3 else max(width - 2, 0)]
    return np.concatenate([np.stack([np.zeros_like(ring), ring]), around], axis=1)


def _tree(width: int) -> Edges:
    """The full binary tree, int(log2 w) - 1 high and at least 1: three nodes for w below 8, seven below 16."""
    height = max(width.bit_length() - 2, 1)
    child = np.arange(1, 2 ** (height + 1) - 1)
    return np.stack([(child - 1) // 2, child])


def _ladder(width: int) -> Edges:
    """Two rails of w nodes, with a rung between any two that are opposite: 2 w nodes."""
    along, rung = np.arange(2 * width - 2), np.arange(0, 2 * width, 2)
    return np.concatenate([np.stack([along, along + 2]), np.stack([rung, rung + 1])], axis=1)


def _star(width: int) -> Edges:
    """Node 0 joined to w others."""
    leaf = np.arange(1, width + 1)
    return np.stack([np.zeros_like(leaf), leaf])


def _path(width: int) -> Edges:
    """A line of w nodes."""
    along = np.arange(width - 1)
    return np.stack([along, along + 1])


BASES: Mapping[str, Callable[[int], Edges]] = MappingProxyType(
    {"wheel": _wheel, "tree": _tree, "ladder": _ladder, "star": _star, "path": _path}
)
"""By name; edges int64 [2, m], one direction each. The first three are the bases of Spurious-Motif."""

_OUTER: Mapping[str, slice | list[int]] = MappingProxyType({"star": slice(1, None), "path": [0, -1]})
"""By name of a base, which of its nodes are no inner ones."""

MOTIFS: Mapping[str, Edges] = MappingProxyType(
    {
        # A ring of five and a chord that cuts off node 0, the top of the roof.
        "house": np.array([[0, 1, 2, 3, 4, 1], [1, 2, 3, 4, 0, 4]]),
        "cycle": np.array([[0, 1, 2, 3, 4], [1, 2, 3, 4, 0]]),
        # K_2,3: nodes 1 and 3 are joined to each of the others.
        "crane": np.array([[1, 1, 1, 3, 3, 3], [0, 2, 4, 0, 2, 4]]),
    }
)
"""By name, in the order of the labels 0, 1, 2. Each has five nodes, of which node 0 is joined to the base."""

_MOTIF_NODES = 5
_SPREAD = 5
"""Widths are drawn uniformly from as far around those of an environment."""
_BASIS_WIDTH = 10
"""Of all environments that differ in bases."""
SIZES = (6, 10, 15, 30, 70)
"""Widths of the five environments that differ in size."""
_CONCEPT_SIZES = (10, 40, 70)
"""Widths that follow the labels 0, 1, 2."""
_FOLLOWING = (0.99, 0.97, 0.95, 0.3, 0.0)
"""How often base or width follows the label in the five environments of a concept shift."""
_NOISE = 0.1
"""Share of the labels that are drawn anew."""
_RANDOM_EDGES = 20
"""A random edge, or one that is dropped, for so many that there are."""


@dataclass(frozen=True, slots=True)
class MotifEnvironment:
    """What the graphs of one client have in common.

    Attributes:
        bases: Names of `BASES`; the base of each graph is drawn uniformly, unless it follows the label.
        widths: The width of each graph is one of these, drawn uniformly unless it follows the label, give or take
            `spread`.
        spread: As far around, uniformly.
        bases_follow: How often a base is the one of the label's number.
        widths_follow: How often a width is.

    Raises:
        InputError: A base is unknown, a width is too small, a share is none, or there is not one for each label.
    """

    bases: tuple[str, ...]
    widths: tuple[int, ...] = (_BASIS_WIDTH,)
    spread: int = _SPREAD
    bases_follow: float = 0.0
    widths_follow: float = 0.0

    def __post_init__(self) -> None:
        unknown = [base for base in self.bases if base not in BASES]
        if unknown or not self.bases:
            raise InputError(f"bases must be one or more of {', '.join(BASES)}; found {self.bases}")
        if self.spread < 0:
            raise InputError(f"spread must be 0 or more; found {self.spread}")
        if not self.widths or min(self.widths) <= self.spread:
            raise InputError(f"widths must each be above {self.spread}, the spread; found {self.widths}")
        for names, share in ((self.bases, self.bases_follow), (self.widths, self.widths_follow)):
            noun = "bases" if names is self.bases else "widths"
            if not 0 <= share <= 1:
                raise InputError(f"{noun}_follow must be in 0..1; found {share}")
            if share and len(names) != len(MOTIFS):
                raise InputError(f"{noun} must be {len(MOTIFS)}, one for each label that they follow; found {names}")


@dataclass(frozen=True, slots=True, eq=False)
class _MotifPiece:
    edges: Edges
    nodes: int
    label: int


_SETS: Mapping[str, tuple[str, tuple[MotifEnvironment, ...]]] = MappingProxyType({
    "Motif-basis": ("basis", tuple(MotifEnvironment((base,)) for base in BASES)),
    "Motif-size": ("size", tuple(MotifEnvironment(tuple(BASES), (width,)) for width in SIZES)),
    "Motif-basis-concept": (
        "basis concept", tuple(MotifEnvironment(tuple(BASES)[:3], bases_follow=share) for share in _FOLLOWING)
    ),
    "Motif-size-concept": (
        "size concept",
        tuple(MotifEnvironment(tuple(BASES), _CONCEPT_SIZES, widths_follow=share) for share in _FOLLOWING),
    ),
    "Motif-mini": ("basis", tuple(MotifEnvironment((base,), (7,), 2) for base in ("wheel", "tree", "ladder"))),
})  # fmt: skip
"""By name: what differs between the clients, and the environment of each of them."""


def motif(name: str, seed: int, graphs: int = 1000, validation: float = 0.1) -> GraphSet:
    """Draw one of GOOD's Motif sets, or a small one.

    Motif-basis has a client for every base, with widths 10 +- 5, so that graphs have 16 nodes on average, as in FedVN
    (AAAI 2025, table 3). Motif-size has a client for each of five widths, at any of the five bases. In
    Motif-basis-concept houses have wheels, cycles trees and cranes ladders, in 99, 97, 95, 30 and 0 % of the five
    clients' graphs. In Motif-size-concept houses have width 10, cycles 40 and cranes 70, as often. Motif-mini has three
    clients with wheels, trees and ladders of width 7 +- 2.

    Args:
        name: One of these five.
        seed: Repeats the set.
        graphs: Graphs a client.
        validation: Share of a client's graphs, of the 80 % that would train, that choose the model instead.

    Raises:
        InputError: An argument is out of range.
    """
    shift, environments = _SETS[name]
    return motif_set(name, environments, shift, seed, graphs, validation)


def motif_set(
    name: str,
    environments: Sequence[MotifEnvironment],
    shift: str,
    seed: int,
    graphs: int,
    validation: float,
    noise: float = _NOISE,
) -> GraphSet:
    """Draw the same number of graphs from every environment, one client each.

    Args:
        name: What the set is called.
        environments: One a client, in the order of the clients.
        shift: What differs between the environments.
        seed: Repeats the set.
        graphs: Graphs a client, 10 or more.
        validation: Share of a client's graphs that choose the model, 0 to 0.7; 20 % test it and the rest train it.
        noise: Share of the labels that are replaced by a uniform one.

    Raises:
        InputError: An argument is out of range.
    """
    if graphs < 10:
        raise InputError(f"graphs must be at least 10 a client; found {graphs}")
    if not environments:
        raise InputError("environments must name at least one client; found none")
    if not 0 <= noise <= 1:
        raise InputError(f"noise must be in 0..1, a share of the labels; found {noise}")
    draw = seeded_generator(seed)
    pieces = [_graph(environment, noise, draw) for environment in environments for _ in range(graphs)]
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


def _graph(environment: MotifEnvironment, noise: float, draw: np.random.Generator) -> _MotifPiece:
    label = int(draw.integers(len(MOTIFS)))
    base = environment.bases[_which(len(environment.bases), environment.bases_follow, label, draw)]
    width = environment.widths[_which(len(environment.widths), environment.widths_follow, label, draw)]
    edges = BASES[base](width + int(draw.integers(-environment.spread, environment.spread + 1)))
    nodes = int(edges.max(initial=0)) + 1
    joint = np.array([[draw.integers(nodes)], [nodes]])
    joined = np.concatenate([edges, list(MOTIFS.values())[label] + nodes, joint], axis=1)
    noisy_label = int(draw.integers(len(MOTIFS))) if draw.random() < noise else label
    inner = np.arange(nodes + _MOTIF_NODES) < nodes
    inner[:nodes][_OUTER.get(base, [])] = False
    # Edges that are not there yet between any two nodes, of which those with no inner node are dropped.
    free = np.triu(np.ones((len(inner), len(inner)), dtype=np.bool_), 1)
    free[joined.min(axis=0), joined.max(axis=0)] = False
    chosen = []
    for _ in range(joined.shape[1] // _RANDOM_EDGES):
        one, other = divmod(int(draw.choice(np.flatnonzero(free))), len(inner))
        if inner[one] or inner[other]:
            chosen.append((one, other))
            free[one, other] = False
    return _MotifPiece(
        np.concatenate([joined, np.array(chosen, dtype=np.int64).reshape(-1, 2).T], axis=1), len(inner), noisy_label
    )


def _which(number: int, follows: float, label: int, draw: np.random.Generator) -> int:
    return label if draw.random() < follows else int(draw.integers(number))
