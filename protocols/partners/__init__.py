"""Who exchanges rows with whom: neighbours agree on partners, of whom nobody has more than D."""

from __future__ import annotations

from fgl_secure.protocols.partners.agreement import Partners, agree
from fgl_secure.protocols.partners.settings import Partnering, SmallGroups

__all__ = ["Partnering", "Partners", "SmallGroups", "agree"]
