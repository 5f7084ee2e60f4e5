"""Runs of FedStruct on small graphs, computed with numpy and recorded as a training run is; what attacks must keep."""

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import networkx as nx
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fgl_secure.attacks.edge_claims import ForeignEdges
from fgl_secure.attacks.structure.hop_sums import noted_embeddings
from fgl_secure.attacks.structure.knowledge import CrawledGraph, EmbeddingModel
from fgl_secure.attacks.truth import StructureTruth, sent_rows
from fgl_secure.coins import SimulationCoins
from fgl_secure.graph import FederatedGraph, Graph, SplitMasks
from fgl_secure.graph.structure_features import (
    adjacency_powers,
    combined_adjacency,
    looped_adjacency,
    normalised_adjacency,
)
from fgl_secure.runtime import Channel, Phase, PublicParameters, Recording, Role, Step, View
from fgl_secure.runtime.channel import Loss
from fgl_secure.training.parties import hierarchy_of, note_membership
from tests.attacks.conformance import AttackConformance, Claims
from tests.attacks.recorded import Run, both_ways, federated, random_graph

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
    combined = combined_adjacency(adjacency_powers(graph.graph, hops, row_entries=30), [0.0] + [1 / hops] * hops)
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
    channel = _opened(graph)
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


def without(view: View, *names: str) -> View:
    """A view that lacks what the observers know under some names."""
    return replace(view, private=tuple(rows for rows in view.private if rows.name not in names))


def _opened(graph: FederatedGraph, loss: Loss | None = None, recording: Recording | None = None) -> Channel:
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


def claimed(*columns: NDArray[Any]) -> Counter[Any]:
    """Rows of columns of equal length as claims."""
    return Counter(zip(*(column.tolist() for column in columns), strict=True))


class StructureConformance(AttackConformance):
    """Inherit as `Test...`, name the attack, list its claims and say how its run is recorded."""

    @abstractmethod
    def recorded(self, graph: FederatedGraph, **network: Any) -> Run:
        """What is recorded for the attack on a graph."""

    def small(self) -> FederatedGraph:
        """A graph over three clients for the runs in which messages get lost."""
        return communities(3, nodes=60)

    def run(self, loss: Loss | None = None, recording: Recording | None = None) -> Run:
        return self.recorded(self.small(), loss=loss, recording=recording)

    def exchange(self, graph: FederatedGraph, values: NDArray[np.float64], **network: Any) -> Run:  # noqa: ARG002  # for others
        return self.recorded(graph, **network)


class HopConformance(StructureConformance):
    """What attacks on powers and sums of several hops keep."""

    def small(self) -> FederatedGraph:
        return random_graph(5, directed=False, pairs=22)


class EdgeConformance(HopConformance):
    """What attacks keep that claim edges between nodes of others."""

    def claims(self, guess: ForeignEdges) -> Claims:
        return Counter(zip(guess.lower.tolist(), guess.upper.tolist(), strict=True))

    def test_claims_each_foreign_pair_once(self) -> None:
        """No client claims a pair twice, an edge of its own, or a pair of one node."""
        run = self.recorded(scale_free())
        guess = self.guess(run)
        assert (guess.lower < guess.upper).all()
        for ends in (guess.lower, guess.upper):
            assert (run.graph.silo_of[ends] != guess.clients).all()
        triples = np.stack([guess.clients, guess.lower, guess.upper])
        assert np.unique(triples, axis=1).shape == triples.shape


def scale_free(nodes: int = 240, silos: int = 4, links: int = 2, seed: int = 0) -> FederatedGraph:
    """A preferential-attachment graph dealt to silos at random."""
    edges = np.array(nx.barabasi_albert_graph(nodes, links, seed=seed).edges)
    return federated(both_ways(edges), np.random.default_rng(seed).permutation(nodes) % silos)


def record_exchange(graph: FederatedGraph, hops: int = 2, **network: Any) -> Run:
    """The exchange of powers in the clear, every share visible, nothing pruned (FedStruct, Algorithm 3)."""
    channel = _opened(graph, **network)
    looped, power = looped_adjacency(graph.graph), normalised_adjacency(graph.graph)
    _note_rows(channel, graph, "hop rows", Step(0, layer=1), power)
    for layer in range(2, hops + 1):
        power = _next_power(channel, graph, Step(0, layer=layer), looped, power)
        _note_rows(channel, graph, "hop rows", Step(0, layer=layer), power)
    _note_rows(channel, graph, "combined rows", Step(0), power)
    return _finished(channel, graph)


def record_rows(graph: FederatedGraph, name: str, step: Step, matrix: sparse.csr_array) -> Run:
    """A run in which every client holds its rows of one matrix and receives nothing."""
    channel = _opened(graph)
    _note_rows(channel, graph, name, step, matrix)
    return _finished(channel, graph)


