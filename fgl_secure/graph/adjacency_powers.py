"""Powers of the normalised adjacency as somebody who holds the whole graph computes them: the oracle of exchanges."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import sparse

from fgl_secure.errors import InputError
from fgl_secure.graph.attributed_graph import Graph


def looped_adjacency(graph: Graph) -> sparse.csr_array:
    """A + I: row v has a 1 at v and at every u with an edge from v to u (FedStruct, ICLR 2025, section 3).

    Returns:
        float64 CSR [n, n]; a self-loop of the graph counts once.
    """
    n = graph.num_nodes
    source, target = graph.edges
    everyone = np.arange(n)
    rows, columns = np.concatenate([source, everyone]), np.concatenate([target, everyone])
    looped = sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=(n, n))
    looped.data[:] = 1.0  # a self-loop and the one that is added are one
    return looped


def normalised_adjacency(graph: Graph) -> sparse.csr_array:
    """D^-1 (A + I) with D the row sums of A + I: float64 CSR [n, n] whose rows sum to 1."""
    looped = looped_adjacency(graph)
    return sparse.csr_array(sparse.diags_array(1 / looped.sum(axis=1)) @ looped)


def adjacency_powers(graph: Graph, hops: int, kept: int | None = None) -> list[sparse.csr_array]:
    """The powers 1 to `hops` of the normalised adjacency.

    Args:
        graph: the whole graph, n nodes.
        hops: the highest power L_s, at least 1.
        kept: entries kept for each node p, by keeping the n p largest of the whole matrix after every multiplication
            and none of the others, without normalising anew (section 5.3); None keeps all.

    Returns:
        `hops` float64 CSR matrices [n, n].

    Raises:
        InputError: `hops` or `kept` is below 1.
    """
    if hops < 1:
        raise InputError(f"hops must be at least 1; found {hops}")
    if kept is not None and kept < 1:
        raise InputError(f"kept must be at least 1 entry a node; found {kept}")
    first = normalised_adjacency(graph)
    powers = [first]
    for _ in range(hops - 1):
        power = sparse.csr_array(first @ powers[-1])
        powers.append(power if kept is None else largest_entries(power, kept * graph.num_nodes))
    return powers


def combined_adjacency(powers: Sequence[sparse.csr_array], weights: Sequence[float] | None = None) -> sparse.csr_array:
    """The weighted sum of powers (Eq. 2), as the filter of section 5.2 has it from power 0 on: float64 CSR [n, n].

    Args:
        powers: powers 1 to L_s.
        weights: beta_0 to beta_{L_s}; None takes the last power alone, as the experiments of the paper do.
    """
    if weights is None:
        return powers[-1]
    if len(weights) != len(powers) + 1:
        raise InputError(f"weights must be {len(powers) + 1}, for the powers 0 to {len(powers)}; found {len(weights)}")
    total = sparse.csr_array(weights[0] * sparse.eye_array(powers[0].shape[0]))
    for weight, power in zip(weights[1:], powers, strict=True):
        total = sparse.csr_array(total + weight * power)
    return total


def largest_entries(matrix: sparse.csr_array, count: int) -> sparse.csr_array:
    """The `count` largest entries of a sparse matrix, all others left out; ties go to the earlier row and column."""
    if matrix.nnz <= count:
        return matrix
    matrix.sort_indices()
    order = np.argsort(-matrix.data, kind="stable")[:count]
    kept = np.zeros(matrix.nnz, dtype=np.bool_)
    kept[order] = True
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    return sparse.csr_array((matrix.data[kept], (rows[kept], matrix.indices[kept])), shape=matrix.shape)
