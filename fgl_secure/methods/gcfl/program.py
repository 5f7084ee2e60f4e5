"""GCFL+ as one client runs it: federated averaging with a mean for each cluster, and a norm for each client.

Each client puts its update into its cluster's part of one sum, and zeros into the others', so that the sum has the mean
update of every cluster and no single one; and the norm of its update at its own place into another. From both all
parties work out alike which cluster splits: see `Clusters`. Published is that the server gets every update, and splits
with those of the round at hand; here a split holds from the next round on, for means are known after the sum alone. A
cluster's step is that of federated averaging here, of Adam along its mean (FedAdam), and an update is the sum of the
gradients of local steps; published are differences of weights after an epoch of Adam at each client. With one local
step the norm is that of a gradient.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fgl_secure.methods.fedavg.training import FedAvg
from fgl_secure.methods.gcfl.clusters import ClusterRule, Clusters
from fgl_secure.runtime.packing import Array, Arrays, under, within
from fgl_secure.training.calls import Reals
from fgl_secure.training.collectives import Collectives
from fgl_secure.training.presets import Preset


class Clustered(FedAvg):
    """One client's copy of its cluster's model.

    Args:
        talk: the collectives of the run.
        preset: how to train.
        rule: when a cluster splits.
        rest: as for `FedAvg`.

    Attributes:
        clusters: who averages with whom.
    """

    def __init__(self, talk: Collectives, preset: Preset, *rest: Any, rule: ClusterRule, **more: Any) -> None:
        super().__init__(talk, preset, *rest, **more)
        self.clusters = Clusters(talk.silo.facts.silos, rule)

    def _mean(self, update: Array, weight: int, number: int) -> Reals:
        """The mean update of the own cluster; clusters are split behind it."""
        silo, clusters = self.silo, self.clusters
        share, own = weight / silo.facts.nodes, np.arange(clusters.count) == clusters.of[silo.silo]
        means, _ = self.talk.ratios([share * update.astype(np.float64) * mine for mine in own], share * own)
        norms = np.zeros(silo.facts.silos)
        norms[silo.silo] = np.linalg.norm(update.astype(np.float64))
        with self.talk.evaluation():
            told, _ = self.talk.server(norms)
        mine = means[int(clusters.of[silo.silo])]
        clusters.see(number, told, np.array([np.linalg.norm(mean) for mean in means]))
        return mine

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
