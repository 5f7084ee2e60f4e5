"""All attacks by name: those of this package, and those of packages that are installed beside it.

An attack from outside is an entry point of group `fgl_secure.attacks` that names an `Attack` or a class of one that
needs no argument. Its knowledge, its truth, its scenario and its control are its own, see `Card`.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import EntryPoint
from types import MappingProxyType
from typing import Any

from fgl_secure import plugins
from fgl_secure.attacks.base import Attack, Card
from fgl_secure.attacks.gradients.fields import GradientFilter, GradientSpan
from fgl_secure.attacks.gradients.matching import DeepLeakage, FeaturesAndEdges, ImprovedDeepLeakage, InvertingGradients
from fgl_secure.attacks.gradients.single import GradientLabels, GradientSingleNeighbours, GradientSingleRow
from fgl_secure.attacks.gradients.sums import RoundDisaggregation, SumMembership
from fgl_secure.attacks.message_passing.codes import (
    AllCodesOfOneSender,
    OneCodeAndMu,
    ShareDifferences,
    SharedMask,
    SingleShares,
    SmallFieldBruteForce,
)
from fgl_secure.attacks.message_passing.fingerprint import (
    ContainmentAtDevice,
    ContainmentAtSilo,
    FingerprintAtDevice,
    FingerprintAtSilo,
)
from fgl_secure.attacks.message_passing.messages import (
    ClearValues,
    DeviceGradients,
    MessageCountsAtRelay,
    MessageCountsAtSilo,
    VisibleDevices,
    VisibleEdges,
)
from fgl_secure.attacks.message_passing.relay_patterns import SilentPairs, SilentPartners, SiloPattern, TagMatching
from fgl_secure.attacks.message_passing.sums import (
    DifferencingAtDevice,
    DifferencingAtSilo,
    MaliciousSingleNeighbour,
    SingleNeighbourAtDevice,
    SingleNeighbourAtSilo,
)
from fgl_secure.attacks.proxies.additions import ProxyDifferencing, ProxyLabelChanges, ProxyMembership
from fgl_secure.attacks.proxies.counts import ProxyClasses, ProxyCounts, ProxySingletons
from fgl_secure.attacks.proxies.fractions import ProxyPartialFractions
from fgl_secure.attacks.rooted_trees import (
    HopFeatureDifferencing,
    HopFeatureEdges,
    HopFeatureSingle,
    HopFeatureTopology,
)
from fgl_secure.attacks.structure.columns import CombinedColumns
from fgl_secure.attacks.structure.hop_sums import HopSumEdges, HopSumRows, QueryRowSpace
from fgl_secure.attacks.structure.hops import HopFingerprint, HopShares, HopUnfolding
from fgl_secure.attacks.structure.nsf_edges import NsfCosineEdges, NsfWalkEdges
from fgl_secure.attacks.structure.nsf_identity import NsfAssignment, NsfDegreeHashing, NsfNearest, NsfPropagation
from fgl_secure.attacks.structure.nsf_predictions import (
    NsfDegrees,
    NsfEgoNets,
    NsfLabels,
    NsfMembership,
    NsfTrainingLabels,
)
from fgl_secure.attacks.structure.nsf_walk_degrees import NsfWalkDegrees
from fgl_secure.attacks.structure.structure_gradients import (
    HopGradientLabels,
    StructureGradientLabels,
    StructureGradientMembership,
    StructureGradientNeighbours,
)
from fgl_secure.attacks.virtual_nodes.clients import VirtualNodeClients
from fgl_secure.attacks.virtual_nodes.labels import VirtualNodeLabels, VirtualNodePopulation
from fgl_secure.errors import InputError, UnknownNameError

GROUP = "fgl_secure.attacks"
"""Of entry points, each of which names an attack."""

IN_TREE: tuple[Attack[Any, Any], ...] = (
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
    SiloPattern(),
    SilentPartners(),
    SilentPairs(),
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


PAGES: Mapping[str, str] = MappingProxyType({
    "message_passing": "docs/message_passing.md",
    "structure": "docs/fedstruct.md",
    "proxies": "docs/fedspray.md",
    "rooted_trees": "docs/fed2gnn.md",
    "virtual_nodes": "docs/fedvn.md",
    "gradients": "docs/results/gradients.md",
})  # fmt: skip
"""The page on each family of attacks."""


def page_on(each: Attack[Any, Any]) -> str:
    """The page on an attack; "" for one from outside whose card names none."""
    if each.card.page:
        return each.card.page
    package, _, inside = type(each).__module__.partition(".attacks.")
    return PAGES.get(inside.partition(".")[0], "") if package == "fgl_secure" else ""


def attacks() -> Mapping[str, Attack[Any, Any]]:
    """All attacks by name, those of this package first.

    Raises:
        InputError: an entry point names something else than an attack, or two attacks have one name.
    """
    found: dict[str, Attack[Any, Any]] = {}
    for each in (*IN_TREE, *(_loaded(point) for point in plugins.installed_plugins(GROUP))):
        name = each.card.name
        if name in found:
            kinds = " and ".join(f"{type(one).__module__}.{type(one).__qualname__}" for one in (found[name], each))
            raise InputError(f"attack must have a name of its own; found {name} for {kinds}")
        found[name] = each
    return MappingProxyType(found)


def attack(name: str) -> Attack[Any, Any]:
    """The attack of a name.

    Raises:
        UnknownNameError: there is none.
        InputError: see `attacks`.
    """
    known = attacks()
    if name not in known:
        raise UnknownNameError("attack", name, tuple(known))
    return known[name]


def names() -> tuple[str, ...]:
    """The names of all attacks, see `attacks`."""
    return tuple(attacks())


def _loaded(point: EntryPoint) -> Attack[Any, Any]:
    """The attack that an entry point names."""
    named = plugins.load_plugin(point)
    try:
        made = named() if isinstance(named, type) else named
    except Exception as error:
        raise InputError(
            f"entry point {point.name} of {GROUP} must name an attack that is made without arguments; found {error!r}"
        ) from error
    if not isinstance(made, Attack):
        raise InputError(f"entry point {point.name} of {GROUP} must name an attack; found {point.value}")
    if not isinstance(made.card, Card):
        raise InputError(f"card of {point.value} must be a Card; found {made.card!r}")
    return made
