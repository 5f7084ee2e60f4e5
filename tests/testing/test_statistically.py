"""Statistical privacy: finds what marginal tests miss, rarely cries wolf, and says what it could have found."""

import logging
from functools import partial

import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import LogisticRegression

from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import FieldRangeError, InputError
from fgl_secure.runtime import Channel, Directory, Party, Phase, Role, Step
from fgl_secure.statistics.statistical import (
    CoordinatePairs,
    Joins,
    Power,
    SampleComparison,
    SampleTooSmallError,
    affine_relations,
    chi_square,
    compare_samples,
    family_size,
    features_of,
    holm,
)
from fgl_secure.testing import NotPrivateError, Protocol, VacuousTestError, assert_statistically_private
from fgl_secure.testing.arms import Arm
from fgl_secure.testing.protocol import Inputs
from tests.error_codes import about
from tests.testing.mutations import Shape, Sharing, mutated, shared_across
from tests.testing.test_exactly import SERVER, one_at_a_time

P = Shape().p
LARGE = Shape(senders=2)
GOOD = Sharing(LARGE).protocol
BROKEN = mutated(LARGE, "one mask for all", masks=shared_across(0)).protocol
A, B = LARGE.inputs(0, 0), LARGE.inputs(0, 1)


def compared(a: np.ndarray, b: np.ndarray, modulus: int, seed: int, alpha: float = 1e-3) -> SampleComparison:
    """The whole family on two samples, all pairs joined."""
    d = a.shape[1]
    joins = Joins(CoordinatePairs.among([0] * d, list(range(d))), np.zeros((0, d), dtype=np.int64))
    labels = tuple(f"x{j}" for j in range(d))
    first, second = (features_of(sample, modulus, joins, labels) for sample in (a, b))
    return compare_samples(first, second, modulus, labels, alpha=alpha, seed=seed)


def test_marginal_tests_alone_pass_a_total_break() -> None:
    """Of a mask used twice logistic regression and KS on raw shares see nothing, and this family sees it (8.2)."""
    n = 4000
    a, b = (Arm(BROKEN, x, LARGE.colluders).sample(n, SimulationCoins(s))[0].values for s, x in ((1, A), (2, B)))
    x, y = np.concatenate([a, b]) / P, np.repeat([0, 1], n)
    order = np.random.default_rng(0).permutation(2 * n)
    model = LogisticRegression().fit(x[order[:n]], y[order[:n]])
    assert abs(model.score(x[order[n:]], y[order[n:]]) - 0.5) < 0.03
    assert min(stats.ks_2samp(a[:, j], b[:, j], method="asymp").pvalue for j in range(2)) > 0.01
    found = compared(a, b, P, seed=0)
    assert found.is_rejected
    assert {outcome.on for outcome, p in zip(found.outcomes, found.adjusted_p_values, strict=True) if p < 1e-9} >= {
        "low bits of x0 - x1",
        "a random forest on all features",
    }


def test_uniform_views_are_rarely_told_apart() -> None:
    """In 30 runs on uniform views a family at level .05 rejects no more often than 30 such coins would."""
    rng = np.random.default_rng(5)
    alarms = 0
    for seed in range(30):
        a, b = rng.integers(0, P, (2, 300, 2))
        alarms += compared(a, b, P, seed, alpha=0.05).is_rejected
    assert alarms <= stats.binom.isf(1e-4, 30, 0.05)


def biased_bit(inputs: Inputs, channel: Channel, *, parts: int) -> None:
    """Sends one bit that is 1 with probability (parts + secret) / (2 parts)."""
    coin = channel.coins.uniform(2 * parts, (1,))
    ends = channel.parties.ids(Role.DEVICE), channel.parties.ids(Role.SERVER)
    channel.send(Phase.VALUES, Step(0), *ends, (coin < parts + inputs[0]).astype(np.int64))


ONE_PAIR = Directory({Role.DEVICE: 1, Role.SERVER: 1})


