"""Two mechanisms that violate their guarantee of differential privacy, each with its repair as an argument."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from fgl_reproduction.known_flaws.case import ReleasingMechanism
from fgl_secure.coins import Coins
from fgl_secure.dp.accountant import noise_multiplier
from fgl_secure.dp.mechanisms import DiscreteGaussian
from fgl_secure.typing import Array

_BITS = 53
_LEAVES = 9
_GRID = 16  # units of the grid to one unit of a feature


def laplace_count(*, on_grid: bool = False) -> ReleasingMechanism:
    """Return a count under Laplace noise of scale 1, which guarantees epsilon 1 for one row that is 0 or 1.

    Args:
        on_grid: whether the noise is the two-sided geometric distribution on integers, which keeps the guarantee.
    """
    noise = _two_sided_geometric if on_grid else _textbook_laplace

    def release(data: Array, runs: int, coins: Coins) -> Array:
        return np.asarray(data.sum() + noise(runs, coins))[:, None]

    return ReleasingMechanism(release, rows=1, unit=1.0, epsilon=1.0, delta=0.0)


def node_embeddings(*, covers_neighbours: bool = False) -> ReleasingMechanism:
    """Return sums of the features of each node and its neighbours on a star, under noise at epsilon 1, delta 1e-5.

    Rows are nodes, the last the hub. One node changes its own sum and those of all its neighbours.

    Args:
        covers_neighbours: whether the noise covers all sums that one node changes, and not only its own.
    """
    adjacent = np.eye(_LEAVES + 1)
    adjacent[-1] = adjacent[:, -1] = 1.0
    changed = adjacent.sum(axis=0).max() if covers_neighbours else 1.0
    noise = DiscreteGaussian(noise_multiplier(1.0, 1e-5, 1) * _GRID * math.sqrt(changed))
    return ReleasingMechanism(partial(_embeddings, adjacent, noise), len(adjacent), unit=_GRID, epsilon=1.0, delta=1e-5)


def _embeddings(adjacent: Array, noise: DiscreteGaussian, data: Array, runs: int, coins: Coins) -> Array:
    return np.asarray(adjacent @ data + noise.sample(coins, (runs, len(adjacent))))


def _textbook_laplace(runs: int, coins: Coins) -> Array:
    """Inversion in doubles: the logarithm of a uniform multiple of 2^-53, with a sign."""
    uniform = (coins.uniform(2**_BITS, (runs,)) + 1) / 2**_BITS
    return np.asarray((2 * coins.uniform(2, (runs,)) - 1) * np.log(uniform))


def _two_sided_geometric(runs: int, coins: Coins) -> Array:
    """The difference of two geometric variables with ratio exp(-1)."""
    uniform = (coins.uniform(2**_BITS, (2, runs)) + 1) / 2**_BITS
    first, second = np.floor(-np.log(uniform))
    return np.asarray(first - second)
