"""Edges told by the columns of the combined adjacency, and how well scores of pairs rank them.

A client that holds no power of the adjacency but only its rows of the combined one (FedStruct, ICLR 2025, Eq. 2)
sees every node as a column: what walks from its own nodes end there. Neighbours are reached alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fgl_secure.attacks.base import Attack, Card, Measurement
from fgl_secure.attacks.edge_claims import linked_pairs
from fgl_secure.attacks.neighbourhoods import COMBINED_ROWS, Client, clients_of, held_matrix, rows_of, stacked
from fgl_secure.attacks.structure.knowledge import FEDSTRUCT, STRUCTURE
from fgl_secure.attacks.structure.truth import StructureTruth
from fgl_secure.runtime import PublicParameters, Role, Secret, View
from fgl_secure.statistics.metrics import Interval, Proportion
from fgl_secure.typing import Floats, Ids

DRAWS = 1000
"""Resamples of the node-block bootstrap."""

_CELLS = 1_000_000  # weights of nodes held at once: 8 MB


@dataclass(frozen=True, slots=True, eq=False)
class Ranking:
    """Pairs of nodes that one observer ranks.

    Attributes:
        pairs: int64 [2, m], the ends of each pair.
        scores: float64 [m], higher for what looks more like an edge.
        linked: bool [m], whether the pair is an edge.
    """

    pairs: Ids
    scores: Floats
    linked: NDArray[np.bool_]


def rank_advantage(rankings: Sequence[Ranking], nodes: int, seed: int, draws: int = DRAWS) -> Proportion:
    """2 AUC - 1: how much more often an edge scores above another pair of the same ranking than below it.

    Pairs of unlike observers are not compared. Each draw of the bootstrap resamples the nodes with replacement, and a
    pair counts as often as the product of the multiplicities of its ends (Snijders and Borgatti, Connections 22, 1999).

    Args:
        rankings: one for each observer.
        nodes: number of nodes of the graph.
        seed: of the resampling.
        draws: number of resamples.

    Returns:
        The figure in [-1, 1] with a percentile interval of 95 %; 0 and [-1, 1] where nothing can be compared.
    """
    n = sum(len(ranking.scores) for ranking in rankings)
    value = _pooled(rankings, np.ones((nodes, 1)))
    drawn = [_pooled(rankings, weights) for weights in _multiplicities(nodes, seed, draws)] if len(value) else [value]
    gains = np.concatenate(drawn)
    if not len(gains):
        return Proportion(float(value[0]) if len(value) else 0.0, Interval(-1.0, 1.0), n)
    point = float(value[0])
    low, high = (float(end) for end in np.percentile(gains, (2.5, 97.5)))
    return Proportion(point, Interval(min(low, point), max(high, point)), n)


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
    drawn = order[starts + rng.integers(sizes)] if like.size else like
    return drawn[:, (drawn[0] != drawn[1]) & (_entries_at(edges, drawn) == 0)]


def two_hop_pairs(like: Ids, owner_of: Ids, edges: sparse.csr_array, seed: int) -> Ids:
    """As many random pairs with a common neighbour that are no edge, of no client that has no end among `like`."""
    walks = sparse.triu(edges @ edges, k=1).tocoo()
    pairs = np.stack([walks.row, walks.col]).astype(np.int64)
    pairs = pairs[:, np.isin(owner_of[pairs], owner_of[like]).all(axis=0)]
    return sampled(pairs[:, _entries_at(edges, pairs) == 0], like.shape[1], seed)


def sampled(pairs: Ids, count: int, seed: int) -> Ids:
    """At most `count` of the pairs [2, m], drawn without replacement."""
    if pairs.shape[1] <= count:
        return pairs
    return pairs[:, np.random.default_rng(seed).choice(pairs.shape[1], count, replace=False)]


def _entries_at(matrix: sparse.csr_array, pairs: Ids) -> Floats:
    """The entries of a matrix at pairs [2, m] of row and column, float64 [m]."""
    if not pairs.shape[1]:
        return np.empty(0)
    return np.asarray(matrix[pairs[0], pairs[1]], dtype=np.float64).ravel()


def _pooled(rankings: Sequence[Ranking], weights: Floats) -> Floats:
    """2 AUC - 1 under each column of node weights [n, r] for which there is something to compare."""
    ahead, total = np.zeros(weights.shape[1]), np.zeros(weights.shape[1])
    for ranking in rankings:
        won, compared = _compared(ranking, weights)
        ahead, total = ahead + won, total + compared
    some = total > 0
    return np.asarray(2 * ahead[some] / total[some] - 1)


def _compared(ranking: Ranking, weights: Floats) -> tuple[Floats, Floats]:
    """Weight [r] of the comparisons that edges win, ties as half a win, and of all comparisons."""
    if not len(ranking.scores):
        return np.zeros(weights.shape[1]), np.zeros(weights.shape[1])
    order = np.argsort(ranking.scores, kind="stable")
    starts = np.flatnonzero(np.diff(ranking.scores[order], prepend=-np.inf))
    heavy = weights[ranking.pairs[0][order]] * weights[ranking.pairs[1][order]]
    linked = ranking.linked[order, None]
    edges = np.add.reduceat(heavy * linked, starts, axis=0)
    others = np.add.reduceat(heavy * ~linked, starts, axis=0)
    below = np.cumsum(others, axis=0) - others / 2
    return np.asarray((edges * below).sum(axis=0)), np.asarray(edges.sum(axis=0) * others.sum(axis=0))


def _multiplicities(nodes: int, seed: int, draws: int) -> Iterator[Floats]:
    """How often each node is drawn, float64 [n, r] for some draws at a time."""
    rng = np.random.default_rng(seed)
    step = max(1, _CELLS // max(nodes, 4000))
    for start in range(0, draws, step):
        rows = min(step, draws - start)
        yield rng.multinomial(nodes, np.full(nodes, 1 / nodes), size=rows).T.astype(np.float64)


PAIRS = 10_000
"""Edges, and other pairs of each kind, that a score looks at, of all clients together."""

Negatives = Callable[[Ids, Ids, sparse.csr_array, int], Ids]


@dataclass(frozen=True, slots=True, eq=False)
class ColumnDirections:
    """How one client sees each node.

    Attributes:
        client: index of the client.
        directions: CSR [n, n], for each node its column of the client's rows, of length 1, or 0 where it is empty.
    """

    client: int
    directions: sparse.csr_array

    def score(self, pairs: Ids) -> NDArray[np.float64]:
        """The cosine of the columns of each pair [2, m]."""
        one, other = self.directions[pairs[0]], self.directions[pairs[1]]
        return np.asarray(one.multiply(other).sum(axis=1), dtype=np.float64).ravel()


class CombinedColumns(Attack[tuple[ColumnDirections, ...], StructureTruth]):
    """A client ranks pairs of foreign nodes by the cosine of their columns."""

    card = Card(
        "combined-columns",
        "a client ranks pairs of foreign nodes by the cosine of their columns in its combined rows",
        "on FedStruct (ICLR 2025) Eq. 2, even where no power of the adjacency is revealed",
        Role.SILO, Secret.FOREIGN_EDGE, STRUCTURE, FEDSTRUCT, minimum=0.51, truth=StructureTruth,
    )  # fmt: skip

    def infer(
        self, view: View, public: PublicParameters  # noqa: ARG002  # needs no parameter
    ) -> tuple[ColumnDirections, ...] | None:  # fmt: skip
        """Normalises the columns of every client's rows."""
        held = rows_of(view, COMBINED_ROWS)
        if not held:
            return None
        rows, n = stacked(held), view.parties.counts[Role.DEVICE]
        found = (_directions(client, held_matrix(rows.of(client.observer), n)) for client in clients_of(view))
        return tuple(each for each in found if each.directions.nnz) or None

    def score(self, guess: tuple[ColumnDirections, ...], truth: StructureTruth) -> tuple[Measurement, ...]:
        """2 AUC - 1 against random pairs without an edge, and against such pairs with a common neighbour."""
        kinds: tuple[tuple[str, str, Negatives], ...] = (
            ("random pairs", "random pairs of the same owners", random_pairs),
            ("two-hop pairs", "pairs with a common neighbour", two_hop_pairs),
        )
        edges = linked_pairs(truth)
        return tuple(_measured(guess, truth, edges, *kind) for kind in kinds)