def test_the_stated_advantage_is_detected() -> None:
    """A bit that differs by the stated detectable advantage is rejected in at least 19 of 20 runs."""
    parts, advantage = 1000, 0.3
    tests = family_size(1, Joins(CoordinatePairs((), 0), np.zeros((0, 1), dtype=np.int64)), P)
    power = Power.for_advantage(advantage, tests)
    assert power.detectable_bias == pytest.approx(advantage, rel=0.01)
    protocol = Protocol(partial(biased_bit, parts=parts), ONE_PAIR)
    shift = round(advantage * parts)
    detected = 0
    for seed in range(20):
        arms = [Arm(protocol, np.array([sign * shift, 0]), tuple(SERVER)) for sign in (-1, 1)]
        a, b = (arm.sample(power.n, SimulationCoins(2 * seed + i))[0].values for i, arm in enumerate(arms))
        detected += compared(a, b, P, seed).is_rejected
    assert detected >= 19


def test_the_classifier_is_not_asked_where_others_have_decided() -> None:
    """It counts in the family all the same, and where nothing has decided it is asked."""
    rng = np.random.default_rng(3)
    joins, labels = Joins(CoordinatePairs.among([0, 0], [0, 1]), np.zeros((0, 2), dtype=np.int64)), ("x", "y")
    samples = (*rng.integers(0, P, (2, 400, 2)), np.repeat(rng.integers(0, P, (400, 1)), 2, axis=1))
    a, alike, twice = (features_of(each, P, joins, labels) for each in samples)
    whole, short = (compare_samples(a, twice, P, labels, decisive=decisive) for decisive in (0.0, 1e-6))
    assert whole.outcomes[-1].on == "a random forest on all features"
    assert short.outcomes == whole.outcomes[:-1]
    assert short.power == whole.power
    assert short.p_value == min(outcome.p_value for outcome in short.outcomes) * whole.power.tests <= 1e-6
    undecided = compare_samples(a, alike, P, labels, decisive=1e-6)
    assert len(undecided.outcomes) == len(whole.outcomes)
    assert not undecided.is_rejected


def test_sample_sizes_are_those_of_the_table() -> None:
    """One one-sided test at level .001 needs 14.67 / delta^2 per arm, and its classifier twice that (8.3)."""
    one_sided = Power(16_300, tests=1, alpha=2e-3)
    assert one_sided.detectable_bias == pytest.approx(0.03, rel=1e-3)
    assert Power(32_600, tests=1).classifier == pytest.approx(0.03, rel=1e-3)
    assert Power.for_advantage(0.03, tests=18).n == 22_453


@pytest.mark.parametrize("samples", [2, 500])
def test_samples_too_small_for_the_advantage_are_refused(samples: int) -> None:
    """A check that could not find what it was asked for does not run."""
    with pytest.raises(SampleTooSmallError, match=rf"at least \d+ per arm to detect .* 0.03 .* found {samples}"):
        assert_statistically_private(GOOD, A, B, LARGE.colluders, broken_twin=BROKEN, samples=samples)


def test_a_pass_says_what_it_would_have_found() -> None:
    """The evidence of a pass has the detectable advantage, the sample and the level."""
    found = assert_statistically_private(GOOD, A, B, LARGE.colluders, broken_twin=BROKEN, advantage=0.1, seed=1)
    assert not found.rejected
    assert found.advantage == pytest.approx(0.1, rel=1e-2)
    assert "with probability 0.99 at level 0.001 over 18 tests, 2021 samples per arm" in found.detectable


def test_secret_coins_are_the_default() -> None:
    """Without a seed the check draws coins that nobody can repeat, and still passes what is private."""
    assert_statistically_private(GOOD, A, B, LARGE.colluders, broken_twin=BROKEN, advantage=0.2)


def test_equal_seeds_give_equal_evidence() -> None:
    """A seeded check can be repeated, classifier included."""
    found = [
        assert_statistically_private(GOOD, A, B, LARGE.colluders, broken_twin=BROKEN, advantage=0.2, seed=seed)
        for seed in (3, 3, 4)
    ]
    assert found[0] == found[1]
    assert found[0] != found[2]