def record_queries(
    graph: FederatedGraph,
    combined: sparse.csr_array,
    asking: Ids,
    embeddings: Sequence[NDArray[np.float32]],
    **network: Any,
) -> Run:
    """Aggregated queries without any audit (FedStruct, App. G.1, Eq. 47).

    Args:
        graph: whose nodes ask.
        combined: CSR [n, n].
        asking: nodes that ask every other client which their row touches.
        embeddings: for each round float32 [n, c], g(s_u).
        **network: what is lost and recorded.
    """
    channel = _opened(graph, **network)
    silo = graph.silo_of
    entries = sparse.coo_array(combined[asking])
    rows = np.stack([silo[entries.col], asking[entries.row], entries.col, entries.data], axis=1)
    rows = rows[(silo[asking][entries.row] != silo[entries.col])]
    silos = channel.parties.ids(Role.SILO)
    senders, receivers = silos[silo[rows[:, 1].astype(np.int64)]], silos[rows[:, 0].astype(np.int64)]
    channel.note_inputs("own query weights", Step(0), senders, rows)
    arrived = channel.send(Phase.QUERY_WEIGHTS, Step(0), senders, receivers, rows[:, 1:])
    pairs, place = np.unique(
        np.stack([arrived.receivers, arrived.payload[:, 0].astype(np.int64)]), axis=1, return_inverse=True
    )
    for number, values in enumerate(embeddings):
        sums = np.zeros((pairs.shape[1], values.shape[1]))
        np.add.at(sums, place.ravel(), arrived.payload[:, 2:] * values[arrived.payload[:, 1].astype(np.int64)])
        answers = np.concatenate([pairs[1][:, None], sums], axis=1).astype(np.float32)
        channel.note_inputs("values", Step(number), channel.parties.ids(Role.DEVICE), values)
        channel.send(Phase.QUERY_ANSWERS, Step(number), pairs[0], silos[silo[pairs[1]]], answers)
    return _finished(channel, graph)


def record_hopwise(graph: FederatedGraph, start: Floats, hops: int, bits: int | None = None, **network: Any) -> Run:
    """Repeated sums over foreign neighbours; clients learn the sums and hold no power of the adjacency.

    Args:
        graph: whose nodes have neighbours.
        start: float64 [n, c], embeddings before the first hop.
        hops: how many times neighbours are summed.
        **network: what is lost and recorded.
        bits: behind the binary point of what is sent; None sends real numbers.
    """
    channel = _opened(graph, **network)
    silo, silos, devices = graph.silo_of, channel.parties.ids(Role.SILO), channel.parties.ids(Role.DEVICE)
    everyone = np.arange(graph.num_devices)
    source, target = graph.edges
    abroad = silo[source] != silo[target]
    source, target = source[abroad], target[abroad]
    power, current = normalised_adjacency(graph.graph), start
    for layer in range(hops):
        step = Step(0, layer=layer)
        coded = current if bits is None else np.rint(current * 2.0**bits) / 2.0**bits
        sent = channel.send(Phase.VALUES, step, devices[source], devices[target], coded[source])
        sums = np.zeros((graph.num_devices, start.shape[1]))
        np.add.at(sums, channel.parties.index_of(sent.receivers, Role.DEVICE), sent.payload)
        channel.note_inputs("hop sums", step, silos[silo], np.column_stack([everyone, sums]))
        channel.note_inputs("own hop embeddings", step, silos[silo], np.column_stack([everyone, current]))
        current = power @ current
    return _finished(channel, graph)


def _note_rows(channel: Channel, graph: FederatedGraph, name: str, step: Step, matrix: sparse.csr_array) -> None:
    entries = sparse.coo_array(matrix)
    owners = channel.parties.ids(Role.SILO)[graph.silo_of[entries.row]]
    channel.note_inputs(name, step, owners, np.stack([entries.row, entries.col, entries.data], axis=1))


def _next_power(
    channel: Channel, graph: FederatedGraph, step: Step, looped: sparse.csr_array, power: sparse.csr_array
) -> sparse.csr_array:
    """Every client sends every other its share of the next power, and adds up what arrives."""
    silo, silos, n = graph.silo_of, channel.parties.ids(Role.SILO), graph.num_devices
    total = sparse.csr_array((n, n), dtype=np.float64)
    for i, k in np.ndindex(graph.num_silos, graph.num_silos):
        own = graph.devices_of(i)
        share = sparse.coo_array(looped[own] @ (sparse.diags_array((silo == k).astype(np.float64)) @ power))
        rows = np.stack([share.row, share.col, share.data], axis=1)
        if i != k:
            ends = np.full(len(rows), silos[k]), np.full(len(rows), silos[i])
            rows = channel.send(Phase.HOP_ENTRIES, step, *ends, rows).payload
        at = (own[rows[:, 0].astype(np.int64)], rows[:, 1].astype(np.int64))
        total += sparse.csr_array((rows[:, 2], at), shape=(n, n))
    return sparse.csr_array(sparse.diags_array(1 / looped.sum(axis=1)) @ total)


def _finished(channel: Channel, graph: FederatedGraph) -> Run:
    embeddings = {**sent_rows(channel.transcript), **noted_embeddings(channel.transcript)}
    truth = StructureTruth.of(channel.parties, graph, embeddings)
    return Run(graph, PublicParameters(), channel.transcript, truth)
