"""FedGCN as one client runs it: one exchange of sums, then averaging of models.

With D the degrees of A + I, a graph convolutional network of two layers is A-hat relu(A-hat X W_1 + b_1) W_2 + b_2 for
A-hat = D^-1/2 (A + I) D^-1/2. Its first layer needs the rows of A-hat X, which do not change while it learns. So a
client that has them for its nodes (one hop) computes the first layer of these exactly, and the second over the edges
between them; a client that has them for the neighbours of its nodes as well (two hops) computes all of it exactly.

Every client sends x_j / sqrt(D_j) of its nodes j into the sums of nodes elsewhere, and the client of i adds what it has
itself: sqrt(D_i) times the row of i. Published is that the server adds up and tells the clients of i and of its
neighbours. Here the sum goes to the client of i, under any scheme for grouped sums, and for two hops that client hands
it on, if there is one. A scheme that computes no sum over fewer than k clients then leaves k in it for whoever gets it:
the k or more that put in something, less the one that gets it, and the client of i.

Where a scheme refuses a small sum, the edges to i from other clients are not there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from fgl_secure.coins import Coins
from fgl_secure.errors import InputError, ProtocolError, UnknownNameError
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fed2gnn.grouping import OwnPairs, between_clients, check_undirected
from fgl_secure.methods.fed2gnn.hop_sums import RowRange, exchange_hops
from fgl_secure.methods.fed2gnn.program import sent_values
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.scheme import Scheme, least_group
from fgl_secure.protocols.topology import NEIGHBOURS
from fgl_secure.runtime import Channel, MessageKind
from fgl_secure.training.collectives import Collectives
from fgl_secure.training.dropout import CoinDropout
from fgl_secure.training.job import Job, Task
from fgl_secure.training.node_models import AveragedRounds, GCNModel, Matrix, Propagation, Surroundings, degree_weights
from fgl_secure.training.parties import Between, check_parties, note_own_graph
from fgl_secure.training.presets import PRESETS, AveragedPreset, Selection
from fgl_secure.typing import Floats, Ids

KEY = 2
"""Columns ahead of a handed row: the node, and its number of neighbours."""


MOST_HOPS = 2
"""A network of two layers looks no further."""

HONEST = AveragedPreset(
    "honest", weight_decay=5e-4, row_range=256.0, epochs=100, learning_rate=0.5, local_steps=3, descent=True
)
"""What the public code does, three steps of gradient descent a round, and the round is chosen on validation nodes."""

_PUBLISHED = replace(HONEST, name="paper", selection=Selection.TEST)
"""Which round the public code reports it does not say: its best."""


def fedgcn_preset(name: str, hops: int = MOST_HOPS) -> AveragedPreset:
    """The preset of a name; it is the same for all data sets.

    Args:
        name: "honest" reports the best round on validation data, "paper" the best on test data.
        hops: 1 or 2.
    """
    if name not in PRESETS:
        raise UnknownNameError("preset", name, PRESETS)
    if not 1 <= hops <= MOST_HOPS:
        raise InputError(f"hops must lie in 1..{MOST_HOPS}; found {hops}")
    return replace(HONEST if name == "honest" else _PUBLISHED, hops=hops)


class GCNMessage(MessageKind):
    """What clients of FedGCN tell each other beside sums."""

    NEIGHBOURHOODS = (
        "neighbourhood sums",
        "the sum over a node and all that its client heard of its neighbours, for a client next to it",
    )


class SummedGCN(GCNModel):
    """A graph convolutional network on rows that were summed over neighbours before."""

    def forward(self, graph: Surroundings, dropout: CoinDropout) -> torch.Tensor:
        """The scores, float [n, classes]."""
        hidden: torch.Tensor = graph.rows @ self.weights[0] + self.biases[0]
        for weight, bias in zip(self.weights[1:], self.biases[1:], strict=True):
            hidden = dropout(torch.relu(hidden), training=self.training)
            hidden = graph.neighbours @ (hidden @ weight) + bias
        return hidden


class FedGCNClient(AveragedRounds):
    """One client of FedGCN.

    Args:
        comm: the collectives of the run; clients add up beforehand what goes to one node.
        preset: how to train.
        seed: of initial weights and dropout.
        device: where model compute runs; the CPU by default.
        rows: how large rows may get; None sends them as they are.

    Attributes:
        values: float64 [m, d], what its nodes put into the sums, in the process that the exchange ended in.
        heard: float64 [1, m, d], the sums as they arrived there.
    """

    values: Floats
    heard: Floats

    def __init__(
        self,
        comm: Collectives,
        preset: AveragedPreset,
        *,
        seed: int = 0,
        device: torch.device | None = None,
        rows: RowRange | None = None,
    ) -> None:
        facts, coins = comm.silo.facts, torch.Generator().manual_seed(seed)
        model = SummedGCN((facts.features, preset.hidden, facts.classes), coins)
        super().__init__(comm, preset, model, seed=seed, device=device)
        self._hops, self._rows = preset.hops, rows

    def begin(self) -> None:
        """All that is said before the first round."""
        silo, graph = self.silo, self.silo.alone
        degree = (graph.in_degree + OwnPairs.of(silo, self.comm.summed_edges).foreign).astype(np.float64)
        self.values = sent_values(silo.features.astype(np.float64), degree, Propagation.SYMMETRIC)
        sums, self.heard = exchange_hops(self.comm, graph, self.values, 1, self._rows)
        around = self.values + sums.mu[0]
        told = np.empty((0, KEY + around.shape[1]))
        if self._hops > 1:
            table = np.column_stack([silo.nodes, degree, around])
            told = self._check_rows(self.comm.exchange(GCNMessage.NEIGHBOURHOODS, self._rows_by_client(table)))
        self.kept = {"around": around, "degree": degree, "told": told}

    def surroundings(self) -> Surroundings:
        """The client's own nodes, and those next to them that it was told of: rows of A-hat X, and A-hat among them."""
        told = self.kept["told"]
        nodes = np.concatenate([self.silo.nodes, told[:, 0].astype(np.int64)])
        degree = np.concatenate([self.kept["degree"], told[:, 1]])
        rows = np.concatenate([self.kept["around"], told[:, KEY:]]) / np.sqrt(degree + 1)[:, None]
        source, target = self._edges(nodes)
        weights = degree_weights(source, target, np.ones(len(source)), degree, Propagation.SYMMETRIC)
        return Surroundings(Matrix(sparse.csr_array(rows), self.device), Matrix(weights, self.device))

    def _rows_by_client(self, table: Floats) -> dict[int, Floats]:
        """By other client the rows [r, KEY + d] of the nodes that its nodes ask about, where there is a sum."""
        silo, count = self.silo, self.silo.facts.silos
        asked, asking = silo.edges[:, self.comm.summed_edges & silo.inside[0]]
        known = self._has_sum(asked)
        node, client = np.divmod(np.unique(silo.local(asked[known]) * count + self._client_of(asking[known])), count)
        return {other: table[node[client == other]] for other in silo.others}

    def _has_sum(self, nodes: Ids) -> NDArray[np.bool_]:
        """Bool [m], for which own nodes the scheme computed a sum."""
        return np.isin(nodes, self.silo.edges[1, self.comm.summed_edges & self.silo.inside[1]])

    def _check_rows(self, result: list[Floats]) -> Floats:
        """What the other clients told, one row a node, ascending.

        Raises:
            ProtocolError: a client tells of a node that is not its own, or that nobody asked about.
        """
        source = np.unique(self.silo.edges[0, self.comm.summed_edges & self.silo.inside[1]])
        owners = self._client_of(source)
        for client, rows in enumerate(result):
            numbers = rows[:, 0]
            known = np.isin(numbers, source[owners == client]).all() and len(np.unique(numbers)) == len(numbers)
            if not (known and np.isfinite(rows).all() and (rows[:, 1] >= 0).all()):
                raise ProtocolError(f"sums of client {client} must be finite, of nodes asked about; some are not")
        rows = np.concatenate(result)
        return np.asarray(rows[np.argsort(rows[:, 0])])

    def _edges(self, nodes: Ids) -> tuple[Ids, Ids]:
        """Places of sources and targets among nodes: of edges inside the client, and of those that it hears along."""
        silo, place = self.silo, np.argsort(nodes)
        here, there = silo.inside
        edges = silo.edges[:, (here & there) | (self.comm.summed_edges & there)]
        edges = edges[:, np.isin(edges[0], nodes)]
        source, target = place[np.searchsorted(nodes, edges, sorter=place)]
        return source, target

    def _client_of(self, nodes: Ids) -> Ids:
        foreign = self.silo.foreign
        result: Ids = foreign[np.searchsorted(foreign[:, 0], nodes), 1]
        return result


