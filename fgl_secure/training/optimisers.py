"""PyTorch's optimisers without its compiler.

A first optimiser of a process loads TorchDynamo, which is to leave some of the optimiser's methods alone where a model
is compiled: a second and a half before the first step, in each of the processes that a federation has. Nothing here is
compiled, so these take the same methods as they are underneath. Steps are PyTorch's to the bit.
"""

from __future__ import annotations

import inspect
from typing import Any

import torch


def _plain(method: Any) -> Any:  # a function; PyTorch's own has no other type for both sides
    """A method of an optimiser, of which TorchDynamo is not told."""
    return inspect.unwrap(method)


def _step(kind: type[torch.optim.Optimizer]) -> Any:  # a function, see `_plain`
    """The step of a kind of optimisers; like the one that is wrapped, it keeps no graph."""
    return torch.no_grad()(_plain(kind.step))


class _Optimiser:
    """What all optimisers have in common, without the compiler."""

    add_param_group = _plain(torch.optim.Optimizer.add_param_group)
    zero_grad = _plain(torch.optim.Optimizer.zero_grad)
    state_dict = _plain(torch.optim.Optimizer.state_dict)
    load_state_dict = _plain(torch.optim.Optimizer.load_state_dict)


class Adam(_Optimiser, torch.optim.Adam):
    """`torch.optim.Adam`, with the same arguments; steps keep no graph, whatever `differentiable` is."""

    step = _step(torch.optim.Adam)


class SGD(_Optimiser, torch.optim.SGD):
    """`torch.optim.SGD`, with the same arguments; steps keep no graph, whatever `differentiable` is."""

    step = _step(torch.optim.SGD)
