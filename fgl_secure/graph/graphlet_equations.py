"""Equations that give the orbits of graphs of five nodes from sets of four.

Counting the orbits of five nodes directly means visiting every connected set of five nodes. As Hocevar and Demsar
(Bioinformatics 2014) found, sets of four nodes are enough: what is counted is, for every such set, how many further
nodes are joined to given members, and each orbit follows by a linear equation. The equations are derived here from the
list of graphs, not written down.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import combinations, pairwise, permutations

import numpy as np
from numpy.typing import NDArray

from fgl_secure.graph.graphlets import (
    FIRST_OF_FIVE,
    GRAPHLETS,
    ORBITS,
    Adjacency,
    connected,
    edges_of,
    neighbours_of,
    without,
)

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
