"""Digests of many rows are those of the standard library."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgl_secure.crypto.sha256 import digests


@given(st.integers(0, 20), st.integers(0, 200), st.integers(0, 2**32))
def test_each_row_has_the_digest_of_hashlib(count: int, size: int, seed: int) -> None:
    """Whatever the number of rows and their length: some side by side or one alone, one block or several."""
    rows = np.random.default_rng(seed).integers(0, 256, (count, size), dtype=np.uint8)
    found = digests(rows)
    assert found.shape == (count, 32)
    assert found.dtype == np.uint8
    assert [row.tobytes() for row in found] == [hashlib.sha256(row.tobytes()).digest() for row in rows]


@pytest.mark.parametrize("size", [0, 32, 55, 56, 63, 64, 119, 120])
def test_lengths_at_the_edges_of_blocks(size: int) -> None:
    """Where the length just fits behind the row, and where it doesn't."""
    rows = np.arange(9 * size, dtype=np.uint64).astype(np.uint8).reshape(9, size)
    assert [row.tobytes() for row in digests(rows)] == [hashlib.sha256(row.tobytes()).digest() for row in rows]
