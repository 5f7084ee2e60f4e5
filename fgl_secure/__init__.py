"""Secure computation, leakage measurement and privacy tests for federated graph learning."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("fgl-secure")
except PackageNotFoundError:  # a source tree on the path, not installed
    __version__ = "0+unknown"

__all__ = ["__version__"]
