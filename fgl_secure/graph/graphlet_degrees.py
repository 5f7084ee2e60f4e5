"""How often each node of a graph takes each place in a small connected subgraph."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fgl_secure.graph.attributed_graph import Graph
from fgl_secure.graph.graphlet_equations import edges_of_orbit, equation_matrix, extensions
from fgl_secure.graph.graphlets import FIRST_OF_FIVE, ORBITS
from fgl_secure.graph.sets_of_four import count_sets_of_four


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
