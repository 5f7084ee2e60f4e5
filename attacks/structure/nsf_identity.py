"""Which foreign node is which: structure features against those of a noisy copy of the graph.

Whoever has crawled the graph, or part of it, computes on the copy what clients compute, and looks for equal rows.
FedStruct (ICLR 2025, App. G.1) names the danger without a figure. External neighbours are named from the own nodes
outward: a client knows its own nodes by name, and which pseudonyms abroad are their neighbours, which are seeds for
de-anonymising the rest (Narayanan and Shmatikov, IEEE S&P 2009).
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import linear_sum_assignment
from scipy.sparse.csgraph import min_weight_full_bipartite_matching
from scipy.spatial import KDTree
from scipy.spatial.distance import cdist

from fgl_secure.attacks.base import Attack, Card, InformedAttack, Measurement
from fgl_secure.attacks.neighbourhoods import OWN_EDGES, undirected
from fgl_secure.attacks.structure.knowledge import (
    FEDSTRUCT_LOUVAIN,
    OWN_NAMES,
    STRUCTURE,
    CrawledGraph,
    HeldFeatures,
    degree_hashes,
    foreign_features,
    own_rows,
)
from fgl_secure.attacks.truth import StructureTruth
from fgl_secure.errors import InputError
from fgl_secure.runtime import Directory, PublicParameters, Role, Secret, View
from fgl_secure.statistics.metrics import clustered_proportion
from fgl_secure.typing import Floats, Ids

DENSE = 5_000
"""Rows up to which all distances are laid out."""
NEAREST = 50
"""Candidates of each row beyond that."""
ROUNDING = 1e-12
"""Squared distances up to this share of the rows' mean squared length are rounding, and count as none."""


def comparable(values: Floats) -> Floats:
    """Features [m, d] as they are best compared: counts, whose tails are heavy, as log2(1 + count), else as they are.

    Zeros and ones stay what they are.
    """
    counts = bool((values >= 0).all() and (values == np.rint(values)).all())
    return np.log2(1 + values) if counts else values


def nearest(rows: Floats, table: Floats, count: int, rng: np.random.Generator) -> Ids:
    """The `count` nearest rows of a table, from near to far, equally near ones in random order.

    Args:
        rows: [m, d].
        table: [k, d], k at least 1.
        count: how many of the table, as far as there are that many.
        rng: breaks ties.

    Returns:
        int64 [m, min(count, k)], rows of the table.
    """
    order = rng.permutation(len(table))
    if max(len(rows), len(table)) > DENSE:
        return order[_tree_nearest(rows, table[order], min(count, len(table)))]
    distance = squared_distances(rows, table[order])
    return np.asarray(order[distance.argsort(axis=1, kind="stable")[:, :count]])


def one_to_one(rows: Floats, table: Floats, rng: np.random.Generator) -> Ids:
    """The assignment of least total squared distance, of each row of the table once at most.

    Kuhn's Hungarian method on all distances up to 5,000 rows, else a sparse one (Jonker and Volgenant 1987) on the 50
    nearest of each row.

    Args:
        rows: [m, d].
        table: [k, d].
        rng: breaks ties.

    Returns:
        int64 [m], rows of the table; -1 for those that remain without one.
    """
    order = rng.permutation(len(table))
    shuffled = table[order]
    if max(len(rows), len(table)) > DENSE:
        return _named(_sparse_assignment(rows, shuffled), order)
    matched = np.full(len(rows), -1, dtype=np.int64)
    which, column = linear_sum_assignment(squared_distances(rows, shuffled))
    matched[which] = column
    return _named(matched, order)


def squared_distances(rows: Floats, table: Floats) -> Floats:
    """Squared Euclidean distances [m, k], 0 where they may come from rounding to single precision."""
    distance = cdist(rows, table, "sqeuclidean")
    scale = float((table**2).sum(axis=1).mean()) if len(table) else 0.0
    return np.asarray(np.where(distance <= ROUNDING * scale, 0.0, distance))


def equal_rows(rows: Floats) -> Ids:
    """How many rows of a table [m, d] are equal to each up to rounding, itself included: int64 [m]."""
    scale = float(np.sqrt((rows**2).sum(axis=1).mean())) if len(rows) else 0.0
    coarse = np.round(rows / max(scale, np.finfo(np.float64).tiny), 6)
    _, group, count = np.unique(coarse, axis=0, return_inverse=True, return_counts=True)
    return np.asarray(count[group.ravel()], dtype=np.int64)


