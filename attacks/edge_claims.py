"""Edges that observers claim to know, how they are scored, and what a sum over known surroundings is made of."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.base import Measurement
from fgl_secure.attacks.neighbourhoods import ClientEdges, undirected_adjacency
from fgl_secure.attacks.row_space import DeterminedRows, determined_unknowns, row_basis
from fgl_secure.attacks.truth import DeviceTruth, MessageTruth, crosses_silos, foreign_neighbours
from fgl_secure.runtime import Role
from fgl_secure.statistics.metrics import clustered_proportion, node_block_proportion, pair_advantage
from fgl_secure.typing import Floats, Ids


@dataclass(frozen=True, slots=True, eq=False)
class ClaimedEdges:
    """Messages that observers believe to have been sent."""

    sources: Ids  # int64 [k], party identifiers of the senders
    targets: Ids  # int64 [k], party identifiers of the receivers

    @property
    def number(self) -> int:
        """How many different pairs are claimed."""
        apart = self.targets.max(initial=0) + 1
        return len(np.unique(self.sources * apart + self.targets))


def score_claimed_edges(guess: ClaimedEdges, truth: MessageTruth, *, crossing: bool) -> tuple[Measurement, ...]:
    """Precision, recall and advantage over ordered pairs of different devices.

    An edge that several observers claim, each alone, counts once. Without the transcript a claim is right as often as
    pairs have an edge (the density), and as many claims at random find the share of edges that they are of all pairs.

    Args:
        guess: the claims.
        truth: with the edges along which messages were sent.
        crossing: whether only pairs of devices in different silos count.
    """
    devices, actual = len(truth.silo_of), truth.edges
    source, target = (truth.parties.index_of(ids, Role.DEVICE) for ids in (guess.sources, guess.targets))
    pairs = devices * (devices - 1)
    if crossing:
        actual = actual[:, crosses_silos(truth)]
        abroad = truth.silo_of[source] != truth.silo_of[target]
        source, target = source[abroad], target[abroad]
        sizes = np.bincount(truth.silo_of)
        pairs = devices * devices - int((sizes * sizes).sum())
    claimed, edges = np.unique(source * devices + target), np.unique(actual[0] * devices + actual[1])
    right, read = np.isin(claimed, edges, assume_unique=True), np.isin(edges, claimed, assume_unique=True)
    kind = "cross-silo messages" if crossing else "messages"
    finding = (
        f"{len(claimed):,} pairs of devices are taken for neighbours, {int(right.sum()):,} of them rightly; there are "
        f"{len(edges):,} {kind}."
    )
    apart = np.stack([edges // devices, edges % devices]), np.stack([claimed // devices, claimed % devices])
    return _figures(read, right, *apart, pairs, devices, finding)


def _figures(
    read: NDArray[np.bool_], right: NDArray[np.bool_], actual: Ids, claimed: Ids, pairs: int, nodes: int, finding: str,
    reach: float = 1.0,
) -> tuple[Measurement, ...]:  # fmt: skip
    """Precision, if anything is claimed, recall and advantage.

    Args:
        read: bool [m], which edges are claimed.
        right: bool [k], which claims are edges.
        actual: int64 [2, m], ends of the edges.
        claimed: int64 [2, k], ends of the claims.
        pairs: how many pairs could be edges.
        nodes: how many nodes there are.
        finding: the figures in words.
        reach: the share of the edges that a complete break would find.
    """
    recall = node_block_proportion(read, actual, nodes, seed=0)
    errors, others = claimed[:, ~right], max(pairs - len(read), 0)
    gain = pair_advantage(read, actual, errors, others, nodes, seed=0)
    random, density = len(right) / max(pairs, 1), len(read) / max(pairs, 1)
    figures = (
        Measurement.of_share("recall", recall, finding, random=random, prior=random, reachable=reach),
        replace(
            Measurement.of_advantage("advantage", gain, errors.shape[1] / max(others, 1), finding), reachable=reach
        ),
    )
    if not len(right):
        return figures
    precision = clustered_proportion(right, claimed[0], seed=0)
    return Measurement.of_share("precision", precision, finding, random=density, prior=density, context=True), *figures


@dataclass(frozen=True, slots=True, eq=False)
class ForeignEdges:
    """Edges between nodes of other clients, each claimed by one client."""

    clients: Ids  # int64 [k], index of the client that makes each claim
    lower: Ids  # int64 [k], device index of the end of lower index
    upper: Ids  # int64 [k], device index of the other end

    @classmethod
    def of_client(cls, client: ClientEdges, ends: Ids, others: Ids) -> ForeignEdges:
        """The claims of one client, each pair once, without pairs that touch the client or are one node."""
        foreign = ~client.owned[ends] & ~client.owned[others] & (ends != others)
        pairs = np.sort(np.stack([ends[foreign], others[foreign]]), axis=0)
        lower, upper = np.unique(pairs, axis=1)
        return cls(np.full(len(lower), client.index, dtype=np.int64), lower, upper)

    @classmethod
    def of_all(cls, parts: list[ForeignEdges]) -> ForeignEdges:
        """The claims of all clients, side by side and each once; at least one part."""
        columns = [np.stack([part.clients, part.lower, part.upper]) for part in parts]
        return cls(*np.unique(np.concatenate(columns, axis=1), axis=1))


def score_foreign_edges(
    guess: ForeignEdges, truth: DeviceTruth, within_reach: NDArray[np.bool_]
) -> tuple[Measurement, ...]:
    """Precision, recall and advantage over all pairs of a client and two nodes that are not its own.

    Without what was exchanged a claim is right as often as such pairs are edges (the density), and as many claims at
    random find the share of edges that they are of all pairs. Edges out of reach count for the recall all the same.

    Args:
        guess: the claims, those of every client on its own account.
        truth: with the edges, taken as undirected.
        within_reach: bool [m] in the order of `foreign_edges`, which edges a complete break would find.
    """
    nodes = len(truth.silo_of)
    client, lower, upper = foreign_edges(truth)
    actual, claimed = ((c * nodes + a) * nodes + b for c, a, b in (
        (client, lower, upper), (guess.clients, guess.lower, guess.upper)))  # fmt: skip
    read, right = np.isin(actual, claimed), np.isin(claimed, actual)
    sizes = nodes - np.bincount(truth.silo_of)
    pairs = int((sizes * (sizes - 1) // 2).sum())
    finding = (
        f"{len(sizes)} clients, each alone, claim {len(right):,} edges between nodes of others, {int(right.sum()):,} "
        f"of them rightly; there are {len(read):,} such edges, counted once for each client."
    )
    reach = float(within_reach.mean()) if len(within_reach) else 0.0
    ends = np.stack([lower, upper]), np.stack([guess.lower, guess.upper])
    return _figures(read, right, *ends, pairs, nodes, finding, reach)


def foreign_edges(truth: DeviceTruth) -> tuple[Ids, Ids, Ids]:
    """For every client all undirected edges without an end in it: int64 client, lower end and upper end."""
    lower, upper = np.unique(np.sort(truth.edges, axis=0), axis=1)
    apart = lower != upper
    lower, upper = lower[apart], upper[apart]
    clients = np.arange(int(truth.silo_of.max()) + 1)[:, None]
    client, edge = np.nonzero((truth.silo_of[lower] != clients) & (truth.silo_of[upper] != clients))
    return client.astype(np.int64), lower[edge], upper[edge]


def edges_at_neighbours(truth: DeviceTruth) -> NDArray[np.bool_]:
    """Bool [m] in the order of `foreign_edges`: whether an end is a neighbour of the client's nodes."""
    client, lower, upper = foreign_edges(truth)
    touched = foreign_neighbours(truth)
    return np.asarray(touched[lower, client] | touched[upper, client])


