"""Trains by federated averaging to the end and says what came of it.

Every client has the subgraph of its own nodes, and edges between clients are lost. In each round a client takes one or
more steps of gradient descent from the server's model and sends the sum of its gradients, which is how far it went over
the learning rate; the server takes an Adam step along their mean, weighted by numbers of nodes (FedAdam, Reddi et al.
2021). With one local step that is FedSGD, and the update is a gradient, which is what gradient inversion reads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from fgl_secure.errors import InputError, UnknownNameError
from fgl_secure.graph import FederatedGraph
from fgl_secure.runtime import Channel, Phase, Role, Step
from fgl_secure.training.backbones import LAYERS, Degrees, MessageLayer, make_layers
from fgl_secure.training.loop import Progress, RoundLog, TrainingResult, Watch
from fgl_secure.training.presets import Preset
from fgl_secure.training.server_sums import FLOAT_BYTES, Averaging

Ids = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class LocalTraining:
    """What a client does in a round.

    Attributes:
        steps: of gradient descent.
        rate: learning rate of these steps; of no account where there is one.
        batch: labelled nodes drawn anew for each step; None takes all.
    """

    steps: int = 1
    rate: float = 0.1
    batch: int | None = None

    def __post_init__(self) -> None:
        for name, value in (("steps", self.steps), ("batch", self.batch)):
            if value is not None and value < 1:
                raise InputError(f"{name} must be at least 1; found {value}")
        if not (np.isfinite(self.rate) and self.rate > 0):
            raise InputError(f"rate must be positive; found {self.rate}")


@dataclass(frozen=True, slots=True, eq=False)
class LocalGraph:
    """One client's subgraph, as its model computes on it.

    Attributes:
        members: int64 [m], its nodes in the whole graph, ascending.
        features: float32 [m, d].
        labels: int64 [m].
        edges: int64 [2, e], source above target, by place in `members`.
        degrees: of its nodes, edges to other clients left out.
        training: int64 [t], places of its labelled nodes.
    """

    members: Ids
    features: torch.Tensor
    labels: torch.Tensor
    edges: torch.Tensor
    degrees: Degrees
    training: Ids

    @classmethod
    def of(cls, graph: FederatedGraph, client: int, device: torch.device) -> LocalGraph:
        """What a client holds."""
        members = graph.devices_of(client)
        place = np.full(graph.num_devices, -1, dtype=np.int64)
        place[members] = np.arange(len(members))
        edges = place[graph.edges]
        inside = edges[:, (edges >= 0).all(axis=0)]
        counts = np.bincount(inside[1], minlength=len(members)).astype(np.float32)[:, None]
        degree = torch.from_numpy(counts).to(device)
        return cls(
            members,
            torch.tensor(graph.features[members]).to(device),
            torch.tensor(graph.labels[members]).to(device),
            torch.from_numpy(inside).to(device),
            Degrees(degree, degree, degree),
            np.flatnonzero(graph.train_mask[members]),
        )

    def scores(self, layers: nn.ModuleList) -> torch.Tensor:
        """Class scores of all nodes, float32 [m, c]."""
        h = self.features
        for number, layer in enumerate(layers):
            assert isinstance(layer, MessageLayer)
            messages = layer.message(h, self.degrees)
            sums = torch.zeros_like(messages).index_add(0, self.edges[1], messages[self.edges[0]])
            h = layer.update(h, sums, self.degrees)
            h = functional.relu(h) if number < len(layers) - 1 else h
        return h


class FedAvg:
    """One model in training.

    Args:
        graph: who has what.
        preset: how the server trains: width, layers, rate.
        updates: adds the clients' updates up.
        local: what a client does in a round.
        backbone: "gcn" or "sage".
        seed: of initial weights and of batches.
        device: where model compute runs.
    """

    def __init__(
        self,
        graph: FederatedGraph,
        preset: Preset,
        updates: Averaging,
        *,
        local: LocalTraining | None = None,
        backbone: str = "gcn",
        seed: int = 0,
        device: torch.device | None = None,
    ) -> None:
        if backbone not in LAYERS:
            raise UnknownNameError("backbone", backbone, tuple(LAYERS))
        place = device or torch.device("cpu")
        self._local, self._updates, self._graph = local or LocalTraining(), updates, graph
        self.clients = tuple(LocalGraph.of(graph, client, place) for client in range(graph.num_silos))
        idle = next((client for client, held in enumerate(self.clients) if not len(held.training)), None)
        if idle is not None:
            raise InputError(f"masks.train must mark at least one node of every client; client {idle} has none")
        widths = preset.widths(graph.graph.num_features, graph.num_classes)
        self.layers = make_layers(LAYERS[backbone], widths, seed).to(place)
        self._optimiser = torch.optim.Adam(self.layers.parameters(), lr=preset.learning_rate)
        self._schedule = torch.optim.lr_scheduler.StepLR(self._optimiser, preset.decay_every, preset.decay)
        self._draws = np.random.default_rng(seed)
        self.batches: tuple[Ids, ...] = ()  # for each client the nodes of its first step in the last round

    @property
    def layout(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """Name and shape of each parameter, in the order in which updates are flattened."""
        return tuple((name, tuple(parameter.shape)) for name, parameter in self.layers.named_parameters())

    @property
    def weights(self) -> NDArray[np.float32]:
        """The server's model, float32 [P]."""
        flat = torch.cat([parameter.detach().reshape(-1) for parameter in self.layers.parameters()])
        found: NDArray[np.float32] = flat.cpu().numpy()
        return found

    def round(self, number: int) -> float:
        """One round of all clients and the server.

        Args:
            number: of the round, from 0.

        Returns:
            The mean training loss of the clients' first steps, by their nodes.
        """
        batches = [self._batch(client) for client in self.clients]
        done = [self._update(client, batch) for client, batch in zip(self.clients, batches, strict=True)]
        self.batches = self._nodes(batches)
        counts = np.array([len(batch) for batch in batches], dtype=np.int64)
        mean = self._updates(np.stack([update for update, _ in done]), counts, Step(number))
        self._step(mean)
        return float(np.average([loss for _, loss in done], weights=counts))

    def predict(self) -> torch.Tensor:
        """The scores of all nodes on their clients' subgraphs, float32 [n, c]."""
        with torch.no_grad():
            found = [client.scores(self.layers).cpu() for client in self.clients]
        scores = torch.empty(self._graph.num_devices, found[0].shape[1])
        for client, part in zip(self.clients, found, strict=True):
            scores[torch.from_numpy(client.members)] = part
        return scores

    def draw(self) -> tuple[Ids, ...]:
        """The nodes int64 [b] of each client's next first step, which a method of the same seed will take."""
        return self._nodes([self._batch(client) for client in self.clients])

    def _nodes(self, batches: list[Ids]) -> tuple[Ids, ...]:
        return tuple(client.members[batch] for client, batch in zip(self.clients, batches, strict=True))

    def _batch(self, client: LocalGraph) -> Ids:
        """Places of the nodes of a step."""
        most = self._local.batch
        if most is None or most >= len(client.training):
            return client.training
        return np.sort(self._draws.choice(client.training, most, replace=False))

    def _update(self, client: LocalGraph, first: Ids) -> tuple[NDArray[np.float32], float]:
        """The sum of the gradients of a client's steps, float32 [P], and the loss before the first."""
        parameters = list(self.layers.parameters())
        start = [parameter.detach().clone() for parameter in parameters]
        total, losses, batch = [torch.zeros_like(each) for each in start], [], first
        for step in range(self._local.steps):
            loss = functional.cross_entropy(client.scores(self.layers)[batch], client.labels[batch])
            losses.append(float(loss.detach()))
            gradients = torch.autograd.grad(loss, parameters)
            with torch.no_grad():
                for parameter, gradient, so_far in zip(parameters, gradients, total, strict=True):
                    so_far.add_(gradient)
                    parameter.sub_(self._local.rate * gradient)
            batch = self._batch(client) if step + 1 < self._local.steps else batch
        with torch.no_grad():
            for parameter, value in zip(parameters, start, strict=True):
                parameter.copy_(value)
        flat: NDArray[np.float32] = torch.cat([each.reshape(-1) for each in total]).cpu().numpy()
        return flat, losses[0]

    def _step(self, mean: NDArray[np.float64]) -> None:
        at = 0
        for parameter in self.layers.parameters():
            part = torch.from_numpy(mean[at : at + parameter.numel()].reshape(parameter.shape))
            parameter.grad = part.to(dtype=parameter.dtype, device=parameter.device)
            at += parameter.numel()
        self._optimiser.step()
        self._schedule.step()


