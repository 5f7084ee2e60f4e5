"""Rounds of federated averaging for attacks, with their truth, and rounds that attacks on updates must break."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from types import MappingProxyType

import networkx as nx
import numpy as np
import torch
from numpy.typing import NDArray

from fgl_secure.attacks.gradients.knowledge import (
    FEDAVG,
    FEDAVG_PAIRS,
    FEDAVG_SINGLE,
    FEDAVG_SMOOTH,
    FEDAVG_STATIC,
    UPDATES,
    Candidates,
    GradientKnowledge,
)
from fgl_secure.attacks.gradients.model import Activation, Convolution, GradientModel, receptive_field
from fgl_secure.attacks.truth import ClientBatch, GradientTruth, UpdateTruth
from fgl_secure.attacks.updates import Suspects
from fgl_secure.auditing.controls import Makers
from fgl_secure.auditing.recorded_run import RecordedRun
from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph, Graph, SplitMasks
from fgl_secure.methods.fedavg.program import GradientNoise, LocalTraining, UpdateRule, batch_of, clients_of
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.topology import SERVER
from fgl_secure.runtime import Channel, PublicParameters, Recording, Role, Step, Transcript
from fgl_secure.runtime.transcript import PARTICIPANTS, SERVER_SUM
from fgl_secure.training.backbones import LAYERS, make_layers
from fgl_secure.training.collectives import Collectives
from fgl_secure.training.one_process import OneProcess
from fgl_secure.training.parameters import flat
from fgl_secure.training.parties import hierarchy_of
from fgl_secure.training.presets import HONEST, Preset
from fgl_secure.training.program import Program
from fgl_secure.typing import Array, Ids


def drawn_batches(graph: FederatedGraph, size: int | None, seed: int) -> tuple[Ids, ...]:
    """So many labelled nodes of each client, at random: int64 [b], ascending; all where it has no more."""
    rng = np.random.default_rng(seed)
    labelled = [np.flatnonzero((graph.silo_of == client) & graph.train_mask) for client in range(graph.num_silos)]
    return tuple(batch_of(nodes, size, rng) for nodes in labelled)


def one_round(
    graph: FederatedGraph,
    preset: Preset,
    rule: UpdateRule,
    description: str,
    *,
    label: str = "drawn for attacks",
    local: LocalTraining | None = None,
    backbone: str = "gcn",
    seed: int = 0,
) -> RecordedRun:
    """One round with everything recorded, under repeatable coins.

    Args:
        graph: who has what.
        preset: width and layers of the model.
        rule: how updates become their mean.
        description: what was exchanged, in words.
        label: what the scheme is called.
        local: what a client does in a round.
        backbone: "gcn" or "sage".
        seed: of weights, batches and coins.
    """
    local = local or LocalTraining()
    batches = drawn_batches(graph, local.batch, seed)
    job = clients_of(graph, rule, preset, local, backbone=backbone, seed=seed, first=batches)
    channel = job.channel(SimulationCoins(seed), Recording.everything())
    job.open(channel).round(0)
    model = gradient_model(graph, preset, local, backbone, seed)
    return attacked_round(channel.transcript, graph, model, batches, label, description)


def gradient_model(
    graph: FederatedGraph, preset: Preset, local: LocalTraining, backbone: str, seed: int
) -> GradientModel:
    """What the server knows of the model before the first round."""
    widths = preset.widths(graph.graph.num_features, graph.num_classes)
    start = flat(list(make_layers(LAYERS[backbone], widths, seed).parameters()))
    return GradientModel(Convolution(backbone), widths, start.astype(np.float64), rate=float(local.steps))


def attacked_round(
    transcript: Transcript, graph: FederatedGraph, model: GradientModel, batches: tuple[Ids, ...], label: str, text: str
) -> RecordedRun:
    """A recorded first round as attacks read it.

    Args:
        transcript: what was said.
        graph: who has what.
        model: what the server handed out.
        batches: for each client the nodes of its first step.
        label: what the scheme is called.
        text: what was exchanged, in words.
    """
    local = graph.restricted_to_silos()
    candidates = Candidates(graph.features, local.edges, graph.silo_of.astype(np.int64))
    model = replace(model, sizes=tuple(len(nodes) for nodes in batches))
    truth = replace(
        GradientTruth.of(local),
        entering=candidates.entering(model),
        batches=tuple(
            ClientBatch(0, client, nodes, _receptive(local, nodes, model.layers - 1))
            for client, nodes in enumerate(batches)
        ),
    )
    knowledge = GradientKnowledge(model, candidates)
    return RecordedRun(label, text, UPDATES, PublicParameters(), transcript, (truth,), (knowledge,))


def with_fields(
    run: RecordedRun, local: FederatedGraph, batches: Sequence[Ids], clip: float | None = None
) -> RecordedRun:
    """The same run for attackers who know how the nodes behind each gradient are joined.

    Args:
        run: a round of a known model.
        local: the graph without edges between clients.
        batches: the nodes of each client's step.
        clip: the norm that clients cut their gradients down to, which is public; None where they don't.

    Raises:
        InputError: nothing is known of the round's model.
    """
    known, truth = run.knows(GradientKnowledge), run.truth(GradientTruth)
    pairs = [receptive_field(local.edges, batch, known.model.reach) for batch in batches]
    fields = {client: field for client, (field, _) in enumerate(pairs)}
    known = replace(known, fields=fields, image_shape=local.graph.image_shape, clip=clip)
    entering = {} if known.candidates is None else known.candidates.entering(known.model)
    members = {client: result for client, (_, result) in enumerate(pairs)}
    return replace(run, knowledge=(known,), truths=(replace(truth, fields=members, entering=entering),))


def _receptive(local: FederatedGraph, nodes: Ids, hops: int) -> Ids:
    """The nodes at most so many hops from some, themselves included, ascending."""
    inside = np.zeros(local.num_devices, dtype=np.bool_)
    inside[nodes] = True
    for _ in range(hops):
        inside[local.edges[0][inside[local.edges[1]]]] = True
    return np.flatnonzero(inside)


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
    layer_list = make_layers(LAYERS["gcn" if linear else str(convolution)], widths, seed)
    weights, hops = flat(list(layer_list.parameters())).astype(np.float64), SGC_HOPS if linear else 1
    return GradientModel(convolution, widths, weights, activation, hops=hops)


def full_batches(graph: FederatedGraph, size: int, seed: int) -> tuple[Ids, ...]:
    """So many labelled nodes of each client, at random: int64 [b], ascending.

    Raises:
        InputError: a client has fewer.
    """
    for client in range(graph.num_silos):
        labelled = int(graph.train_mask[graph.silo_of == client].sum())
        if not 1 <= size <= labelled:
            raise InputError(f"batch must lie in 1..{labelled}, the labelled nodes of silo {client}; found {size}")
    return drawn_batches(graph, size, seed)


class _Gradients(Program):
    """One round of a mean of gradients that were computed before."""

    def __init__(self, comm: Collectives, rows: NDArray[np.float32], weights: Sequence[int]) -> None:
        super().__init__(comm)
        self._row, self._weight = rows[comm.silo.silo], weights[comm.silo.silo]

    def round(self, number: int) -> bool:  # noqa: ARG002  # there is one
        self.comm.mean(self._row, self._weight, self.silo.facts.nodes)
        return False

    @property
    def report(self) -> dict[str, Array]:
        return {}


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
        scheme: how gradients are summed; None for in plaintext.
        noise: what clients add; None for nothing.
        seed: of the coins.
    """
    local = graph.restricted_to_silos()
    channel = Channel(hierarchy_of(graph), SimulationCoins(seed), Recording.everything())
    adding = Plaintext() if scheme is None else scheme
    rows = np.stack([_gradient(local, model, batch) for batch in batches])
    rows = rows if noise is None else noise.apply(rows, channel.coins)
    weights = [len(batch) for batch in batches]
    OneProcess(
        graph, {SERVER: adding}, channel, lambda comm: _Gradients(comm, rows, weights), message_graph=local
    ).round(0)
    model = replace(model, sizes=tuple(len(batch) for batch in batches))
    description = f"one round, {model.convolution}"
    run = attacked_round(channel.transcript, graph, model, tuple(batches), adding.name, description)
    return with_fields(run, local, batches, None if noise is None else noise.clip)