def row_range(preset: AveragedPreset, scheme: Scheme) -> RowRange | None:
    """How large rows may get, where a scheme wants to know."""
    return None if scheme.fixed_point(1) is None else RowRange(preset.row_range).under(scheme)


def clients_of(
    graph: FederatedGraph,
    schemes: Mapping[str, Scheme],
    preset: AveragedPreset,
    *,
    seed: int = 0,
    device: torch.device | None = None,
) -> Job:
    """The clients: they settle who asks whom, exchange sums once, and train.

    Args:
        graph: who has what; every edge in both directions.
        schemes: of "neighbours", sums of features, and of "server", models; what is not there is in the clear.
        preset: how to train.
        seed: of initial weights and dropout.
        device: where model compute runs; the CPU by default.

    Raises:
        InputError: the graph is directed.
    """
    check_undirected(graph)
    scheme = schemes.get(NEIGHBOURS, Plaintext())
    rows = row_range(preset, scheme)

    def make(comm: Collectives, _coins: Coins) -> FedGCNClient:
        return FedGCNClient(comm, preset, seed=seed, device=device, rows=rows)

    def settle(channel: Channel) -> Between:
        check_parties(graph, schemes, channel)
        note_own_graph(channel, graph)
        return between_clients(graph, channel, None, least_group(scheme))

    task = Task(make, {NEIGHBOURS: scheme, **schemes}, preset.epochs, graph.graph.num_features, between=True)
    return Job(task, graph, settle=settle)
