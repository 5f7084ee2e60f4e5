"""What everybody knows of how Fed2GNN's hop sums are computed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HopRules:
    """What everybody knows of how hop sums are computed.

    Attributes:
        minimum: least number of clients in a sum; a node with neighbours at fewer other clients goes without any.
        neighbours: most neighbours elsewhere that a node asks about, drawn at random; None where it asks about all.
    """

    minimum: int = 1
    neighbours: int | None = None
