"""Grouped sums as a differentiable operation: the only way a model sends anything."""

from __future__ import annotations

from typing import Any, cast

import torch

from fgl_secure.errors import InputError
from fgl_secure.protocols.collective import Collective
from fgl_secure.runtime import Direction, Step


class GroupedSum:
    """Message passing through a scheme, forward and backward.

    The gradient of a sum over messages is the sum over the reversed messages, so the backward pass runs under the
    same scheme: the paper leaves these messages out, but they are messages all the same.

    Args:
        session: sums of the topology.
    """

    def __init__(self, session: Collective) -> None:
        self._session = session

    def __call__(self, values: torch.Tensor, step: Step) -> torch.Tensor:
        """Sums rows by group.

        Args:
            values: float [n, d] on any device, one row a sender.
            step: round and layer.

        Returns:
            float [g, d] of the same dtype and device.
        """
        return cast("torch.Tensor", _SchemeSum.apply(values, self._session, step))  # type: ignore[no-untyped-call]


class _SchemeSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: torch.Tensor, session: Collective, step: Step) -> torch.Tensor:
        ctx.session, ctx.step = session, step
        return _through(session, values, step)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        step = Step(ctx.step.round, ctx.step.layer, Direction.BACKWARD)
        return _through(ctx.session, gradients[0], step), None, None


def _through(session: Collective, values: torch.Tensor, step: Step) -> torch.Tensor:
    rows = values.detach().cpu().contiguous().numpy()
    try:
        sums = session.sum(rows, step)
    except InputError as error:
        raise type(error)(f"{error} (round {step.round}, layer {step.layer}, {step.direction} pass)") from error
    return torch.from_numpy(sums).to(dtype=values.dtype, device=values.device)
