"""Rounds of federated averaging, computed with the attacker's own model, and what attacks on them must keep."""

from dataclasses import dataclass, replace
from typing import Any

import networkx as nx
import numpy as np
import torch
from numpy.typing import NDArray

from fgl_secure.attacks.base import Measurement, guess_of
from fgl_secure.attacks.gradients.fields import FieldGuess
from fgl_secure.attacks.gradients.knowledge import Candidates, GradientKnowledge
from fgl_secure.attacks.gradients.model import Activation, Convolution, GradientModel, layout_of
from fgl_secure.attacks.truth import ClientBatch, GradientTruth, UpdateTruth
from fgl_secure.attacks.updates import Suspects
from fgl_secure.coins import SimulationCoins
from fgl_secure.graph import FederatedGraph, Graph, SplitMasks
from fgl_secure.runtime import Channel, MessageKind, Phase, PublicParameters, Recording, Role, Step
from fgl_secure.runtime.channel import Loss
from fgl_secure.runtime.transcript import PARTICIPANTS, SERVER_SUM
from fgl_secure.training.parties import hierarchy_of
from tests.attacks.conformance import AttackConformance
from tests.attacks.recorded import Run

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Setting:
    """How a round is trained.

    Attributes:
        convolution: of the model.
        hidden: width of the hidden layer; 0 for a model of one layer.
        batch: nodes of a client's batch; of a client with fewer, all.
        hops: see `GradientModel`.
        dtype: of what is sent.
        summed: whether the server gets the sum alone.
        noise: standard deviation of noise on every entry, as a multiple of the gradient's length.
        owners: whether attackers know whose a node is.
        seed: of weights, batches and noise.
    """

    convolution: Convolution = Convolution.GCN
    hidden: int = 64
    batch: int = 4
    hops: int = 1
    dtype: str = "float64"
    summed: bool = False
    noise: float = 0.0
    owners: bool = True
    seed: int = 0


