"""Strings of bytes one after another: read back as they were, and refused where they are cut."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgl_secure.errors import MalformedMessageError
from fgl_secure.runtime.packing import packed, unpacked
from tests.error_codes import about

FIELDS = st.lists(st.binary(max_size=20), max_size=6)


@given(FIELDS)
def test_fields_come_back(fields: list[bytes]) -> None:
    """Packed and unpacked: the same bytes, in the same order, and as many as must be."""
    assert unpacked(packed(fields)) == unpacked(packed(fields), len(fields)) == fields
    with pytest.raises(MalformedMessageError, check=about("message")):
        unpacked(packed(fields), len(fields) + 1)


@given(FIELDS, FIELDS)
def test_different_fields_are_different_bytes(first: list[bytes], second: list[bytes]) -> None:
    """No two rows of fields are written alike."""
    assert (packed(first) == packed(second)) == (first == second)


@given(st.binary(max_size=60))
def test_what_is_not_packed_is_refused(data: bytes) -> None:
    """Bytes are what somebody packed, or an error."""
    try:
        fields = unpacked(data)
    except MalformedMessageError:
        return
    assert packed(fields) == data


def test_a_length_beyond_what_there_is_is_refused() -> None:
    """Nothing is allocated for a length that nobody sent."""
    with pytest.raises(MalformedMessageError, check=about("field")):
        unpacked(struct.pack(">Q", 2**63) + b"abc")
