"""Silos as SuperNodes: a turn is had once, a file is of one session and party, and what goes wrong has a name.

That the run is that of one process, `test_programs` shows.
"""

from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from fgl_secure.coins import SystemCoins
from fgl_secure.errors import InputError, MalformedMessageError, ProtocolError
from fgl_secure.flower.kept import KEY
from fgl_secure.flower.mailbox import RunStoppedError, SiloMailbox, fresh_session
from fgl_secure.flower.programs import number_of
from fgl_secure.flower.silos import WHO, Turn, silo_app
from fgl_secure.methods import FedAvg
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.training.job import Job
from fgl_secure.training.processes.process import SealedParty
from fgl_secure.training.processes.sums import Company, SumServer
from fgl_secure.typing import Array
from tests.error_codes import about
from tests.flower.fake_federation import FakeGrid, file_of
from tests.flower.nodes import grid_of, mailbox_of
from tests.training.processes.test_lying_server import SILOS, job_of


@pytest.fixture(scope="module")
def job() -> Job:
    return job_of(FedAvg(epochs=1), "pairwise-masking")


def run(job: Job, grid: FakeGrid, session: bytes | None = None) -> dict[int, dict[str, Array]]:
    return mailbox_of(job, grid, session=session).run()


def test_a_node_that_falls_silent_stops_the_run(job: Job) -> None:
    """Silos cannot do without one another, and the error says which turn and whose answer is missing."""
    grid = grid_of(job)
    grid.tamper = lambda node, _stage, reply: None if node == 100 and len(grid.answered) > 3 * SILOS else reply
    with pytest.raises(ProtocolError, check=about("all 3 parties")):
        run(job, grid)


def test_a_node_that_fails_is_named_and_says_nothing_more(job: Job) -> None:
    """An exception in a node arrives as an error of its party, without the exception's own words."""
    grid = grid_of(job)

    def broken(_context: Context, _session: bytes) -> SealedParty:
        raise InputError("nodes must be 7; found 12")

    grid.apps[101] = silo_app(number_of, broken)
    with pytest.raises(ProtocolError, check=about("all 3 parties")):
        run(job, grid)
    assert grid.refusals == {101: "ProtocolError: the silo failed; see the log of this node"}


@pytest.mark.parametrize(
    ("parties", "settings", "told"),
    [
        (2, {"silos": None}, "at least 3 for this node; found 2"),
        (3, {"least": 4}, "at least 4 for this node; found 3"),
        (3, {"silos": lambda _context: 2}, "at least 3 for this node; found 2"),
    ],
)
def test_a_silo_takes_no_part_among_too_few(job: Job, parties: int, settings: dict[str, Any], told: str) -> None:
    """A node that asks for more silos than a run has gives no key away: counted by parties, or as the run says."""
    grid = grid_of(job, parties=parties, **settings)
    with pytest.raises(ProtocolError, check=about("parties")):
        run(job, grid)
    assert len(grid.refusals) == parties
    assert all(told in why for why in grid.refusals.values())
    assert not any(file_of(context).file.exists() for context in grid.contexts.values())


def test_two_silos_are_enough_where_every_node_says_so(job: Job) -> None:
    """A least of two lets two silos exchange keys: the control of the test above; one is never enough."""
    grid = grid_of(job, parties=2, least=2, silos=None)
    server = SumServer(Company(2, PairwiseMasking(), fresh_session()), SystemCoins())
    with pytest.raises(ProtocolError, check=about("all 2 parties")):  # their programs are of three
        SiloMailbox(grid, server, 2, timeout=0.5).run()
    with pytest.raises(InputError, check=about("least")):
        grid_of(job, least=1)


def test_a_turn_is_had_once(job: Job) -> None:
    """A turn that is asked for again has the same answer, whatever came with it; one too early is refused."""
    grid, session = grid_of(job), fresh_session()
    context, app = grid.contexts[100], grid.apps[100]

    def asked(number: int) -> Message:
        return Message(Turn(session, number, {}).content(), dst_node_id=100, message_type="query")

    first = Turn.of(app(asked(0), context).content)
    kept = file_of(context).load(session)
    again = Message(Turn(session, 0, {1: b"x"}).content(), dst_node_id=100, message_type="query")
    assert Turn.of(grid.run_app(100, again).content) == first
    assert len(first.post) == SILOS - 1
    reply = grid.run_app(100, asked(2))
    assert reply.has_error()
    assert "turn must be the next one, 1" in str(reply.error.reason)
    after = file_of(context).load(session)
    assert kept is not None
    assert after is not None
    assert set(after) == set(kept)
    assert all(np.array_equal(after[name], value) for name, value in kept.items())


