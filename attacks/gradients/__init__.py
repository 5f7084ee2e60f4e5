"""Attacks on clients' gradients in federated averaging, one by one and summed."""

from __future__ import annotations

from fgl_secure.attacks.gradients.fields import GradientFilter, GradientSpan
from fgl_secure.attacks.gradients.knowledge import Candidates, GradientKnowledge
from fgl_secure.attacks.gradients.labels import GradientLabels
from fgl_secure.attacks.gradients.single import GradientSingleNeighbours, GradientSingleRow
from fgl_secure.attacks.gradients.sums import RoundDisaggregation, SumMembership
from fgl_secure.attacks.gradients.truth import ClientBatch, GradientTruth, UpdateTruth

__all__ = [
    "Candidates",
    "ClientBatch",
    "GradientFilter",
    "GradientKnowledge",
    "GradientLabels",
    "GradientSingleNeighbours",
    "GradientSingleRow",
    "GradientSpan",
    "GradientTruth",
    "RoundDisaggregation",
    "SumMembership",
    "UpdateTruth",
]