def _named(matched: Ids, order: Ids) -> Ids:
    return np.where(matched >= 0, order[matched], -1)


def _tree_nearest(rows: Floats, table: Floats, count: int) -> Ids:
    _, found = KDTree(table).query(rows, k=count)
    return np.asarray(found, dtype=np.int64).reshape(len(rows), count)


def _sparse_assignment(rows: Floats, table: Floats) -> Ids:
    """Each row may also stay alone, at more than any distance: so there always is a full matching."""
    count = min(NEAREST, len(table))
    distance, found = (np.asarray(each).reshape(len(rows), count) for each in KDTree(table).query(rows, k=count))
    cost = distance**2
    alone = (cost.max(initial=0.0) + 1) * (len(rows) + 1)
    which = np.arange(len(rows))
    data = np.concatenate([cost.ravel() + 1, np.full(len(rows), alone)])  # an entry of zero would be none
    ends = np.concatenate([np.repeat(which, count), which]), np.concatenate([found.ravel(), len(table) + which])
    graph = sparse.csr_array((data, ends), shape=(len(rows), len(table) + len(rows)))
    row, column = min_weight_full_bipartite_matching(graph)
    matched = np.full(len(rows), -1, dtype=np.int64)
    matched[row] = np.where(column < len(table), column, -1)
    return matched


@dataclass(frozen=True, slots=True, eq=False)
class _NamedNodes:
    """Whom clients take foreign nodes for."""

    observers: Ids  # int64 [k], party identifiers of the clients
    nodes: Ids  # int64 [k], device indices
    names: Ids  # int64 [k, r], indices in the list that the crawl goes by, the likeliest first; -1 for none
    choices: Ids  # int64 [k], how many listed nodes belong to the client of each
    alike: Ids  # int64 [k], nodes of that client with the same features, itself included
    rate: float  # the share of the edges that the crawl has


@dataclass(frozen=True, slots=True, eq=False)
class _MatchedGroup:
    """Nodes int64 [m], names int64 [m, r], choices and alike int64 [m] as in `_NamedNodes`."""

    nodes: Ids
    names: Ids
    choices: Ids
    alike: Ids


def _gathered(found: list[tuple[int, _MatchedGroup]], rate: float) -> _NamedNodes | None:
    """The matches of all clients in one table; None without any."""
    if not found:
        return None
    observers = np.concatenate([np.full(len(match.nodes), client) for client, match in found])
    nodes, names, choices, alike = (
        np.concatenate([getattr(match, column) for _, match in found])
        for column in ("nodes", "names", "choices", "alike")
    )
    return _NamedNodes(observers, nodes, names, choices, alike, rate)


def _share_named(metric: str, guess: _NamedNodes, truth: StructureTruth, first: int) -> Measurement:
    """The share of nodes whose right name is among the first ones.

    Without the transcript any listed node of the client is as likely. Nodes with equal features are told apart by
    luck alone, which bounds what can be reached.
    """
    names = guess.names[:, :first]
    resolved = np.where(names >= 0, truth.identity[names], -1)
    right = (resolved == guess.nodes[:, None]).any(axis=1)
    share = clustered_proportion(right, guess.nodes, seed=0)
    blind = float(np.minimum(1, first / np.maximum(guess.choices, 1)).mean())
    best = float(np.minimum(1, first / guess.alike).mean())
    bound = ", an upper bound" if guess.rate >= 1 else ""
    finding = (
        f"{int(right.sum()):,} of {len(right):,} foreign nodes are named right ({metric}) from a copy with "
        f"{guess.rate:.0%} of the edges{bound}."
    )
    return Measurement.of_share(metric, share, finding, random=blind, prior=blind, reachable=max(best, share.value))


CRAWL = "a noisy copy of the graph under true names, who belongs to which client, and the rule of the features"
CANDIDATES = 5
"""Names that are listed for each node, the likeliest first."""


def _card(name: str, summary: str) -> Card:
    return Card(
        name,
        summary,
        "on FedStruct (ICLR 2025) App. G.1, with a crawl as Narayanan and Shmatikov (2009) assume it",
        Role.SILO,
        Secret.IDENTITY,
        STRUCTURE,
        FEDSTRUCT_LOUVAIN,
        minimum=0.9,
        auxiliary=CRAWL,
        truth=StructureTruth,
        knowledge=CrawledGraph,
        tells_nothing="a list of names doesn't say which of a client's nodes has which",
    )


