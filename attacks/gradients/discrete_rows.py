"""Rows with entries 0 and 1 in the space that a gradient spans.

The gradient of a layer's weights is spanned by the rows that enter the layer. GRAIN (Drencheva et al., ICLR 2025) finds
discrete rows there prefix by prefix; here they are read from a basis in echelon form.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.typing import Floats, Ids

ROUNDING = 1e-11
"""Singular values of a float64 gradient below this share of the largest are rounding errors."""
CLOSE = 1e-6
"""How far outside a span a row may be, as a share of its length."""
FEW = 8
"""Directions outside a span that the first test of a row looks at."""
MOST_ROWS = 1_000
"""A span with more discrete rows is taken to have none: noise fits anything."""
MOST_STEPS = 100_000
"""Steps of one search that goes back."""


class Span:
    """The row space of a gradient [q, m], whose entries have errors of a known standard deviation."""

    def __init__(self, gradient: Floats, noise: float) -> None:
        lengths = np.linalg.norm(gradient, axis=0)
        used = np.flatnonzero(lengths > noise * (math.sqrt(len(gradient)) + 3))
        used = used if len(used) else np.arange(1)
        error = noise * (math.sqrt(len(gradient)) + math.sqrt(len(used)))
        _, singular, rows = np.linalg.svd(gradient[:, used], full_matrices=False)
        self.rank = int((singular > max(1.1 * error, ROUNDING * singular[0])).sum())
        self.basis = np.zeros((self.rank, gradient.shape[1]))
        self.basis[:, used] = rows[: self.rank]
        smallest = singular[self.rank - 1] if self.rank else 1.0
        self.exact, self.blur = not noise, noise / smallest
        self.close = CLOSE if self.exact else min(0.3, 2 * error / smallest)
        self._quick: tuple[Ids, Floats] | None = None

    def quick(self) -> tuple[Ids, Floats]:
        """Some coordinates, and vectors that are orthogonal to the span there, for a first test at low cost."""
        if self._quick is None:
            width = self.basis.shape[1]
            count = min(width, self.rank + FEW) if self.exact else width
            at = np.sort(np.random.default_rng(0).permutation(width)[:count])
            _, singular, rows = np.linalg.svd(self.basis[:, at], full_matrices=True)
            self._quick = at, rows[int((singular > 1e-9).sum()) :].T[:, : FEW if self.exact else None]
        return self._quick

    def extend(self, row: Floats) -> None:
        """Add a row [m]."""
        outside = row - (row @ self.basis.T) @ self.basis
        self.basis = np.vstack([self.basis, outside / np.linalg.norm(outside)])
        self.rank, self._quick = self.rank + 1, None

    def distance(self, rows: Floats) -> Floats:
        """The share of each row's length [b] that is outside the span."""
        outside = rows - (rows @ self.basis.T) @ self.basis
        return np.asarray(np.linalg.norm(outside, axis=1) / np.maximum(np.linalg.norm(rows, axis=1), 1e-300))


def discrete_rows(span: Span, degrees: slice) -> Floats:
    """All 0/1 vectors [k, d] of a span that have exactly one 1 among the columns of degrees.

    Columns that are equal in the basis are equal in every vector. In echelon form a vector is given by its entries at
    the pivots, and every other column prunes the choice.
    """
    width = span.basis.shape[1]
    lengths = np.linalg.norm(span.basis, axis=0)
    close = max(CLOSE * lengths.max(initial=0.0), 4 * span.blur)
    used = np.flatnonzero(lengths > close)
    if not span.rank or len(used) < span.rank:
        return np.empty((0, width))
    columns, kind = _distinct_columns(span.basis[:, used], close)
    table = _echelon(columns, np.bincount(kind)) if columns.shape[1] >= span.rank else None
    if table is None:
        return np.empty((0, width))
    marks = np.zeros(width)
    marks[degrees] = 1
    ones = table @ np.bincount(kind, weights=marks[used], minlength=columns.shape[1])
    chosen = _zero_one(np.column_stack([table, ones]), 1e-4 if span.exact else 0.35)
    rows = np.zeros((len(chosen), width))
    rows[:, used] = np.rint(np.abs(chosen @ table))[:, kind]
    return rows


