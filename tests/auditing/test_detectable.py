"""What an audit says it would have caught, it catches under its own rule: leaks of the printed size are planted."""

from collections.abc import Callable

import numpy as np
import pytest

from fgl_secure.attacks.base import Measurement
from fgl_secure.auditing.audit import detectable
from fgl_secure.auditing.verdict import (
    MARGIN,
    UNDETECTABLE,
    detectable_difference,
    detectable_rate,
    detectable_shift,
    judge,
)
from fgl_secure.statistics.metrics import (
    Interval,
    Proportion,
    advantage,
    clustered_advantage,
    clustered_proportion,
    exact_proportion,
    node_block_proportion,
    pair_advantage,
)

RUNS = 300
LEAST = 291
"""Of 300, which is 97 %."""

Rng = np.random.Generator


def caught(plant: Callable[[Rng, float], Proportion], size: float, prior: float, *, exact: bool) -> int:
    """How often the rule says of a planted leak that it is one."""
    rng, found = np.random.default_rng(0), 0
    for _ in range(RUNS):
        figure = plant(rng, size)
        found += judge(figure.value, figure.interval, prior, exact=exact).is_exposure
    return found


def printed(found: Proportion, prior: float, *, exact: bool, alarms: float = 0.0) -> float:
    """What the record of an attack that found nothing says of the same sample."""
    arms = None if found.arms is None else (*found.arms, alarms)
    value, interval = found.value, found.interval
    return detectable(Measurement("x", value, interval, found.n, 0.0, prior, 1.0, exact, "x", arms=arms))


@pytest.mark.parametrize("n", [20, 100, 1000, 20_000])
@pytest.mark.parametrize("prior", [0.0, 0.3, 0.62])
def test_rates_of_independent_units(n: int, prior: float) -> None:
    """A rate of the printed size is caught, and one that is a fifth nearer to the prior not as often as promised."""

    def plant(rng: Rng, rate: float) -> Proportion:
        return exact_proportion(int(rng.binomial(n, rate)), n)

    size = printed(exact_proportion(0, n), prior, exact=True)
    assert prior + MARGIN < size <= 1
    assert caught(plant, size, prior, exact=True) >= LEAST
    assert caught(plant, prior + 0.8 * (size - prior), prior, exact=True) < LEAST


@pytest.mark.parametrize("clusters", [20, 60, 300])
@pytest.mark.parametrize("prior", [0.0, 0.3])
def test_rates_of_units_that_copy_their_cluster(clusters: int, prior: float) -> None:
    """Of a sender whose messages are all read or none, senders count and not messages."""
    cluster = np.repeat(np.arange(clusters), np.random.default_rng(1).integers(5, 40, clusters))

    def plant(rng: Rng, rate: float) -> Proportion:
        return clustered_proportion((rng.random(clusters) < rate)[cluster], cluster, seed=0, draws=200)

    nothing = clustered_proportion(np.zeros(len(cluster), dtype=np.bool_), cluster, seed=0, draws=200)
    assert caught(plant, printed(nothing, prior, exact=True), prior, exact=True) >= LEAST
    assert nothing.n <= clusters


@pytest.mark.parametrize("nodes", [60, 200])
def test_rates_of_edges_whose_ends_tell(nodes: int) -> None:
    """An edge is read where one end, or where both ends give it away."""
    both = np.triu(np.random.default_rng(1).random((nodes, nodes)) < 8 / nodes, 1)
    edges = np.stack(np.nonzero(both))

    def by_one(rng: Rng, rate: float) -> Proportion:
        return node_block_proportion((rng.random(nodes) < rate)[edges[0]], edges, nodes, seed=0, draws=200)

    def by_both(rng: Rng, rate: float) -> Proportion:
        telling = rng.random(nodes) < np.sqrt(rate)
        return node_block_proportion(telling[edges].all(axis=0), edges, nodes, seed=0, draws=200)

    size = printed(node_block_proportion(np.zeros(edges.shape[1], np.bool_), edges, nodes, 0, 200), 0.0, exact=True)
    for plant in (by_one, by_both):
        assert caught(plant, size, 0.0, exact=True) >= LEAST


