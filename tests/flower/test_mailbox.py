"""A run goes on where nodes are late, crash or come back, and says what was due and done where one does not."""

from __future__ import annotations

import pickle
import stat
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from flwr.app import Context, Error, Message, RecordDict
from flwr.common.constant import ErrorCode

from fgl_secure.errors import InputError, StateFileError
from fgl_secure.flower import mailbox
from fgl_secure.flower.kept import StateStore
from fgl_secure.flower.mailbox import CRASHES, RunStoppedError
from fgl_secure.flower.silos import WHO, Turn
from fgl_secure.methods.fedavg.program import UpdateRule, clients_of
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.training.job import Job
from fgl_secure.training.presets import HONEST
from tests.error_codes import about
from tests.flower.fake_federation import FakeGrid
from tests.flower.nodes import grid_of, mailbox_of
from tests.graphs import two_communities

SILOS, ROUNDS = 3, 2
NEW = 200
"""The number that Flower gives a node that was restarted."""


class Troubled(FakeGrid):
    """Nodes that lose answers, die, come late or come back.

    Attributes:
        crashes: how many turns of which node end with a crash of its process.
        dead: nodes that hear nothing any more.
        hidden: nodes that are not there yet, and how many looks until they are.
        refused: nodes to which nothing can be sent yet, and how often not.
    """

    crashes: dict[tuple[int, int], int]
    dead: set[int]
    hidden: dict[int, int]
    refused: dict[int, int]

    @classmethod
    def of(cls, job: Job) -> Troubled:
        grid = grid_of(job)
        grid.__class__ = cls
        assert isinstance(grid, cls)
        grid.crashes, grid.dead, grid.hidden, grid.refused = {}, set(), {}, {}
        return grid

    def get_node_ids(self) -> Iterable[int]:
        """Those that have come."""
        self.hidden = {node: looks - 1 for node, looks in self.hidden.items() if looks > 1}
        return [node for node in self.apps if node not in self.hidden]

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """No name for a message that does not go off."""
        found: list[str] = []
        for message in messages:
            left = self.refused.get(message.metadata.dst_node_id, 0)
            self.refused[message.metadata.dst_node_id] = max(left - 1, 0)
            found += [""] if left else super().push_messages([message])
        return found

    def run_app(self, node: int, message: Message) -> Message:
        """The app's answer; of a process that crashed a word of its node."""
        number = Turn.of(message.content).number
        left = self.crashes.get((node, number), 0)
        reply = super().run_app(node, message) if left % 2 == 0 else None  # now before, now after its state was kept
        if not left:
            assert reply is not None
            return reply
        self.crashes[node, number] = left - 1
        return Message(Error(ErrorCode.CLIENT_APP_CRASHED, "stopped responding"), reply_to=message)

    def restarted(self, node: int) -> None:
        """The node is gone; one with its configuration comes, and remembers nothing but what is in files."""
        self.dead.add(node)
        self.apps[NEW] = self.apps[node]
        old = self.contexts[node]
        self.contexts[NEW] = Context(old.run_id, NEW, node_config=old.node_config, state=RecordDict(), run_config={})

    def kill(self, node: int, turn: int) -> None:
        """The node dies in a turn, after its state was kept and before it answers."""

        def hears(to: int, _stage: object, message: Message) -> Message | None:
            return None if to in self.dead and to != NEW else message

        def answers(of: int, _stage: object, reply: Message) -> Message | None:
            if of == node and Turn.of(self.delivered[-1][1].content).number == turn:
                self.dead.add(node)
            return None if of in self.dead else reply

        self.before, self.tamper = hears, answers


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mailbox, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(mailbox, "POLL_SECONDS", 0.01)


@pytest.fixture(scope="module")
def job() -> Job:
    graph = two_communities(devices=36, silos=SILOS)
    return clients_of(graph, UpdateRule(PairwiseMasking()), HONEST.with_epochs(ROUNDS))


@pytest.fixture(scope="module")
def losses(job: Job) -> tuple[float, ...]:
    """Of one process."""
    return job.train().losses


def run(job: Job, grid: Troubled, timeout: float = 20.0) -> list[list[float]]:
    """What each silo reports of losses."""
    found = mailbox_of(job, grid, timeout).run()
    return [report["losses"].tolist() for report in found.values()]


def test_a_late_node_is_waited_for(job: Job, losses: tuple[float, ...]) -> None:
    """One that comes within the timeout takes part; without it the error says which parties are there."""
    grid = Troubled.of(job)
    grid.hidden = {101: 4}
    assert run(job, grid) == [list(losses)] * SILOS
    first = {node: Turn.of(message.content).number for node, message in reversed(grid.delivered)}
    assert set(first.values()) == {WHO}
    grid = Troubled.of(job)
    grid.hidden = {101: 10**9}
    with pytest.raises(InputError, check=about("nodes")):
        run(job, grid, timeout=0.2)


