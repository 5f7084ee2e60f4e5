"""Which of two updates is in a sum of many, when one knows how the others are distributed.

A secure sum is not private by itself (Ngo et al. 2024): to an observer the others' updates are noise, about normal with
n - 1 times their covariance. The likelihood ratio then tells two updates apart with accuracy Phi(mu / 2), where mu^2 =
D^T ((n - 1) Sigma)^-1 D and D is their difference; for updates drawn like the others mu^2 is about 2 d / (n - 1). What
counts is the number of clients over the effective rank d of what they send.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import scipy  # its statistics are loaded when they are first asked for

from fgl_secure.errors import InputError
from fgl_secure.typing import Floats


@dataclass(frozen=True, slots=True, eq=False)
class Suspects:
    """What an observer of sums knows of the clients' updates.

    Attributes:
        population: float64 [N, P], a sample of updates like those of the other clients, N at least 10.
        pairs: by round, float64 [K, 2, P]: two updates of each client, of which it sent one in that round, in an order
            that says nothing. A round without an entry is not attacked.
    """

    population: Floats
    pairs: Mapping[int, Floats]


@dataclass(frozen=True, slots=True, eq=False)
class Population:
    """How one update is distributed.

    Attributes:
        mean: float64 [P].
        whitening: float64 [q, P], a row for each direction in which updates vary; (update - mean) @ whitening.T has
            independent entries of variance 1.
    """

    mean: Floats
    whitening: Floats

    @classmethod
    def normal(cls, mean: Floats, covariance: Floats) -> Population:
        """A distribution that is known: mean [P], covariance [P, P], which must be invertible."""
        return cls(mean, _root_of_inverse(covariance))

    @classmethod
    def of(cls, updates: Floats, energy: float = 0.99) -> Population:
        """Estimates from a sample [N, P]: Ledoit and Wolf's covariance along the principal axes.

        Args:
            updates: at least 10, one a row.
            energy: the share of the variance that the axes have together, inside (0, 1]; with little of it left out,
                updates of other batches differ mostly in what is left out.

        Raises:
            InputError: for fewer updates, updates that are all alike, or an energy outside its range.
        """
        if updates.ndim != 2 or len(updates) < 10:
            raise InputError(f"updates must be [N, P] with N at least 10; found shape {list(updates.shape)}")
        if not 0 < energy <= 1:
            raise InputError(f"energy must be inside (0, 1]; found {energy}")
        from sklearn.covariance import ledoit_wolf  # noqa: PLC0415  # slow to import, needed for samples only

        mean = updates.mean(axis=0)
        _, singular, axes = np.linalg.svd(updates - mean, full_matrices=False)
        if not singular[0] > 0:
            raise InputError("updates must not be all alike")
        there = singular > 1e-10 * singular[0]
        enough = np.cumsum(singular**2) / (singular**2).sum() < energy
        kept = there & np.concatenate([[True], enough[:-1]])
        covariance, _ = ledoit_wolf((updates - mean) @ axes[kept].T, assume_centered=True)
        return cls(mean, _root_of_inverse(np.atleast_2d(covariance)) @ axes[kept])

    def ratio(self, total: Floats, first: Floats, second: Floats, others: int) -> Floats:
        """Log-likelihood ratios, float64 [k]: positive where a sum [k, P] rather has `first` [k, P] than `second`.

        Args:
            total: sums of one of the two and of `others` updates.
            first: one update.
            second: another.
            others: how many further updates are in each sum, at least 1.
        """
        self._check(others)
        rest = (total - others * self.mean - (first + second) / 2) @ self.whitening.T
        return np.asarray((rest * ((first - second) @ self.whitening.T)).sum(axis=1) / others)

    def accuracy(self, first: Floats, second: Floats, others: int) -> Floats:
        """What share of such decisions is right, float64 [k], if the population is as stated: Phi(mu / 2)."""
        self._check(others)
        apart = (first - second) @ self.whitening.T
        return np.asarray(scipy.stats.norm.cdf(np.linalg.norm(apart, axis=1) / (2 * np.sqrt(others))))

    def _check(self, others: int) -> None:
        if others < 1:
            raise InputError(f"others must be at least 1: a sum of one update is that update; found {others}")


def _root_of_inverse(covariance: Floats) -> Floats:
    """W with W.T @ W the inverse of a covariance."""
    return np.asarray(np.linalg.inv(np.linalg.cholesky(covariance)), dtype=np.float64)
