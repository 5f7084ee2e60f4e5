"""Tensors of arrays, arrays of tensors, and PyTorch's optimisers without its compiler.

A first optimiser of a process loads TorchDynamo, which is to leave some of the optimiser's methods alone where a model
is compiled: a second and a half before the first step, in each of the processes that a federation has. Nothing here is
compiled, so `Adam` and `SGD` take the same methods as they are underneath. Steps are PyTorch's to the bit.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from fgl_secure.runtime.packing import Arrays
from fgl_secure.typing import Array


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


LARGE = 2**26
"""Bytes of an array that isn't copied."""


def as_shared_tensor(values: Array, device: torch.device) -> torch.Tensor:
    """A tensor of an array that no party writes into: where it is large, and on the CPU, in the same memory.

    Small ones are copied to where PyTorch puts its own: products of rows elsewhere in memory may differ in a last bit.
    """
    if values.nbytes < LARGE:
        return torch.tensor(values).to(device)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writable", UserWarning)
        return torch.from_numpy(values).to(device)


def optimiser_state(optimiser: torch.optim.Optimizer) -> dict[str, Array]:
    """What it keeps of every parameter, by number of the parameter and name."""
    state = optimiser.state_dict()["state"]
    return {f"{n}/{name}": value.cpu().numpy().copy() for n, entry in state.items() for name, value in entry.items()}


def remind(optimiser: torch.optim.Optimizer, arrays: Arrays) -> None:
    """Gives it back what `optimiser_state` found."""
    state: dict[int, dict[str, torch.Tensor]] = {}
    for key, value in arrays.items():
        number, name = key.split("/")
        state.setdefault(int(number), {})[name] = torch.from_numpy(np.array(value))
    optimiser.load_state_dict({"state": state, "param_groups": optimiser.state_dict()["param_groups"]})


def generator_state(draws: np.random.Generator) -> Array:
    """Where a generator is in its stream, uint64 [6]; it must be the one that `numpy.random.default_rng` makes."""
    state = draws.bit_generator.state
    words = [word for number in state["state"].values() for word in (number >> 64, number & _WORD)]
    return np.array([*words, state["has_uint32"], state["uinteger"]], dtype=np.uint64)


def draw_on(draws: np.random.Generator, where: Array) -> None:
    """Has a generator go on where `generator_state` found another one."""
    first, second, third, fourth, has, rest = where.tolist()
    numbers = {"state": first << 64 | second, "inc": third << 64 | fourth}
    stored = {"state": numbers, "has_uint32": has, "uinteger": rest}
    draws.bit_generator.state = {**draws.bit_generator.state, **stored}


_WORD = 2**64 - 1


def flat(tensors: Sequence[torch.Tensor]) -> Array:
    """Parameters one after the other, float32."""
    parts = [tensor.detach().cpu().reshape(-1).numpy() for tensor in tensors]
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.float32)


def unflatten(values: Array, like: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Tensors of the same shapes, types and devices as others from their entries one after the other."""
    vector = torch.from_numpy(np.array(values))
    parts = torch.split(vector, [tensor.numel() for tensor in like])
    return [part.reshape(t.shape).to(dtype=t.dtype, device=t.device) for part, t in zip(parts, like, strict=True)]


def overwrite(tensors: Sequence[torch.Tensor], values: Array) -> None:
    """Sets parameters to entries one after the other."""
    with torch.no_grad():
        for tensor, value in zip(tensors, unflatten(values, tensors), strict=True):
            tensor.copy_(value)
