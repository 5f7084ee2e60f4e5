"""Rates, and differences of two, with intervals that hold at 0, at 1, at small counts and for dependent units.

Messages of one sender share its secret, and edges share endpoints: a binomial interval over them is too narrow. The
bootstrap resamples the senders or the nodes instead. Its variance says how many independent units would vary as much,
and the interval is the exact one of that many, with a quantile of Student's t for the variance that was estimated.
Few clusters tell little of their own variance: their effective number is drawn towards what it is when the units of a
cluster all agree, and is that below fifteen. Percentiles cover less (tests/statistics/test_coverage.py).

Sources: Snijders and Borgatti, Connections 22 (1999), for nodes; Davison and Hinkley, Bootstrap Methods (1997), section
3.8, for clusters; Korn and Graubard, Survey Methodology 24 (1998), for the interval; Kish, Survey Sampling (1965), for
clusters of unequal size.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, isfinite, sqrt

import numpy as np
import numpy.typing as npt
import scipy  # its parts are loaded when they are first asked for; statistics take most of a second
from scipy import sparse

from fgl_secure.errors import InputError

_CELLS = 1_000_000  # resampled indices held at once: 8 MB each array
_PRODUCTS = 300_000_000  # claims times resamples: half a minute
_FEW = 15
"""Clusters below which their variance is not believed."""

_Floats = npt.NDArray[np.float64]
_Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Interval:
    """A closed interval of a figure, both ends finite.

    Attributes:
        low: lower end.
        high: upper end, at least `low`.
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        if not (isfinite(self.low) and isfinite(self.high)):
            raise InputError(f"interval must have finite ends; found [{self.low}, {self.high}]")
        if self.low > self.high:
            raise InputError(f"interval must have low <= high; found [{self.low}, {self.high}]")

    def contains(self, value: float, tolerance: float = 0.0) -> bool:
        """Whether `value` lies inside, ends included, `tolerance` beyond them allowed."""
        return self.low - tolerance <= value <= self.high + tolerance


@dataclass(frozen=True, slots=True)
class Proportion:
    """A rate in [0, 1], or a difference of two rates in [-1, 1], with its interval.

    Attributes:
        value: the point estimate.
        interval: its confidence interval; always contains `value`.
        n: independent units behind it, an effective number where units depend on each other.
        arms: of a difference of two rates, the independent units of each; None for a rate.
    """

    value: float
    interval: Interval
    n: int
    arms: tuple[int, int] | None = None


def exact_proportion(successes: int, n: int, confidence: float = 0.95) -> Proportion:
    """The Clopper-Pearson interval: covers at least `confidence`, whatever the true rate.

    Args:
        successes: number of successes, 0 <= successes <= n.
        n: number of independent trials; 0 gives value 0 and [0, 1].
        confidence: inside (0, 1).

    Raises:
        InputError: for counts or a confidence outside their range.

    Source: Clopper and Pearson, Biometrika 26 (1934).
    """
    _check_count("successes", successes, "n", n)
    _check_confidence(confidence)
    value = successes / n if n else 0.0
    return Proportion(value, clopper_pearson(successes, n, confidence), int(n))


def clopper_pearson(successes: float, n: float, confidence: float = 0.95) -> Interval:
    """The beta quantiles behind `exact_proportion`; both counts may be fractional (effective ones)."""
    tail = (1 - confidence) / 2
    low = float(scipy.stats.beta.ppf(tail, successes, n - successes + 1)) if successes > 0 else 0.0
    high = float(scipy.stats.beta.ppf(1 - tail, successes + 1, n - successes)) if successes < n else 1.0
    return Interval(low, high)


def wilson_interval(successes: float, n: float, confidence: float = 0.95) -> Interval:
    """The Wilson score interval of a rate; [0, 1] for n = 0. Both counts may be fractional (effective ones).

    Raises:
        InputError: for counts or a confidence outside their range.

    Source: Wilson, JASA 22 (1927).
    """
    _check_count("successes", successes, "n", n)
    _check_confidence(confidence)
    if n == 0:
        return Interval(0.0, 1.0)
    z = float(scipy.stats.norm.isf((1 - confidence) / 2))
    rate = successes / n
    centre = (successes + z * z / 2) / (n + z * z)
    half = z * sqrt(n * rate * (1 - rate) + z * z / 4) / (n + z * z)
    low = 0.0 if successes == 0 else max(centre - half, 0.0)
    high = 1.0 if successes == n else min(centre + half, 1.0)
    return Interval(low, high)


