"""Trains FedSpray to its end and says what came of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from fgl_secure.errors import UnknownNameError
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fedspray.alignment import ProxyLayout, align, shares_of, summand
from fgl_secure.methods.fedspray.client import Client, as_reals, flat, put_flat
from fgl_secure.methods.fedspray.networks import NETWORKS, Encoder, Network, draw_encoder, draw_weights
from fgl_secure.methods.fedspray.preset import FedSprayPreset
from fgl_secure.methods.fedspray.scoring import Chooser, validation_sums
from fgl_secure.methods.fedspray.subgraph import subgraphs
from fgl_secure.runtime import Channel, Step
from fgl_secure.training.loop import Progress, RoundLog, TrainingResult
from fgl_secure.training.server_sums import ServerSums, send_down


@dataclass(frozen=True, slots=True, eq=False)
class FedSprayOutcome:
    """What a run left.

    Attributes:
        result: as of every method.
        minority: accuracy of the reported round over the test nodes of all clients whose label is not the majority
            class of their client's labelled nodes; None without any.
        layout: of what clients sent.
    """

    result: TrainingResult
    minority: float | None
    layout: ProxyLayout


class FedSpray:
    """All clients and the server.

    Args:
        graph: who has what.
        preset: how to train.
        sums: adds the clients' vectors up.
        backbone: "gcn", "sgc" or "sage".
        seed: of initial weights.
        device: where model compute runs.
    """

    def __init__(
        self,
        graph: FederatedGraph,
        preset: FedSprayPreset,
        sums: ServerSums,
        *,
        backbone: str = "gcn",
        seed: int = 0,
        device: torch.device | None = None,
    ) -> None:
        self._graph, self._preset, self._sums = graph, preset, sums
        self._device = device or torch.device("cpu")
        features, classes = graph.graph.num_features, graph.num_classes
        draws = torch.Generator().manual_seed(seed)
        self.encoder = Encoder(features, preset.width, classes).to(self._device)
        draw_encoder(self.encoder, draws)
        self.proxies = first_proxies(classes, preset)
        self.clients = tuple(
            Client(held, make_network(backbone, graph, preset, draws).to(self._device), self.encoder, preset)
            for held in subgraphs(graph, self._device)
        )
        self.layout = ProxyLayout(len(flat(self.encoder)), classes, preset.width)

    @property
    def state(self) -> NDArray[np.float32]:
        """What the server sends to every client: the encoder [P], then the proxies [C d], float32."""
        return np.concatenate([flat(self.encoder).cpu().numpy(), self.proxies.reshape(-1).astype(np.float32)])

    def round(self, number: int) -> tuple[float, float]:
        """One round of all clients and the server.

        Args:
            number: of the round, from 0.

        Returns:
            The mean loss of the clients' networks, and the figure that the round may be chosen by.
        """
        proxies = torch.tensor(self.proxies, dtype=torch.float32, device=self._device)
        losses = [client.round(self.encoder, proxies) for client in self.clients]
        total = self._sums(np.stack([self._summand(client) for client in self.clients]), Step(number))
        aligned = align(self.layout, total, self.proxies)
        put_flat(self.encoder, torch.tensor(aligned.encoder, dtype=torch.float32))
        self.proxies = aligned.proxies
        return float(np.mean(losses)), aligned.figure

    def _summand(self, client: Client) -> NDArray[np.float64]:
        n, held = self._graph.num_devices, client.subgraph
        figures, nodes = validation_sums(held, client.predictions, self._preset.choice)
        return summand(
            self.layout,
            as_reals(flat(client.encoder)),
            len(held.members) / n,
            as_reals(client.local_class_proxies()),
            shares_of(held.counts, self._preset.share_grid),
            (figures / n, nodes / n),
        )


def train_fedspray(
    graph: FederatedGraph,
    channel: Channel,
    preset: FedSprayPreset,
    sums: ServerSums,
    *,
    backbone: str = "gcn",
    seed: int = 0,
    device: torch.device | None = None,
    progress: Progress | None = None,
) -> FedSprayOutcome:
    """Trains and selects a round as the preset says; one round is reported for all clients.

    Args:
        graph: who has what; edges between clients go unused.
        channel: between the parties of `hierarchy_of(graph)`; keeps what its recording says.
        preset: how to train.
        sums: adds the clients' vectors up, over the same channel.
        backbone: "gcn", "sgc" or "sage".
        seed: of initial weights.
        device: where model compute runs; the CPU by default.
        progress: called after each round.
    """
    chooser = Chooser(graph, preset.choice, preset.patience)
    method = FedSpray(graph, preset, sums, backbone=backbone, seed=seed, device=device)
    log = RoundLog(preset.epochs, progress)
    for number in range(preset.epochs):
        log.begin()
        send_down(channel, method.state, Step(number))
        loss, figure = method.round(number)
        chooser.see(number, figure, [(client.subgraph, client.predictions) for client in method.clients])
        log.end(loss)
        if chooser.stale(number):
            break
    result = log.result(chooser.best.accuracy, chooser.best_round, channel.transcript)
    return FedSprayOutcome(result, chooser.best.minority, method.layout)


def first_proxies(classes: int, preset: FedSprayPreset) -> NDArray[np.float64]:
    """S before the first round, float64 [C, width]."""
    scale = preset.first_class_proxy if preset.proxies else 0.0
    return scale * np.repeat(np.arange(classes, dtype=np.float64)[:, None], preset.width, axis=1)


def make_network(backbone: str, graph: FederatedGraph, preset: FedSprayPreset, draws: torch.Generator) -> Network:
    """A fresh network for the graph's features and classes, on the CPU.

    Raises:
        UnknownNameError: there is no such backbone.
    """
    if backbone not in NETWORKS:
        raise UnknownNameError("backbone", backbone, tuple(NETWORKS))
    network = NETWORKS[backbone](graph.graph.num_features, preset.hidden, graph.num_classes)
    draw_weights(network, draws, preset.uniform_weights)
    return network