def clusters(seed: int = 0, *, nodes: int = 240, silos: int = 4, classes: int = 4, words: int = 150) -> FederatedGraph:
    """Preferential attachment inside each silo, 0/1 words that go with the class, all nodes in training."""
    rng = np.random.default_rng(seed)
    parts = [nx.barabasi_albert_graph(nodes // silos, 2, seed=seed * silos + each) for each in range(silos)]
    pairs: Ids = np.array(nx.disjoint_union_all(parts).edges, dtype=np.int64)
    labels = rng.permutation(nodes) % classes
    likely = np.where(np.arange(words) % classes == labels[:, None], 0.12, 0.04)
    features = rng.random((nodes, words)) < likely
    features[np.arange(nodes), rng.integers(words, size=nodes)] = True
    edges = np.concatenate([pairs, pairs[:, ::-1]]).T
    return _federated(features.astype(np.float32), labels, edges, np.arange(nodes) * silos // nodes)


def in_one_silo(graph: Graph, silos: int = 1) -> FederatedGraph:
    """A graph whose nodes belong to the first of some silos, but for one lonely node for each of the others."""
    silo_of = np.zeros(graph.num_nodes, dtype=np.int64)
    silo_of[: silos - 1] = np.arange(1, silos)
    everyone = np.ones(graph.num_nodes, dtype=np.bool_)
    return FederatedGraph.from_assignment(graph, silo_of, SplitMasks(everyone, ~everyone, ~everyone))


def model_of(graph: FederatedGraph, setting: Setting) -> GradientModel:
    """A model at initial weights: Glorot and Bengio's for weights, zeros for biases."""
    hidden = (setting.hidden,) if setting.hidden else ()
    widths = (graph.features.shape[1], *hidden, graph.num_classes)
    rng, drawn = np.random.default_rng(setting.seed), []
    for shape in layout_of(setting.convolution, widths).shapes:
        spread = np.sqrt(6 / sum(shape)) if len(shape) > 1 else 0.0
        drawn.append(rng.uniform(-spread, spread, shape).ravel())
    weights = np.concatenate(drawn)
    return GradientModel(setting.convolution, widths, weights, Activation.RELU, setting.hops)


def drawn_batches(graph: FederatedGraph, setting: Setting) -> tuple[Ids, ...]:
    """A batch of each silo's own nodes."""
    rng = np.random.default_rng(setting.seed + 100)
    members = [np.flatnonzero(graph.silo_of == silo) for silo in range(graph.num_silos)]
    return tuple(np.sort(rng.choice(each, min(setting.batch, len(each)), replace=False)) for each in members)


def record_round(
    graph: FederatedGraph,
    setting: Setting,
    batches: tuple[Ids, ...] | None = None,
    *,
    loss: Loss | None = None,
    recording: Recording | None = None,
) -> Run:
    """One round, with edges as they are (each silo's own, where none crosses).

    Args:
        graph: who has what.
        setting: how it is trained.
        batches: for each silo the nodes that it trains on; drawn unless given.
        loss: a network that loses messages.
        recording: what is kept; everything unless given.
    """
    channel = Channel(hierarchy_of(graph), SimulationCoins(0), recording or Recording.everything(), loss)
    chosen = batches or drawn_batches(graph, setting)
    model = replace(model_of(graph, setting), sizes=tuple(len(batch) for batch in chosen))
    sent = gradients(graph, model, chosen)
    rng = np.random.default_rng(setting.seed + 200)
    sent += setting.noise * np.linalg.norm(sent, axis=1, keepdims=True) * rng.normal(size=sent.shape)
    send(channel, 0, sent.astype(setting.dtype), np.arange(len(chosen)), summed=setting.summed)
    fields = tuple(
        ClientBatch(0, silo, batch, receptive(graph, batch, model.layers - 1)) for silo, batch in enumerate(chosen)
    )
    owners = graph.silo_of if setting.owners else np.full(graph.num_devices, -1)
    candidates = Candidates(graph.features, graph.edges, owners.astype(np.int64))
    truth = replace(GradientTruth.of(graph), batches=fields, entering=candidates.entering(model))
    return Run(graph, PublicParameters(), channel.transcript, truth, (GradientKnowledge(model, candidates),))


def gradients(graph: FederatedGraph, model: GradientModel, batches: tuple[Ids, ...]) -> Floats:
    """The gradient of each batch, float64 [k, P]."""
    return np.stack([_gradient(graph, model, batch) for batch in batches])


def _gradient(graph: FederatedGraph, model: GradientModel, batch: Ids) -> Floats:
    """On the nodes that reach the batch and, since degrees count, on their neighbours."""
    near = receptive(graph, batch, model.reach + 1)
    inside = np.isin(graph.edges, near).all(axis=0)
    x, edges = torch.tensor(graph.features[near], dtype=torch.float64), np.searchsorted(near, graph.edges[:, inside])
    labels, rows = torch.tensor(graph.labels[batch]), torch.tensor(np.searchsorted(near, batch))
    return np.asarray(model.gradient(x, torch.tensor(edges), labels, rows).detach().numpy())


def send(channel: Channel, number: int, updates: Floats, clients: Ids, *, summed: bool) -> None:
    """A model to some clients, and their updates to the server, or their sum and who is in it."""
    (server,) = channel.parties.ids(Role.SERVER)
    to, step = np.full(len(clients), server), Step(number)
    channel.send_sizes(Phase.MODEL, step, to, channel.parties.ids(Role.SILO)[clients], updates.shape[1] * 4)
    channel.note_outputs(PARTICIPANTS, step, to, clients[:, None])
    rows = np.concatenate([updates.astype(np.float64), np.ones((len(updates), 1))], axis=1)
    if summed:
        channel.note_outputs(SERVER_SUM, step, to[:1], rows.sum(axis=0, keepdims=True))
        return
    channel.send(Phase.VECTORS, step, channel.parties.ids(Role.SILO)[clients], to, rows)


def receptive(graph: FederatedGraph, batch: Ids, hops: int) -> Ids:
    """The nodes at most some hops from a batch, ascending."""
    inside = np.zeros(graph.num_devices, dtype=np.bool_)
    inside[batch] = True
    for _ in range(hops):
        inside[graph.edges[0][inside[graph.edges[1]]]] = True
    return np.flatnonzero(inside)


def record_static(participation: NDArray[np.bool_], *, drift: float = 0.0, seed: int = 0) -> Run:
    """Sums of updates of 30 entries, in rounds where clients take part as bool [rounds, clients] says.

    Args:
        participation: who takes part when; a round in which nobody does is left out.
        drift: spread of what changes from round to round, where an update's entries have spread 1.
        seed: of the updates.
    """
    rng, clients = np.random.default_rng(seed), participation.shape[1]
    graph = _lonely(clients)
    channel = Channel(hierarchy_of(graph), SimulationCoins(0), Recording.everything())
    own, updates = rng.normal(size=(clients, 30)), {}
    for number, there in enumerate(participation):
        if there.any():
            now = own + drift * rng.normal(size=own.shape)
            send(channel, number, now[there], np.flatnonzero(there), summed=True)
            updates[number] = np.where(there[:, None], now, np.nan)
    return Run(graph, PublicParameters(), channel.transcript, UpdateTruth(updates))


def record_pairs(clients: int, width: int, rounds: int, *, seed: int = 0) -> Run:
    """Sums of normal updates, and for each client and round the one that it sent beside another, in random order."""
    rng, graph = np.random.default_rng(seed), _lonely(clients)
    channel = Channel(hierarchy_of(graph), SimulationCoins(0), Recording.everything())
    scale = rng.uniform(0.5, 2.0, size=width)
    updates, pairs = {}, {}
    for number in range(rounds):
        two = rng.normal(size=(clients, 2, width)) * scale + 5
        updates[number] = two[np.arange(clients), rng.integers(2, size=clients)]
        pairs[number] = two
        send(channel, number, updates[number], np.arange(clients), summed=True)
    population = rng.normal(size=(1000, width)) * scale + 5
    known = (Suspects(population, pairs),)
    return Run(graph, PublicParameters(), channel.transcript, UpdateTruth(updates), known)


def _lonely(clients: int) -> FederatedGraph:
    nothing = np.empty((2, 0), dtype=np.int64)
    return _federated(np.ones((clients, 1), dtype=np.float32), np.arange(clients) % 2, nothing, np.arange(clients))


def _federated(features: NDArray[np.float32], labels: Ids, edges: Ids, silo_of: Ids) -> FederatedGraph:
    everyone = np.ones(len(labels), dtype=np.bool_)
    graph = Graph.from_arrays("clusters", features, labels, edges)
    return FederatedGraph.from_assignment(graph, silo_of, SplitMasks(everyone, ~everyone, ~everyone))


class GradientConformance(AttackConformance):
    """Inherit as `Test...`, name the attack, list its claims and say how its run is recorded.

    Attributes:
        setting: how the round is trained that the attack reads.
    """

    rests_on: tuple[frozenset[MessageKind], ...] = (frozenset({Phase.VECTORS}),)
    needs_edges = False
    setting = Setting(batch=2)

    def run(self, loss: Loss | None = None, recording: Recording | None = None) -> Run:
        """A round of four clients."""
        return record_round(clusters(nodes=80), self.setting, loss=loss, recording=recording)

    def exchange(self, graph: FederatedGraph, values: NDArray[np.float64], **network: Any) -> Run:
        """A round on a graph with other features."""
        everyone = np.ones(graph.num_devices, dtype=np.bool_)
        other = Graph.from_arrays("drawn", values.astype(np.float32), graph.labels, graph.edges)
        held = FederatedGraph.from_assignment(other, graph.silo_of, SplitMasks(everyone, ~everyone, ~everyone))
        return record_round(held, self.setting, **network)


class SumConformance(GradientConformance):
    """The same for attacks on sums, which the server notes and nobody sends."""

    rests_on = ()

    def record(self) -> Run:
        """What the attack reads."""
        raise NotImplementedError

    def run(self, loss: Loss | None = None, recording: Recording | None = None) -> Run:
        """What the attack reads; nothing of it is sent, so a network loses nothing."""
        if recording is None:
            return self.record()
        return record_round(clusters(nodes=80), Setting(batch=2, summed=True), loss=loss, recording=recording)

    def exchange(self, graph: FederatedGraph, values: NDArray[np.float64], **network: Any) -> Run:  # noqa: ARG002  # for others
        """The same run."""
        return self.run(**network)

    def test_reads_no_gradients_in_the_clear(self) -> None:
        plain = record_round(clusters(nodes=80), Setting(batch=2))
        view = plain.transcript.views(self.attack.card.observer)
        assert guess_of(self.attack, view, plain.public, self.run().knowledge) is None


def area_of(found: Measurement) -> float:
    """The area under the curve behind a figure."""
    return (found.value + 1) / 2


def pairs_of(guess: FieldGuess) -> list[tuple[int, int]]:
    """The pairs of a client and a node that are claimed."""
    assert guess.hits is not None
    rows, nodes = guess.hits.nonzero()
    return list(zip(guess.clients[rows].tolist(), nodes.tolist(), strict=True))
