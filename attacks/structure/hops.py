"""Neighbour lists from a client's shares and rows of the powers of the adjacency.

Client k sends client i the product of i's edges into k, which i knows, with k's rows of the normalised adjacency
(FedStruct, ICLR 2025, App. D, Eq. 34 to 36). The paper argues that the first factor has too low a rank to be inverted;
but every row of the second that the equations determine is a whole list of neighbours. Symmetry adds no unknown: the
columns of a node whose row is known are known in all rows.

The share of the third power gives the rows of the second for the very nodes for which that of the second power gives
the rows of the first. And such a node w says more: d_w times its row of the second power is the sum of the rows of the
first over w and its neighbours; where all of these but one are known, so is that one, and what is known shortens the
equations of the shares in turn.

Where the shares of all clients are added up under encryption, client i still learns its rows of the second power. Row v
times v's degree, without what i's own nodes put in, is the sum over the foreign neighbours w of v of 1 / d_w at w
itself and at every neighbour of w. At w itself no other neighbour of v adds anything for some v, so the smallest such
entry is 1 / d_w; then every entry (v, u) is a sum of some of these reciprocals, and where one subset alone fits, it
says which neighbours of v are neighbours of u.

Edges told by the columns of the combined adjacency, and how well scores of pairs rank them.

A client that holds no power of the adjacency but only its rows of the combined one (FedStruct, ICLR 2025, Eq. 2)
sees every node as a column: what walks from its own nodes end there. Neighbours are reached alike.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fgl_secure.attacks.areas import Ranking, rank_advantage
from fgl_secure.attacks.base import Attack, Card, DataSecret, Measurement
from fgl_secure.attacks.edge_claims import ForeignEdges, edges_at_neighbours, score_foreign_edges
from fgl_secure.attacks.neighbourhoods import (
    COMBINED_ROWS,
    HOP_ROWS,
    ClientEdges,
    clients_of,
    received_terms,
    rows_of,
    stack_rows,
    undirected_adjacency,
)
from fgl_secure.attacks.row_space import solver
from fgl_secure.attacks.structure.knowledge import FEDSTRUCT, STRUCTURE
from fgl_secure.attacks.truth import StructureTruth
from fgl_secure.runtime import PublicParameters, Role, View
from fgl_secure.typing import Floats, Ids

WHOLE = 1e-6
"""How far an entry of a solved row may be from 0 or 1 once it is multiplied by the degree."""


class _ListedNeighbours(Attack[ForeignEdges, StructureTruth]):
    """Edges at a client's neighbours that it reads off powers of the adjacency."""

    def score(self, guess: ForeignEdges, truth: StructureTruth) -> tuple[Measurement, ...]:
        """Precision, recall and advantage, see `score_foreign_edges`; edges at the client's neighbours are in reach."""
        return score_foreign_edges(guess, truth, edges_at_neighbours(truth))


class _HopShares(_ListedNeighbours):
    """A client solves each other client's share of the second power by least squares."""

    card = Card(
        "hop-shares",
        "a client solves single clients' shares of the second power of the adjacency for lists of neighbours",
        "against FedStruct (ICLR 2025) App. D: shares in the clear reveal no local adjacency",
        Role.SILO, DataSecret.FOREIGN_EDGE, STRUCTURE, FEDSTRUCT, minimum=0.6, truth=StructureTruth,
    )  # fmt: skip

    def infer(self, view: View, public: PublicParameters) -> ForeignEdges | None:  # noqa: ARG002  # needs no parameter
        parts = [
            _solve_share(client, sender, share)
            for client in clients_of(view)
            for sender, share in sorted(received_terms(view, client, 2).items())
        ]
        return ForeignEdges.of_all(parts) if parts else None


