"""Relay-coded: shares of every row among relays, which add them up for unnamed groups over standing circuits."""

from __future__ import annotations

from fgl_secure.protocols.relay_coded.scheme import LARGEST_GRADIENT, LARGEST_T, MOST_RELAYS, Profile, RelayCoded, Roles

__all__ = ["LARGEST_GRADIENT", "LARGEST_T", "MOST_RELAYS", "Profile", "RelayCoded", "Roles"]
