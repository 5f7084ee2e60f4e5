"""Sums under CKKS: under a key of the receiver, and under a key that the clients share."""

from __future__ import annotations

from fgl_secure.protocols.ckks.receiver_key import Ckks
from fgl_secure.protocols.ckks.shared_key import SharedKeyCkks

__all__ = ["Ckks", "SharedKeyCkks"]
