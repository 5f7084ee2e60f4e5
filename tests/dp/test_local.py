"""Rows perturbed at their devices: what the noise costs, exactly, and that averages find the rows again."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from fgl_secure.coins import Coins, SimulationCoins
from fgl_secure.dp import perturb, randomize_labels, response_matrix
from fgl_secure.errors import DataWarning, InputError
from tests.error_codes import about

RNG = np.random.default_rng(0)
UNIT = RNG.random((400, 6))


class Extreme(Coins):
    """Coins that all take one value of their range, to find the thresholds that decide about a bit."""

    def __init__(self, share: int) -> None:
        self.share = share

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return ()

    def uniform(self, modulus: int, shape: tuple[int, ...]) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:  # noqa: ARG002
        return np.full(shape, self.share, dtype=np.int64)


def chance(value: float, epsilon: float) -> int:
    """Of 2^62 coins, how many give a bit of 1, found by halving."""
    low, high = 0, 2**62
    while high - low > 1:
        middle = (low + high) // 2
        one = perturb(np.array([[value]]), epsilon, coins=Extreme(middle)).rows[0, 0] > 0.5
        low, high = (middle, high) if one else (low, middle)
    return low + 1


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 3.0, 20.0])
def test_the_odds_of_a_bit_differ_by_no_more_than_epsilon(epsilon: float) -> None:
    """In exact integers of the coins that are drawn; and by hardly less, or the noise would be more than is needed."""
    rare, frequent = chance(0.0, epsilon), chance(1.0, epsilon)
    ratio = max(math.log(frequent / rare), math.log((2**62 - rare) / (2**62 - frequent)))
    assert ratio <= epsilon
    assert ratio > epsilon * (1 - 1e-6)


def test_half_the_noise_is_noticed() -> None:
    """The negative control of the test above: bits of twice the epsilon have larger odds."""
    assert math.log(chance(1.0, 2.0) / chance(0.0, 2.0)) > 1.9


@pytest.mark.parametrize(("mechanism", "epsilon"), [("multi-bit", 1.0), ("multi-bit", 8.0), ("gaussian", 4.0)])
def test_means_of_many_rows_are_right(mechanism: str, epsilon: float) -> None:
    """Without bias: the mean of rows that are all alike is within five standard errors."""
    rows = np.tile([0.1, 0.9, 0.5, 0.0], (20_000, 1)) * 0.9
    found = perturb(
        rows, epsilon, mechanism=mechanism, clip=2.0 if mechanism == "gaussian" else None, coins=SimulationCoins(1)
    )
    assert np.abs(found.rows.mean(axis=0) - rows[0]).max() < 5 * found.deviation / math.sqrt(len(rows))
    assert found.rows.std(axis=0).max() <= found.deviation * 1.05


def test_gaussian_noise_is_that_of_a_replaced_row() -> None:
    """Two rows of norm 1 are up to 2 apart: at epsilon 1 and delta 1e-5 sigma is 2 x 3.73 (analytic Gaussian)."""
    found = perturb(UNIT, 1.0, mechanism="gaussian", delta=1e-5, clip=1.0)
    assert 2 * 3.70 < found.deviation < 2 * 3.85


def test_rows_outside_are_counted_and_not_hidden() -> None:
    """What is clipped is said."""
    with pytest.warns(DataWarning):
        assert perturb(np.array([[0.2, 1.5], [0.1, 0.9]]), 1.0).clipped == 1
    with pytest.warns(DataWarning):
        assert perturb(np.array([[3.0, 4.0], [0.1, 0.1]]), 1.0, mechanism="gaussian", delta=0.1).clipped == 1
    assert perturb(np.array([[3.0, 4.0], [0.1, 0.1]]), 1.0, mechanism="gaussian", delta=0.1, clip=1.0).clipped == 1


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: perturb(UNIT, 0), "epsilon"),
        (lambda: perturb(UNIT, math.inf), "epsilon"),
        (lambda: perturb(UNIT, 1e-16), "epsilon"),
        (lambda: perturb(UNIT, "1"), "epsilon"),  # type: ignore[arg-type]
        (lambda: perturb(UNIT, 1, clip=2.0), "clip"),
        (lambda: perturb(UNIT, 1, mechanism="gaussian", bounds=(0, 1)), "bounds"),
        (lambda: perturb(UNIT, 1, bounds=(-1e308, 1e308)), "bounds"),
        (lambda: perturb(UNIT[0], 1), "rows"),
        (lambda: perturb(np.full((1, 1), np.nan), 1), "rows"),
        (lambda: perturb(UNIT, 1, mechanism="laplacian"), "mechanism"),
        (lambda: perturb(UNIT, 1, bounds=(1, 1)), "bounds"),
        (lambda: perturb(UNIT, 1, delta=1e-6), "delta"),
        (lambda: perturb(UNIT, 1, mechanism="gaussian", delta=1 / 400), "delta"),
        (lambda: perturb(UNIT, 1, mechanism="gaussian", clip=0), "clip"),
    ],
)
def test_what_can_not_be_is_refused(call: Callable[[], object], name: str) -> None:
    with pytest.raises(InputError, check=about(name)):
        call()


def sent_label(true: int, share: int, classes: int, epsilon: float) -> int:
    return int(randomize_labels(np.array([true]), classes, epsilon, Extreme(share))[0])


@pytest.mark.parametrize("classes", [2, 5, 40])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 20.0])
def test_the_odds_of_a_label_differ_by_no_more_than_epsilon(classes: int, epsilon: float) -> None:
    """In exact integers of the coins: where the true label begins to be sent, and that all others are as rare."""
    low, high = 0, 2**62
    while high - low > 1:
        middle = (low + high) // 2
        kept = sent_label(classes - 1, middle, classes, epsilon) == classes - 1
        low, high = (low, middle) if kept else (middle, high)
    rare, rest = divmod(high, classes - 1)
    assert rest == 0
    assert epsilon - 1e-6 < math.log((2**62 - high) / rare) <= epsilon
    assert [sent_label(classes - 1, rare * k, classes, epsilon) for k in range(classes)] == list(range(classes))


def test_labels_are_sent_by_the_law_that_losses_are_corrected_for() -> None:
    """Shares of 40,000 draws per label are within five standard errors of the matrix, whose rows sum to one."""
    law, true = response_matrix(4, 1.0), np.repeat(np.arange(4), 40_000)
    sent = randomize_labels(true, 4, 1.0, SimulationCoins(0))
    found = np.stack([np.bincount(sent[true == label], minlength=4) / 40_000 for label in range(4)])
    assert np.abs(found - law).max() < 5 * 0.5 / 200
    assert law.sum(axis=1) == pytest.approx(np.ones(4))
    assert math.log(law[0, 0] / law[1, 0]) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("labels", "classes", "epsilon", "named"),
    [([0], 1, 1.0, "classes"), ([0], 3, 0.0, "epsilon"), ([0], 3, math.inf, "epsilon"), ([3], 3, 1.0, "labels"),
     ([-1], 3, 1.0, "labels")],
)  # fmt: skip
def test_labels_that_cannot_be_perturbed_are_refused(
    labels: list[int], classes: int, epsilon: float, named: str
) -> None:
    with pytest.raises(InputError, check=about(named)):
        randomize_labels(np.array(labels), classes, epsilon)
