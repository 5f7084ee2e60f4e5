"""Labelled nodes of every client and class from one sum of shares, whose fractions have different denominators."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.base import Auxiliary, Card, InformedAttack, Material, Measurement, Reference
from fgl_secure.attacks.proxy_explanations import only_explanation, too_large
from fgl_secure.attacks.proxy_rows import LABELLED, ProxyRows, proxy_rows
from fgl_secure.attacks.truth import Truth
from fgl_secure.runtime import PublicParameters, Role, Secret, View
from fgl_secure.statistics.metrics import exact_proportion

Ids = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class ExplainedCounts:
    """What one sum of shares tells.

    Attributes:
        round: the training round.
        clients: int64 [k], indices of the silos in the sum.
        counts: int64 [k, C], labelled nodes; -1 for classes whose sum has several explanations or none.
        skipped: classes for which there was too much to try.
    """

    round: int
    clients: Ids
    counts: Ids
    skipped: int


class ProxyPartialFractions(InformedAttack[ExplainedCounts]):
    """Tries all counts that the clients' numbers of labelled nodes allow, class by class."""

    @property
    def card(self) -> Card:
        """The server alone, with the sum of one round."""
        return Card(
            "proxy-partial-fractions",
            "the server splits one sum of all clients' shares into fractions, and counts every client's labelled nodes",
            "meet in the middle over the summands of FedSpray (KDD 2024), Eq. 15; no paper here has it",
            Role.SERVER,
            Secret.LABEL_SHARES,
            Material.PROXIES,
            Reference.FEDSPRAY_SUM,
            minimum=0.9,
            auxiliary="where the parts of a summand lie, how shares are rounded, and how many labelled nodes each "
            "client has",
        )

    def infer_with(self, view: View, public: PublicParameters, auxiliary: Auxiliary) -> ExplainedCounts | None:
        """Reads the first round; of single summands their sum alone. None without the numbers of labelled nodes."""
        layout, rounds = auxiliary.proxy_layout, proxy_rows(view, public, auxiliary)
        if layout is None or layout.labelled is None or not rounds:
            return None
        first = rounds[0]
        clients = np.arange(len(layout.labelled)) if first.summed else first.clients
        labelled = tuple(layout.labelled[client] for client in clients.tolist())
        return _explained(first.round, clients, labelled, first if first.summed else first.total)

    def score(self, guess: ExplainedCounts, truth: Truth) -> tuple[Measurement, ...]:
        """The share of counts that are read, of the clients in the sum and all classes that anybody has.

        The prior is to guess the count that comes most often. Counts that are not claimed count as wrong.
        """
        actual = truth.extra[LABELLED][:, guess.round]
        there = actual.any(axis=0)
        if not there.any():
            return ()
        wanted = actual[np.ix_(guess.clients, there)]
        right = int((guess.counts[:, there] == wanted).sum())
        found, values = exact_proportion(right, wanted.size), np.bincount(wanted.ravel())
        skipped = f" For {guess.skipped:,} classes there was too much to try." if guess.skipped else ""
        finding = (
            f"How many labelled nodes of a class a client has is read off one sum of shares right {right:,} of "
            f"{found.n:,} times.{skipped}"
        )
        random, prior = 1 / len(values), float(values.max() / values.sum())
        metric = "counts read off one sum"
        return (Measurement(metric, found.value, found.interval, found.n, random, prior, 1.0, True, finding),)


def _explained(number: int, clients: Ids, labelled: tuple[int, ...], total: ProxyRows) -> ExplainedCounts:
    counts = np.full((len(clients), total.shares.shape[1]), -1, dtype=np.int64)
    step, skipped = 2 * total.rounding / len(clients), 0
    for kind, share in enumerate(total.shares[0].tolist()):
        known = (share, labelled, step, total.unit)
        found = only_explanation(*known)
        if found is not None:
            counts[:, kind] = found
        skipped += too_large(*known)
    return ExplainedCounts(number, clients, counts, skipped)
