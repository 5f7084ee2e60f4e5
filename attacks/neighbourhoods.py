"""What clients know of the graph from the start, and what tells nodes apart by their neighbourhoods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fgl_secure.runtime import Phase, PrivateRows, Role, View
from fgl_secure.typing import Floats, Ids


def undirected_adjacency(edges: Ids, size: int) -> sparse.csr_array:
    """Edges int64 [2, m] in whatever direction as a 0/1 matrix [size, size] without a diagonal."""
    source, target = edges[:, edges[0] != edges[1]]
    rows, columns = np.concatenate([source, target]), np.concatenate([target, source])
    matrix = sparse.csr_array((np.ones(len(rows), dtype=np.int64), (rows, columns)), shape=(size, size))
    matrix.data[:] = 1
    return matrix


def ego_networks(adjacency: sparse.csr_array, degrees: Ids | None = None) -> tuple[Ids, Ids]:
    """Degree and ego network of each node: its triangles, and the sorted degrees of its neighbours.

    Args:
        adjacency: 0/1 [n, n], symmetric, without a diagonal.
        degrees: int64 [n], what is taken for the degrees of neighbours; None counts them.

    Returns:
        int64 [n] degrees, and int64 [n] names of ego networks: 64-bit words that are equal where these are, and
        differ elsewhere but with probability 2^-64.
    """
    counted = np.asarray(adjacency.sum(axis=1), dtype=np.int64)
    triangles = np.asarray((adjacency @ adjacency).multiply(adjacency).sum(axis=1), dtype=np.int64) // 2
    around = adjacency.astype(np.uint64) @ degree_words(counted if degrees is None else degrees)
    return counted, (around + degree_words(~triangles)).view(np.int64)


def degree_words(numbers: Ids) -> NDArray[np.uint64]:
    """A fixed random 64-bit word for each whole number (SplitMix64, Steele et al. 2014)."""
    z = numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


OWN_DEVICES = "own devices"
"""Name of a client's rows: the party identifier of each node of its own."""

OWN_EDGES = "own edges"
"""Name of a client's rows int64 (own node, neighbour, client of the neighbour), cross edges included."""

HOP_ROWS = "hop rows"
"""Name of a client's rows (own node, node, value): its rows of a power of the normalised adjacency, by layer."""

COMBINED_ROWS = "combined rows"
"""Name of a client's rows (own node, node, value) of the combined adjacency A-bar."""


@dataclass(frozen=True, slots=True, eq=False)
class ClientEdges:
    """One client and the edges that its nodes have."""

    index: int  # of the client among the silos
    observer: int  # which rows of the view are its own
    owned: NDArray[np.bool_]  # bool [n], its own nodes
    neighbours: sparse.csr_array  # 0/1 float64 CSR [n, n], the rows of its own nodes alone, without self-loops
    client_of: Ids  # int64 [n], the client of each neighbour; its own index for its own nodes, -1 for all others

    @property
    def outside(self) -> Ids:
        """int64: the neighbours of its nodes that other clients own, ascending."""
        return np.flatnonzero((self.client_of >= 0) & ~self.owned)

    @property
    def crossing(self) -> sparse.csr_array:
        """The edges to nodes of other clients: 0/1 CSR [n, n]."""
        crossing = sparse.csr_array(self.neighbours @ sparse.diags_array((~self.owned).astype(np.float64)))
        crossing.eliminate_zeros()
        return crossing


def clients_of(view: View) -> tuple[ClientEdges, ...]:
    """The clients that observe, each with its own nodes and their edges; empty where nothing of it is recorded."""
    devices, edges = rows_of(view, OWN_DEVICES), rows_of(view, OWN_EDGES)
    if not devices or not edges:
        return ()
    observers = np.concatenate([rows.observers for rows in devices])
    owners = view.parties.index_of(np.concatenate([rows.owners for rows in devices]), Role.SILO)
    nodes = view.parties.index_of(np.concatenate([rows.values for rows in devices]), Role.DEVICE)
    known = stack_rows(edges)
    result = []
    for observer in np.unique(observers).tolist():
        is_own = observers == observer
        result.append(
            _client(int(owners[is_own].min()), observer, nodes[is_own], known.of(observer).astype(np.int64), view)
        )
    return tuple(result)