def _solve_share(client: ClientEdges, sender: int, share: sparse.csr_array) -> ForeignEdges:
    """The lists of neighbours that one share determines.

    Args:
        client: who received it.
        sender: index of the client that sent it.
        share: float64 CSR [n, n].
    """
    unknown_nodes = np.flatnonzero(client.client_of == sender)
    rows = np.flatnonzero(client.neighbours[:, unknown_nodes].sum(axis=1))
    part = share[rows]
    columns = np.unique(part.indices).astype(np.int64)
    solution = solver(client.neighbours[rows][:, unknown_nodes].toarray())
    ends, others = neighbour_lists(solution.weights @ part[:, columns])
    return ForeignEdges.of_client(client, unknown_nodes[solution.unknowns[ends]], columns[others])


def neighbour_lists(rows: Floats) -> tuple[Ids, Ids]:
    """The entries of rows of the normalised adjacency [k, m] that are the reciprocal of the row's degree.

    The largest entry of a row is that reciprocal; what pruning has cut away in between shows as other values.

    Returns:
        int64 [e] rows and int64 [e] columns.
    """
    if not rows.size:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    largest = rows.max(axis=1)
    degree = np.rint(1 / np.maximum(largest, np.finfo(np.float64).tiny))
    sound = (largest > 0) & (np.abs(largest * degree - 1) < WHOLE)
    ends, others = np.nonzero((np.abs(rows * degree[:, None] - 1) < WHOLE) & sound[:, None])
    return ends.astype(np.int64), others.astype(np.int64)


SMALL = 1e-9
"""Solved entries below are rounding."""


class _HopUnfolding(_ListedNeighbours):
    """A client solves shares of two powers in turn until nothing new is determined."""

    card = Card(
        "hop-unfolding",
        "a client unfolds single clients' shares of the second and third power for lists of neighbours",
        "against FedStruct (ICLR 2025) App. D: shares in the clear reveal no local adjacency",
        Role.SILO, DataSecret.FOREIGN_EDGE, STRUCTURE, FEDSTRUCT, minimum=0.6, truth=StructureTruth,
    )  # fmt: skip

    def infer(self, view: View, public: PublicParameters) -> ForeignEdges | None:  # noqa: ARG002  # needs no parameter
        result = []
        for client in clients_of(view):
            shares = [received_terms(view, client, layer) for layer in (2, 3)]
            if shares[0]:
                rows = sparse.coo_array(_recover_adjacency(client, *shares).rows)
                result.append(ForeignEdges.of_client(client, rows.row.astype(np.int64), rows.col.astype(np.int64)))
        return ForeignEdges.of_all(result) if result else None


@dataclass(slots=True, eq=False)
class _KnownRows:
    """Rows of one power that a client knows, all others 0: bool [n] which, and CSR [n, n]."""

    nodes: NDArray[np.bool_]
    rows: sparse.csr_array

    def add(self, nodes: Ids, rows: sparse.csr_array) -> None:
        """Takes rows [k, n] of nodes that were not known, without those of rounding size."""
        n = len(self.nodes)
        rows.data[np.abs(rows.data) < SMALL] = 0.0
        rows.eliminate_zeros()
        place = sparse.csr_array((np.ones(len(nodes)), (nodes, np.arange(len(nodes)))), shape=(n, len(nodes)))
        self.rows = sparse.csr_array(self.rows + place @ rows)
        self.nodes[nodes] = True


def _recover_adjacency(
    client: ClientEdges, second: dict[int, sparse.csr_array], third: dict[int, sparse.csr_array]
) -> _KnownRows:
    """The rows of the normalised adjacency that a client's shares determine, its own among them.

    Args:
        client: who received the shares.
        second: for each sender, CSR [n, n], its share of the second power.
        third: the same of the third power; may be empty.
    """
    n = len(client.owned)
    looped = sparse.csr_array(client.neighbours + sparse.diags_array(client.owned.astype(np.float64)))
    first = _KnownRows(
        client.owned.copy(), sparse.csr_array(sparse.diags_array(1 / np.maximum(looped.sum(axis=1), 1)) @ looped)
    )
    square = _KnownRows(np.zeros(n, dtype=np.bool_), sparse.csr_array((n, n)))
    while True:
        before = int(first.nodes.sum() + square.nodes.sum())
        for sender in sorted(second):
            _solve(client, sender, second[sender], first, integral=True)
            if sender in third:
                _solve(client, sender, third[sender], square, integral=False)
        _peel(client, first, square)
        if int(first.nodes.sum() + square.nodes.sum()) == before:
            return first


