"""The set loss is the least over all bijections, and what it matches is a bijection."""

from itertools import permutations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fgl_secure.errors import InputError
from fgl_secure.methods.fed2gnn.decoder import MOST_LISTED, best_matching, matched
from tests.error_codes import about

SIZES = st.integers(1, MOST_LISTED + 2)


def pair(size: int, width: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    coins = torch.Generator().manual_seed(seed)
    return torch.randn(3, size, width, generator=coins), torch.randn(3, size, width, generator=coins)


def set_loss(truth: torch.Tensor, decoded: torch.Tensor) -> torch.Tensor:
    """Eq. 8 of each pair of sets, float [b]."""
    return ((truth - matched(truth, decoded)) ** 2).sum(dim=(1, 2))


@settings(max_examples=40, deadline=None)
@given(SIZES, st.integers(1, 4), st.integers(0, 2**31))
def test_the_loss_is_the_least_over_all_bijections(size: int, width: int, seed: int) -> None:
    """Eq. 8 by trying every bijection, for sets on both sides of the size at which the search changes."""
    truth, decoded = pair(size, width, seed)
    listed = [((truth - decoded[:, list(order)]) ** 2).sum(dim=(1, 2)) for order in permutations(range(size))]
    torch.testing.assert_close(set_loss(truth, decoded), torch.stack(listed).min(dim=0).values, rtol=1e-4, atol=1e-4)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 12), st.integers(0, 2**31))
def test_the_matching_is_a_bijection(size: int, seed: int) -> None:
    """Every element is somebody's partner, once."""
    costs = np.random.default_rng(seed).normal(size=(5, size, size))
    assert (np.sort(best_matching(costs), axis=1) == np.arange(size)).all()


def test_the_order_of_a_set_makes_no_difference() -> None:
    """A set that is decoded in another order has no loss; the plain distance has."""
    truth, _ = pair(6, 4, 0)
    turned = truth[:, [3, 1, 5, 0, 2, 4]]
    assert float(set_loss(truth, turned).max()) < 1e-9
    assert float(((truth - turned) ** 2).sum()) > 1
    assert torch.equal(matched(truth, turned), truth)


def test_sets_of_unlike_sizes_are_refused() -> None:
    """There is no bijection between them."""
    with pytest.raises(InputError, check=about("truth and decoded")):
        set_loss(torch.zeros(1, 2, 3), torch.zeros(1, 3, 3))
    with pytest.raises(InputError, check=about("costs")):
        best_matching(np.zeros((2, 2, 3)))
