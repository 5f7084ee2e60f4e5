import tracemalloc

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fgl_secure.errors import InputError
from fgl_secure.statistics import metrics as bootstrap
from fgl_secure.statistics.metrics import (
    Interval,
    clopper_pearson,
    clustered_proportion,
    exact_proportion,
    node_block_proportion,
)
from tests.error_codes import about

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]


def korn_graubard(value: float, shares: list[float], clusters: int, kish: float, units: int) -> Interval:
    """The exact interval of as many independent units as vary like the shares, for clusters of fifteen or more."""
    n = min(value * (1 - value) / (float(np.var(shares, ddof=1)) * clusters / (clusters - 1)), float(units))
    few = (15 / clusters) ** 2
    n = 1 / ((1 - few) / n + few / min(n, kish))
    n *= (stats.norm.ppf(0.975) / stats.t.ppf(0.975, clusters - 1)) ** 2
    return clopper_pearson(value * n, n)


def slow_clustered(success: Bools, cluster: Ints, seed: int, draws: int) -> list[float]:
    """The cluster bootstrap, one draw and one cluster at a time."""
    names = sorted(set(cluster.tolist()))
    rng = np.random.default_rng(seed)
    shares = []
    for _ in range(draws):
        units: list[bool] = []
        for index in rng.integers(0, len(names), size=len(names)):
            units += success[cluster == names[index]].tolist()
        shares.append(sum(units) / len(units))
    return shares


def slow_node_block(hit: Bools, endpoints: Ints, n_nodes: int, seed: int, draws: int) -> list[float]:
    """The node-block bootstrap, one draw and one edge at a time."""
    rng = np.random.default_rng(seed)
    shares = []
    for _ in range(draws):
        drawn = rng.integers(0, n_nodes, size=n_nodes).tolist()
        weights = [drawn.count(u) * drawn.count(v) for u, v in endpoints.T.tolist()]
        if sum(weights):
            shares.append(sum(w for w, h in zip(weights, hit, strict=True) if h) / sum(weights))
    return shares


def kish(sizes: Ints) -> float:
    """Equal clusters that vary as much."""
    return float(sizes.sum() ** 2 / (sizes**2).sum())


def mixed(rng: np.random.Generator, m: int) -> Bools:
    success = rng.random(m) < 0.4
    success[0], success[1] = True, False
    return success


@pytest.mark.parametrize("cells", [40, 1_000_000])
def test_cluster_bootstrap_equals_the_slow_one(cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With equal seeds the fast cluster bootstrap gives the slow one's interval, in many chunks or in one."""
    monkeypatch.setattr(bootstrap, "_CELLS", cells)
    rng = np.random.default_rng(0)
    success, cluster = mixed(rng, 90), np.concatenate([np.arange(-5, 20), rng.integers(-5, 20, 65)])
    got = clustered_proportion(success, cluster, seed=11, draws=150)
    sizes = np.unique(cluster, return_counts=True)[1]
    slow = korn_graubard(success.mean(), slow_clustered(success, cluster, 11, 150), 25, kish(sizes), 90)
    assert (got.interval.low, got.interval.high) == pytest.approx((slow.low, slow.high))
    assert got.value == pytest.approx(success.mean())
    assert got.n == int(kish(sizes) * (stats.norm.ppf(0.975) / stats.t.ppf(0.975, 24)) ** 2)


@pytest.mark.parametrize("cells", [40, 1_000_000])
def test_node_block_bootstrap_equals_the_slow_one(cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With equal seeds the fast node-block bootstrap gives the slow one's interval, loops and repeated edges too."""
    monkeypatch.setattr(bootstrap, "_CELLS", cells)
    rng = np.random.default_rng(1)
    hit, endpoints = mixed(rng, 80), rng.integers(0, 20, (2, 80))
    got = node_block_proportion(hit, endpoints, 20, seed=5, draws=150)
    degrees = np.bincount(endpoints.ravel())
    assert (degrees > 0).all()
    slow = korn_graubard(hit.mean(), slow_node_block(hit, endpoints, 20, 5, 150), 20, kish(degrees) / 2, 80)
    assert (got.interval.low, got.interval.high) == pytest.approx((slow.low, slow.high))


@pytest.mark.parametrize("every", [True, False])
def test_unanimous_units_fall_back_to_the_number_of_clusters(every: bool) -> None:
    """When all units agree, the interval is the exact one over the clusters, or over half the nodes."""
    success, cluster = np.full(1000, every), np.arange(1000) % 20
    expected = exact_proportion(20 if every else 0, 20).interval
    assert clustered_proportion(success, cluster, seed=0).interval == expected
    edges = np.stack([np.arange(1000) % 20, (np.arange(1000) + 1) % 20])
    half = exact_proportion(10 if every else 0, 10).interval
    assert node_block_proportion(success, edges, 500, seed=0).interval == half


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 6)), max_size=30))
def test_an_interval_contains_its_value_and_is_never_a_point(units: list[tuple[bool, int]]) -> None:
    """Whatever the clusters, even one alone or all with equal shares, the interval has width and holds the value."""
    success = np.array([unit[0] for unit in units], dtype=np.bool_)
    cluster = np.array([unit[1] for unit in units], dtype=np.int64)
    edges = np.stack([cluster, (cluster * 3 + 1) % 7])
    for got in (
        clustered_proportion(success, cluster, seed=2, draws=100),
        node_block_proportion(success, edges, 7, seed=2, draws=100),
    ):
        assert got.interval.contains(got.value)
        assert 0 <= got.interval.low < got.interval.high <= 1


def test_large_inputs_stay_small_in_memory() -> None:
    """A hundred thousand units in twenty thousand clusters need less than 300 MB."""
    rng = np.random.default_rng(0)
    success, cluster = rng.random(100_000) < 0.5, rng.integers(0, 20_000, 100_000)
    edges = rng.integers(0, 20_000, (2, 100_000))
    tracemalloc.start()
    clustered_proportion(success, cluster, seed=0)
    node_block_proportion(success, edges, 20_000, seed=0, draws=200)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 300e6


def test_malformed_units_are_refused() -> None:
    """Wrong kinds, shapes, node numbers and too few draws raise and name the argument."""
    yes, one = np.ones(3, dtype=np.bool_), np.zeros(3, dtype=np.int64)
    with pytest.raises(InputError, check=about("success")):
        clustered_proportion(one, one, seed=0)  # type: ignore[arg-type]
    with pytest.raises(InputError, check=about("cluster")):
        clustered_proportion(yes, one[:2], seed=0)
    with pytest.raises(InputError, check=about("draws")):
        clustered_proportion(yes, one, seed=0, draws=10)
    with pytest.raises(InputError, check=about("endpoints")):
        node_block_proportion(yes, one, 1, seed=0)
    with pytest.raises(InputError, check=about("endpoints")):
        node_block_proportion(yes, np.array([[0, 1, 2], [0, 0, 0]]), 2, seed=0)
