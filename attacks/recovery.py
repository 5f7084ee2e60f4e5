"""Guesses of embeddings, and how they are scored: bit for bit, or not at all."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.base import Measurement
from fgl_secure.attacks.truth import MessageTruth
from fgl_secure.runtime import Direction, Role, Step
from fgl_secure.statistics.metrics import (
    Interval,
    clustered_proportion,
    exact_proportion,
    exact_rows_recovered,
    node_block_proportion,
)
from fgl_secure.typing import Ids


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Result:
    """The output of an attack and its score.

    Attributes:
        measured: score, interval and baselines in one record; None without a truth.
    """

    measured: Measurement | None

    @property
    def score(self) -> float | None:
        """The share of correct claims, 0 to 1; None without a truth."""
        return None if self.measured is None else self.measured.value

    @property
    def interval(self) -> Interval | None:
        """Its 95 % interval; None without a truth."""
        return None if self.measured is None else self.measured.interval

    @property
    def baseline(self) -> float | None:
        """The score of the best guess without the observed data; None without a truth."""
        return None if self.measured is None else self.measured.prior

    def __repr__(self) -> str:
        name = type(self).__name__
        if self.measured is None:
            return f"{name}(no truth given)"
        low, high = self.measured.interval.low, self.measured.interval.high
        return f"{name}(score={self.score:.3f} in {low:.3f}..{high:.3f}, baseline={self.baseline:.3f})"


UNNAMED = -1
"""In place of a sender that the observer cannot name."""


@dataclass(frozen=True, slots=True, eq=False)
class RecoveredRows:
    """Embeddings that observers claim to have read."""

    step: Step  # when they were sent
    # int64 [k], party identifiers of the devices that they are said to belong to; UNNAMED for all of them if the
    # observer can name none
    senders: Ids
    values: NDArray[Any]  # [k, d], the embeddings


Recovered = tuple[RecoveredRows, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ClaimedTerms:
    """Rows that an observer claims to be in a sum, without saying whose they are."""

    step: Step  # when they were sent
    targets: Ids  # int64 [k], party identifiers of the devices whose sums they are said to be in
    values: NDArray[Any]  # [k, d], the rows


METRICS = {Direction.FORWARD: "exact recovery", Direction.BACKWARD: "exact gradients"}


def score_recovered_rows(guess: Iterable[RecoveredRows], truth: MessageTruth) -> tuple[Measurement, ...]:
    """The share of claimed rows that are exact, over the messages that the observers could attack.

    Embeddings (forward) and gradients (backward) are scored apart. Rows of zeros are left out: the gradient of a
    device without a training label is no secret. The interval resamples senders, since one embedding sent to many
    neighbours is one secret. Where senders have no name, the share is of devices whose row is among those that are
    claimed for any party. Random guessing of a whole row succeeds with probability modulus^-d, taken as 0; the
    prior is the share of the most frequent row, which is what a guess without the transcript achieves at best.
    """
    batches = tuple(guess)
    rows = []
    for direction, metric in METRICS.items():
        same = tuple(batch for batch in batches if batch.step.direction is direction)
        measured = _score_one_way(metric, same, truth) if same else None
        if measured is not None:
            rows.append(measured)
    return tuple(rows)


def _score_one_way(metric: str, batches: tuple[RecoveredRows, ...], truth: MessageTruth) -> Measurement | None:
    hits, owners, most_frequent = [], [], 0.0
    for batch in batches:
        unnamed = bool((batch.senders == UNNAMED).all())
        rows = truth.embeddings[batch.step].astype(batch.values.dtype, copy=False)
        sender = np.arange(len(rows)) if unnamed else truth.parties.index_of(batch.senders, Role.DEVICE)
        secret = rows[sender]
        telling = secret.any(axis=1)
        hits.append(
            np.isin(_pack_rows(secret[telling]), _pack_rows(batch.values))
            if unnamed
            else exact_rows_recovered(batch.values[telling], secret[telling])
        )
        owners.append(sender[telling])
        most_frequent += largest_share(secret[telling]) * int(telling.sum())
    hit, owner = np.concatenate(hits), np.concatenate(owners)
    if not len(hit):
        return None
    share = clustered_proportion(hit, owner, seed=0)
    widths = " and ".join(map(str, sorted({batch.values.shape[1] for batch in batches})))
    message_count = len({batch.step for batch in batches}) * int(truth.edges.shape[1])
    attacked = sum(len(batch.senders) for batch in batches)
    read = f"{int(hit.sum()):,} of {len(hit):,} rows of {widths} coordinates"
    finding = (
        f"{read} are among those that observers read, who cannot say whose they are."
        if any((batch.senders == UNNAMED).any() for batch in batches)
        else f"{read} read exactly, by their own receivers alone; {attacked / max(message_count, 1):.1%} of all such "
        "messages could be attacked."
    )
    prior = most_frequent / len(hit)
    return Measurement.of_share(metric, share, finding, prior=prior)


def score_claimed_terms(guess: ClaimedTerms, truth: MessageTruth) -> tuple[Measurement, ...]:
    """The share of all messages whose row is claimed for the right sum, and the share of claims that are right.

    Rows are compared bit for bit, as a multiset for every sum: a row that two neighbours have counts twice if it is
    claimed twice. Both priors are the share of the most frequent row.
    """
    secret = truth.embeddings[guess.step].astype(guess.values.dtype, copy=False)
    target = truth.parties.index_of(guess.targets, Role.DEVICE)
    _, kind = np.unique(_pack_rows(np.concatenate([secret, guess.values])), return_inverse=True)
    kinds = int(kind.max(initial=0)) + 1
    message_kinds = truth.edges[1] * kinds + kind[: len(secret)][truth.edges[0]]
    claimed = target * kinds + kind[len(secret) :]
    read, right = _match_numbers(message_kinds, claimed), _match_numbers(claimed, message_kinds)
    prior = largest_share(secret[truth.edges[0]])
    finding = (
        f"{int(read.sum()):,} of {len(read):,} rows are read exactly out of sums; {int(right.sum()):,} of "
        f"{len(right):,} rows that are claimed are right."
    )
    recall = node_block_proportion(read, truth.edges, len(truth.silo_of), seed=0)
    messages = Measurement.of_share("messages read", recall, finding, prior=prior)
    if not len(right):
        return (messages,)
    precision = clustered_proportion(right, target, seed=0)
    return messages, Measurement.of_share("precision", precision, finding, prior=prior, context=True)


def share_right(
    metric: str,
    right: NDArray[np.bool_],
    units: Ids | None,
    text: str,
    *,
    prior: float = 0.0,
    random: float = 0.0,
    reachable: float = 1.0,
) -> Measurement:
    """The share of claims that are right, with a bootstrap over units.

    Args:
        metric: what the figure is called.
        right: bool [k].
        units: int64 [k], what claims that depend on each other have in common; None where none do.
        text: what is right, in a sentence with the two numbers at {}, or else at its beginning.
        prior: the share that is right of the best claims without messages.
        random: the same of random claims.
        reachable: the share that a complete break would have.
    """
    hits = int(right.sum())
    share = exact_proportion(hits, len(right)) if units is None else clustered_proportion(right, units, seed=0)
    finding = (text if "{}" in text else f"{{}} {text}").format(f"{hits:,} of {len(right):,}")
    return Measurement.of_share(metric, share, finding, random=random, prior=prior, reachable=reachable)


def share_of_numbers(metric: str, claimed: Ids, actual: Ids, units: Ids, text: str) -> Measurement:
    """The share of whole numbers that are right; the prior is the most frequent one, see `share_right`."""
    prior, random = largest_share(actual[:, None]), 1 / max(int(actual.max(initial=1)), 1)
    return share_right(metric, claimed == actual, units, text, prior=prior, random=random)


def _match_numbers(these: Ids, those: Ids) -> NDArray[np.bool_]:
    """Which of these numbers find a partner among those, each of which serves once: bool like `these`."""
    order = np.argsort(these, kind="stable")
    ordered, pool = these[order], np.sort(those)
    rank = np.arange(len(ordered)) - np.searchsorted(ordered, ordered)
    result = np.zeros(len(these), dtype=np.bool_)
    result[order] = rank < np.searchsorted(pool, ordered, side="right") - np.searchsorted(pool, ordered)
    return result


def _pack_rows(rows: NDArray[Any]) -> NDArray[Any]:
    """Rows [k, d] as k opaque values that are equal where all bits are."""
    return np.ascontiguousarray(rows).view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()


def largest_share(rows: NDArray[Any]) -> float:
    """The share of the most frequent row among rows [k, d]; 0 without rows."""
    if not len(rows):
        return 0.0
    _, counts = np.unique(_pack_rows(rows), return_counts=True)
    return float(counts.max()) / len(rows)
