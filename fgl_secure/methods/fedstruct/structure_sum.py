"""Structure embeddings z_v = sum over u of A-bar_vu g(s_u) (FedStruct, ICLR 2025, Eq. 9), whoever holds A-bar."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from scipy import sparse

from fgl_secure.runtime import Step
from fgl_secure.training.sparse_products import multiply, to_torch


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
