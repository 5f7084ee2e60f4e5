"""Fed2GNN from the first message to the last."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import torch

from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fed2gnn.grouping import agreed_neighbours, between_clients, check_undirected
from fgl_secure.methods.fed2gnn.hop_sums import RowRange
from fgl_secure.methods.fed2gnn.preset import Fed2GNNPreset
from fgl_secure.methods.fed2gnn.program import Fed2GNN
from fgl_secure.methods.fed2gnn.tree_levels import Children
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.scheme import Scheme, least_group
from fgl_secure.protocols.topology import NEIGHBOURS
from fgl_secure.runtime import Channel, Step
from fgl_secure.training.collectives import Collectives
from fgl_secure.training.loop import Progress, TrainingResult
from fgl_secure.training.one_process import OneProcess
from fgl_secure.training.parties import Between, check_parties, note_own_graph
from fgl_secure.training.rounds import run


def row_range(preset: Fed2GNNPreset, scheme: Scheme) -> RowRange | None:
    """How large rows may get, where a scheme wants to know."""
    return None if scheme.fixed_point(1) is None else RowRange(preset.row_range, preset.row_growth).under(scheme)


def clients_of(
    graph: FederatedGraph,
    schemes: Mapping[str, Scheme],
    channel: Channel,
    preset: Fed2GNNPreset,
    *,
    backbone: str = "gcn",
    seed: int = 0,
    device: torch.device | None = None,
    children: Callable[[Fed2GNN], Children] | None = None,
) -> tuple[OneProcess, FederatedGraph, Between]:
    """Fed2GNN's clients, ready for their first sum: it is settled who asks whom.

    Arguments as for `train_fed2gnn`.

    Returns:
        Them, the graph with the neighbours that are asked for, and what clients add up for each other.
    """
    check_undirected(graph)
    check_parties(graph, schemes, channel)
    scheme = schemes.get(NEIGHBOURS, Plaintext())
    note_own_graph(channel, graph)
    asked = agreed_neighbours(graph, channel, preset.neighbours, seed, Step(0))
    between = between_clients(asked, channel, None, least_group(scheme))
    rows = row_range(preset, scheme)

    def make(talk: Collectives) -> Fed2GNN:
        return Fed2GNN(talk, preset, backbone=backbone, seed=seed, device=device, rows=rows, children=children)

    width = graph.graph.num_features if preset.latent is None else preset.latent.width
    return OneProcess(graph, schemes, channel, make, width=width, heard=asked, between=between), asked, between


def train_fed2gnn(
    graph: FederatedGraph,
    schemes: Mapping[str, Scheme],
    channel: Channel,
    preset: Fed2GNNPreset,
    *,
    backbone: str = "gcn",
    seed: int = 0,
    device: torch.device | None = None,
    progress: Progress | None = None,
    children: Callable[[Fed2GNN], Children] | None = None,
) -> TrainingResult:
    """Exchanges sums over trees, rebuilds the trees, and trains on the completed graphs.

    Args:
        graph: who has what; every edge in both directions.
        schemes: of "neighbours", sums of hops, and of "server", models and the map to the latent space; what is not
            there is in the clear.
        channel: between the parties of `hierarchy_of(graph, ...)` and the helpers of the schemes.
        preset: how to train.
        backbone: "gcn", "sage" or "dagnn".
        seed: of sampled neighbours, initial weights, dropout and decoders.
        device: where model compute runs; the CPU by default.
        progress: called after each round.
        children: where trees come from; decoders by default.
    """
    start = time.perf_counter()
    process, _, _ = clients_of(
        graph, schemes, channel, preset, backbone=backbone, seed=seed, device=device, children=children
    )
    return run(process, preset.epochs, channel.transcript, progress, start=start)
