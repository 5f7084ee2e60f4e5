"""Sums in plaintext: the oracle of correctness, and the unprotected run that attacks must break."""

from __future__ import annotations

from fgl_secure.protocols.plaintext.scheme import Path, Plaintext

__all__ = ["Path", "Plaintext"]
