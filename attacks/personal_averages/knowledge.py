"""What clients of personal averages know of the rules, and what they are told."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.runtime import Phase, ReceivedRows, Role, View

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]

PERSONAL_AVERAGES = "personal averages"
"""Scenario: a round after which every client gets a weighted average of all clients' models."""

FEDPUB = "fed-pub in the clear, clients of three kinds"
"""The control, as FED-PUB makes it."""

OWN_EMBEDDING, WEIGHTED_SUM = "own functional embedding", "weighted sum of models"
"""Names of a client's rows float64 [1, d] and int64 [1, P]."""


@dataclass(frozen=True, slots=True, eq=False)
class AverageRules:
    """What every client knows.

    Attributes:
        start: float64 [P], the model that all clients begin the round with.
        temperature: tau, of the soft-max over cosines that weights are.
        fraction_bits: behind the binary point of what is summed.
        last_bias: where among the entries the last layer's bias lies, one entry a class.
    """

    start: Floats
    temperature: float
    fraction_bits: int
    last_bias: slice

    def weights(self, own: Floats, others: Floats) -> Floats:
        """float64 [k]: what other clients' models weigh in the average of a client.

        Args:
            own: float64 [d], its functional embedding.
            others: float64 [k, d].
        """
        rows = np.concatenate([others, own[None]])
        unit = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.finfo(np.float64).tiny)
        powers = np.exp(self.temperature * (unit @ unit[-1] - 1))
        return np.asarray((powers / powers.sum())[:-1])


@dataclass(frozen=True, slots=True, eq=False)
class Told:
    """What one client was told in the round.

    Attributes:
        client: index of the silo.
        others: int64 [k], indices of the silos whose embeddings came, ascending.
        embeddings: float64 [k, d], theirs.
        own: float64 [d], its own.
        senders: int64 [t], indices of the silos whose terms came one by one, ascending.
        terms: int64 [t, P], what each put into its average.
        total: int64 [P], the sum of all terms; None where it did not get it.
    """

    client: int
    others: Ids
    embeddings: Floats
    own: Floats
    senders: Ids
    terms: Ids
    total: Ids | None


def told_to_clients(view: View) -> Iterator[Told]:
    """What every client was told in the first round, client by client; those that told nothing are left out."""
    embeddings, terms = (
        [batch for batch in view.messages(phase, round=0) if not batch.step.evaluation]
        for phase in (Phase.FUNCTIONAL_EMBEDDINGS, Phase.VECTORS)
    )
    for client, party in enumerate(view.parties.ids(Role.SILO).tolist()):
        own, total = (_own(view, name, party) for name in (OWN_EMBEDDING, WEIGHTED_SUM))
        if own is not None:
            heard, got = (_of_others(view, batches, party) for batches in (embeddings, terms))
            yield Told(client, heard[0], heard[1].astype(np.float64), own.astype(np.float64), *got, total)


def _own(view: View, name: str, party: int) -> NDArray[Any] | None:
    """A party's first row of a name in the first round."""
    found = [rows.values[rows.owners == party] for rows in view.own(name) if rows.step.round == 0]
    return next((rows[0] for rows in found if len(rows)), None)


def _of_others(view: View, batches: Iterable[ReceivedRows], receiver: int) -> tuple[Ids, NDArray[Any]]:
    """Indices of silos int64 [k], ascending, and what they sent to one party, [k, d]."""
    senders, rows = [np.empty(0, dtype=np.int64)], [np.empty((0, 0))]
    for batch in batches:
        mine = batch.receivers == receiver
        if mine.any():
            senders.append(view.parties.index_of(batch.senders[mine], Role.SILO))
            rows.append(np.asarray(batch.payload)[mine])
    found = np.concatenate(senders)
    order = np.argsort(found)
    return found[order], np.concatenate(rows[1:])[order] if len(found) else rows[0]
