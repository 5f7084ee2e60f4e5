"""What clients of FedStruct exchange, computed with sparse matrices and recorded as attacks read it.

And what every attack on it must keep.
"""

from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import networkx as nx
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse

from fgl_secure.attacks.edge_claims import ForeignEdges
from fgl_secure.attacks.structure.hop_sums import noted_embeddings
from fgl_secure.attacks.structure.knowledge import STRUCTURE
from fgl_secure.attacks.truth import StructureTruth, sent_rows
from fgl_secure.auditing.recorded_run import RecordedRun
from fgl_secure.coins import SimulationCoins
from fgl_secure.graph import FederatedGraph
from fgl_secure.graph.structure_features import looped_adjacency, normalised_adjacency
from fgl_secure.runtime import Channel, Phase, PublicParameters, Recording, Role, Step
from fgl_secure.runtime.channel import Loss
from fgl_secure.training.parties import hierarchy_of, note_membership
from tests.attacks.conformance import AttackConformance, Claims
from tests.attacks.recorded import Run, both_ways, federated, random_graph

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Network:
    """How a run is recorded, and what its network loses."""

    loss: Loss | None = None
    recording: Recording | None = None


class StructureConformance(AttackConformance):
    """What every attack on the exchange of structure keeps, on runs drawn here."""

    @abstractmethod
    def recorded(self, graph: FederatedGraph, network: Network) -> Run:
        """What is recorded for the attack on a graph."""

    def large(self) -> FederatedGraph:
        """The graph of the run that the attack must break."""
        return scale_free()

    def small(self) -> FederatedGraph:
        """A graph over three clients for the runs in which messages get lost."""
        return random_graph(5, directed=False, pairs=22)

    def run(self, loss: Loss | None = None, recording: Recording | None = None) -> Run:
        return self.recorded(self.small(), Network(loss, recording))

    @pytest.fixture
    def references(self) -> Mapping[str, RecordedRun]:
        """The run that the attack must break."""
        run = self.recorded(self.large(), Network())
        return {self.attack.card.control: run.recorded(STRUCTURE)}

    def exchange(self, graph: FederatedGraph, values: NDArray[np.float64], **network: Any) -> Run:  # noqa: ARG002  # for others
        return self.recorded(graph, Network(**network))


class EdgeConformance(StructureConformance):
    """What attacks keep that claim edges between nodes of others."""

    def claims(self, guess: ForeignEdges) -> Claims:
        return Counter(zip(guess.lower.tolist(), guess.upper.tolist(), strict=True))

    def test_claims_each_foreign_pair_once(self) -> None:
        """No client claims a pair twice, an edge of its own, or a pair of one node."""
        run = self.recorded(self.large(), Network())
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


def record_exchange(graph: FederatedGraph, hops: int = 2, network: Network | None = None) -> Run:
    """The exchange of powers in the clear, every share visible, nothing pruned (FedStruct, Algorithm 3)."""
    channel = _opened(graph, network)
    looped, power = looped_adjacency(graph.graph), normalised_adjacency(graph.graph)
    _note_rows(channel, graph, "hop rows", Step(0, layer=1), power)
    for layer in range(2, hops + 1):
        power = _next_power(channel, graph, Step(0, layer=layer), looped, power)
        _note_rows(channel, graph, "hop rows", Step(0, layer=layer), power)
    _note_rows(channel, graph, "combined rows", Step(0), power)
    return _finished(channel, graph)


def record_rows(graph: FederatedGraph, name: str, step: Step, matrix: sparse.csr_array) -> Run:
    """A run in which every client holds its rows of one matrix and receives nothing."""
    channel = _opened(graph, None)
    _note_rows(channel, graph, name, step, matrix)
    return _finished(channel, graph)


def record_queries(
    graph: FederatedGraph,
    combined: sparse.csr_array,
    asking: Ids,
    embeddings: Sequence[NDArray[np.float32]],
    network: Network | None = None,
) -> Run:
    """Aggregated queries without any audit (FedStruct, App. G.1, Eq. 47).

    Args:
        graph: whose nodes ask.
        combined: CSR [n, n].
        asking: nodes that ask every other client which their row touches.
        embeddings: for each round float32 [n, c], g(s_u).
        network: how to record.
    """
    channel = _opened(graph, network)
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


def record_hopwise(
    graph: FederatedGraph, start: Floats, hops: int, network: Network | None = None, bits: int | None = None
) -> Run:
    """Repeated sums over foreign neighbours; clients learn the sums and hold no power of the adjacency.

    Args:
        graph: whose nodes have neighbours.
        start: float64 [n, c], embeddings before the first hop.
        hops: how many times neighbours are summed.
        network: how to record.
        bits: behind the binary point of what is sent; None sends real numbers.
    """
    channel = _opened(graph, network)
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


def _opened(graph: FederatedGraph, network: Network | None) -> Channel:
    """A channel on which every client has noted its own nodes, edges and labels."""
    network = network or Network()
    recording = network.recording or Recording.everything()
    channel = Channel(hierarchy_of(graph), SimulationCoins(0), recording, network.loss)
    note_membership(channel, graph.silo_of)
    silos, silo = channel.parties.ids(Role.SILO), graph.silo_of
    v, u = graph.edges
    channel.note_inputs("own edges", Step(0), silos[silo[v]], np.stack([v, u, silo[u]], axis=1))
    labelled = np.flatnonzero(graph.train_mask)
    labels = np.stack([labelled, graph.labels[labelled]], axis=1)
    channel.note_inputs("own labels", Step(0), silos[silo[labelled]], labels)
    return channel


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
