"""Sparse matrices: products that gradients go through, and what a state keeps of them."""

from __future__ import annotations

import warnings
from typing import Any, Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from fgl_secure.errors import MalformedMessageError
from fgl_secure.runtime.packing import Arrays
from fgl_secure.typing import Array

MOST_DENSE = 0.1
"""Rows with a larger share of non-zero entries are kept as dense matrices."""


def multiply(matrix: torch.Tensor, transposed: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """A sparse product, differentiable in `values`.

    Args:
        matrix: sparse CSR [n, m].
        transposed: its transpose, sparse CSR [m, n].
        values: [m, c].

    Returns:
        [n, c].
    """
    return cast("torch.Tensor", _Product.apply(values, matrix, transposed))  # type: ignore[no-untyped-call]


class _Product(torch.autograd.Function):
    """A sparse product whose backward pass is a product with the transpose that was made once."""

    @staticmethod
    def forward(ctx: Any, values: torch.Tensor, matrix: torch.Tensor, transposed: torch.Tensor) -> torch.Tensor:
        ctx.transposed = transposed
        return product(matrix, values)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        return product(ctx.transposed, gradients[0]), None, None


def product(matrix: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """The product [n, c] of a CSR matrix [n, m] with values [m, c], the same bits in every run; without gradients."""
    if not values.is_cuda:
        return matrix @ values
    # cuSPARSE adds up in another order in each run, and equal runs would come out different
    terms = values[matrix.col_indices()] * matrix.values()[:, None]
    return torch.segment_reduce(terms, "sum", offsets=matrix.crow_indices(), axis=0)


def to_torch(matrix: sparse.csr_array, device: torch.device | None = None) -> torch.Tensor:
    """A sparse matrix as float32 CSR tensor."""
    matrix = sparse.csr_array(matrix, copy=True)
    matrix.sum_duplicates()  # which sorts the columns as well, as torch wants them
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse (CSR tensor support|invariant checks)")
        return torch.sparse_csr_tensor(
            _laid_out(matrix.indptr, torch.int64),
            _laid_out(matrix.indices, torch.int64),
            _laid_out(matrix.data, torch.float32),
            size=matrix.shape,
            device=device,
            check_invariants=True,
        )


def _laid_out(values: Array, dtype: torch.dtype) -> torch.Tensor:
    """A copy; an empty array of numpy 2.5 has strides of zero, which torch 2.11 takes for gaps."""
    return torch.empty(len(values), dtype=dtype).copy_(torch.from_numpy(values))


class SparseMatrix:
    """A matrix that never changes, on a device; products with it are differentiable in the other factor.

    Args:
        matrix: CSR [n, m].
        device: where model compute runs.
    """

    def __init__(self, matrix: sparse.csr_array, device: torch.device | None = None) -> None:
        self._matrix, self._transposed = to_torch(matrix, device), to_torch(sparse.csr_array(matrix.T), device)

    @classmethod
    def of_edges(cls, edges: NDArray[np.int64], nodes: int, device: torch.device | None = None) -> Self:
        """Sums over neighbours: row v of a product is the sum of the rows of the sources of v's edges.

        Adding rows up by index instead is not repeatable: where indexing with repeats is differentiated, torch adds
        with several threads in whatever order they come, and so does `index_add` on CUDA.

        Args:
            edges: sources and targets, int64 [2, E], nodes by place; an edge that is there twice counts twice.
            nodes: number of nodes.
            device: where model compute runs.
        """
        source, target = edges
        ones = np.ones(len(source), dtype=np.float32)
        return cls(sparse.csr_array((ones, (target, source)), shape=(nodes, nodes)), device)

    def __call__(self, values: torch.Tensor) -> torch.Tensor:
        """The product float [n, c] with values [m, c]."""
        return multiply(self._matrix, self._transposed, values)

    def transposed_product(self, values: torch.Tensor) -> torch.Tensor:
        """The product of the transpose, float [m, c], with values [n, c]."""
        return multiply(self._transposed, self._matrix, values)


def matrix_arrays(matrix: sparse.csr_array) -> dict[str, Array]:
    """Entries, columns, starts of rows, and shape, as a state keeps them."""
    parts = {"columns": matrix.indices, "starts": matrix.indptr, "shape": np.array(matrix.shape)}
    return {"data": matrix.data, **{name: part.astype(np.int64) for name, part in parts.items()}}


def matrix_from(arrays: Arrays) -> sparse.csr_array:
    """Return the matrix of such arrays.

    Raises:
        MalformedMessageError: an index lies outside of the matrix, where compiled code would read foreign memory.
    """
    parts = (arrays["data"].copy(), arrays["columns"].copy(), arrays["starts"].copy())
    try:
        matrix = sparse.csr_array(parts, shape=tuple(arrays["shape"].tolist()))
        matrix.check_format(full_check=True)
    except ValueError as error:
        raise MalformedMessageError(f"matrix of a state must have its indices inside of it; {error}") from error
    return matrix
