"""Two-sample tests on views: does a view reveal which of two inputs was there?

Marginal tests (chi-square, Kolmogorov-Smirnov) look at every coordinate, and the same tests and a classifier look at
pairs of coordinates. Tests of single coordinates miss a mask that is used twice: each share is uniform and only their
difference is not. So modular differences, sums, ratios and equality of pairs are features in their own right, and so is
every linear combination of coordinates that was constant in a sample taken before: T + 1 points of one polynomial of
degree T, or two shares under one mask, determine a combination of secrets. Relations must be found on other samples
than they are tested on.

Holm's procedure keeps the false-alarm probability of the whole family below `alpha`, and every result states the
smallest advantage that it would have detected, the share that Holm takes included.

Sources: Lopez-Paz and Oquab, Revisiting Classifier Two-Sample Tests (ICLR 2017); Holm, Scand. J. Statist. 6 (1979).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import scipy  # its parts are loaded when they are first asked for; statistics take most of a second
from numpy.typing import NDArray
from sympy import isprime

from fgl_secure.algebra import PrimeField
from fgl_secure.errors import FieldRangeError, InputError
from fgl_secure.statistics.metrics import smallest_detectable, units_per_arm
from fgl_secure.typing import Integers

_MAX_RELATIONS = 16
MAX_COLUMNS = 96
"""Coordinates among which relations are looked for: the first ones that vary."""

SPARE = 32
"""Samples beyond the number of columns: a chance relation has probability modulus ** -SPARE or so."""


def affine_relations(views: Integers, modulus: int, most: int = _MAX_RELATIONS) -> Integers:
    """Combinations of coordinates that are constant over a sample.

    Args:
        views: int64 [n, d], a sample with more rows than coordinates that vary.
        modulus: a prime.
        most: how many relations to return at most.

    Returns:
        Coefficients int64 [r, d] in 0 .. modulus - 1, linearly independent, none of them about a constant coordinate
        alone; r = 0 for a sample without relations.
    """
    varying = np.flatnonzero((views != views[0]).any(axis=0))[:MAX_COLUMNS]
    if len(views) < len(varying) + SPARE:
        raise InputError(f"views must number at least {len(varying) + SPARE}; found {len(views)}")
    wide = np.int64 if modulus <= 2**31 else np.object_  # a product of two elements must fit
    moves = ((views[1:, varying] % modulus).astype(wide) - (views[0, varying] % modulus).astype(wide)) % modulus
    reduced, pivots = row_echelon(moves, modulus)
    free = np.setdiff1d(np.arange(len(varying)), pivots)[:most]
    relations = np.zeros((len(free), views.shape[1]), dtype=np.int64)
    relations[np.arange(len(free)), varying[free]] = 1
    relations[:, varying[pivots]] = (-reduced[: len(pivots), free].T % modulus).astype(np.int64)
    return relations


def row_echelon(matrix: NDArray[np.int64], modulus: int) -> tuple[NDArray[np.int64], Integers]:
    """The reduced row echelon form modulo a prime of a matrix of elements, and its pivot columns."""
    rows = matrix.copy()
    pivots: list[int] = []
    for column in range(rows.shape[1]):
        below = np.flatnonzero(rows[len(pivots) :, column])
        if not len(below):
            continue
        top, result = len(pivots), len(pivots) + int(below[0])
        rows[[top, result]] = rows[[result, top]]
        rows[top, column:] = rows[top, column:] * pow(int(rows[top, column]), -1, modulus) % modulus
        others = np.flatnonzero(rows[:, column])
        others = others[others != top]
        rows[others, column:] = (rows[others, column:] - np.outer(rows[others, column], rows[top, column:])) % modulus
        pivots.append(column)
    return rows, np.array(pivots, dtype=np.int64)


MAX_PAIRS = 60
"""Pairs of coordinates that a test looks at unless told otherwise."""

_LARGEST_MODULUS = 2**62


@dataclass(frozen=True, slots=True)
class CoordinatePairs:
    """The pairs of coordinates that are looked at.

    Attributes:
        chosen: pairs (i, j) with i < j, the likeliest first.
        possible: how many pairs there are, so that a report can say how many were left out.
    """

    chosen: tuple[tuple[int, int], ...]
    possible: int

    @classmethod
    def among(cls, positions: Sequence[int], varying: Sequence[int], most: int = MAX_PAIRS) -> CoordinatePairs:
        """Pairs of coordinates at the same position of two messages first: that is where a mask used twice shows.

        Args:
            positions: position of each coordinate inside its message.
            varying: the coordinates that are not constant; a pair with a constant tells what the other tells alone.
            most: how many pairs to keep.
        """
        if most < 0:
            raise InputError(f"pairs must not be negative; found {most}")
        position, columns = np.asarray(positions, dtype=np.int64), np.asarray(varying, dtype=np.int64)
        i, j = columns[np.stack(np.triu_indices(len(columns), k=1))]
        order = np.argsort(position[i] != position[j], kind="stable")[:most]
        return cls(tuple(zip(i[order].tolist(), j[order].tolist(), strict=True)), len(i))


@dataclass(frozen=True, slots=True, eq=False)
class Joins:
    """Which coordinates of a view are looked at together.

    Attributes:
        pairs: two at a time.
        relations: int64 [r, d], coefficients of linear combinations (`affine_relations`).
    """

    pairs: CoordinatePairs
    relations: Integers

    def columns(self, modulus: int) -> int:
        """How many derived columns `features_of` makes, equality flags not counted."""
        return (3 if has_ratios(modulus) else 2) * len(self.pairs.chosen) + len(self.relations)


@dataclass(frozen=True, slots=True, eq=False)
class _Features:
    """Named columns derived from a sample of views.

    Attributes:
        raw: int64 [n, d], the coordinates themselves.
        joint: int64 [n, k * (2 or 3) + r], differences, sums and (over a prime field) ratios of the k pairs, and the
            r linear combinations.
        equal: bool [n, k], whether the two coordinates of a pair are equal.
        joint_names: what each column of `joint` is, over the labels of the coordinates.
        equal_names: the same for `equal`.
    """

    raw: Integers
    joint: Integers
    equal: NDArray[np.bool_]
    joint_names: tuple[str, ...]
    equal_names: tuple[str, ...]


def features_of(views: Integers, modulus: int, joins: Joins, labels: Sequence[str]) -> _Features:
    """Derives the columns that two-sample tests look at.

    Args:
        views: int64 [n, d], a sample of views.
        modulus: size of the ring that messages live in; ratios need a prime.
        joins: which of the d coordinates to look at together; relations need a prime modulus.
        labels: a name for each coordinate.
    """
    if not 2 <= modulus < _LARGEST_MODULUS:
        raise FieldRangeError(f"modulus must lie in 2..2^62 - 1; found {modulus}")
    pairs = joins.pairs
    first, second = np.array(pairs.chosen, dtype=np.int64).reshape(-1, 2).T
    a, b = views[:, first] % modulus, views[:, second] % modulus
    names = [(labels[i], labels[j]) for i, j in pairs.chosen]
    joint, joint_names = [(a - b) % modulus, (a + b) % modulus], [f"{x} - {y}" for x, y in names]
    joint_names += [f"{x} + {y}" for x, y in names]
    if has_ratios(modulus):
        joint.append(_ratios(PrimeField(modulus), a, b))
        joint_names += [f"{x} / {y}" for x, y in names]
    if len(joins.relations):
        joint.append(PrimeField(modulus).combine(joins.relations, views % modulus, axis=1).astype(np.int64))
        joint_names += [_relation_name(row, labels) for row in joins.relations]
    equal = views[:, first] == views[:, second]
    return _Features(
        views, np.concatenate(joint, axis=1), equal, tuple(joint_names), tuple(f"{x} = {y}" for x, y in names)
    )


def _relation_name(coefficients: Integers, labels: Sequence[str]) -> str:
    terms = [f"{coefficients[j]} * {labels[j]}" for j in np.flatnonzero(coefficients).tolist()]
    more = f" and {len(terms) - 3} more" if len(terms) > 3 else ""
    return f"the combination {' + '.join(terms[:3])}{more}"


def has_ratios(modulus: int) -> bool:
    """Whether elements can be divided: the modulus is a prime that `PrimeField` takes."""
    if not isprime(modulus):
        return False
    try:
        PrimeField(modulus)
    except FieldRangeError:
        return False
    return True


def _ratios(field: PrimeField, a: Integers, b: Integers) -> Integers:
    """Elements a / b, with 0 for b = 0."""
    if not b.size:
        return np.zeros_like(b)
    return np.where(b == 0, 0, field.multiply(a, field.inverse(np.where(b == 0, 1, b)))).astype(np.int64)


ALPHA = 1e-3
POWER = 0.99
_BUCKETS = 64
_RARE = 10  # pooled observations below which a bucket is merged with the other rare ones
_TREES, _TREE_SAMPLE, _TREE_DEPTH = 40, 2000, 6


class SampleTooSmallError(InputError):
    """A sample cannot show the advantage that was asked for."""


@dataclass(frozen=True, slots=True)
class TestOutcome:
    """One test of the family.

    Attributes:
        test: which test.
        on: which column of the views, or what is derived from them.
        statistic: its value, as `test` defines it.
        p_value: probability of such a value when the two inputs cannot be told apart.
    """

    test: str
    on: str
    statistic: float
    p_value: float

    def __str__(self) -> str:
        return f"{self.test} of {self.on}: {self.statistic:.4g}"


@dataclass(frozen=True, slots=True)
class Power:
    """What a family of tests detects with probability .99.

    Attributes:
        n: sample size of each arm.
        tests: how many tests share the false-alarm probability.
        alpha: false-alarm probability of the family.
    """

    n: int
    tests: int
    alpha: float = ALPHA

    @classmethod
    def for_advantage(cls, advantage: float, tests: int, alpha: float = ALPHA) -> Power:
        """The smallest sample that shows an advantage: 14.7 / advantage^2 for one one-sided test at alpha = 1e-3."""
        return cls(units_per_arm(advantage, alpha / (2 * tests), POWER), tests, alpha)

    @property
    def detectable_bias(self) -> float:
        """Smallest advantage that a two-sided test of one bit of a view detects."""
        return smallest_detectable(self.n, self.alpha / (2 * self.tests), POWER)

    @property
    def classifier(self) -> float:
        """Smallest advantage that a classifier must reach on the held-out half to be noticed."""
        return smallest_detectable(max(self.n // 2, 1), self.alpha / self.tests, POWER)

    def require(self, advantage: float) -> None:
        """Raises `SampleTooSmallError` unless an advantage is detected."""
        required = Power.for_advantage(advantage, self.tests, self.alpha).n
        if self.n < required:
            raise SampleTooSmallError(
                f"samples must number at least {required} per arm to detect an advantage of {advantage:g} with "
                f"probability {POWER:g} ({self.tests} tests at {self.alpha:g} together); found {self.n}, which "
                f"detect {self.detectable_bias:.3g}"
            )


@dataclass(frozen=True, slots=True)
class SampleComparison:
    """The family of tests on one pair of samples.

    Attributes:
        outcomes: every test that was made, in order.
        power: what the family detects.
    """

    outcomes: tuple[TestOutcome, ...]
    power: Power

    @property
    def adjusted_p_values(self) -> tuple[float, ...]:
        """Holm's adjusted p-values, in the order of `outcomes`."""
        return tuple(holm(np.array([outcome.p_value for outcome in self.outcomes]), self.power.tests).tolist())

    @property
    def p_value(self) -> float:
        """Adjusted p-value of the family: of its strongest test."""
        return min(self.adjusted_p_values, default=1.0)

    @property
    def strongest(self) -> TestOutcome | None:
        """The test with the smallest p-value; None where there was nothing to look at."""
        return min(self.outcomes, key=lambda outcome: outcome.p_value, default=None)

    @property
    def is_rejected(self) -> bool:
        """Whether the two samples were told apart."""
        return self.p_value <= self.power.alpha


