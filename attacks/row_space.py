"""Which unknowns a system of linear equations determines although it does not determine all.

Unknown u is the same in all solutions of M x = b exactly where the unit vector e_u lies in the row space of M, that is
where its leverage, the squared length of its projection onto that space, is 1 (Chin and Ozsoyoglu, IEEE TSE 8 (1982),
on sums that a statistical database answers).

Solving sums of rows for the single rows that they determine, where there are many sums of few rows each.

What `row_space` does on a dense matrix, after everything that needs no such matrix: sums over one unknown row are
substituted into the others, unknowns that are never apart are taken as one, and what is connected is solved by itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from fgl_secure.attacks.base import Measurement
from fgl_secure.runtime import Step
from fgl_secure.statistics.metrics import clustered_proportion
from fgl_secure.typing import Floats, Ids

RANK = 1e-10
"""Singular values below this share of the largest count as zero."""

DETERMINED = 1e-8
"""How far below 1 the leverage of a determined unknown may be, in double precision."""


def row_basis(matrix: Floats) -> Floats:
    """An orthonormal basis of the row space: float64 [r, m] of a matrix [q, m], singular values cut off by `RANK`."""
    return _truncated_svd(matrix)[2]


def leverages(basis: Floats) -> Floats:
    """The squared length of each unit vector's projection onto a space: float64 [m] of an orthonormal basis [r, m]."""
    return np.asarray((basis * basis).sum(axis=0))


def determined_unknowns(basis: Floats) -> NDArray[np.bool_]:
    """Bool [m]: the unknowns that a space of answered rows determines."""
    return np.asarray(leverages(basis) > 1 - DETERMINED)


@dataclass(frozen=True, slots=True, eq=False)
class _Solver:
    """How to read the determined unknowns off the right-hand sides."""

    unknowns: Ids  # int64 [k], ascending, which are determined
    weights: Floats  # float64 [k, q]; weights @ b are their values


def solver(matrix: Floats) -> _Solver:
    """The determined unknowns of a matrix [q, m], and the combination of equations that isolates each."""
    left, singular, basis = _truncated_svd(matrix)
    unknowns = np.flatnonzero(determined_unknowns(basis))
    return _Solver(unknowns, (basis[:, unknowns] / singular[:, None]).T @ left.T)


def _truncated_svd(matrix: Floats) -> tuple[Floats, Floats, Floats]:
    if not matrix.size:
        rows, columns = matrix.shape
        return np.empty((rows, 0)), np.empty(0), np.empty((0, columns))
    left, singular, right = np.linalg.svd(matrix, full_matrices=False)
    rank = int((singular > RANK * singular[0]).sum())
    return left[:, :rank], singular[:rank], right[:rank]


@dataclass(frozen=True, slots=True, eq=False)
class Equations:
    """Sums of unknown rows."""

    matrix: sparse.csr_array  # float64 CSR [q, n] of whole numbers, how often each unknown is in each sum
    values: Floats  # float64 [q, d], the sums
    error: Floats  # float64 [q], how far a coordinate of each may be off

    @classmethod
    def stack(cls, parts: list[Equations]) -> Equations:
        """All sums of several systems about the same unknowns; at least one."""
        matrix = sparse.csr_array(sparse.vstack([part.matrix for part in parts], format="csr"))
        return cls(matrix, *(np.concatenate([getattr(part, name) for part in parts]) for name in ("values", "error")))

    def without(self, nodes: Ids, values: Floats, error: Floats) -> Equations:
        """The sums with known rows taken out: unknowns int64 [k], their rows [k, d], and how far off these are [k]."""
        part = self.matrix[:, nodes]
        mask = np.ones(self.matrix.shape[1])
        mask[nodes] = 0.0
        matrix = sparse.csr_array(self.matrix @ sparse.diags_array(mask))
        matrix.eliminate_zeros()
        return Equations(matrix, self.values - part @ values, self.error + abs(part) @ error)


@dataclass(frozen=True, slots=True, eq=False)
class DeterminedRows:
    """Unknowns int64 [k] that sums determine, their rows float64 [k, d], and how far a coordinate may be off [k]."""

    nodes: Ids
    values: Floats
    error: Floats


def solve(equations: Equations) -> DeterminedRows:
    """Every unknown that the sums determine, ascending."""
    result, rest = _substitute(equations)
    parts = [*result, *(_solve_block(rest, block) for block in _blocks(rest))]
    nodes, values, error = (np.concatenate([getattr(p, name) for p in parts]) for name in ("nodes", "values", "error"))
    order = np.argsort(nodes, kind="stable")
    return DeterminedRows(nodes[order], values[order], error[order])


def _substitute(equations: Equations) -> tuple[list[DeterminedRows], Equations]:
    """What substitution alone reads, and the sums that are left."""
    width = equations.values.shape[1]
    result = [DeterminedRows(np.empty(0, dtype=np.int64), np.empty((0, width)), np.empty(0))]
    while True:
        matrix = equations.matrix
        index = np.flatnonzero(np.diff(matrix.indptr) == 1)
        if not len(index):
            return result, equations
        index = index[np.argsort(equations.error[index], kind="stable")]  # of several sums over one row the best
        alone = matrix[index]
        nodes, first = np.unique(alone.indices.astype(np.int64), return_index=True)
        times = alone.data[first]
        rows = DeterminedRows(
            nodes, equations.values[index[first]] / times[:, None], equations.error[index[first]] / abs(times)
        )
        result.append(rows)
        equations = equations.without(rows.nodes, rows.values, rows.error)


