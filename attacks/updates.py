"""What a server sees of clients' updates, each in plaintext or only their sum, and two updates that it suspects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from fgl_secure.runtime import Phase, Role, View
from fgl_secure.runtime.transcript import PARTICIPANTS, SERVER_SUM
from fgl_secure.typing import Floats, Ids

SUM = -1
"""Stands for all participants where a row is their sum."""


@dataclass(frozen=True, slots=True, eq=False)
class Suspects:
    """What an observer of sums knows of the clients' updates.

    Attributes:
        population: float64 [N, P], a sample of updates like those of the other clients, N at least 10.
        pairs: by round, float64 [K, 2, P]: two updates of each client, of which it sent one in that round, in an order
            that says nothing. A round without an entry is not attacked.
    """

    population: Floats
    pairs: Mapping[int, Floats]


def vectors_of(view: View, fits: Callable[[int], bool] = bool) -> dict[int, tuple[Ids, Floats]]:
    """What single clients sent in plaintext, by round in ascending order; figures that score a model are left out.

    Args:
        view: of the server.
        fits: whether vectors of so many entries count.

    Returns:
        Indices of the senders int64 [k], and float64 [k, P].
    """
    result: dict[int, list[tuple[Ids, Floats]]] = {}
    for batch in sorted(view.messages(Phase.VECTORS), key=lambda message: message.step.round):
        rows = np.asarray(batch.payload, dtype=np.float64).reshape(len(batch.senders), -1)
        if len(rows) and not batch.step.evaluation and fits(rows.shape[1]):
            result.setdefault(batch.step.round, []).append((view.parties.index_of(batch.senders, Role.SILO), rows))
    return {
        number: (np.concatenate([clients for clients, _ in parts]), np.concatenate([rows for _, rows in parts]))
        for number, parts in result.items()
    }


def sums_of(view: View) -> dict[int, Floats]:
    """The sums that the server notes, float64 [1, P] by round in ascending order, without those that score a model."""
    noted = [rows for rows in view.own(SERVER_SUM) if not rows.step.evaluation]
    result = {rows.step.round: np.asarray(rows.values, dtype=np.float64) for rows in noted}
    return dict(sorted(result.items()))


def participants_of(view: View, number: int) -> Ids:
    """Indices of the silos that are in the sum of a round, int64 [p] ascending; all where nothing says otherwise."""
    noted = [rows for rows in view.own(PARTICIPANTS) if rows.step.round == number and not rows.step.evaluation]
    if noted:
        return np.unique(np.concatenate([np.asarray(rows.values)[:, 0] for rows in noted])).astype(np.int64)
    return np.arange(view.parties.counts.get(Role.SILO, 0), dtype=np.int64)
