"""What Fed2GNN is compared with (section 5.1): FedAvg, FedAvg on full neighbourhoods, and central training."""

from __future__ import annotations

import time
from dataclasses import replace
from enum import StrEnum

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from fgl_secure.coins import SystemCoins
from fgl_secure.graph import FederatedGraph
from fgl_secure.graph.attributed_graph import read_only
from fgl_secure.methods.fed2gnn.averaging import ClientGraph, train_averaged
from fgl_secure.methods.fed2gnn.grouping import check_undirected
from fgl_secure.methods.fed2gnn.latent import learn_latent
from fgl_secure.methods.fed2gnn.models import Matrix, Propagation, Surroundings, backbone_of, degree_weights
from fgl_secure.methods.fed2gnn.preset import Fed2GNNPreset
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.runtime import Channel
from fgl_secure.training.loop import Progress, TrainingResult
from fgl_secure.training.parties import hierarchy_of
from fgl_secure.training.server_sums import CollectiveSums, ServerSums

Ids = NDArray[np.int64]


class Fed2GNNBaseline(StrEnum):
    """Who sees which edges."""

    FEDAVG = "FedAvg"
    """Every client has its own nodes and the edges between them."""
    FULL = "FedAvg-Full"
    """Every client has the whole K-hop neighbourhoods of its own nodes: no information is lost, none is kept."""
    CENTRAL = "Central"
    """One party has everything."""


def baseline_graphs(
    graph: FederatedGraph, baseline: Fed2GNNBaseline, hops: int, kind: Propagation, device: torch.device
) -> list[ClientGraph]:
    """What each client computes on.

    Args:
        graph: who has what; every edge in both directions.
        baseline: who sees which edges.
        hops: K, under `FULL`.
        kind: of propagation.
        device: where model compute runs.
    """
    check_undirected(graph)
    seen = graph.restricted_to_silos() if baseline is Fed2GNNBaseline.FEDAVG else graph
    reach = hops if baseline is Fed2GNNBaseline.FULL else 0
    clients = range(graph.num_silos)
    return [
        ClientGraph.of(graph, client, _surroundings(seen, client, reach, kind, device), device) for client in clients
    ]


def train_fed2gnn_baseline(
    graph: FederatedGraph,
    baseline: Fed2GNNBaseline,
    preset: Fed2GNNPreset,
    *,
    channel: Channel | None = None,
    sums: ServerSums | None = None,
    backbone: str = "gcn",
    seed: int = 0,
    device: torch.device | None = None,
    progress: Progress | None = None,
) -> TrainingResult:
    """Trains with one local step a round, on features as they are or, if the preset says so, on the latent map.

    Central training has features as they are: nobody needs to be told less.

    Args:
        graph: who has what; every edge in both directions.
        baseline: who sees which edges.
        preset: how to train.
        channel: between server and clients; a fresh one by default.
        sums: adds the clients' rows up; in the clear by default.
        backbone: "gcn", "sage" or "dagnn".
        seed: of initial weights and dropout.
        device: where model compute runs.
        progress: called after each round.
    """
    start, place = time.perf_counter(), device or torch.device("cpu")
    graph = graph.in_one_silo() if baseline is Fed2GNNBaseline.CENTRAL else graph
    channel = channel or Channel(hierarchy_of(graph), SystemCoins())
    adding, kind = sums or CollectiveSums(Plaintext(), channel), backbone_of(backbone).propagation
    seen, rounds = graph, 0
    if preset.latent is not None and preset.shared_latent and baseline is not Fed2GNNBaseline.CENTRAL:
        latent = learn_latent(graph, channel, preset.latent, adding, seed=seed, device=place)
        mapped = replace(graph.graph, features=read_only(latent(graph.features)), image_shape=None)
        seen, rounds = replace(graph, graph=mapped), latent.rounds
    clients = baseline_graphs(seen, baseline, preset.hops, kind, place)
    return train_averaged(
        graph,
        clients,
        channel,
        preset,
        adding,
        backbone=backbone,
        seed=seed,
        device=place,
        first=rounds,
        start=start,
        progress=progress,
    )


def _surroundings(
    graph: FederatedGraph, client: int, reach: int, kind: Propagation, device: torch.device
) -> Surroundings:
    nodes = _within(graph, graph.devices_of(client), reach)
    place = np.full(graph.num_devices, -1, dtype=np.int64)
    place[nodes] = np.arange(len(nodes))
    edges = place[graph.edges]
    source, target = edges[:, (edges >= 0).all(axis=0)]
    degree = graph.in_degree[nodes].astype(np.float64)
    weights = degree_weights(source, target, np.ones(len(source)), degree, kind)
    return Surroundings(Matrix(sparse.csr_array(graph.features[nodes]), device), Matrix(weights, device))


def _within(graph: FederatedGraph, own: Ids, reach: int) -> Ids:
    """A client's own nodes, and after them those within so many hops."""
    near = np.zeros(graph.num_devices, dtype=np.bool_)
    near[own] = True
    for _ in range(reach):
        near[graph.edges[0, near[graph.edges[1]]]] = True
    near[own] = False
    return np.concatenate([own, np.flatnonzero(near)])
