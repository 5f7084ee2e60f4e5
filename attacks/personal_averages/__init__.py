"""Attacks on what clients tell each other for weighted averages of their models, one for each of them."""

from __future__ import annotations

from fgl_secure.attacks.personal_averages.embeddings import FunctionalEmbeddings
from fgl_secure.attacks.personal_averages.knowledge import AverageRules
from fgl_secure.attacks.personal_averages.models import AverageClasses, WeightedModels
from fgl_secure.attacks.personal_averages.truth import ModelTruth

__all__ = ["AverageClasses", "AverageRules", "FunctionalEmbeddings", "ModelTruth", "WeightedModels"]
