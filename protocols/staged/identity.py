"""Where callers of staged sums find `Identity`; it moved to `fgl_secure.protocols.one_sum.identity`."""

from __future__ import annotations

from fgl_secure.protocols.one_sum.identity import IDENTITY_BYTES, SIGNATURE_BYTES, Identities, Identity

__all__ = ["IDENTITY_BYTES", "SIGNATURE_BYTES", "Identities", "Identity"]