def holm(p_values: NDArray[np.float64], tests: int) -> NDArray[np.float64]:
    """Holm's step-down adjustment: float64 [m] in the order given, for a family of `tests` >= m."""
    order = np.argsort(p_values, kind="stable")
    factors = tests - np.arange(len(p_values))
    adjusted = np.empty(len(p_values))
    adjusted[order] = np.minimum(np.maximum.accumulate(p_values[order] * factors), 1.0)
    return adjusted


def family_size(coordinates: int, joins: Joins, modulus: int) -> int:
    """How many tests `compare_samples` makes of views with that many coordinates; at least 1."""
    return 5 * coordinates + 2 * joins.columns(modulus) + len(joins.pairs.chosen) + 1


def compare_samples(
    a: _Features,
    b: _Features,
    modulus: int,
    labels: tuple[str, ...],
    *,
    alpha: float = ALPHA,
    seed: int = 0,
    decisive: float = 0.0,
) -> SampleComparison:
    """Runs the whole family on two samples of equal size.

    Args:
        a: features of the first input's views.
        b: features of the second input's views.
        modulus: size of the ring that messages live in.
        labels: names of the coordinates.
        alpha: false-alarm probability of the family.
        seed: of the classifier.
        decisive: an adjusted p-value up to which the other tests have decided, so that the classifier, which takes most
            of the time, is not asked; it counts in the family all the same.

    Raises:
        InputError: for samples of different size or with different columns.
    """
    if a.raw.shape != b.raw.shape or a.joint_names != b.joint_names:
        raise InputError(
            f"a and b must be samples of one size and one layout; found {list(a.raw.shape)} and {list(b.raw.shape)}"
        )
    outcomes = (*_single_columns(a, b, labels), *_joined_columns(a, b))
    if not a.raw.shape[1]:
        return SampleComparison(outcomes, Power(len(a.raw), max(len(outcomes), 1), alpha))
    comparison = SampleComparison(outcomes, Power(len(a.raw), len(outcomes) + 1, alpha))
    if decisive > 0 and comparison.p_value <= decisive:
        return comparison
    classified = _classifier_test(_design(a, modulus), _design(b, modulus), seed)
    return replace(comparison, outcomes=(*outcomes, classified))