class _Matching(InformedAttack[_NamedNodes, CrawledGraph, StructureTruth]):
    """What all ways of matching one client's nodes with the listed nodes of that client share."""

    def infer_with(self, view: View, public: PublicParameters, known: CrawledGraph) -> _NamedNodes | None:  # noqa: ARG002  # needs no parameter
        """Matches each foreign client's nodes at every client alone."""
        copy = _features_of_copy(known)
        if copy is None:
            return None
        same: dict[tuple[int, bytes, bytes], _MatchedGroup | None] = {}  # what clients hold alike is matched once
        found = []
        for client, held in foreign_features(view).items():
            for group in _by_owner(held):
                key = int(group.owners[0]), group.nodes.tobytes(), group.values.tobytes()
                if key not in same:
                    same[key] = self._among(group, copy, known.owners)
                found.append((client, same[key]))
        return _gathered([(client, match) for client, match in found if match is not None], known.rate)

    def _among(self, group: HeldFeatures, copy: Floats, owner_of: Ids) -> _MatchedGroup | None:
        listed = np.flatnonzero(owner_of == group.owners[0])
        _check_width(group.values, copy)
        if not len(listed):
            return None
        # Seeded by what is matched: clients that hold the same reach the same conclusion.
        found = self._match(group.values, copy[listed], np.random.default_rng(int(group.owners[0])))
        if found is None:
            return None
        names = np.where(found >= 0, listed[found], -1)
        return _MatchedGroup(group.nodes, names, np.full(len(names), len(listed)), equal_rows(group.values))

    @abstractmethod
    def _match(self, rows: Floats, table: Floats, rng: np.random.Generator) -> Ids | None:
        """int64 [m, r]: rows of the table for each row, the likeliest first; -1 for none."""

    def score(self, guess: _NamedNodes, truth: StructureTruth) -> tuple[Measurement, ...]:
        """The share of nodes whose first name is right."""
        return (_share_named("top-1", guess, truth, 1),)


class _NsfNearest(_Matching):
    """The listed node with the nearest features."""

    card = _card(
        "nsf-nearest", "a client names a foreign node after the listed one with the nearest structure features"
    )

    def _match(self, rows: Floats, table: Floats, rng: np.random.Generator) -> Ids:
        return nearest(rows, table, CANDIDATES, rng)

    def score(self, guess: _NamedNodes, truth: StructureTruth) -> tuple[Measurement, ...]:
        """The share of nodes whose first name, or one of the first five, is right."""
        return _share_named("top-1", guess, truth, 1), _share_named("top-5", guess, truth, CANDIDATES)


class _NsfAssignment(_Matching):
    """The assignment of names to nodes of least total distance."""

    card = _card("nsf-assignment", "a client names all nodes of another one at once, at the least total distance")

    def _match(self, rows: Floats, table: Floats, rng: np.random.Generator) -> Ids:
        return one_to_one(rows, table, rng)[:, None]


class _NsfDegreeHashing(_Matching):
    """Names inside buckets of equal degree and equal degrees of neighbours, as the features tell both."""

    card = _card(
        "nsf-degree-hashing", "a client names a foreign node after a listed one of equal degree and surroundings"
    )

    def _match(self, rows: Floats, table: Floats, rng: np.random.Generator) -> Ids | None:
        hashes, listed = degree_hashes(rows), degree_hashes(table)
        if hashes is None or listed is None or hashes.shape[1] != listed.shape[1]:
            return None
        _, bucket = np.unique(np.concatenate([hashes, listed]), axis=0, return_inverse=True)
        here, there = bucket.ravel()[: len(rows)], bucket.ravel()[len(rows) :]
        names = np.full((len(rows), 1), -1, dtype=np.int64)
        for each in np.intersect1d(here, there).tolist():
            mine, theirs = np.flatnonzero(here == each), np.flatnonzero(there == each)
            names[mine, 0] = theirs[nearest(rows[mine], table[theirs], 1, rng)[:, 0]]
        return names


def _features_of_copy(known: CrawledGraph) -> Floats | None:
    """The structure features of all listed nodes on the crawl, in single precision as clients share them."""
    if known.structure_features is None:
        return None
    copy = np.asarray(known.structure_features(known.edges, known.owners))
    if copy.ndim != 2 or len(copy) != len(known.owners):
        raise InputError(
            f"structure_features must give one row for each of {len(known.owners)} listed nodes; found shape "
            f"{list(copy.shape)}"
        )
    return comparable(copy.astype(np.float32).astype(np.float64))


