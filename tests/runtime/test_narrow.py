"""Numbers in as few bytes as their count allows."""

from __future__ import annotations

import numpy as np

from fgl_secure.runtime.transcript import kind_of, narrow


def test_numbers_are_as_narrow_as_their_count_allows() -> None:
    """Up to 2^31 of them, and -1, in four bytes; the same numbers, whether their count is given or not."""
    assert [kind_of(count) for count in (0, 2**31, 2**31 + 1)] == [np.int32, np.int32, np.int64]
    for most in (2**31 - 1, 2**31):
        numbers = np.array([-1, 0, most])
        for found in (narrow(numbers), narrow(numbers, most + 1)):
            assert found.tolist() == numbers.tolist()
            assert found.itemsize == (4 if most < 2**31 else 8)
    assert narrow(np.array([-(2**31) - 1])).tolist() == [-(2**31) - 1]
    assert len(narrow(np.empty(0, dtype=np.int64))) == 0
