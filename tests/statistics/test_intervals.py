import json
from math import nan
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from fgl_secure.errors import InputError
from fgl_secure.statistics.metrics import (
    Interval,
    advantage,
    exact_proportion,
    exact_rows_recovered,
    mean_interval,
    smallest_detectable,
    units_per_arm,
    wilson_interval,
)
from tests.error_codes import about

VECTORS = json.loads((Path(__file__).parent / "vectors" / "intervals.json").read_text(encoding="utf-8"))

counts = st.integers(0, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@given(counts)
def test_exact_proportion_agrees_with_binomtest(count: tuple[int, int]) -> None:
    """The Clopper-Pearson interval equals that of scipy's binomtest for every count."""
    successes, n = count
    got = exact_proportion(successes, n)
    assert (got.value, got.n) == (successes / n if n else 0.0, n)
    if n == 0:
        assert got.interval == Interval(0.0, 1.0)
        return
    expected = stats.binomtest(successes, n).proportion_ci(0.95, method="exact")
    assert got.interval.low == pytest.approx(expected.low, abs=1e-9)
    assert got.interval.high == pytest.approx(expected.high, abs=1e-9)


@given(counts.filter(lambda count: count[1] > 0))
def test_wilson_agrees_with_binomtest(count: tuple[int, int]) -> None:
    """The Wilson interval equals that of scipy's binomtest for every count."""
    expected = stats.binomtest(*count).proportion_ci(0.95, method="wilson")
    got = wilson_interval(*count)
    assert (got.low, got.high) == pytest.approx((expected.low, expected.high), abs=1e-9)


@pytest.mark.parametrize("rate", [0.001, 0.05, 0.3, 0.5, 0.99])
@pytest.mark.parametrize("n", [1, 7, 30])
def test_exact_proportion_covers_the_truth(rate: float, n: int) -> None:
    """Summed over all outcomes, the exact interval covers the true rate with probability at least .95."""
    chances = stats.binom.pmf(np.arange(n + 1), n, rate)
    covers = [exact_proportion(successes, n).interval.contains(rate) for successes in range(n + 1)]
    assert chances[np.array(covers)].sum() >= 0.95 - 1e-9


@pytest.mark.parametrize("case", VECTORS["newcombe"]["cases"], ids=str)
def test_advantage_matches_newcombes_table(case: dict[str, list[float]]) -> None:
    """The interval of a difference equals the printed one, method 10 of Newcombe's comparison."""
    got = advantage(*(int(count) for count in case["counts"]))
    assert [got.interval.low, got.interval.high] == pytest.approx(case["interval"], abs=6e-5)


@pytest.mark.parametrize(("tpr", "fpr"), [(0.5, 0.5), (0.9, 0.1), (0.3, 0.05), (1.0, 0.0)])
def test_advantage_covers_the_truth(tpr: float, fpr: float) -> None:
    """Summed over all outcomes of two arms of 25, the interval covers the true advantage about 95 times in 100."""
    n = 25
    hit, alarm = stats.binom.pmf(np.arange(n + 1), n, tpr), stats.binom.pmf(np.arange(n + 1), n, fpr)
    covered = sum(
        float(hit[tp] * alarm[fp])
        for tp in range(n + 1)
        for fp in range(n + 1)
        if advantage(tp, n, fp, n).interval.contains(tpr - fpr, 1e-12)
    )
    assert covered >= 0.93


@given(counts, counts)
def test_advantage_interval_contains_its_value(hit: tuple[int, int], alarm: tuple[int, int]) -> None:
    """Whatever the counts, the interval contains the value, lies in [-1, 1] and is no point."""
    got = advantage(*hit, *alarm)
    assert got.interval.contains(got.value, 1e-12)
    assert -1 <= got.interval.low < got.interval.high <= 1


@pytest.mark.parametrize("case", VECTORS["units_per_arm"]["cases"], ids=str)
def test_units_per_arm_matches_the_table(case: dict[str, float]) -> None:
    """Both directions of the power formula reproduce the tabulated sizes to the digits that are given."""
    assert units_per_arm(case["delta"]) == pytest.approx(case["n"], rel=1e-3)
    assert smallest_detectable(int(case["n"])) == pytest.approx(case["delta"], rel=1e-3)


def test_the_detectable_advantage_is_detected() -> None:
    """With the stated units per arm a simulated one-sided test rejects about 99 times in 100, and rarely at zero."""
    n, rng = units_per_arm(0.1), np.random.default_rng(3)
    limit = stats.norm.isf(1e-3) * np.sqrt(1 / (2 * n))
    differs = rng.binomial(n, 0.55, 4000) / n - rng.binomial(n, 0.45, 4000) / n
    equal = rng.binomial(n, 0.5, 4000) / n - rng.binomial(n, 0.5, 4000) / n
    assert (differs > limit).mean() == pytest.approx(0.99, abs=0.006)
    assert (equal > limit).mean() < 0.004


@pytest.mark.parametrize("counted", [(3, 2), (-1, 2)])
def test_impossible_counts_are_refused(counted: tuple[int, int]) -> None:
    """More successes than trials, or fewer than none, raise before anything is computed."""
    for call in (exact_proportion, wilson_interval):
        with pytest.raises(InputError, check=about("successes")):
            call(*counted)
    with pytest.raises(InputError, check=about("fp")):
        advantage(1, 2, *counted)


def test_levels_outside_the_unit_interval_are_refused() -> None:
    """Confidence, alpha, power, delta and n outside their ranges raise and are named."""
    with pytest.raises(InputError, check=about("confidence")):
        exact_proportion(1, 2, confidence=1.0)
    with pytest.raises(InputError, check=about("alpha")):
        smallest_detectable(10, alpha=0.0)
    with pytest.raises(InputError, check=about("power")):
        units_per_arm(0.1, power=1.0)
    with pytest.raises(InputError, check=about("delta")):
        units_per_arm(0.0)
    with pytest.raises(InputError, check=about("n")):
        smallest_detectable(0)


def test_an_interval_has_ordered_finite_ends() -> None:
    with pytest.raises(InputError, check=about("interval")):
        Interval(0.2, 0.1)
    with pytest.raises(InputError, check=about("interval")):
        Interval(nan, 0.1)


shapes = hnp.array_shapes(min_dims=2, max_dims=2, min_side=0, max_side=5)
dtypes = st.sampled_from(["f4", "f8", "i4", "i8", "u1", "?"])


@given(st.tuples(dtypes, shapes).flatmap(lambda kind: st.tuples(*[hnp.arrays(kind[0], kind[1])] * 2)))
def test_rows_are_compared_by_their_bytes(pair: tuple[npt.NDArray[np.generic], npt.NDArray[np.generic]]) -> None:
    """A row counts as recovered exactly when its bytes equal the truth's, NaN and signed zero included."""
    guess, truth = pair
    expected = [a.tobytes() == b.tobytes() for a, b in zip(guess, truth, strict=True)]
    assert exact_rows_recovered(guess, truth).tolist() == expected
    assert exact_rows_recovered(truth, truth).all()


def test_one_flipped_bit_is_no_recovery() -> None:
    """A row that differs in the last bit of one element is not recovered, and strided input is read right."""
    truth = np.arange(24, dtype=np.float64).reshape(4, 6)[:, ::2]
    guess = truth.copy()
    guess[2, 1] = np.nextafter(guess[2, 1], np.inf)
    assert exact_rows_recovered(guess, truth).tolist() == [True, True, False, True]


def test_unlike_arrays_are_refused() -> None:
    """Different shapes, different dtypes and objects raise."""
    rows = np.zeros((2, 3))
    with pytest.raises(InputError, check=about("guess and truth")):
        exact_rows_recovered(rows, rows[:1])
    with pytest.raises(InputError, check=about("guess and truth")):
        exact_rows_recovered(rows[0], rows[0])
    with pytest.raises(InputError, check=about("guess and truth")):
        exact_rows_recovered(rows, rows.astype(np.float32))
    with pytest.raises(InputError, check=about("guess and truth")):
        exact_rows_recovered(rows.astype(object), rows.astype(object))


def test_intervals_of_means_are_students() -> None:
    """By SciPy's own interval; a single outlier widens it."""
    values = np.random.default_rng(4).normal(size=12)
    expected = stats.t.interval(0.95, 11, values.mean(), stats.sem(values))
    interval = mean_interval(values)
    assert (interval.low, interval.high) == pytest.approx(expected)
    wider = mean_interval([*values, 50.0])
    assert wider.high - wider.low > interval.high - interval.low
