"""Genuine messages of the Flower layer, where each arrives, and what somebody who means harm makes of them."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from copy import copy, deepcopy
from dataclasses import dataclass
from functools import cache
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Error, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.common.serde import recorddict_from_proto, recorddict_to_proto
from flwr.proto.recorddict_pb2 import RecordDict as RecordDictOnTheWire
from flwr.serverapp.strategy import FedAvg
from flwr.supercore.task_identity import TaskIdentity

from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import FglSecureError, ProtocolError
from fgl_secure.flower import SecureAggregationMod, SecureAggregationStrategy, rounds
from fgl_secure.flower.kept import STATE, STATE_VARIABLE
from fgl_secure.flower.mailbox import SiloMailbox, fresh_session
from fgl_secure.flower.mod import APP_FAILED, NO_PART
from fgl_secure.flower.records import KEY
from fgl_secure.flower.silos import FAILED_POST, Turn
from fgl_secure.methods import FedStruct, HiFGL
from fgl_secure.runtime.packing import named_from_bytes
from fgl_secure.training.processes.program_run import ProgramRun
from fgl_secure.training.processes.sums import SumServer, deliver_posts
from tests.flower.fake_federation import FakeGrid, file_of, fresh_run, numbered_grid, record, strategy_of
from tests.flower.nodes import grid_of
from tests.graphs import two_communities
from tests.protocols.hostile import EXTREMES, Prepare, changed_bytes, other_bytes
from tests.training.processes.test_lying_server import job_of

NODES = 4
SESSION = bytes(range(16))
OFF: dict[str, Any] = {"min_train_nodes": 1, "min_available_nodes": 1, "min_evaluate_nodes": 1}
SCENARIOS: Mapping[str, dict[str, Any]] = {
    "bound": {"bound": 8.0},
    "ranges": {"bound": None},
    "lightsecagg": {"bound": 8.0, "scheme": "lightsecagg"},
    "ckks-shared-key": {"bound": 8.0, "scheme": "ckks-shared-key"},
}
"""Settings of the strategy; clients trust the scheme."""
VALUES: tuple[Any, ...] = (
    *(value for value in EXTREMES if -(2**63) <= value < 2**63),
    *(float("nan"), float("inf"), -0.0, 1e300, True, "", "text", b"", b"bytes", [], [1], [b""], [b"x", b"x"], ["x"]),
    *([float("nan")], [2**63 - 1, -1]),
)
"""What records may hold."""
TYPES = ("train", "evaluate")
"""Messages that the apps of clients answer. Flower itself refuses those that an app has no function for."""


@cache
def _states() -> TemporaryDirectory[str]:
    return TemporaryDirectory()


def set_up() -> None:
    """What the process of a run sets before any message is made; no waiting for replies, and a folder for states."""
    os.environ[STATE_VARIABLE] = _states().name
    for name in ("_run_id", "_node_id", "_task_id"):
        setattr(TaskIdentity, name, 1)
    rounds.POLL_SECONDS = 0.001
    logging.getLogger("flwr").setLevel(logging.WARNING)


def state_of(context: Context) -> bytes:
    """The file of a node's state; nothing if there is none."""
    file = file_of(context).file
    return file.read_bytes() if file.exists() else b""


def without_failure(state: bytes) -> dict[str, bytes]:
    """The arrays of a state file but for the digest of the messages of a turn that failed."""
    arrays = named_from_bytes(named_from_bytes(state)[STATE].tobytes()) if state else {}
    return {name: array.tobytes() for name, array in arrays.items() if name != FAILED_POST}


def travelled(content: RecordDict) -> RecordDict:
    """As it is on the other side."""
    sent = recorddict_to_proto(content).SerializeToString()
    return recorddict_from_proto(RecordDictOnTheWire.FromString(sent))


def changed_content(content: RecordDict, random: Random, session: bytes) -> RecordDict:
    """Records of which something is missing, more, of another kind, or holds something else; or bytes within."""
    for _ in range(20):
        changes = random.choices((_record, _records), (6, 1))[0]
        with suppress(TypeError, ValueError, OverflowError):  # what Flower's records do not take is not sent
            return travelled(changes(RecordDict(dict(content)), random, session))
    return RecordDict()


