"""Attacks on the structure that clients share: hops, features, queries, gradients and encoders."""

from __future__ import annotations

from fgl_secure.attacks.structure.columns import CombinedColumns
from fgl_secure.attacks.structure.hop_fingerprint import HopFingerprint
from fgl_secure.attacks.structure.hop_shares import HopShares, HopUnfolding
from fgl_secure.attacks.structure.hop_sums import HopSumEdges, HopSumRows
from fgl_secure.attacks.structure.knowledge import CrawledGraph, EmbeddingModel
from fgl_secure.attacks.structure.nsf_edges import NsfCosineEdges, NsfWalkEdges
from fgl_secure.attacks.structure.nsf_identity import NsfAssignment, NsfDegreeHashing, NsfNearest
from fgl_secure.attacks.structure.nsf_labels import NsfLabels, NsfMembership, NsfTrainingLabels
from fgl_secure.attacks.structure.nsf_propagation import NsfPropagation
from fgl_secure.attacks.structure.nsf_topology import NsfDegrees, NsfEgoNets
from fgl_secure.attacks.structure.nsf_walk_degrees import NsfWalkDegrees
from fgl_secure.attacks.structure.query_rowspace import QueryRowSpace
from fgl_secure.attacks.structure.structure_gradients import (
    HopGradientLabels,
    StructureGradientLabels,
    StructureGradientMembership,
    StructureGradientNeighbours,
)
from fgl_secure.attacks.structure.truth import StructureTruth

__all__ = [
    "CombinedColumns",
    "CrawledGraph",
    "EmbeddingModel",
    "HopFingerprint",
    "HopGradientLabels",
    "HopShares",
    "HopSumEdges",
    "HopSumRows",
    "HopUnfolding",
    "NsfAssignment",
    "NsfCosineEdges",
    "NsfDegreeHashing",
    "NsfDegrees",
    "NsfEgoNets",
    "NsfLabels",
    "NsfMembership",
    "NsfNearest",
    "NsfPropagation",
    "NsfTrainingLabels",
    "NsfWalkDegrees",
    "NsfWalkEdges",
    "QueryRowSpace",
    "StructureGradientLabels",
    "StructureGradientMembership",
    "StructureGradientNeighbours",
    "StructureTruth",
]
