"""Structure embeddings z_v = sum over u of A-bar_vu g(s_u) (FedStruct, ICLR 2025, Eq. 9), whoever holds A-bar."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from typing import Any, cast

import numpy as np
import torch
from scipy import sparse

from fgl_secure.runtime import Step


class StructureSum(ABC):
    """Z = A-bar G as a differentiable operation; how it comes about is what exchanges differ in."""

    @abstractmethod
    def __call__(self, embeddings: torch.Tensor, step: Step) -> torch.Tensor:
        """Combines the embeddings of all nodes.

        Args:
            embeddings: float [n, c] on any device, g(s_u) of every node u.
            step: round, and whether it is an evaluation.

        Returns:
            float [n, c] of the same dtype and device: z_v of every node v, as the client of v comes to know it.
        """


class HeldRows(StructureSum):
    """Every client holds the rows of A-bar of its own nodes, and the embeddings of all nodes (Algorithms 1 and 2).

    Args:
        rows: CSR [n, n], the rows of all clients in the order of the nodes.
        device: where model compute runs.
    """

    def __init__(self, rows: sparse.csr_array, device: torch.device | None = None) -> None:
        self._rows = to_torch(rows, device)
        self._columns = to_torch(sparse.csr_array(rows.T), device)

    def __call__(self, embeddings: torch.Tensor, step: Step) -> torch.Tensor:  # noqa: ARG002  # nothing is said
        """Every client multiplies its rows by the embeddings that it holds; no message."""
        return multiply(self._rows, self._columns, embeddings)


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