def _by_owner(held: HeldFeatures) -> list[HeldFeatures]:
    """The nodes of each client that is known to own any, apart, with features as they are best compared."""
    there = replace(held, values=comparable(held.values))
    return [there.only(held.owners == owner) for owner in np.unique(held.owners[held.owners >= 0]).tolist()]


def _check_width(values: Floats, copy: Floats) -> None:
    if values.shape[1] != copy.shape[1]:
        raise InputError(
            f"structure_features must give the {values.shape[1]} columns that clients share; found {copy.shape[1]}"
        )


ECCENTRICITY = 0.5
"""By how many standard deviations of the scores the best must lead the second best."""


def common_neighbours(left: sparse.csr_array, right: sparse.csr_array, mapping: Ids) -> sparse.csr_array:
    """How many matched neighbours every pair of nodes has in common: float64 [n, k], sparse.

    Args:
        left: 0/1 [n, n], symmetric.
        right: 0/1 [k, k], symmetric.
        mapping: int64 [n], the right node of each left node, -1 where there is none.
    """
    known = np.flatnonzero(mapping >= 0)
    ends = (known, mapping[known])
    matched = sparse.csr_array((np.ones(len(known)), ends), shape=(left.shape[0], right.shape[0]))
    return sparse.csr_array(left.astype(np.float64) @ matched @ right.astype(np.float64))


def _over_root_degree(scores: sparse.csr_array, right: sparse.csr_array) -> sparse.csr_array:
    """Scores [n, k] over the root of each column's degree in `right`, 0/1 [k, k]."""
    degree = np.maximum(np.asarray(right.sum(axis=1), dtype=np.float64), 1)
    return sparse.csr_array(scores @ sparse.diags_array(1 / np.sqrt(degree)))


def eccentric_best(scores: sparse.csr_array) -> Ids:
    """The column of the best score of each row, where it leads the second best clearly: int64 [n], else -1.

    The lead is measured in standard deviations over all columns, those without a score included.
    """
    best = np.full(scores.shape[0], -1, dtype=np.int64)
    columns = scores.shape[1]
    for row in np.flatnonzero(np.diff(scores.indptr)).tolist():
        values = scores.data[scores.indptr[row] : scores.indptr[row + 1]]
        top = np.sort(np.append(values, 0.0))[-2:]
        deviation = np.sqrt(max((values**2).sum() / columns - (values.sum() / columns) ** 2, 0.0))
        if top[1] - top[0] > ECCENTRICITY * deviation:
            best[row] = scores.indices[scores.indptr[row] + int(values.argmax())]
    return best


@dataclass(frozen=True, slots=True, eq=False)
class _NamedNeighbours:
    """Whom clients take their external neighbours for."""

    observers: Ids  # int64 [k], party identifiers of the clients
    nodes: Ids  # int64 [k], device indices
    names: Ids  # int64 [k], indices in the list that the crawl goes by; -1 for none
    unaided: Ids  # int64 [k], the same without structure features: what own edges and the crawl tell by themselves
    rate: float  # the share of the edges that the crawl has


