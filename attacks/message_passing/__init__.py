"""Attacks on neighbourhood sums between devices: codes, sums, tags, relays, message counts and gradients."""

from __future__ import annotations

from fgl_secure.attacks.message_passing.codes import AllCodesOfOneSender, OneCodeAndMu, SmallFieldBruteForce
from fgl_secure.attacks.message_passing.device_gradients import DeviceGradients
from fgl_secure.attacks.message_passing.differencing import DifferencingAtDevice, DifferencingAtSilo
from fgl_secure.attacks.message_passing.fingerprint import (
    ContainmentAtDevice,
    ContainmentAtSilo,
    FingerprintAtDevice,
    FingerprintAtSilo,
)
from fgl_secure.attacks.message_passing.knowledge import PublicRows
from fgl_secure.attacks.message_passing.messages import (
    ClearValues,
    MessageCountsAtRelay,
    MessageCountsAtSilo,
    VisibleDevices,
    VisibleEdges,
)
from fgl_secure.attacks.message_passing.relays import ShareDifferences, SharedMask, SingleShares
from fgl_secure.attacks.message_passing.silent_devices import SilentPairs, SilentPartners
from fgl_secure.attacks.message_passing.silo_pattern import SiloPattern
from fgl_secure.attacks.message_passing.single_neighbour import (
    MaliciousSingleNeighbour,
    SingleNeighbourAtDevice,
    SingleNeighbourAtSilo,
)
from fgl_secure.attacks.message_passing.tag_matching import TagMatching
from fgl_secure.attacks.message_passing.truth import MessageTruth

__all__ = [
    "AllCodesOfOneSender",
    "ClearValues",
    "ContainmentAtDevice",
    "ContainmentAtSilo",
    "DeviceGradients",
    "DifferencingAtDevice",
    "DifferencingAtSilo",
    "FingerprintAtDevice",
    "FingerprintAtSilo",
    "MaliciousSingleNeighbour",
    "MessageCountsAtRelay",
    "MessageCountsAtSilo",
    "MessageTruth",
    "OneCodeAndMu",
    "PublicRows",
    "ShareDifferences",
    "SharedMask",
    "SilentPairs",
    "SilentPartners",
    "SiloPattern",
    "SingleNeighbourAtDevice",
    "SingleNeighbourAtSilo",
    "SingleShares",
    "SmallFieldBruteForce",
    "TagMatching",
    "VisibleDevices",
    "VisibleEdges",
]
