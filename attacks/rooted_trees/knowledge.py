"""Which runs attacks on rooted trees read, which they must break, and what attackers may know beside their views.

The sums that a client of Fed2GNN gets of other clients' nodes, hop by hop, as equations about these nodes.

For each of its nodes i a client asks every other client z for the sum of mu^{k-1} over i's neighbours at z (Fed2GNN,
Protocol 1). In plaintext each such sum arrives by itself; under a scheme the client learns the total over z alone. Who
is summed it knows either way: it asked for them by name.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fgl_secure.attacks.neighbourhoods import ClientEdges, clients_of, rows_by_layer, rows_of, stack_rows
from fgl_secure.runtime import Direction, Phase, PublicParameters, ReceivedRows, Role, View
from fgl_secure.typing import Floats, Ids

HOP_SUMS = "sums of features, hop by hop"
"""Scenario: what clients of Fed2GNN exchange to build rooted trees."""

FED2GNN = "fed2gnn in the clear, Louvain partition"
"""Control, as Fed2GNN makes it."""

FED2GNN_RELAYS = "fed2gnn, relays see who sends to which group"
"""Control: hop sums under relay-coded without refusals, among many clients."""


@dataclass(frozen=True, slots=True)
class HopRules:
    """What every party knows of how hop sums are computed.

    Attributes:
        minimum: least number of clients in a sum; a node with neighbours at fewer other clients goes without any.
        neighbours: most neighbours elsewhere that a node asks about, drawn at random; None where it asks about all.
    """

    minimum: int = 1
    neighbours: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class PublicTopology:
    """A graph whose edges are public, though its features are not.

    Attributes:
        edges: int64 [2, m], both directions, by device index.
        owners: int64 [n], the index of the client that each node belongs to.
        rules: how hop sums are computed.
    """

    edges: Ids
    owners: Ids
    rules: HopRules = field(default_factory=HopRules)


TOTALS = "hop sums"
"""Name of a client's rows (own node, the sum over its neighbours at other clients), by layer from 0."""

ASKED = "asked neighbours"
"""Name of a client's rows (own node, neighbour, client of the neighbour): whom it asks about; all where not noted."""

OWN_ROWS = "own hop rows"
"""Name of a client's rows (own node, its row), what it puts into the first hop."""

EVERYBODY = -1
"""In place of a client, where a sum is over the neighbours at all clients."""

REAL_BITS = 40
"""Bits behind the binary point, in units of the largest sum, to which sums of real numbers are exact."""


@dataclass(frozen=True, slots=True, eq=False)
class ClientSums:
    """One client's sums: the same ones in every hop.

    Attributes:
        client: who has them.
        own: float64 [n, d], the rows of its own nodes, 0 for all others.
        asked: 0/1 float64 CSR [n, n], in the rows of its own nodes the neighbours elsewhere that it asked about.
        nodes: int64 [q], the own node that each sum is for, ascending.
        senders: int64 [q], the client whose nodes are summed, or `EVERYBODY`.
        members: 0/1 float64 CSR [q, n], the nodes that are summed.
        values: float64 [hops, q, d].
        unit: how far one coordinate of a row may be off before it is summed.
    """

    client: ClientEdges
    own: Floats
    asked: sparse.csr_array
    nodes: Ids
    senders: Ids
    members: sparse.csr_array
    values: Floats
    unit: float

    @property
    def foreign_nodes(self) -> Ids:
        """int64, the nodes of other clients that are in some sum, ascending."""
        return np.unique(self.members.indices).astype(np.int64)

    @property
    def single(self) -> NDArray[np.bool_]:
        """Bool [q]: which sums are over one node."""
        return np.asarray(np.diff(self.members.indptr) == 1)

    @property
    def alone(self) -> Ids:
        """int64, the nodes that some sum is over alone, or would be if it had arrived, ascending."""
        apart = bool((self.senders != EVERYBODY).any())
        others = np.unique(self.client.client_of[self.client.outside]) if apart else np.empty(0, dtype=np.int64)
        parts = [_at_client(self.client, self.asked, index) for index in others.tolist()] if apart else [self.asked]
        result = [part[np.flatnonzero(np.diff(part.indptr) == 1)].indices for part in parts]
        return np.unique(np.concatenate([*result, np.empty(0, dtype=np.int64)])).astype(np.int64)


