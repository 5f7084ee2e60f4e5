"""Labelled nodes of every client and class from one sum of shares.

Which whole numbers explain a sum of shares: meet in the middle over clients.

The sum of a class over clients k is sum c_k / m_k, for c_k of m_k labelled nodes. Half of the clients give a list of
sums, the other half another one, and two that add up to what was seen are an explanation. With exact shares and numbers
m_k without a common divisor there is one alone, as with partial fractions; with shares that are rounded to multiples of
one unit there are many, but where few clients have few labelled nodes. All numbers are multiples of what sums work on,
and are compared exactly.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.base import Card, InformedAttack, Measurement
from fgl_secure.attacks.proxies.counts import sizes_of
from fgl_secure.attacks.proxies.knowledge import FEDSPRAY_SUM, PROXIES, ProxyKnowledge
from fgl_secure.attacks.proxies.rows import ProxyRows, proxy_rows, share_of_cells
from fgl_secure.attacks.proxies.truth import ProxyTruth
from fgl_secure.runtime import Directory, PublicParameters, Role, Secret, View

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]

MOST = 2**22
"""Sums of half of the clients, at most, that are tried for one class."""


def only_explanation(total: float, labelled: tuple[int, ...], step: float, unit: float) -> Ids | None:
    """The counts of a class at all clients, where a single choice of them fits.

    Args:
        total: the sum of the clients' shares of the class.
        labelled: m_k of each client.
        step: shares are rounded to the nearest multiple of this before they are added up, a public number.
        unit: clients round their shares to a multiple of this, up or down; 0 where they don't.

    Returns:
        int64 [K]; zeros where there is no share, None where nothing fits, or several do, or too much is to be tried
        (`too_large`).
    """
    if total < step / 2:
        return np.zeros(len(labelled), dtype=np.int64)
    choices = _choices(total, labelled, step, unit)
    if _work(choices) > MOST:
        return None
    halves = choices[: len(choices) // 2], choices[len(choices) // 2 :]
    few, many = (_sums([values for _, values in half]) for half in halves)
    order = np.argsort(few, kind="stable")
    first, end = (np.searchsorted(few[order], total - many + side * step / 4) for side in (-1, 1))
    hits = np.flatnonzero(end > first)
    if not 0 < int((end - first)[hits].sum()) <= 2 ** len(labelled):  # counts come with a share up and one down
        return None
    pairs = np.array([(order[left], right) for right in hits for left in range(first[right], end[right])])
    found = np.unique(
        np.concatenate([_counts(halves[0], pairs[:, 0]), _counts(halves[1], pairs[:, 1])], axis=1), axis=0
    )
    return found[0] if len(found) == 1 else None


def too_large(total: float, labelled: tuple[int, ...], step: float, unit: float) -> bool:
    """Whether `only_explanation` gives up on a class because there is too much to try."""
    return total > step / 2 and _work(_choices(total, labelled, step, unit)) > MOST


Choice = tuple[Ids, Floats]
"""Counts of one client int64 [t], and the share that each gives float64 [t]."""


def _choices(total: float, labelled: tuple[int, ...], step: float, unit: float) -> list[Choice]:
    found = []
    for size in labelled:
        counts = np.arange(size + 1)
        values = counts / max(size, 1)
        if unit:
            grid = round(1 / unit)
            down, up = counts * grid // max(size, 1), -(-counts * grid // max(size, 1))
            rounded = up > down
            counts, values = np.concatenate([counts, counts[rounded]]), np.concatenate([down, up[rounded]]) * unit
        values = np.rint(values / step) * step
        fits = values < total + step / 4
        found.append((counts[fits], values[fits]))
    return found


def _work(choices: list[Choice]) -> int:
    sizes = [len(counts) for counts, _ in choices]
    half = len(sizes) // 2
    return max(int(np.prod(part, dtype=object)) for part in (sizes[:half], sizes[half:]))


def _sums(values: list[Floats]) -> Floats:
    found = np.zeros(1)
    for each in values:
        found = (found[:, None] + each).reshape(-1)
    return found


def _counts(half: list[Choice], places: Ids) -> Ids:
    """Counts int64 [p, clients] behind entries of `_sums`; places int64 [p]."""
    if not half:
        return np.empty((len(places), 0), dtype=np.int64)
    parts = np.unravel_index(places, tuple(len(counts) for counts, _ in half))
    return np.stack([counts[part] for (counts, _), part in zip(half, parts, strict=True)], axis=1)


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


class ProxyPartialFractions(InformedAttack[ExplainedCounts, ProxyKnowledge, ProxyTruth]):
    """Tries all counts that the clients' numbers of labelled nodes allow, class by class."""

    card = Card(
        "proxy-partial-fractions",
        "the server splits one sum of all clients' shares into fractions, and counts every client's labelled nodes",
        "meet in the middle over the summands of FedSpray (KDD 2024), Eq. 15; no paper here has it",
        Role.SERVER, Secret.LABEL_SHARES, PROXIES, FEDSPRAY_SUM, minimum=0.9,
        auxiliary="where the parts of a summand lie, how shares are rounded, and how many labelled nodes each "
        "client has",
        truth=ProxyTruth, knowledge=ProxyKnowledge,
    )  # fmt: skip

    def infer_with(self, view: View, public: PublicParameters, known: ProxyKnowledge) -> ExplainedCounts | None:
        """Reads the first round; of single summands their sum alone. None without the numbers of labelled nodes."""
        layout, rounds = known.layout, proxy_rows(view, public, known)
        if layout is None or layout.labelled is None or not rounds:
            return None
        first = rounds[0]
        clients = np.arange(len(layout.labelled)) if first.summed else first.clients
        labelled = tuple(layout.labelled[client] for client in clients.tolist())
        return _explained(first.round, clients, labelled, first if first.summed else first.total)

    def guess_without(
        self,
        guess: ExplainedCounts,
        known: ProxyKnowledge,
        parties: Directory,  # noqa: ARG002  # needs no numbering
    ) -> ExplainedCounts | None:
        """As many labelled nodes of every class."""
        sizes = sizes_of(known, guess.clients)
        if sizes is None:
            return None
        even = np.rint(sizes[:, None] / guess.counts.shape[1]).astype(np.int64)
        return replace(guess, counts=np.broadcast_to(even, guess.counts.shape))

    def score(self, guess: ExplainedCounts, truth: ProxyTruth) -> tuple[Measurement, ...]:
        """The share of counts that are read, of the clients in the sum and all classes that anybody has.

        The prior is to guess the count that comes most often. Counts that are not claimed count as wrong.
        """
        actual = truth.labelled[:, guess.round]
        there = actual.any(axis=0)
        if not there.any():
            return ()
        wanted = actual[np.ix_(guess.clients, there)]
        found, values = share_of_cells(guess.counts[:, there] == wanted), np.bincount(wanted.ravel())
        right = int((guess.counts[:, there] == wanted).sum())
        skipped = f" For {guess.skipped:,} classes there was too much to try." if guess.skipped else ""
        finding = (
            f"How many labelled nodes of a class a client has is read off one sum of shares right {right:,} of "
            f"{wanted.size:,} times.{skipped}"
        )
        random, prior = 1 / len(values), float(values.max() / values.sum())
        metric = "counts read off one sum"
        return (Measurement.of_share(metric, found, finding, random=random, prior=prior),)


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
