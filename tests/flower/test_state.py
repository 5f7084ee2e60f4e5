"""One state answers once: it is in a file before an answer leaves, whatever context comes with the next message."""

import dataclasses
import os
import stat
import threading
import time
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Context, Message, RecordDict

from fgl_secure.aggregation.sums import SumRequest as RoundRequest
from fgl_secure.errors import StateFileError
from fgl_secure.flower import SecureAggregationMod, SecureAggregationStrategy, secure_aggregation_mod
from fgl_secure.flower.kept import STATE_VARIABLE, UNUSED_SECONDS, StateStore
from fgl_secure.flower.mod import NO_STATE
from fgl_secure.flower.records import RequestRecord
from fgl_secure.flower.terms import RoundTerms
from fgl_secure.protocols.pairwise_masking.plan import UnmaskRequest
from fgl_secure.protocols.secagg.terms import Stage
from fgl_secure.runtime import decode, encode
from tests.flower import fake_federation
from tests.flower.fake_federation import FakeGrid, app_of, file_of, fresh_run, never, record, update

VALUES = np.random.default_rng(5).uniform(-1, 1, (4, 40)).astype(np.float32)
BITS = 16


def federation(mod: SecureAggregationMod = secure_aggregation_mod, **node_config: Any) -> FakeGrid:
    """Four nodes of which the i-th trains to VALUES[i]."""
    apps = [app_of(mod, lambda _m, context: update(VALUES[context.node_id - 100], 1)) for _ in range(4)]
    return FakeGrid(apps, node_config)


def played(grid: FakeGrid, **settings: Any) -> SecureAggregationStrategy:
    """The strategy after a round."""
    return fake_federation.played(grid, start=record(np.zeros(40)), **settings)


OTHERS: dict[Stage, tuple[str, int]] = {
    Stage.VECTORS: ("told", False),
    Stage.AGREEMENT: ("asked", UnmaskRequest.MASK_KEY),
}
"""What a server says in a stage of a client that has dropped out, and where."""


def other(grid: FakeGrid, message: Message, stage: Stage) -> Message:
    """The same message with one more client that has dropped out, which is not the one that it is for."""
    field, value = OTHERS[stage]
    node = message.metadata.dst_node_id
    opening = next(RequestRecord.of(sent.content) for to, sent in grid.delivered if to == node)
    assert opening is not None
    request = RequestRecord.of(message.content)
    assert request is not None
    asked = RoundRequest.from_bytes(request.message)
    batch = decode(asked.batches[0], asked.session)
    flags = batch.fields[field].copy()
    flags[..., (RoundTerms.from_bytes(opening.terms).index + 1) % flags.shape[-1]] = value
    changed = dataclasses.replace(batch, fields={**batch.fields, field: flags})
    asked = dataclasses.replace(asked, batches=(encode(changed, asked.session),))
    return Message(RequestRecord(asked.to_bytes()).added_to(RecordDict()), node, "train")


@pytest.mark.parametrize("stage", OTHERS)
def test_a_server_with_two_messages_for_one_state_has_one_answer(stage: Stage) -> None:
    """Flower hands over the context from before the last answer: the next message of another kind is refused."""
    grid, refusals = federation(), []
    stale: dict[int, Context] = {}

    def before(node: int, asked: Stage | None, message: Message) -> Message:
        if asked is stage and node == 101:
            stale[node] = deepcopy(grid.contexts[node])
        return message

    def tamper(node: int, asked: Stage | None, reply: Message) -> Message:
        if asked is stage and node == 101:
            now, grid.contexts[node] = grid.contexts[node], stale[node]
            refusals.append(grid.run_app(node, other(grid, grid.delivered[-1][1], stage)))
            grid.contexts[node] = now
        return reply

    grid.before, grid.tamper = before, tamper
    assert len(played(grid).rounds[0].included) == 4
    assert [reply.has_error() and "StaleMessageError" in str(reply.error.reason) for reply in refusals] == [True]


@pytest.mark.parametrize("stage", OTHERS)
def test_the_other_message_is_one_that_an_honest_client_answers(stage: Stage) -> None:
    """The control of the test above: alone the other message is answered."""
    grid, replies = federation(), []

    def before(node: int, asked: Stage | None, message: Message) -> Message | None:
        if asked is stage and node == 101:
            replies.append(grid.run_app(node, other(grid, message, stage)))
            return None
        return message

    grid.before = before
    played(grid)
    assert [reply.has_error() for reply in replies] == [False]


