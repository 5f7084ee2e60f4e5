"""What programs remember of optimisers and generators, as arrays."""

from __future__ import annotations

import numpy as np
import pytest

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