def test_a_turn_that_failed_is_not_tried_with_other_messages(job: Job) -> None:
    """Whether a turn fails is a bit about the silo's numbers, so a server has one try for each turn."""

    def asked(node: int, number: int, post: dict[int, bytes]) -> Message:
        turn = Turn(session, number, post)
        return Message(turn.content(), dst_node_id=node, message_type="query")

    for tampered in (False, True):
        grid, session = grid_of(job), fresh_session()
        first = {
            number_of(context): Turn.of(grid.run_app(node, asked(node, 0, {})).content)
            for node, context in grid.contexts.items()
        }
        own = number_of(grid.contexts[100])
        honest = {number: turn.post[own] for number, turn in first.items() if number != own}
        if tampered:
            forged = dict.fromkeys(honest, b"x")
            for _ in range(2):
                reply = grid.run_app(100, asked(100, 1, forged))
                assert "the silo failed" in str(reply.error.reason)
        assert grid.run_app(100, asked(100, 1, honest)).has_error() is tampered


def test_a_turn_is_had_once_whatever_context_comes_with_it(job: Job) -> None:
    """A server that has Flower hand over a context from before the turn has the answer that it has, and no other."""
    grid, session = grid_of(job), fresh_session()
    context, app = grid.contexts[100], grid.apps[100]
    stale = deepcopy(context)
    answers = []
    for each in (context, stale):
        asked = Message(Turn(session, 0, {}).content(), dst_node_id=100, message_type="query")
        answers.append(Turn.of(app(asked, each).content))
    assert answers[0] == answers[1]
    assert context.state == RecordDict()


@pytest.mark.parametrize("in_file", [False, True])
@pytest.mark.parametrize("over", [False, True])
def test_a_second_session_is_refused(job: Job, tmp_path: Path, in_file: bool, over: bool) -> None:
    """During the first session and after it: the error names the state file, and the first session continues."""
    grid, first = grid_of(job), fresh_session()
    for number, context in enumerate(grid.contexts.values()):
        context.node_config |= {"state": str(tmp_path / f"state{number}")} if in_file else {}
    if over:
        run(job, grid, first)
    else:
        asked = Message(Turn(first, 0, {}).content(), dst_node_id=100, message_type="query")
        answer = Turn.of(grid.run_app(100, asked).content)
    with pytest.raises(RunStoppedError, match="turn 0"):
        run(job, grid)
    assert f"state file {'state0' if in_file else 'node-100'} " in grid.refusals[100]
    if not over:
        assert Turn.of(grid.run_app(100, asked).content) == answer


def test_a_file_of_another_party_is_refused(job: Job, tmp_path: Path) -> None:
    """Or the second party would send the stored reply of the first one as its own."""
    grid = grid_of(job)
    for context in grid.contexts.values():
        context.node_config["state"] = str(tmp_path / "state")
    with pytest.raises(RunStoppedError, match="turn 0"):
        run(job, grid)
    assert any("one party" in refusal for refusal in grid.refusals.values())


def test_a_new_file_begins_anew(job: Job, tmp_path: Path) -> None:
    """What the error asks for: a second run on the same nodes has keys and sums of its own, and finds the same."""
    grid, found = grid_of(job), list[np.ndarray]()
    for number in range(2):
        for node, context in grid.contexts.items():
            context.node_config["state"] = str(tmp_path / f"{number} of {node}")
        found.append(run(job, grid)[0]["losses"])
    assert np.array_equal(found[0], found[1])


def test_models_stay_with_the_silos(job: Job) -> None:
    """A silo's report has parameters and learnt structure features; the server is told figures and nothing else."""
    grid = grid_of(job)
    for number, context in enumerate(reversed(list(grid.contexts.values()))):
        context.node_config["partition-id"] = number  # nodes say which parties they are
    found = run(job, grid)
    assert all(set(report) == {"losses", "selected round", "validation", "test"} for report in found.values())


def test_nodes_must_be_one_of_each_party(job: Job) -> None:
    """Two nodes with one number."""
    grid = grid_of(job)
    grid.contexts[100].node_config["partition-id"] = 1
    with pytest.raises(InputError, check=about("nodes")):
        run(job, grid)


GOOD = {"session": bytes(16), "number": 0, "ends": [1], "post": [b""], "report": b"", "over": False, "due": ""}


@pytest.mark.parametrize(
    "record",
    [
        {},
        GOOD | {"session": b"short"},
        GOOD | {"ends": [1, 1], "post": [b"", b""]},
        GOOD | {"post": [b"", b""]},
        GOOD | {"ends": ["1"]},
        GOOD | {"number": "0"},
        GOOD | {"over": 1},
        GOOD | {"due": "x" * 101},
        GOOD | {"due": "two\nlines"},
    ],
)
def test_what_is_no_turn_is_refused(record: dict[str, object]) -> None:
    """A message without the record, or with one of another shape."""
    assert Turn.of(RecordDict({KEY: ConfigRecord(GOOD)})).number == 0  # type: ignore[arg-type]
    with pytest.raises(MalformedMessageError):
        Turn.of(RecordDict({KEY: ConfigRecord(record)}))  # type: ignore[arg-type]
    with pytest.raises(MalformedMessageError):
        Turn.of(RecordDict())


def test_who_changes_nothing(job: Job) -> None:
    """A node says which party it is without making it."""
    grid = grid_of(job)
    app: ClientApp = grid.apps[102]
    reply = app(Message(Turn(bytes(16), WHO, {}).content(), dst_node_id=102, message_type="query"), grid.contexts[102])
    assert Turn.of(reply.content).number == 2
    assert not file_of(grid.contexts[102]).file.exists()