def mean_interval(values: npt.ArrayLike) -> Interval:
    """Student's 95 % interval of the mean of at least two independent values."""
    sample = np.asarray(values, dtype=np.float64)
    mean = float(sample.mean())
    half = float(scipy.stats.t.ppf(0.975, len(sample) - 1) * sample.std(ddof=1) / sqrt(len(sample)))
    return Interval(mean - half, mean + half)


def advantage(tp: int, positives: int, fp: int, negatives: int, confidence: float = 0.95) -> Proportion:
    """The distinguishing advantage TPR - FPR of independent units, with Newcombe's hybrid score interval.

    Args:
        tp: positives that the attack called positive.
        positives: units for which the secret is true; 0 gives the interval no information from that arm.
        fp: negatives that the attack called positive.
        negatives: units for which the secret is false.
        confidence: inside (0, 1).

    Returns:
        The difference in [-1, 1]; `n` is positives + negatives.

    Raises:
        InputError: for counts or a confidence outside their range.

    Source: Newcombe, Statistics in Medicine 17 (1998), method 10.
    """
    _check_count("tp", tp, "positives", positives)
    _check_count("fp", fp, "negatives", negatives)
    tpr = tp / positives if positives else 0.0
    fpr = fp / negatives if negatives else 0.0
    return difference(tpr, positives, fpr, negatives, confidence)


def difference(tpr: float, positives: float, fpr: float, negatives: float, confidence: float = 0.95) -> Proportion:
    """Newcombe's interval of a difference of two rates, from the rates and the independent units behind each.

    Args:
        tpr: in [0, 1].
        positives: independent units behind it, fractional where that number is an effective one.
        fpr: in [0, 1].
        negatives: the same for the other rate.
        confidence: inside (0, 1).
    """
    hit = wilson_interval(tpr * positives, positives, confidence)
    alarm = wilson_interval(fpr * negatives, negatives, confidence)
    value = tpr - fpr
    low = value - sqrt((tpr - hit.low) ** 2 + (alarm.high - fpr) ** 2)
    high = value + sqrt((hit.high - tpr) ** 2 + (fpr - alarm.low) ** 2)
    arms = int(positives), int(negatives)
    return Proportion(value, Interval(max(low, -1.0), min(high, 1.0)), sum(arms), arms)


def smallest_detectable(n: int, alpha: float = 1e-3, power: float = 0.99) -> float:
    """The smallest advantage that a fixed distinguisher detects with `n` units in each of its two arms.

    A one-sided two-sample z-test at level `alpha`. Each arm's rate has variance at most 1 / (4 n), so the difference
    has standard deviation at most 1 / sqrt(2 n), and delta = (z_alpha + z_power) / sqrt(2 n); n = 14.67 / delta^2 for
    the defaults. A result above 1 says that n is too small to detect even a full break at this level.

    Args:
        n: units per arm, at least 1.
        alpha: false-alarm probability, inside (0, 1).
        power: detection probability, inside (0, 1).

    Raises:
        InputError: for a value outside its range.
    """
    if n < 1:
        raise InputError(f"n must be at least 1 unit per arm; found {n}")
    return _quantile_sum(alpha, power) / sqrt(2 * n)


def units_per_arm(delta: float, alpha: float = 1e-3, power: float = 0.99) -> int:
    """The inverse of `smallest_detectable`: units in each arm that detect the advantage `delta`.

    Raises:
        InputError: when delta is outside (0, 1], or alpha or power outside (0, 1).
    """
    if not 0 < delta <= 1:
        raise InputError(f"delta must be inside (0, 1]; found {delta}")
    return ceil(_quantile_sum(alpha, power) ** 2 / (2 * delta * delta))


def _quantile_sum(alpha: float, power: float) -> float:
    for name, value in (("alpha", alpha), ("power", power)):
        if not 0 < value < 1:
            raise InputError(f"{name} must be inside (0, 1); found {value}")
    return float(scipy.stats.norm.isf(alpha) + scipy.stats.norm.ppf(power))


def _check_count(name: str, count: float, total_name: str, total: float) -> None:
    if not 0 <= count <= total:
        raise InputError(f"{name} must be between 0 and {total_name} = {total}; found {count}")


