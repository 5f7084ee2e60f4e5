"""Structure embeddings from answers to weighted queries, so that no client holds another's (FedStruct, App. G.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fedstruct.gradients import StructureDelivery
from fgl_secure.methods.fedstruct.structure_sum import StructureSum
from fgl_secure.protocols.query_audit import AuditRule, QueryAudit, published_limit
from fgl_secure.runtime import Channel, Phase, Role, Step
from fgl_secure.training.sparse_products import multiply, to_torch

NUMBER_BYTES = 4

OWN_QUERIES = "own query weights"
"""What clients ask: (client that is asked, own node, node of that client, weight) an entry."""

EVERYTHING = AuditRule(1.0, 1)
"""Refuses nothing, and only keeps account of what is told."""

Ids = NDArray[np.int64]
Back = Callable[[torch.Tensor, Step], torch.Tensor]


class AggregatedQueries(StructureSum):
    """Client i sends client j the weights A-bar_vu of j's nodes u, and gets sum_u A-bar_vu g(s_u) (Eqs. 47, 49).

    So j learns which of i's nodes reach which of its own, and i learns weighted sums. Weights are sent once; what is
    answered is decided from them before training and stays the same in every round, because new parameters bring new
    equations about the same embeddings. Labelled nodes ask first. What is refused is missing from z_v, as if A-bar_vu
    were 0.

    Args:
        graph: who has what.
        channel: between server and clients.
        rows: CSR [n, n], A-bar as its clients hold it.
        rule: when a client refuses; None counts queries as the paper does, with `width` columns a feature.
        delivery: how the clients' gradients of the embeddings reach the owners of the nodes; None says nothing.
        pooled: whether clients assume that all others pool their answers, and audit them as one.
        width: d_s of the paper's rule, c where the embeddings themselves are learned.
        device: where model compute runs.
    """

    def __init__(
        self,
        graph: FederatedGraph,
        channel: Channel,
        rows: sparse.csr_array,
        rule: AuditRule | None,
        delivery: StructureDelivery | None = None,
        *,
        pooled: bool = False,
        width: int = 1,
        device: torch.device | None = None,
    ) -> None:
        self._delivery = delivery
        self._channel, self._clients = channel, channel.parties.ids(Role.SILO)
        self._graph, self._rule, self._pooled, self._width = graph, rule, pooled, width
        self.leverage = np.zeros(graph.num_devices)
        """float64 [n]: how near each node is to being known to one requester (or to all, where they are pooled)."""
        asked = _by_query(graph, rows)
        self._send_weights(asked)
        answered = self._answered(asked)
        self.refused = int(len(asked.nodes) - answered.sum())
        """Queries that were refused; a query is one node's to one client."""
        self.asked = len(asked.nodes)
        """Queries that were sent."""
        self._nodes, self._answering = asked.nodes[answered], asked.clients[answered]
        self._queries = to_torch(asked.weights[answered], device)
        inside = _inside(graph, rows)
        gather = sparse.csr_array(
            (np.ones(len(self._nodes)), (self._nodes, np.arange(len(self._nodes)))),
            shape=(graph.num_devices, len(self._nodes)),
        )
        combined = sparse.csr_array(inside + gather @ asked.weights[answered])
        self._rows = to_torch(combined, device), to_torch(sparse.csr_array(combined.T), device)

    def __call__(self, embeddings: torch.Tensor, step: Step) -> torch.Tensor:
        """One answer a query, and what a client makes of them."""
        senders = self._clients[self._answering]
        receivers = self._clients[self._graph.silo_of[self._nodes]]
        if self._channel.recording.keeps(step, Phase.QUERY_ANSWERS) and not step.evaluation:
            answers = (self._queries @ embeddings.detach()).cpu().numpy()
            owners = self._channel.parties.ids(Role.DEVICE)
            self._channel.note_inputs("values", step, owners, embeddings.detach().cpu().numpy().astype(np.float64))
            payload = np.column_stack([self._nodes, answers]).astype(np.float32)
            self._channel.send(Phase.QUERY_ANSWERS, step, senders, receivers, payload)
        else:
            size = NUMBER_BYTES * (1 + embeddings.shape[1])
            self._channel.send_sizes(Phase.QUERY_ANSWERS, step, senders, receivers, size)
        if self._delivery is None or step.evaluation:
            return multiply(*self._rows, embeddings)
        return cast("torch.Tensor", _Delivered.apply(embeddings, self._rows[0], self._returned, step))  # type: ignore[no-untyped-call]

    def _returned(self, gradients: torch.Tensor, step: Step) -> torch.Tensor:
        """The gradients of the embeddings [n, c] as their owners get them, each client's by itself until then."""
        assert self._delivery is not None
        parts = []
        for client in range(self._graph.num_silos):
            own = torch.zeros_like(gradients)
            members = torch.from_numpy(self._graph.devices_of(client)).to(gradients.device)
            own[members] = gradients[members]
            parts.append((self._rows[1] @ own).cpu().numpy())
        total = torch.from_numpy(np.asarray(self._delivery(parts, step)))
        return total.to(dtype=gradients.dtype, device=gradients.device)

    def _send_weights(self, asked: _Asked) -> None:
        entries = asked.weights.tocoo()
        nodes, clients = asked.nodes[entries.row], asked.clients[entries.row]
        payload = np.stack([nodes, entries.col, entries.data], axis=1).astype(np.float64)
        senders = self._clients[self._graph.silo_of[nodes]]
        self._channel.note_inputs(OWN_QUERIES, Step(0), senders, np.column_stack([clients, payload]))
        self._channel.send(Phase.QUERY_WEIGHTS, Step(0), senders, self._clients[clients], payload)

    def _answered(self, asked: _Asked) -> NDArray[np.bool_]:
        """Bool [queries]: which are answered; clients decide from the weights that they were sent."""
        answered = np.zeros(len(asked.nodes), dtype=np.bool_)
        for queries in self._by_auditor(asked):
            owned = self._graph.devices_of(int(asked.clients[queries[0]]))
            block = asked.weights[queries][:, owned].toarray()
            audit = QueryAudit(len(owned), self._rule or EVERYTHING)
            asking = len(queries)
            if self._rule is None:
                asking = _most_counted(block, self._width, self._graph.num_classes)
            answered[queries[:asking]] = [audit.admits(query) for query in block[:asking]]
            self.leverage[owned] = np.maximum(self.leverage[owned], audit.leverage)
        return answered

    def _by_auditor(self, asked: _Asked) -> Iterator[Ids]:
        """The queries that one client answers to one requester, or to all, labelled nodes first."""
        first = np.argsort(~self._graph.train_mask[asked.nodes], kind="stable")
        requester = np.zeros(len(asked.nodes), dtype=np.int64)
        if not self._pooled:
            requester = self._graph.silo_of[asked.nodes]
        pair = asked.clients * self._graph.num_silos + requester
        for each in np.unique(pair):
            yield first[pair[first] == each]


