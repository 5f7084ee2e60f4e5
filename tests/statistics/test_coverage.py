"""Simulated audits: intervals cover the truth in 93 of 100 or more, under every dependence that figures here have."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

from fgl_secure.statistics.metrics import (
    Proportion,
    advantage,
    clustered_advantage,
    clustered_proportion,
    exact_proportion,
    node_block_proportion,
    pair_advantage,
)

RUNS = 300
LEAST = 279
"""Of 300, which is 93 %."""

Rng = np.random.Generator
Bools = npt.NDArray[np.bool_]


def of_clusters(rng: Rng, clusters: int, rate: float, copied: float) -> tuple[Bools, npt.NDArray[np.int64]]:
    """Units in clusters of 1 to 39, some of which copy what their cluster has."""
    cluster = np.repeat(np.arange(clusters), rng.integers(1, 40, clusters))
    own, shared = rng.random(len(cluster)) < rate, rng.random(clusters) < rate
    return np.where(rng.random(len(cluster)) < copied, shared[cluster], own), cluster


@pytest.mark.parametrize(
    ("clusters", "rate", "copied"), [(5, 0.3, 1.0), (20, 0.1, 1.0), (60, 0.9, 0.5), (200, 0.3, 0.0)]
)
def test_shares_of_clusters_cover(clusters: int, rate: float, copied: float) -> None:
    """Few or many clusters of unequal size, independent units or copies."""
    rng, covered = np.random.default_rng(1), 0
    for seed in range(RUNS):
        found = clustered_proportion(*of_clusters(rng, clusters, rate, copied), seed, draws=200)
        covered += found.interval.contains(rate)
    assert covered >= LEAST


def graph(rng: Rng, nodes: int, degree: float) -> npt.NDArray[np.int64]:
    """Both ends of the edges of a graph with unequal degrees, the lower end first."""
    weight = rng.pareto(3, nodes) + 0.3
    chance = np.minimum(np.outer(weight, weight) / weight.mean() ** 2 * degree / nodes, 0.8)
    return np.stack(np.nonzero(np.triu(rng.random((nodes, nodes)) < chance, 1)))


@pytest.mark.parametrize(("nodes", "share"), [(40, 0.7), (120, 0.2)])
def test_shares_of_edges_cover(nodes: int, share: float) -> None:
    """An edge is read where a coin of either end says so; the binomial interval is too narrow."""
    rng, covered, binomial = np.random.default_rng(2), 0, 0
    truth = 1 - (1 - share) ** 2
    for seed in range(RUNS):
        edges = graph(rng, nodes, 8)
        telling = rng.random(nodes) < share
        read = telling[edges[0]] | telling[edges[1]]
        covered += node_block_proportion(read, edges, nodes, seed, draws=200).interval.contains(truth)
        binomial += exact_proportion(int(read.sum()), len(read)).interval.contains(truth)
    assert covered >= LEAST
    assert binomial < 0.8 * RUNS


def claims_by_pairs(rng: Rng, seed: int) -> tuple[Proportion, Proportion, float]:
    """Pairs are claimed where a coin of the lower end says so, edges more often."""
    nodes, hits, alarms = 60, 0.5, 0.1
    edges = graph(rng, nodes, 8)
    linked = np.zeros((nodes, nodes), dtype=np.bool_)
    linked[edges[0], edges[1]] = True
    hot, warm = rng.random(nodes) < hits, rng.random(nodes) < alarms
    others = np.stack(np.nonzero(np.triu(~linked, 1)))
    read, wrong = hot[edges[0]], others[:, warm[others[0]]]
    naive = advantage(int(read.sum()), len(read), wrong.shape[1], others.shape[1])
    found = pair_advantage(read, edges, wrong, others.shape[1], nodes, seed, draws=200)
    return found, naive, hits - alarms


def claims_by_cells(rng: Rng, seed: int) -> tuple[Proportion, Proportion, float]:
    """Cells of a client and a class are claimed where the client's coin says so."""
    clients, classes, hits, alarms = 30, 10, 0.6, 0.2
    there = rng.random((clients, classes)) < 0.4
    hot, warm = rng.random(clients) < hits, rng.random(clients) < alarms
    said = np.where(there, hot[:, None], warm[:, None])
    client = np.broadcast_to(np.arange(clients)[:, None], there.shape)
    naive = advantage(int(said[there].sum()), int(there.sum()), int(said[~there].sum()), int((~there).sum()))
    return clustered_advantage(said.ravel(), there.ravel(), client.ravel(), seed, 200), naive, hits - alarms


@pytest.mark.parametrize("claims", [claims_by_pairs, claims_by_cells])
def test_advantages_cover(claims: Callable[[Rng, int], tuple[Proportion, Proportion, float]]) -> None:
    """Over pairs of nodes and over cells of clients; Newcombe's interval over all of them covers too little."""
    rng, covered, narrow = np.random.default_rng(3), 0, 0
    for seed in range(RUNS):
        found, naive, truth = claims(rng, seed)
        covered += found.interval.contains(truth)
        narrow += naive.interval.contains(truth)
    assert covered >= LEAST
    assert narrow < 0.8 * RUNS