def _solve(client: ClientEdges, sender: int, share: sparse.csr_array, known: _KnownRows, *, integral: bool) -> None:
    """Adds the rows that a share determines once the known ones are taken out of it."""
    unknown_nodes = np.flatnonzero((client.client_of == sender) & ~known.nodes)
    rows = np.flatnonzero(client.neighbours[:, unknown_nodes].sum(axis=1))
    if not len(rows):
        return
    is_senders = (client.client_of == sender) & known.nodes
    edges = client.neighbours[rows]
    rest = sparse.csr_array(share[rows] - edges @ sparse.diags_array(is_senders.astype(np.float64)) @ known.rows)
    solution = solver(edges[:, unknown_nodes].toarray())
    values = sparse.csr_array(sparse.csr_array(solution.weights) @ rest)
    sound = _sound(values, integral=integral)
    known.add(unknown_nodes[solution.unknowns[sound]], values[np.flatnonzero(sound)])


def _peel(client: ClientEdges, first: _KnownRows, square: _KnownRows) -> None:
    """Adds the rows of nodes that are the only unknown neighbour of a node of which both powers are known."""
    while True:
        saying = np.flatnonzero(first.nodes & square.nodes & ~client.owned)
        degrees = np.diff(first.rows.indptr)[saying]
        around = first.rows[saying].astype(np.bool_).astype(np.float64)
        unknown = sparse.csr_array(around @ sparse.diags_array((~first.nodes).astype(np.float64)))
        unknown.eliminate_zeros()
        single = np.flatnonzero(np.diff(unknown.indptr) == 1)
        nodes, index = np.unique(unknown[single].indices.astype(np.int64), return_index=True)
        singles = single[index]
        scale = sparse.diags_array(degrees[singles].astype(np.float64))
        rows = sparse.csr_array(scale @ square.rows[saying[singles]] - around[singles] @ first.rows)
        sound = _sound(rows, integral=True)
        if not sound.any():
            return
        first.add(nodes[sound], rows[np.flatnonzero(sound)])


def _sound(rows: sparse.csr_array, *, integral: bool) -> NDArray[np.bool_]:
    """Bool [k]: which rows add up to 1 without negative entries and, of the first power, have equal entries.

    A row from which pruning has cut anything fails.
    """
    if not rows.shape[0]:
        return np.zeros(0, dtype=np.bool_)
    rows = rows.copy()
    rows.data[np.abs(rows.data) < SMALL] = 0.0
    rows.eliminate_zeros()
    sound: NDArray[np.bool_] = np.abs(np.asarray(rows.sum(axis=1)).ravel() - 1) < WHOLE
    terms = np.diff(rows.indptr)
    row = np.repeat(np.arange(rows.shape[0]), terms)
    invalid = np.abs(rows.data * terms[row] - 1) > WHOLE if integral else rows.data < 0
    sound[row[invalid]] = False
    return sound


def _held_matrix(entries: NDArray[Any], nodes: int) -> sparse.csr_array:
    """Rows (v, u, value) [m, 3] as float64 CSR [nodes, nodes]; entries of one cell are added up."""
    v, u = entries[:, 0].astype(np.int64), entries[:, 1].astype(np.int64)
    return sparse.csr_array((entries[:, 2].astype(np.float64), (v, u)), shape=(nodes, nodes))