def _gradient(local: FederatedGraph, model: GradientModel, batch: Ids) -> NDArray[np.float32]:
    """Float32 [P]: the gradient of the mean loss over a batch, computed on its own surroundings."""
    field, members = receptive_field(local.edges, batch, model.reach)
    x = torch.tensor(local.features[members], dtype=torch.float64)
    labels = torch.from_numpy(local.labels[batch])
    gradient = model.gradient(x, torch.from_numpy(field.edges_with_loops), labels, torch.arange(len(batch)))
    return np.asarray(gradient.detach().numpy(), dtype=np.float32)


SHALLOW = replace(HONEST, layers=1)
STATIC_ROUNDS = 40
STATIC_CLIENTS, STATIC_ENTRIES = 12, 50
TREES, TREE_NODES, TREE_ENTRIES, TREE_CLASSES, TREE_SEED = 4, 8, 32, 4, 3


@cache
def _graph() -> FederatedGraph:
    """Preferential attachment inside each of four classes, features of 300 columns, three clients."""
    rng, nodes, classes = np.random.default_rng(0), 360, 4
    parts = [nx.barabasi_albert_graph(nodes // classes, 2, seed=item) for item in range(classes)]
    inside = np.array(nx.disjoint_union_all(parts).edges, dtype=np.int64)
    labels = np.arange(nodes) // (nodes // classes)
    # words of which each class has some of its own: sparse rows of zeros and ones, as of papers
    likely = np.where(np.arange(300)[None, :] % classes == labels[:, None], 0.12, 0.03)
    words = (rng.random((nodes, 300)) < likely).astype(np.float32)
    train = rng.random(nodes) < 0.4
    graph = Graph.from_arrays("reference", words, labels, np.concatenate([inside, inside[:, ::-1]]).T)
    client_of = rng.permutation(nodes) % 3
    return FederatedGraph.from_assignment(graph, client_of, SplitMasks(train, np.zeros_like(train), ~train))


@cache
def _in_the_clear() -> RecordedRun:
    return one_round(_graph(), HONEST, UpdateRule(), "reference", local=LocalTraining(batch=8))


@cache
def _single() -> RecordedRun:
    return one_round(_graph(), SHALLOW, UpdateRule(), "reference, single nodes", local=LocalTraining(batch=1))


@cache
def _static() -> RecordedRun:
    """Every client has one update for all rounds, and takes part in half of them."""
    rng, nodes, static_graph = np.random.default_rng(0), np.arange(STATIC_CLIENTS), _edgeless(STATIC_CLIENTS)
    channel = Channel(hierarchy_of(static_graph), SimulationCoins(0), Recording.everything())
    server = channel.parties.ids(Role.SERVER)
    client_rows, updates = rng.normal(size=(STATIC_CLIENTS, STATIC_ENTRIES)), {}
    for number in range(STATIC_ROUNDS):
        present = np.flatnonzero(rng.random(STATIC_CLIENTS) < 0.5)
        if not len(present):
            continue
        _note_sum(channel, number, server, client_rows[present], present)
        updates[number] = np.where(np.isin(nodes, present)[:, None], client_rows, np.nan)
    description, truth = "reference, the same updates in all rounds", UpdateTruth(updates)
    return RecordedRun("drawn for attacks", description, UPDATES, PublicParameters(), channel.transcript, (truth,))


@cache
def _pairs() -> RecordedRun:
    """Normal updates of ten clients in twenty rounds, each one of two that the server knows."""
    rng, clients, width = np.random.default_rng(0), 10, 100
    pair_graph = _edgeless(clients)
    channel = Channel(hierarchy_of(pair_graph), SimulationCoins(0), Recording.everything())
    server, scale = channel.parties.ids(Role.SERVER), rng.uniform(0.5, 2.0, size=width)
    updates, pairs = {}, {}
    for number in range(20):
        pairs[number] = rng.normal(size=(clients, 2, width)) * scale + 1
        updates[number] = pairs[number][np.arange(clients), rng.integers(2, size=clients)]
        _note_sum(channel, number, server, updates[number], np.arange(clients))
    suspects = Suspects(rng.normal(size=(1000, width)) * scale + 1, pairs)
    rest = (PublicParameters(), channel.transcript, (UpdateTruth(updates),), (suspects,))
    return RecordedRun("drawn for attacks", "reference, one of two updates", UPDATES, *rest)


@cache
def _smooth() -> RecordedRun:
    """A round of GraphSAGE with two layers and softplus between them, one node a batch, in plaintext."""
    graph = small_trees(TREE_SEED)
    return recorded_round(graph, fresh_model(graph, Convolution.SAGE), full_batches(graph, 1, 0))


def small_trees(seed: int) -> FederatedGraph:
    """A random tree of eight nodes in each of four silos, rows of 32 numbers in [0, 1], all nodes labelled."""
    rng, total = np.random.default_rng(seed), TREES * TREE_NODES
    trees = [nx.random_labeled_tree(TREE_NODES, seed=seed + silo) for silo in range(TREES)]
    pairs = np.array(nx.disjoint_union_all(trees).edges, dtype=np.int64)
    edges = np.concatenate([pairs, pairs[:, ::-1]]).T
    graph = Graph.from_arrays("trees", rng.random((total, TREE_ENTRIES)), rng.integers(TREE_CLASSES, size=total), edges)
    mask = np.ones(total, dtype=np.bool_)
    split = SplitMasks(mask, ~mask, ~mask)
    return FederatedGraph.from_assignment(graph, np.arange(total) // TREE_NODES, split)


def _edgeless(clients: int) -> FederatedGraph:
    """A node for each client."""
    nodes, mask = np.arange(clients), np.ones(clients, dtype=np.bool_)
    graph = Graph.from_arrays("reference", np.ones((clients, 1)), nodes % 2, np.empty((2, 0), dtype=np.int64))
    return FederatedGraph.from_assignment(graph, nodes, SplitMasks(mask, ~mask, ~mask))


def _note_sum(channel: Channel, number: int, server: Ids, updates: NDArray[np.float64], present: Ids) -> None:
    step = Step(number)
    channel.note_outputs(SERVER_SUM, step, server, np.append(updates.sum(axis=0), len(present))[None])
    channel.note_outputs(PARTICIPANTS, step, np.repeat(server, len(present)), present[:, None])


CONTROLS: Makers = MappingProxyType({
    FEDAVG: _in_the_clear,
    FEDAVG_SINGLE: _single,
    FEDAVG_STATIC: _static,
    FEDAVG_PAIRS: _pairs,
    FEDAVG_SMOOTH: _smooth,
})  # fmt: skip
"""What attacks on updates must break, by name; each is made on first use."""
