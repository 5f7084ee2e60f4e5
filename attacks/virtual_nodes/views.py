"""What a server of FedVN finds in a summand, or in the sum."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.virtual_nodes.knowledge import VirtualSlices
from fgl_secure.errors import InputError
from fgl_secure.runtime import Phase, Role, View

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]

SERVER_SUM = "server sum"
"""Name of the server's row float64 [1, P], where it learns the sum over the clients of a round and no more."""

PARTICIPANTS = "participants"
"""Name of the server's rows int64 [p, 1], the clients in that sum."""


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
class MeanState:
    """The weighted mean of what the clients of one round came to.

    Attributes:
        number: the round.
        state: float64 [P + M width].
        weight: the mean weight of a client.
        sent: see `RoundStates`.
    """

    number: int
    state: Floats
    weight: float
    sent: Floats | None


def client_states(view: View, layout: VirtualSlices) -> tuple[RoundStates, ...]:
    """What single clients sent in the clear, by round in ascending order; clients of weight 0 are left out."""
    found = []
    for number, (clients, rows) in _summands(view, layout).items():
        weights = rows[:, -1]
        there = weights > 0
        states = rows[there, :-1] / weights[there, None]
        found.append((number, clients[there], states, weights[there]))
    known = _handed_out({mean.number: mean.state for mean in mean_states(view, layout)}, layout)
    return tuple(RoundStates(*each, known.get(each[0])) for each in found if len(each[1]))


def mean_states(view: View, layout: VirtualSlices) -> tuple[MeanState, ...]:
    """The means of all rounds of which the server has every summand or their sum, in ascending order."""
    clients = view.parties.counts.get(Role.SILO, 0)
    noted = [rows for rows in view.own(PARTICIPANTS) if not rows.step.evaluation]
    fewer = {rows.step.round for rows in noted if len(np.unique(rows.values)) < clients}
    sums = [rows for rows in view.own(SERVER_SUM) if not rows.step.evaluation]
    learnt = {rows.step.round: np.asarray(rows.values, dtype=np.float64)[0] for rows in sums}
    totals = {number: total for number, total in learnt.items() if number not in fewer}
    for number, (senders, rows) in _summands(view, layout).items():
        if len(np.unique(senders)) == clients:
            totals.setdefault(number, rows.sum(axis=0))
    totals = {number: total for number, total in totals.items() if total[-1] > 0}
    means = {number: total[: layout.entries] / total[-1] for number, total in totals.items()}
    known = _handed_out(means, layout)
    weight = {number: float(total[-1]) / clients for number, total in totals.items()}
    return tuple(MeanState(number, means[number], weight[number], known.get(number)) for number in sorted(means))


def _handed_out(means: dict[int, Floats], layout: VirtualSlices) -> dict[int, Floats]:
    """By round, what the server sent: the mean of the round before, and in the first round what it starts from."""
    sent = {number + 1: state for number, state in means.items()}
    return sent if layout.start is None else {**sent, 0: layout.start}


def _summands(view: View, layout: VirtualSlices) -> dict[int, tuple[Ids, Floats]]:
    """By round in ascending order: indices of the senders int64 [k], and what they sent float64 [k, columns]."""
    found: dict[int, list[tuple[Ids, Floats]]] = {}
    batches = [batch for batch in view.messages(Phase.VECTORS) if not batch.step.evaluation]
    for batch in sorted(batches, key=lambda each: each.step.round):
        rows = np.asarray(batch.payload, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] <= layout.entries:
            raise InputError(f"summands must be rows of more than {layout.entries} entries; found {list(rows.shape)}")
        clients = view.parties.index_of(batch.senders, Role.SILO)
        found.setdefault(batch.step.round, []).append((clients, rows))
    joined = {number: [np.concatenate(part) for part in zip(*parts, strict=True)] for number, parts in found.items()}
    return {number: (clients, rows) for number, (clients, rows) in joined.items() if len(clients)}