def _check_confidence(confidence: float) -> None:
    if not 0 < confidence < 1:
        raise InputError(f"confidence must be inside (0, 1); found {confidence}")


def clustered_proportion(
    success: npt.NDArray[np.bool_], cluster: npt.NDArray[np.integer], seed: int, draws: int = 1000
) -> Proportion:
    """The share of successes over units that come in clusters, with a cluster-bootstrap 95 % interval.

    When the bootstrap says nothing (every unit agrees, one cluster, or clusters with equal shares) the interval is
    Clopper-Pearson on the effective number of clusters, so that it never collapses to a point.

    Args:
        success: bool [m], whether each unit succeeded; m = 0 gives value 0 and [0, 1].
        cluster: int [m], the cluster of each unit, for example its sender; any integers.
        seed: of the resampling.
        draws: number of resamples, at least 100.

    Returns:
        The share; `n` is the effective number of clusters.

    Raises:
        InputError: for arrays of unequal length or wrong kind, or too few draws.
    """
    return _proportion(_cluster_rate(success, cluster, seed, draws))


def clustered_advantage(
    hit: npt.NDArray[np.bool_],
    positive: npt.NDArray[np.bool_],
    cluster: npt.NDArray[np.integer],
    seed: int,
    draws: int = 1000,
) -> Proportion:
    """TPR - FPR over units that come in clusters: Newcombe's interval of the independent units behind each rate.

    Args:
        hit: bool [m], whether the attack says yes of each unit.
        positive: bool [m], whether the answer is yes.
        cluster: int [m], the cluster of each unit.
        seed: of the resampling.
        draws: number of resamples, at least 100.

    Raises:
        InputError: for arrays of unequal length or wrong kind, or too few draws.
    """
    arms = (_cluster_rate(hit[kind], cluster[kind], seed, draws) for kind in (positive, ~positive))
    return _difference(*arms)