@pytest.mark.parametrize("empty", [False, True])
def test_no_message_is_answered_twice_from_an_old_context(empty: bool) -> None:
    """From the first message on: also a client whose context Flower has lost trains once, with one pair of keys."""
    calls: list[int] = []

    def train(_message: Message, context: Context) -> RecordDict:
        calls.append(context.node_id)
        return update(VALUES[0], 1)

    grid = FakeGrid([app_of(secure_aggregation_mod, train)] * 4)
    stale: dict[int, Context] = {}
    refused: list[bool] = []

    def before(node: int, _asked: Stage | None, message: Message) -> Message:
        stale[node] = deepcopy(grid.contexts[node])
        if empty:
            stale[node].state = RecordDict()
        return message

    def tamper(node: int, _asked: Stage | None, reply: Message) -> Message:
        now, grid.contexts[node] = grid.contexts[node], stale[node]
        refused.append(grid.run_app(node, grid.delivered[-1][1]).has_error())
        grid.contexts[node] = now
        return reply

    grid.before, grid.tamper = before, tamper
    assert len(played(grid).rounds[0].included) == 4
    assert refused == [True] * 20
    assert sorted(calls) == [100, 101, 102, 103]


def test_of_two_processes_one_answers() -> None:
    """The second waits until the first has trained and stored its state, and finds that the message was answered."""
    training, go_on = threading.Event(), threading.Event()
    calls: list[int] = []

    def train(_message: Message, context: Context) -> RecordDict:
        calls.append(context.node_id)
        training.set()
        assert go_on.wait(60)
        return update(VALUES[0], 1)

    grid = FakeGrid([app_of(secure_aggregation_mod, train)])
    sending = federation()
    played(sending)
    first = next(message for node, message in sending.delivered if node == 100)
    replies: list[Message] = []
    processes = [threading.Thread(target=lambda: replies.append(grid.run_app(100, first))) for _ in range(2)]
    processes[0].start()
    assert training.wait(60)
    processes[1].start()
    processes[1].join(0.2)
    assert processes[1].is_alive()
    go_on.set()
    for process in processes:
        process.join(60)
    assert sorted(reply.has_error() for reply in replies) == [False, True]
    assert calls == [100]


def test_the_state_is_on_disk_before_an_answer_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is forced to disk is the file that is there when the answer leaves, and the folder that names it."""
    forced: list[tuple[int, int]] = []

    def fsync(descriptor: int) -> None:
        found = os.fstat(descriptor)
        forced.append((found.st_ino, found.st_size))

    monkeypatch.setattr("os.fsync", fsync)
    grid = federation()

    def tamper(node: int, _asked: Stage | None, reply: Message) -> Message:
        file = file_of(grid.contexts[node]).file
        (in_file, size), (in_folder, _) = forced[-2:]
        assert (in_file, size) == (file.stat().st_ino, file.stat().st_size)
        assert in_folder == file.parent.stat().st_ino
        forced.clear()
        return reply

    grid.tamper = tamper
    assert len(played(grid).rounds[0].included) == 4


@pytest.mark.parametrize(
    ("scheme", "bound"), [("pairwise-masking", None), ("lightsecagg", 8.0), ("ckks-shared-key", 8.0)]
)
def test_the_clients_numbers_leave_the_state_once_they_are_sent(scheme: str, bound: float | None) -> None:
    """Before that they are in it, as they came or as they are summed; afterwards in neither form."""
    grid = federation(SecureAggregationMod(schemes=[scheme]))
    units = np.rint(VALUES[1].astype(np.float64) * 2**BITS).astype("<i8").tobytes()
    forms = [units, *(VALUES[1].astype(kind).tobytes() for kind in ("<f4", "<f8"))]
    found: list[tuple[Stage, bool]] = []

    def tamper(node: int, asked: Stage | None, reply: Message) -> Message:
        if node == 101:
            assert asked is not None
            state = file_of(grid.contexts[101]).file.read_bytes()
            found.append((asked, any(form in state for form in forms)))
        return reply

    grid.tamper = tamper
    played(grid, scheme=scheme, bound=bound, fraction_bits=BITS)
    sums = [stage for stage, _ in found].count(Stage.VECTORS)
    last = [at for at, (stage, _) in enumerate(found) if stage is Stage.VECTORS][-1]
    assert sums == (1 if bound is not None else 2)
    assert [there for _, there in found] == [at < last for at in range(len(found))]


def test_files_are_for_their_owner_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder that the variable names is made, and nobody else may enter it or read what is there."""
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path / "a" / "states"))
    played(federation())
    for folder in (tmp_path / "a" / "states", *(tmp_path / "a" / "states").iterdir()):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    files = [file for file in (tmp_path / "a").rglob("*") if file.is_file()]
    assert len(files) == 2 * 4  # with their locks
    assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in files)


