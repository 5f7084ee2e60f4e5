"""The secrets of clients that send models and virtual nodes."""

from __future__ import annotations

from dataclasses import dataclass

from fgl_secure.attacks.base import Truth
from fgl_secure.attacks.truth import moved_on
from fgl_secure.typing import Floats, Ids


@dataclass(frozen=True, slots=True, eq=False)
class VirtualNodeTruth(Truth):
    """Whose summands are whose, and how often labels occur.

    Attributes:
        clients: int64 [K], which client each summand of a round is from, by its place in the record.
        label_shares: float64 [K, C], how often each label occurs among a client's training graphs; None where graphs
            have values in place of labels.
        population: float64 [C], how often each label occurs among all training graphs; None likewise. The null control
            moves labels on.
    """

    clients: Ids
    label_shares: Floats | None = None
    population: Floats | None = None

    def permuted(self, seed: int) -> VirtualNodeTruth:  # noqa: ARG002  # clients and labels move on by one
        """Every client's secrets at the next client, and every label's share at the next label."""
        shares = None if self.label_shares is None else moved_on(self.label_shares)
        return VirtualNodeTruth(
            moved_on(self.clients), shares, None if self.population is None else moved_on(self.population)
        )
