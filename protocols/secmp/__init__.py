"""Secret Message Passing as HiFGL publishes it, with its flaws."""

from __future__ import annotations

from fgl_secure.protocols.secmp.scheme import PUBLISHED_CLAIM, MuDelivery, SecretMessagePassing
from fgl_secure.protocols.secmp.setting import Mu, Points, silo_decode, source_encode, target_aggregate

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
