"""Fed2GNN's clients, ready for their first message."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

from fgl_secure.coins import Coins
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fed2gnn.grouping import (
    agreed_neighbours,
    between_clients,
    check_undirected,
    sampled_neighbours,
)
from fgl_secure.methods.fed2gnn.hop_sums import RowRange
from fgl_secure.methods.fed2gnn.preset import Fed2GNNPreset
from fgl_secure.methods.fed2gnn.program import Fed2GNN
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.scheme import Scheme, least_group
from fgl_secure.protocols.topology import NEIGHBOURS
from fgl_secure.runtime import Channel, Step
from fgl_secure.training.collectives import Collectives
from fgl_secure.training.job import Job, Task
from fgl_secure.training.parties import Between, check_parties, note_own_graph


def row_range(preset: Fed2GNNPreset, scheme: Scheme) -> RowRange | None:
    """How large rows may get, where a scheme wants to know."""
    return None if scheme.fixed_point(1) is None else RowRange(preset.row_range, preset.row_growth).under(scheme)


def clients_of(
    graph: FederatedGraph,
    schemes: Mapping[str, Scheme],
    preset: Fed2GNNPreset,
    *,
    backbone: str = "gcn",
    seed: int = 0,
    device: torch.device | None = None,
    kind: Callable[..., Fed2GNN] = Fed2GNN,
) -> Job:
    """The clients: they settle who asks whom, exchange sums over trees, rebuild these, and train on completed graphs.

    Args:
        graph: who has what; every edge in both directions.
        schemes: of "neighbours", sums of hops, and of "server", models and the map to the latent space; what is not
            there is in the clear.
        preset: how to train.
        backbone: "gcn", "sage" or "dagnn".
        seed: of sampled neighbours, initial weights, dropout and decoders.
        device: where model compute runs; the CPU by default.
        kind: makes a client's program, as `Fed2GNN` does.
    """
    check_undirected(graph)
    scheme = schemes.get(NEIGHBOURS, Plaintext())
    rows = row_range(preset, scheme)

    def make(talk: Collectives, _coins: Coins) -> Fed2GNN:
        return kind(talk, preset, backbone=backbone, seed=seed, device=device, rows=rows)

    def settle(channel: Channel) -> Between:
        check_parties(graph, schemes, channel)
        note_own_graph(channel, graph)
        asked = agreed_neighbours(graph, channel, preset.neighbours, seed, Step(0))
        return between_clients(asked, channel, None, least_group(scheme))

    width = graph.graph.num_features if preset.latent is None else preset.latent.width
    task = Task(make, {NEIGHBOURS: scheme, **schemes}, preset.epochs, width, between=True)
    return Job(task, graph, sampled_neighbours(graph, preset.neighbours, seed), settle)
