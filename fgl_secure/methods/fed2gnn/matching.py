"""The set loss of Fed2GNN (Eq. 8): the least sum of squared distances over all bijections of two sets."""

from __future__ import annotations

from functools import lru_cache
from itertools import permutations

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from fgl_secure.errors import InputError
from fgl_secure.typing import Ids

MOST_LISTED = 4
"""Largest set whose bijections are all looked at; above that a linear program finds the best."""


@lru_cache(maxsize=MOST_LISTED)
def _bijections(size: int) -> Ids:
    """int64 [size!, size]."""
    return np.array(list(permutations(range(size))), dtype=np.int64)


def best_matching(costs: NDArray[np.float64]) -> Ids:
    """The cheapest bijection of every pair of sets.

    Args:
        costs: float [b, c, c], costs[k, j, l] of matching element j of the first set of pair k with l of the second.

    Returns:
        int64 [b, c], the partner of each element of the first set.
    """
    if costs.ndim != 3 or costs.shape[1] != costs.shape[2]:
        raise InputError(f"costs must be [b, c, c]; found {list(costs.shape)}")
    size = costs.shape[1]
    if size <= MOST_LISTED:
        listed = _bijections(size)
        total = costs[:, np.arange(size), listed].sum(axis=2)
        found: Ids = listed[total.argmin(axis=1)]
        return found
    return np.array([linear_sum_assignment(each)[1] for each in costs], dtype=np.int64).reshape(-1, size)


def matched(truth: torch.Tensor, decoded: torch.Tensor) -> torch.Tensor:
    """The decoded elements in the order of their partners.

    Args:
        truth: float [b, c, w], sets of c elements.
        decoded: float [b, c, w], as many; gradients flow through the order found.

    Returns:
        float [b, c, w], element j is the partner of truth's element j.
    """
    if truth.shape != decoded.shape or truth.ndim != 3:
        raise InputError(
            f"truth and decoded must be [b, c, w] of one shape; found {list(truth.shape)} and {list(decoded.shape)}"
        )
    with torch.no_grad():
        products = truth @ decoded.transpose(1, 2)
        squares = (decoded**2).sum(dim=2)
        costs = (squares[:, None, :] - 2 * products).cpu().numpy().astype(np.float64)  # |truth|^2 is the same for all
    partner = torch.from_numpy(best_matching(costs)).to(decoded.device)
    return torch.gather(decoded, 1, partner[:, :, None].expand_as(decoded))