@pytest.mark.parametrize("which", ["", ".lock"])
def test_links_are_not_followed(tmp_path: Path, which: str, caplog: pytest.LogCaptureFixture) -> None:
    """A link in place of the file, or of its lock: the client takes no part, and there is nothing that it names."""
    other_file = tmp_path / "other"
    (tmp_path / f"state{which}").symlink_to(other_file)
    grid = federation()
    grid.contexts[101].node_config["state"] = str(tmp_path / "state")
    assert sorted(played(grid).rounds[0].included) == [100, 102, 103]
    assert grid.refusals == {101: NO_STATE}
    assert str(tmp_path) in caplog.text
    assert not other_file.exists()


@pytest.mark.parametrize("where", ["file", "relative", "shared", "homeless"])
def test_a_state_without_a_folder_names_the_variable(
    tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A folder that cannot be made or is no folder of the user's own is an error at the client, before it trains."""
    (tmp_path / "file").write_bytes(b"")
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    if where == "homeless":
        monkeypatch.delenv(STATE_VARIABLE)
        monkeypatch.setattr("platformdirs.user_state_dir", lambda *_a, **_k: "~/.local/state/fgl-secure")
        monkeypatch.setattr(Path, "expanduser", lambda self: self)
    else:
        named = {"file": tmp_path / "file", "relative": "states", "shared": shared}[where]
        monkeypatch.setenv(STATE_VARIABLE, str(named))
    context = Context(fresh_run(), 100, {}, RecordDict(), {})
    with pytest.raises(StateFileError), StateStore(context, None):
        pass
    message = Message(RequestRecord(b"x", b"x").added_to(RecordDict()), 100, "train")
    message.metadata.__dict__["_message_id"] = "asked"
    reply = secure_aggregation_mod(message, context, never)
    assert reply.error.reason == NO_STATE
    assert STATE_VARIABLE in caplog.text or where == "shared"


def test_a_state_that_cannot_be_stored_is_not_answered_from(monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk: the client is out, and no answer of it leaves."""
    grid, is_full = federation(), [False]

    def fsync(_descriptor: int) -> None:
        if is_full[0]:
            raise OSError(28, "No space left on device")

    def before(node: int, asked: Stage | None, message: Message) -> Message:
        is_full[0] = node == 101 and asked is Stage.SHARES
        return message

    monkeypatch.setattr("os.fsync", fsync)
    grid.before = before
    assert sorted(played(grid).rounds[0].included) == [100, 102, 103]
    assert grid.refusals == {101: NO_STATE}


def test_files_of_runs_that_ended_long_ago_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the first message of another run; those of a run that may go on stay."""
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path / "states"))
    ended, going = federation(), federation()
    played(ended)
    played(going)
    past = time.time() - UNUSED_SECONDS - 60
    folders = [file_of(grid.contexts[100]).file.parent for grid in (ended, going)]
    os.utime(folders[0], (past, past))
    played(federation())
    assert [folder.exists() for folder in folders] == [False, True]


def test_a_named_file_outlives_the_supernode(tmp_path: Path) -> None:
    """A node that was started again with the same file goes on in the middle of a round, under another number."""
    grid = federation()
    grid.contexts[101].node_config["state"] = str(tmp_path / "state")

    def before(node: int, asked: Stage | None, message: Message) -> Message:
        if node == 101 and asked is Stage.VECTORS:
            old = grid.contexts[101]
            grid.contexts[101] = Context(
                old.run_id, 777, node_config=old.node_config, state=RecordDict(), run_config={}
            )
        return message

    grid.before = before
    assert len(played(grid).rounds[0].included) == 4
    assert stat.S_IMODE((tmp_path / "state").stat().st_mode) == 0o600


def test_a_copy_of_the_lock_in_a_child_holds_nobody_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers of a DataLoader are forked while the app trains, and live on with all that was open."""
    opened, copies = os.open, list[int]()

    def open_and_copy(path: Any, *rest: Any, **named: Any) -> int:
        descriptor = opened(path, *rest, **named)
        copies.extend([os.dup(descriptor)] * str(path).endswith(".lock"))
        return descriptor

    context = Context(fresh_run(), 100, {}, RecordDict(), {})
    with monkeypatch.context() as patch:
        patch.setattr("os.open", open_and_copy)
        with StateStore(context, tmp_path / "state"):
            pass
    assert len(copies) == 1
    entered = threading.Event()

    def enter() -> None:
        with StateStore(context, tmp_path / "state"):
            entered.set()

    threading.Thread(target=enter, daemon=True).start()
    assert entered.wait(30)
    os.close(copies[0])
