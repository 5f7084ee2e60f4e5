"""Which runs attacks on rooted trees read, which they must break, and what attackers may know beside their views."""

from __future__ import annotations

from dataclasses import dataclass, field

from fgl_secure.typing import Ids

HOP_SUMS = "sums of features, hop by hop"
"""Scenario: what clients of Fed2GNN exchange to build rooted trees."""

FED2GNN = "fed2gnn in the clear, Louvain partition"
"""Control, as Fed2GNN makes it."""


@dataclass(frozen=True, slots=True)
class HopRules:
    """What everybody knows of how hop sums are computed.

    Attributes:
        minimum: least number of clients in a sum; a node with neighbours at fewer other clients goes without any.
        neighbours: most neighbours elsewhere that a node asks about, drawn at random; None where it asks about all.
    """

    minimum: int = 1
    neighbours: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class PublicTopology:
    """A graph whose edges are public, though its features are not.

    Attributes:
        edges: int64 [2, m], both directions, by device index.
        owners: int64 [n], the index of the client that each node belongs to.
        rules: how hop sums are computed.
    """

    edges: Ids
    owners: Ids
    rules: HopRules = field(default_factory=HopRules)
