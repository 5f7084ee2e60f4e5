"""A recorded run of Flower as a transcript, runs in one process, and distinguishing games on pairs of such runs.

`read_run` joins the records of all parties (`recorder`) into the transcript that attacks and games read. It holds each
message as its receiver noted it. Messages of a scheme's machines have their kind and fields, as in any other run. All
else that a Flower message holds, for instance a metric that an app attaches, is a field of `FlowerRecords`.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, field, replace
from itertools import groupby
from logging import ERROR, getLogger
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import torch
from flwr.app import ArrayRecord, Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.common.constant import SUPERLINK_NODE_ID, ErrorCode
from flwr.serverapp import Grid
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity

from fgl_secure.aggregation.rules import Rules
from fgl_secure.aggregation.sums import SumRequest
from fgl_secure.auditing.game import Game
from fgl_secure.auditing.game_rounds import LEAST_CHANGED, games_of_sums
from fgl_secure.coins import Coins, SimulationCoins
from fgl_secure.errors import InputError, ProtocolError
from fgl_secure.flower.recorder import (
    FOLDER_KEY,
    SEED_KEY,
    SERVER_FILE,
    NotedMessage,
    PartyRecord,
    RecordingGrid,
    node_file,
)
from fgl_secure.flower.records import KEY, RequestRecord
from fgl_secure.flower.strategy import SecureAggregationStrategy
from fgl_secure.flower.terms import RoundTerms
from fgl_secure.runtime import (
    Directory,
    Incident,
    MessageBatch,
    MessageKind,
    Messages,
    Phase,
    Role,
    Step,
    Transcript,
    decode,
    encode,
)
from fgl_secure.runtime.packing import unpack
from fgl_secure.runtime.transcript import Endpoints

_MESSAGE = f"{KEY}/message"
FIRST_NODE = 100


class FlowerRecords(MessageKind):
    """Values that Flower's messages hold beside a scheme's messages, by the names of record and value."""

    TRAINING = ("training records", "terms, models and errors of training, and all else beside a scheme's messages")
    OPEN = ("open records", "messages of evaluation and queries, which an app sends as they are")


def read_run(folder: Path) -> Transcript:
    """Join the records of one run into a transcript: the server is party 0, nodes are silos by ascending number.

    A message that arrived otherwise than its sender noted it is an incident of the sender.

    Args:
        folder: of the records of this run and of no other.

    Raises:
        InputError: the server, or a node that it sent a message, has no record.
        MalformedMessageError: a record is cut.
    """
    server = PartyRecord(folder.absolute() / SERVER_FILE).messages()
    if not server:
        raise InputError(
            f"folder of records must have the server's: give strategy.start a RecordingGrid; none is in {folder}"
        )
    nodes = sorted({note.node for note in server if note.sent})
    clients = {node: PartyRecord(node_file(folder.absolute(), node)).messages() for node in nodes}
    silent = [node for node in nodes if not clients[node]]
    if silent:
        raise InputError(
            f"nodes must have a record each: name {FOLDER_KEY} and {SEED_KEY} in their configuration; found none of "
            f"nodes {silent}"
        )
    noted = {(note.request, note.sent): note for notes in clients.values() for note in notes}
    run = _Joined(Transcript(Directory({Role.SERVER: 1, Role.SILO: len(nodes)})), nodes)
    for sent, notes in groupby(server, key=lambda note: note.sent):
        for note in sorted(notes, key=lambda note: note.node):
            other = noted.get((note.request, not sent))
            changed = other is not None and other.entries != note.entries
            if not sent or other is not None:
                run.add(note if other is None or not sent else other, to_server=not sent, changed=changed)
    return run.transcript


@dataclass(eq=False)
class _Joined:
    """A transcript that grows by messages in order.

    Attributes:
        transcript: so far.
        nodes: ascending; their places are those of silos.
    """

    transcript: Transcript
    nodes: Sequence[int]
    _rounds: set[int] = field(default_factory=set)
    _asked: dict[str, tuple[bytes, Step]] = field(default_factory=dict)

    def add(self, note: NotedMessage, *, to_server: bool, changed: bool) -> None:
        """Add a message: what a scheme's machines say, and all else that is in it."""
        entries, batches = dict(note.entries), list[Messages]()
        session, step = self._asked.get(note.request, (b"", Step(len(self._rounds), evaluation=not _trains(note))))
        data = entries.get(_MESSAGE, b"")[1:]
        with suppress(ProtocolError):  # what is no message of the scheme stays what it is
            if data and to_server:
                batches = _batches(unpack(data), session)
                del entries[_MESSAGE]
            elif data:
                request = SumRequest.from_bytes(data)
                session, step = request.session, Step(request.number, part=int(request.purpose))
                batches = _batches(request.batches, session)
                entries["head"], entries["opening"], _ = unpack(entries.pop(_MESSAGE)[1:], 3)
                self._rounds.add(request.number)
        self._asked[note.request] = session, step
        node = 1 + self.nodes.index(note.node)
        ends = (node, 0) if to_server else (0, node)
        for batch in batches:
            fields = {name: np.asarray(value) for name, value in batch.fields.items()}
            self._append(batch.phase, batch.step, ends, len(batch), batch.item_bytes, fields)
        values = {name.removeprefix(f"{KEY}/"): np.frombuffer(data, np.uint8)[None] for name, data in entries.items()}
        kind = FlowerRecords.TRAINING if _trains(note) else FlowerRecords.OPEN
        self._append(kind, step, ends, 1, sum(map(len, entries.values())), values)
        if changed:
            sender = self.transcript.parties.party_of(ends[0])
            self.transcript.incidents.append(Incident(step, sender, "a message arrived otherwise than it was sent"))

    def _append(
        self, kind: MessageKind, step: Step, ends: tuple[int, int], count: int, size: int, fields: Mapping[str, Any]
    ) -> None:
        both = Endpoints(*(np.full(count, end, dtype=np.int64) for end in ends))
        self.transcript.messages.append(MessageBatch(kind, step, both, size, fields))


