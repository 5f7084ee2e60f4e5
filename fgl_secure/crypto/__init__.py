"""Cryptographic primitives, from the `cryptography` package, and from SEAL via TenSEAL for CKKS."""

from __future__ import annotations

from fgl_secure.crypto.streams import FieldStream

__all__ = ["FieldStream"]
