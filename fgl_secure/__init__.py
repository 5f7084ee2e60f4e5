"""Secure computation, leakage measurement and privacy tests for federated graph learning.

from fgl_secure import audit

audit(data, silos="louvain:5", scheme="relay-coded").write("report")    # PyTorch Geometric's Data, or a name
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fgl_secure import attacks, methods, schemes
    from fgl_secure.aggregation.aggregator import SecureAggregator
    from fgl_secure.algebra import FixedPoint, LagrangeCode, PrimeField
    from fgl_secure.dp import perturb
    from fgl_secure.graph import Data, FederatedGraph
    from fgl_secure.hierarchy import Hierarchy
    from fgl_secure.protocols.ckks.scheme import ckks_sum
    from fgl_secure.public import audit, audit_seeds, train

try:
    __version__ = version("fgl-secure")
except PackageNotFoundError:  # a source tree on the path, not installed
    __version__ = "0+unknown"

_PLACES = MappingProxyType({
    "SecureAggregator": "fgl_secure.aggregation.aggregator",
    "FixedPoint": "fgl_secure.algebra",
    "Hierarchy": "fgl_secure.hierarchy",
    "LagrangeCode": "fgl_secure.algebra",
    "PrimeField": "fgl_secure.algebra",
    "audit": "fgl_secure.public",
    "audit_seeds": "fgl_secure.public",
    "ckks_sum": "fgl_secure.protocols.ckks.scheme",
    "perturb": "fgl_secure.dp",
    "train": "fgl_secure.public",
    "Data": "fgl_secure.graph",
    "FederatedGraph": "fgl_secure.graph",
})  # fmt: skip
_MODULES = MappingProxyType({
    "attacks": "fgl_secure.attacks",
    "methods": "fgl_secure.methods",
    "schemes": "fgl_secure.schemes",
})  # fmt: skip

__all__ = [
    "Data",
    "FederatedGraph",
    "FixedPoint",
    "Hierarchy",
    "LagrangeCode",
    "PrimeField",
    "SecureAggregator",
    "__version__",
    "attacks",
    "audit",
    "audit_seeds",
    "ckks_sum",
    "methods",
    "perturb",
    "schemes",
    "train",
]


def __getattr__(name: str) -> object:
    """Loads a part of the public interface when it is asked for: most take torch, which `--help` should not."""
    if name in _MODULES:
        return import_module(_MODULES[name])
    if name in _PLACES:
        return getattr(import_module(_PLACES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
