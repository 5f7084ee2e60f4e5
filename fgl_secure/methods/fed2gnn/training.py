"""Fed2GNN from the first message to the last."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fed2gnn.averaging import ClientGraph, train_averaged
from fgl_secure.methods.fed2gnn.completed_graph import complete, roots_of, sent_values
from fgl_secure.methods.fed2gnn.decoder import Decoder
from fgl_secure.methods.fed2gnn.grouping import agreed_neighbours, check_undirected
from fgl_secure.methods.fed2gnn.hop_sums import HopExchange, HopSums, RowRange
from fgl_secure.methods.fed2gnn.latent import learn_latent
from fgl_secure.methods.fed2gnn.models import Propagation, backbone_of
from fgl_secure.methods.fed2gnn.neighbourhoods import own_neighbourhoods
from fgl_secure.methods.fed2gnn.preset import Fed2GNNPreset
from fgl_secure.methods.fed2gnn.tree_levels import Children, DecodedChildren, TrueChildren
from fgl_secure.methods.fedstruct.hop_exchange import note_own_graph
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.runtime import Channel, Step
from fgl_secure.training.loop import Progress, TrainingResult
from fgl_secure.training.parties import hierarchy_of
from fgl_secure.training.server_sums import ServerSums

Ids = NDArray[np.int64]
Reals = NDArray[np.float64]

TINY = 1e-12
APART = 1_000_003
"""How far apart the seeds of clients' decoders are."""


@dataclass(frozen=True, slots=True, eq=False)
class Exchanged:
    """What the clients have after the exchange.

    Attributes:
        graph: who has what, with the edges of neighbours that were asked for.
        values: float64 [n, w], rows as they were summed.
        sums: of Protocol 1.
        foreign: int64 [n], neighbours at other clients over which each node heard sums.
        rounds: calls of the server's sums so far.
    """

    graph: FederatedGraph
    values: Reals
    sums: HopSums
    foreign: Ids
    rounds: int

    @property
    def neighbours(self) -> Reals:
        """float64 [n], numbers of neighbours whose rows a node's client has or heard of."""
        return (local_degree(self.graph) + self.foreign).astype(np.float64)


class MakeChildren(Protocol):
    """Finds out where the trees of a client come from."""

    def __call__(
        self, had: Exchanged, client: int, preset: Fed2GNNPreset, *, seed: int, device: torch.device
    ) -> Children:
        """The levels below the client's own nodes."""


def train_fed2gnn(
    graph: FederatedGraph,
    channel: Channel,
    preset: Fed2GNNPreset,
    scheme: Scheme,
    sums: ServerSums,
    *,
    backbone: str = "gcn",
    seed: int = 0,
    device: torch.device | None = None,
    progress: Progress | None = None,
    children: MakeChildren | None = None,
) -> TrainingResult:
    """Exchanges sums over trees, rebuilds the trees, and trains on the completed graphs.

    The map to the latent space takes the first calls of `sums`, model averaging the others.

    Args:
        graph: who has what; every edge in both directions.
        channel: between the parties of `hierarchy_of(graph, scheme.helpers)`.
        preset: how to train.
        scheme: how sums over neighbours are computed.
        sums: adds the clients' rows up for the server.
        backbone: "gcn", "sage" or "dagnn".
        seed: of sampled neighbours, initial weights, dropout and decoders.
        device: where model compute runs; the CPU by default.
        progress: called after each round.
        children: where trees come from; decoders by default.
    """
    start, place = time.perf_counter(), device or torch.device("cpu")
    kind = backbone_of(backbone).propagation
    had = exchange(graph, channel, preset, scheme, sums, kind=kind, seed=seed, device=place)
    find = children or decoded_children
    clients = []
    for client in range(graph.num_silos):
        trees = find(had, client, preset, seed=seed, device=place)
        roots = roots_of(had.graph, client, had.values, had.sums, had.foreign)
        whole = complete(had.graph, client, roots, trees, preset.decoded_levels, kind)
        clients.append(ClientGraph.of(graph, client, whole.surroundings(kind, place), place))
    return train_averaged(
        graph,
        clients,
        channel,
        preset,
        sums,
        backbone=backbone,
        seed=seed,
        device=place,
        first=had.rounds,
        start=start,
        progress=progress,
    )


def exchange(
    graph: FederatedGraph,
    channel: Channel,
    preset: Fed2GNNPreset,
    scheme: Scheme,
    sums: ServerSums,
    *,
    kind: Propagation,
    seed: int,
    device: torch.device,
) -> Exchanged:
    """All that is said before the first round of training: the latent map, picks, requests, and sums over trees."""
    _check(graph, channel, scheme)
    note_own_graph(channel, graph)
    features, rounds = graph.features, 0
    if preset.latent is not None:
        latent = learn_latent(graph, channel, preset.latent, sums, seed=seed, device=device)
        features, rounds = latent(features), latent.rounds
    asked = agreed_neighbours(graph, channel, preset.neighbours, seed, Step(0))
    limits = None if scheme.fixed_point(1) is None else RowRange(preset.row_range, preset.row_growth)
    hops = HopExchange(asked, scheme, channel, features.shape[1], rows=limits)
    foreign = hops.pairs.neighbours
    degree = (local_degree(asked) + foreign).astype(np.float64)
    values = sent_values(features.astype(np.float64), degree, kind)
    return Exchanged(asked, values, hops(values, preset.hops), foreign, rounds)


def decoded_children(
    had: Exchanged, client: int, preset: Fed2GNNPreset, *, seed: int, device: torch.device
) -> Children:
    """Trains the client's decoders on its own nodes."""
    usual, decoders = _usual(had, client), {}
    for parts in range(preset.hops, preset.hops - preset.decoded_levels, -1):
        data = own_neighbourhoods(
            had.graph, client, had.values, had.sums.mu[: parts - 1], had.neighbours, preset.neighbours, seed
        )
        coins = seed + APART * (1 + client + had.graph.num_silos * parts)
        decoders[parts] = Decoder(data, preset.neighbours, preset.decoder, coins, device)
    own = had.values[had.graph.devices_of(client)]
    longest = max(float(np.linalg.norm(own, axis=1).max()), TINY)
    return DecodedChildren(decoders, preset.neighbours, usual, longest)


def true_children(
    had: Exchanged,
    client: int,
    preset: Fed2GNNPreset,
    *,
    seed: int,  # noqa: ARG001  # as in `MakeChildren`
    device: torch.device,  # noqa: ARG001
) -> Children:
    """The true nodes in place of decoded ones: a comparison, for no client knows them."""
    return TrueChildren(had.graph, had.values, had.sums.mu[: preset.hops - 1], _usual(had, client))


def local_degree(graph: FederatedGraph) -> Ids:
    """int64 [n], numbers of neighbours at the own client."""
    return np.bincount(graph.edges[1, ~graph.crosses_silos], minlength=graph.num_devices).astype(np.int64)


def _usual(had: Exchanged, client: int) -> float:
    """How many other neighbours the end of an edge has on average, among a client's own nodes; at least 1."""
    degree = had.neighbours[had.graph.devices_of(client)]
    return max(float((degree**2).sum() / max(degree.sum(), 1) - 1), 1.0)


def _check(graph: FederatedGraph, channel: Channel, scheme: Scheme) -> None:
    check_undirected(graph)
    parties = hierarchy_of(graph, scheme.helpers)
    if channel.parties != parties:
        raise InputError(
            f"channel must join the parties of the graph and the scheme, {dict(parties.counts)}; "
            f"found {dict(channel.parties.counts)}"
        )
