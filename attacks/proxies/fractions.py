"""Whole numbers behind shares of one client, and behind one sum of all clients' shares.

Shares of m labelled nodes are multiples of 1 / m. Two fractions with denominators up to M lie at least 1 / M^2 apart,
so shares that are rounded to 2^-33 tell their smallest common denominator as long as that is below 2^16. What they
don't tell is a divisor that all counts have in common.

The sum of a class over clients k is sum c_k / m_k, for c_k of m_k labelled nodes. Half of the clients give a list of
sums, the other half another one, and two that add up to what was seen are an explanation. With exact shares and numbers
m_k without a common divisor there is one alone, as with partial fractions; with shares that are rounded to multiples of
one unit there are many, but where few clients have few labelled nodes. All numbers are multiples of what sums work on,
and are compared exactly.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fgl_secure.attacks.base import Attack, Card, DataSecret, InformedAttack, Measurement
from fgl_secure.attacks.proxies.knowledge import FEDSPRAY_SUM, PROXIES, ProxyKnowledge, proxy_rows, share_of_cells
from fgl_secure.attacks.truth import ProxyTruth
from fgl_secure.runtime import Directory, PublicParameters, Role, View
from fgl_secure.typing import Floats, Ids

MOST = 2**15
"""Labelled nodes of a client, at most, that shares of 32 bits tell apart without doubt."""

MOST_ADDED = 2**12
"""Labelled nodes of a client, at most, that are tried to explain how shares change: their denominator is a square."""

_SLACK = 1e-12
"""Relative error of the arithmetic here."""


def whole_numbers(shares: Floats, rounding: float, most: int = MOST) -> Ids | None:
    """The smallest whole numbers of which some numbers are the shares.

    Args:
        shares: float64 [C], at least 0, with sum 1.
        rounding: what each is off by at most.
        most: the largest sum of these numbers that is tried.

    Returns:
        int64 [C], or None where there are none.
    """
    if not shares.sum() > 0:
        return None
    totals = np.arange(1, most + 1)
    scaled = totals[:, None] * shares
    rounded = np.rint(scaled)
    fits = (np.abs(scaled - rounded) <= totals[:, None] * (rounding + _SLACK)).all(axis=1)
    fits &= rounded.sum(axis=1) == totals
    numbers = np.flatnonzero(fits)
    return rounded[numbers[0]].astype(np.int64) if len(numbers) else None


def counts_from_change(change: Floats, rounding: float, most: int = MOST_ADDED) -> tuple[Ids, int] | None:
    """The same from how the sum of many clients' shares changes when a node is added at one of them.

    With c_i of m labelled nodes of class i before, and one of class j added, the sums change by -c_i / (m (m + 1)), and
    that of class j by 1 / (m + 1) more. Shares of all others cancel.

    Args:
        change: float64 [C], the sum of shares after less that before.
        rounding: what each entry is off by at most.
        most: the most labelled nodes before that are tried.

    Returns:
        Counts int64 [C] before, the smallest that fit, and the class that was added; None where nothing fits.
    """
    if not (np.abs(change) > rounding).any():
        return None
    kind, m = int(change.argmax()), np.arange(1, most + 1)
    if (np.abs(change - np.eye(len(change))[kind]) <= rounding).all():  # the first labelled node of a client
        return np.zeros(len(change), dtype=np.int64), kind
    scaled = -change * (m * (m + 1))[:, None]
    scaled[:, kind] += m
    counts = np.rint(scaled)
    slack = (m * (m + 1) * (rounding + _SLACK))[:, None]
    fits = (np.abs(scaled - counts) <= slack).all(axis=1) & (counts >= 0).all(axis=1) & (counts.sum(axis=1) == m)
    result = np.flatnonzero(fits & (slack[:, 0] < 1 / 4))
    return (counts[result[0]].astype(np.int64), kind) if len(result) else None


MOST_SUMS = 2**22
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
        (`_too_large`).
    """
    if total < step / 2:
        return np.zeros(len(labelled), dtype=np.int64)
    choices = _choices(total, labelled, step, unit)
    if _work(choices) > MOST_SUMS:
        return None
    halves = choices[: len(choices) // 2], choices[len(choices) // 2 :]
    few, many = (_sums([values for _, values in half]) for half in halves)
    order = np.argsort(few, kind="stable")
    first, end = (np.searchsorted(few[order], total - many + side * step / 4) for side in (-1, 1))
    hits = np.flatnonzero(end > first)
    if not 0 < int((end - first)[hits].sum()) <= 2 ** len(labelled):  # counts come with a share up and one down
        return None
    pairs = np.array([(order[left], right) for right in hits for left in range(first[right], end[right])])
    result = np.unique(
        np.concatenate([_counts(halves[0], pairs[:, 0]), _counts(halves[1], pairs[:, 1])], axis=1), axis=0
    )
    return result[0] if len(result) == 1 else None


def _too_large(total: float, labelled: tuple[int, ...], step: float, unit: float) -> bool:
    """Whether `only_explanation` gives up on a class because there is too much to try."""
    return total > step / 2 and _work(_choices(total, labelled, step, unit)) > MOST_SUMS


Choice = tuple[Ids, Floats]
"""Counts of one client int64 [t], and the share that each gives float64 [t]."""


def _choices(total: float, labelled: tuple[int, ...], step: float, unit: float) -> list[Choice]:
    choices = []
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
        choices.append((counts[fits], values[fits]))
    return choices


def _work(choices: list[Choice]) -> int:
    sizes = [len(counts) for counts, _ in choices]
    half = len(sizes) // 2
    return max(int(np.prod(part, dtype=object)) for part in (sizes[:half], sizes[half:]))


def _sums(values: list[Floats]) -> Floats:
    sums = np.zeros(1)
    for item in values:
        sums = (sums[:, None] + item).reshape(-1)
    return sums


def _counts(half: list[Choice], places: Ids) -> Ids:
    """Counts int64 [p, clients] behind entries of `_sums`; places int64 [p]."""
    if not half:
        return np.empty((len(places), 0), dtype=np.int64)
    parts = np.unravel_index(places, tuple(len(counts) for counts, _ in half))
    return np.stack([counts[part] for (counts, _), part in zip(half, parts, strict=True)], axis=1)


@dataclass(frozen=True, slots=True, eq=False)
class _ExplainedCounts:
    """What one sum of shares tells."""

    round: int  # the training round
    clients: Ids  # int64 [k], indices of the silos in the sum
    counts: Ids  # int64 [k, C], labelled nodes; -1 for classes whose sum has several explanations or none
    skipped: int  # classes for which there was too much to try


class _ProxyPartialFractions(InformedAttack[_ExplainedCounts, ProxyKnowledge, ProxyTruth]):
    """Tries all counts that the clients' numbers of labelled nodes allow, class by class."""

    card = Card(
        "proxy-partial-fractions",
        "the server splits one sum of all clients' shares into fractions, and counts every client's labelled nodes",
        "meet in the middle over the summands of FedSpray (KDD 2024), Eq. 15; no paper here has it",
        Role.SERVER, DataSecret.LABEL_SHARES, PROXIES, FEDSPRAY_SUM, minimum=0.9,
        auxiliary="where the parts of a summand lie, how shares are rounded, and how many labelled nodes each "
        "client has",
        truth=ProxyTruth, knowledge=ProxyKnowledge,
    )  # fmt: skip

    def infer_with(self, view: View, public: PublicParameters, known: ProxyKnowledge) -> _ExplainedCounts | None:
        """Reads the first round; of single summands their sum alone. None without the numbers of labelled nodes."""
        layout, rounds = known.layout, proxy_rows(view, public, known)
        if layout is None or layout.labelled is None or not rounds:
            return None
        first = rounds[0]
        clients = np.arange(len(layout.labelled)) if first.is_sum else first.clients
        labelled = tuple(layout.labelled[client] for client in clients.tolist())
        total = first if first.is_sum else first.total
        counts = np.full((len(clients), total.shares.shape[1]), -1, dtype=np.int64)
        step, skipped = 2 * total.rounding / len(clients), 0
        for kind, share in enumerate(total.shares[0].tolist()):
            figures = (share, labelled, step, total.unit)
            result = only_explanation(*figures)
            if result is not None:
                counts[:, kind] = result
            skipped += _too_large(*figures)
        return _ExplainedCounts(first.round, clients, counts, skipped)

    def guess_without(
        self,
        guess: _ExplainedCounts,
        known: ProxyKnowledge,
        parties: Directory,  # noqa: ARG002  # needs no numbering
    ) -> _ExplainedCounts | None:
        """As many labelled nodes of every class."""
        sizes = known.sizes_of(guess.clients)
        if sizes is None:
            return None
        even = np.rint(sizes[:, None] / guess.counts.shape[1]).astype(np.int64)
        return replace(guess, counts=np.broadcast_to(even, guess.counts.shape))

    def score(self, guess: _ExplainedCounts, truth: ProxyTruth) -> tuple[Measurement, ...]:
        """The share of counts that are read, of the clients in the sum and all classes that any party has.

        The prior is to guess the count that comes most often. Counts that are not claimed count as wrong.
        """
        actual = truth.labelled[:, guess.round]
        has_class = actual.any(axis=0)
        if not has_class.any():
            return ()
        expected = actual[np.ix_(guess.clients, has_class)]
        right, values = guess.counts[:, has_class] == expected, np.bincount(expected.ravel())
        skipped = f" For {guess.skipped:,} classes there was too much to try." if guess.skipped else ""
        text = (
            f"How many labelled nodes of a class a client has is read off one sum of shares right {{}} times.{skipped}"
        )
        all_cells, random, prior = np.ones(right.shape, np.bool_), 1 / len(values), float(values.max() / values.sum())
        return (share_of_cells("counts read off one sum", right, all_cells, text, random=random, prior=prior),)


ATTACKS: tuple[Attack[Any, Any], ...] = (_ProxyPartialFractions(),)
