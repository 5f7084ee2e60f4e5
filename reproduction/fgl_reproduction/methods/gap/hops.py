"""Sums over neighbours with noise, once per hop, and what they cost.

A device's row has norm 1 at most. With or without an undirected edge, the sums at its two ends differ by one row each:
all sums of a hop together have L2 sensitivity sqrt(2). GAP and ProGAP as published count one end, so sensitivity 1.
Everything that is computed from the noisy sums costs nothing more (post-processing).

Source: Sajadmanesh, Shamsabadi, Bellet and Gatica-Perez, USENIX Security 2023, section 4; noise on integers after
Canonne, Kamath and Steinke 2020.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgl_secure.coins import Coins
from fgl_secure.dp import Budget, Perturbation, PrivacyTarget, Relation, Unit, grid_rows
from fgl_secure.errors import InputError
from fgl_secure.statistics.lower_bounds import EpsilonLowerBound, gaussian_bound, one_run_bound
from fgl_secure.typing import Floats, Ids

CLIP = 1.0
"""L2 norm of a row that enters a sum."""
CANARY_EDGES = 10_000
"""Pairs of devices, half of them joined by an edge, behind lower bounds."""

SumRows = Callable[[Floats], Floats]
"""Makes of one row per device the sum of each device's neighbours' rows."""


def choose_delta(most_edges: int) -> float:
    """Return the largest power of ten below 1 / most_edges."""
    return 10.0 ** -len(str(most_edges))


def calibrate_noise(
    epsilon: float, delta: float | None, most_edges: int, hops: int, width: int, unit: Unit = Unit.EDGE, honest: int = 1
) -> Perturbation:
    """Return the least noise with which all hops together cost epsilon.

    Args:
        epsilon: of all hops together.
        delta: of all hops together, below 1 / most_edges; None takes `choose_delta`.
        most_edges: public bound on directed edges, two for each undirected one.
        hops: noisy sums of each device.
        width: entries of a row.
        unit: what neighbouring inputs differ in: an undirected edge, or one direction of it, as published.
        honest: shares that make up the noise: one of the receiver, or those of relays that keep theirs to themselves.

    Raises:
        InputError: delta is not below 1 / most_edges, or no grid holds the noise.
    """
    chosen = choose_delta(most_edges) if delta is None else delta
    if not 0 < chosen < 1 / most_edges:
        raise InputError(
            f"delta must lie between 0 and 1 / edges = {1 / most_edges:.3g}, or one edge may be given away; found "
            f"{chosen:g}"
        )
    target = PrivacyTarget(epsilon, chosen, Relation(unit), hops)
    return Perturbation.calibrate(target, clip=CLIP, width=width, honest=honest)


@dataclass(frozen=True, slots=True, eq=False)
class NoisySums:
    """Sums over neighbours to which each receiver adds its own noise, drawn once and kept.

    A hop that a process runs again after a restart adds the same noise, so that no two releases of one sum exist. Where
    relays add noise, receivers without neighbours add as much themselves, since relays know of no sum for them.

    Attributes:
        settings: grid, noise and target; None for exact sums.
        noise: int64 [hops, m, width], in grid units, 0 where relays add it; empty for exact sums.
        budget: counts releases; None for exact sums.
    """

    settings: Perturbation | None
    noise: Ids
    budget: Budget | None

    @classmethod
    def draw(
        cls, settings: Perturbation | None, adding: NDArray[np.bool_], coins: Coins, shares: int | None = None
    ) -> NoisySums:
        """Draw the noise of all hops.

        Args:
            settings: of the noise; None for none.
            adding: bool [m], which devices add it themselves.
            coins: where it comes from.
            shares: how many each adds; None for as many as `settings` need.
        """
        if settings is None:
            return cls(None, np.zeros((0, 0, 0), dtype=np.int64), None)
        noise = np.zeros((settings.target.releases, len(adding), settings.width), dtype=np.int64)
        for _ in range(settings.honest if shares is None else shares):
            noise[:, adding] += settings.noise.sample(coins, (len(noise), int(adding.sum()), settings.width))
        return cls(settings, noise, settings.open_budget())

    def add(self, hop: int, rows: Floats, sum_rows: SumRows) -> Floats:
        """Return noisy sums of rows over neighbours, float64 [m, width].

        Args:
            hop: number of the sum, from 0.
            rows: float64 [m, width]; longer ones than `CLIP` are shortened.
            sum_rows: adds them up, exactly for multiples of the grid's unit.

        Raises:
            BudgetExhaustedError: the target's releases are spent; nothing was sent.
        """
        if self.settings is None or self.budget is None:
            return sum_rows(rows)
        self.budget.spend()
        bits = self.settings.fraction_bits
        sent = grid_rows(rows, CLIP, bits).rows * 2.0**-bits
        units = np.rint(sum_rows(sent) * 2.0**bits).astype(np.int64)
        noisy: Floats = (units + self.noise[hop]).astype(np.float64) * 2.0**-bits
        return noisy


def normalize_rows(rows: Floats) -> Floats:
    """Return rows [m, d] of norm 1; rows of zeros stay."""
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(norms > 0, norms, 1)


@dataclass(frozen=True, slots=True, eq=False)
class CanaryScores:
    """What an observer of all noisy sums makes of pairs of devices.

    Attributes:
        scores: float64 [k], a higher one speaks for an edge.
        joined: bool [k], whether the pair has an edge, by a fair coin.
    """

    scores: Floats
    joined: NDArray[np.bool_]

    def bounds(self, delta: float) -> tuple[EpsilonLowerBound, EpsilonLowerBound]:
        """Return the largest epsilons at delta that these scores rule out: of Gaussian mechanisms, and of any."""
        present, absent = self.scores[self.joined], self.scores[~self.joined]
        count = min(len(present), len(absent))
        gaussian = gaussian_bound(present[:count], absent[:count], delta=delta)
        return gaussian, one_run_bound(self.scores, self.joined, delta=delta)


def play_canaries(
    settings: Perturbation, coins: Coins, pairs: int = CANARY_EDGES, draw: Callable[..., NoisySums] = NoisySums.draw
) -> CanaryScores:
    """Run all hops once on pairs of devices, each joined by an edge or not by a fair coin, and score each pair.

    The observer knows every row that enters a sum: first rows are public, later ones are normalised noisy sums. The
    score is the likelihood ratio's, the inner products of both ends' noisy sums with the other end's row over all
    hops. An edge changes both by norm 1, as much as the sensitivity allows.

    Args:
        settings: of the noise under test.
        coins: draw edges and noise.
        pairs: how many; an edge touches no other pair.
        draw: draws the noise; others than the default are for tests, which break it.
    """
    joined = coins.uniform(2, (pairs,)).astype(np.bool_)
    partner = np.arange(2 * pairs).reshape(pairs, 2)[:, ::-1].ravel()
    present = np.repeat(joined, 2)[:, None]

    def sum_rows(rows: Floats) -> Floats:
        return np.where(present, rows[partner], 0.0)

    sums, scores = draw(settings, np.ones(2 * pairs, dtype=np.bool_), coins), np.zeros(2 * pairs)
    rows = np.zeros((2 * pairs, settings.width))
    rows[:, 0] = CLIP
    for hop in range(settings.target.releases):
        noisy = sums.add(hop, rows, sum_rows)
        scores += (noisy * rows[partner]).sum(axis=1)
        rows = normalize_rows(noisy)
    return CanaryScores(scores.reshape(pairs, 2).sum(axis=1), joined)
