"""The suite that staged schemes inherit finds what it is there to find: broken twins of the plain sum fail it."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fgl_secure.errors import InputError, ProtocolError, TooFewClientsError
from fgl_secure.protocols.staged import plain
from fgl_secure.protocols.staged.attendance import Attendance
from fgl_secure.protocols.staged.envelope import Envelope
from fgl_secure.protocols.staged.plain import StagedPlain
from fgl_secure.protocols.staged.terms import checked_vector
from fgl_secure.protocols.staged.turn import Turn
from tests.protocols.staged.conformance import StagedConformance

Patch = pytest.MonkeyPatch


class Suite(StagedConformance):
    """Not collected: its tests are called."""

    make = StagedPlain


Suite.__test__ = False  # type: ignore[attr-defined]


def counts_repeated_answers(patch: Patch) -> None:
    """The server forgets who has answered."""
    opened = Attendance.opened

    def forgetful(self: Attendance, client: int, message: bytes, count: int) -> list[bytes]:
        self._answered.discard(client)
        return opened(self, client, message, count)

    patch.setattr(Attendance, "opened", forgetful)


def falls_over_cut_messages(patch: Patch) -> None:
    """A message too short for its head raises what `struct` raises."""

    def naive(self: Envelope, message: bytes, count: int) -> list[bytes]:
        struct.unpack_from(">42s", message)
        return opened(self, message, count)

    opened = Envelope.opened
    patch.setattr(Envelope, "opened", naive)


def takes_messages_of_any_sum(patch: Patch) -> None:
    """The number of the sum is not looked at."""
    opened = Envelope.opened

    def blind(self: Envelope, message: bytes, count: int) -> list[bytes]:
        return opened(self, message[:26] + struct.pack(">Q", self.terms.number) + message[34:], count)

    patch.setattr(Envelope, "opened", blind)


def goes_on_below_the_threshold(patch: Patch) -> None:
    """Too few clients are enough."""
    advance = Attendance.advance

    def lax(self: Attendance) -> None:
        try:
            advance(self)
        except TooFewClientsError:
            self._left, self._stages = self.answered, ()

    patch.setattr(Attendance, "advance", lax)


def keeps_the_stage_to_itself(patch: Patch) -> None:
    """The error of too few clients names no stage."""
    advance = Attendance.advance

    def terse(self: Attendance) -> None:
        try:
            advance(self)
        except TooFewClientsError as error:
            raise TooFewClientsError(str(error).replace("VECTORS", "this")) from error

    patch.setattr(Attendance, "advance", terse)


def notes_before_it_checks(patch: Patch) -> None:
    """A client whose message was refused has answered all the same."""
    opened = Attendance.opened

    def hasty(self: Attendance, client: int, message: bytes, count: int) -> list[bytes]:
        try:
            return opened(self, client, message, count)
        finally:
            self.note(client)

    patch.setattr(Attendance, "opened", hasty)


def answers_anything(patch: Patch) -> None:
    """A client does not look at what it is asked."""
    patch.setattr(Turn, "opened", lambda *_: [])


def tells_values_in_errors(patch: Patch) -> None:
    """What is wrong with a vector is told with the vector."""

    def talkative(vector: Any, terms: Any, modulus: Any) -> Any:
        if abs(vector).max() > terms.bound:
            raise InputError(f"vector must lie within the bound; found {vector.tolist()}")
        return checked_vector(vector, terms, modulus)

    patch.setattr(plain, "checked_vector", talkative)


def sends_short_numbers_briefly(patch: Patch) -> None:
    """Messages are shorter where entries are small."""
    patch.setattr(plain, "_written", lambda vector: b",".join(b"%d" % entry for entry in vector.tolist()))
    patch.setattr(
        plain, "_read", lambda data, terms: np.array([int(part) for part in data.split(b",")]) + 0 * terms.length
    )


def shows_the_vector(patch: Patch) -> None:
    """A printed client shows what it holds."""
    patch.setattr(plain._PlainClient, "__repr__", lambda self: f"StagedClient({self._vector})")


@pytest.mark.parametrize(
    ("breaks", "test"),
    [
        (counts_repeated_answers, "test_an_answer_counts_once"),
        (falls_over_cut_messages, "test_messages_cut_or_extended_anywhere_are_malformed"),
        (falls_over_cut_messages, "test_ten_thousand_fuzzed_messages_cause_no_other_exception"),
        (takes_messages_of_any_sum, "test_messages_of_another_session_sum_or_stage_are_stale"),
        (goes_on_below_the_threshold, "test_one_more_of_fifty_may_not"),
        (keeps_the_stage_to_itself, "test_one_more_of_fifty_may_not"),
        (notes_before_it_checks, "test_messages_cut_or_extended_anywhere_are_malformed"),
        (answers_anything, "test_messages_of_another_session_sum_or_stage_are_stale"),
        (answers_anything, "test_messages_to_or_from_others_are_misaddressed"),
        (sends_short_numbers_briefly, "test_sizes_do_not_depend_on_values"),
        (shows_the_vector, "test_nothing_printed_holds_a_secret"),
    ],
)
def test_a_broken_twin_fails(breaks: Callable[[Patch], None], test: str, monkeypatch: Patch) -> None:
    """The test that is meant for it fails on a scheme that is broken in one way, and passes on the whole one."""
    getattr(Suite(), test)()
    breaks(monkeypatch)
    with pytest.raises((AssertionError, pytest.fail.Exception, struct.error, ProtocolError)):
        getattr(Suite(), test)()


def test_a_twin_that_tells_values_fails(monkeypatch: Patch) -> None:
    """A value in an error is found."""
    Suite().test_a_value_beyond_the_bound_is_refused(2**63 - 1)
    tells_values_in_errors(monkeypatch)
    with pytest.raises(AssertionError):
        Suite().test_a_value_beyond_the_bound_is_refused(2**63 - 1)
