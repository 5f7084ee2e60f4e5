"""Relay-coded: shares of every row among relays, which add them up under tags of unnamed targets."""

from __future__ import annotations

from fgl_secure.protocols.relay_coded.scheme import (
    LARGEST_GRADIENT,
    LARGEST_T,
    MOST_RELAYS,
    Profile,
    RelayCoded,
    Roles,
    Tagging,
)

__all__ = ["LARGEST_GRADIENT", "LARGEST_T", "MOST_RELAYS", "Profile", "RelayCoded", "Roles", "Tagging"]
