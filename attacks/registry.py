"""All attacks by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from fgl_secure.attacks.base import Attack
from fgl_secure.attacks.clear_values import ClearValues
from fgl_secure.attacks.secmp_breaks import AllCodesOfOneSender, OneCodeAndMu, SmallFieldBruteForce
from fgl_secure.attacks.single_neighbour import SingleNeighbourAtDevice, SingleNeighbourAtSilo
from fgl_secure.attacks.subgraph_leakage import VisibleDevices, VisibleEdges
from fgl_secure.errors import UnknownNameError

_ALL: tuple[Attack[Any], ...] = (
    ClearValues(),
    OneCodeAndMu(),
    AllCodesOfOneSender(),
    SmallFieldBruteForce(),
    SingleNeighbourAtSilo(),
    SingleNeighbourAtDevice(),
    VisibleDevices(),
    VisibleEdges(),
)

ATTACKS: Mapping[str, Attack[Any]] = MappingProxyType({attack.card.name: attack for attack in _ALL})


def attack(name: str) -> Attack[Any]:
    """The attack of a name."""
    if name not in ATTACKS:
        raise UnknownNameError("attack", name, tuple(ATTACKS))
    return ATTACKS[name]
