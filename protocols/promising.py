"""What every scheme says of itself, whatever it computes."""

from __future__ import annotations

from abc import ABC, abstractmethod

from fgl_secure.runtime import Claim, PublicParameters


class Promising(ABC):
    """Something with a name and a claim."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name in lists, records and on the command line, parameters included where they differ from default."""

    @property
    @abstractmethod
    def claim(self) -> Claim:
        """What the scheme promises, admits and assumes."""

    @property
    @abstractmethod
    def public(self) -> PublicParameters:
        """What everybody knows of the scheme, attackers included."""
