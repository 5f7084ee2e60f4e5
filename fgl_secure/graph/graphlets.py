"""How often each node takes each place in a small connected subgraph: the graphs with up to five nodes, and counts.

A place is called an orbit: two nodes of a graph have the same one if an automorphism takes one to the other. Orbits are
numbered as in Przulj (Bioinformatics 2007).

Counting the orbits of five nodes directly means visiting every connected set of five nodes. As Hocevar and Demsar
(Bioinformatics 2014) found, sets of four nodes are enough: what is counted is, for every such set, how many further
nodes are joined to given members, and each orbit follows by a linear equation. The equations are derived here from the
list of graphs, not written down.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cache
from itertools import combinations, pairwise, permutations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fgl_secure.graph.attributed_graph import Graph
from fgl_secure.threads import njit

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

_Adjacency = frozenset[frozenset[int]]
"""The edges of a small graph."""


def _edges_of(text: str) -> _Adjacency:
    """The edges that pairs of digits stand for."""
    return frozenset(frozenset(int(node) for node in pair) for pair in text.split())


def _neighbours_of(edges: _Adjacency, node: int) -> frozenset[int]:
    """The nodes that a node is joined to."""
    return frozenset(other for edge in edges if node in edge for other in edge if other != node)


def _without(edges: _Adjacency, node: int) -> _Adjacency:
    """The edges that are left when a node is taken away."""
    return frozenset(edge for edge in edges if node not in edge)


def _is_connected(edges: _Adjacency, nodes: Collection[int]) -> bool:
    """Whether every one of the nodes can be reached from every other."""
    reached = {next(iter(nodes))}
    for _ in nodes:
        reached |= {other for node in reached for other in _neighbours_of(edges, node)}
    return reached == set(nodes)


_PAIRS_OF_FOUR = ((0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (2, 3))
"""Which pair of positions each bit of a code of four nodes stands for."""

_Key = tuple[int, int]


class _Extensions(NamedTuple):
    """What a connected set of four nodes adds to the left sides of the equations, by its code.

    A code has a bit for each of `_PAIRS_OF_FOUR` that is joined. For each code there is a run of subsets of the four
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
def _extensions() -> _Extensions:
    """The table of `_Extensions`, made once."""
    equation_of = {key: index for index, (key, _) in enumerate(_equations())}
    orbits = np.full((64, 4), -1, dtype=np.int64)
    subset_starts, addition_starts = [0], [0]
    subsets: list[int] = []
    inside: list[int] = []
    additions: list[tuple[int, int]] = []
    last: list[int] = []
    for code in range(64):
        edges = frozenset(frozenset(pair) for bit, pair in enumerate(_PAIRS_OF_FOUR) if code >> bit & 1)
        if _is_connected(edges, range(4)):
            orbits[code] = _orbits_of_four()[_code(edges, tuple(range(4)))]
            for subset in range(1, 16):
                result = [equation_of.get(_key(edges, root, tuple(range(4)), subset), -1) for root in range(4)]
                if max(result) >= 0:
                    subsets.append(subset)
                    inside.append(sum(_joined_to_all(edges, node, subset) for node in range(4)))
                    additions += [(root, equation) for root, equation in enumerate(result[:3]) if equation >= 0]
                    addition_starts.append(len(additions))
                    last.append(result[3])
        subset_starts.append(len(subsets))
    runs = [set(subsets[start:end]) for start, end in pairwise(subset_starts)]
    needs = np.array([[12 in run, not run.isdisjoint((11, 13, 14, 15))] for run in runs])
    positions, equations = np.array(additions, dtype=np.int64).T.copy()
    starts, members, within, runs_of_additions, last_equations = (
        np.array(column, dtype=np.int64) for column in (subset_starts, subsets, inside, addition_starts, last)
    )
    return _Extensions(orbits, starts, members, within, runs_of_additions, positions, equations, last_equations, needs)


@cache
def _equation_matrix() -> NDArray[np.int64]:
    """The coefficients M of the equations: left sides = M @ counts, int64 [58, 58], both from `FIRST_OF_FIVE` on.

    An equation has its own orbit and orbits of graphs with more edges, and no others.
    """
    index = {key: row for row, (key, _) in enumerate(_equations())}
    matrix = np.zeros((len(index), len(index)), dtype=np.int64)
    for column, (_, (edges, root)) in enumerate(_equations()):
        for node in set(range(5)) - {root}:
            for subset in _subsets(_neighbours_of(edges, node)):
                key = _keywithout(edges, root, node, subset)
                if key in index:
                    matrix[index[key], column] += 1
    return matrix


def _edges_of_orbit() -> NDArray[np.int64]:
    """The number of edges of the graph of each orbit of five nodes, int64 [58]."""
    return np.array([len(edges) for _, (edges, _) in _equations()], dtype=np.int64)


