"""What a caller chooses about FedVN's virtual nodes."""

from __future__ import annotations

from dataclasses import dataclass

from fgl_secure.errors import InputError


@dataclass(frozen=True, slots=True)
class VirtualChoice:
    """The choices of one run that are FedVN's alone.

    Attributes:
        virtual_nodes: M; None takes the preset's.
    """

    virtual_nodes: int | None = None

    def check(self) -> None:
        """Raises unless numbers are in range."""
        if self.virtual_nodes is not None and self.virtual_nodes < 1:
            raise InputError(f"virtual_nodes must be at least 1; found {self.virtual_nodes}")
