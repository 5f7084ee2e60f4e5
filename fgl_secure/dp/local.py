"""Local differential privacy: each device perturbs its own feature vector or embedding once, before it sends it."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra.checks import as_floats, check_finite
from fgl_secure.coins import Coins, SystemCoins
from fgl_secure.dp.budget import PrivacyTarget, Relation, Unit
from fgl_secure.dp.grid import grid_rows
from fgl_secure.dp.perturbation import Perturbation
from fgl_secure.errors import DataWarning, InputError

MECHANISMS = ("multi-bit", "gaussian")
BITS_OF_COINS = 62
"""Of the uniform numbers that decide about one coordinate."""
LEAST_EPSILON = 1e-6
"""Below it the coins could not tell odds from even ones."""
_ROUNDING = 1e-6
"""Of a norm that is meant to be 1."""
BEST_EPSILON = 2.18
"""Of one coordinate: so many are sampled that each has about as much (Sajadmanesh and Gatica-Perez 2021, Prop. 4.1)."""


@dataclass(frozen=True, slots=True, eq=False)
class PerturbedRows:
    """Perturbed rows. Publishing, caching and processing them costs no further epsilon (post-processing).

    Attributes:
        rows: float64 [n, d], unbiased where no row had to be clipped (gaussian: up to its grid).
        epsilon: per row, for replacing it by any other row.
        delta: 0 for the multi-bit mechanism.
        mechanism: its name.
        deviation: largest standard deviation of a coordinate, in the rows' unit.
        clipped: rows that were shortened to the norm, or had an entry outside the range that was moved to its end. The
            count depends on the private rows: do not publish it.
    """

    rows: NDArray[np.float64] = field(repr=False)
    epsilon: float
    delta: float
    mechanism: str
    deviation: float
    clipped: int = field(repr=False)


def perturb(
    rows: NDArray[np.floating[Any]],
    epsilon: float,
    *,
    mechanism: str = "multi-bit",
    bounds: tuple[float, float] | None = None,
    clip: float | None = None,
    delta: float | None = None,
    coins: Coins | None = None,
) -> PerturbedRows:
    """Perturb each row independently, so that its device has to trust no other party (local differential privacy).

    The unit is one device's whole row, replaced by any other one. Perturb a row once and cache the result: means over
    neighbours average the noise out, and every further perturbation of the same row costs another epsilon. Noise is
    drawn as integers, which avoids leakage through floating-point rounding.

    Args:
        rows: [n, d], one per device, finite.
        epsilon: at least 1e-6.
        mechanism: `multi-bit` (Sajadmanesh and Gatica-Perez, CCS 2021, Algorithm 2; pure, of entries in a range) or
            `gaussian` (the discrete Gaussian of Canonne, Kamath and Steinke 2020, of rows in a norm).
        bounds: least and largest entry, for `multi-bit`; 0 and 1 unless given. Entries outside are moved to the end and
            counted. Bounds are public and must not be computed from the rows.
        clip: largest L2 norm of a row, for `gaussian`; 1 unless given. Longer rows are shortened and counted. Public,
            too.
        delta: for `gaussian`, below 1 / n; 1 / (10 n) unless given.
        coins: where noise comes from; the operating system's unless given.

    Returns:
        The perturbed rows, and what was clipped.

    Raises:
        InputError: an argument breaks one of these rules.

    Warns:
        DataWarning: an entry was outside the bounds, or a row longer than a clip that was not given.

    Examples:
        >>> import numpy as np
        >>> perturb(np.full((3, 4), 0.5), epsilon=2.0).rows.shape
        (3, 4)
    """
    values = as_floats(rows, "rows")
    if values.ndim != 2 or not values.size:
        raise InputError(f"rows must be a matrix with at least one entry; found shape {list(values.shape)}")
    check_finite(values, "rows")
    if not isinstance(epsilon, Real) or not LEAST_EPSILON <= epsilon < math.inf:
        raise InputError(f"epsilon must be a number of at least {LEAST_EPSILON:g}; found {epsilon!r}")
    if mechanism not in MECHANISMS:
        raise InputError(f"mechanism must be one of {', '.join(MECHANISMS)}; found {mechanism!r}")
    if mechanism == "multi-bit":
        for name, value in (("delta", delta), ("clip", clip)):
            if value is not None:
                raise InputError(f"{name} must not be given for multi-bit, which needs none; found {value}")
        ends = (0.0, 1.0) if bounds is None else bounds
        result = _multi_bit(values, float(epsilon), ends, coins or SystemCoins())
        if result.clipped:  # said to the owner of the rows; how many there are would be private
            warnings.warn(
                f"entries must lie in [{ends[0]:g}, {ends[1]:g}]; at least one does not, and the nearer end took its "
                "place: give bounds that hold for all rows of this kind",
                DataWarning,
                stacklevel=2,
            )
        return result
    if bounds is not None:
        raise InputError(f"bounds must not be given for gaussian, which clips norms; found {bounds}")
    result = _gaussian(values, float(epsilon), 1.0 if clip is None else clip, delta, coins or SystemCoins())
    if clip is None and np.linalg.norm(values, axis=1).max() > 1 + _ROUNDING:
        warnings.warn(
            "rows must have a norm of at most clip = 1 unless clip is given; at least one has more and was shortened: "
            "scale the rows or give clip",
            DataWarning,
            stacklevel=2,
        )
    return result


def response_matrix(classes: int, epsilon: float) -> NDArray[np.float64]:
    """Return the law of randomised response: float64 [classes, classes], by true label and by label that is sent.

    Args:
        classes: at least 2.
        epsilon: positive and finite.

    Raises:
        InputError: an argument breaks one of these rules.
    """
    if classes < 2:
        raise InputError(f"classes must be at least 2; found {classes}")
    if not LEAST_EPSILON <= epsilon < math.inf:
        raise InputError(f"epsilon must be a number of at least {LEAST_EPSILON:g}; found {epsilon!r}")
    other = 1 / (math.exp(min(epsilon, 700.0)) + classes - 1)
    matrix: NDArray[np.float64] = np.full((classes, classes), other)
    np.fill_diagonal(matrix, 1 - (classes - 1) * other)
    return matrix


def randomize_labels(
    labels: NDArray[np.int64], classes: int, epsilon: float, coins: Coins | None = None
) -> NDArray[np.int64]:
    """Return labels under randomised response: each is kept, or replaced by a uniform one (Warner 1965).

    The unit is one label, replaced by any other one; pure epsilon. Draw once and keep the result, since every further
    draw costs another epsilon. Odds are whole numbers of coins, rounded so that none exceeds e^epsilon.

    Args:
        labels: int64 [n], in 0 .. classes - 1.
        classes: at least 2.
        epsilon: at least 1e-6.
        coins: where noise comes from; the operating system's unless given.

    Raises:
        InputError: an argument breaks one of these rules.

    Examples:
        >>> import numpy as np
        >>> randomize_labels(np.arange(5) % 3, 3, epsilon=2.0).shape
        (5,)
    """
    other = float(response_matrix(classes, epsilon)[0, 1])
    if labels.ndim != 1 or not ((labels >= 0) & (labels < classes)).all():
        raise InputError(f"labels must be a vector of numbers in 0..{classes - 1}; at least one is not")
    drawing, size = coins or SystemCoins(), 2**BITS_OF_COINS
    rare = math.ceil(size * other * (1 + 2.0**-50)) + 1  # coins that give each label, whatever the true one
    coin = drawing.uniform(size, labels.shape)
    answers: NDArray[np.int64] = np.where(coin < classes * rare, coin // rare, labels)
    return answers


def _multi_bit(values: NDArray[np.float64], epsilon: float, bounds: tuple[float, float], coins: Coins) -> PerturbedRows:
    """One bit of each of m sampled coordinates, which is 1 the more probably the larger the entry."""
    (n, d), (least, largest) = values.shape, bounds
    if not (math.isfinite(largest - least) and least < largest):
        raise InputError(f"bounds must be a least and a larger finite number; found {bounds}")
    m = max(1, min(d, math.floor(epsilon / BEST_EPSILON)))
    inside = np.clip(values, least, largest)
    outside = int((inside != values).any(axis=1).sum())
    size, grown = 2**BITS_OF_COINS, math.exp(min(epsilon / m, 700.0))
    # In whole coins, and rounded inward: no two entries have bits whose odds differ by more than e^(epsilon / m).
    rare = math.ceil(size / (grown + 1) * (1 + 2.0**-50)) + 1
    share = (inside - least) / (largest - least)
    threshold = np.clip(np.floor(rare + share * (size - 2 * rare)).astype(np.int64), rare, size - rare)
    ones = coins.uniform(size, (n, d)) < threshold
    order = np.argsort(coins.uniform(size, (n, d)), axis=1, kind="stable")
    sampled = np.zeros((n, d), dtype=np.bool_)
    np.put_along_axis(sampled, order[:, :m], values=True, axis=1)
    scale = d * (largest - least) / (2 * m) * size / (size - 2 * rare)
    middle = (least + largest) / 2
    result = np.where(sampled, np.where(ones, scale, -scale), 0.0) + middle
    return PerturbedRows(result, epsilon, 0.0, "multi-bit", scale * math.sqrt(m / d), outside)


def _gaussian(
    values: NDArray[np.float64], epsilon: float, clip: float, delta: float | None, coins: Coins
) -> PerturbedRows:
    n, d = values.shape
    if not (math.isfinite(clip) and clip > 0):
        raise InputError(f"clip must be a positive number; found {clip}")
    chosen = 1 / (10 * n) if delta is None else delta
    if not 0 < chosen < 1 / n:
        raise InputError(f"delta must lie between 0 and 1 / n = {1 / n:g}, or one row may be given away; found {delta}")
    # A row replaced by another one moves by up to twice the norm that both are clipped to.
    target = PrivacyTarget(epsilon, chosen, Relation(Unit.CLIENT), 1)
    settings = Perturbation.calibrate(target, clip=2 * clip, width=d, honest=1)
    grid = grid_rows(values, clip, settings.fraction_bits)
    noise = settings.noise.sample(coins, (n, d))
    result: NDArray[np.float64] = (grid.rows + noise).astype(np.float64) * 2.0**-settings.fraction_bits
    return PerturbedRows(result, epsilon, chosen, "gaussian", settings.sigma, grid.count)
