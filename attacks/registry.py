"""All attacks by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from fgl_secure.attacks.adjacency_columns import CombinedColumns
from fgl_secure.attacks.base import Attack
from fgl_secure.attacks.clear_values import ClearValues
from fgl_secure.attacks.containment import ContainmentAtDevice, ContainmentAtSilo
from fgl_secure.attacks.device_gradients import DeviceGradients
from fgl_secure.attacks.differencing import DifferencingAtDevice, DifferencingAtSilo
from fgl_secure.attacks.fingerprint import FingerprintAtDevice, FingerprintAtSilo
from fgl_secure.attacks.gradient_filter import GradientFilter
from fgl_secure.attacks.gradient_labels import GradientLabels
from fgl_secure.attacks.gradient_matching.attacks import (
    DeepLeakage,
    FeaturesAndEdges,
    ImprovedDeepLeakage,
    InvertingGradients,
)
from fgl_secure.attacks.gradient_single import GradientSingleRow
from fgl_secure.attacks.gradient_single_neighbours import GradientSingleNeighbours
from fgl_secure.attacks.gradient_span import GradientSpan
from fgl_secure.attacks.hop_feature_differencing import HopFeatureDifferencing, HopFeatureTopology
from fgl_secure.attacks.hop_feature_edges import HopFeatureEdges
from fgl_secure.attacks.hop_feature_single import HopFeatureSingle
from fgl_secure.attacks.hop_fingerprint import HopFingerprint
from fgl_secure.attacks.hop_gradients import HopGradientLabels
from fgl_secure.attacks.hop_shares import HopShares
from fgl_secure.attacks.hop_sum_edges import HopSumEdges
from fgl_secure.attacks.hop_sums import HopSumRows
from fgl_secure.attacks.hop_unfolding import HopUnfolding
from fgl_secure.attacks.malicious_device import MaliciousSingleNeighbour
from fgl_secure.attacks.message_counts import MessageCountsAtRelay, MessageCountsAtSilo
from fgl_secure.attacks.nsf_edges import NsfCosineEdges, NsfWalkEdges
from fgl_secure.attacks.nsf_identity import NsfAssignment, NsfDegreeHashing, NsfNearest
from fgl_secure.attacks.nsf_labels import NsfLabels, NsfMembership, NsfTrainingLabels
from fgl_secure.attacks.nsf_propagation import NsfPropagation
from fgl_secure.attacks.nsf_topology import NsfDegrees, NsfEgoNets
from fgl_secure.attacks.nsf_walk_degrees import NsfWalkDegrees
from fgl_secure.attacks.proxy_classes import ProxyClasses
from fgl_secure.attacks.proxy_counts import ProxyCounts
from fgl_secure.attacks.proxy_differencing import ProxyDifferencing, ProxyLabelChanges
from fgl_secure.attacks.proxy_membership import ProxyMembership
from fgl_secure.attacks.proxy_partial_fractions import ProxyPartialFractions
from fgl_secure.attacks.proxy_singletons import ProxySingletons
from fgl_secure.attacks.query_rowspace import QueryRowSpace
from fgl_secure.attacks.relay_shares import ShareDifferences, SingleShares
from fgl_secure.attacks.round_disaggregation import RoundDisaggregation
from fgl_secure.attacks.secmp_breaks import AllCodesOfOneSender, OneCodeAndMu, SmallFieldBruteForce
from fgl_secure.attacks.shared_mask import SharedMask
from fgl_secure.attacks.single_neighbour import SingleNeighbourAtDevice, SingleNeighbourAtSilo
from fgl_secure.attacks.structure_gradients import (
    StructureGradientLabels,
    StructureGradientMembership,
    StructureGradientNeighbours,
)
from fgl_secure.attacks.subgraph_leakage import VisibleDevices, VisibleEdges
from fgl_secure.attacks.sum_membership import SumMembership
from fgl_secure.attacks.tag_matching import TagMatching
from fgl_secure.attacks.virtual_node_clients import VirtualNodeClients
from fgl_secure.attacks.virtual_node_labels import VirtualNodeLabels
from fgl_secure.attacks.virtual_node_population import VirtualNodePopulation
from fgl_secure.errors import UnknownNameError

_ALL: tuple[Attack[Any], ...] = (
    ClearValues(),
    SharedMask(),
    OneCodeAndMu(),
    AllCodesOfOneSender(),
    SmallFieldBruteForce(),
    SingleNeighbourAtSilo(),
    SingleNeighbourAtDevice(),
    VisibleDevices(),
    VisibleEdges(),
    DifferencingAtSilo(),
    DifferencingAtDevice(),
    FingerprintAtSilo(),
    FingerprintAtDevice(),
    ContainmentAtSilo(),
    ContainmentAtDevice(),
    DeviceGradients(),
    MessageCountsAtSilo(),
    MessageCountsAtRelay(),
    TagMatching(),
    SingleShares(),
    ShareDifferences(),
    MaliciousSingleNeighbour(),
    HopShares(),
    HopUnfolding(),
    HopFingerprint(),
    CombinedColumns(),
    QueryRowSpace(),
    HopSumRows(),
    HopSumEdges(),
    HopGradientLabels(),
    NsfDegrees(),
    NsfEgoNets(),
    NsfNearest(),
    NsfAssignment(),
    NsfDegreeHashing(),
    NsfPropagation(),
    NsfWalkDegrees(),
    NsfWalkEdges(),
    NsfCosineEdges(),
    NsfLabels(),
    NsfTrainingLabels(),
    NsfMembership(),
    StructureGradientLabels(),
    StructureGradientMembership(),
    StructureGradientNeighbours(),
    ProxyClasses(),
    ProxyCounts(),
    ProxyPartialFractions(),
    ProxySingletons(),
    ProxyDifferencing(),
    ProxyLabelChanges(),
    ProxyMembership(),
    HopFeatureSingle(),
    HopFeatureDifferencing(),
    HopFeatureTopology(),
    HopFeatureEdges(),
    VirtualNodeLabels(),
    VirtualNodePopulation(),
    VirtualNodeClients(),
    GradientLabels(),
    GradientSingleRow(),
    GradientSingleNeighbours(),
    GradientSpan(),
    GradientFilter(),
    DeepLeakage(),
    ImprovedDeepLeakage(),
    InvertingGradients(),
    FeaturesAndEdges(),
    SumMembership(),
    RoundDisaggregation(),
)

ATTACKS: Mapping[str, Attack[Any]] = MappingProxyType({attack.card.name: attack for attack in _ALL})


def attack(name: str) -> Attack[Any]:
    """The attack of a name."""
    if name not in ATTACKS:
        raise UnknownNameError("attack", name, tuple(ATTACKS))
    return ATTACKS[name]