def _distinct_columns(columns: Floats, close: float) -> tuple[Floats, Ids]:
    """The different ones among columns [r, m], means of those that are close [r, k]; which one each is, int64 [m]."""
    firsts: list[int] = []
    kind = np.empty(columns.shape[1], dtype=np.int64)
    for index, column in enumerate(columns.T):
        distance = np.abs(columns[:, firsts] - column[:, None]).max(axis=0)
        near = int(distance.argmin()) if firsts else -1
        kind[index] = near if firsts and distance[near] <= close else len(firsts)
        if kind[index] == len(firsts):
            firsts.append(index)
    return np.stack([columns[:, kind == item].mean(axis=1) for item in range(len(firsts))], axis=1), kind


def _echelon(columns: Floats, counts: NDArray[Any]) -> Floats | None:
    """Columns [r, k] in coordinates in which few entries are other than 0 and 1; None below full rank.

    A word of one node alone makes a unit vector, and most frequent columns are such words. They are pivots first.
    Then pivots are exchanged while that makes more entries 0 or 1.
    """
    rest, pivots, lengths = columns.copy(), [], np.linalg.norm(columns, axis=0)
    for _ in range(len(columns)):
        left = np.linalg.norm(rest, axis=0) / lengths
        fit = np.where(left > 1e-3, counts * np.minimum(left, 0.3), left * 1e-6)
        pivots.append(int(fit.argmax()))
        if left[pivots[-1]] < 1e-6:
            return None
        unit = rest[:, pivots[-1]] / np.linalg.norm(rest[:, pivots[-1]])
        rest = rest - np.outer(unit, unit @ rest)
    table: Floats = np.asarray(np.linalg.solve(columns[:, pivots], columns), dtype=np.float64)
    for _ in range(4 * len(columns)):
        exchange = _best_exchange(table)
        if exchange is None:
            break
        row, column = exchange
        line = table[row] / table[row, column]
        table -= np.outer(table[:, column].copy(), line)
        table[row], pivots[row] = line, column
    return np.asarray(np.linalg.solve(columns[:, pivots], columns))


def _is_odd(table: Floats) -> NDArray[np.bool_]:
    """Entries that are neither 0 nor 1."""
    return np.asarray(np.minimum(np.abs(table), np.abs(table - 1)) > 0.3)


def _best_exchange(table: Floats) -> tuple[int, int] | None:
    """The row and the column of a new pivot after which the fewest entries are odd; None if none makes them fewer."""
    odd, best, result = _is_odd(table), 0, None
    order = np.argsort(-odd.sum(axis=0), kind="stable")[: max(2 * len(table), 20)]
    for column in order[odd[:, order].any(axis=0)].tolist():
        entries = np.abs(table[:, column]) > 0.3
        for row in np.flatnonzero(entries).tolist():
            line, others = table[row] / table[row, column], entries.copy()
            others[row] = False
            after = _is_odd(table[others] - np.outer(table[others, column], line)).sum() + _is_odd(line).sum()
            change = int(after - odd[others].sum() - odd[row].sum())
            if change < best:
                best, result = change, (row, column)
    return result


def _zero_one(table: Floats, close: float) -> Floats:
    """All c in {0, 1}^r for which c @ table [r, k] is 0 or 1 in each column and 1 in the last: float64 [n, r]."""
    order = np.argsort(-np.abs(table).sum(axis=1), kind="stable")
    table = np.where(np.abs(table) < 1e-7, 0.0, table)[order]
    above, below = (
        np.vstack([part[::-1].cumsum(axis=0)[::-1], np.zeros((1, table.shape[1]))]) + sign * close
        for part, sign in ((np.maximum(table, 0), 1), (np.minimum(table, 0), -1))
    )
    result: list[tuple[int, ...]] = []
    stack: list[tuple[Floats, tuple[int, ...], int]] = [(np.zeros(table.shape[1]), (), 0)]
    for _ in range(MOST_STEPS):
        if not stack:
            break
        total, ones, level = stack.pop()
        low, high = total + below[level], total + above[level]
        if high[-1] < 1 or low[-1] > 1 or ((low > 0) & (high < 1) | (low > 1) | (high < 0)).any():
            continue
        if level == len(table):
            result.append(ones)
            if len(result) > MOST_ROWS:
                return np.empty((0, len(table)))
            continue
        stack.append((total, ones, level + 1))
        stack.append((total + table[level], (*ones, level), level + 1))
    chosen = np.zeros((len(result), len(table)))
    for index, ones in enumerate(result):
        chosen[index, order[list(ones)]] = 1
    return chosen
