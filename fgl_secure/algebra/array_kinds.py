"""Which arithmetic serves which kind of array."""

from __future__ import annotations

from typing import Any

import torch

from fgl_secure.algebra.arithmetic import Arithmetic
from fgl_secure.algebra.numpy_arithmetic import NUMPY
from fgl_secure.algebra.torch_arithmetic import TORCH

KINDS: tuple[tuple[type, Arithmetic], ...] = ((torch.Tensor, TORCH), (object, NUMPY))
"""Looked through from the front: one tensor among the operands makes the answer a tensor, anything else is numpy's."""


def arithmetic_of(*operands: Any) -> tuple[Arithmetic, Any]:
    """The arithmetic for these operands, and the operand that says on which device the answer belongs."""
    return next((arithmetic, x) for kind, arithmetic in KINDS for x in operands if isinstance(x, kind))
