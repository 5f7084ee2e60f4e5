"""Which nodes a gradient was taken over: those whose rows lie in the column space of the first weights' gradient.

The gradient of the first weight is the sum of outer products of the rows that entered (averaged over neighbours, under
GCN) and the gradients at the layer's outputs. With fewer rows than the width of the layer its column space is exactly
the span of those rows, and a public row is either in it or not (DAGER, NeurIPS 2024, for text; GRAIN, ICLR 2025, for
graphs). With more rows the distance to that space still ranks nodes. Every client's gradient, or their sum, is tested.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.base import Auxiliary, Card, InformedAttack, Material, Measurement, Reference
from fgl_secure.attacks.gradient_fields import FieldGuess, fields_of, score_fields
from fgl_secure.attacks.gradient_views import ClientGradients, client_gradients
from fgl_secure.attacks.truth import Truth
from fgl_secure.runtime import PublicParameters, Role, Secret, View

Floats = NDArray[np.float64]

RANK = 1e-8
"""Singular values up to this share of the largest count as zero, or up to what rounding adds."""

SMALL, GAP = 1e-3, 0.03
"""Below the first share of the largest, one that is below the second share of that before starts the rounding's."""

INSIDE = 1e-6
"""Up to this share of its squared length a row may stick out of a span that it is in."""

ROUNDED_INSIDE = 1e-2
"""The same at most, where rounding blurs the span."""


@dataclass(frozen=True, slots=True, eq=False)
class Span:
    """The column space of a gradient.

    Attributes:
        basis: float64 [d, r], orthonormal.
        inside: up to which residual a row counts as inside.
    """

    basis: Floats
    inside: float


def span_of(gradient: Floats, noise: float = 0.0) -> Span:
    """The column space of a gradient [d, h] whose rounding has singular values up to about `noise`, or more.

    Rounding that nobody stated fills all dimensions, and shows as a drop in the singular values before its own.
    """
    left, singular, _ = np.linalg.svd(gradient, full_matrices=False)
    kept = singular[singular > max(RANK * singular[0], 2 * noise)]
    drops = np.flatnonzero((kept[1:] < SMALL * singular[0]) & (kept[1:] < GAP * kept[:-1]))
    if len(drops) and len(kept) == len(singular):
        noise, kept = float(kept[drops[0] + 1]), kept[: drops[0] + 1]
    blur = float(2 * noise / kept[-1]) ** 2 if len(kept) else 0.0
    return Span(left[:, : len(kept)], min(max(INSIDE, blur), ROUNDED_INSIDE))


def residuals(rows: Floats, span: Span) -> Floats:
    """Which share of the squared length of each row [n, d] is outside of a span, float64 [n]; 1 for a row of zeros."""
    total = (rows * rows).sum(axis=1)
    inside = ((rows @ span.basis) ** 2).sum(axis=1)
    return np.asarray(1 - np.divide(inside, total, out=np.zeros_like(total), where=total > 0))


class GradientSpan(InformedAttack[FieldGuess]):
    """The distance of every public row to the span, for each weight of the first layer; the larger one counts."""

    @property
    def card(self) -> Card:
        """The server alone, with gradients of single clients or with their sum."""
        return Card(
            "gradient-span",
            "the server tells which nodes a client's gradient was taken over, by the span of the first gradient",
            "GRAIN (ICLR 2025) and DAGER (NeurIPS 2024), span check",
            Role.SERVER,
            Secret.TRAINING_NODE,
            Material.UPDATES,
            Reference.FEDAVG,
            minimum=0.95,
            auxiliary="the model, public features of all nodes, and the edges that clients average over",
        )

    def infer_with(self, view: View, public: PublicParameters, auxiliary: Auxiliary) -> FieldGuess | None:
        """Tests every candidate against the gradient of every client."""
        seen, candidates = client_gradients(view, public, auxiliary), auxiliary.candidates
        if seen is None or candidates is None:
            return None
        entering = candidates.entering(seen.model)
        return fields_of(seen, candidates, entering, *_tested(seen, entering))

    def score(self, guess: FieldGuess, truth: Truth) -> tuple[Measurement, ...]:
        """Exact hits, and areas under the curve: `score_fields`."""
        return score_fields(guess, truth)


def _tested(seen: ClientGradients, entering: dict[str, Floats]) -> tuple[Floats, NDArray[np.bool_]]:
    """Minus the largest residual, and whether a row is inside by every weight: both [clients, n].

    A row of zeros, as a node without neighbours has it under GraphSAGE, leaves no trace in a gradient and is not asked
    about; a node that has nothing else is never claimed.
    """
    told = {name: rows.any(axis=1) for name, rows in entering.items()}
    known = np.any(list(told.values()), axis=0)
    shape = (len(seen.clients), len(known))
    farthest, hits = np.broadcast_to(~known, shape).astype(np.float64), np.broadcast_to(known, shape).copy()
    for name, rows in entering.items():
        for at, gradient in enumerate(seen.parts[name]):
            span = span_of(gradient, seen.noise(name))
            outside = np.where(told[name], residuals(rows, span), 0.0)
            farthest[at], hits[at] = np.maximum(farthest[at], outside), hits[at] & (outside < span.inside)
    return -farthest, hits