MARGIN = 4
"""How many times its bound a rounding error may be."""


def _explained_by(known: Floats, error: Floats, change: Floats, later: Floats, slack: float) -> Ids:
    """The one or two known rows that a change consists of; none where no, or more than one, explanation fits.

    Args:
        known: float64 [k, w], candidates.
        error: float64 [k], how far each may be off.
        change: float64 [w]; each row in it adds `later` to what must be explained, as it adds 1 to the degree.
        later: float64 [w].
        slack: how far the change may be off.

    Returns:
        int64, positions of the rows.
    """
    if np.abs(change).max() <= slack:
        return np.empty(0, dtype=np.int64)  # no foreign neighbour
    one = np.flatnonzero(np.abs(known - (change + later)).max(axis=1) <= slack + error)
    order = np.argsort(known[:, 0], kind="stable")
    first, targets = known[order, 0], change + 2 * later
    reach = slack + 2 * float(error.max(initial=0.0))
    start, stop = (np.searchsorted(first, targets[0] - known[:, 0] + d) for d in (-reach, reach))
    a = np.repeat(np.arange(len(known)), stop - start)
    offset = np.arange(len(a)) - np.repeat(np.cumsum(stop - start) - (stop - start), stop - start)
    b = order[np.repeat(start, stop - start) + offset]
    a, b = a[a < b], b[a < b]
    distance = np.abs(known[a] + known[b] - targets).max(axis=1, initial=0.0)
    fits = distance <= slack + error[a] + error[b]
    if len(one) + int(fits.sum()) != 1:
        return np.empty(0, dtype=np.int64)
    return one.astype(np.int64) if len(one) else np.concatenate([a[fits], b[fits]])