@dataclass(frozen=True, slots=True)
class _HopFingerprint(_ListedNeighbours):
    """A client explains the entries of its rows of the second power by subsets of its foreign neighbours."""

    # how far a sum of reciprocal degrees may be off; the default covers the errors of encrypted sums
    tolerance: float = 1e-4
    most_terms: int = 12  # foreign neighbours of one node that are told apart at most

    card = Card(
        "hop-fingerprint",
        "a client takes its rows of the second power of the adjacency apart by its neighbours' degrees",
        "against FedStruct (ICLR 2025) App. D: an encrypted sum of the shares protects the adjacency",
        Role.SILO, DataSecret.FOREIGN_EDGE, STRUCTURE, FEDSTRUCT, minimum=0.51, truth=StructureTruth,
    )  # fmt: skip

    def infer(self, view: View, public: PublicParameters) -> ForeignEdges | None:  # noqa: ARG002  # needs no parameter
        hop_rows = rows_of(view, HOP_ROWS, layer=2)
        if not hop_rows:
            return None
        rows, n = stack_rows(hop_rows), view.parties.counts[Role.DEVICE]
        parts = [
            self._explain_rows(client, _held_matrix(rows.of(client.observer), n))
            for client in clients_of(view)
        ]  # fmt: skip
        return ForeignEdges.of_all(parts) if parts else None

    def _explain_rows(self, client: ClientEdges, squared: sparse.csr_array) -> ForeignEdges:
        rest, crossing = _foreign_part(client, squared), client.crossing
        # 1 / d_w of every foreign neighbour, float64 [n]; 0 for nodes that are none or of which no entry says
        # anything.
        at_itself = sparse.coo_array(rest.multiply(crossing))
        smallest = np.full(rest.shape[0], np.inf)
        np.minimum.at(smallest, at_itself.col, at_itself.data)
        is_read = np.isfinite(smallest) & (smallest > self.tolerance)
        degree = np.rint(1 / np.where(is_read, smallest, 1.0))
        reciprocal = np.where(is_read, 1 / np.maximum(degree, 1), 0.0)
        n = len(client.owned)
        agree, differ = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
        informative = np.zeros(n, dtype=np.int64)  # rows that could say something about a neighbour
        for v in np.flatnonzero(np.diff(crossing.indptr)).tolist():
            terms = _row(crossing, v)[0]
            if len(terms) > self.most_terms or not reciprocal[terms].all():
                continue
            informative[terms] += 1
            columns, values = _row(rest, v)
            terms_explained, inside = one_explanation(reciprocal[terms], values, self.tolerance)
            pairs = terms[:, None] * n + columns[terms_explained]
            agree.append(pairs[inside])
            ambiguous = np.setdiff1d(np.arange(len(columns)), terms_explained)
            differ.append((terms[:, None] * n + columns[ambiguous]).ravel())
        pair, votes = np.unique(np.concatenate(agree), return_counts=True)
        pairs, silent = np.unique(np.concatenate(differ), return_counts=True)
        votes[np.isin(pair, pairs)] += silent[np.isin(pairs, pair)]
        unanimous = pair[votes == informative[pair // n]]
        return ForeignEdges.of_client(client, unanimous // n, unanimous % n)


def _foreign_part(client: ClientEdges, squared: sparse.csr_array) -> sparse.csr_array:
    """What the nodes of others put into a client's rows of the squared normalised adjacency, times the row's degree.

    Args:
        client: who holds the rows.
        squared: CSR [n, n], its rows of the second power.

    Returns:
        CSR [n, n]: at (v, u) the sum of 1 / d_w over the foreign neighbours w of v that are u or neighbours of u.
    """
    is_own = client.owned.astype(np.float64)
    looped = sparse.csr_array(client.neighbours + sparse.diags_array(is_own))
    degree = looped.sum(axis=1)
    within = looped @ sparse.diags_array(is_own / np.maximum(degree, 1))
    return sparse.csr_array(sparse.diags_array(degree) @ squared - within @ looped)


def one_explanation(terms: Floats, values: Floats, tolerance: float) -> tuple[Ids, NDArray[np.bool_]]:
    """Which values are a sum of one subset of the terms only.

    Args:
        terms: float64 [k], k small.
        values: float64 [m].
        tolerance: how far a sum may be off.

    Returns:
        int64 [e] which values, and bool [k, e] which terms their subset has.
    """
    sums = np.zeros(1)
    for term in terms.tolist():
        sums = np.concatenate([sums, sums + term])
    order = np.argsort(sums, kind="stable")
    ordered = sums[order]
    first = np.searchsorted(ordered, values - tolerance, side="left")
    last = np.searchsorted(ordered, values + tolerance, side="right")
    unique = np.flatnonzero(last - first == 1)
    inside = (order[first[unique]] >> np.arange(len(terms))[:, None]) & 1
    return unique, inside.astype(np.bool_)


def _row(matrix: sparse.csr_array, v: int) -> tuple[Ids, Floats]:
    """Columns and values of one row."""
    span = slice(matrix.indptr[v], matrix.indptr[v + 1])
    return matrix.indices[span].astype(np.int64), matrix.data[span]


def random_pairs(like: Ids, owner_of: Ids, edges: sparse.csr_array, seed: int) -> Ids:
    """For each of some edges a random pair that is none, of the same two owners.

    Who owns a node is known, and most edges of a clustered partition join nodes of one owner: among pairs of the same
    owners this tells nothing.

    Args:
        like: int64 [2, m], the edges.
        owner_of: int64 [n], the client of each node.
        edges: 0/1 CSR [n, n], all edges.
        seed: of the draw.

    Returns:
        int64 [2, at most m].
    """
    rng = np.random.default_rng(seed)
    order = np.argsort(owner_of, kind="stable")
    starts = np.searchsorted(owner_of[order], owner_of[like])
    sizes = np.bincount(owner_of)[owner_of[like]]
    draws = order[starts + rng.integers(sizes)] if like.size else like
    return draws[:, (draws[0] != draws[1]) & (_entries_at(edges, draws) == 0)]


def two_hop_pairs(like: Ids, owner_of: Ids, edges: sparse.csr_array, seed: int) -> Ids:
    """As many random pairs with a common neighbour that are no edge, of no client that has no end among `like`."""
    walks = sparse.triu(edges @ edges, k=1).tocoo()
    pairs = np.stack([walks.row, walks.col]).astype(np.int64)
    pairs = pairs[:, np.isin(owner_of[pairs], owner_of[like]).all(axis=0)]
    return _sample_pairs(pairs[:, _entries_at(edges, pairs) == 0], like.shape[1], seed)


def _sample_pairs(pairs: Ids, count: int, seed: int) -> Ids:
    """At most `count` of the pairs [2, m], drawn without replacement."""
    if pairs.shape[1] <= count:
        return pairs
    return pairs[:, np.random.default_rng(seed).choice(pairs.shape[1], count, replace=False)]


def _entries_at(matrix: sparse.csr_array, pairs: Ids) -> Floats:
    """The entries of a matrix at pairs [2, m] of row and column, float64 [m]."""
    if not pairs.shape[1]:
        return np.empty(0)
    return np.asarray(matrix[pairs[0], pairs[1]], dtype=np.float64).ravel()


PAIRS = 10_000
"""Edges, and other pairs of each kind, that a score looks at, of all clients together."""

Negatives = Callable[[Ids, Ids, sparse.csr_array, int], Ids]


@dataclass(frozen=True, slots=True, eq=False)
class _ColumnDirections:
    """How one client sees each node."""

    client: int  # index of the client
    # CSR [n, n], for each node its column of the client's rows, of length 1, or 0 where it is empty
    directions: sparse.csr_array

    def score(self, pairs: Ids) -> NDArray[np.float64]:
        one, other = self.directions[pairs[0]], self.directions[pairs[1]]
        return np.asarray(one.multiply(other).sum(axis=1), dtype=np.float64).ravel()


class _CombinedColumns(Attack[tuple[_ColumnDirections, ...], StructureTruth]):
    """A client ranks pairs of foreign nodes by the cosine of their columns."""

    card = Card(
        "combined-columns",
        "a client ranks pairs of foreign nodes by the cosine of their columns in its combined rows",
        "on FedStruct (ICLR 2025) Eq. 2, even where no power of the adjacency is revealed",
        Role.SILO, DataSecret.FOREIGN_EDGE, STRUCTURE, FEDSTRUCT, minimum=0.51, truth=StructureTruth,
    )  # fmt: skip

    def infer(
        self, view: View, public: PublicParameters  # noqa: ARG002  # needs no parameter
    ) -> tuple[_ColumnDirections, ...] | None:  # fmt: skip
        combined_rows = rows_of(view, COMBINED_ROWS)
        if not combined_rows:
            return None
        rows, n = stack_rows(combined_rows), view.parties.counts[Role.DEVICE]
        result = (_directions(client, _held_matrix(rows.of(client.observer), n)) for client in clients_of(view))
        return tuple(item for item in result if item.directions.nnz) or None

    def score(self, guess: tuple[_ColumnDirections, ...], truth: StructureTruth) -> tuple[Measurement, ...]:
        """2 AUC - 1 against random pairs without an edge, and against such pairs with a common neighbour."""
        kinds: tuple[tuple[str, str, Negatives], ...] = (
            ("random pairs", "random pairs of the same owners", random_pairs),
            ("two-hop pairs", "pairs with a common neighbour", two_hop_pairs),
        )
        edges = undirected_adjacency(truth.edges, len(truth.silo_of)).astype(np.float64)
        return tuple(_measure_edges(guess, truth, edges, *kind) for kind in kinds)


def _directions(client: ClientEdges, combined: sparse.csr_array) -> _ColumnDirections:
    """Columns of length 1 of the nodes that a client does not own."""
    squares = np.asarray(combined.multiply(combined).sum(axis=0), dtype=np.float64).ravel()
    foreign = ~client.owned & (squares > 0)
    scale = np.where(foreign, 1 / np.sqrt(np.where(foreign, squares, 1.0)), 0.0)
    directions = sparse.csr_array((combined @ sparse.diags_array(scale)).T)
    directions.eliminate_zeros()
    return _ColumnDirections(client.index, directions)


def _measure_edges(
    guess: tuple[_ColumnDirections, ...],
    truth: StructureTruth,
    edges: sparse.csr_array,
    metric: str,
    others: str,
    negatives: Negatives,
) -> Measurement:
    item = -(-PAIRS // len(guess))
    rankings = [_ranking(seen, truth.silo_of, edges, negatives, item) for seen in guess]
    gain = rank_advantage(rankings, len(truth.silo_of), seed=0)
    finding = (
        f"{len(guess)} clients, each alone, rank edges between nodes of others above {others}: AUC "
        f"{(gain.value + 1) / 2:.3f} over {gain.n:,} pairs."
    )
    name = f"AUC gain over {metric}"
    return Measurement(name, gain.value, gain.interval, max(gain.n, 1), 0.0, 0.0, 1.0, False, finding)


def _ranking(
    column_directions: _ColumnDirections, silo_of: Ids, edges: sparse.csr_array, negatives: Negatives, most: int
) -> Ranking:
    """As many edges as other pairs among the nodes that are not the client's."""
    upper = sparse.triu(edges, k=1).tocoo()
    pairs = np.stack([upper.row, upper.col]).astype(np.int64)
    linked = _sample_pairs(
        pairs[:, (silo_of[pairs] != column_directions.client).all(axis=0)], most, seed=column_directions.client
    )
    apart = negatives(linked, silo_of, edges, column_directions.client)
    both = np.concatenate([linked, apart], axis=1)
    return Ranking(both, column_directions.score(both), np.arange(both.shape[1]) < linked.shape[1])


ATTACKS: tuple[Attack[Any, Any], ...] = (_HopShares(), _HopUnfolding(), _HopFingerprint(), _CombinedColumns())
