"""One round of federated averaging, made to be inverted: small batches at a fresh model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from fgl_secure.attacks.gradients.model import Activation, Convolution, GradientModel
from fgl_secure.attacks.gradients.receptive_field import receptive_field
from fgl_secure.auditing.recorded_run import RecordedRun
from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fedavg.gradient_noise import GradientNoise, LocallyNoisy
from fgl_secure.methods.fedavg.scenarios import attacked_round, with_fields
from fgl_secure.methods.hifgl.program import hierarchy_of
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.runtime import Channel, Recording, Step
from fgl_secure.training.backbones import LAYERS, make_layers
from fgl_secure.training.server_sums import Averaging, CollectiveMean

Ids = NDArray[np.int64]

HIDDEN = 64
SGC_HOPS = 2


def fresh_model(
    graph: FederatedGraph,
    convolution: Convolution,
    activation: Activation = Activation.SOFTPLUS,
    *,
    seed: int = 0,
    layers: int = 2,
) -> GradientModel:
    """A model before training; SGC has one layer that averages twice.

    Args:
        graph: gives the numbers of features and classes.
        convolution: how layers aggregate.
        activation: between them; a smooth one where attacks differentiate gradients.
        seed: of the initial weights.
        layers: 1 or 2; of no account to SGC.
    """
    linear = convolution is Convolution.SGC
    ends = (graph.graph.num_features, graph.num_classes)
    widths = ends if linear or layers == 1 else (ends[0], HIDDEN, ends[1])
    made = make_layers(LAYERS["gcn" if linear else str(convolution)], widths, seed)
    flat = torch.cat([parameter.detach().reshape(-1) for parameter in made.parameters()])
    hops = SGC_HOPS if linear else 1
    return GradientModel(convolution, widths, flat.numpy().astype(np.float64), activation, hops=hops)


def drawn_batches(graph: FederatedGraph, size: int, seed: int) -> tuple[Ids, ...]:
    """So many labelled nodes of each client, at random: int64 [b], in ascending order.

    Raises:
        InputError: a client has fewer.
    """
    rng = np.random.default_rng(seed)
    found = []
    for client in range(graph.num_silos):
        labelled = np.flatnonzero((graph.silo_of == client) & graph.train_mask)
        if not 1 <= size <= len(labelled):
            raise InputError(f"batch must lie in 1..{len(labelled)}, the labelled nodes of silo {client}; found {size}")
        found.append(np.sort(rng.choice(labelled, size, replace=False)))
    return tuple(found)


def recorded_round(
    graph: FederatedGraph,
    model: GradientModel,
    batches: Sequence[Ids],
    *,
    scheme: Scheme | None = None,
    noise: GradientNoise | None = None,
    seed: int = 0,
) -> RecordedRun:
    """One round in which every client takes the gradient over its batch on its own subgraph, with everything recorded.

    Attackers are told the shape of what is behind each gradient, as `GradientKnowledge.fields` has it.

    Args:
        graph: who has what.
        model: what the server handed out.
        batches: the nodes of each client's step.
        scheme: how gradients are summed; None for in the clear.
        noise: what clients add; None for nothing.
        seed: of the coins.
    """
    local = graph.restricted_to_silos()
    channel = Channel(hierarchy_of(graph), SimulationCoins(seed), Recording.everything())
    adding = Plaintext() if scheme is None else scheme
    updates: Averaging = CollectiveMean(adding, channel, graph.num_devices)
    if noise is not None:
        updates = LocallyNoisy(noise, channel, updates)
    rows = np.stack([_gradient(local, model, batch) for batch in batches])
    updates(rows, np.array([len(batch) for batch in batches], dtype=np.int64), Step(0))
    model = replace(model, sizes=tuple(len(batch) for batch in batches))
    what = f"one round, {model.convolution}"
    made = attacked_round(channel.transcript, graph, model, tuple(batches), adding.name, what)
    return with_fields(made, local, batches, None if noise is None else noise.clip)


def _gradient(local: FederatedGraph, model: GradientModel, batch: Ids) -> NDArray[np.float32]:
    """Float32 [P]: the gradient of the mean loss over a batch, computed on its own surroundings."""
    field, members = receptive_field(local.edges, batch, model.reach)
    x = torch.tensor(local.features[members], dtype=torch.float64)
    labels = torch.from_numpy(local.labels[batch])
    gradient = model.gradient(x, torch.from_numpy(field.counted), labels, torch.arange(len(batch)))
    return np.asarray(gradient.detach().numpy(), dtype=np.float32)
