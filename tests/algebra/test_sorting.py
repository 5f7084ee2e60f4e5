"""Orders of numbers whose places are sorted with them, and places: those that numpy's comparisons give."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from fgl_secure.algebra import sorting

ANY = st.integers(-(2**63), 2**63 - 1)


@pytest.mark.parametrize("word_bits", [6, 9, 63, sorting.WORD_BITS])
@given(numbers=hnp.arrays(np.int64, st.integers(0, 60), elements=st.one_of(ANY, st.integers(-3, 3))))
def test_orders_are_those_of_a_stable_sort(word_bits: int, numbers: NDArray[np.int64]) -> None:
    """Of any numbers, large and negative ones and many that are equal, whether words tell all of them, few or none."""
    before = numbers.copy()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sorting, "WORD_BITS", word_bits)
        found = sorting.order_of(numbers)
    assert found.dtype == np.int64
    assert found.tolist() == np.argsort(numbers, kind="stable").tolist()
    assert np.array_equal(numbers, before)


@pytest.mark.parametrize("most", [2, 2**20, 2**63 - 1])
def test_every_second_one_of_many_numbers(most: int) -> None:
    """Numbers that do not lie beside each other."""
    numbers = np.random.default_rng(most).integers(-most, most, 20_000)
    assert np.array_equal(sorting.order_of(numbers[::2]), np.argsort(numbers[::2], kind="stable"))


@pytest.mark.parametrize("apart", [2**25, 1])
def test_numbers_that_their_highest_bits_do_not_tell_apart(apart: int) -> None:
    """Beside a large number all others have the same first bits."""
    falling = np.arange(5000)[::-1] * apart
    numbers = np.concatenate([[2**62], falling, falling, [-1]])
    assert np.array_equal(sorting.order_of(numbers), np.argsort(numbers, kind="stable"))


@pytest.mark.parametrize("count", [0, 1, sorting.FEW, 5 * sorting.FEW])
@given(
    known=hnp.arrays(np.int64, st.integers(0, 60), elements=st.one_of(ANY, st.integers(-3, 3))), seed=st.integers(0, 9)
)
def test_numbers_are_found_in_whichever_order(count: int, known: NDArray[np.int64], seed: int) -> None:
    """Few and many, at random or ascending, those that are there and others."""
    known = np.sort(known)
    rng = np.random.default_rng(seed)
    wanted = np.concatenate([known, known + 1, rng.integers(-5, 5, count)])
    for some in (rng.permutation(wanted), np.sort(wanted)):
        assert np.array_equal(sorting.places_among(some, known), np.searchsorted(known, some))