def test_failure_reports_both_runs(caplog: pytest.LogCaptureFixture) -> None:
    """A rejection is confirmed on four times the sample, and log and message have both runs."""
    with caplog.at_level(logging.WARNING, "fgl_secure.testing"), pytest.raises(NotPrivateError) as caught:
        assert_statistically_private(BROKEN, A, B, LARGE.colluders, broken_twin=BROKEN, advantage=0.2, seed=1)
    message = str(caught.value)
    for part in ("coalition: silo 0", "statistic: chi-square", "adjusted p-value", "detectable advantage: 0.2"):
        assert part in message
    assert "first run: " in message
    assert "fresh run on 4 times the sample: " in message
    assert [("first run" in line, "second run" in line) for line in caplog.messages] == [(True, False), (False, True)]


def test_one_rejection_that_a_fresh_run_does_not_repeat_is_no_failure() -> None:
    """At a level of .6 uniform views are often rejected once, and the fresh run may save them: both are reported."""
    found = set[bool]()
    for seed in range(15):
        if len(found) == 2:
            break
        try:
            evidence = assert_statistically_private(
                GOOD, A, B, LARGE.colluders, broken_twin=BROKEN, advantage=0.9, alpha=0.6, seed=seed
            )
        except NotPrivateError:
            continue
        found.add(any("fresh run" in note for note in evidence.notes))
    assert found == {True, False}


def test_a_twin_that_is_fine_makes_the_test_an_error() -> None:
    """The same private protocol as its own twin gives no pass."""
    with pytest.raises(VacuousTestError, match="was not rejected"):
        assert_statistically_private(GOOD, A, B, LARGE.colluders, broken_twin=GOOD, advantage=0.2, seed=1)


def test_unequal_own_inputs_are_refused() -> None:
    """A coalition that brings different inputs itself can tell them apart under any protocol."""
    with pytest.raises(InputError, check=about("own inputs")):
        assert_statistically_private(GOOD, A, B, [Party(Role.DEVICE, 1)], broken_twin=BROKEN)


def test_protocols_without_batches_are_sampled_one_by_one() -> None:
    """`batched=False` works for samples as well."""
    good, broken = (
        Protocol(partial(one_at_a_time, masked=masked), ONE_PAIR, 7, batched=False) for masked in (True, False)
    )
    assert_statistically_private(good, [3, 0], [4, 0], SERVER, broken_twin=broken, advantage=0.3, seed=1)


def test_flaws_in_late_pairs_are_found_within_the_cap() -> None:
    """Of 190 pairs 60 are looked at, those at one position of two messages first, and the message says so."""
    wide = Shape(senders=2, width=10)
    good, broken = Sharing(wide).protocol, mutated(wide, "shared", masks=shared_across(0)).protocol
    a, b = wide.inputs(), wide.inputs(*[0] * 19, 1)
    found = assert_statistically_private(good, a, b, wide.colluders, broken_twin=broken, advantage=0.2, seed=1)
    assert "60 of 190 pairs" in found.detectable


@pytest.mark.parametrize("p", [11, P, 2**61 - 1])
def test_relations_between_many_coordinates_are_found(p: int) -> None:
    """Elimination finds the one combination of coordinates that is constant, whatever its coefficients."""
    rng = np.random.default_rng(1)
    free = rng.integers(0, p, (200, 3))
    weights = [3, p - 2, 5]
    last = [(7 + sum(w * int(x) for w, x in zip(weights, row, strict=True))) % p for row in free]
    views = np.column_stack([free, np.full(200, 4), np.array(last, dtype=np.int64)])
    relations = affine_relations(views, p)
    assert relations.tolist() == [[p - 3, 2, p - 5, 0, 1]]
    assert len(affine_relations(views[:, :4], p)) == 0


def test_only_relations_show_points_of_one_polynomial() -> None:
    """Three shares of degree 2 pass all tests of coordinates and pairs; the linear relation between them does not."""
    shape = Shape(T=2)
    protocol = mutated(shape, "T + 1 shares", extra_share=True).protocol
    inputs = shape.inputs(2), shape.inputs(3)
    arms = [Arm(protocol, x, shape.colluders) for x in inputs]
    a, b = (arm.sample(4000, SimulationCoins(seed))[0].values for seed, arm in enumerate(arms))
    assert not compared(a, b, P, seed=0).is_rejected
    relations = affine_relations(a[:128], P)
    joins = Joins(CoordinatePairs((), 0), relations)
    labels = tuple(f"x{j}" for j in range(3))
    first, second = (features_of(sample[128:], P, joins, labels) for sample in (a, b))
    assert len(relations) == 1
    assert compare_samples(first, second, P, labels).is_rejected