def _records(content: RecordDict, random: Random, _session: bytes) -> RecordDict:
    records = list(content.items())
    which = random.randrange(4)
    if which == 0 and records:
        records.pop(random.randrange(len(records)))
    elif which == 1:
        random.shuffle(records)
    elif which == 2 and records:
        at = random.randrange(len(records))
        records[at] = (random.choice((KEY, "", records[at][0] + "x")), records[at][1])
    else:
        other = random.choice((ConfigRecord(), MetricRecord(), ArrayRecord(), MetricRecord({"message": 1})))
        records.append((random.choice((KEY, "more", *content)), other))
    return RecordDict(dict(records))


def _record(content: RecordDict, random: Random, session: bytes) -> RecordDict:
    name = random.choice([*content, *[each for each in content if "fgl-secure" in each] * 3])
    given = content[name]
    if isinstance(given, ArrayRecord):
        content[name] = _arrays(given, random)
        return content
    entries: dict[str, Any] = dict(given)
    key = random.choice([*entries, "more"])
    value, which = entries.get(key), random.random()
    if which < 0.05:
        entries.pop(key, None)
    elif which < 0.2 or value is None:
        entries[key] = random.choice(VALUES)
    else:
        entries[key] = _value(value, random, session)
    content[name] = type(given)(entries)
    return content


def _value(value: Any, random: Random, session: bytes) -> Any:
    """Another of the same kind."""
    if isinstance(value, bytes):
        return changed_bytes(value, random, session)
    if isinstance(value, list):
        some = [_value(each, random, session) if random.random() < 0.5 else each for each in value]
        return some if random.random() < 0.8 else [*some, *some[:1]][random.randrange(2) :]
    if isinstance(value, str):
        return random.choice(("", value + "x"))
    return random.choice((*EXTREMES[:-1], value + 1, value - 1))


def _arrays(arrays: ArrayRecord, random: Random) -> ArrayRecord:
    found: dict[str, Array] = dict(arrays.items())
    name = random.choice(list(found) or ["w"])
    given = found.pop(name, Array(np.zeros(3)))
    shape, kind, style = list(given.shape), given.dtype, given.stype
    which = random.randrange(5)
    if which == 0:
        shape = random.choice(([], [0], [-1], [2**40], [*shape, 0], [3, 2**31]))
    elif which == 1:
        kind = random.choice(("float64", "object", "", "U1000000000", "V8", "complex128", "int64", "x" * 99))
    elif which == 2:
        style = random.choice(("", "pickle", "numpy"))
    elif which == 3:
        name += random.choice(("", "x"))
    data = other_bytes(given.data, random) if random.random() < 0.6 else given.data
    found[name] = Array(dtype=kind, shape=tuple(shape), stype=style, data=data)
    return ArrayRecord(found)


@contextmanager
def own_errors() -> Iterator[None]:
    """Fails where an error of no kind of this package is told to the log alone, other than by a client's app."""
    log, unknown = logging.getLogger("flwr"), list[BaseException]()

    class Noting(logging.Handler):
        def emit(self, entry: logging.LogRecord) -> None:
            args = entry.args if isinstance(entry.args, tuple) else ()
            said = [each for each in (*args, (entry.exc_info or (None, None))[1]) if isinstance(each, Exception)]
            app = entry.getMessage().startswith("the app")
            unknown.extend(each for each in said if not app and not isinstance(each, FglSecureError))

    before, log.handlers, log.propagate = (log.handlers, log.propagate), [Noting()], False
    try:
        yield
    finally:
        log.handlers, log.propagate = before
    if unknown:
        raise unknown[0]


