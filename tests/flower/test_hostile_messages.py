"""Messages of Flower that somebody who means harm makes of genuine ones: typed errors, and everybody is as before."""

import logging
import tracemalloc
from collections.abc import Iterator
from contextlib import suppress

import numpy as np
import pytest
from flwr.app import ConfigRecord, Context, Error, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAvg

from fgl_secure.errors import MalformedMessageError
from fgl_secure.flower import rounds as module
from fgl_secure.flower.strategy import averageable
from fgl_secure.flower.terms import MOST_BYTES, RoundTerms
from tests.flower.fake_federation import FakeGrid, app_of, update
from tests.flower.hostile import OFF, PLACES, WHOLE_ROUNDS, AtNode, own_errors
from tests.protocols.hostile import in_little_memory, tallied, trials


@pytest.fixture(autouse=True)
def _eager(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "POLL_SECONDS", 0.001)


@pytest.fixture
def traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


@pytest.mark.parametrize("place", [place for place in PLACES if place != WHOLE_ROUNDS])
def test_changed_messages_are_taken_or_refused(place: str, request: pytest.FixtureRequest) -> None:
    """Cut, flipped, of other records, types, shapes and numbers, in every message of the layer: typed errors alone."""
    prepare = PLACES[place]()
    request.getfixturevalue("traced")
    found = tallied(prepare, place, range(trials()), in_little_memory)
    assert found.taken
    assert found.refused


def test_whole_rounds_end_whatever_a_node_replies() -> None:
    """Introductions, every stage, evaluation: the node is out, or what it says is taken, and the run goes on."""
    found = tallied(PLACES[WHOLE_ROUNDS](), WHOLE_ROUNDS, range(max(20, trials() // 8)))
    assert found.taken
    assert found.refused


def test_the_oracle_notices_errors_that_only_the_log_is_told() -> None:
    """An error of no kind of this package that a layer swallows is one all the same; one of an app is its own."""
    log = logging.getLogger("flwr")
    with pytest.raises(KeyError), own_errors():
        log.error("the silo failed", exc_info=KeyError("x"))
    with own_errors():
        log.error("the app failed", exc_info=KeyError("x"))
        log.warning("this client takes no part in the round: %s", MalformedMessageError("x"))


def test_the_oracle_notices_what_a_refusal_leaves_behind() -> None:
    """A node that notes something before it refuses is not as it was."""

    def noting(message: Message, context: Context, _app: object) -> Message:
        context.state["seen"] = ConfigRecord({"type": message.metadata.message_type})
        raise MalformedMessageError("it is none")

    grid = FakeGrid([app_of(noting, lambda _m, _c: update(np.zeros(3)))])
    message = Message(RecordDict(), 100, "train")
    arrival = AtNode.noted(grid, 100, message, bytes(16))
    with pytest.raises(AssertionError):
        arrival.hear(message)


def reported(content: dict[str, MetricRecord]) -> Message:
    """A reply to an evaluation."""
    asked = Message(RecordDict(), 100, "evaluate")
    asked.metadata.__dict__["_message_id"] = "asked"
    return Message(RecordDict(dict(content)), reply_to=asked)


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"metrics": MetricRecord({"num-examples": 1, "loss": float("nan")})},
        {"metrics": MetricRecord({"num-examples": 1, "loss": [0.5]})},
        {"metrics": MetricRecord({"num-examples": -2, "loss": 7.0})},
        {"metrics": MetricRecord({"num-examples": -1, "loss": 7.0})},
        {"metrics": MetricRecord({"num-examples": [1], "loss": 0.5})},
        {"metrics": MetricRecord({"num-examples": 1})},
        {"others": MetricRecord({"num-examples": 1, "loss": 0.5})},
        {"metrics": MetricRecord({"num-examples": 1, "loss": 0.5}), "more": MetricRecord({"x": 1})},
    ],
)
def test_evaluations_that_cannot_be_averaged_are_left_out(content: dict[str, MetricRecord]) -> None:
    """One node's reply of another form than the others', or with NaN, ends no run and is in no mean."""
    good = [reported({"metrics": MetricRecord({"num-examples": 1, "loss": loss})}) for loss in (0.0, 1.0)]
    failed = Message(Error(1, "no"), reply_to=Message(RecordDict(), 100, "evaluate"))
    bad = reported(content)
    kept = averageable([bad, *good, failed], "num-examples")
    assert kept == [*good, failed]
    inner = FedAvg(**OFF)
    assert inner.aggregate_evaluate(1, kept) == MetricRecord({"loss": 0.5})
    theirs = None
    with suppress(Exception):  # Flower ends the run, with an error of many kinds
        theirs = inner.aggregate_evaluate(1, [bad, *good])
    assert theirs != MetricRecord({"loss": 0.5})


def test_strategies_without_weights_keep_replies_that_have_none() -> None:
    """Where nothing says what weighs, any replies that are alike and finite are handed on."""
    good = [reported({"a": MetricRecord({"x": 1}), "b": MetricRecord({"y": [1.0, 2.0]})}) for _ in range(2)]
    assert averageable([*good, reported({"a": MetricRecord({"x": 1})})], None) == good


def test_terms_that_are_too_long_are_not_read() -> None:
    """Lists of nothing take much memory once they are read; so many bytes are not."""
    tracemalloc.start()
    try:
        data = b"[" + b"[]," * (MOST_BYTES // 3) + b"[]]"
        with in_little_memory(), pytest.raises(MalformedMessageError):
            RoundTerms.from_bytes(data)
    finally:
        tracemalloc.stop()
