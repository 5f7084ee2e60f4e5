"""GCFL+ (NeurIPS 2021) on sets of graphs, a line of FedVN's Table 1: a mean of models for each cluster of clients."""

from __future__ import annotations

from typing import Any

import numpy as np

from fgl_reproduction.methods.gcfl.clusters import ClusterRule, Clusters
from fgl_secure.methods.fedvn.program import UNIT, FedVN
from fgl_secure.runtime.packing import Array, Arrays, under, within
from fgl_secure.training.parameters import flat, overwrite
from fgl_secure.training.server_sums import FRACTION_BITS

PUBLISHED = ClusterRule(least=1)
"""The defaults of GCFL+'s public code; FedVN does not say what it took."""


class Clustered(FedVN):
    """One client whose model is the mean of its cluster's: see `fgl_reproduction.methods.gcfl.clusters`.

    Norms are of how far models went in a round, and a split holds from the next round on.

    Args:
        given: as for `FedVN`.
        rule: when a cluster splits.

    Attributes:
        clusters: who averages with whom.
    """

    def __init__(self, *given: Any, rule: ClusterRule = PUBLISHED, **more: Any) -> None:
        super().__init__(*given, **more)
        self.clusters = Clusters(self.silo.facts.silos, rule)
        self.kept["means"] = flat(self.shared)[None]

    def _federated(self, loss: float) -> float:
        """The mean model of the own cluster, weighted by training graphs; and clusters are split."""
        silo, clusters, before = self.silo.silo, self.clusters, self.kept["means"]
        own, cluster = flat(self.shared).astype(np.float64), int(clusters.of[silo])
        weight = len(self._training) / self._held.graphs
        mine = weight * (np.arange(clusters.count) == cluster)
        parts = [*(own * each for each in mine), np.array([weight * loss / UNIT])]
        (*means, told), _ = self.talk.ratios(parts, np.append(mine, weight), grid=self.talk.grid(FRACTION_BITS))
        norms = np.zeros(len(clusters.of))
        norms[silo] = np.linalg.norm(own - before[cluster])
        with self.talk.evaluation():
            all_norms, _ = self.talk.server(norms, grid=self.talk.grid(FRACTION_BITS))
        found, of = np.stack(means).astype(np.float32), clusters.of.copy()
        clusters.see(len(self.losses), all_norms, np.linalg.norm(found - before, axis=1))
        _, first = np.unique(clusters.of, return_index=True)
        self.kept["means"] = found[of[first]]
        overwrite(self.shared, found[cluster])
        return float(told[0]) * UNIT

    @property
    def report(self) -> dict[str, Array]:
        """As of all training, and which cluster each client is in after the last round."""
        return {**super().report, "clusters": self.clusters.of.copy()}

    def state(self) -> dict[str, Array]:
        """The clusters, too."""
        return {**super().state(), **under("clusters", self.clusters.state())}

    def restore(self, state: Arrays) -> None:
        """Goes on where a state was taken."""
        super().restore(state)
        self.clusters.restore(within("clusters", state))
