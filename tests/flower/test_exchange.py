"""How long the server waits, and whose replies it takes."""

import time

import pytest
from flwr.app import Error, Message, RecordDict

from fgl_secure.flower import rounds as module
from fgl_secure.flower.records import AnswerRecord
from fgl_secure.flower.rounds import Patience, exchange
from fgl_secure.protocols.secagg.terms import Stage
from tests.flower.fake_federation import FakeGrid, app_of, update


@pytest.fixture(autouse=True)
def _eager(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "POLL_SECONDS", 0.005)


def echoing(*silent: int) -> tuple[FakeGrid, dict[int, Message]]:
    """Three nodes that answer anything, but for some that never do, and a message for each."""
    app = app_of(lambda message, _context, _call: AnswerRecord(b"yes").to(message), lambda _m, _c: update([0.0]))
    grid = FakeGrid([app] * 3)

    def tamper(node: int, _stage: Stage | None, reply: Message) -> Message | None:
        return None if node in silent else reply

    grid.tamper = tamper
    return grid, {i: Message(RecordDict(), 100 + i, "train") for i in range(3)}


def test_all_answers_end_the_wait() -> None:
    """Without a timeout the wait ends with the last answer."""
    grid, messages = echoing()
    assert set(exchange(grid, messages, Patience(None, 3, None))) == {0, 1, 2}


def test_timeout_ends_the_wait() -> None:
    """Whoever has not answered by then is left out."""
    grid, messages = echoing(101)
    assert set(exchange(grid, messages, Patience(0.02, 3, None))) == {0, 2}


def test_grace_ends_the_wait_once_there_are_enough() -> None:
    """With as many answers as suffice the others have the grace and no more, however long the timeout."""
    grid, messages = echoing(101)
    start = time.monotonic()
    assert set(exchange(grid, messages, Patience(None, 2, 0.02))) == {0, 2}
    assert time.monotonic() - start >= 0.02


def test_errors_do_not_count_as_enough() -> None:
    """An error is a reply, and not one of the answers that suffice: the wait goes on to the timeout."""
    grid, messages = echoing(102)
    grid.tamper = lambda node, _stage, reply: (
        None if node == 102 else Message(Error(1, "no"), reply_to=messages[node - 100]) if node == 101 else reply
    )
    start = time.monotonic()
    found = exchange(grid, messages, Patience(0.05, 2, 0.0))
    assert time.monotonic() - start >= 0.05
    assert found[1].has_error()
    assert set(found) == {0, 1}


def test_late_replies_to_earlier_messages_are_not_taken() -> None:
    """A reply to another message than the current one is nobody's answer."""
    grid, messages = echoing()
    stray = Message(RecordDict(), 100, "train")
    grid.push_messages([stray])
    taken = exchange(grid, messages, Patience(None, 3, None))
    assert all(reply.metadata.reply_to_message_id != stray.metadata.message_id for reply in taken.values())