def explained_edges(
    client: ClientEdges, known: DeterminedRows, rows: Floats, changes: Floats, later: Floats, slack: Floats
) -> ForeignEdges:
    """Claims the neighbours of each known node of which one change has one explanation by one or two known rows.

    Args:
        client: who knows rows.
        known: whose rows are known, and how far each may be off.
        rows: float64 [k, w], what explains changes.
        changes: float64 [2, k, w], what there is to explain, by each of two readings.
        later: float64 [k, w], see `_explained_by`.
        slack: float64 [k], how far each change may be off.
    """
    ends, others = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
    for w, node in enumerate(known.nodes.tolist() if rows.shape[1] else []):
        result = [
            _explained_by(rows, MARGIN * known.error, change[w], later[w], MARGIN * slack[w]) for change in changes
        ]
        if sum(map(len, result)) == max(map(len, result)):  # by one reading alone
            ends_of_pairs = np.concatenate(result)
            ends.append(np.full(len(ends_of_pairs), node))
            others.append(known.nodes[ends_of_pairs])
    return ForeignEdges.of_client(client, np.concatenate(ends), np.concatenate(others))


def edges_of_known_surroundings(truth: DeviceTruth) -> NDArray[np.bool_]:
    """Bool [m] in the order of `foreign_edges`: whether an end and all its neighbours are read or the client's own."""
    client, lower, upper = foreign_edges(truth)
    edges, silo_of = undirected_adjacency(truth.edges, len(truth.silo_of)).astype(np.float64), truth.silo_of
    closed = np.zeros((int(silo_of.max()) + 1, len(silo_of)), dtype=np.bool_)
    for index in range(len(closed)):
        is_own = silo_of == index
        crossing = edges[np.flatnonzero(is_own)][:, np.flatnonzero(~is_own)]
        outside = np.flatnonzero(crossing.sum(axis=0))
        read = np.zeros(len(is_own), dtype=np.bool_)
        read[np.flatnonzero(~is_own)[outside]] = determined_unknowns(row_basis(crossing[:, outside].toarray()))
        closed[index] = read & ((edges @ (~(read | is_own)).astype(np.float64)) == 0)
    return np.asarray(closed[client, lower] | closed[client, upper])