@dataclass(frozen=True, slots=True, eq=False)
class _ObserverRows:
    """Rows of several observers: values [m, ...] and int64 [m], whose they are."""

    observers: Ids
    values: NDArray[Any]

    def of(self, observer: int) -> NDArray[Any]:
        """The rows of one observer."""
        own_values: NDArray[Any] = self.values[self.observers == observer]
        return own_values


def stack_rows(rows: tuple[PrivateRows, ...]) -> _ObserverRows:
    """All rows of a name as one table; at least one batch."""
    return _ObserverRows(
        np.concatenate([item.observers for item in rows]), np.concatenate([item.values for item in rows])
    )


def rows_of(view: View, name: str, layer: int | None = None) -> tuple[PrivateRows, ...]:
    """The observers' own rows of a name, of one layer where it is given."""
    return tuple(rows for rows in view.own(name) if layer in (None, rows.step.layer))


def rows_by_layer(
    view: View, name: str, client: ClientEdges, layers: list[int], number: int = 0
) -> tuple[Floats, NDArray[np.bool_]] | None:
    """A client's rows (own node, ...) of a name in one round, layer by layer.

    Args:
        view: of clients.
        name: of the rows.
        client: whose they are.
        layers: ascending.
        number: of the round.

    Returns:
        float64 [layers, n, c], 0 where there is none, and bool [n], for which nodes there are some in every layer; None
        without rows of some layer.
    """
    n = len(client.owned)
    parts = [[rows for rows in rows_of(view, name, index) if rows.step.round == number] for index in layers]
    if not parts or not all(parts):
        return None
    tables = [stack_rows(tuple(part)).of(client.observer) for part in parts]
    values, in_all_layers = np.zeros((len(layers), n, tables[0].shape[1] - 1)), np.ones(n, dtype=np.bool_)
    for index, rows in enumerate(tables):
        nodes = rows[:, 0].astype(np.int64)
        values[index, nodes] = rows[:, 1:]
        in_all_layers &= np.isin(np.arange(n), nodes)
    return values, in_all_layers


def received_terms(view: View, client: ClientEdges, layer: int) -> dict[int, sparse.csr_array]:
    """What each other client sent a client of a power in plaintext, float64 CSR [n, n] by index of the sender."""
    n, own_nodes = len(client.owned), np.flatnonzero(client.owned)
    terms: dict[int, sparse.csr_array] = {}
    for batch in view.messages(Phase.HOP_ENTRIES, layer=layer):
        is_own = batch.observers == client.observer
        senders, payload = view.parties.index_of(batch.senders[is_own], Role.SILO), np.asarray(batch.payload)[is_own]
        for sender in np.unique(senders).tolist():
            entries = payload[senders == sender]
            index = (own_nodes[entries[:, 0].astype(np.int64)], entries[:, 1].astype(np.int64))
            share = sparse.csr_array((entries[:, 2], index), shape=(n, n))
            terms[sender] = sparse.csr_array(terms[sender] + share) if sender in terms else share
    return terms


def _client(index: int, observer: int, nodes: Ids, edges: Ids, view: View) -> ClientEdges:
    n = view.parties.counts[Role.DEVICE]
    owned = np.zeros(n, dtype=np.bool_)
    owned[nodes] = True
    apart = edges[edges[:, 0] != edges[:, 1]]
    ones = np.ones(len(apart))
    neighbours = sparse.csr_array((ones, (apart[:, 0], apart[:, 1])), shape=(n, n))
    neighbours.data[:] = 1.0
    client_of = np.full(n, -1, dtype=np.int64)
    client_of[apart[:, 1]] = apart[:, 2]
    client_of[owned] = index
    return ClientEdges(index, observer, owned, neighbours, client_of)