class _NsfPropagation(InformedAttack[_NamedNeighbours, CrawledGraph, StructureTruth]):
    """Among the listed nodes with most common neighbours with an external one, that with the nearest features."""

    card = Card(
        "nsf-propagation",
        "a client names its external neighbours: by common own neighbours, then by the nearest structure features",
        "on FedStruct (ICLR 2025) App. G.1, seeded as by Narayanan and Shmatikov (2009)",
        Role.SILO, Secret.IDENTITY, STRUCTURE, FEDSTRUCT_LOUVAIN, minimum=0.8,
        auxiliary=f"{CRAWL}; the names of its own nodes", truth=StructureTruth, knowledge=CrawledGraph,
    )  # fmt: skip

    def infer_with(self, view: View, public: PublicParameters, known: CrawledGraph) -> _NamedNeighbours | None:  # noqa: ARG002  # needs no parameter
        """Names every external neighbour whose features are known, at every client alone."""
        copy, owner_of = _features_of_copy(known), known.owners
        if copy is None:
            return None
        listed = _Listed(undirected(known.edges, len(owner_of)), copy, owner_of)
        edges, names, size = own_rows(view, OWN_EDGES), own_rows(view, OWN_NAMES), len(view.parties.ids(Role.DEVICE))
        found = [
            _at_client(client, held, edges[client], names[client], listed, size)
            for client, held in foreign_features(view).items()
            if client in edges and client in names
        ]
        if not sum(len(columns[0]) for columns in found):
            return None
        observers, nodes, named, unaided = (np.concatenate(column) for column in zip(*found, strict=True))
        return _NamedNeighbours(observers, nodes, named, unaided, known.rate)

    def guess_without(self, guess: _NamedNeighbours, known: CrawledGraph, parties: Directory) -> _NamedNeighbours:  # noqa: ARG002  # found beside the other
        """Names by own edges and the crawl, which are there before any message."""
        return replace(guess, names=guess.unaided)

    def score(self, guess: _NamedNeighbours, truth: StructureTruth) -> tuple[Measurement, ...]:
        """The share of external neighbours that are named right."""
        right, before = (
            np.where(names >= 0, truth.identity[names], -1) == guess.nodes for names in (guess.names, guess.unaided)
        )
        share = clustered_proportion(right, guess.nodes, seed=0)
        bound = ", an upper bound" if guess.rate >= 1 else ""
        finding = (
            f"{int(right.sum()):,} of {len(right):,} external neighbours are named right from a copy with "
            f"{guess.rate:.0%} of the edges{bound}, {int(before.sum()):,} of them by own edges alone."
        )
        random = 1 / max(len(truth.identity), 1)
        return (Measurement.of_share("neighbours named", share, finding, random=random, prior=random),)


@dataclass(frozen=True, slots=True, eq=False)
class _Listed:
    """The crawl, 0/1 [k, k], its structure features [k, d], and the client of each listed node, int64 [k]."""

    adjacency: sparse.csr_array
    features: Floats
    owner_of: Ids


def _at_client(
    client: int, held: HeldFeatures, edges: Ids, own_names: Ids, listed: _Listed, size: int
) -> tuple[Ids, ...]:
    """Observers, nodes, names and unaided names of the external neighbours whose features are held, int64 [m] each."""
    abroad, first = np.unique(edges[:, 1], return_index=True)
    external = np.flatnonzero(np.isin(abroad, held.nodes) & ~np.isin(abroad, own_names[:, 0]))
    nodes, owners = abroad[external], edges[first[external], 2]
    mapping = np.full(size, -1, dtype=np.int64)
    mapping[own_names[:, 0]] = own_names[:, 1]
    every = common_neighbours(undirected(edges[:, :2].T, size), listed.adjacency, mapping)[nodes]
    common = _of_owner(sparse.csr_array(every), owners, listed.owner_of)
    scores = _over_root_degree(common, listed.adjacency)
    values = comparable(held.values)[np.searchsorted(held.nodes, nodes)]
    unaided, names = eccentric_best(scores), np.full(len(nodes), -1, dtype=np.int64)
    for row in range(len(nodes)):
        rng = np.random.default_rng([client, int(nodes[row])])  # ties fall alike whatever else is known
        candidates = rng.permutation(_candidates(common, row, np.flatnonzero(listed.owner_of == owners[row])))
        if len(candidates):
            names[row] = candidates[squared_distances(values[[row]], listed.features[candidates])[0].argmin()]
            unaided[row] = candidates[0] if unaided[row] < 0 else unaided[row]
    return np.full(len(nodes), client), nodes, names, unaided


def _of_owner(scores: sparse.csr_array, owners: Ids, owner_of: Ids) -> sparse.csr_array:
    """Scores between nodes of one client; nodes of different clients can't be the same."""
    pairs = scores.tocoo()
    same = owners[pairs.row] == owner_of[pairs.col]
    return sparse.csr_array((pairs.data[same], (pairs.row[same], pairs.col[same])), shape=scores.shape)


def _candidates(common: sparse.csr_array, row: int, otherwise: Ids) -> Ids:
    """The columns of most common neighbours in a row; all of the client where the crawl lost the edges that tell."""
    inside = slice(common.indptr[row], common.indptr[row + 1])
    values = common.data[inside]
    if not len(values):
        return otherwise
    return np.asarray(common.indices[inside][values == values.max()], dtype=np.int64)


ATTACKS: tuple[Attack[Any, Any], ...] = (_NsfNearest(), _NsfAssignment(), _NsfDegreeHashing(), _NsfPropagation())
