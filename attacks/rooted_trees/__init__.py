"""Attacks on the hop sums by which clients of Fed2GNN build rooted trees."""

from __future__ import annotations

from fgl_secure.attacks.rooted_trees.differencing import HopFeatureDifferencing, HopFeatureEdges, HopFeatureTopology
from fgl_secure.attacks.rooted_trees.knowledge import HopRules, PublicTopology
from fgl_secure.attacks.rooted_trees.single import HopFeatureSingle
from fgl_secure.attacks.rooted_trees.truth import TreeTruth

__all__ = [
    "HopFeatureDifferencing",
    "HopFeatureEdges",
    "HopFeatureSingle",
    "HopFeatureTopology",
    "HopRules",
    "PublicTopology",
    "TreeTruth",
]
