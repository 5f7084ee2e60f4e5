"""The connected graphs with up to five nodes, and the places that a node can have in them.

A place is called an orbit: two nodes of a graph have the same one if an automorphism takes one to the other. Orbits are
numbered as in Przulj (Bioinformatics 2007).

Counting the orbits of five nodes directly means visiting every connected set of five nodes. As Hocevar and Demsar
(Bioinformatics 2014) found, sets of four nodes are enough: what is counted is, for every such set, how many further
nodes are joined to given members, and each orbit follows by a linear equation. The equations are derived here from the
list of graphs, not written down.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import combinations, pairwise, permutations

import numpy as np
from numpy.typing import NDArray

ORBITS = 73
FIRST_OF_FIVE = 15
"""Orbits from this one on are those of graphs with five nodes."""

GRAPHLETS: tuple[tuple[str, tuple[int, ...]], ...] = (
    ("01", (0, 0)),
    ("01 12", (1, 2, 1)),
    ("01 02 12", (3, 3, 3)),
    ("01 12 23", (4, 5, 5, 4)),
    ("01 02 03", (7, 6, 6, 6)),
    ("01 12 23 03", (8, 8, 8, 8)),
    ("01 12 13 23", (9, 11, 10, 10)),
    ("01 02 12 13 23", (12, 13, 13, 12)),
    ("01 02 03 12 13 23", (14, 14, 14, 14)),
    ("01 12 23 34", (15, 16, 17, 16, 15)),
    ("01 12 23 24", (18, 20, 21, 19, 19)),
    ("01 02 03 04", (23, 22, 22, 22, 22)),
    ("01 12 13 23 24", (24, 26, 26, 25, 24)),
    ("01 12 23 24 34", (27, 28, 30, 29, 29)),
    ("02 12 23 24 34", (31, 31, 33, 32, 32)),
    ("01 12 23 34 04", (34, 34, 34, 34, 34)),
    ("01 12 23 34 14", (35, 38, 37, 36, 37)),
    ("01 12 13 14 23 34", (39, 42, 40, 41, 40)),
    ("01 02 12 23 24 34", (43, 43, 44, 43, 43)),
    ("01 12 13 23 24 34", (45, 47, 48, 48, 46)),
    ("02 03 04 12 13 14", (50, 50, 49, 49, 49)),
    ("01 02 12 13 24 34", (52, 53, 53, 51, 51)),
    ("01 02 03 04 12 13 14", (55, 55, 54, 54, 54)),
    ("01 12 13 14 23 24 34", (56, 58, 57, 57, 57)),
    ("01 02 03 04 12 23 34", (61, 59, 60, 60, 59)),
    ("01 02 13 14 23 24 34", (62, 63, 63, 64, 64)),
    ("01 02 12 13 14 23 24 34", (65, 67, 67, 66, 66)),
    ("01 02 03 04 12 23 34 14", (69, 68, 68, 68, 68)),
    ("02 03 04 12 13 14 23 24 34", (70, 70, 71, 71, 71)),
    ("01 02 03 04 12 13 14 23 24 34", (72, 72, 72, 72, 72)),
)
"""Edges as pairs of digits, and the orbit of each node."""

Adjacency = frozenset[frozenset[int]]
"""The edges of a small graph."""


def edges_of(text: str) -> Adjacency:
    """The edges that pairs of digits stand for."""
    return frozenset(frozenset(int(node) for node in pair) for pair in text.split())


def neighbours_of(edges: Adjacency, node: int) -> frozenset[int]:
    """The nodes that a node is joined to."""
    return frozenset(other for edge in edges if node in edge for other in edge if other != node)


def without(edges: Adjacency, node: int) -> Adjacency:
    """The edges that are left when a node is taken away."""
    return frozenset(edge for edge in edges if node not in edge)


def connected(edges: Adjacency, nodes: Collection[int]) -> bool:
    """Whether every one of the nodes can be reached from every other."""
    reached = {next(iter(nodes))}
    for _ in nodes:
        reached |= {other for node in reached for other in neighbours_of(edges, node)}
    return reached == set(nodes)


PAIRS_OF_FOUR = ((0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (2, 3))
"""Which pair of positions each bit of a code of four nodes stands for."""

Key = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Extensions:
    """What a connected set of four nodes adds to the left sides of the equations, by its code.

    A code has a bit for each of `PAIRS_OF_FOUR` that is joined. For each code there is a run of subsets of the four
    positions, and for each subset a run of additions.

    Attributes:
        orbits: int64 [64, 4], the orbit of each position; -1 where the four nodes are not connected.
        subset_starts: int64 [65], where the subsets of each code start.
        subsets: int64 [S], four bits, one a position.
        inside: int64 [S], how many of the four are joined to the whole subset, and are no further nodes.
        addition_starts: int64 [S + 1], where the additions of each subset for the first three positions start.
        positions: int64 [N], whose equation.
        equations: int64 [N], which equation, counted from `FIRST_OF_FIVE`.
        last_equations: int64 [S], the equation of the last position that the subset adds to; -1 for none.
        needs: bool [64, 2], whether a subset of the code is the last two positions; whether one is the last position
            and two or three others.
    """

    orbits: NDArray[np.int64]
    subset_starts: NDArray[np.int64]
    subsets: NDArray[np.int64]
    inside: NDArray[np.int64]
    addition_starts: NDArray[np.int64]
    positions: NDArray[np.int64]
    equations: NDArray[np.int64]
    last_equations: NDArray[np.int64]
    needs: NDArray[np.bool_]


@cache
def extensions() -> Extensions:
    """The table of `Extensions`, made once."""
    equation_of = {key: index for index, (key, _) in enumerate(_equations())}
    orbits = np.full((64, 4), -1, dtype=np.int64)
    subset_starts, addition_starts = [0], [0]
    subsets: list[int] = []
    inside: list[int] = []
    additions: list[tuple[int, int]] = []
    last: list[int] = []
    for code in range(64):
        edges = _decoded(code)
        if connected(edges, range(4)):
            orbits[code] = _orbits_of_four()[_code(edges, tuple(range(4)))]
            for subset in range(1, 16):
                found = [equation_of.get(_key(edges, root, tuple(range(4)), subset), -1) for root in range(4)]
                if max(found) >= 0:
                    subsets.append(subset)
                    inside.append(sum(_joined_to_all(edges, node, subset) for node in range(4)))
                    additions += [(root, equation) for root, equation in enumerate(found[:3]) if equation >= 0]
                    addition_starts.append(len(additions))
                    last.append(found[3])
        subset_starts.append(len(subsets))
    runs = [set(subsets[start:end]) for start, end in pairwise(subset_starts)]
    needs = np.array([[12 in run, not run.isdisjoint((11, 13, 14, 15))] for run in runs])
    positions, equations = np.array(additions, dtype=np.int64).T.copy()
    starts, members, within, runs_of_additions, last_equations = (
        np.array(column, dtype=np.int64) for column in (subset_starts, subsets, inside, addition_starts, last)
    )
    return Extensions(orbits, starts, members, within, runs_of_additions, positions, equations, last_equations, needs)


@cache
def equation_matrix() -> NDArray[np.int64]:
    """The coefficients M of the equations: left sides = M @ counts, int64 [58, 58], both from `FIRST_OF_FIVE` on.

    An equation has its own orbit and orbits of graphs with more edges, and no others.
    """
    index = {key: row for row, (key, _) in enumerate(_equations())}
    matrix = np.zeros((len(index), len(index)), dtype=np.int64)
    for column, (_, (edges, root)) in enumerate(_equations()):
        for node in set(range(5)) - {root}:
            for subset in _subsets(neighbours_of(edges, node)):
                key = _keywithout(edges, root, node, subset)
                if key in index:
                    matrix[index[key], column] += 1
    return matrix


def edges_of_orbit() -> NDArray[np.int64]:
    """The number of edges of the graph of each orbit of five nodes, int64 [58]."""
    return np.array([len(edges) for _, (edges, _) in _equations()], dtype=np.int64)


@cache
def _equations() -> tuple[tuple[Key, tuple[Adjacency, int]], ...]:
    """For each orbit of five nodes the key of its equation, and a graph with a node of that orbit.

    The equation of an orbit takes one node away and counts what could stand in its place. Taken away is the node with
    the fewest neighbours: nodes joined to one member are counted by its degree alone.
    """
    examples: dict[int, tuple[Adjacency, int]] = {}
    for text, orbits in GRAPHLETS:
        for node, orbit in enumerate(orbits):
            examples.setdefault(orbit, (edges_of(text), node))
    chosen = []
    for orbit in range(FIRST_OF_FIVE, ORBITS):
        edges, root = examples[orbit]
        removable = [y for y in range(5) if y != root and connected(without(edges, y), set(range(5)) - {y})]
        node = min(removable, key=lambda y: len(neighbours_of(edges, y)))
        chosen.append((_keywithout(edges, root, node, neighbours_of(edges, node)), (edges, root)))
    return tuple(chosen)


@cache
def _orbits_of_four() -> dict[int, tuple[int, ...]]:
    """The orbit of each position, by code."""
    table = {}
    for text, orbits in GRAPHLETS:
        if len(orbits) == 4:
            for order in permutations(range(4)):
                table[_code(edges_of(text), order)] = tuple(orbits[node] for node in order)
    return table


def _decoded(code: int) -> Adjacency:
    return frozenset(frozenset(pair) for bit, pair in enumerate(PAIRS_OF_FOUR) if code >> bit & 1)


def _code(edges: Adjacency, order: tuple[int, ...]) -> int:
    """The code of four nodes put into the given order."""
    return sum(1 << bit for bit, (i, j) in enumerate(PAIRS_OF_FOUR) if frozenset((order[i], order[j])) in edges)


def _key(edges: Adjacency, root: int, nodes: tuple[int, ...], subset: int) -> Key:
    """Equal for two sets of four with a root and a subset (bits by node) if and only if they look the same."""
    others = [node for node in nodes if node != root]
    orders = [(root, *rest) for rest in permutations(others)]
    return min((_code(edges, o), sum((subset >> node & 1) << place for place, node in enumerate(o))) for o in orders)


def _keywithout(edges: Adjacency, root: int, node: int, subset: frozenset[int]) -> Key:
    rest = tuple(other for other in range(5) if other != node)
    return _key(edges, root, rest, sum(1 << member for member in subset))


def _subsets(nodes: frozenset[int]) -> Iterator[frozenset[int]]:
    for size in range(1, len(nodes) + 1):
        yield from map(frozenset, combinations(sorted(nodes), size))


def _joined_to_all(edges: Adjacency, node: int, subset: int) -> bool:
    return all(frozenset((node, member)) in edges for member in range(4) if subset >> member & 1)
