"""Runs of FedStruct on small graphs, computed with numpy and recorded as a training run is, for attacks to read."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import networkx as nx
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fgl_secure.attacks.structure.knowledge import FEDSTRUCT, FEDSTRUCT_LOUVAIN, STRUCTURE, CrawledGraph, EmbeddingModel
from fgl_secure.attacks.truth import StructureTruth
from fgl_secure.auditing.recorded_run import RecordedRun
from fgl_secure.coins import SimulationCoins
from fgl_secure.graph import FederatedGraph, Graph, SplitMasks
from fgl_secure.graph.structure_features import adjacency_powers, combined_adjacency
from fgl_secure.runtime import Channel, Phase, PublicParameters, Recording, Role, Step, View
from fgl_secure.runtime.channel import Loss
from fgl_secure.training.parties import hierarchy_of, note_membership
from tests.attacks.recorded import Run

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]
Rule = Callable[[Ids, Ids], Floats]

HOPS = 6
ROUNDS = 60
DECAY = 5e-4


def communities(
    seed: int = 0, *, nodes: int = 240, silos: int = 3, classes: int = 4, labelled: float = 0.25, apart: bool = False
) -> FederatedGraph:
    """Preferential attachment inside each class, a few edges between them; silos cut across classes at random.

    Args:
        seed: of the graph, of its silos and of who is labelled.
        nodes: how many, a multiple of `classes`.
        silos: how many.
        classes: labels, communities alike.
        labelled: share of nodes that train.
        apart: whether a node's silo goes with its community, else with nothing.
    """
    rng = np.random.default_rng(seed)
    size = nodes // classes
    parts = [nx.barabasi_albert_graph(size, 2, seed=seed * classes + each) for each in range(classes)]
    inside: Ids = np.array(nx.disjoint_union_all(parts).edges, dtype=np.int64)
    pairs = np.concatenate([inside, rng.integers(nodes, size=(nodes // 8, 2))])
    labels = np.arange(nodes) // size
    silo_of = (np.arange(nodes) * silos) // nodes if apart else rng.permutation(nodes) % silos
    train = rng.random(nodes) < labelled
    train[[int(np.flatnonzero(silo_of == silo)[0]) for silo in range(silos)]] = True
    edges = np.concatenate([pairs, pairs[:, ::-1]]).T
    features = np.ones((nodes, 1), dtype=np.float32)
    graph = Graph.from_arrays("communities", features, labels, edges[:, edges[0] != edges[1]])
    nobody = np.zeros(nodes, dtype=np.bool_)
    return FederatedGraph.from_assignment(graph, silo_of, SplitMasks(train, nobody, nobody))


def return_probabilities(edges: Ids, owners: Ids) -> Floats:
    """FedStar's features as FedStruct takes them over: the diagonals of the first powers of A^, float64 [n, 10]."""
    step = averaging(edges, len(owners))
    power, columns = step, []
    for _ in range(10):
        columns.append(power.diagonal())
        power = sparse.csr_array(power @ step)
    return np.stack(columns, axis=1)


def fedstar(edges: Ids, owners: Ids) -> Floats:
    """Return probabilities beside one-hot degrees, float64 [n, 27]."""
    return np.hstack([return_probabilities(edges, owners), one_hot_degrees(edges, owners)])


def one_hot_degrees(edges: Ids, owners: Ids) -> Floats:
    """One-hot degrees, float64 [n, 17]; degrees of 16 and more share the last column."""
    return np.eye(17)[np.minimum(np.bincount(edges[0], minlength=len(owners)), 16)]


def averaging(edges: Ids, size: int) -> sparse.csr_array:
    """A^ = D~^-1 (A + I)."""
    looped = sparse.csr_array((np.ones(edges.shape[1]), (edges[0], edges[1])), shape=(size, size))
    looped = sparse.csr_array(looped + sparse.eye_array(size))
    looped.data[:] = 1.0
    return sparse.csr_array(sparse.diags_array(1 / looped.sum(axis=1)) @ looped)


def thinned(graph: FederatedGraph, rate: float, seed: int = 0) -> Ids:
    """Both directions of a share of the undirected edges."""
    one_way = graph.edges[:, graph.edges[0] < graph.edges[1]]
    kept = one_way[:, np.random.default_rng(seed).random(one_way.shape[1]) < rate]
    return np.concatenate([kept, kept[::-1]], axis=1)


@dataclass(frozen=True, slots=True, eq=False)
class Learnt:
    """Hop2Vec with the identity as embedding.

    Attributes:
        start: [n, c], the structure features before the first round.
        end: [n, c], after the last.
        gradients: for each client [n, c], its gradient in the first round.
    """

    start: Floats
    end: Floats
    gradients: tuple[Floats, ...]


def hop2vec(graph: FederatedGraph, hops: int = HOPS, rate: float = 0.05) -> Learnt:
    """Trains S by Adam on the cross-entropy of soft-max(A-bar S), A-bar the mean of the first powers."""
    combined = combined_adjacency(adjacency_powers(graph.graph, hops, kept=30), [0.0] + [1 / hops] * hops)
    rows = sparse.csr_array(combined[np.flatnonzero(graph.train_mask)])
    start = np.random.default_rng(0).normal(0, 0.05, (graph.num_devices, graph.num_classes))
    features, mean, square = start.copy(), np.zeros_like(start), np.zeros_like(start)
    for number in range(1, ROUNDS + 1):
        slope = rows.T @ errors(graph, rows, features) / graph.num_silos + DECAY * features
        mean, square = 0.9 * mean + 0.1 * slope, 0.999 * square + 0.001 * slope**2
        features = features - rate * (mean / (1 - 0.9**number)) / (np.sqrt(square / (1 - 0.999**number)) + 1e-8)
    client, first = graph.silo_of[graph.train_mask], errors(graph, rows, start)
    sent = tuple(np.asarray(rows.T @ (first * (client == silo)[:, None])) for silo in range(graph.num_silos))
    return Learnt(start, features, sent)


