"""Sparse matrices: products that gradients go through, and what a state keeps of them."""

from __future__ import annotations

import warnings
from typing import Any, cast

import numpy as np
import torch
from scipy import sparse

from fgl_secure.runtime.packing import Array, Arrays

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
        return matrix @ values

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        return ctx.transposed @ gradients[0], None, None


def to_torch(matrix: sparse.csr_array, device: torch.device | None = None) -> torch.Tensor:
    """A sparse matrix as float32 CSR tensor."""
    matrix = sparse.csr_array(matrix, copy=True)
    matrix.sum_duplicates()  # which sorts the columns as well, as torch wants them
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse (CSR tensor support|invariant checks)")
        return torch.sparse_csr_tensor(
            torch.from_numpy(matrix.indptr.astype(np.int64)),
            torch.from_numpy(matrix.indices.astype(np.int64)),
            torch.from_numpy(matrix.data.astype(np.float32)),
            size=matrix.shape,
            device=device,
            check_invariants=True,
        )


class SparseMatrix:
    """A matrix that never changes, on a device; products with it are differentiable in the other factor.

    Args:
        matrix: CSR [n, m].
        device: where model compute runs.
    """

    def __init__(self, matrix: sparse.csr_array, device: torch.device | None = None) -> None:
        self._matrix, self._transposed = to_torch(matrix, device), to_torch(sparse.csr_array(matrix.T), device)

    def __call__(self, values: torch.Tensor) -> torch.Tensor:
        """The product float [n, c] with values [m, c]."""
        return multiply(self._matrix, self._transposed, values)

    def transposed(self, values: torch.Tensor) -> torch.Tensor:
        """The product of the transpose, float [m, c], with values [n, c]."""
        return multiply(self._transposed, self._matrix, values)


def matrix_arrays(matrix: sparse.csr_array) -> dict[str, Array]:
    """Entries, columns, starts of rows, and shape, as a state keeps them."""
    parts = {"columns": matrix.indices, "starts": matrix.indptr, "shape": np.array(matrix.shape)}
    return {"data": matrix.data, **{name: part.astype(np.int64) for name, part in parts.items()}}


def matrix_from(arrays: Arrays) -> sparse.csr_array:
    """The matrix of such arrays."""
    parts = (arrays["data"].copy(), arrays["columns"].copy(), arrays["starts"].copy())
    return sparse.csr_array(parts, shape=tuple(arrays["shape"].tolist()))