def chi_square(a: Integers, b: Integers, buckets: int) -> tuple[float, float]:
    """Two-sample chi-square statistic and p-value of bucket numbers a [n] and b [n], 0 .. buckets - 1."""
    counts = np.stack([np.bincount(a, minlength=buckets), np.bincount(b, minlength=buckets)])
    rare = counts.sum(axis=0) < _RARE
    counts = np.concatenate([counts[:, ~rare], counts[:, rare].sum(axis=1, keepdims=True)], axis=1)
    counts = counts[:, counts.sum(axis=0) > 0]
    if counts.shape[1] < 2:
        return 0.0, 1.0
    statistic = float(((counts[0] - counts[1]) ** 2 / counts.sum(axis=0)).sum())
    return statistic, float(scipy.stats.chi2.sf(statistic, counts.shape[1] - 1))


def _classifier_test(a: NDArray[np.float32], b: NDArray[np.float32], seed: int) -> TestOutcome:
    """A random forest learns from the first half of both samples; its accuracy on the rest against one half."""
    from sklearn.ensemble import RandomForestClassifier  # noqa: PLC0415  # slow to import, needed for samples only

    half = len(a) // 2
    train, held_out = np.concatenate([a[:half], b[:half]]), np.concatenate([a[half:], b[half:]])
    forest = RandomForestClassifier(
        _TREES, max_depth=_TREE_DEPTH, max_samples=min(_TREE_SAMPLE, len(train)), random_state=seed % 2**32
    )
    forest.fit(train, np.repeat([0, 1], half))
    right = forest.predict(held_out) == np.repeat([0, 1], len(a) - half)
    z = float((right.mean() - 0.5) * 2 * np.sqrt(len(held_out)))
    return TestOutcome(
        "held-out accuracy, in deviations,", "a random forest on all features", z, float(scipy.stats.norm.sf(z))
    )