def pair_advantage(
    is_read: npt.NDArray[np.bool_],
    edges: npt.NDArray[np.integer],
    false_claims: npt.NDArray[np.integer],
    others: int,
    n_nodes: int,
    seed: int,
    draws: int = 1000,
) -> Proportion:
    """TPR - FPR over pairs of nodes, with nodes resampled for both rates.

    Args:
        is_read: bool [m], which edges are claimed.
        edges: int [2, m], their ends.
        false_claims: int [2, k], the ends of claims that are none.
        others: how many pairs are none.
        n_nodes: number of nodes of the graph.
        seed: of the resampling.
        draws: number of resamples, at least 100.

    Raises:
        InputError: for arrays of unequal length, wrong kind or out of range, or too few draws.
    """
    _check_endpoints("wrong", false_claims, false_claims.shape[1], n_nodes)
    return _difference(
        _on_edges(is_read, edges, n_nodes, seed, draws), _false_claims(false_claims, others, n_nodes, seed, draws)
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Rate:
    """A rate, and how it varies over resamples.

    Attributes:
        value: the rate.
        shares: float64 [draws].
        independent: units that it would have if the units of a cluster all agreed.
        clusters: how many.
        units: how many.
    """

    value: float
    shares: _Floats
    independent: float
    clusters: int
    units: int

    @property
    def planned_units(self) -> float:
        """Independent units to count on before anything was measured."""
        return self.independent * self._students if self.clusters >= _FEW else self.independent

    @property
    def effective(self) -> float:
        """Independent units that vary as the resamples do."""
        variance = float(self.shares.var(ddof=1)) if self.shares.size > 1 else 0.0
        if variance < 1e-24 or not 0 < self.value < 1 or self.clusters < 2:
            return self.independent
        result = self.value * (1 - self.value) / variance * (self.clusters - 1) / self.clusters
        result = min(result, float(self.units))
        weight = min((_FEW / self.clusters) ** 2, 1.0)
        result = 1 / ((1 - weight) / result + weight / min(self.independent, result))
        return result * self._students if weight < 1 else result

    @property
    def _students(self) -> float:
        return float((scipy.stats.norm.isf(0.025) / scipy.stats.t.isf(0.025, self.clusters - 1)) ** 2)


_NOTHING = _Rate(0.0, np.zeros(0), 0.0, 0, 0)


def _proportion(rate: _Rate) -> Proportion:
    n = rate.effective
    return Proportion(rate.value, clopper_pearson(rate.value * n, n) if n else Interval(0.0, 1.0), _whole(rate))


def _difference(yes: _Rate, no: _Rate) -> Proportion:
    result = difference(yes.value, yes.effective, no.value, no.effective)
    arms = _whole(yes), _whole(no)
    return Proportion(result.value, result.interval, sum(arms), arms)


def _whole(rate: _Rate) -> int:
    return max(int(rate.planned_units), 1) if rate.units else 0


def _cluster_rate(success: npt.NDArray[np.bool_], cluster: npt.NDArray[np.integer], seed: int, draws: int) -> _Rate:
    _check_units("success", success, draws)
    if cluster.shape != success.shape or cluster.dtype.kind not in "iu":
        raise InputError(
            f"cluster must be integers of shape {success.shape}; found {cluster.dtype} of shape {cluster.shape}"
        )
    if success.size == 0:
        return _NOTHING
    if np.unique(cluster).size == success.size:  # every unit alone: independent
        return _Rate(float(success.mean()), np.zeros(0), float(success.size), 0, success.size)
    _, index = np.unique(cluster, return_inverse=True)
    sizes = np.bincount(index).astype(np.float64)
    hits = np.bincount(index, weights=success).astype(np.float64)
    shares = np.concatenate(list(_cluster_shares(hits, sizes, seed, draws)))
    return _Rate(float(success.mean()), shares, _kish(sizes), sizes.size, success.size)


def node_block_proportion(
    hit: npt.NDArray[np.bool_], endpoints: npt.NDArray[np.integer], n_nodes: int, seed: int, draws: int = 1000
) -> Proportion:
    """The share of hits over edges, with a node-block bootstrap 95 % interval.

    Each draw resamples the nodes with replacement; an edge counts as often as the product of the multiplicities of
    its endpoints. The degenerate cases are those of `clustered_proportion`, with half the nodes that carry an edge as
    clusters, because each edge takes two.

    Args:
        hit: bool [m], whether the attack was right about each edge; m = 0 gives value 0 and [0, 1].
        endpoints: int [2, m], the two nodes of each edge, in [0, n_nodes).
        n_nodes: number of nodes of the graph.
        seed: of the resampling.
        draws: number of resamples, at least 100.

    Raises:
        InputError: for arrays of unequal length, wrong kind or out of range, or too few draws.
    """
    return _proportion(_on_edges(hit, endpoints, n_nodes, seed, draws))


def _on_edges(
    hit: npt.NDArray[np.bool_], endpoints: npt.NDArray[np.integer], n_nodes: int, seed: int, draws: int
) -> _Rate:
    _check_units("hit", hit, draws)
    _check_endpoints("endpoints", endpoints, hit.size, n_nodes)
    if hit.size == 0:
        return _NOTHING
    shape = (n_nodes, n_nodes)
    pairs = (endpoints[0].astype(np.int64), endpoints[1].astype(np.int64))
    every = sparse.coo_array((np.ones(hit.size), pairs), shape=shape).tocsr()
    good = sparse.coo_array((hit.astype(np.float64), pairs), shape=shape).tocsr()
    shares = np.concatenate(list(_edge_shares(good, every, n_nodes, seed, draws)))
    degrees = np.unique(endpoints, return_counts=True)[1].astype(np.float64)
    return _Rate(float(hit.mean()), shares, max(_kish(degrees) / 2, 1.0), degrees.size, hit.size)


def _false_claims(false_claims: npt.NDArray[np.integer], others: int, n_nodes: int, seed: int, draws: int) -> _Rate:
    """The share of pairs without an edge that are claimed; their number varies with a resample as that of all pairs."""
    if not others:
        return _NOTHING
    k, halves = false_claims.shape[1], max(n_nodes / 2, 1.0)
    if not k:
        return _Rate(0.0, np.zeros(0), halves, n_nodes, others)
    pairs = (false_claims[0].astype(np.int64), false_claims[1].astype(np.int64))
    claims = sparse.coo_array((np.ones(k), pairs), shape=(n_nodes, n_nodes)).tocsr()
    shares = []
    for resample in _resamples(n_nodes, seed, max(100, min(draws, _PRODUCTS // k))):
        weights = _multiplicities(resample, n_nodes)
        all_pairs = np.maximum(n_nodes**2 - (weights**2).sum(axis=0), 1.0) / max(n_nodes * (n_nodes - 1), 1)
        shares.append((weights * (claims @ weights)).sum(axis=0) / all_pairs / others)
    return _Rate(k / others, np.concatenate(shares), halves, n_nodes, others)


def _kish(sizes: _Floats) -> float:
    """Clusters of equal size that vary as much as these."""
    return float(sizes.sum() ** 2 / (sizes**2).sum())


def _cluster_shares(hits: _Floats, sizes: _Floats, seed: int, draws: int) -> Iterator[_Floats]:
    for resample in _resamples(sizes.size, seed, draws):
        yield hits[resample].sum(axis=1) / sizes[resample].sum(axis=1)


def _edge_shares(
    good: sparse.csr_array, every: sparse.csr_array, n_nodes: int, seed: int, draws: int
) -> Iterator[_Floats]:
    for resample in _resamples(n_nodes, seed, draws):
        weights = _multiplicities(resample, n_nodes)
        total = (weights * (every @ weights)).sum(axis=0)
        right = (weights * (good @ weights)).sum(axis=0)
        filled = total > 0  # a draw may miss every edge of a small graph
        yield right[filled] / total[filled]


def _multiplicities(resample: _Ints, n: int) -> _Floats:
    """How often each of n items occurs in each row of `resample` [r, n]; returned as [n, r]."""
    rows = resample.shape[0]
    cells = resample + n * np.arange(rows)[:, None]
    counts = np.bincount(cells.ravel(), minlength=rows * n).reshape(rows, n)
    return np.ascontiguousarray(counts.T, dtype=np.float64)


def _resamples(n: int, seed: int, draws: int) -> Iterator[_Ints]:
    """Indices [r, n] drawn with replacement, a bounded number of rows at a time, `draws` rows in all."""
    rng = np.random.default_rng(seed)
    step = max(1, _CELLS // n)
    for start in range(0, draws, step):
        yield rng.integers(0, n, size=(min(step, draws - start), n))


def _check_units(name: str, units: npt.NDArray[np.bool_], draws: int) -> None:
    if units.ndim != 1 or units.dtype != np.bool_:
        raise InputError(f"{name} must be bool [m]; found {units.dtype} of shape {units.shape}")
    if draws < 100:
        raise InputError(f"draws must be at least 100, or the 2.5 % tails are empty; found {draws}")


def _check_endpoints(name: str, endpoints: npt.NDArray[np.integer], m: int, n_nodes: int) -> None:
    if endpoints.shape != (2, m) or endpoints.dtype.kind not in "iu":
        raise InputError(
            f"{name} must be integers of shape (2, {m}); found {endpoints.dtype} of shape {endpoints.shape}"
        )
    if m and (int(endpoints.min()) < 0 or int(endpoints.max()) >= n_nodes):
        raise InputError(f"{name} must lie in [0, n_nodes = {n_nodes}); found {endpoints.min()} to {endpoints.max()}")


def exact_rows_recovered(guess: npt.NDArray[np.generic], truth: npt.NDArray[np.generic]) -> npt.NDArray[np.bool_]:
    """Whether each row of the guess equals the secret bit for bit.

    Bits, not values: -0.0 is not 0.0, and a NaN equals a NaN of the same bits.

    Args:
        guess: [m, d], integers, floats or bools of at most 8 bytes an element.
        truth: [m, d], of the same dtype.

    Returns:
        bool [m].

    Raises:
        InputError: for different shapes or dtypes, or a dtype without a plain bit pattern.
    """
    if guess.ndim != 2 or guess.shape != truth.shape:
        raise InputError(f"guess and truth must share one shape [m, d]; found {guess.shape} and {truth.shape}")
    if guess.dtype != truth.dtype or guess.dtype.kind not in "biuf" or guess.dtype.itemsize > 8:
        raise InputError(
            f"guess and truth must share one integer, float or bool dtype; found {guess.dtype} and {truth.dtype}"
        )
    bits = np.dtype(f"u{guess.dtype.itemsize}")
    same = np.ascontiguousarray(guess).view(bits) == np.ascontiguousarray(truth).view(bits)
    return np.asarray(same.all(axis=1), dtype=np.bool_)