COUNT_BYTES = 8
"""Two 32-bit numbers: correct predictions, and predictions."""


def train_fedavg(
    method: FedAvg,
    graph: FederatedGraph,
    channel: Channel,
    preset: Preset,
    *,
    progress: Progress | None = None,
    seen: Callable[[FedAvg], None] | None = None,
) -> TrainingResult:
    """Runs all rounds and selects one as the preset says; models are scored before each round and after the last.

    Args:
        method: what is trained, on that graph and channel.
        graph: who has what; its masks and labels score the model.
        channel: keeps the messages.
        preset: rounds, patience and selection.
        progress: called after each round.
        seen: called with the method after the first round.
    """
    watch = Watch(graph, preset)
    log = RoundLog(preset.epochs, progress)
    for number in range(preset.epochs):
        log.begin()
        _models_down(method, channel, number)
        watch.see(number, method.predict())
        log.end(method.round(number))
        if number == 0 and seen is not None:
            seen(method)
        if watch.stale(number):
            break
    _models_down(method, channel, len(log))
    watch.see(len(log), method.predict())
    return log.result(watch.best, watch.best_round, channel.transcript)


def _models_down(method: FedAvg, channel: Channel, number: int) -> None:
    """The server's model to every client, and two counts of every client to the server, which chooses the round."""
    clients, server = channel.parties.ids(Role.SILO), channel.parties.ids(Role.SERVER)
    leaders, step = np.repeat(server, len(clients)), Step(number)
    channel.send_sizes(Phase.MODEL, step, leaders, clients, len(method.weights) * FLOAT_BYTES)
    channel.send_sizes(Phase.CORRECT, step, clients, leaders, COUNT_BYTES)
