"""How likely a random walk is to be back where it started."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fgl_secure.errors import InputError
from fgl_secure.graph.adjacency_powers import looped_adjacency, normalised_adjacency
from fgl_secure.graph.attributed_graph import Graph

_BLOCK = 32
"""Columns that are multiplied at once: n times this many float64 are in memory, and never n times n."""


def return_probabilities(graph: Graph, steps: int) -> NDArray[np.float64]:
    """The diagonals of the powers 1 to `steps` of A^ = D^-1 (A + I) (FedStruct, ICLR 2025, appendix A).

    Args:
        graph: The graph, n nodes; the walk follows the direction of edges.
        steps: The highest power, at least 1.

    Returns:
        float64 [n, steps] in [0, 1].

    Raises:
        InputError: `steps` is below 1.
    """
    if steps < 1:
        raise InputError(f"steps must be at least 1; found {steps}")
    diagonals = _symmetric_diagonals if graph.is_symmetric else _diagonals
    matrix = _symmetric_matrix(graph) if graph.is_symmetric else normalised_adjacency(graph)
    found = np.empty((graph.num_nodes, steps))
    for start in range(0, graph.num_nodes, _BLOCK):
        nodes = np.arange(start, min(start + _BLOCK, graph.num_nodes))
        found[nodes] = diagonals(matrix, nodes, steps)
    return found


def _symmetric_matrix(graph: Graph) -> sparse.csr_array:
    """D^-1/2 (A + I) D^-1/2, whose powers have the same diagonals as those of D^-1 (A + I)."""
    looped = looped_adjacency(graph)
    root = sparse.diags_array(1 / np.sqrt(looped.sum(axis=1)))
    return sparse.csr_array(root @ looped @ root)


def _unit_columns(nodes: NDArray[np.int64], n: int) -> NDArray[np.float64]:
    columns = np.zeros((n, len(nodes)))
    columns[nodes, np.arange(len(nodes))] = 1
    return columns


def _diagonals(matrix: sparse.csr_array, nodes: NDArray[np.int64], steps: int) -> NDArray[np.float64]:
    """Entries (v, v) of the powers for the given nodes, float64 [nodes, steps]."""
    columns = _unit_columns(nodes, matrix.shape[0])
    found = np.empty((len(nodes), steps))
    for step in range(steps):
        columns = matrix @ columns
        found[:, step] = columns[nodes, np.arange(len(nodes))]
    return found


def _symmetric_diagonals(matrix: sparse.csr_array, nodes: NDArray[np.int64], steps: int) -> NDArray[np.float64]:
    """The same for a symmetric N, with half the multiplications: entry (v, v) of N^(s+t) is N^s e_v times N^t e_v."""
    before = _unit_columns(nodes, matrix.shape[0])
    found = np.empty((len(nodes), steps))
    for step in range(0, steps, 2):
        columns = matrix @ before
        found[:, step] = np.einsum("ij,ij->j", before, columns)
        if step + 1 < steps:
            found[:, step + 1] = np.einsum("ij,ij->j", columns, columns)
        before = columns
    return found