def _trains(note: NotedMessage) -> bool:
    return note.entries["type"].split(b".")[0] == b"train"


def _batches(data: Iterable[bytes], session: bytes) -> list[Messages]:
    """Return messages of a scheme's machines.

    Raises:
        ProtocolError: they are none, or their bytes hold more than these messages do.
    """
    batches = []
    for item in data:
        batches.append(decode(item, session))
        if encode(batches[-1], session) != item:
            raise ProtocolError("messages must be as the codec writes them; some are not")
    return batches


class LocalGrid(Grid):
    """Nodes in this process: each runs the app at once when it is sent a message, and remembers its context alone.

    Args:
        apps: of the nodes, numbered from `FIRST_NODE`.
        node_configs: one for each.
        run_config: of the run.

    Attributes:
        apps: by node.
        contexts: by node.
    """

    def __init__(
        self,
        apps: Sequence[ClientApp],
        node_configs: Sequence[Mapping[str, Any]],
        run_config: Mapping[str, Any] | None = None,
    ) -> None:
        self.apps = {FIRST_NODE + index: app for index, app in enumerate(apps)}
        self._run, configs = Run.create_empty(uuid4().int >> 66), dict(zip(self.apps, node_configs, strict=True))
        self.contexts = {
            node: Context(self._run.run_id, node, dict(config), RecordDict(), dict(run_config or {}))
            for node, config in configs.items()
        }
        self._waiting: dict[str, Message] = {}

    def set_run(self, run: Run) -> None:
        """Take another run."""
        self._run = run

    @property
    def run(self) -> Run:
        """The run."""
        return self._run

    def create_message(
        self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str, ttl: float | None = None
    ) -> Message:
        """Return a message."""
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self) -> Iterable[int]:
        """Return all nodes."""
        return list(self.apps)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Run the app of each node."""
        identifiers = []
        for message in messages:
            message.metadata.__dict__["_message_id"] = str(uuid4())
            identifiers.append(message.metadata.message_id)
            reply = self.answer(message)
            if reply is not None:
                self._waiting[message.metadata.message_id] = reply
        return identifiers

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Return replies that are there."""
        return [self._waiting.pop(identifier) for identifier in message_ids if identifier in self._waiting]

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:  # noqa: ARG002  # replies are there at once
        """Do both at once."""
        return self.pull_messages(self.push_messages(messages))

    def answer(self, message: Message) -> Message | None:
        """Return what a node replies."""
        return self.run_app(message.metadata.dst_node_id, message)

    def run_app(self, node: int, message: Message) -> Message:
        """Return what a node's app makes of a message; an exception becomes an error, as in Flower's own process."""
        try:
            return self.apps[node](deepcopy(message), self.contexts[node])
        except Exception as error:  # Flower's process does so
            reason = f"{type(error).__name__}: {error}"
            return Message(Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, reason), reply_to=message)


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Give all that draws from global generators its own randomness, and the generators their states back."""
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002  # apps may use it
    try:
        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002  # the same
        torch.manual_seed(seed)
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])  # noqa: NPY002  # the same
        torch.set_rng_state(states[2])


@contextmanager
def _as_server() -> Iterator[None]:
    """Messages are made by the server of a run, as in Flower's own process, which says little."""
    kept, logger = dict(vars(TaskIdentity)), getLogger("flwr")
    level = logger.level
    TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 1, SUPERLINK_NODE_ID
    logger.setLevel(ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
        for name in ("_task_id", "_run_id", "_node_id"):
            setattr(TaskIdentity, name, kept[name])


class _RepeatableGrid(LocalGrid):
    """Nodes whose apps draw alike for one partition, whatever node has it, and some of which vanish in each round.

    Attributes:
        vanishing: nodes that say nothing from the message on that asks for their vector.
    """

    vanishing: Collection[int] = ()

    def answer(self, message: Message) -> Message | None:
        """Return what a node replies; Flower itself replies for one that is gone."""
        request = RequestRecord.of(message.content)
        if message.metadata.dst_node_id in self.vanishing and request is not None and request.message:
            asked = SumRequest.from_bytes(request.message)
            if asked.batches and decode(asked.batches[0], asked.session).phase not in _EARLY:
                return Message(Error(ErrorCode.NODE_UNAVAILABLE, "the node is gone"), reply_to=message)
        return super().answer(message)

    def run_app(self, node: int, message: Message) -> Message:
        """Return what an app makes of a message."""
        with _seeded(1 + int(self.contexts[node].node_config["partition-id"])):
            return super().run_app(node, message)


_EARLY = (Phase.DRAW, Phase.KEYS)
"""Messages of the server that clients answer which vanish before they hand in a vector."""

MakeStrategy = Callable[[Coins], SecureAggregationStrategy]
"""Makes a strategy from the randomness of its server."""


@dataclass(eq=False)
class FlowerRuns:
    """Runs of an app in one process, recorded by all parties; the mods and the strategy are those that are deployed.

    Args:
        app: of all nodes. What it trains on follows from `partition-id` of its node's configuration alone.
        strategy: makes the strategy from the randomness of the server.
        arrays: of the first model.
        nodes: how many.
        rounds: of training.
        run_config: configuration of the run.
        seed: of the nodes' randomness.
        dropped: places of nodes that vanish in each round after they shared their keys.

    Attributes:
        known: runs so far, by kind and number of the randomness.
    """

    app: ClientApp
    strategy: MakeStrategy
    arrays: ArrayRecord
    nodes: int
    rounds: int = 1
    run_config: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    dropped: Collection[int] = ()
    known: dict[tuple[str, int], Transcript] = field(default_factory=dict, init=False)
    _model: dict[str, Any] | None = field(default=None, init=False)
    _session: bytes = field(default=b"", init=False)

    @property
    def stay(self) -> list[int]:
        """Places of the nodes that do not vanish."""
        return [place for place in range(self.nodes) if place not in self.dropped]

    def run(self, kind: str = "first", coins: int = 0) -> Transcript:
        """Return a run; in "changed" ones partitions go round among nodes, in "changed beside" ones among all but one.

        Args:
            kind: names the run, as games have it; see `games_of_sums`.
            coins: number of the nodes' randomness.

        Raises:
            RoundsFailedError: no round gave a mean.
            InputError: partitions at other nodes have another mean, so that the app trains on more than a partition; or
                the strategy has randomness of its own.
        """
        if (kind, coins) not in self.known:
            partitions = list(range(self.nodes))
            if kind.startswith("changed"):
                turning = self.stay[: -1 if "beside" in kind else None]
                for place, other in zip(turning, [*turning[1:], turning[0]], strict=True):
                    partitions[place] = other
            with tempfile.TemporaryDirectory(prefix="fgl-secure-test-run-") as folder, _as_server(), _seeded(0):
                self.known[kind, coins] = self._run(Path(folder), partitions, self.seed + coins)
        return self.known[kind, coins]

    def _run(self, folder: Path, partitions: Sequence[int], seed: int) -> Transcript:
        configs = [
            {
                "partition-id": partition, "num-partitions": self.nodes, "state": str(folder / f"state{place}"),
                FOLDER_KEY: str(folder), SEED_KEY: seed,
            }
            for place, partition in enumerate(partitions)
        ]  # fmt: skip
        grid = _RepeatableGrid([self.app] * self.nodes, configs, self.run_config)
        grid.vanishing = [FIRST_NODE + place for place in self.dropped]
        recording = RecordingGrid(grid, folder)
        result = self.strategy(SimulationCoins(0)).start(recording, self.arrays, num_rounds=self.rounds, timeout=0.0)
        model = {} if result.arrays is None else {name: array.data for name, array in result.arrays.items()}
        self._model = model if self._model is None else self._model
        if model != self._model:
            raise InputError(
                "app must train on what partition-id names and on nothing else; found two means of one input"
            )
        transcript = read_run(folder)
        session = next(batch["head"] for batch in transcript.messages if "head" in (batch.fields or {}))
        self._session = self._session or session.tobytes()
        if session.tobytes() != self._session:
            raise InputError(
                "strategy must draw from the randomness that it is given; found two sessions: pass coins on"
            )
        return transcript


def play_flower_games(runs: FlowerRuns) -> tuple[Game, ...]:
    """Play a game for each guarantee on a client's update in runs of a Flower app.

    Pairs of runs differ in which node has which partition, so in every client's update, and agree in the sum. Values
    that messages of training hold beside a scheme's messages must also not change with the nodes' randomness, as a key
    or a mask does. Messages of evaluation and queries are in the open, and not compared.

        runs = FlowerRuns(app, lambda coins: SecureAggregationStrategy(FedAvg(), bound=8.0, coins=coins), arrays, 5)
        for game in play_flower_games(runs):
            print(game.coalition, game.broken, game.share)

    Args:
        runs: of the app.

    Returns:
        A game for each role, and one for the server with the last client; none if the scheme guarantees nothing.

    Raises:
        InputError: see `FlowerRuns.run` and `play_round_games`.
        RoundsFailedError: no round gave a mean.
    """

    def run(kind: str, coins: int) -> Transcript:
        whole = runs.run(kind, coins)
        return replace(whole, messages=[batch for batch in whole.messages if batch.phase is not FlowerRecords.OPEN])

    ally = runs.stay[-1] if len(runs.stay) > LEAST_CHANGED else None
    return games_of_sums(_rules(run("first", 0)), run, runs.known, ally, FlowerRecords.TRAINING.label)


def _rules(run: Transcript) -> Rules:
    """Return the rules of a run's first round, from the terms that its server announced."""
    announced = (each["terms"] for each in run.messages if each.fields is not None and "terms" in each.fields)
    terms = next(value for value in announced if value.shape[1] > 1)
    return RoundTerms.from_bytes(terms.tobytes()[1:]).rules()
