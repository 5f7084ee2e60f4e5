"""The gradients that reach the server of a federation: one a client, or their sum."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.gradients.knowledge import GradientKnowledge
from fgl_secure.attacks.gradients.model import GradientModel
from fgl_secure.runtime import Phase, PublicParameters, ReceivedRows, Role, View

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]

SERVER_SUM = "server sum"
"""Name of the server's row float64 [1, P + 1]: the sum of the weighted updates of a round's participants, and behind it
that of their weights. A single client's row is of the same kind."""

PARTICIPANTS = "participants"
"""Name of the server's rows int64 [k, 1]: indices of the silos whose gradients are in the sum of that round."""

SUM = -1
"""Stands for all participants where a row is their sum."""


@dataclass(frozen=True, slots=True, eq=False)
class ClientGradients:
    """Gradients of one round by parameter.

    Attributes:
        model: at the weights of that round.
        clients: int64 [k], index of the silo that each is from; [SUM] for the sum.
        participants: int64 [p], indices of the silos that are in them.
        parts: by parameter name, float64 [k, *shape].
        rounding: what entries are off by at most, in units of the gradient.
        relative: unit roundoff of what was sent.
    """

    model: GradientModel
    clients: Ids
    participants: Ids
    parts: dict[str, Floats]
    rounding: float
    relative: float

    @property
    def summed(self) -> bool:
        """Whether they are the sum over all participants."""
        return bool(self.clients.tolist() == [SUM])

    def noise(self, name: str) -> float:
        """About the largest singular value that rounding adds to the gradient of a weight."""
        _, d_in, d_out = self.parts[name].shape
        scale = float(np.abs(self.parts[name]).max(initial=0.0)) * self.relative + self.rounding
        return scale * float(d_in**0.5 + d_out**0.5)


def client_gradients(view: View, public: PublicParameters, known: GradientKnowledge) -> ClientGradients | None:
    """The gradients of the round whose weights the observer knows; None where it sees none."""
    model = known.model
    batches = [batch for batch in _updates(view) if batch.step.round == model.round]
    if batches:
        clients = np.concatenate([view.parties.index_of(batch.senders, Role.SILO) for batch in batches])
        vectors = np.concatenate([_unweighted(np.asarray(batch.payload)) for batch in batches])
        return _read(model, clients, clients, _as_computed(vectors), 0.0)
    sums = update_sums(view)
    if model.round not in sums:
        return None
    participants = participants_of(view, model.round)
    bits = public.fraction_bits
    rounding = 0.0 if bits is None else len(participants) ** 0.5 * 2.0 ** -(bits + 1) / abs(model.rate)
    return _read(model, np.array([SUM]), participants, sums[model.round], rounding)


def update_sums(view: View) -> dict[int, Floats]:
    """By round in ascending order: float64 [1, P], the sum of the participants' updates, each counting alike.

    It is their weighted mean times their number. Rounds in which single updates arrived are left out: they say more.
    """
    single, sums = {batch.step.round for batch in _updates(view)}, view.own(SERVER_SUM)
    found = {rows.step.round: np.asarray(rows.values, dtype=np.float64) for rows in sums if not rows.step.evaluation}
    numbers = sorted(set(found) - single)
    return {number: _unweighted(found[number]) * len(participants_of(view, number)) for number in numbers}


def _updates(view: View) -> list[ReceivedRows]:
    """Single clients' updates as the observer gets them; figures that score a model are none."""
    received = view.messages(Phase.VECTORS)
    return [batch for batch in received if len(batch.senders) and not batch.step.evaluation]


def _unweighted(rows: NDArray[np.floating]) -> Floats:
    """Rows [k, P + 1] over their last entries."""
    return rows[:, :-1].astype(np.float64) / rows[:, -1:]


def _as_computed(rows: Floats) -> NDArray[np.floating]:
    """Rows in single precision where they were computed in it, as the rounding in them tells; in double where not."""
    single: NDArray[np.float32] = rows.astype(np.float32)
    return single if np.allclose(single, rows, rtol=1e-13, atol=0) else rows


def participants_of(view: View, number: int) -> Ids:
    """Indices of the silos that are in the sum of a round, int64 [p] ascending; all where nothing says otherwise."""
    told = [np.asarray(rows.values)[:, 0] for rows in view.own(PARTICIPANTS) if rows.step.round == number]
    if told:
        return np.unique(np.concatenate(told)).astype(np.int64)
    return np.arange(view.parties.counts.get(Role.SILO, 0), dtype=np.int64)


def _read(
    model: GradientModel, clients: Ids, participants: Ids, vectors: NDArray[np.floating], rounding: float
) -> ClientGradients:
    parts = model.gradients(vectors.astype(np.float64))
    relative = float(np.finfo(vectors.dtype).eps)
    return ClientGradients(model, clients, participants, parts, rounding, relative)
