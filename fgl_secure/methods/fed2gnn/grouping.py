"""Who asks whom for sums over which nodes: the grouping of Fed2GNN's neighbour sums.

A row is a pair of a passive client and a node of another client: the sum over the passive client's nodes that the
node has an edge to. A group is a node, and its client is entitled to the sum over the rows.

Every edge between clients draws one number that both its ends know. A node picks its edges with the lowest numbers,
its client says so to the client of the other end, and an edge stays if both ends pick it. If each end kept what it
picked, a node would hear of neighbours that do not hear of it, no graph would be left whose rooted trees are unfolded,
and a node's own row could not be taken out of what it hears by the published formulas. So a node with few neighbours
loses an edge only to one with more than d. And a party that hears nothing about an edge learns that its other end has
more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fgl_secure.errors import InputError, ProtocolError
from fgl_secure.graph import FederatedGraph
from fgl_secure.graph.attributed_graph import read_only
from fgl_secure.protocols.topology import Grouping
from fgl_secure.runtime import Channel, Phase, Role, Step
from fgl_secure.training.parties import Between
from fgl_secure.training.silo import Silo
from fgl_secure.typing import Ids


@dataclass(frozen=True, slots=True, eq=False)
class _PairMap:
    """The rows of the grouping, and the requests that they answer.

    Attributes:
        client: int64 [p], the passive client of each row.
        node: int64 [p], the node whose sum the row goes into.
        pair: int64 [m], the row that answers each request.
        asking: int64 [m], the node for which its client asks.
        asked: int64 [m], the node of another client that it asks for.
    """

    client: Ids
    node: Ids
    pair: Ids
    asking: Ids
    asked: Ids


@dataclass(frozen=True, slots=True, eq=False)
class OwnPairs:
    """What one client adds up for others, and hears from them.

    Attributes:
        row: int64 [s], the row that each of its nodes goes into; a row a node of another client, ascending.
        summed: int64 [s], places of these nodes.
        asks: bool [s], whether the node asks for the one that the row is for. The client knows: it sends the one
            request and gets the other.
        hearing: int64 [h], place of the node that hears of a node of another client.
        heard_in_turn: bool [h], whether that one hears of it as well.
        nodes: m, its own.
    """

    row: Ids
    summed: Ids
    asks: NDArray[np.bool_]
    hearing: Ids
    heard_in_turn: NDArray[np.bool_]
    nodes: int

    @classmethod
    def of(cls, silo: Silo, wanted: NDArray[np.bool_]) -> OwnPairs:
        """From the edges along which rows are sums, bool [e]; see `Collectives.wanted`."""
        (source_inside, target_inside), n = silo.inside, silo.facts.nodes
        codes = silo.edges[:, wanted] * np.array([[n], [1]])
        back = np.isin(silo.edges[1] * n + silo.edges[0], codes.sum(axis=0))
        out, into = wanted & source_inside, wanted & target_inside
        row = np.unique(silo.edges[1, out], return_inverse=True)[1].astype(np.int64)
        summed, hearing = silo.local(silo.edges[0, out]), silo.local(silo.edges[1, into])
        return cls(row, summed, back[out], hearing, back[into], len(silo.nodes))

    @property
    def foreign(self) -> Ids:
        """int64 [m], the neighbours at other clients over which each own node hears the sum."""
        return np.bincount(self.hearing, minlength=self.nodes).astype(np.int64)

    @property
    def mutual(self) -> Ids:
        """int64 [m], how many of these hear of the node in turn: through them its own row comes back."""
        return np.bincount(self.hearing[self.heard_in_turn], minlength=self.nodes).astype(np.int64)

    @property
    def sums(self) -> sparse.csr_array:
        """CSR [p, m]: each row has a 1 at every node that it sums over."""
        return self._rows(np.ones(len(self.row), dtype=np.bool_))

    @property
    def one_sided(self) -> sparse.csr_array:
        """CSR [p, m]: each row has a 1 at every node that it sums over and that does not ask in turn."""
        return self._rows(~self.asks)

    def _rows(self, mask: NDArray[np.bool_]) -> sparse.csr_array:
        shape = (int(self.row.max(initial=-1)) + 1, self.nodes)
        return sparse.csr_array((np.ones(int(mask.sum())), (self.row[mask], self.summed[mask])), shape=shape)


def client_pairs(
    graph: FederatedGraph, channel: Channel, neighbours: Ids | None = None, minimum: int = 1
) -> tuple[Grouping, _PairMap]:
    """The rows, groups and requests of an exchange.

    Args:
        graph: who has what; every edge in both directions.
        channel: between the parties of `hierarchy_of(graph, scheme.helpers)`.
        neighbours: int64 [2, m], nodes above the neighbours at other clients that their clients ask for; None asks
            for all.
        minimum: least rows of a sum that the scheme computes. No party asks for a smaller one, and a node without a sum
            is one without neighbours at other clients.

    Raises:
        InputError: the graph is directed, a request is not along an edge between clients, or there are two alike.
    """
    requesters, targets = _requests(graph, neighbours)
    requesters, targets = _answered_queries(graph, requesters, targets, minimum)
    clients = graph.num_silos
    code = requesters * clients + graph.silo_of[targets]
    rows, pair = np.unique(code, return_inverse=True)
    pairs = _PairMap(rows % clients, rows // clients, pair.astype(np.int64), requesters, targets)
    silos = channel.parties.ids(Role.SILO)
    senders, receivers = silos[pairs.client], silos[graph.silo_of]
    grouping = Grouping(senders, receivers, np.arange(len(rows), dtype=np.int64), pairs.node, senders, receivers)
    return grouping, pairs


def between_clients(
    graph: FederatedGraph, channel: Channel, neighbours: Ids | None = None, minimum: int = 1
) -> Between:
    """Has clients send their requests; what they add up for each other then. Arguments as for `client_pairs`."""
    grouping, pairs = client_pairs(graph, channel, neighbours, minimum)
    # Every client tells the others which nodes it wants in the sums of which of its own nodes.
    _send_neighbours(graph, channel, pairs.asking, pairs.asked, Step(0))
    return Between(grouping, np.stack([pairs.asked, pairs.asking]))


def _send_neighbours(graph: FederatedGraph, channel: Channel, nodes: Ids, others: Ids, step: Step) -> None:
    """The clients of nodes int64 [m] send each pair of a node and its neighbour to the neighbour's client.

    Raises:
        ProtocolError: a message got lost.
    """
    silos = channel.parties.ids(Role.SILO)
    payload = np.stack([nodes, others], axis=1).astype(np.int32)
    on_every_tape = np.broadcast_to(payload, channel.batch_shape + payload.shape)
    ends = silos[graph.silo_of[nodes]], silos[graph.silo_of[others]]
    delivery = channel.send(Phase.WANTED, step, *ends, on_every_tape)
    if len(delivery.senders) < len(nodes):
        lost = len(nodes) - len(delivery.senders)
        raise ProtocolError(f"requests must all arrive, or sums are wrong; {lost} of {len(nodes)} did not")


def check_undirected(graph: FederatedGraph) -> None:
    """Raises unless every edge is there in both directions: a rooted tree is an undirected graph."""
    if not graph.graph.is_symmetric:
        raise InputError("graph must have every edge in both directions; found one that has not")


def _requests(graph: FederatedGraph, neighbours: Ids | None) -> tuple[Ids, Ids]:
    check_undirected(graph)
    targets, requesters = graph.edges[:, graph.crosses_silos]
    if neighbours is None:
        return requesters, targets
    n = graph.num_devices
    if neighbours.ndim != 2 or len(neighbours) != 2:
        raise InputError(f"neighbours must be [2, m], nodes above those they ask for; found {list(neighbours.shape)}")
    code = neighbours[0] * n + neighbours[1]
    known = np.isin(code, requesters * n + targets)
    if not known.all():
        node, other = neighbours[:, int(np.argmin(known))]
        raise InputError(f"neighbours must be joined by edges between clients; found {node} and {other}, which are not")
    if len(np.unique(code)) < len(code):
        raise InputError(f"neighbours must be asked for once; found {len(code) - len(np.unique(code))} requests twice")
    order = np.argsort(code)
    return neighbours[0][order], neighbours[1][order]


def _answered_queries(graph: FederatedGraph, requesters: Ids, targets: Ids, minimum: int) -> tuple[Ids, Ids]:
    pairs = np.unique(requesters * graph.num_silos + graph.silo_of[targets]) // graph.num_silos
    rows = np.bincount(pairs, minlength=graph.num_devices)
    mask = rows[requesters] >= minimum
    return requesters[mask], targets[mask]


def agreed_neighbours(graph: FederatedGraph, channel: Channel, most: int, seed: int, step: Step) -> FederatedGraph:
    """Clients tell each other what their nodes picked, and keep what both ends did; see `sampled_neighbours`.

    Raises:
        InputError: `most` is below 1, or the graph is directed.
        ProtocolError: a pick got lost, and the ends of its edge would not agree.
    """
    nodes, picked = _picked_neighbours(graph, most, seed)
    _send_neighbours(graph, channel, nodes, picked, step)
    return sampled_neighbours(graph, most, seed)


def sampled_neighbours(graph: FederatedGraph, most: int, seed: int) -> FederatedGraph:
    """Leaves at most so many neighbours at other clients to every node: the edges that both ends pick.

    Args:
        graph: who has what; every edge in both directions.
        most: d, at least 1.
        seed: of the numbers.

    Raises:
        InputError: `most` is below 1, or the graph is directed.
    """
    node, other = _picked_neighbours(graph, most, seed)
    n = graph.num_devices
    source, target = graph.edges
    mask = ~graph.crosses_silos | (
        np.isin(target * n + source, node * n + other) & np.isin(source * n + target, node * n + other)
    )
    return replace(graph, graph=replace(graph.graph, edges=read_only(graph.edges[:, mask])))


def _picked_neighbours(graph: FederatedGraph, most: int, seed: int) -> NDArray[np.int64]:
    """int64 [2, m], nodes above the neighbours at other clients that they pick; see `sampled_neighbours`."""
    if most < 1:
        raise InputError(f"most must be at least 1 neighbour; found {most}")
    check_undirected(graph)
    source, target = graph.edges[:, graph.crosses_silos]
    # float64 [m], the number of each edge, the same in both directions.
    code = np.minimum(source, target) * graph.num_devices + np.maximum(source, target)
    edges, positions = np.unique(code, return_inverse=True)
    numbers: NDArray[np.float64] = np.random.default_rng(seed).random(len(edges))[positions]
    order = np.lexsort((numbers, target))
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order)) - np.searchsorted(target[order], target[order])
    picked = rank < most
    return np.stack([target[picked], source[picked]])