@pytest.mark.parametrize(("positives", "negatives"), [(40, 40), (50, 5000), (2000, 500)])
@pytest.mark.parametrize("alarms", [0.0, 0.02, 0.4])
@pytest.mark.parametrize("prior", [0.0, 0.1])
def test_advantages_of_independent_units(positives: int, negatives: int, alarms: float, prior: float) -> None:
    """Per arm: a rare secret decides, however many there are that have it not."""

    def plant(rng: Rng, gain: float) -> Proportion:
        hits, wrong = rng.binomial(positives, alarms + gain), rng.binomial(negatives, alarms)
        return advantage(int(hits), positives, int(wrong), negatives)

    size = printed(advantage(0, positives, 0, negatives), prior, exact=False, alarms=alarms)
    assert prior + MARGIN < size <= 1 - alarms
    assert caught(plant, size, prior, exact=False) >= LEAST
    assert caught(plant, prior + 0.75 * (size - prior), prior, exact=False) < LEAST


def test_advantages_over_pairs_and_cells() -> None:
    """Where one end of a pair, or the client of a cell, decides: the printed size counts nodes and clients."""
    nodes, clients = 150, 80
    linked = np.triu(np.random.default_rng(1).random((nodes, nodes)) < 8 / nodes, 1)
    edges, others = np.stack(np.nonzero(linked)), np.stack(np.nonzero(np.triu(~linked, 1)))
    there = np.random.default_rng(2).random((clients, 10)) < 0.4
    client = np.broadcast_to(np.arange(clients)[:, None], there.shape).ravel()

    def pairs(rng: Rng, gain: float) -> Proportion:
        hot, warm = rng.random(nodes) < gain + 0.02, rng.random(nodes) < 0.02
        wrong = others[:, warm[others[0]]]
        return pair_advantage(hot[edges[0]], edges, wrong, others.shape[1], nodes, seed=0, draws=200)

    def cells(rng: Rng, gain: float) -> Proportion:
        hot, warm = (np.broadcast_to(rng.random((clients, 1)) < rate, there.shape) for rate in (gain + 0.02, 0.02))
        return clustered_advantage(np.where(there, hot, warm).ravel(), there.ravel(), client, seed=0, draws=200)

    for plant in (pairs, cells):
        nothing = plant(np.random.default_rng(3), 0.0)
        assert nothing.arms is not None
        assert max(nothing.arms) <= nodes
        assert caught(plant, printed(nothing, 0.0, exact=False, alarms=0.02), 0.0, exact=False) >= LEAST


@pytest.mark.parametrize("n", [100, 1000])
def test_shifts_of_figures_with_an_interval_alone(n: int) -> None:
    """Of a mean with a normal interval the size follows from the width."""
    half = 1.96 * 0.4 / np.sqrt(n)

    def plant(rng: Rng, mean: float) -> Proportion:
        value = float(rng.normal(mean, 0.4 / np.sqrt(n)))
        return Proportion(value, Interval(value - half, value + half), n)

    size = detectable_shift(0.0, Interval(-half, half), 0.1)
    assert caught(plant, size, 0.1, exact=False) >= LEAST
    assert caught(plant, 0.1 + 0.8 * (size - 0.1), 0.1, exact=False) < LEAST


def test_what_cannot_be_caught_is_said_so() -> None:
    """With no unit, too few of them, a prior that is too good or an interval that is too wide nothing is promised."""
    assert detectable_rate(0, 0.0) == UNDETECTABLE > 1
    assert detectable_rate(1000, 0.96) == UNDETECTABLE
    assert detectable_difference((0, 50), 0.0, 0.0) == UNDETECTABLE
    assert detectable_difference((1, 1), 0.0, 0.0) == UNDETECTABLE
    assert detectable_difference((500, 500), 0.97, 0.0) == UNDETECTABLE
    assert detectable_shift(0.0, Interval(-1.0, 1.0), 0.0) == UNDETECTABLE