@cache
def _equations() -> tuple[tuple[_Key, tuple[_Adjacency, int]], ...]:
    """For each orbit of five nodes the key of its equation, and a graph with a node of that orbit.

    The equation of an orbit takes one node away and counts what could stand in its place. Taken away is the node with
    the fewest neighbours: nodes joined to one member are counted by its degree alone.
    """
    examples: dict[int, tuple[_Adjacency, int]] = {}
    for text, orbits in GRAPHLETS:
        for node, orbit in enumerate(orbits):
            examples.setdefault(orbit, (_edges_of(text), node))
    chosen = []
    for orbit in range(FIRST_OF_FIVE, ORBITS):
        edges, root = examples[orbit]
        removable = [y for y in range(5) if y != root and _is_connected(_without(edges, y), set(range(5)) - {y})]
        node = min(removable, key=lambda y: len(_neighbours_of(edges, y)))
        chosen.append((_keywithout(edges, root, node, _neighbours_of(edges, node)), (edges, root)))
    return tuple(chosen)


@cache
def _orbits_of_four() -> dict[int, tuple[int, ...]]:
    """The orbit of each position, by code."""
    table = {}
    for text, orbits in GRAPHLETS:
        if len(orbits) == 4:
            for order in permutations(range(4)):
                table[_code(_edges_of(text), order)] = tuple(orbits[node] for node in order)
    return table


def _code(edges: _Adjacency, order: tuple[int, ...]) -> int:
    """The code of four nodes put into the given order."""
    return sum(1 << bit for bit, (i, j) in enumerate(_PAIRS_OF_FOUR) if frozenset((order[i], order[j])) in edges)


def _key(edges: _Adjacency, root: int, nodes: tuple[int, ...], subset: int) -> _Key:
    """Equal for two sets of four with a root and a subset (bits by node) if and only if they look the same."""
    others = [node for node in nodes if node != root]
    orders = [(root, *rest) for rest in permutations(others)]
    return min((_code(edges, o), sum((subset >> node & 1) << place for place, node in enumerate(o))) for o in orders)


def _keywithout(edges: _Adjacency, root: int, node: int, subset: frozenset[int]) -> _Key:
    rest = tuple(other for other in range(5) if other != node)
    return _key(edges, root, rest, sum(1 << member for member in subset))


def _subsets(nodes: frozenset[int]) -> Iterator[frozenset[int]]:
    for size in range(1, len(nodes) + 1):
        yield from map(frozenset, combinations(sorted(nodes), size))


def _joined_to_all(edges: _Adjacency, node: int, subset: int) -> bool:
    return all(frozenset((node, member)) in edges for member in range(4) if subset >> member & 1)