@dataclass(frozen=True, slots=True, eq=False)
class AtNode:
    """A message to a node, and its context and state as they were when it came."""

    app: ClientApp
    context: Context
    state: bytes
    message: Message
    session: bytes

    @classmethod
    def noted(cls, grid: FakeGrid, node: int, message: Message, session: bytes) -> AtNode:
        """As it is now."""
        context = grid.contexts[node]
        return cls(grid.apps[node], deepcopy(context), state_of(context), deepcopy(message), session)

    def hear(self, message: Message) -> None:
        """Has the node answer another message; it answers well, or refuses and is as it was, or takes no part.

        Raises:
            FglSecureError: it refuses.
        """
        context = deepcopy(self.context)
        with file_of(context) as keeper:
            keeper.file.write_bytes(self.state) if self.state else keeper.file.unlink(missing_ok=True)
        with own_errors():
            try:
                reply = self.app(message, context)
            except FglSecureError:
                assert context.state == self.context.state
                assert without_failure(state_of(context)) == without_failure(self.state)
                raise
        if reply.has_error():
            assert reply.error.reason in (APP_FAILED, NO_PART)
            raise ProtocolError(reply.error.reason)
        travelled(reply.content)

    def other(self, random: Random) -> Message:
        """What comes in place of the message."""
        content = changed_content(self.message.content, random, self.session)
        message = Message(content, self.message.metadata.dst_node_id, self.message.metadata.message_type)
        told = self.message.metadata.__dict__ | {}
        if random.random() < 0.05 and told["_message_type"] in TYPES:
            told["_message_type"] = random.choice(TYPES)
        if random.random() < 0.02:
            told["_group_id"] = random.choice(("", "x" * 1000))
        message.metadata.__dict__.update(told)
        return message


def _listening(grid: FakeGrid, heard: list[AtNode], session: Callable[[], bytes]) -> None:
    """Notes whatever a grid delivers, in place of changing it."""

    def before(node: int, _stage: Any, message: Message) -> Message:
        heard.append(AtNode.noted(grid, node, message, session()))
        return message

    grid.before = before


def _federation(scheme: str) -> FakeGrid:
    return numbered_grid(SecureAggregationMod(schemes=[scheme]))


def _strategy(run_config: Mapping[str, Any] | None, **settings: Any) -> SecureAggregationStrategy:
    given: dict[str, Any] = {"grace": 0.0, "run_config": run_config, "coins": SimulationCoins(1), **settings}
    return strategy_of(FedAvg(**OFF), **given)


def to_clients() -> Prepare:
    """All that a server sends clients: introductions, each stage of each sum, evaluation."""
    heard: list[AtNode] = []
    for name, settings in SCENARIOS.items():
        grid, secure = _federation(settings.get("scheme", "pairwise-masking")), _strategy(None, **settings)
        _listening(grid, heard, lambda secure=secure: secure._rounds._session)  # type: ignore[misc]
        secure.start(grid, record(np.zeros(3)), num_rounds=2, timeout=0.0)
        assert all(len(report.included) == NODES for report in secure.rounds), name
    return _any_of(heard)


def to_silos() -> Prepare:
    """All that a mailbox sends silos and relays."""
    return _any_of(_silo_runs()[0])


def _any_of(heard: list[AtNode]) -> Prepare:
    def prepare(random: Random) -> Callable[[], None]:
        arrival = random.choice(heard)
        other = arrival.other(random)
        return lambda: arrival.hear(other)

    return prepare


def to_strategy() -> Prepare:
    """All that a node replies in a whole run: a reply of one node is another, and the model is a mean all the same."""
    grids = {name: _federation("pairwise-masking") for name in MOST_REPLIES}
    for name, grid in grids.items():  # a round that loses a node compiles what each later one runs
        grid.tamper = lambda node, _stage, reply: None if node == 101 else reply
        with suppress(FglSecureError):
            _strategy(None, **SCENARIOS[name]).start(grid, record(np.zeros(3)), num_rounds=1, timeout=0.0)

    def prepare(random: Random) -> Callable[[], None]:
        name = random.choice([*MOST_REPLIES])
        grid, secure = grids[name], _strategy(None, **SCENARIOS[name])
        run = fresh_run()
        for context in grid.contexts.values():
            context.run_id = run
        left = [random.randrange(1, MOST_REPLIES[name] + 1)]

        def tamper(node: int, _stage: Any, reply: Message) -> Message | None:
            left[0] -= node == 101
            return _other_reply(reply, random, secure) if node == 101 and not left[0] else reply

        grid.tamper = tamper

        def hear() -> None:
            with own_errors():
                secure.start(grid, record(np.zeros(3)), num_rounds=1, timeout=0.0)
            (report,) = secure.rounds
            if 101 not in report.included:
                raise ProtocolError("node 101 is out")

        return hear

    return prepare


