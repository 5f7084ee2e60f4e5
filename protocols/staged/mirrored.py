"""Staged schemes that promise and allow what a scheme for sums of vectors does, whose mathematics they share."""

from __future__ import annotations

from abc import abstractmethod

from fgl_secure.protocols.lightsecagg import LightSecAgg
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.staged.interface import StagedScheme
from fgl_secure.runtime import Claim, PublicParameters


class Mirrored(StagedScheme):
    """A scheme whose name, claim, limits and thresholds are those of another one."""

    __slots__ = ()

    @property
    @abstractmethod
    def array_level(self) -> PairwiseMasking | LightSecAgg:
        """The scheme for sums of vectors."""

    @property
    def name(self) -> str:
        """That of the scheme for sums of vectors."""
        return self.array_level.name

    @property
    def claim(self) -> Claim:
        """That of the scheme for sums of vectors."""
        return self.array_level.claim

    @property
    def public(self) -> PublicParameters:
        """The field."""
        return self.array_level.public

    def limit(self, terms: int) -> int:
        """(p - 1) / 2."""
        return self.array_level.limit(terms)

    def threshold_for(self, clients: int) -> int:
        """As the scheme for sums of vectors has it."""
        return self.array_level.threshold_for(clients)

    def claim_for(self, clients: int) -> Claim:
        """As the scheme for sums of vectors has it."""
        level = self.array_level
        return level.claim_among(clients)
