"""Shares on a grid: what rounding keeps, and how far it moves the mean of proxies."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgl_secure.methods.fedspray.client import fractions, shares_of

Counts = st.lists(st.integers(0, 400), min_size=1, max_size=8).filter(any).map(np.array)
Grid = st.integers(1, 5000)


@given(counts=Counts, grid=Grid)
def test_rounded_shares_add_up_to_one_and_lie_on_the_grid(counts: np.ndarray, grid: int) -> None:
    """Each is a multiple of the unit and off by less than that; an absent class keeps its zero."""
    units = shares_of(counts, grid) * grid
    np.testing.assert_allclose(units, np.rint(units), atol=1e-9)
    assert int(np.rint(units).sum()) == grid
    assert (np.abs(units - grid * counts / counts.sum()) < 1).all()
    assert not units[counts == 0].any()


@pytest.mark.parametrize(
    ("counts", "grid", "units"),
    [
        ([1, 1, 1], 10, [4, 3, 3]),
        ([2, 1], 4, [3, 1]),
        ([1, 2], 1024, [341, 683]),
        ([999, 1], 100, [100, 0]),
        ([3, 5], 8, [3, 5]),
    ],
)
def test_largest_remainders_get_what_is_missing(counts: list[int], grid: int, units: list[int]) -> None:
    """Of equal remainders that of the lower class; a rare class can lose all of its weight."""
    assert (shares_of(np.array(counts), grid) * grid).tolist() == units


def test_exact_shares_and_no_labels() -> None:
    """Without a grid a share is the fraction itself; without a labelled node all are zero."""
    assert shares_of(np.array([1, 2]), None).tolist() == [1 / 3, 2 / 3]
    assert shares_of(np.array([0, 0]), None).tolist() == shares_of(np.array([0, 0]), 8).tolist() == [0, 0]


def mean(counts: np.ndarray, proxies: np.ndarray, grid: int | None) -> tuple[np.ndarray, np.ndarray]:
    """The proxies [C, d] after one round of clients with counts [K, C] and proxies [K, C, d]; shares."""
    shares = np.stack([shares_of(each, grid) for each in counts])
    terms = [fractions(np.zeros(1), 1.0, s, a) for s, a in zip(proxies, shares, strict=True)]
    above, below = (np.sum(each, axis=0) for each in ([t[0][1:] for t in terms], [t[1][1:, None] for t in terms]))
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0), shares


@given(seed=st.integers(0, 2**32 - 1), clients=st.integers(1, 6), grid=st.integers(8, 5000))
def test_equation_15_holds_with_rounded_shares_and_the_mean_moves_by_little(seed: int, clients: int, grid: int) -> None:
    """The mean is that of the rounded shares a'. With clients 1 to K that have the class it is off the exact one by at
    most K max |s_k - mean| / (grid sum a'), entry by entry."""
    draws = np.random.default_rng(seed)
    counts = draws.integers(0, 60, (clients, 3)) * draws.integers(0, 2, (clients, 3))
    counts[:, 0] += 1
    proxies = draws.normal(size=(clients, 3, 4))
    (found, rounded), (exact, _) = mean(counts, proxies, grid), mean(counts, proxies, None)
    for j in range(3):
        has, total = counts[:, j] > 0, rounded[:, j].sum()
        if not total:
            continue  # nobody's share is as large as a unit: the proxy stays
        weighted = sum(rounded[k, j] / total * proxies[k, j] for k in range(clients))
        np.testing.assert_allclose(found[j], weighted, atol=1e-12)
        bound = has.sum() * np.abs(proxies[has, j] - exact[j]).max(axis=0) / (grid * total)
        assert (np.abs(found[j] - exact[j]) <= bound + 1e-12).all()