def client_sums(view: View, public: PublicParameters) -> list[ClientSums]:
    """The sums of every client that has some and noted its own rows.

    Where sums of single clients arrived in plaintext, these; a client that lacks some of what it asked another for
    leaves that one out. Elsewhere the totals that it noted; a refused total is not there, or 0 in every hop.
    """
    batches = view.messages(Phase.VALUES, direction=Direction.FORWARD, round=0)
    batches = tuple(sorted(batches, key=lambda batch: batch.step.layer))
    result = []
    for client in clients_of(view):
        own_features = rows_by_layer(view, OWN_ROWS, client, [0])
        noted = rows_of(view, ASKED)
        requests = client.crossing
        if noted:
            pairs = stack_rows(noted).of(client.observer)[:, :2].astype(np.int64)
            requests = sparse.csr_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=requests.shape)
        received = [(batch.step.layer, batch, batch.observers == client.observer) for batch in batches]
        hops = [(batch, rows) for layer, batch, rows in received if layer >= 0 and rows.any()]
        sums = _apart(view, client, requests, hops) if hops else _totals(view, client, requests)
        if own_features is not None and sums is not None:
            exact = public.fraction_bits
            largest = float(np.abs(sums[3]).max(initial=0.0))
            unit = largest * 2.0**-REAL_BITS if exact is None else 2.0**-exact
            result.append(ClientSums(client, own_features[0][0], requests, *sums, unit))
    return result


_Sums = tuple[Ids, Ids, sparse.csr_array, Floats]


def _apart(
    view: View, client: ClientEdges, requests: sparse.csr_array, received: list[tuple[ReceivedRows, NDArray[np.bool_]]]
) -> _Sums | None:
    """A sum for each own node and other client; those of one client come in the order of the nodes asked about."""
    hops: list[dict[int, Floats]] = []
    for batch, is_own in received:
        owners = view.parties.index_of(batch.senders[is_own], Role.SILO)
        payload = np.asarray(batch.payload, dtype=np.float64)[is_own]
        hops.append({owner: payload[owners == owner] for owner in np.unique(owners).tolist()})
    nodes, senders, parts, values = [], [], [], []
    for sender in sorted(set.intersection(*(set(hop) for hop in hops))):
        edges = _at_client(client, requests, sender)
        requested = np.flatnonzero(np.diff(edges.indptr))
        if all(len(hop[sender]) == len(requested) for hop in hops):
            nodes.append(requested)
            senders.append(np.full(len(requested), sender))
            parts.append(edges[requested])
            values.append(np.stack([hop[sender] for hop in hops]))
    if not parts:
        return None
    order = np.argsort(np.concatenate(nodes), kind="stable")
    members = sparse.csr_array(sparse.vstack(parts, format="csr")[order])
    ends = (np.concatenate(nodes)[order], np.concatenate(senders)[order])
    return (*ends, members, np.concatenate(values, axis=1)[:, order])


def _at_client(client: ClientEdges, requests: sparse.csr_array, index: int) -> sparse.csr_array:
    """The neighbours that another client has, of those asked about: 0/1 CSR [n, n]."""
    edges = sparse.csr_array(requests @ sparse.diags_array((client.client_of == index).astype(np.float64)))
    edges.eliminate_zeros()
    return edges


def _totals(view: View, client: ClientEdges, requests: sparse.csr_array) -> _Sums | None:
    """A sum for each own node over its neighbours at all clients."""
    layers = sorted({rows.step.layer for rows in rows_of(view, TOTALS) if rows.step.round == 0})
    noted = rows_by_layer(view, TOTALS, client, layers)
    if noted is None:
        return None
    values, noted_rows = noted
    answered_rows = np.flatnonzero(noted_rows & values.any(axis=(0, 2)) & (np.diff(requests.indptr) > 0))
    if not len(answered_rows):
        return None
    return (
        answered_rows,
        np.full(len(answered_rows), EVERYBODY),
        sparse.csr_array(requests[answered_rows]),
        values[:, answered_rows],
    )
