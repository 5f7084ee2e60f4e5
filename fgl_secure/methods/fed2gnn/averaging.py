"""Federated averaging of one model whose clients each have a graph of their own: one local step a round."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fed2gnn.models import NodeModel, Surroundings, make_model
from fgl_secure.methods.fed2gnn.preset import Fed2GNNPreset
from fgl_secure.methods.fedstruct.models import Dropout
from fgl_secure.runtime import Channel, Step
from fgl_secure.training.loop import Progress, RoundLog, TrainingResult, Watch
from fgl_secure.training.server_sums import ServerSums, send_down


@dataclass(frozen=True, slots=True)
class UpdateLayout:
    """Where what is in a row [w theta, w, right, scored] of P + 3 entries.

    Every count is divided by the number of nodes of the whole graph, which is public.

    Attributes:
        parameters: number P of model parameters theta.
    """

    parameters: int

    @property
    def model(self) -> slice:
        """The model, times its weight."""
        return slice(0, self.parameters)

    @property
    def weight(self) -> slice:
        """The weight w: the client's labelled nodes."""
        return slice(self.parameters, self.parameters + 1)

    @property
    def right(self) -> slice:
        """The client's validation nodes that the model sent last predicts rightly."""
        return slice(self.parameters + 1, self.parameters + 2)

    @property
    def scored(self) -> slice:
        """The client's validation nodes."""
        return slice(self.parameters + 2, self.width)

    @property
    def width(self) -> int:
        """Entries of a row."""
        return self.parameters + 3


Ids = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class ClientGraph:
    """One client's graph, with the nodes that it has labels of.

    Attributes:
        surroundings: features and edges; the client's own nodes come first.
        members: int64 [m], its own nodes in the whole graph, ascending.
        labels: int64 [m].
        training: int64 [t], places of its labelled nodes.
        validation: int64 [v], places of its validation nodes.
    """

    surroundings: Surroundings
    members: Ids
    labels: torch.Tensor
    training: torch.Tensor
    validation: torch.Tensor

    @classmethod
    def of(cls, graph: FederatedGraph, client: int, surroundings: Surroundings, device: torch.device) -> ClientGraph:
        """What a client has, on surroundings of its own."""
        members = graph.devices_of(client)

        def places(mask: NDArray[np.bool_]) -> torch.Tensor:
            return torch.from_numpy(np.flatnonzero(mask[members])).to(device)

        labels = torch.from_numpy(graph.labels[members]).to(device)
        return cls(surroundings, members, labels, places(graph.train_mask), places(graph.validation_mask))


@dataclass(frozen=True, slots=True)
class LocalStep:
    """The step of Adam that a client takes in a round.

    Attributes:
        learning_rate: of Adam.
        weight_decay: factor of the L2 penalty.
        dropout: probability of dropping a hidden unit.
        keep_moments: whether Adam goes on from round to round.
    """

    learning_rate: float
    weight_decay: float
    dropout: float
    keep_moments: bool = True


