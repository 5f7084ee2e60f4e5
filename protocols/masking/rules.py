"""What a session of pairwise masking was opened with, and when it stops."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from fgl_secure.algebra import PrimeField
from fgl_secure.errors import ProtocolError
from fgl_secure.runtime import Step


class MaskOrigin(StrEnum):
    """Where masks come from."""

    DERIVED = "derived"
    """Expanded by a stream cipher from keys that senders agree on."""
    DRAWN = "drawn"
    """Drawn as they are, agreed on and sealed by ideal means: for enumeration and simulators."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The numbers of a session.

    Attributes:
        field: of the masked vectors.
        senders: m.
        threshold: least senders at every stage.
        needed: shares that open a secret, and equal votes that a sender asks for.
        bound: largest magnitude of one entry.
    """

    field: PrimeField
    senders: int
    threshold: int
    needed: int
    bound: int

    def require(self, found: int, what: str, step: Step) -> None:
        """Raises below the threshold, before anything more is said."""
        if found < self.threshold:
            raise ProtocolError(
                f"at least threshold = {self.threshold} of {self.senders} senders must {what}; "
                f"found {found} in round {step.round}"
            )