@njit()
def _count_sets_of_four(  # noqa: PLR0912, PLR0915 (four nested loops that share all their arrays)
    starts: NDArray[np.int64],
    neighbours: NDArray[np.int64],
    common_starts: NDArray[np.int64],
    common_columns: NDArray[np.int64],
    common_counts: NDArray[np.int64],
    table: _Extensions,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Visit every connected set of four nodes once (the ESU algorithm of Wernicke 2006).

    Returns:
        Counts of orbits 0 to 14, int64 [n, 15], filled from 4 on; left sides of the equations, int64 [n, 58].
    """
    orbits, subset_starts, subsets, inside, addition_starts, positions, equations, last_equations, needs = table
    n = len(starts) - 1
    four, sums = np.zeros((n, 15), np.int64), np.zeros((n, 58), np.int64)
    joined = np.zeros(n, np.int64)  # bit i: joined to member i of the set so far
    members = np.empty(4, np.int64)
    reach = np.zeros(16, np.int64)  # by subset of the members: how many nodes are joined to all of it
    with_first, with_second = np.zeros(n, np.int64), np.zeros(n, np.int64)  # common neighbours with a member
    # Of all sets that differ in the last member alone: how many have a code, and the sum of each of its subsets.
    times, totals = np.zeros(64, np.int64), np.zeros(len(subsets), np.int64)
    first, second, third = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    for a in range(n):
        members[0] = a
        reach[1] = starts[a + 1] - starts[a]
        for place in range(common_starts[a], common_starts[a + 1]):
            with_first[common_columns[place]] = common_counts[place]
        first_size = 0
        for u in neighbours[starts[a] : starts[a + 1]]:
            joined[u] |= 1
            if u > a:
                first[first_size] = u
                first_size += 1
        for i in range(first_size):
            b = first[i]
            members[1] = b
            reach[2], reach[3] = starts[b + 1] - starts[b], with_first[b]
            for place in range(common_starts[b], common_starts[b + 1]):
                with_second[common_columns[place]] = common_counts[place]
            # What may come next: what was left over, then the nodes that only b leads to.
            second_size = 0
            for k in range(i + 1, first_size):
                second[second_size] = first[k]
                second_size += 1
            for u in neighbours[starts[b] : starts[b + 1]]:
                if u > a and joined[u] == 0:
                    second[second_size] = u
                    second_size += 1
                joined[u] |= 2
            for j in range(second_size):
                c = second[j]
                members[2] = c
                reach[4], reach[5], reach[6] = starts[c + 1] - starts[c], with_first[c], with_second[c]
                reach[7] = 0
                code_of_three = 1 | (joined[c] & 3) << 1
                row = common_columns[common_starts[c] : common_starts[c + 1]]
                third_size = 0
                for k in range(j + 1, second_size):
                    third[third_size] = second[k]
                    third_size += 1
                for u in neighbours[starts[c] : starts[c + 1]]:
                    if u > a and joined[u] == 0:
                        third[third_size] = u
                        third_size += 1
                    joined[u] |= 4
                    reach[7] += joined[u] == 7
                for k in range(third_size):
                    d = third[k]
                    members[3] = d
                    code = code_of_three | joined[d] << 3
                    reach[8], reach[9], reach[10] = starts[d + 1] - starts[d], with_first[d], with_second[d]
                    if needs[code, 0]:
                        place = np.searchsorted(row, d)
                        shared = place < len(row) and row[place] == d
                        reach[12] = common_counts[common_starts[c] + place] if shared else 0
                    if needs[code, 1]:
                        reach[11] = reach[13] = reach[14] = reach[15] = 0
                        for u in neighbours[starts[d] : starts[d + 1]]:
                            reach[11] += joined[u] & 3 == 3
                            reach[13] += joined[u] & 5 == 5
                            reach[14] += joined[u] & 6 == 6
                            reach[15] += joined[u] == 7
                    times[code] += 1
                    four[d, orbits[code, 3]] += 1
                    for s in range(subset_starts[code], subset_starts[code + 1]):
                        further = reach[subsets[s]] - inside[s]
                        totals[s] += further
                        if last_equations[s] >= 0:
                            sums[d, last_equations[s]] += further
                for code in range(code_of_three | 8, code_of_three + 64, 8):
                    if times[code]:
                        for position in range(3):
                            four[members[position], orbits[code, position]] += times[code]
                        times[code] = 0
                        for s in range(subset_starts[code], subset_starts[code + 1]):
                            for t in range(addition_starts[s], addition_starts[s + 1]):
                                sums[members[positions[t]], equations[t]] += totals[s]
                            totals[s] = 0
                for u in neighbours[starts[c] : starts[c + 1]]:
                    joined[u] &= 3
            for u in neighbours[starts[b] : starts[b + 1]]:
                joined[u] &= 1
            for place in range(common_starts[b], common_starts[b + 1]):
                with_second[common_columns[place]] = 0
        for u in neighbours[starts[a] : starts[a + 1]]:
            joined[u] = 0
        for place in range(common_starts[a], common_starts[a + 1]):
            with_first[common_columns[place]] = 0
    return four, sums


def graphlet_degrees(graph: Graph) -> NDArray[np.int64]:
    """Count the 73 orbits of connected induced subgraphs with two to five nodes (Przulj 2007), exactly.

    Every connected set of four nodes is visited; the orbits of five nodes follow by equations (Hocevar and Demsar
    2014), which `_equation_matrix` has. The time grows with the number of such sets, which the third
    powers of the degrees dominate.

    Args:
        graph: The graph, n nodes; the direction of edges is ignored.

    Returns:
        int64 [n, 73], the orbits in Przulj's order; column 0 is the degree.
    """
    # The adjacency with every edge in both directions, int64 CSR [n, n], columns sorted.
    source, target = graph.edges
    rows, columns = np.append(source, target), np.append(target, source)
    neighbours = sparse.csr_array((np.ones(len(rows), dtype=np.int64), (rows, columns)), shape=(graph.num_nodes,) * 2)
    neighbours.data[:] = 1  # an edge that was there in both directions is one
    neighbours.sort_indices()
    degrees = np.diff(neighbours.indptr).astype(np.int64)
    # Common neighbours of two nodes, a row a node, columns sorted.
    common = sparse.csr_array(neighbours @ neighbours)
    common.sort_indices()
    arrays = (neighbours.indptr, neighbours.indices, common.indptr, common.indices, common.data)
    four, sums = _count_sets_of_four(*(array.astype(np.int64) for array in arrays), _extensions())
    counts = np.empty((graph.num_nodes, ORBITS), dtype=np.int64)
    counts[:, 0] = degrees
    # Orbits 1 to 3, int64 [n, 3]: end of a path, middle of a path, triangle.
    triangles = np.asarray((neighbours @ neighbours).multiply(neighbours).sum(axis=1), dtype=np.int64) // 2
    ends = neighbours @ (degrees - 1) - 2 * triangles
    middles = degrees * (degrees - 1) // 2 - triangles
    counts[:, 1:4] = np.stack([ends, middles, triangles], axis=1)
    counts[:, 4:FIRST_OF_FIVE] = four[:, 4:]
    counts[:, FIRST_OF_FIVE:] = _solve_orbits(sums)
    return counts


def _solve_orbits(sums: NDArray[np.int64]) -> NDArray[np.int64]:
    """Counts of the orbits of five nodes, int64 [n, 58], from the left sides of their equations."""
    matrix = _equation_matrix()
    counts = np.zeros_like(sums)
    for orbit in np.argsort(-_edges_of_orbit(), kind="stable"):
        # Only orbits of graphs with more edges have a coefficient here, and those are done.
        counts[:, orbit] = (sums[:, orbit] - counts @ matrix[orbit]) // matrix[orbit, orbit]
    return counts
