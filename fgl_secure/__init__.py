"""Secure computation, leakage measurement and privacy tests for federated graph learning."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fgl_secure.aggregation.aggregator import SecureAggregator

try:
    __version__ = version("fgl-secure")
except PackageNotFoundError:  # a source tree on the path, not installed
    __version__ = "0+unknown"

__all__ = ["SecureAggregator", "__version__"]


def __getattr__(name: str) -> object:
    """Loads the aggregator when it is asked for: it takes torch, and `fgl-secure --help` should not."""
    if name != "SecureAggregator":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from fgl_secure.aggregation.aggregator import SecureAggregator  # noqa: PLC0415

    return SecureAggregator
