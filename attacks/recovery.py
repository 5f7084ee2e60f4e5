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
from fgl_secure.runtime import Role, Step

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


def score_recovered_rows(guess: Iterable[RecoveredRows], truth: Truth) -> tuple[Measurement, ...]:
    """The share of claimed embeddings that are exact, over the messages that the observers could attack.

    The interval resamples senders, since one embedding sent to many neighbours is one secret. Random guessing of a
    whole row succeeds with probability modulus^-d, taken as 0; the prior is the share of the most frequent row,
    which is what a guess without the transcript achieves at best.
    """
    batches = tuple(guess)
    hits, owners, rows = [], [], []
    for batch in batches:
        sender = truth.parties.index_of(batch.senders, Role.DEVICE)
        secret = truth.embeddings[batch.step][sender]
        hits.append(exact_rows_recovered(batch.values, secret.astype(batch.values.dtype, copy=False)))
        owners.append(sender)
        rows.append(largest_share(secret) * len(secret))
    hit, owner = np.concatenate(hits), np.concatenate(owners)
    share = clustered_proportion(hit, owner, seed=0)
    widths = sorted({batch.values.shape[1] for batch in batches})
    finding = (
        f"{int(hit.sum()):,} of {len(hit):,} messages read exactly, by their own receivers alone "
        f"({len(hit) / max(_sent(batches, truth), 1):.1%} of all messages could be attacked; "
        f"{' and '.join(map(str, widths))} coordinates)."
    )
    prior = float(sum(rows)) / max(len(hit), 1)
    return (Measurement("exact recovery", share.value, share.interval, share.n, 0.0, prior, 1.0, True, finding),)


def largest_share(rows: NDArray[Any]) -> float:
    """The share of the most frequent row among rows [k, d]; 0 without rows."""
    if not len(rows):
        return 0.0
    packed = np.ascontiguousarray(rows).view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1])))
    _, counts = np.unique(packed.ravel(), return_counts=True)
    return float(counts.max()) / len(rows)


def _sent(batches: tuple[RecoveredRows, ...], truth: Truth) -> int:
    return len({batch.step for batch in batches}) * int(truth.edges.shape[1])
