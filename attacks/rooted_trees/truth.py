"""The secrets of clients that sum features hop by hop."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import NDArray

from fgl_secure.attacks.base import Truth
from fgl_secure.graph import FederatedGraph, within_silos
from fgl_secure.typing import Ids


@dataclass(frozen=True, slots=True, eq=False)
class TreeTruth(Truth):
    """Edges and feature rows.

    Attributes:
        silo_of: int64 [n], the silo index of each device.
        edges: int64 [2, m], source above target, device indices.
        features: float [n, d], what each node puts into the first hop.
    """

    silo_of: Ids
    edges: Ids
    features: NDArray[Any]

    @classmethod
    def of(cls, graph: FederatedGraph, features: NDArray[Any]) -> TreeTruth:
        """The truth of a graph whose nodes put given rows float [n, d] into the first hop."""
        return cls(graph.silo_of, graph.edges, features)

    def permuted(self, seed: int) -> TreeTruth:
        """The devices of each silo shuffled among themselves."""
        swap = within_silos(self.silo_of, seed)
        return replace(self, edges=swap[self.edges], features=self.features[swap])
