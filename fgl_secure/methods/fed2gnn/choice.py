"""What a caller chooses about Fed2GNN's rooted trees."""

from __future__ import annotations

from dataclasses import dataclass

from fgl_secure.errors import InputError


@dataclass(frozen=True, slots=True)
class TreeChoice:
    """The choices of one run that are Fed2GNN's alone.

    Attributes:
        hops: K, layers of the model and of the trees below their roots; None takes the preset's.
        neighbours: d, most neighbours at other clients that a node asks about; None takes the preset's.
    """

    hops: int | None = None
    neighbours: int | None = None

    def check(self) -> None:
        """Raises unless numbers are in range."""
        for name, value in (("hops", self.hops), ("neighbours", self.neighbours)):
            if value is not None and value < 1:
                raise InputError(f"{name} must be at least 1; found {value}")
