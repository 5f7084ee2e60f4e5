"""A Grid without processes: messages go straight to apps that remember nothing but their contexts and state files."""

from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from typing import Any
from uuid import uuid4

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.clientapp.typing import Mod
from flwr.serverapp.strategy import FedAvg, Strategy
from numpy.typing import NDArray

from fgl_secure.aggregation.sums import SumRequest as RoundRequest
from fgl_secure.errors import MalformedMessageError, RoundsFailedError
from fgl_secure.flower import SecureAggregationStrategy, secure_aggregation_mod
from fgl_secure.flower.kept import StateStore, state_file
from fgl_secure.flower.mod import Memory
from fgl_secure.flower.recorded_run import LocalGrid
from fgl_secure.flower.records import RequestRecord
from fgl_secure.protocols.secagg.terms import Stage
from fgl_secure.runtime import MessageKind, Phase, decode

Numbers = NDArray[np.float32]
Tamper = Callable[[int, Stage | None, Message], Message | None]


ASKED: dict[MessageKind, Stage] = {
    Phase.KEYS: Stage.SHARES,
    Phase.SECRET_SHARES: Stage.VECTORS,
    Phase.ROSTERS: Stage.AGREEMENT,
    Phase.UNMASKING: Stage.OPENING,
}
"""The stage that the server's messages ask for."""
WORDS = {Stage.KEYS: "opening", **{stage: phase.label for phase, stage in ASKED.items()}}
"""What that is called where nodes drop out."""


def stage_asked(message: Message) -> Stage | None:
    """The stage that a server's message is of; None if it is no stage."""
    try:
        request = RequestRecord.of(message.content)
        asked = None if request is None else RoundRequest.from_bytes(request.message)
    except MalformedMessageError:
        return None
    if asked is None:
        return None
    return ASKED[decode(asked.batches[0], asked.session).phase] if asked.batches else Stage.KEYS


def app_of(mod: Mod, train: Callable[[Message, Context], RecordDict]) -> ClientApp:
    """An app with a mod around its training, and an evaluation that tells the node's name."""
    app = ClientApp(mods=[mod])

    @app.train()
    def _train(message: Message, context: Context) -> Message:
        return Message(train(message, context), reply_to=message)

    @app.evaluate()
    def _evaluate(message: Message, context: Context) -> Message:
        metrics = MetricRecord({"num-examples": 1, "node": context.node_id})
        return Message(RecordDict({"metrics": metrics}), reply_to=message)

    return app


def update(values: Any, weight: float = 1, **metrics: float) -> RecordDict:
    """What an app's training gives back."""
    return RecordDict(
        {"arrays": record(values), "metrics": MetricRecord({"num-examples": weight, "secret-loss": 0.25, **metrics})}
    )


def record(values: Any) -> ArrayRecord:
    """An ArrayRecord with one array under "w"."""
    return ArrayRecord({"w": Array(np.asarray(values, dtype=np.float32))})


def file_of(context: Context) -> StateStore:
    """The file of a node's state."""
    return StateStore(context, state_file(context))


def memory_of(context: Context) -> Memory | None:
    """What a client remembers of its rounds; None before its first."""
    arrays = file_of(context).load(b"run %d" % context.run_id)
    return None if arrays is None else Memory.from_arrays(arrays)


def fresh_run() -> int:
    """The number of a run that nothing is remembered of."""
    return uuid4().int >> 66


class FakeGrid(LocalGrid):
    """Nodes 100, 101, ... of a run of their own that run an app at once when they are sent a message.

    Attributes:
        tamper: may change a node's reply, or drop it; given the node and the stage that was asked for.
        before: may change what a node is sent, or keep it from it.
        delivered: what each node was sent, in order.
        answered: what each node replied, in order.
    """

    def __init__(self, apps: list[ClientApp], node_config: dict[str, Any] | None = None) -> None:
        super().__init__(apps, [node_config or {}] * len(apps))
        self.tamper: Tamper = lambda _node, _stage, reply: reply
        self.before: Tamper = lambda _node, _stage, message: message
        self.delivered: list[tuple[int, Message]] = []
        self.answered: list[tuple[int, Message]] = []

    @property
    def refusals(self) -> dict[int, str]:
        """The text of the latest error that each node replied, as the server hears it."""
        return {node: str(reply.error.reason) for node, reply in self.answered if reply.has_error()}

    def answer(self, message: Message) -> Message | None:
        """What a node replies, as the network passes it on."""
        node, stage = message.metadata.dst_node_id, stage_asked(message)
        sent = self.before(node, stage, deepcopy(message))
        if sent is None:
            return None
        self.delivered.append((node, deepcopy(sent)))
        reply = self.run_app(node, sent)
        self.answered.append((node, deepcopy(reply)))
        return self.tamper(node, stage, reply)


OFF: dict[str, Any] = {"fraction_evaluate": 0.0, "min_train_nodes": 1, "min_available_nodes": 1}
STAGES = (Stage.KEYS, Stage.SHARES, Stage.VECTORS, Stage.AGREEMENT, Stage.OPENING)


def strategy_of(inner: Strategy | None = None, **settings: Any) -> SecureAggregationStrategy:
    """A strategy within secure aggregation, FedAvg unless given: a bound, a threshold of 3, and no patience."""
    given: dict[str, Any] = {"threshold": 3, "bound": 8.0, "stage_timeout": 0.0, "run_config": {}, **settings}
    return SecureAggregationStrategy(inner or FedAvg(**OFF), **given)


def played(
    grid: FakeGrid, rounds: int = 1, start: ArrayRecord | None = None, **settings: Any
) -> SecureAggregationStrategy:
    """The strategy after some rounds that begin at zero."""
    secure = strategy_of(**settings)
    with suppress(RoundsFailedError):
        secure.start(grid, start or record(np.zeros(3)), num_rounds=rounds, timeout=0.0)
    return secure


def numbered_grid(mod: Mod = secure_aggregation_mod, **node_config: Any) -> FakeGrid:
    """Four nodes with the same mod, whose i-th update is i everywhere."""
    return FakeGrid([app_of(mod, lambda _m, c: update(np.full(3, c.node_id - 100), 1))] * 4, node_config)


def never(_message: Message, _context: Context) -> Message:
    """An app that must not be called."""
    raise AssertionError("the app was called")
