"""GCFL+ on FedSpray's networks, a mean of networks for each cluster of clients; and the clients of all baselines."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from fgl_reproduction.methods.gcfl.clusters import ClusterRule, Clusters
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fedspray.baselines import Baseline, PlainClient
from fgl_secure.methods.fedspray.preset import FedSprayPreset
from fgl_secure.methods.fedspray.scoring import chosen
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.runtime.packing import Array, Arrays, under, within
from fgl_secure.training.job import Job
from fgl_secure.training.parameters import flat, overwrite
from fgl_secure.training.rounds import Figures
from fgl_secure.training.server_sums import FRACTION_BITS

PUBLISHED = ClusterRule(least=1)
"""The defaults of GCFL+'s public code; FedSpray does not say what it took."""


class ClusteredClient(PlainClient):
    """One client whose network is the mean of its cluster's: see `fgl_reproduction.methods.gcfl.clusters`.

    Norms are of how far networks went in a round, and a split holds from the next round on.

    Args:
        given: as for `PlainClient`.
        rule: when a cluster splits.

    Attributes:
        clusters: who averages with whom.
    """

    def __init__(self, *given: Any, rule: ClusterRule = PUBLISHED, **more: Any) -> None:
        super().__init__(*given, **more)
        self.clusters = Clusters(self.silo.facts.silos, rule)
        self.kept["means"] = flat(self._averaged)[None]

    def _federated(self, loss: float, number: int) -> Figures:
        """The mean network of the own cluster, weighted by nodes; and clusters are split."""
        silo, clusters, before = self.silo.silo, self.clusters, self.kept["means"]
        own, cluster = flat(self._averaged).astype(np.float64), int(clusters.of[silo])
        mine = len(self.silo.nodes) / self.silo.facts.nodes * (np.arange(clusters.count) == cluster)
        means, figures = self.added(loss, [own * each for each in mine], mine)
        norms = np.zeros(len(clusters.of))
        norms[silo] = np.linalg.norm(own - before[cluster])
        with self.talk.evaluation():
            told, _ = self.talk.server(norms, grid=self.talk.grid(FRACTION_BITS))
        found, of = np.stack(means).astype(np.float32), clusters.of.copy()
        clusters.see(number, told, np.linalg.norm(found - before, axis=1))
        _, first = np.unique(clusters.of, return_index=True)
        self.kept["means"] = found[of[first]]
        overwrite(self._averaged, found[cluster])
        return figures

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


def plain_clients(
    baseline: Baseline,
    graph: FederatedGraph,
    scheme: Scheme,
    preset: FedSprayPreset,
    *,
    backbone: str = "gcn",
    seed: int = 0,
    device: torch.device | None = None,
) -> Job:
    """The clients of a baseline; arguments as for `clients_of`."""
    kind = ClusteredClient if baseline is Baseline.GCFL else PlainClient
    return chosen(
        graph,
        scheme,
        preset,
        lambda talk, _: kind(talk, preset, baseline, backbone=backbone, seed=seed, device=device),
    )
