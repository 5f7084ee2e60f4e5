"""Orders by digits: those that a stable comparison gives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from fgl_secure.algebra import sorting

ANY = st.integers(-(2**63), 2**63 - 1)


@pytest.mark.parametrize("few", [0, sorting.FEW])
@given(numbers=hnp.arrays(np.int64, st.integers(0, 60), elements=st.one_of(ANY, st.integers(-3, 3))))
def test_orders_are_those_of_a_stable_sort(few: int, numbers: NDArray[np.int64]) -> None:
    """Of any numbers, large and negative ones and many that are equal, digit by digit and compared."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sorting, "FEW", few)
        found = sorting.order_of(numbers)
    assert found.dtype == np.int64
    assert found.tolist() == np.argsort(numbers, kind="stable").tolist()


@pytest.mark.parametrize("most", [2, 2**20, 2**63 - 1])
def test_many_numbers_are_ordered_and_left_alone(most: int) -> None:
    """Every second one of many numbers, which are as they were."""
    numbers = np.random.default_rng(most).integers(-most, most, 20_000)
    before = numbers.copy()
    assert np.array_equal(sorting.order_of(numbers[::2]), np.argsort(numbers[::2], kind="stable"))
    assert np.array_equal(numbers, before)


@pytest.mark.parametrize("apart", [2**25, 1])
def test_numbers_that_few_digits_tell_apart_are_ordered(apart: int) -> None:
    """Beside a large number all others have the same first digits: in whichever order the rest is, it is counted."""
    falling = np.arange(5000)[::-1] * apart
    numbers = np.concatenate([[2**62], falling, falling, [-1]])
    assert np.array_equal(sorting.order_of(numbers), np.argsort(numbers, kind="stable"))
