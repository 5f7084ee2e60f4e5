"""Sums between the nodes of each graph and its virtual nodes, as products of small dense matrices.

The graphs of a batch are padded to the largest of them; places without a node hold zeros.
"""

from __future__ import annotations

from typing import Any, cast

import torch

from fgl_secure.methods.fedvn.batches import GraphBatch


def pad(values: torch.Tensor, batch: GraphBatch) -> torch.Tensor:
    """Rows of nodes [n, c] as [b, longest, c], zero where there is no node."""
    padded = cast("torch.Tensor", _Pad.apply(values, batch.slot_of, batch.graphs * batch.longest))  # type: ignore[no-untyped-call]
    return padded.reshape(batch.graphs, batch.longest, values.shape[1])


def unpad(padded: torch.Tensor, batch: GraphBatch) -> torch.Tensor:
    """Rows of nodes [n, c] of an array [b, longest, c]."""
    rows = padded.reshape(-1, padded.shape[2])
    return cast("torch.Tensor", _Unpad.apply(rows, batch.slot_of))  # type: ignore[no-untyped-call]


def graph_sums(values: torch.Tensor, batch: GraphBatch) -> torch.Tensor:
    """Rows of nodes [n, c] summed over the nodes of each graph, [b, c]; the same bits each time on any device."""
    return pad(values, batch).sum(dim=1)


def to_virtual(scores: torch.Tensor, values: torch.Tensor, batch: GraphBatch) -> torch.Tensor:
    """What virtual nodes hear (inner sum of Eq. 6).

    Args:
        scores: padded s_vm [b, longest, M].
        values: h_v [n, c].
        batch: the graphs.

    Returns:
        [b, M, c], the sum over the nodes v of each graph of s_vm h_v.
    """
    return scores.transpose(1, 2) @ pad(values, batch)


def to_nodes(scores: torch.Tensor, virtual: torch.Tensor, batch: GraphBatch) -> torch.Tensor:
    """What nodes hear (second term of Eq. 5).

    Args:
        scores: padded s_vm [b, longest, M].
        virtual: h_m [b, M, c], of each graph.
        batch: the graphs.

    Returns:
        [n, c], the sum over the virtual nodes m of s_vm h_m.
    """
    return unpad(scores @ virtual, batch)


class _Pad(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: torch.Tensor, slot_of: torch.Tensor, places: int) -> torch.Tensor:
        ctx.slot_of = slot_of
        return values.new_zeros(places, values.shape[1]).index_copy_(0, slot_of, values)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        return gradients[0].index_select(0, ctx.slot_of), None, None


class _Unpad(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: torch.Tensor, slot_of: torch.Tensor) -> torch.Tensor:
        ctx.slot_of, ctx.places = slot_of, len(rows)
        return rows.index_select(0, slot_of)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        zeros = gradients[0].new_zeros(ctx.places, gradients[0].shape[1])
        return zeros.index_copy_(0, ctx.slot_of, gradients[0]), None