def test_a_process_that_crashes_is_started_again(job: Job, losses: tuple[float, ...]) -> None:
    """Before its state was kept, or after: the turn is had once. One that crashes every time ends the run."""
    grid = Troubled.of(job)
    grid.crashes = {(100, 3): 2, (101, 5): 1, (102, 0): 3}
    assert run(job, grid) == [list(losses)] * SILOS
    grid = Troubled.of(job)
    grid.crashes = {(101, 4): CRASHES + 1}
    with pytest.raises(RunStoppedError, match=r"must answer turn 4.*failed, as their nodes' own logs say: \[1\]"):
        run(job, grid)


def test_a_process_that_crashes_before_it_says_who_it_is_is_asked_again(job: Job, losses: tuple[float, ...]) -> None:
    """As it may where many start at a time; one that crashes every time is missing, and is left alone."""
    grid = Troubled.of(job)
    grid.crashes, grid.refused = {(100, WHO): 1, (102, WHO): CRASHES}, {101: 2}
    assert run(job, grid) == [list(losses)] * SILOS
    grid = Troubled.of(job)
    grid.crashes = {(100, WHO): CRASHES + 1}
    with pytest.raises(InputError, check=about("nodes")):
        run(job, grid, timeout=0.2)


@pytest.mark.parametrize("turn", [0, 7])
def test_a_node_that_was_restarted_goes_on_with_its_state(
    job: Job, losses: tuple[float, ...], tmp_path: Path, turn: int
) -> None:
    """A new node of another number with the file of the old one: figures are those of one process, to the bit."""
    grid = Troubled.of(job)
    grid.contexts[101].node_config["state"] = str(tmp_path / "state")
    grid.kill(101, turn)
    wait = grid.get_node_ids

    def looked() -> Iterable[int]:
        if 101 in grid.dead and NEW not in grid.apps:
            grid.restarted(101)
        return wait()

    grid.get_node_ids = looked  # type: ignore[method-assign]
    assert run(job, grid) == [list(losses)] * SILOS
    assert NEW in grid.apps
    assert stat.S_IMODE((tmp_path / "state").stat().st_mode) == 0o600
    assert not grid.contexts[101].state.config_records


def test_a_node_that_was_restarted_without_its_state_ends_the_run(job: Job) -> None:
    """The broken twin: what only the context had is gone with the SuperNode, and the new one says so to the log."""
    grid = Troubled.of(job)
    grid.kill(101, 7)
    wait = grid.get_node_ids

    def looked() -> Iterable[int]:
        if 101 in grid.dead and NEW not in grid.apps:
            grid.restarted(101)
        return wait()

    grid.get_node_ids = looked  # type: ignore[method-assign]
    with pytest.raises(RunStoppedError, match=r"must answer turn 7.*failed, as their nodes' own logs say: \[1\]"):
        run(job, grid)
    assert "turn must be the next one, 0; found 7" in grid.refusals[NEW]


@pytest.mark.parametrize(
    ("turn", "due", "over"), [(0, "turn 0;", 0), (14, "turn 14, in which sum of server in round 1 is due;", 1)]
)
def test_a_dead_node_is_named_with_what_was_due_and_what_is_over(
    job: Job, losses: tuple[float, ...], turn: int, due: str, over: int
) -> None:
    """The error has party, turn and collective; the figures of rounds that are over are not lost."""
    grid = Troubled.of(job)
    grid.kill(102, turn)
    with pytest.raises(RunStoppedError) as stopped:
        run(job, grid, timeout=1.0)
    rounds = f"{over} round{'s are' if over != 1 else ' is'} over"
    assert str(stopped.value).startswith(
        f"all 3 parties must answer {due} silent: [2]; failed, as their nodes' own logs say: []; {rounds}"
    )
    assert ("of round 0, the best so far, test 0." in str(stopped.value)) == bool(over)
    assert [report["losses"].tolist() for report in stopped.value.finished.values()] == [list(losses[:over])] * (
        SILOS if over else 0
    )


def test_a_file_of_another_run_is_nobody_s_state(tmp_path: Path) -> None:
    """A new session begins anew; what is no state is refused."""
    context = Context(1, 1, node_config={}, state=RecordDict(), run_config={})
    keeper, value = StateStore(context, tmp_path / "state"), np.arange(3)
    assert (keeper.load(b"a" * 16), keeper.session) == (None, None)
    keeper.store(b"a" * 16, {"turns": value})
    found = keeper.load(b"a" * 16)
    assert found is not None
    assert np.array_equal(found["turns"], value)
    assert (keeper.load(b"b" * 16), keeper.session) == (None, b"a" * 16)
    assert [each.name for each in tmp_path.iterdir()] == ["state"]
    (tmp_path / "state").write_bytes(b"no state")
    with pytest.raises(StateFileError):
        keeper.load(b"a" * 16)


def test_a_stopped_run_travels_between_processes() -> None:
    """Its error is the same after a pickle, with what silos reported."""
    error = RunStoppedError("silo 1 did not answer", {0: {"losses": np.ones(2)}})
    again = pickle.loads(pickle.dumps(error))  # noqa: S301  # made above
    assert str(again) == str(error)
    assert (again.finished[0]["losses"] == 1).all()