class AveragedModel:
    """One model in training.

    Args:
        model: with its initial weights, the same for every client.
        clients: their graphs.
        public: number of nodes of the whole graph; counts are sent divided by it.
        sums: adds the clients' rows up.
        local: what a client does in a round.
        seed: of dropout.
        device: where model compute runs.
    """

    def __init__(
        self,
        model: NodeModel,
        clients: Sequence[ClientGraph],
        public: int,
        sums: ServerSums,
        local: LocalStep,
        seed: int,
        device: torch.device,
    ) -> None:
        idle = next((number for number, client in enumerate(clients) if not len(client.training)), None)
        if idle is not None:
            raise InputError(f"masks.train must mark at least one node of every client; client {idle} has none")
        self.model = model.to(device)
        self.layout = UpdateLayout(sum(parameter.numel() for parameter in model.parameters()))
        self._clients, self._public, self._sums, self._local, self._device = clients, public, sums, local, device
        self._models = [copy.deepcopy(self.model) for _ in clients]
        self._optimisers = [self._adam(model) for model in self._models]
        self._dropout = Dropout(local.dropout, seed, device)

    def round(self, step: Step, predicted: torch.Tensor | None) -> float:
        """Every client takes a step from the server's model and sends it; the server takes the weighted mean.

        Args:
            step: when.
            predicted: int64 [n], what the model that was sent last predicts for every node; None sends no scores.

        Returns:
            The mean training loss before the steps, by labelled nodes.
        """
        rows = np.zeros((len(self._clients), self.layout.width))
        losses = np.empty(len(self._clients))
        for number, client in enumerate(self._clients):
            losses[number] = self._client_step(number)
            weight = len(client.training) / self._public
            theta = parameters_to_vector(self._models[number].parameters()).detach().cpu().numpy()
            rows[number, self.layout.model] = weight * theta
            rows[number, self.layout.weight] = weight
            if predicted is not None:
                self._score(rows[number], client, predicted)
        total = self._sums(rows, step)
        mean = total[self.layout.model] / total[self.layout.weight]
        self._load(self.model, torch.from_numpy(mean.astype(np.float32)).to(self._device))
        return float(np.average(losses, weights=rows[:, self.layout.weight].ravel()))

    def close(self, step: Step, predicted: torch.Tensor) -> None:
        """The clients score the last model, and send no more than that."""
        rows = np.zeros((len(self._clients), self.layout.width))
        for number, client in enumerate(self._clients):
            self._score(rows[number], client, predicted)
        self._sums(rows, step)

    def scores(self) -> torch.Tensor:
        """The scores of all nodes by the server's model on their clients' graphs, float32 [n, classes]."""
        self.model.eval()
        found: torch.Tensor | None = None
        for client in self._clients:
            with torch.no_grad():
                own = self.model(client.surroundings, self._dropout)[: len(client.members)].cpu()
            found = torch.zeros(self._public, own.shape[1]) if found is None else found
            found[torch.from_numpy(client.members)] = own
        assert found is not None
        return found

    def _adam(self, model: NodeModel) -> torch.optim.Adam:
        rate, decay = self._local.learning_rate, self._local.weight_decay
        return torch.optim.Adam(model.parameters(), lr=rate, weight_decay=decay)

    def _client_step(self, number: int) -> float:
        client, model = self._clients[number], self._models[number]
        self._load(model, parameters_to_vector(self.model.parameters()).detach())
        if not self._local.keep_moments:
            self._optimisers[number] = self._adam(model)
        optimiser = self._optimisers[number]
        model.train()
        scores = model(client.surroundings, self._dropout)[client.training]
        loss = functional.cross_entropy(scores, client.labels[client.training])
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        optimiser.step()
        return float(loss.detach())

    def _score(self, row: NDArray[np.float64], client: ClientGraph, predicted: torch.Tensor) -> None:
        own = predicted[torch.from_numpy(client.members)].to(self._device)
        right = int((own == client.labels)[client.validation].sum())
        row[self.layout.right] = right / self._public
        row[self.layout.scored] = len(client.validation) / self._public

    @staticmethod
    def _load(model: NodeModel, values: torch.Tensor) -> None:
        with torch.no_grad():
            vector_to_parameters(values, model.parameters())


def send_model(channel: Channel, averaged: AveragedModel, step: Step) -> None:
    """The server's model goes to every client."""
    send_down(channel, parameters_to_vector(averaged.model.parameters()).detach().cpu().numpy(), step)


def train_averaged(
    graph: FederatedGraph,
    clients: Sequence[ClientGraph],
    channel: Channel,
    preset: Fed2GNNPreset,
    sums: ServerSums,
    *,
    backbone: str,
    seed: int,
    device: torch.device,
    first: int = 0,
    start: float | None = None,
    progress: Progress | None = None,
) -> TrainingResult:
    """Trains a model on the clients' graphs and selects a round as the preset says.

    Models are scored before each round and after the last.

    Args:
        graph: who has what; its masks and labels score the model.
        clients: what each client computes on.
        channel: between server and clients.
        preset: how to train.
        sums: adds the clients' rows up.
        backbone: "gcn", "sage" or "dagnn".
        seed: of initial weights and dropout.
        device: where model compute runs.
        first: number of the first round in messages.
        start: when the run began, on the clock of `time.perf_counter`; the result's seconds count from then, so with
            all that goes before the first round. None counts the rounds alone.
        progress: called after each round.
    """
    widths = (clients[0].surroundings.rows.width, preset.hidden, graph.num_classes)
    model = make_model(backbone, widths, preset.hops, seed)
    local = LocalStep(preset.learning_rate, preset.weight_decay, preset.dropout, preset.keep_moments)
    averaged = AveragedModel(model, clients, graph.num_devices, sums, local, seed, device)
    watch = Watch(graph, preset)
    log = RoundLog(preset.epochs, progress, start)
    for number in range(preset.epochs):
        log.begin()
        step = Step(first + number)
        send_model(channel, averaged, step)
        scores = averaged.scores()
        watch.see(number, scores)
        log.end(averaged.round(step, scores.argmax(dim=1)))
        if watch.stale(number):
            break
    last = Step(first + len(log))
    send_model(channel, averaged, last)
    scores = averaged.scores()
    watch.see(len(log), scores)
    averaged.close(last, scores.argmax(dim=1))
    return log.result(watch.best, watch.best_round, channel.transcript)