def _directions(client: Client, combined: sparse.csr_array) -> ColumnDirections:
    """Columns of length 1 of the nodes that a client does not own."""
    squares = np.asarray(combined.multiply(combined).sum(axis=0), dtype=np.float64).ravel()
    foreign = ~client.owned & (squares > 0)
    scale = np.where(foreign, 1 / np.sqrt(np.where(foreign, squares, 1.0)), 0.0)
    directions = sparse.csr_array((combined @ sparse.diags_array(scale)).T)
    directions.eliminate_zeros()
    return ColumnDirections(client.index, directions)


def _measured(
    guess: tuple[ColumnDirections, ...],
    truth: StructureTruth,
    edges: sparse.csr_array,
    metric: str,
    others: str,
    negatives: Negatives,
) -> Measurement:
    each = -(-PAIRS // len(guess))
    rankings = [_ranking(seen, truth.silo_of, edges, negatives, each) for seen in guess]
    gain = rank_advantage(rankings, len(truth.silo_of), seed=0)
    finding = (
        f"{len(guess)} clients, each alone, rank edges between nodes of others above {others}: AUC "
        f"{(gain.value + 1) / 2:.3f} over {gain.n:,} pairs."
    )
    name = f"AUC gain over {metric}"
    return Measurement(name, gain.value, gain.interval, max(gain.n, 1), 0.0, 0.0, 1.0, False, finding)


def _ranking(seen: ColumnDirections, silo_of: Ids, edges: sparse.csr_array, negatives: Negatives, most: int) -> Ranking:
    """As many edges as other pairs among the nodes that are not the client's."""
    upper = sparse.triu(edges, k=1).tocoo()
    pairs = np.stack([upper.row, upper.col]).astype(np.int64)
    linked = sampled(pairs[:, (silo_of[pairs] != seen.client).all(axis=0)], most, seed=seen.client)
    apart = negatives(linked, silo_of, edges, seen.client)
    both = np.concatenate([linked, apart], axis=1)
    return Ranking(both, seen.score(both), np.arange(both.shape[1]) < linked.shape[1])
