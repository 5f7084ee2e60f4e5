"""What machines of the relay-coded scheme must know of it."""

from __future__ import annotations

from dataclasses import dataclass

from fgl_secure.algebra import PrimeField


@dataclass(frozen=True, slots=True)
class Parameters:
    """Parameters that all parties know.

    Attributes:
        field: of the shares.
        T: degree of the polynomials.
        R: relays.
        k_min: least messages of a sum that is computed.
        anonymous: whether senders are unnamed.
        padding: messages that everybody sends where they are; None takes the most that anybody has to send.
        resends: how often a relay asks a sender again for what another relay holds.
        most_slots: messages of one sender in one step that headers can name.
    """

    field: PrimeField
    T: int
    R: int
    k_min: int
    anonymous: bool
    padding: int | None
    resends: int
    most_slots: int

    @property
    def least(self) -> int:
        """Least messages under a tag for which a relay answers; padding hides the counts from relays."""
        return 1 if self.anonymous else self.k_min
