"""Do the words of a field look uniform and independent, within a message and between messages?

Masks make each word of a field uniform below a modulus. Flaws of masks show in one of four ways: words of small
magnitude or in a part of the range (no mask, or a narrow one), words that stay when randomness is fresh (no mask, or a
fixed one), words of two messages whose difference or sum is small (a mask that is used twice), and words that two
receivers share. Every trial has an exact or nearly exact p-value, so that one adjustment covers them all.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import scipy  # its statistics are loaded when they are first asked for
from numpy.typing import NDArray
from sympy import isprime

from fgl_secure.statistics.statistical import ALPHA, TestOutcome, row_echelon
from fgl_secure.typing import Ids, Integers

_BUCKETS = 64
_NEAR = 64
"""A word is near another one if their distance is at most the modulus over this many, each way."""
FEW_ROWS, MOST_ROWS, MOST_COLUMNS = 300, 3000, 16
"""Messages among which pairs are looked at, first and then, and coordinates in which they are."""
_SURE = 1e-30
"""A p-value of few messages for which no more are looked at."""
_SQUARE, _WIDEST = 40, 96
"""Rows of matrices whose rank is looked at, and the widest ones."""
_LAGGED, _LONGEST = 4, 2**17
"""Messages whose words are compared at all distances, and the longest ones."""
_LARGE = 2**20
"""Words below so many values that equal ones are rare."""


@dataclass(frozen=True, slots=True, eq=False)
class Words:
    """The words of one field: a message a row.

    Attributes:
        name: of the field, with the kind of message.
        modulus: how many values a word has.
        known: whether that is known, and not taken from the largest word.
        values: int64 [m, d], in 0 .. modulus - 1; for 2^64 values the bits of a word as they are.
        senders: int64 [m], party identifiers.
        receivers: int64 [m], party identifiers.
        steps: int64 [m], numbers of steps.
    """

    name: str
    modulus: int
    values: Integers
    senders: Ids
    receivers: Ids
    steps: Ids
    known: bool = True

    @property
    def near(self) -> tuple[int, float]:
        """The largest distance of near words, and how probable it is that two words are near."""
        most = self.modulus // (2 * _NEAR)
        return most, (2 * most + 1) / self.modulus

    @property
    def chance(self) -> float:
        """How probable it is that a word stays by chance: anywhere in its column where words have many values."""
        return min((len(self.values) if self.modulus >= _LARGE else 1) / self.modulus, 1.0)

    def distance(self, words: Integers) -> Integers:
        """How far differences of words are from 0, around the circle of all values."""
        if self.modulus >= 2**63:
            return np.abs(np.maximum(words, -(2**63 - 1)))
        away = words % self.modulus
        return np.minimum(away, self.modulus - away)

    def rows(self, which: Ids) -> Words:
        """Some of the messages."""
        ends = self.senders[which], self.receivers[which], self.steps[which]
        return Words(self.name, self.modulus, self.values[which], *ends, self.known)


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """One test of a field.

    Attributes:
        outcome: what was tested, and its p-value.
        rule: what uniform and independent words keep to, in words.
        rows: int64 [k], messages that it speaks of, places in the field's words.
        key: names the trial: the same one of two samples has the same.
    """

    outcome: TestOutcome
    rule: str
    rows: Ids
    key: tuple[str, int]


def trials(words: Words, fresh: Words, *, receivers_pool: bool) -> Iterator[Trial]:
    """Every test of one field.

    Args:
        words: of one run.
        fresh: of a run on the same inputs with other coins.
        receivers_pool: whether its receivers may pool what they have; else each is looked at alone, and no word may
            come to two of them.
    """
    # shares of one number at two receivers determine each other, and are no independent words
    receivers = np.unique(words.receivers).tolist()
    for receiver in receivers[:1] if receivers_pool else receivers:
        rows, others = (
            np.arange(len(each.values)) if receivers_pool else np.flatnonzero(each.receivers == receiver)
            for each in (words, fresh)
        )
        for trial in _alone(words.rows(rows), fresh.rows(others)):
            yield replace(trial, rows=rows[trial.rows], key=(trial.key[0], receiver))
    if not receivers_pool and words.modulus >= _LARGE:
        yield from _shared(words)


def _alone(words: Words, fresh: Words) -> Iterator[Trial]:
    """Every test of what one receiver, or several together, have."""
    if words.known:
        yield from _sizes(words)
        yield from _range(words)
    yield from _repeated(words, fresh)
    few, some = (_some(np.arange(len(words.values)), most) for most in (FEW_ROWS, MOST_ROWS))
    found = list(_pairs(words.rows(few), few))
    # where masks are missing all pairs are near, and would fill the memory
    sure = len(few) == len(some) or min((trial.outcome.p_value for trial in found), default=1.0) < _SURE
    yield from found if sure else _pairs(words.rows(some), some)
    yield from _neighbours(words)
    yield from _ranks(words)


def smallest_share(words: Words, tests: int, alpha: float, power: float) -> float:
    """The smallest share of places without masks that two samples in a row show with some probability.

    Words without masks stay when randomness is fresh. How many there are, where each place has no mask with this
    probability, the same places in all runs, must exceed what the level of one of so many tests asks for.

    Args:
        words: of the field.
        tests: how many share the level.
        alpha: level of all of them together.
        power: how probable it is that both samples show it.
    """
    n, wanted = words.values.size, np.arange(1, words.values.size + 1)
    enough = scipy.stats.binom.sf(wanted - 1, n, words.chance) * tests <= alpha
    if not enough.any():
        return 1.0
    least = int(wanted[np.argmax(enough)])
    return float(scipy.stats.beta.ppf(1 - (1 - power) / 2, least, n - least + 1))


def _some(rows: Ids, most: int) -> Ids:
    """All rows, or so many of them, drawn at random."""
    return rows if len(rows) <= most else np.sort(np.random.default_rng(0).permutation(rows)[:most])


def _by_group(words: Words, hits: NDArray[np.bool_], share: float, test: str, rule: str) -> Iterator[Trial]:
    """Too many hits among all words, in one coordinate, in one message, or of one sender: one-sided binomial tests."""
    m, d = hits.shape
    p = float(scipy.stats.binom.sf(int(hits.sum()) - 1, m * d, share))
    yield Trial(TestOutcome(test, words.name, float(hits.sum()), p), rule, _hit(hits), (test, 0))
    if d > 1:
        yield _worst(words, hits.sum(axis=0), np.full(d, m), share, f"{test} of one coordinate", rule)
        yield _worst(words, hits.sum(axis=1), np.full(m, d), share, f"{test} of one message", rule)
    senders, place = np.unique(words.senders, return_inverse=True)
    if 1 < len(senders) < m:
        counts, n = np.bincount(place, weights=hits.sum(axis=1)), np.bincount(place) * d
        yield _worst(words, counts.astype(np.int64), n, share, f"{test} of one sender", rule, place)


def _worst(words: Words, counts: Ids, n: Ids, share: float, test: str, rule: str, group: Ids | None = None) -> Trial:
    """The group with most hits for its size; its p-value is that of the least of so many."""
    p_values = scipy.stats.binom.sf(counts - 1, n, share)
    worst = int(np.argmin(p_values))
    rows = np.arange(len(words.values))
    broken = np.flatnonzero(p_values * len(p_values) <= ALPHA)
    if len(counts) == len(rows) and group is None:
        rows = broken
    elif group is not None:
        rows = np.flatnonzero(np.isin(group, broken))
    elif len(broken):
        rule = f"{rule} (coordinates {', '.join(map(str, broken[:3].tolist()))}{', ...' if len(broken) > 3 else ''})"
    p = least_of(float(p_values[worst]), len(p_values))
    return Trial(TestOutcome(test, words.name, float(counts[worst]), p), rule, rows, (test, 0))


def least_of(p_value: float, count: int) -> float:
    """The probability of so small a p-value as the least of some independent ones."""
    return float(-np.expm1(count * np.log1p(-min(p_value, 1 - 1e-16))))


def _hit(hits: NDArray[np.bool_]) -> Ids:
    """Messages with most of the hits, the ones that have more than half of the largest number."""
    counts = hits.sum(axis=1)
    return np.flatnonzero(counts > counts.max() / 2)


def _sizes(words: Words) -> Iterator[Trial]:
    """Words of small magnitude, as numbers without masks have."""
    most, share = words.near
    hits = words.distance(words.values) <= most
    yield from _by_group(words, hits, share, "small words", "holds words of small magnitude")


def _range(words: Words) -> Iterator[Trial]:
    """Chi-square on the upper and the lower bits, and whether the whole range is reached."""
    n, everything = words.values.size, np.arange(len(words.values))
    for what, found, shares in _bits(words):
        if n < 5 * len(shares):
            continue
        expected = n * shares
        statistic = float(((np.bincount(found, minlength=len(shares)) - expected) ** 2 / expected).sum())
        outcome = TestOutcome(what, words.name, statistic, float(scipy.stats.chi2.sf(statistic, len(shares) - 1)))
        yield Trial(outcome, "is not uniform over its range", everything, (what, 0))
    if words.modulus >= 2**63:
        return
    low, high = int(words.values.min()), int(words.values.max())
    for what, word, missed in (("largest word", high, words.modulus - 1 - high), ("smallest word", low, low)):
        p = math.exp(n * math.log1p(-missed / words.modulus))
        yield Trial(
            TestOutcome(what, words.name, float(word), p), "does not reach its whole range", everything, (what, 0)
        )


def _bits(words: Words) -> Iterator[tuple[str, Ids, NDArray[np.float64]]]:
    """The numbers of buckets of words by their upper and by their lower bits, and the share of each bucket."""
    flat, count = words.values.reshape(-1), min(_BUCKETS, words.modulus)
    if words.modulus >= 2**63:
        yield "upper bits", (flat.view(np.uint64) >> np.uint64(58)).astype(np.int64), np.full(count, 1 / count)
        yield "lower bits", flat & (count - 1), np.full(count, 1 / count)
        return
    starts = np.array([-(-bucket * words.modulus // count) for bucket in range(count + 1)])
    yield "upper bits", np.searchsorted(starts, flat, side="right") - 1, np.diff(starts) / words.modulus
    counts = np.array([(words.modulus - rest + count - 1) // count for rest in range(count)])
    yield "lower bits", flat % count, counts / words.modulus


def _repeated(words: Words, fresh: Words) -> Iterator[Trial]:
    """Words that stay when randomness is fresh, at their place or, of many values, anywhere in their column."""
    rule = "repeats words although randomness is fresh"
    alike = (
        words.values.shape == fresh.values.shape
        and np.array_equal(words.senders, fresh.senders)
        and np.array_equal(words.receivers, fresh.receivers)
    )
    if words.modulus >= _LARGE and words.values.shape[1:] == fresh.values.shape[1:]:
        hits = np.stack([np.isin(mine, there) for mine, there in zip(words.values.T, fresh.values.T, strict=True)], 1)
        yield from _by_group(words, hits, words.chance, "words that stay", rule)
    elif alike:
        yield from _by_group(words, words.values == fresh.values, words.chance, "words that stay", rule)


def _pairs(words: Words, places: Ids) -> Iterator[Trial]:
    """Pairs of messages whose words differ, or add up, by little in too many coordinates."""
    m, d = words.values.shape
    most, share = words.near
    pairs = m * (m - 1) // 2
    if not pairs:
        return
    for sign, rule in ((1, "masks two messages alike"), (-1, "masks two messages by opposite masks")):
        kind = "near pairs" if sign > 0 else "opposite pairs"
        columns = np.unique(np.linspace(0, d - 1, min(d, MOST_COLUMNS)).astype(np.int64)).tolist()
        close = [_close(words, column, most, sign) for column in columns]
        count, n = float(sum(len(each) for each in close)), float(len(close)) * pairs
        p = float(scipy.stats.poisson.sf(count - 1, n * share) if n * share < 1e3 else _upper(count, n, share))
        rows = places[_worst_pair(close, m)]
        receiver = int(words.receivers[0])
        yield Trial(TestOutcome(kind, words.name, count, p), rule, rows, (kind, receiver))
        if d >= 2:
            yield _alike(close, words, places, pairs, share, kind, rule)


def _upper(count: float, n: float, share: float) -> float:
    """The probability of a count as large, by the normal distribution with a margin for pairs that share a message."""
    return float(scipy.stats.norm.sf((count - n * share) / math.sqrt(1.1 * n * share * (1 - share))))


def _close(words: Words, column: int, most: int, sign: int) -> Ids:
    """int64 [k]: pairs of messages i < j, as i * m + j, whose words are near (or opposite) in a coordinate."""
    values, m = words.values[:, column], len(words.values)
    other = values if sign > 0 else -values if words.modulus >= 2**63 else -values % words.modulus
    order = np.argsort(other, kind="stable")
    ranked = other[order]
    first, second = _within(ranked, values, most, words.modulus)
    found = order[second]
    keep = first < found
    return first[keep] * m + found[keep]


def _within(ranked: Integers, values: Integers, most: int, modulus: int) -> tuple[Ids, Ids]:
    """For each value all places of ranked ones at most so far from it, around the circle."""
    m = len(values)
    firsts, seconds = list[Ids](), list[Ids]()
    whole, ends = 2**64 if modulus >= 2**63 else modulus, ranked.astype(np.float64)
    for shift in (0.0, float(whole), -float(whole)):
        low = np.searchsorted(ends, values.astype(np.float64) - most + shift, side="left")
        high = np.searchsorted(ends, values.astype(np.float64) + most + shift, side="right")
        counts = np.maximum(high - low, 0)
        if not counts.any():
            continue
        firsts.append(np.repeat(np.arange(m), counts))
        starts = np.repeat(low - np.cumsum(counts) + counts, counts)
        seconds.append(np.arange(counts.sum()) + starts)
    nothing = np.empty(0, dtype=np.int64)
    return np.concatenate([nothing, *firsts]), np.concatenate([nothing, *seconds])


def _worst_pair(close: list[Ids], m: int) -> Ids:
    """The two messages that are near in most coordinates; none where no pair is."""
    pairs, counts = np.unique(np.concatenate(close), return_counts=True)
    if not len(pairs):
        return pairs
    worst = int(pairs[np.argmax(counts)])
    return np.array([worst // m, worst % m])


def _alike(close: list[Ids], words: Words, places: Ids, pairs: int, share: float, kind: str, rule: str) -> Trial:
    """The pair that is near in most coordinates: one mask used twice is enough."""
    found, counts = np.unique(np.concatenate(close), return_counts=True)
    most = int(counts.max(initial=0))
    single = float(scipy.stats.binom.sf(most - 1, len(close), share)) if most else 1.0
    p = least_of(single, pairs)
    worst = found[counts == most][:64] if most else found
    rows = places[np.unique(np.concatenate([worst // len(words.values), worst % len(words.values)]))]
    on = f"{words.name}, one pair of messages"
    return Trial(TestOutcome(kind, on, float(most), p), rule, rows, (f"{kind} alike", int(words.receivers[0])))


def _neighbours(words: Words) -> Iterator[Trial]:
    """Words side by side in a message, or at any distance from each other, under one mask."""
    if words.values.shape[1] < 2:
        return
    most, share = words.near
    with np.errstate(over="ignore"):
        apart = words.values[:, 1:] - words.values[:, :-1]
    hits = words.distance(apart) <= most
    first, *rest = _by_group(words, hits, share, "near neighbours", "masks several words of a message alike")
    both = [first, *_distances(words)]
    worst = min(both, key=lambda trial: trial.outcome.p_value)
    p_value = least_of(worst.outcome.p_value, len(both))
    yield replace(worst, outcome=replace(worst.outcome, p_value=p_value), key=first.key)
    yield from rest


def _distances(words: Words) -> Iterator[Trial]:
    """Words of a message at any distance from each other under one mask: as many in one bucket as there are pairs."""
    n, sample = words.values.shape[1], _some(np.arange(len(words.values)), _LAGGED)
    if not _SQUARE <= n <= _LONGEST or not len(sample):
        return
    length, power, shares = scipy.fft.next_fast_len(2 * n, real=True), np.zeros(1), np.ones(1)
    for row in sample.tolist():
        _, found, shares = next(_bits(words.rows(np.array([row]))))
        for bucket in range(len(shares)):
            power = power + np.abs(scipy.fft.rfft((found == bucket).astype(np.float64), length)) ** 2
    alike = np.rint(scipy.fft.irfft(power, length)[1:n]).astype(np.int64)
    p_values = scipy.stats.binom.sf(alike - 1, len(sample) * np.arange(n - 1, 0, -1), float((shares**2).sum()))
    worst = int(np.argmin(p_values))
    outcome = TestOutcome("distances", words.name, float(alike[worst]), least_of(float(p_values[worst]), n - 1))
    yield Trial(outcome, f"masks words alike at a distance of {worst + 1}", sample, ("distances", 0))


def _ranks(words: Words) -> Iterator[Trial]:
    """The words of a message, or of the difference of two, as a matrix that should have full rank, in every width.

    Sums of products of few rows have not, whatever masks the rows.
    """
    p, n = words.modulus, words.values.shape[1]
    if p > 2**31 or n < _SQUARE**2 or not isprime(p):
        return
    sample = [words.values[0], *([words.values[1] - words.values[0]] if len(words.values) > 1 else [])]
    least, trials_made, width = 0, 0, 0
    for row, wide in ((row, wide) for row in sample for wide in range(_SQUARE, min(n // _SQUARE, _WIDEST) + 1)):
        matrix = (row[: wide * _SQUARE].reshape(_SQUARE, wide) % p)[:, :_SQUARE]
        missing, trials_made = _SQUARE - len(row_echelon(matrix, p)[1]), trials_made + 1
        least, width = max((missing, wide), (least, width))
    p_value = min(trials_made * float(p) ** -(least**2) * 4, 1.0)  # sum over j of p^-j stays below 4 / 3
    outcome = TestOutcome("missing rank", words.name, float(least), p_value)
    yield Trial(outcome, f"has linear relations between words (rows of {width})", np.arange(2), ("missing rank", 0))


def _shared(words: Words) -> Iterator[Trial]:
    """Words that come to two receivers, of which no coalition may have both."""
    flat = words.values.reshape(-1)
    owners = np.repeat(words.receivers, words.values.shape[1])
    values, inverse = np.unique(flat, return_inverse=True)
    low, high = np.full(len(values), owners.max()), np.full(len(values), owners.min())
    np.minimum.at(low, inverse, owners)
    np.maximum.at(high, inverse, owners)
    double = low < high
    counts = np.unique(owners, return_counts=True)[1].tolist()
    expected = (sum(counts) ** 2 - sum(each**2 for each in counts)) / 2 / words.modulus
    found = int(double.sum())
    rows = np.flatnonzero(double[inverse].reshape(words.values.shape).any(axis=1))
    outcome = TestOutcome("shared words", words.name, float(found), float(scipy.stats.poisson.sf(found - 1, expected)))
    yield Trial(outcome, "comes to two receivers who must not both have it", rows, ("shared words", 0))
