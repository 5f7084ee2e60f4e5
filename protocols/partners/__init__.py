"""Who exchanges rows with whom: neighbours agree on partners, and no device has more than D."""

from __future__ import annotations

from fgl_secure.protocols.partners.agreement import Partners, agree

__all__ = ["Partners", "agree"]
