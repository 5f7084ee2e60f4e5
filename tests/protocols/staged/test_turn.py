"""A client's place among the stages: states that were never taken are refused, whatever their checksum says."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest

from fgl_secure.errors import FglSecureError, InputError, MalformedMessageError, StaleMessageError
from fgl_secure.protocols.staged.envelope import SERVER, Envelope, packed, unpacked
from fgl_secure.protocols.staged.interface import Stage, SumTerms
from fgl_secure.protocols.staged.turn import Turn

TERMS = SumTerms(bytes(16), 0, 3, 3, 2, 50)
STAGES = (Stage.KEYS, Stage.VECTORS)
START = b"fgl-secure client state 1"


def turn() -> Turn:
    """Of client 1."""
    return Turn(b"TEST", TERMS, 1, STAGES)


def asked(stage: Stage) -> bytes:
    """A request of a stage to it."""
    return Envelope(b"TEST", TERMS, stage, SERVER, 1).sealed([b"a"])


def with_checksum(body: bytes) -> bytes:
    """A state as its start and checksum say."""
    return START + hashlib.sha256(body).digest() + body


def test_stages_come_in_their_order_and_once() -> None:
    """The first request is of the first stage; after the last answer nothing is due."""
    client = turn()
    for stage in STAGES:
        assert client.stage is stage
        with pytest.raises(StaleMessageError):
            client.opened(asked(Stage.OPENING), 1)
        assert client.opened(asked(stage), 1) == [b"a"]
        assert Envelope(b"TEST", TERMS, stage, 1, SERVER).opened(client.answer([b"b"]), 1) == [b"b"]
    with pytest.raises(StaleMessageError, match="last answer"):
        client.opened(asked(Stage.VECTORS), 1)


@pytest.mark.parametrize("answers", range(3))
def test_a_state_gives_back_place_and_fields(answers: int) -> None:
    """Wherever among the stages, the client goes on there with what it held."""
    client = turn()
    for _ in range(answers):
        client.answer([])
    state = client.state([b"secret", b""])
    back, fields = Turn.restored(b"TEST", TERMS, STAGES, state, 2)
    assert (back.index, fields, back.state(fields)) == (1, [b"secret", b""], state)


def test_states_of_something_else_are_refused() -> None:
    """Another scheme, sum, number of fields or stage, or no fields at all, under a checksum that is right."""
    body = turn().state([b"x"])[len(START) + 32 :]
    fields = unpacked(body)
    assert Turn.restored(b"TEST", TERMS, STAGES, with_checksum(body), 1)[1] == [b"x"]
    for wrong in (
        [], fields[:3], fields[:4], [*fields, b""], [b"ELSE", *fields[1:]], [fields[0], b"", *fields[2:]],
        [*fields[:2], b"", *fields[3:]], [*fields[:2], bytes((Stage.OPENING,)), *fields[3:]],
    ):  # fmt: skip
        with pytest.raises(MalformedMessageError):
            Turn.restored(b"TEST", TERMS, STAGES, with_checksum(packed(wrong)), 1)
    for terms in (replace(TERMS, number=1), replace(TERMS, length=3), replace(TERMS, bound=None)):
        with pytest.raises(MalformedMessageError):
            Turn.restored(b"TEST", terms, STAGES, with_checksum(body), 1)
    with pytest.raises(FglSecureError):
        Turn.restored(b"TEST", TERMS, STAGES, with_checksum(packed([*fields[:3], b"\0\0\0\3", b"x"])), 1)


@pytest.mark.parametrize("index", [-1, 3])
def test_a_client_is_one_of_them(index: int) -> None:
    """Its number lies in 0 to n - 1."""
    with pytest.raises(InputError, match=r"index must lie in 0\.\.2"):
        Turn(b"TEST", TERMS, index, STAGES)
