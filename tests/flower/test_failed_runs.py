"""A run in which no round gives a mean ends with an error that names the first cause."""

from typing import Any

import numpy as np
import pytest
from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp

from fgl_secure.errors import ProtocolError, RoundsFailedError
from fgl_secure.flower import SecureAggregationMod, SecureAggregationStrategy
from fgl_secure.flower.mod import APP_FAILED, NO_PART
from fgl_secure.protocols.identity import Identity
from tests.error_codes import about
from tests.flower.fake_federation import FakeGrid, app_of, record, strategy_of, update

NODES = 4
QUESTION = "does the ClientApp have SecureAggregationMod?"


def start(secure: SecureAggregationStrategy, grid: FakeGrid, rounds: int = 2) -> None:
    secure.start(grid, record(np.zeros(3)), num_rounds=rounds, timeout=0.0)


def without_mod() -> ClientApp:
    """An app whose author forgot the mod."""
    app = ClientApp()

    @app.train()
    def _train(message: Message, _context: Context) -> Message:
        start = message.content.array_records["arrays"]["w"].numpy()
        return Message(update(start + 1, 1), reply_to=message)

    return app


OWN = [Identity(bytes([i + 1] * 32)) for i in range(NODES)]


@pytest.mark.parametrize(
    "settings", [{"run_config": {}}, {"run_config": None}, {"identities": [identity.public for identity in OWN]}]
)
def test_a_missing_mod_is_named(settings: dict[str, Any]) -> None:
    """Whether nodes answer by themselves, or fail at a message that their app does not know."""
    secure = strategy_of(**settings)
    with pytest.raises(RoundsFailedError) as caught:
        start(secure, FakeGrid([without_mod() for _ in range(NODES)]))
    assert isinstance(caught.value, ProtocolError)
    assert QUESTION in str(caught.value)
    assert [report.included for report in secure.rounds] == [(), ()]


def test_a_node_without_the_mod_is_named_in_a_round_that_goes_well() -> None:
    """The others have their mean, and the report of the round says why one is out."""
    apps = [app_of(SecureAggregationMod(), lambda _m, _c: update(np.ones(3), 1)) for _ in range(NODES)]
    grid, secure = FakeGrid([*apps, without_mod()]), strategy_of()
    start(secure, grid)
    assert all(QUESTION in report.lost[104] for report in secure.rounds)


def failing(_message: Message, _context: Context) -> RecordDict:
    raise RuntimeError("mat1 and mat2 shapes cannot be multiplied (1234x8 and 7x2)")


def beyond(_message: Message, _context: Context) -> RecordDict:
    return update(np.ones(3), 1, loss=9.0)


@pytest.mark.parametrize(("train", "said"), [(failing, APP_FAILED), (beyond, NO_PART)])
def test_what_all_clients_fail_at_is_named_by_their_own_sentence(train: Any, said: str) -> None:
    """An app that raises, or a metric beyond the bound: the first node's sentence, which has nothing of its data."""
    grid = FakeGrid([app_of(SecureAggregationMod(metrics=["loss"]), train) for _ in range(NODES)])
    with pytest.raises(RoundsFailedError) as caught:
        start(strategy_of(metrics=["loss"]), grid)
    assert said in str(caught.value)
    assert "all 2 failed" in str(caught.value)
    assert "1234" not in str(caught.value)


def test_the_first_cause_is_named_and_not_the_last() -> None:
    """Apps fail in the first round; in the second the server hears nothing at all."""
    grid = FakeGrid([app_of(SecureAggregationMod(), failing) for _ in range(NODES)])
    heard: list[Message] = []

    def tamper(_node: int, _stage: object, reply: Message) -> Message | None:
        heard.append(reply)
        return reply if len(heard) <= NODES else None

    grid.tamper = tamper
    with pytest.raises(RoundsFailedError, check=about("a run")):
        start(strategy_of(), grid)


def test_rounds_that_failed_are_counted_where_others_went_well(caplog: pytest.LogCaptureFixture) -> None:
    """The run ends well, and its last line says how many rounds gave no mean, and why the first did not."""
    grid = FakeGrid([app_of(SecureAggregationMod(), lambda _m, _c: update(np.ones(3), 1)) for _ in range(NODES)])
    secure = strategy_of()

    def tamper(_node: int, _stage: object, reply: Message) -> Message | None:
        return None if len(secure.rounds) == 1 else reply

    grid.tamper = tamper
    with caplog.at_level("WARNING", "flwr"):
        start(secure, grid, rounds=3)
    assert [len(report.included) for report in secure.rounds] == [NODES, 0, NODES]
    assert "1 of 3 rounds failed, the first, round 1, because" in caplog.messages[-1]


def test_a_run_is_judged_by_its_own_rounds() -> None:
    """A second start all of whose rounds fail is an error, though the first went well; none at all is none."""
    grid = FakeGrid([app_of(SecureAggregationMod(), lambda _m, _c: update(np.ones(3), 1)) for _ in range(NODES)])
    secure = strategy_of()
    start(secure, grid)
    start(secure, grid, rounds=0)
    grid.tamper = lambda _node, _stage, _reply: None
    with pytest.raises(RoundsFailedError):
        start(secure, grid)
