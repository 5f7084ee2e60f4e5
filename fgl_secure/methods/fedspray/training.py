"""Trains FedSpray to its end and says what came of it."""

from __future__ import annotations

import torch

from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fedspray.client import FedSpray
from fgl_secure.methods.fedspray.preset import FedSprayPreset
from fgl_secure.methods.fedspray.scoring import Outcome, chosen
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.topology import SERVER
from fgl_secure.runtime import Channel
from fgl_secure.training.loop import Progress
from fgl_secure.training.one_process import OneProcess


def clients_of(
    graph: FederatedGraph,
    scheme: Scheme,
    channel: Channel,
    preset: FedSprayPreset,
    *,
    backbone: str = "gcn",
    seed: int = 0,
    device: torch.device | None = None,
) -> OneProcess:
    """The clients, ready for their first round.

    Args:
        graph: who has what; edges between clients go unused.
        scheme: adds the clients' vectors up.
        channel: between the parties of `hierarchy_of(graph)`; keeps what its recording says.
        preset: how to train.
        backbone: "gcn", "sgc" or "sage".
        seed: of initial weights.
        device: where model compute runs; the CPU by default.
    """
    return OneProcess(
        graph,
        {SERVER: scheme},
        channel,
        lambda talk: FedSpray(talk, preset, backbone=backbone, seed=seed, device=device),
        heard=graph.restricted_to_silos(),
    )


def train_fedspray(
    graph: FederatedGraph,
    scheme: Scheme,
    channel: Channel,
    preset: FedSprayPreset,
    *,
    backbone: str = "gcn",
    seed: int = 0,
    device: torch.device | None = None,
    progress: Progress | None = None,
) -> Outcome:
    """Trains and selects a round as the preset says; one round is reported for all clients.

    Args:
        graph: see `clients_of`, as for the rest.
        scheme: adds the clients' vectors up.
        channel: keeps the messages.
        preset: how to train.
        backbone: "gcn", "sgc" or "sage".
        seed: of initial weights.
        device: where model compute runs; the CPU by default.
        progress: called after each round.
    """
    clients = clients_of(graph, scheme, channel, preset, backbone=backbone, seed=seed, device=device)
    return chosen(graph, clients, preset, channel, progress)
