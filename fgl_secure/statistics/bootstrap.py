"""Bootstrap intervals of proportions whose units are not independent.

Messages of one sender share its secret, and edges share endpoints: a binomial interval over them is too narrow.
The percentile bootstrap resamples the senders or the nodes instead. Source: Snijders and Borgatti, Connections 22
(1999), for nodes; Davison and Hinkley, Bootstrap Methods (1997), section 3.8, for clusters.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from scipy import sparse

from fgl_secure.errors import InputError
from fgl_secure.statistics.intervals import Interval, Proportion, clopper_pearson

_CELLS = 1_000_000  # resampled indices held at once: 8 MB each array
_TAILS = (2.5, 97.5)

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def clustered_proportion(
    success: npt.NDArray[np.bool_], cluster: npt.NDArray[np.integer], seed: int, draws: int = 1000
) -> Proportion:
    """The share of successes over units that come in clusters, with a cluster-bootstrap 95 % interval.

    When the bootstrap says nothing (every unit agrees, one cluster, or clusters with equal shares) the interval is
    Clopper-Pearson on the number of clusters, so that it never collapses to a point.

    Args:
        success: bool [m], whether each unit succeeded; m = 0 gives value 0 and [0, 1].
        cluster: int [m], the cluster of each unit, for example its sender; any integers.
        seed: of the resampling.
        draws: number of resamples, at least 100.

    Raises:
        InputError: for arrays of unequal length or wrong kind, or too few draws.
    """
    _check_units("success", success, draws)
    if cluster.shape != success.shape or cluster.dtype.kind not in "iu":
        raise InputError(
            f"cluster must be integers of shape {success.shape}; found {cluster.dtype} of shape {cluster.shape}"
        )
    if success.size == 0:
        return Proportion(0.0, Interval(0.0, 1.0), 0)
    _, index = np.unique(cluster, return_inverse=True)
    sizes = np.bincount(index).astype(np.float64)
    hits = np.bincount(index, weights=success).astype(np.float64)
    shares = np.concatenate(list(_cluster_shares(hits, sizes, seed, draws)))
    return _percentile(float(success.mean()), shares, sizes.size, success.size)


def node_block_proportion(
    hit: npt.NDArray[np.bool_], endpoints: npt.NDArray[np.integer], n_nodes: int, seed: int, draws: int = 1000
) -> Proportion:
    """The share of hits over edges, with a node-block bootstrap 95 % interval.

    Each draw resamples the nodes with replacement; an edge counts as often as the product of the multiplicities of
    its endpoints. The degenerate cases are those of `clustered_proportion`, with the nodes that carry an edge as
    clusters.

    Args:
        hit: bool [m], whether the attack was right about each edge; m = 0 gives value 0 and [0, 1].
        endpoints: int [2, m], the two nodes of each edge, in [0, n_nodes).
        n_nodes: number of nodes of the graph.
        seed: of the resampling.
        draws: number of resamples, at least 100.

    Raises:
        InputError: for arrays of unequal length, wrong kind or out of range, or too few draws.
    """
    _check_units("hit", hit, draws)
    _check_endpoints(endpoints, hit.size, n_nodes)
    if hit.size == 0:
        return Proportion(0.0, Interval(0.0, 1.0), 0)
    shape = (n_nodes, n_nodes)
    pairs = (endpoints[0].astype(np.int64), endpoints[1].astype(np.int64))
    every = sparse.coo_array((np.ones(hit.size), pairs), shape=shape).tocsr()
    good = sparse.coo_array((hit.astype(np.float64), pairs), shape=shape).tocsr()
    shares = np.concatenate(list(_edge_shares(good, every, n_nodes, seed, draws)))
    return _percentile(float(hit.mean()), shares, np.unique(endpoints).size, hit.size)


def _cluster_shares(hits: Floats, sizes: Floats, seed: int, draws: int) -> Iterator[Floats]:
    for drawn in _resamples(sizes.size, seed, draws):
        yield hits[drawn].sum(axis=1) / sizes[drawn].sum(axis=1)


def _edge_shares(
    good: sparse.csr_array, every: sparse.csr_array, n_nodes: int, seed: int, draws: int
) -> Iterator[Floats]:
    for drawn in _resamples(n_nodes, seed, draws):
        weights = _multiplicities(drawn, n_nodes)
        total = (weights * (every @ weights)).sum(axis=0)
        right = (weights * (good @ weights)).sum(axis=0)
        filled = total > 0  # a draw may miss every edge of a small graph
        yield right[filled] / total[filled]


def _multiplicities(drawn: Ints, n: int) -> Floats:
    """How often each of n items occurs in each row of `drawn` [r, n]; returned as [n, r]."""
    rows = drawn.shape[0]
    cells = drawn + n * np.arange(rows)[:, None]
    counts = np.bincount(cells.ravel(), minlength=rows * n).reshape(rows, n)
    return np.ascontiguousarray(counts.T, dtype=np.float64)


def _resamples(n: int, seed: int, draws: int) -> Iterator[Ints]:
    """Indices [r, n] drawn with replacement, a bounded number of rows at a time, `draws` rows in all."""
    rng = np.random.default_rng(seed)
    step = max(1, _CELLS // n)
    for start in range(0, draws, step):
        yield rng.integers(0, n, size=(min(step, draws - start), n))


def _percentile(value: float, shares: Floats, clusters: int, n: int) -> Proportion:
    if shares.size == 0 or np.ptp(shares) < 1e-12:
        return Proportion(value, clopper_pearson(value * clusters, clusters), n)
    low, high = (float(end) for end in np.percentile(shares, _TAILS))
    return Proportion(value, Interval(min(low, value), max(high, value)), n)


def _check_units(name: str, units: npt.NDArray[np.bool_], draws: int) -> None:
    if units.ndim != 1 or units.dtype != np.bool_:
        raise InputError(f"{name} must be bool [m]; found {units.dtype} of shape {units.shape}")
    if draws < 100:
        raise InputError(f"draws must be at least 100, or the 2.5 % tails are empty; found {draws}")


def _check_endpoints(endpoints: npt.NDArray[np.integer], m: int, n_nodes: int) -> None:
    if endpoints.shape != (2, m) or endpoints.dtype.kind not in "iu":
        raise InputError(
            f"endpoints must be integers of shape (2, {m}); found {endpoints.dtype} of shape {endpoints.shape}"
        )
    if m and (int(endpoints.min()) < 0 or int(endpoints.max()) >= n_nodes):
        raise InputError(
            f"endpoints must lie in [0, n_nodes = {n_nodes}); found {endpoints.min()} to {endpoints.max()}"
        )
