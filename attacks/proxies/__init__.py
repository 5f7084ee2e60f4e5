"""Attacks on the structure proxies of FedSpray."""

from __future__ import annotations

from fgl_secure.attacks.proxies.additions import ProxyDifferencing, ProxyLabelChanges, ProxyMembership
from fgl_secure.attacks.proxies.counts import ProxyClasses, ProxyCounts, ProxySingletons
from fgl_secure.attacks.proxies.knowledge import ProxyKnowledge, ProxySlices
from fgl_secure.attacks.proxies.sums import ProxyPartialFractions
from fgl_secure.attacks.proxies.truth import ProxyTruth

__all__ = [
    "ProxyClasses",
    "ProxyCounts",
    "ProxyDifferencing",
    "ProxyKnowledge",
    "ProxyLabelChanges",
    "ProxyMembership",
    "ProxyPartialFractions",
    "ProxySingletons",
    "ProxySlices",
    "ProxyTruth",
]
