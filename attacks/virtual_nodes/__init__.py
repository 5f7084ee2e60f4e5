"""Attacks on what clients of FedVN send to the server."""

from __future__ import annotations

from fgl_secure.attacks.virtual_nodes.clients import VirtualNodeClients
from fgl_secure.attacks.virtual_nodes.knowledge import LocalWork, VirtualSlices
from fgl_secure.attacks.virtual_nodes.labels import VirtualNodeLabels, VirtualNodePopulation
from fgl_secure.attacks.virtual_nodes.truth import VirtualNodeTruth

__all__ = [
    "LocalWork",
    "VirtualNodeClients",
    "VirtualNodeLabels",
    "VirtualNodePopulation",
    "VirtualNodeTruth",
    "VirtualSlices",
]