def errors(graph: FederatedGraph, rows: sparse.csr_array, features: Floats) -> Floats:
    """Predictions less labels at the training nodes, over their number at the same client (Prop. 2): [labelled, c]."""
    logits = rows @ features
    chances = np.exp(logits - logits.max(axis=1, keepdims=True))
    client = graph.silo_of[graph.train_mask]
    delta = chances / chances.sum(axis=1, keepdims=True) - np.eye(graph.num_classes)[graph.labels[graph.train_mask]]
    return np.asarray(delta / np.bincount(client)[client][:, None])


def record_rule(
    graph: FederatedGraph,
    rule: Rule = fedstar,
    *,
    rate: float = 1.0,
    loss: Loss | None = None,
    recording: Recording | None = None,
) -> Run:
    """Task-agnostic features, shared once; attackers know the rule and a crawl with a share of the edges."""
    channel = _opened(graph, loss, recording)
    values = rule(graph.edges, graph.silo_of)
    _share(channel, graph, values, values, 0)
    return _run(channel, graph, CrawledGraph(thinned(graph, rate), graph.silo_of, rate, rule))


def record_hop2vec(
    graph: FederatedGraph,
    *,
    summed: bool = False,
    hops: int = HOPS,
    loss: Loss | None = None,
    recording: Recording | None = None,
) -> Run:
    """Hop2Vec: features as learnt at every client, gradients of the first round at the server, summed or not."""
    channel = _opened(graph, loss, recording)
    learnt = hop2vec(graph, hops)
    _share(channel, graph, learnt.start, learnt.end, ROUNDS)
    send_gradients(channel, learnt.gradients, summed=summed)
    return _run(channel, graph)


def record_gradients(graph: FederatedGraph, clients: tuple[Floats, ...]) -> Run:
    """A run in which nothing but given gradients [n, d] of each client is sent."""
    channel = _opened(graph, None, None)
    send_gradients(channel, clients, summed=False)
    return _run(channel, graph)


def send_gradients(channel: Channel, clients: tuple[Floats, ...], *, summed: bool) -> None:
    """Every client's gradient of all nodes to the server, unless it gets the sum alone; and what it learns, the sum."""
    (server,), vectors = channel.parties.ids(Role.SERVER), np.stack([each.reshape(-1) for each in clients])
    if not summed:
        silos = channel.parties.ids(Role.SILO)
        vectors = channel.send(Phase.VECTORS, Step(0), silos, np.full(len(silos), server), vectors).payload
    if len(vectors):
        total = vectors.sum(axis=0, keepdims=True)
        channel.note_outputs("structure gradient sum", Step(0), np.array([server]), total)


def references() -> Mapping[str, RecordedRun]:
    """What attacks on structure features and their gradients must break."""
    scattered, apart = communities(), communities(apart=True)
    return {
        FEDSTRUCT: record_hop2vec(scattered).recorded(STRUCTURE, "hop2vec"),
        FEDSTRUCT_LOUVAIN: record_rule(apart).recorded(STRUCTURE, "fedstar"),
    }


def without(view: View, *names: str) -> View:
    """A view that lacks what the observers know under some names."""
    return replace(view, private=tuple(rows for rows in view.private if rows.name not in names))


def _opened(graph: FederatedGraph, loss: Loss | None, recording: Recording | None) -> Channel:
    channel = Channel(hierarchy_of(graph), SimulationCoins(0), recording or Recording.everything(), loss)
    note_membership(channel, graph.silo_of)
    silos, (source, target) = channel.parties.ids(Role.SILO), graph.edges
    rows = np.stack([source, target, graph.silo_of[target]], axis=1)
    channel.note_inputs("own edges", Step(0), silos[graph.silo_of[source]], rows)
    trained = np.flatnonzero(graph.train_mask)
    labels = np.stack([trained, graph.labels[trained]], axis=1)
    channel.note_inputs("own labels", Step(0), silos[graph.silo_of[trained]], labels)
    nodes = np.arange(graph.num_devices)
    channel.note_inputs("own names", Step(0), silos[graph.silo_of], np.stack([nodes, nodes], axis=1))
    return channel


def _share(channel: Channel, graph: FederatedGraph, start: Floats, end: Floats, rounds: int) -> None:
    """Every client sends the features of its nodes to every other one, and holds what arrived to the end."""
    silos = channel.parties.ids(Role.SILO)
    nodes = np.tile(np.arange(graph.num_devices), graph.num_silos)
    to = np.repeat(np.arange(graph.num_silos), graph.num_devices)
    nodes, to = nodes[graph.silo_of[nodes] != to], to[graph.silo_of[nodes] != to]
    first, last = (np.hstack([nodes[:, None], each[nodes]]).astype(np.float32) for each in (start, end))
    got = channel.send(Phase.STRUCTURE_FEATURES, Step(0), silos[graph.silo_of[nodes]], silos[to], first)
    held = last if got.rows is None else last[got.rows]
    channel.note_inputs("shared features", Step(rounds), got.receivers, held)
    own = np.hstack([np.arange(graph.num_devices)[:, None], end]).astype(np.float32)
    channel.note_inputs("own features", Step(rounds), silos[graph.silo_of], own)


def _run(channel: Channel, graph: FederatedGraph, *known: object) -> Run:
    truth = StructureTruth.of(channel.parties, graph)
    return Run(graph, PublicParameters(), channel.transcript, truth, (EmbeddingModel(), *known))