@dataclass(frozen=True, slots=True, eq=False)
class _EquationBlock:
    """Connected sums int64 [q] and the unknowns int64 [m] in them, of those that are never apart one each."""

    sums: Ids
    unknowns: Ids
    lone: NDArray[np.bool_]  # bool [m], whether the unknown stands for itself alone


def _blocks(equations: Equations) -> list[_EquationBlock]:
    """The connected parts in which some unknown can be determined: no fewer than two sums and one lone unknown."""
    first, lone = _apart(equations.matrix)
    matrix = sparse.csr_array(equations.matrix[:, first])
    sums = matrix.shape[0]
    joined = sparse.csr_array(sparse.block_array([[None, matrix], [matrix.T, None]], format="csr"))
    parts, label = connected_components(joined, directed=False) if matrix.nnz else (0, np.empty(0, dtype=np.int64))
    blocks = []
    for part in range(parts):
        members = np.flatnonzero(label == part)
        rows, columns = members[members < sums], members[members >= sums] - sums
        if len(rows) > 1 and lone[columns].any():
            blocks.append(_EquationBlock(rows.astype(np.int64), first[columns], lone[columns]))
    return blocks


def _apart(matrix: sparse.csr_array) -> tuple[Ids, NDArray[np.bool_]]:
    """Of unknowns with equal columns the first, int64 [m], and whether it is the only one; unknowns in no sum go."""
    rng = np.random.default_rng(0)
    integers = sparse.csr_array(matrix.astype(np.int64))
    marks = rng.integers(-(2**62), 2**62, size=(integers.shape[0], 2))
    columns = np.asarray(integers.T @ marks)  # equal columns have equal marks; others differ, up to 2^-100
    used_columns = np.flatnonzero(np.bincount(integers.indices, minlength=integers.shape[1]))
    _, first, counts = np.unique(columns[used_columns], axis=0, return_index=True, return_counts=True)
    order = np.argsort(used_columns[first])
    return used_columns[first][order].astype(np.int64), (counts == 1)[order]


def _solve_block(equations: Equations, block: _EquationBlock) -> DeterminedRows:
    matrix = equations.matrix[block.sums][:, block.unknowns].toarray()
    scale = np.linalg.norm(matrix, axis=1)
    solution = solver(matrix / scale[:, None])
    is_lone = block.lone[solution.unknowns]
    weights = solution.weights[is_lone] / scale
    error = np.abs(weights) @ equations.error[block.sums]
    return DeterminedRows(block.unknowns[solution.unknowns[is_lone]], weights @ equations.values[block.sums], error)


@dataclass(frozen=True, slots=True, eq=False)
class SolvedRows:
    """Rows of single nodes that clients read from systems of sums, one for each observer and client that answers."""

    step: Step  # when the sums were given
    askers: Ids  # int64 [p], index of the observing client; of the first one where several pool what they have
    # int64 [p], index of the client whose nodes are summed; that of the observer where they are of several
    targets: Ids
    sums: Ids  # int64 [p], how many there are
    touched: Ids  # int64 [p], nodes that are asked about
    exposed: Ids  # int64 [p], how many of these the sums determine
    system: Ids  # int64 [k], from which of these each row is read
    nodes: Ids  # int64 [k], device index of the node that each row is said to belong to
    values: Floats  # float64 [k, c], the rows

    @classmethod
    def of_all(cls, step: Step, solved: list[tuple[tuple[int, int, int, int, int], Ids, Floats]]) -> SolvedRows:
        """The claims from all systems, each with its five numbers, side by side; at least one system."""
        askers, targets, sums, touched, exposed = np.array([item for item, _, _ in solved], dtype=np.int64).T
        system = np.repeat(np.arange(len(solved)), [len(nodes) for _, nodes, _ in solved])
        values = [rows for _, nodes, rows in solved if len(nodes)] or [solved[0][2]]
        nodes, rows = np.concatenate([item for _, item, _ in solved]), np.concatenate(values)
        return cls(step, askers, targets, sums, touched, exposed, system, nodes, rows)

    def share_of_nodes(self, right: NDArray[np.bool_], finding: str) -> Measurement:
        """How many of the nodes that are asked about are read, the size of the leak: bool [k] says which rows are."""
        read = np.bincount(self.system[right], minlength=len(self.touched))
        row_numbers = np.repeat(np.arange(len(read)), self.touched)
        number = np.arange(len(row_numbers)) - np.repeat(np.cumsum(self.touched) - self.touched, self.touched)
        share = clustered_proportion(number < read[row_numbers], self.targets[row_numbers], seed=0)
        reach = int(self.exposed.sum()) / max(int(self.touched.sum()), 1)
        return Measurement.of_share("nodes exposed", share, finding, reachable=reach, context=True)


def exact_rows(nodes: Ids, values: Floats, secret: Floats, close: float) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which claimed rows are right up to a relative distance, and for which the most frequent row would be.

    Where no two of the claimed nodes have the same row, none is frequent: no party could guess it.

    Args:
        nodes: int64 [k].
        values: float64 [k, c], the rows that they are said to have.
        secret: float64 [k, c], those that they have.
        close: how far off a row may be, as a share of its length.

    Returns:
        Bool [k] each.
    """
    if not len(nodes):
        return np.zeros(0, dtype=np.bool_), np.zeros(0, dtype=np.bool_)
    distance = np.linalg.norm(values - secret, axis=1)
    rows, counts = np.unique(secret[np.unique(nodes, return_index=True)[1]], axis=0, return_counts=True)
    common = (secret == rows[counts.argmax()]).all(axis=1) & (counts.max() > 1)
    return distance <= close * np.linalg.norm(secret, axis=1), np.asarray(common)
