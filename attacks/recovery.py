"""Guesses of embeddings, and how they are scored: bit for bit, or not at all."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.base import Measurement
from fgl_secure.attacks.truth import Truth
from fgl_secure.audit.metrics import clustered_proportion, exact_rows_recovered
from fgl_secure.runtime import Direction, Role, Step

Ids = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class RecoveredRows:
    """Embeddings that observers claim to have read.

    Attributes:
        step: when they were sent.
        senders: int64 [k], party identifiers of the devices that they are said to belong to.
        values: [k, d], the embeddings.
    """

    step: Step
    senders: Ids
    values: NDArray[Any]


METRICS = {Direction.FORWARD: "exact recovery", Direction.BACKWARD: "exact gradients"}


def score_recovered_rows(guess: Iterable[RecoveredRows], truth: Truth) -> tuple[Measurement, ...]:
    """The share of claimed rows that are exact, over the messages that the observers could attack.

    Embeddings (forward) and gradients (backward) are scored apart. Rows of zeros are left out: the gradient of a
    device without a training label is no secret. The interval resamples senders, since one embedding sent to many
    neighbours is one secret. Random guessing of a whole row succeeds with probability modulus^-d, taken as 0; the
    prior is the share of the most frequent row, which is what a guess without the transcript achieves at best.
    """
    batches = tuple(guess)
    found = []
    for direction, metric in METRICS.items():
        same = tuple(batch for batch in batches if batch.step.direction is direction)
        measured = _score_one_way(metric, same, truth) if same else None
        if measured is not None:
            found.append(measured)
    return tuple(found)


def _score_one_way(metric: str, batches: tuple[RecoveredRows, ...], truth: Truth) -> Measurement | None:
    hits, owners, most_frequent = [], [], 0.0
    for batch in batches:
        sender = truth.parties.index_of(batch.senders, Role.DEVICE)
        secret = truth.embeddings[batch.step][sender].astype(batch.values.dtype, copy=False)
        telling = secret.any(axis=1)
        hits.append(exact_rows_recovered(batch.values[telling], secret[telling]))
        owners.append(sender[telling])
        most_frequent += largest_share(secret[telling]) * int(telling.sum())
    hit, owner = np.concatenate(hits), np.concatenate(owners)
    if not len(hit):
        return None
    share = clustered_proportion(hit, owner, seed=0)
    widths = " and ".join(map(str, sorted({batch.values.shape[1] for batch in batches})))
    sent = len({batch.step for batch in batches}) * int(truth.edges.shape[1])
    attacked = sum(len(batch.senders) for batch in batches)
    finding = (
        f"{int(hit.sum()):,} of {len(hit):,} rows of {widths} coordinates read exactly, by their own receivers alone; "
        f"{attacked / max(sent, 1):.1%} of all such messages could be attacked."
    )
    prior = most_frequent / len(hit)
    return Measurement(metric, share.value, share.interval, share.n, 0.0, prior, 1.0, True, finding)


def largest_share(rows: NDArray[Any]) -> float:
    """The share of the most frequent row among rows [k, d]; 0 without rows."""
    if not len(rows):
        return 0.0
    packed = np.ascontiguousarray(rows).view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1])))
    _, counts = np.unique(packed.ravel(), return_counts=True)
    return float(counts.max()) / len(rows)
