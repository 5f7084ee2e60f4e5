"""Runs that attacks on virtual nodes read, and what a server knows and sees of them."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np

from fgl_secure.attacks.updates import participants_of, sums_of, vectors_of
from fgl_secure.errors import InputError
from fgl_secure.runtime import Role, View
from fgl_secure.typing import Floats, Ids

VIRTUAL_NODES = "virtual nodes"
"""Scenario: what clients of FedVN send to the server, or its sum: model and virtual nodes."""

FEDVN = "fedvn in the clear, several rounds"
FEDVN_SKEWED = "fedvn in the clear, clients of different label shares"
"""Controls, as FedVN makes them."""


@dataclass(frozen=True, slots=True)
class LocalWork:
    """What every client does in a round; the server that hands it out knows it.

    Attributes:
        rate: learning rate of plain gradient descent on the model.
        batch: graphs that a client takes a step on.
        epochs: how often it goes through its training graphs.
        whole: what the number of a client's training graphs is divided by before it is sent as its weight.
    """

    rate: float
    batch: int
    epochs: int
    whole: int

    def steps(self, weight: float) -> int:
        """How many steps a client of a weight takes, at least one."""
        return self.epochs * max(ceil(round(weight * self.whole) / self.batch), 1)


@dataclass(frozen=True, slots=True, eq=False)
class VirtualSlices:
    """Where the parts of a summand lie, and what else a server knows that hands out the model.

    All entries are times the client's weight, which stands last.

    Attributes:
        parameters: entries P of the model.
        head_bias: where among them the bias of the last layer lies, one entry a class.
        virtual_nodes: how many virtual nodes M.
        width: columns of a virtual node.
        hidden: columns of the last layer's weight, whose rows lie just before the bias, class by class; 0 where they
            don't.
        start: float64 [P + M width], the model and the virtual nodes that the server hands out in the first round.
        work: what a client does in a round.
        scores: entries of the mean score vector that clients send, where the server learns one; else 0.
    """

    parameters: int
    head_bias: slice
    virtual_nodes: int
    width: int
    hidden: int = 0
    start: Floats | None = None
    work: LocalWork | None = None
    scores: int = 0

    @property
    def model(self) -> slice:
        """P entries: the model."""
        return slice(0, self.parameters)

    @property
    def nodes(self) -> slice:
        """M width entries: each virtual node."""
        return slice(self.parameters, self.parameters + self.virtual_nodes * self.width)

    @property
    def entries(self) -> int:
        """P + M width: of the model and the virtual nodes."""
        return int(self.nodes.stop)

    @property
    def score_vector(self) -> slice:
        """The mean score vector."""
        return slice(self.entries, self.entries + self.scores)

    @property
    def classes(self) -> int:
        """Entries of the last bias."""
        return int(self.head_bias.stop - self.head_bias.start)

    @property
    def head_weight(self) -> slice:
        """C hidden entries: the weight of the last layer; empty where no party says where it is."""
        return slice(self.head_bias.start - self.classes * self.hidden, self.head_bias.start)


@dataclass(frozen=True, slots=True, eq=False)
class RoundStates:
    """Models and virtual nodes that clients came to in one round.

    Attributes:
        number: the round.
        clients: int64 [k], index of the silo that each is from.
        states: float64 [k, columns], rows as they lie in a summand, no longer weighted.
        weights: float64 [k].
        sent: float64 [P + M width], what the server had handed out; None where its view does not say.
    """

    number: int
    clients: Ids
    states: Floats
    weights: Floats
    sent: Floats | None


@dataclass(frozen=True, slots=True, eq=False)
class _MeanState:
    """The weighted mean of what the clients of one round came to."""

    number: int  # the round
    state: Floats  # float64 [P + M width]
    weight: float  # the mean weight of a client
    sent: Floats | None  # see `RoundStates`


def client_states(view: View, layout: VirtualSlices) -> tuple[RoundStates, ...]:
    """What single clients sent in plaintext, by round in ascending order; clients of weight 0 are left out."""
    result = []
    for number, (clients, rows) in _summands(view, layout).items():
        weights = rows[:, -1]
        weighted = weights > 0
        states = rows[weighted, :-1] / weights[weighted, None]
        result.append((number, clients[weighted], states, weights[weighted]))
    known = _list_sent({mean.number: mean.state for mean in mean_states(view, layout)}, layout)
    return tuple(RoundStates(*item, known.get(item[0])) for item in result if len(item[1]))


def mean_states(view: View, layout: VirtualSlices) -> tuple[_MeanState, ...]:
    """The means of all rounds of which the server has every summand or their sum, in ascending order."""
    clients = view.parties.counts.get(Role.SILO, 0)
    totals = {n: total[0] for n, total in sums_of(view).items() if len(participants_of(view, n)) == clients}
    for number, (senders, rows) in _summands(view, layout).items():
        if len(np.unique(senders)) == clients:
            totals.setdefault(number, rows.sum(axis=0))
    totals = {number: total for number, total in totals.items() if total[-1] > 0}
    means = {number: total[: layout.entries] / total[-1] for number, total in totals.items()}
    known = _list_sent(means, layout)
    weight = {number: float(total[-1]) / clients for number, total in totals.items()}
    return tuple(_MeanState(number, means[number], weight[number], known.get(number)) for number in sorted(means))


def _list_sent(means: dict[int, Floats], layout: VirtualSlices) -> dict[int, Floats]:
    """By round, what the server sent: the mean of the round before, and in the first round what it starts from."""
    states = {number + 1: state for number, state in means.items()}
    return states if layout.start is None else {**states, 0: layout.start}


def _summands(view: View, layout: VirtualSlices) -> dict[int, tuple[Ids, Floats]]:
    """By round in ascending order: indices of the senders int64 [k], and what they sent float64 [k, columns]."""
    summands = vectors_of(view)
    narrow = next((rows.shape for _, rows in summands.values() if rows.shape[1] <= layout.entries), None)
    if narrow is not None:
        raise InputError(f"summands must be rows of more than {layout.entries} entries; found {list(narrow)}")
    return summands
