"""How many labelled nodes of each class a client has: the whole numbers behind its shares."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.base import Auxiliary, Card, InformedAttack, Material, Measurement, Reference
from fgl_secure.attacks.proxy_classes import LAYOUT
from fgl_secure.attacks.proxy_fractions import whole_numbers
from fgl_secure.attacks.proxy_rows import LABELLED, ProxyRows, proxy_rows
from fgl_secure.attacks.truth import Truth
from fgl_secure.runtime import PublicParameters, Role, Secret, View
from fgl_secure.statistics.metrics import exact_proportion

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class LabelledCounts:
    """Labels in the first round that was seen.

    Attributes:
        round: the training round.
        clients: int64 [k], indices of silos; [SUM] where only the sum is seen.
        shares: float64 [k, C].
        counts: int64 [k, C], the smallest whole numbers behind the shares; -1 where there are none.
    """

    round: int
    clients: Ids
    shares: Floats
    counts: Ids

    @property
    def summed(self) -> bool:
        """Whether it speaks of all clients together."""
        return bool((self.clients < 0).any())


class ProxyCounts(InformedAttack[LabelledCounts]):
    """Shares are fractions of one denominator, which is how many labelled nodes there are."""

    @property
    def card(self) -> Card:
        """The server alone, with summands or their sum."""
        return Card(
            "proxy-counts",
            "the server counts a client's labelled nodes of each class by the denominators of its shares",
            "rational reconstruction of the shares of FedSpray (KDD 2024), Eq. 15",
            Role.SERVER,
            Secret.LABEL_SHARES,
            Material.PROXIES,
            Reference.FEDSPRAY,
            minimum=0.9,
            auxiliary=LAYOUT,
        )

    def infer_with(self, view: View, public: PublicParameters, auxiliary: Auxiliary) -> LabelledCounts | None:
        """Reads the first round that was seen."""
        rounds = proxy_rows(view, public, auxiliary)
        if not rounds:
            return None
        first = rounds[0]
        return LabelledCounts(first.round, first.clients, first.shares, counts_of(first))

    def score(self, guess: LabelledCounts, truth: Truth) -> tuple[Measurement, ...]:
        """The share of clients whose most frequent label is read, and of counts, where there are any nodes, that are.

        From the sum all clients' most frequent label is guessed of each, and nothing is counted. The priors are to know
        of how many clients a label is the most frequent, and to guess the count that comes most often.
        """
        actual = truth.extra[LABELLED][:, guess.round]
        clients = np.arange(len(actual)) if guess.summed else guess.clients
        labels = _labels(np.broadcast_to(guess.shares, (len(clients), actual.shape[1])), actual[clients])
        if guess.summed:
            return labels
        return (*labels, *_counts(guess.counts, actual[clients]))


def counts_of(rows: ProxyRows) -> Ids:
    """Whole numbers behind each client's shares, int64 [k, C]: zeros without labelled nodes, -1 where none fit."""
    counts = np.full(rows.shares.shape, -1, dtype=np.int64)
    for row, shares in enumerate(rows.shares if not rows.summed else ()):
        found = (
            whole_numbers(shares, rows.rounding + rows.unit) if shares.any() else np.zeros(len(shares), dtype=np.int64)
        )
        if found is not None:
            counts[row] = found
    return counts


def _labels(shares: Floats, actual: Ids) -> tuple[Measurement, ...]:
    there = actual.any(axis=1)
    if not there.any():
        return ()
    most = actual[there].argmax(axis=1)
    right = int((shares[there].argmax(axis=1) == most).sum())
    found, prior = exact_proportion(right, len(most)), float(np.bincount(most).max() / len(most))
    finding = f"The most frequent label is read right of {right:,} of {len(most):,} clients."
    random = 1 / actual.shape[1]
    metric = "most frequent labels"
    return (Measurement(metric, found.value, found.interval, found.n, random, prior, 1.0, True, finding),)


def _counts(counts: Ids, actual: Ids) -> tuple[Measurement, ...]:
    there = actual > 0
    if not there.any():
        return ()
    right = int((counts == actual)[there].sum())
    found, values = exact_proportion(right, int(there.sum())), np.bincount(actual[there])
    finding = f"How many labelled nodes of a class a client has is read right {right:,} of {found.n:,} times."
    random, prior = 1 / (len(values) - 1), float(values.max() / values.sum())
    metric = "labelled nodes of a class"
    return (Measurement(metric, found.value, found.interval, found.n, random, prior, 1.0, True, finding),)
