"""Secret Message Passing as HiFGL publishes it, with its flaws."""

from __future__ import annotations

from fgl_secure.protocols.secmp.claim import PUBLISHED_CLAIM
from fgl_secure.protocols.secmp.coding import Mu, Points, silo_decode, source_encode, target_aggregate
from fgl_secure.protocols.secmp.scheme import MuDelivery, SecretMessagePassing

__all__ = [
    "PUBLISHED_CLAIM",
    "Mu",
    "MuDelivery",
    "Points",
    "SecretMessagePassing",
    "silo_decode",
    "source_encode",
    "target_aggregate",
]
