"""FedGCN's clients, ready for their first message."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from fgl_secure.coins import Coins
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fed2gnn.grouping import between_clients, check_undirected
from fgl_secure.methods.fed2gnn.hop_sums import RowRange
from fgl_secure.methods.fedgcn.program import FedGCN
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.scheme import Scheme, least_group
from fgl_secure.protocols.topology import NEIGHBOURS
from fgl_secure.runtime import Channel
from fgl_secure.training.collectives import Collectives
from fgl_secure.training.job import Job, Task
from fgl_secure.training.parties import Between, check_parties, note_own_graph
from fgl_secure.training.presets import AveragedPreset


def row_range(preset: AveragedPreset, scheme: Scheme) -> RowRange | None:
    """How large rows may get, where a scheme wants to know."""
    return None if scheme.fixed_point(1) is None else RowRange(preset.row_range).under(scheme)


def clients_of(
    graph: FederatedGraph,
    schemes: Mapping[str, Scheme],
    preset: AveragedPreset,
    *,
    seed: int = 0,
    device: torch.device | None = None,
) -> Job:
    """The clients: they settle who asks whom, exchange sums once, and train.

    Args:
        graph: who has what; every edge in both directions.
        schemes: of "neighbours", sums of features, and of "server", models; what is not there is in the clear.
        preset: how to train.
        seed: of initial weights and dropout.
        device: where model compute runs; the CPU by default.

    Raises:
        InputError: the graph is directed.
    """
    check_undirected(graph)
    scheme = schemes.get(NEIGHBOURS, Plaintext())
    rows = row_range(preset, scheme)

    def make(talk: Collectives, _coins: Coins) -> FedGCN:
        return FedGCN(talk, preset, seed=seed, device=device, rows=rows)

    def settle(channel: Channel) -> Between:
        check_parties(graph, schemes, channel)
        note_own_graph(channel, graph)
        return between_clients(graph, channel, None, least_group(scheme))

    task = Task(make, {NEIGHBOURS: scheme, **schemes}, preset.epochs, graph.graph.num_features, between=True)
    return Job(task, graph, settle=settle)