def _other_reply(reply: Message, random: Random, secure: SecureAggregationStrategy) -> Message | None:
    """Other content, an error, nothing, or somebody else's name."""
    which = random.random()
    if which < 0.05:
        return None
    other = deepcopy(reply)
    if which < 0.1:
        other.metadata.__dict__["_src_node_id"] = random.choice((0, 100, 2**63))
    elif which < 0.15:
        other.metadata.__dict__["_reply_to_message_id"] = random.choice(("", "x"))
    elif which < 0.2:
        other.metadata.__dict__["_message_type"] = random.choice(TYPES)
    elif which < 0.25 and not reply.has_error():
        return Message(Error(random.choice((0, 2**31, -1)), "x" * 1000), reply_to=_asked(reply))
    elif not reply.has_error():
        other.content = changed_content(reply.content, random, secure._rounds._session)
    return other


MOST_REPLIES = {"bound": 7, "ranges": 12}
"""Of a node in a round: its introduction, five in each sum, and its evaluation."""


def _asked(reply: Message) -> Message:
    """A message that a reply answers, as far as a reply tells."""
    message = Message(RecordDict(), reply.metadata.src_node_id, reply.metadata.message_type)
    message.metadata.__dict__["_message_id"] = reply.metadata.reply_to_message_id
    return message


@dataclass(frozen=True, slots=True, eq=False)
class AtMailbox:
    """What all parties said in a turn, and the server of their sums as it was."""

    mailbox: SiloMailbox
    server: SumServer
    parts: dict[str, Any]
    states: Mapping[int, Mapping[str, Any]]
    turns: dict[int, Turn]

    @classmethod
    def noted(cls, mailbox: SiloMailbox, turns: dict[int, Turn]) -> AtMailbox:
        """As it is now."""
        server = mailbox._server
        machines = {number: machine for number, machine in server._sums.items() if machine is not None}
        states = {number: deepcopy(dict(machine.state())) for number, machine in machines.items()}
        return cls(mailbox, server, {name: copy(value) for name, value in vars(server).items()}, states, turns)

    def hear(self, party: int, content: RecordDict) -> None:
        """Has the mailbox go on with another reply of one party.

        Raises:
            FglSecureError: it cannot, and the run ends.
        """
        vars(self.server).update({name: copy(value) for name, value in self.parts.items()})
        for number, state in self.states.items():
            machine = self.server._sums[number]
            assert machine is not None, "it has a state"
            machine.restore(state)
        turns = self.turns | {party: Turn.of(content)}
        if not self.mailbox._take_replies(turns):
            deliver_posts({party: turn.post for party, turn in turns.items()}, self.server)


class _Mailbox(SiloMailbox):
    """Notes what parties say in each turn."""

    heard: list[AtMailbox]

    def _turn(self, number: int, posts: Mapping[int, Mapping[int, bytes]]) -> dict[int, Turn]:
        turns = super()._turn(number, posts)
        self.heard.append(AtMailbox.noted(self, turns))
        return turns


RUNS = (
    (FedStruct(epochs=1, hops=1), "clients=ckks,server=pairwise-masking"),
    (HiFGL(epochs=1), "relay-coded[k_min=1,graph-shown]"),
)


@cache
def _silo_runs() -> tuple[list[AtNode], list[AtMailbox]]:
    """All messages of a run of FedStruct and one of HiFGL with relays, at both ends."""
    nodes, mailboxes = list[AtNode](), list[AtMailbox]()
    for method, scheme in RUNS:
        job, session = job_of(method, scheme, two_communities(devices=24, silos=3)), fresh_session()
        grid, run = grid_of(job), ProgramRun(job.complete_task, 3)
        _listening(grid, nodes, lambda session=session: session)  # type: ignore[misc]
        mailbox = _Mailbox(grid, run.server(session), run.parties, timeout=0.5)
        mailbox.heard = mailboxes
        mailbox.run()
    return nodes, mailboxes


def to_mailbox() -> Prepare:
    """All that silos and relays send their mailbox."""
    heard = _silo_runs()[1]

    def prepare(random: Random) -> Callable[[], None]:
        arrival = random.choice(heard)
        party = random.choice(list(arrival.turns))
        content = changed_content(arrival.turns[party].content(), random, arrival.server.session)
        return lambda: arrival.hear(party, content)

    return prepare


WHOLE_ROUNDS = "flower: strategy, whole rounds"
PLACES: Mapping[str, Callable[[], Prepare]] = {
    "flower: clients": to_clients,
    WHOLE_ROUNDS: to_strategy,
    "flower: silos and relays": to_silos,
    "flower: mailbox of silos": to_mailbox,
}
"""Where messages of the Flower layer arrive."""
