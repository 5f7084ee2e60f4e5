"""What FedSpray is compared with in its Table 2: the same networks, trained alone or by federated averaging."""

from __future__ import annotations

from enum import StrEnum

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fedspray.client import adam, as_reals, flat, put_flat
from fgl_secure.methods.fedspray.networks import Network
from fgl_secure.methods.fedspray.preset import FedSprayPreset
from fgl_secure.methods.fedspray.scoring import Chooser, Scores, validation_sums
from fgl_secure.methods.fedspray.subgraph import Subgraph, subgraphs
from fgl_secure.methods.fedspray.training import make_network
from fgl_secure.runtime import Channel, Step
from fgl_secure.training.loop import Progress, RoundLog, TrainingResult
from fgl_secure.training.server_sums import ServerSums, send_down


class Baseline(StrEnum):
    """What clients have in common; the value is what tables call it."""

    LOCAL = "Local"
    """Nothing: every client trains a network of its own."""
    FEDAVG = "FedAvg"
    """One network, averaged by numbers of nodes after the local epochs of a round (McMahan et al. 2017)."""


class PlainClient:
    """A network that learns from labels alone.

    Args:
        subgraph: what the client holds.
        network: its own.
        preset: rate and local epochs.
    """

    def __init__(self, subgraph: Subgraph, network: Network, preset: FedSprayPreset) -> None:
        self.subgraph, self.network, self._epochs = subgraph, network, preset.local_epochs
        self._steps = adam(network, preset.learning_rate)

    def train(self) -> float:
        """The local epochs of a round; the loss before the last step."""
        labelled, labels = self.subgraph.labelled, self.subgraph.labelled_labels
        loss = torch.empty(0)
        for _ in range(self._epochs):
            self._steps.zero_grad()
            loss = functional.cross_entropy(self.network.scores(self.subgraph)[labelled], labels)
            loss.backward()  # type: ignore[no-untyped-call]
            self._steps.step()
        return loss.item()

    @torch.no_grad()
    def predict(self) -> torch.Tensor:
        """Scores of its nodes, float32 [m, C]."""
        return self.network.scores(self.subgraph)


class PlainTraining:
    """All clients of a baseline and the server.

    Args:
        baseline: what clients have in common.
        graph: who has what.
        preset: how to train.
        sums: adds the clients' vectors up.
        backbone: "gcn", "sgc" or "sage".
        seed: of initial weights.
        device: where model compute runs.
    """

    def __init__(
        self,
        baseline: Baseline,
        graph: FederatedGraph,
        preset: FedSprayPreset,
        sums: ServerSums,
        *,
        backbone: str,
        seed: int,
        device: torch.device,
    ) -> None:
        self._graph, self._preset, self._sums = graph, preset, sums
        self._shared = baseline is Baseline.FEDAVG
        draws = torch.Generator().manual_seed(seed)
        self.clients = tuple(
            PlainClient(held, make_network(backbone, graph, preset, draws).to(device), preset)
            for held in subgraphs(graph, device)
        )
        self.model = flat(self.clients[0].network)
        """The server's, float32 [P]; of no account where nothing is shared."""

    @property
    def state(self) -> NDArray[np.float32]:
        """What the server sends to every client: its model [P], or nothing."""
        found: NDArray[np.float32] = (self.model if self._shared else self.model[:0]).cpu().numpy()
        return found

    def round(self, number: int, *, last: bool) -> tuple[float, float, list[tuple[Subgraph, torch.Tensor]]]:
        """Scores the models that clients have, and trains them.

        Args:
            number: of the round, from 0.
            last: whether models are scored only.

        Returns:
            The mean training loss; the figure that the round may be chosen by; each client's scores before training.
        """
        if self._shared:
            for client in self.clients:
                put_flat(client.network, self.model)
        predictions = [(client.subgraph, client.predict()) for client in self.clients]
        loss = float("nan") if last else float(np.mean([client.train() for client in self.clients]))
        rows = [self._summand(client, each) for client, each in zip(self.clients, predictions, strict=True)]
        total = self._sums(np.stack(rows), Step(number))
        if self._shared:
            self.model = torch.tensor(total[:-3] / total[-3], dtype=torch.float32)
        return loss, float(total[-2] / total[-1]), predictions

    def _summand(self, client: PlainClient, predicted: tuple[Subgraph, torch.Tensor]) -> NDArray[np.float64]:
        """[w theta, w,] validation figures and validation nodes, both over the number of all nodes."""
        n = self._graph.num_devices
        scored = np.array(validation_sums(*predicted, self._preset.choice)) / n
        if not self._shared:
            return scored
        weight = len(client.subgraph.members) / n
        return np.concatenate([weight * as_reals(flat(client.network)), [weight], scored])


def train_baseline(
    baseline: Baseline,
    graph: FederatedGraph,
    channel: Channel,
    preset: FedSprayPreset,
    sums: ServerSums,
    *,
    backbone: str = "gcn",
    seed: int = 0,
    device: torch.device | None = None,
    progress: Progress | None = None,
) -> tuple[TrainingResult, Scores]:
    """Trains a baseline and selects a round as the preset says; one round is reported for all clients.

    Args:
        baseline: what clients have in common.
        graph: who has what; edges between clients go unused.
        channel: between the parties of `hierarchy_of(graph)`; keeps what its recording says.
        preset: rounds, local epochs, rate, width and how the round is chosen.
        sums: adds the clients' vectors up, over the same channel.
        backbone: "gcn", "sgc" or "sage".
        seed: of initial weights.
        device: where model compute runs; the CPU by default.
        progress: called after each round.

    Returns:
        The record of the run; `selected_round` counts the rounds that the reported models have been through. And the
        scores of that round.
    """
    chooser = Chooser(graph, preset.choice, preset.patience)
    place = device or torch.device("cpu")
    method = PlainTraining(baseline, graph, preset, sums, backbone=backbone, seed=seed, device=place)
    log = RoundLog(preset.epochs, progress)
    for number in range(preset.epochs + 1):
        log.begin()
        last = number == preset.epochs or chooser.stale(number - 1)
        send_down(channel, method.state, Step(number))
        loss, figure, predictions = method.round(number, last=last)
        chooser.see(number, figure, predictions)
        if last:
            break
        log.end(loss)
    return log.result(chooser.best.accuracy, chooser.best_round, channel.transcript), chooser.best