class _Delivered(torch.autograd.Function):
    """A product whose backward pass goes by way of messages."""

    @staticmethod
    def forward(ctx: Any, values: torch.Tensor, matrix: torch.Tensor, back: Back, step: Step) -> torch.Tensor:
        ctx.back, ctx.step = back, step
        return matrix @ values

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None, None, None]:
        return ctx.back(gradients[0], ctx.step), None, None, None


class _Asked:
    """Queries: the node that each is for, the client that each goes to, and the weights [queries, n]."""

    __slots__ = ("clients", "nodes", "weights")

    def __init__(self, nodes: Ids, clients: Ids, weights: sparse.csr_array) -> None:
        self.nodes, self.clients, self.weights = nodes, clients, weights


def _by_query(graph: FederatedGraph, rows: sparse.csr_array) -> _Asked:
    entries = rows.tocoo()
    abroad = graph.silo_of[entries.row] != graph.silo_of[entries.col]
    node, column, value = entries.row[abroad], entries.col[abroad], entries.data[abroad]
    key, query = np.unique(node.astype(np.int64) * graph.num_silos + graph.silo_of[column], return_inverse=True)
    weights = sparse.csr_array((value, (query, column)), shape=(len(key), graph.num_devices))
    return _Asked(key // graph.num_silos, key % graph.num_silos, weights)


def _inside(graph: FederatedGraph, rows: sparse.csr_array) -> sparse.csr_array:
    entries = rows.tocoo()
    home = graph.silo_of[entries.row] == graph.silo_of[entries.col]
    return sparse.csr_array((entries.data[home], (entries.row[home], entries.col[home])), shape=rows.shape)


def _most_counted(block: NDArray[np.float64], width: int, classes: int) -> int:
    """How many queries, in order, the paper's count lets through."""
    weighed = np.cumsum(block != 0, axis=0) > 0
    return max(
        (count for count in range(len(block) + 1)
         if not count or published_limit(count, width, classes, int(weighed[count - 1].sum()))),
        default=0,
    )  # fmt: skip
