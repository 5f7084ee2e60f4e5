"""The secrets of a graph whose structure clients share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.base import Truth
from fgl_secure.graph import FederatedGraph, within_silos
from fgl_secure.runtime import Directory, Step
from fgl_secure.typing import Ids


@dataclass(frozen=True, slots=True, eq=False)
class StructureTruth(Truth):
    """Edges, labels, who is labelled, who is who, and structure embeddings.

    Attributes:
        parties: numbering of the parties.
        silo_of: int64 [n], the silo index of each device.
        edges: int64 [2, m], source above target, device indices.
        labels: int64 [n], the label of each device.
        labelled: bool [n], the devices whose labels train the model.
        identity: int64 [n], which device an outsider's list calls by each index.
        embeddings: for each step, [n, d], what enters the sums.
    """

    parties: Directory
    silo_of: Ids
    edges: Ids
    labels: Ids
    labelled: NDArray[np.bool_]
    identity: Ids
    embeddings: Mapping[Step, NDArray[Any]] = field(default_factory=dict)

    @classmethod
    def of(
        cls, parties: Directory, graph: FederatedGraph, embeddings: Mapping[Step, NDArray[Any]] | None = None
    ) -> StructureTruth:
        """The truth of a graph whose nodes an outsider's list calls by their own index.

        Args:
            parties: numbering of the parties.
            graph: who has what.
            embeddings: what enters the sums, by step; nothing unless given.
        """
        everyone = np.arange(graph.num_devices, dtype=np.int64)
        labelled = graph.train_mask.copy()
        return cls(parties, graph.silo_of, graph.edges, graph.labels, labelled, everyone, embeddings or {})

    def permuted(self, seed: int) -> StructureTruth:
        """The devices of each silo shuffled among themselves."""
        swap = within_silos(self.silo_of, seed)
        return replace(
            self,
            edges=swap[self.edges],
            labels=self.labels[swap],
            labelled=self.labelled[swap],
            identity=self.identity[swap],
            embeddings={step: rows[swap] for step, rows in self.embeddings.items()},
        )
