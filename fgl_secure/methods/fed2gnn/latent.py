"""The map of features to a latent space that the clients of Fed2GNN learn together (end of 4.3).

They average a perceptron that looks at own features alone; its first layer, without bias, is the map. Being linear, it
changes places with the sums of the exchange. The server learns sums over the clients, as in every other round.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fed2gnn.averaging import AveragedModel, ClientGraph, LocalStep, send_model
from fgl_secure.methods.fed2gnn.models import Matrix, PerceptronModel, Surroundings
from fgl_secure.methods.fed2gnn.preset import LatentPreset
from fgl_secure.runtime import Channel, Phase, Role, Step
from fgl_secure.training.server_sums import ServerSums

SQUARE_BYTES = 8
MEAN_SQUARE = "mean square"
"""What every client gets to scale the map with, one number a client."""


@dataclass(frozen=True, slots=True, eq=False)
class LatentMap:
    """What every client multiplies its features with.

    Attributes:
        matrix: float32 [features, width]; mapped rows have the root mean square of the preset over all nodes.
        rounds: how many calls of the server's sums it took.
    """

    matrix: NDArray[np.float32]
    rounds: int

    def __call__(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """Rows [n, features] to float32 [n, width]."""
        mapped: NDArray[np.float32] = (sparse.csr_array(features) @ self.matrix).astype(np.float32)
        return mapped


def learn_latent(
    graph: FederatedGraph,
    channel: Channel,
    preset: LatentPreset,
    sums: ServerSums,
    *,
    seed: int,
    device: torch.device,
) -> LatentMap:
    """Averages the perceptron, then finds the scale; the server sends both to every client.

    Args:
        graph: who has what; edges are not looked at.
        channel: between server and clients.
        preset: how to train.
        sums: adds the clients' rows up, in the steps 0 to `preset.epochs`.
        seed: of initial weights and dropout.
        device: where model compute runs.

    Raises:
        InputError: all features are zero, so that there is nothing to map.
    """
    widths = (graph.graph.num_features, preset.width, graph.num_classes)
    model = PerceptronModel(widths, torch.Generator().manual_seed(seed))
    clients = [_without_edges(graph, client, device) for client in range(graph.num_silos)]
    local = LocalStep(preset.learning_rate, preset.weight_decay, preset.dropout)
    averaged = AveragedModel(model, clients, graph.num_devices, sums, local, seed, device)
    for number in range(preset.epochs):
        send_model(channel, averaged, Step(number))
        averaged.round(Step(number), None)
    last = Step(preset.epochs)
    send_model(channel, averaged, last)
    found = LatentMap(model.first.detach().cpu().numpy(), preset.epochs)
    square = _mean_square(graph, found, sums, last)
    _send_mean_square(channel, square, last)
    if not square > 0:
        raise InputError("features must not all be mapped to zero; found nothing else")
    return LatentMap((found.matrix * (preset.scale / np.sqrt(square))).astype(np.float32), preset.epochs + 1)


def _without_edges(graph: FederatedGraph, client: int, device: torch.device) -> ClientGraph:
    members = graph.devices_of(client)
    rows = Matrix(sparse.csr_array(graph.features[members]), device)
    alone = Matrix(sparse.csr_array((len(members), len(members)), dtype=np.float64), device)
    return ClientGraph.of(graph, client, Surroundings(rows, alone), device)


def _mean_square(graph: FederatedGraph, found: LatentMap, sums: ServerSums, step: Step) -> float:
    """The mean square of a coordinate over all nodes, which the server learns."""
    squares = (found(graph.features).astype(np.float64) ** 2).mean(axis=1)
    shares = np.bincount(graph.silo_of, weights=squares, minlength=graph.num_silos) / graph.num_devices
    return float(sums(shares[:, None], step)[0])


def _send_mean_square(channel: Channel, square: float, step: Step) -> None:
    """The server tells every client."""
    clients = channel.parties.ids(Role.SILO)
    server = np.repeat(channel.parties.ids(Role.SERVER), len(clients))
    channel.send_sizes(Phase.MODEL, step, server, clients, SQUARE_BYTES)
    channel.note_inputs(MEAN_SQUARE, step, clients, np.full((len(clients), 1), square))
