"""Sums under CKKS: under a key of the receiver, and under a key that the clients share."""

from __future__ import annotations

from fgl_secure.protocols.ckks.scheme import Ckks, SharedKeyCkks

__all__ = ["Ckks", "SharedKeyCkks"]
