from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fgl_secure.errors import InputError
from fgl_secure.statistics.metrics import exact_rows_recovered
from tests.error_codes import about

shapes = hnp.array_shapes(min_dims=2, max_dims=2, min_side=0, max_side=5)
dtypes = st.sampled_from(["f4", "f8", "i4", "i8", "u1", "?"])


@given(st.tuples(dtypes, shapes).flatmap(lambda kind: st.tuples(*[hnp.arrays(kind[0], kind[1])] * 2)))
def test_rows_are_compared_by_their_bytes(pair: tuple[npt.NDArray[np.generic], npt.NDArray[np.generic]]) -> None:
    """A row counts as recovered exactly when its bytes equal the truth's, NaN and signed zero included."""
    guess, truth = pair
    expected = [a.tobytes() == b.tobytes() for a, b in zip(guess, truth, strict=True)]
    assert exact_rows_recovered(guess, truth).tolist() == expected
    assert exact_rows_recovered(truth, truth).all()


def test_one_flipped_bit_is_no_recovery() -> None:
    """A row that differs in the last bit of one element is not recovered, and strided input is read right."""
    truth = np.arange(24, dtype=np.float64).reshape(4, 6)[:, ::2]
    guess = truth.copy()
    guess[2, 1] = np.nextafter(guess[2, 1], np.inf)
    assert exact_rows_recovered(guess, truth).tolist() == [True, True, False, True]


def test_unlike_arrays_are_refused() -> None:
    """Different shapes, different dtypes and objects raise."""
    rows = np.zeros((2, 3))
    with pytest.raises(InputError, check=about("guess and truth")):
        exact_rows_recovered(rows, rows[:1])
    with pytest.raises(InputError, check=about("guess and truth")):
        exact_rows_recovered(rows[0], rows[0])
    with pytest.raises(InputError, check=about("guess and truth")):
        exact_rows_recovered(rows, rows.astype(np.float32))
    with pytest.raises(InputError, check=about("guess and truth")):
        exact_rows_recovered(rows.astype(object), rows.astype(object))
