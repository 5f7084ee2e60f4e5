"""Cryptographic primitives, all from the `cryptography` package, shaped for field elements."""

from __future__ import annotations

from fgl_secure.crypto.prg import FieldStream

__all__ = ["FieldStream"]
