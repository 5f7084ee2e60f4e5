"""How often each node of a graph takes each place in a small connected subgraph."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fgl_secure.graph.attributed_graph import Graph
from fgl_secure.graph.graphlets import FIRST_OF_FIVE, ORBITS, edges_of_orbit, equation_matrix, extensions
from fgl_secure.threads import njit


@njit()
def count_sets_of_four(  # noqa: PLR0912, PLR0915 (four nested loops that share all their arrays)
    starts: NDArray[np.int64],
    neighbours: NDArray[np.int64],
    common_starts: NDArray[np.int64],
    common_columns: NDArray[np.int64],
    common_counts: NDArray[np.int64],
    orbits: NDArray[np.int64],
    subset_starts: NDArray[np.int64],
    subsets: NDArray[np.int64],
    inside: NDArray[np.int64],
    addition_starts: NDArray[np.int64],
    positions: NDArray[np.int64],
    equations: NDArray[np.int64],
    last_equations: NDArray[np.int64],
    needs: NDArray[np.bool_],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Visit every connected set of four nodes once (the ESU algorithm of Wernicke 2006).

    Returns:
        Counts of orbits 0 to 14, int64 [n, 15], filled from 4 on; left sides of the equations, int64 [n, 58].
    """
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
    2014), which `graphlet_equations` derives. The time grows with the number of such sets, which the third
    powers of the degrees dominate.

    Args:
        graph: The graph, n nodes; the direction of edges is ignored.

    Returns:
        int64 [n, 73], the orbits in Przulj's order; column 0 is the degree.
    """
    neighbours = _undirected(graph)
    degrees = np.diff(neighbours.indptr).astype(np.int64)
    # Common neighbours of two nodes, a row a node, columns sorted.
    common = sparse.csr_array(neighbours @ neighbours)
    common.sort_indices()
    table = extensions()
    four, sums = count_sets_of_four(
        neighbours.indptr.astype(np.int64),
        neighbours.indices.astype(np.int64),
        common.indptr.astype(np.int64),
        common.indices.astype(np.int64),
        common.data.astype(np.int64),
        table.orbits,
        table.subset_starts,
        table.subsets,
        table.inside,
        table.addition_starts,
        table.positions,
        table.equations,
        table.last_equations,
        table.needs,
    )
    counts = np.empty((graph.num_nodes, ORBITS), dtype=np.int64)
    counts[:, 0] = degrees
    counts[:, 1:4] = _count_sets_of_three(neighbours, degrees)
    counts[:, 4:FIRST_OF_FIVE] = four[:, 4:]
    counts[:, FIRST_OF_FIVE:] = _solved(sums)
    return counts


def _undirected(graph: Graph) -> sparse.csr_array:
    """The adjacency with every edge in both directions, int64 CSR [n, n], columns sorted."""
    source, target = graph.edges
    rows, columns = np.append(source, target), np.append(target, source)
    matrix = sparse.csr_array((np.ones(len(rows), dtype=np.int64), (rows, columns)), shape=(graph.num_nodes,) * 2)
    matrix.data[:] = 1  # an edge that was there in both directions is one
    matrix.sort_indices()
    return matrix


def _count_sets_of_three(neighbours: sparse.csr_array, degrees: NDArray[np.int64]) -> NDArray[np.int64]:
    """Orbits 1 to 3, int64 [n, 3]: end of a path, middle of a path, triangle."""
    triangles = np.asarray((neighbours @ neighbours).multiply(neighbours).sum(axis=1), dtype=np.int64) // 2
    ends = neighbours @ (degrees - 1) - 2 * triangles
    middles = degrees * (degrees - 1) // 2 - triangles
    return np.stack([ends, middles, triangles], axis=1)


def _solved(sums: NDArray[np.int64]) -> NDArray[np.int64]:
    """Counts of the orbits of five nodes, int64 [n, 58], from the left sides of their equations."""
    matrix = equation_matrix()
    counts = np.zeros_like(sums)
    for orbit in np.argsort(-edges_of_orbit(), kind="stable"):
        # Only orbits of graphs with more edges have a coefficient here, and those are done.
        counts[:, orbit] = (sums[:, orbit] - counts @ matrix[orbit]) // matrix[orbit, orbit]
    return counts
