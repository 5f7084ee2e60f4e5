"""Tensors of arrays, and what programs remember of optimisers and generators, as arrays."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fgl_secure.training import parameters
from fgl_secure.training.parameters import draw_on, drawn


@pytest.mark.parametrize("before", [0, 1, 7])
def test_a_generator_goes_on_where_another_one_is(before: int) -> None:
    """Also with half a word in store, as after an odd number of small draws."""
    first, second = np.random.default_rng(1), np.random.default_rng([2, 3])
    first.integers(256, size=before, dtype=np.uint32)
    where = drawn(first)
    assert (where.dtype, where.shape) == (np.dtype(np.uint64), (6,))
    draw_on(second, where)
    wanted = [first.integers(2**32, dtype=np.uint32), first.random(), first.permutation(20).tolist(), first.bytes(5)]
    assert [
        second.integers(2**32, dtype=np.uint32), second.random(), second.permutation(20).tolist(), second.bytes(5)
    ] == wanted  # fmt: skip
    first.random()
    draw_on(second, where)
    assert first.random() != second.random()


@pytest.mark.parametrize("large", [0, 2**26])
def test_large_arrays_are_not_copied(large: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tensor of one is of the same memory, without a warning that it may not be written; small ones are copied."""
    monkeypatch.setattr(parameters, "LARGE", large)
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    values.setflags(write=False)
    found = parameters.unwritten(values, torch.device("cpu"))
    assert found.tolist() == values.tolist()
    assert (found.data_ptr() == values.ctypes.data) == (large == 0)