@pytest.mark.parametrize("p", [2**32, 2**61 - 1])
def test_other_rings_are_tested_as_well(p: int) -> None:
    """Masks modulo 2^32 or 2^61 - 1: a sum with a fresh mask passes, two values under one mask don't."""
    good, twin = (Protocol(partial(additive, p=p, masks=masks), TWO, p) for masks in (2, 1))
    a, b = np.array([5, 6, 0]), np.array([5, 7, 0])
    assert_statistically_private(good, a, b, SERVER, broken_twin=twin, advantage=0.2, seed=1)


TWO = Directory({Role.DEVICE: 2, Role.SERVER: 1})


def additive(inputs: Inputs, channel: Channel, *, p: int, masks: int) -> None:
    """Two devices hide their values by addition."""
    mask = np.broadcast_to(channel.coins.uniform(p, (masks,)), (*channel.batch_shape, 2))
    receivers = np.repeat(channel.parties.ids(Role.SERVER), 2)
    channel.send(Phase.CODES, Step(0), channel.parties.ids(Role.DEVICE), receivers, (inputs[:2] + mask) % p)


def test_relations_need_more_samples_than_coordinates() -> None:
    """Too few samples have relations by chance, so they are refused."""
    with pytest.raises(InputError, check=about("views")):
        affine_relations(np.arange(20).reshape(10, 2), 11)


def test_features_need_no_prime() -> None:
    """Over 2^32 there are differences and sums, and no ratios; a modulus beyond 2^62 is refused."""
    views = np.array([[1, 2], [2**32 - 1, 1]])
    joins = Joins(CoordinatePairs.among([0, 0], [0, 1]), np.zeros((0, 2), dtype=np.int64))
    found = features_of(views, 2**32, joins, ("x", "y"))
    assert found.joint.tolist() == [[2**32 - 1, 3], [2**32 - 2, 0]]
    assert found.joint_names == ("x - y", "x + y")
    with pytest.raises(FieldRangeError, check=about("modulus")):
        features_of(views, 2**62, joins, ("x", "y"))


def test_ratios_are_those_of_the_field() -> None:
    """A ratio times its denominator is the numerator, and a zero denominator gives zero."""
    views = np.array([[3, 4], [5, 0]])
    joins = Joins(CoordinatePairs.among([0, 0], [0, 1]), np.zeros((0, 2), dtype=np.int64))
    ratios = features_of(views, 7, joins, ("x", "y")).joint[:, 2]
    assert (ratios * views[:, 1] % 7).tolist() == [3, 0]
    assert ratios[1] == 0


def test_holm_is_the_step_down_procedure() -> None:
    """Adjusted p-values of a small family, by hand: .01 * 3, .02 * 2, and .04 raised to its predecessor."""
    assert holm(np.array([0.04, 0.01, 0.02]), 3) == pytest.approx([0.04, 0.03, 0.04])
    assert holm(np.array([0.5]), 10).tolist() == [1.0]


def test_chi_square_is_scipys() -> None:
    """On buckets with enough observations the statistic is the textbook's."""
    rng = np.random.default_rng(2)
    a, b = rng.integers(0, 5, 500), rng.integers(0, 5, 500)
    table = np.stack([np.bincount(a, minlength=5), np.bincount(b, minlength=5)])
    expected = stats.chi2_contingency(table)
    assert chi_square(a, b, 5) == pytest.approx((expected.statistic, expected.pvalue))


def test_rare_buckets_are_pooled() -> None:
    """A few observations in many buckets make no significant difference by themselves."""
    a, b = np.zeros(100, dtype=np.int64), np.zeros(100, dtype=np.int64)
    a[:3] = [1, 2, 3]
    assert chi_square(a, b, 64)[1] > 0.05
    assert chi_square(b, b, 64) == (0.0, 1.0)


def test_samples_of_different_size_are_refused() -> None:
    with pytest.raises(InputError, check=about("a and b")):
        compared(np.zeros((4, 1), dtype=np.int64), np.zeros((5, 1), dtype=np.int64), P, 0)