def _single_columns(a: _Features, b: _Features, labels: tuple[str, ...]) -> Iterator[TestOutcome]:
    for label, x, y in zip(labels, a.raw.T, b.raw.T, strict=True):
        yield from _bucket_tests(label, x, y)
        ks = scipy.stats.ks_2samp(x, y, method="asymp")
        yield TestOutcome("Kolmogorov-Smirnov distance", label, float(ks.statistic), float(ks.pvalue))
        yield TestOutcome("chi-square", f"lowest bit of {label}", *chi_square(x & 1, y & 1, 2))
        yield TestOutcome("chi-square", f"upper half of {label}", *chi_square(*_levels(x, y, 2), 2))


def _joined_columns(a: _Features, b: _Features) -> Iterator[TestOutcome]:
    for name, x, y in zip(a.joint_names, a.joint.T, b.joint.T, strict=True):
        yield from _bucket_tests(name, x, y)
    for name, p, q in zip(a.equal_names, a.equal.T, b.equal.T, strict=True):
        yield TestOutcome("chi-square", name, *chi_square(p.astype(np.int64), q.astype(np.int64), 2))


def _bucket_tests(name: str, x: Integers, y: Integers) -> Iterator[TestOutcome]:
    yield TestOutcome("chi-square", f"low bits of {name}", *chi_square(x % _BUCKETS, y % _BUCKETS, _BUCKETS))
    yield TestOutcome("chi-square", f"high bits of {name}", *chi_square(*_levels(x, y, _BUCKETS), _BUCKETS))


def _levels(x: Integers, y: Integers, levels: int) -> tuple[Integers, Integers]:
    """Cuts the common range of two samples into equal parts: the number of the part of each value."""
    low, high = float(min(x.min(), y.min())), float(max(x.max(), y.max()))
    cut = partial(np.interp, xp=[low, np.nextafter(high, np.inf)], fp=[0, levels])
    first, second = (np.minimum(cut(values.astype(np.float64)).astype(np.int64), levels - 1) for values in (x, y))
    return first, second


def _design(features: _Features, modulus: int) -> NDArray[np.float32]:
    """All features as one matrix; low bits have columns of their own, because single precision loses them."""
    columns = [features.raw / modulus, features.raw % _BUCKETS, features.joint / modulus, features.joint % _BUCKETS]
    return np.concatenate([*columns, features.equal], axis=1).astype(np.float32)
