from __future__ import annotations

import networkx as nx
import numpy as np
from scipy import sparse

from fgl_secure.attacks.neighbourhoods import undirected
from fgl_secure.attacks.structure.nsf_propagation import common_neighbours, eccentric_best, propagate


def two_copies(rate: float, size: int = 300) -> tuple[sparse.csr_array, sparse.csr_array]:
    """A preferential-attachment graph, and a copy with a share of its edges."""
    pairs = np.array(nx.barabasi_albert_graph(size, 6, seed=0).edges, dtype=np.int64).T
    kept = pairs[:, np.random.default_rng(0).random(pairs.shape[1]) < rate]
    return undirected(pairs, size), undirected(kept, size)


def seeded(size: int, seeds: int, shift: int = 0) -> np.ndarray:
    mapping = np.full(size, -1, dtype=np.int64)
    mapping[:seeds] = (np.arange(seeds) + shift) % size
    return mapping


def test_grows_from_seeds_to_most_of_the_graph() -> None:
    """From 30 of 300 nodes, nearly all others are matched, nearly all rightly, although a tenth of edges is missing."""
    left, right = two_copies(0.9)
    found = propagate(left, right, seeded(300, 30)) == np.arange(300)
    assert found[30:].mean() > 0.8


def test_wrong_seeds_lead_nowhere() -> None:
    """From seeds that are all wrong, hardly any match is right."""
    left, right = two_copies(0.9)
    found = propagate(left, right, seeded(300, 30, shift=100)) == np.arange(300)
    assert found.mean() < 0.05


def test_no_node_is_matched_twice_and_seeds_stay() -> None:
    """The mapping is one to one and keeps the seeds."""
    left, right = two_copies(0.8)
    seeds = seeded(300, 40)
    found = propagate(left, right, seeds)
    assert (found[:40] == seeds[:40]).all()
    matched = found[found >= 0]
    assert len(np.unique(matched)) == len(matched)


def test_without_seeds_there_is_no_start() -> None:
    """Nothing is matched from nothing."""
    left, right = two_copies(1.0, 40)
    assert (propagate(left, right, seeded(40, 0)) == -1).all()


def test_counts_common_matched_neighbours() -> None:
    """A pair scores one for each matched neighbour that both have."""
    path = undirected(np.array([[0, 1, 2], [1, 2, 3]]), 4)
    scores = common_neighbours(path, path, np.array([-1, 1, -1, 3])).toarray()
    assert scores[2].tolist() == [1, 0, 2, 0]
    assert scores[1].tolist() == [0, 0, 0, 0]


def test_ties_are_no_best() -> None:
    """Where two columns share the best score there is no best; a clear lead is one."""
    table = np.zeros((3, 50))
    table[0, [3, 7]] = 2
    table[1, [3, 7]] = 2, 1
    assert eccentric_best(sparse.csr_array(table)).tolist() == [-1, 3, -1]
