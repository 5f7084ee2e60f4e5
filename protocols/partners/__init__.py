"""Who exchanges rows with whom: neighbours agree on partners, of whom nobody has more than D."""

from __future__ import annotations

from fgl_secure.protocols.partners.agreement import Partners, agree

__all__ = ["Partners", "agree"]
