"""Attacks on clients' gradients in federated averaging, one by one and summed."""

from __future__ import annotations

from fgl_secure.attacks.gradients.fields import GradientFilter, GradientSpan
from fgl_secure.attacks.gradients.knowledge import Candidates, GradientKnowledge
from fgl_secure.attacks.gradients.labels import GradientLabels
from fgl_secure.attacks.gradients.matching.attacks import (
    DeepLeakage,
    FeaturesAndEdges,
    ImprovedDeepLeakage,
    InvertingGradients,
)
from fgl_secure.attacks.gradients.single import GradientSingleNeighbours, GradientSingleRow
from fgl_secure.attacks.gradients.sums import RoundDisaggregation, SumMembership
from fgl_secure.attacks.gradients.truth import ClientBatch, GradientTruth, UpdateTruth

__all__ = [
    "Candidates",
    "ClientBatch",
    "DeepLeakage",
    "FeaturesAndEdges",
    "GradientFilter",
    "GradientKnowledge",
    "GradientLabels",
    "GradientSingleNeighbours",
    "GradientSingleRow",
    "GradientSpan",
    "GradientTruth",
    "ImprovedDeepLeakage",
    "InvertingGradients",
    "RoundDisaggregation",
    "SumMembership",
    "UpdateTruth",
]
