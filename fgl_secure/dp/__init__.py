"""Differential privacy of grouped sums: sensitivity, integer noise, accounting and budgets."""

from __future__ import annotations

from fgl_secure.dp.accountant import (
    Account,
    GaussianAccount,
    SkellamAccount,
    analytic_multiplier,
    epsilon_spent,
    gaussian_delta,
    gaussian_epsilon,
    noise_multiplier,
    skellam_epsilon,
    skellam_rdp,
    skellam_variance,
)
from fgl_secure.dp.budget import Budget, BudgetExhaustedError, PrivacyTarget, Relation, Unit, rounding_excess
from fgl_secure.dp.grid import ClippedRows, clip_rows, grid_clip, grid_rows, rounded_at_random, rounded_norm
from fgl_secure.dp.local import PerturbedRows, perturb, randomize_labels, response_matrix
from fgl_secure.dp.mechanisms import DiscreteGaussian, IntegerNoise, Skellam, TabulatedNoise, sum_divergence
from fgl_secure.dp.perturbation import Perturbation

__all__ = [
    "Account",
    "Budget",
    "BudgetExhaustedError",
    "ClippedRows",
    "DiscreteGaussian",
    "GaussianAccount",
    "IntegerNoise",
    "Perturbation",
    "PerturbedRows",
    "PrivacyTarget",
    "Relation",
    "Skellam",
    "SkellamAccount",
    "TabulatedNoise",
    "Unit",
    "analytic_multiplier",
    "clip_rows",
    "epsilon_spent",
    "gaussian_delta",
    "gaussian_epsilon",
    "grid_clip",
    "grid_rows",
    "noise_multiplier",
    "perturb",
    "randomize_labels",
    "response_matrix",
    "rounded_at_random",
    "rounded_norm",
    "rounding_excess",
    "skellam_epsilon",
    "skellam_rdp",
    "skellam_variance",
    "sum_divergence",
]
