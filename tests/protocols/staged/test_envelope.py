"""Every message says where it belongs, and is taken nowhere else; fields come back as they went."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgl_secure.errors import MalformedMessageError, ProtocolError, StaleMessageError
from fgl_secure.protocols.staged.envelope import SERVER, VERSION, Envelope, packed, stage_of, unpacked
from fgl_secure.protocols.staged.interface import Stage, SumTerms

TERMS = SumTerms(bytes(range(16)), 5, 4, 3, 2, 7)
ENVELOPE = Envelope(b"TEST", TERMS, Stage.SHARES, 2, SERVER)
MESSAGE = ENVELOPE.sealed([b"one", b"", b"three"])
HEAD_BYTES = len(ENVELOPE.sealed([]))

fields_of_any_size = st.lists(st.binary(max_size=40), max_size=6)


@given(fields_of_any_size)
def test_fields_come_back(fields: list[bytes]) -> None:
    """Packed and unpacked, sealed and opened: the same bytes, in the same order."""
    assert unpacked(packed(fields)) == fields
    assert ENVELOPE.opened(ENVELOPE.sealed(fields), len(fields)) == fields


@given(fields_of_any_size, fields_of_any_size)
def test_different_fields_are_different_bytes(first: list[bytes], second: list[bytes]) -> None:
    """No two lists of fields look alike."""
    assert (packed(first) == packed(second)) == (first == second)


@given(st.binary(max_size=80))
def test_what_is_not_packed_is_refused(data: bytes) -> None:
    """Any bytes are either those of some fields, and of those alone, or malformed."""
    try:
        fields = unpacked(data)
    except MalformedMessageError:
        return
    assert packed(fields) == data


def test_the_layout_of_a_message() -> None:
    """Magic, version, stage, scheme, session, number, sender and receiver, big-endian; then lengths and fields."""
    numbers = struct.pack(">QII", 5, 2, 2**32 - 1)
    head = b"FGLS" + bytes([VERSION, 1]) + b"TEST" + bytes(range(16)) + numbers
    assert head + b"".join(struct.pack(">Q", len(field)) + field for field in (b"one", b"", b"three")) == MESSAGE
    assert len(head) == HEAD_BYTES == 42
    assert stage_of(MESSAGE) is Stage.SHARES


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"scheme": b"ELSE"}, MalformedMessageError, "must be of version 1 and scheme b'ELSE'"),
        ({"stage": Stage.KEYS}, StaleMessageError, r"must be of stage KEYS \(0\); found 1"),
        ({"sender": 1}, MalformedMessageError, "must run from 1 to 4294967295; found 2 to 4294967295"),
        ({"receiver": 0}, MalformedMessageError, "must run from 2 to 0"),
        ({"terms": replace(TERMS, session=bytes(16))}, StaleMessageError, "must be of this session"),
        ({"terms": replace(TERMS, number=6)}, StaleMessageError, "must be of sum 6; found 5"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_message_is_taken_where_it_belongs(change: dict[str, Any], error: type[ProtocolError], message: str) -> None:
    """Of another scheme, session, sum, stage, sender or receiver it raises, and the error says which."""
    with pytest.raises(error, match=message):
        replace(ENVELOPE, **change).opened(MESSAGE, 3)


def test_another_number_of_fields_is_refused() -> None:
    """A message has as many fields as its stage has."""
    for count in (0, 2, 4):
        with pytest.raises(MalformedMessageError, match=f"must have {count} fields; found 3"):
            ENVELOPE.opened(MESSAGE, count)


def test_every_changed_bit_of_the_head_is_noticed() -> None:
    """Magic, version, stage, scheme, session, number and ends: no bit of them is free."""
    for at in range(HEAD_BYTES * 8):
        changed = bytearray(MESSAGE)
        changed[at // 8] ^= 1 << at % 8
        with pytest.raises(ProtocolError):
            ENVELOPE.opened(bytes(changed), 3)


def test_every_cut_is_noticed() -> None:
    """A message with its end missing, or with more after it, is malformed."""
    for length in range(len(MESSAGE)):
        with pytest.raises(MalformedMessageError):
            ENVELOPE.opened(MESSAGE[:length], 3)
    for extra in (b"\0", bytes(8), MESSAGE):
        with pytest.raises(MalformedMessageError):
            ENVELOPE.opened(MESSAGE + extra, 3)


def test_a_length_beyond_the_message_takes_no_memory() -> None:
    """A field that says it has 2^63 bytes is malformed at once."""
    with pytest.raises(MalformedMessageError, match=r"field must have the 9,223,372,036,854,775,808 bytes it says"):
        unpacked(struct.pack(">Q", 2**63) + b"abc")


@pytest.mark.parametrize("message", [b"", b"FGLS", MESSAGE[: HEAD_BYTES - 1], b"ELSE" + MESSAGE[4:]])
def test_what_has_no_head_has_no_stage(message: bytes) -> None:
    """Cut before the end of the head, or of another magic."""
    with pytest.raises(MalformedMessageError, match="must start with the head of a staged sum"):
        stage_of(message)


def test_a_stage_that_does_not_exist_is_refused() -> None:
    """Stages are 0 to 4."""
    for stage in (5, 255):
        with pytest.raises(MalformedMessageError):
            stage_of(MESSAGE[:5] + bytes([stage]) + MESSAGE[6:])
