"""What Fed2GNN is compared with (section 5.1): FedAvg, FedAvg on full neighbourhoods, and central training."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from fgl_secure.coins import Coins
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fed2gnn.grouping import check_undirected
from fgl_secure.methods.fed2gnn.preset import Fed2GNNPreset
from fgl_secure.methods.fed2gnn.program import learn_latent, model_of, project_features
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.topology import SERVER
from fgl_secure.training.collectives import Collectives
from fgl_secure.training.job import Job, Task
from fgl_secure.training.node_models import (
    AveragedRounds,
    Matrix,
    Propagation,
    Surroundings,
    backbone_of,
    degree_weights,
)
from fgl_secure.typing import Ids


class Fed2GNNBaseline(StrEnum):
    """Who sees which edges."""

    FEDAVG = "FedAvg"
    """Every client has its own nodes and the edges between them."""
    FULL = "FedAvg-Full"
    """Every client has the whole K-hop neighbourhoods of its own nodes: no information is lost, none is kept."""
    CENTRAL = "Central"
    """One party has everything."""


class VisibleGraphClient(AveragedRounds):
    """One client of a baseline.

    Args:
        comm: the collectives of the run.
        preset: how to train; with a latent map, it is learnt first.
        seen: the nodes and edges that it sees, of all nodes in their order; their features are looked at as well.
        reach: how many hops from its own nodes.
        backbone: "gcn", "sage" or "dagnn".
        seed: of initial weights and dropout.
        device: where model compute runs; the CPU by default.
    """

    def __init__(
        self,
        comm: Collectives,
        preset: Fed2GNNPreset,
        graph: FederatedGraph,
        reach: int,
        *,
        backbone: str = "gcn",
        seed: int = 0,
        device: torch.device | None = None,
    ) -> None:
        model = model_of(backbone, comm.silo.facts, preset, seed)
        super().__init__(comm, preset, model, seed=seed, device=device)
        self.preset = preset
        self._seen, self._reach, self._kind = graph, reach, backbone_of(backbone).propagation

    def begin(self) -> None:
        """Learns the latent map."""
        if self.preset.latent is not None:
            self.kept["latent"] = learn_latent(self.comm, self.preset.latent, seed=self.seed, device=self.device)

    def surroundings(self) -> Surroundings:
        """The nodes that it sees."""
        latent = self.kept.get("latent")
        nodes = nodes_within(self._seen, self.silo.nodes, self._reach)
        features = (
            self._seen.features[nodes] if latent is None else project_features(self._seen.features[nodes], latent)
        )
        return surroundings(self._seen, nodes, features, self._kind, self.device)


def seen_by(graph: FederatedGraph, baseline: Fed2GNNBaseline, hops: int) -> tuple[FederatedGraph, int]:
    """The edges that clients see, and how many hops from their own nodes."""
    check_undirected(graph)
    seen = graph.restricted_to_silos() if baseline is Fed2GNNBaseline.FEDAVG else graph
    return seen, hops if baseline is Fed2GNNBaseline.FULL else 0


def baseline_of(
    graph: FederatedGraph,
    baseline: Fed2GNNBaseline,
    preset: Fed2GNNPreset,
    *,
    scheme: Scheme | None = None,
    backbone: str = "gcn",
    seed: int = 0,
    device: torch.device | None = None,
) -> Job:
    """Clients with one local step a round, on features as they are or, if the preset says so, on the latent map.

    Central training has features as they are: no client needs to get less. Programs hold the graph that they see,
    and so run in one process alone.

    Args:
        graph: who has what; every edge in both directions.
        baseline: who sees which edges.
        preset: how to train.
        scheme: of what clients send the server; in plaintext by default.
        backbone: "gcn", "sage" or "dagnn".
        seed: of initial weights and dropout.
        device: where model compute runs.
    """
    central = baseline is Fed2GNNBaseline.CENTRAL
    graph = graph.in_one_silo() if central else graph
    seen, reach = seen_by(graph, baseline, preset.hops)
    if central:
        preset = replace(preset, latent=None)

    def make(comm: Collectives, _coins: Coins) -> VisibleGraphClient:
        return VisibleGraphClient(comm, preset, seen, reach, backbone=backbone, seed=seed, device=device)

    return Job(Task(make, {SERVER: scheme or Plaintext()}, preset.epochs), graph)


def surroundings(
    graph: FederatedGraph, nodes: Ids, features: NDArray[np.float32], kind: Propagation, device: torch.device
) -> Surroundings:
    """Some nodes int64 [t] and the edges between them, with features float32 [t, d]."""
    place = np.full(graph.num_devices, -1, dtype=np.int64)
    place[nodes] = np.arange(len(nodes))
    edges = place[graph.edges]
    source, target = edges[:, (edges >= 0).all(axis=0)]
    degree = graph.in_degree[nodes].astype(np.float64)
    weights = degree_weights(source, target, np.ones(len(source)), degree, kind)
    return Surroundings(Matrix(sparse.csr_array(features), device), Matrix(weights, device))


def nodes_within(graph: FederatedGraph, own: Ids, reach: int) -> Ids:
    """A client's own nodes, and after them those within so many hops."""
    near = np.zeros(graph.num_devices, dtype=np.bool_)
    near[own] = True
    for _ in range(reach):
        near[graph.edges[0, near[graph.edges[1]]]] = True
    near[own] = False
    return np.concatenate([own, np.flatnonzero(near)])
