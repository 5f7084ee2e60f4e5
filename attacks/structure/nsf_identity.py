"""Which foreign node is which: structure features against those of a noisy copy of the graph.

A party that has crawled the graph, or part of it, computes on the copy what clients compute, and looks for equal rows.
FedStruct (ICLR 2025, App. G.1) names the danger without a figure. External neighbours are named from the own nodes
outward: a client knows its own nodes by name, and which pseudonyms abroad are their neighbours, which are seeds for
de-anonymising the rest (Narayanan and Shmatikov, IEEE S&P 2009).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import linear_sum_assignment
from scipy.sparse.csgraph import min_weight_full_bipartite_matching
from scipy.spatial import KDTree
from scipy.spatial.distance import cdist

from fgl_secure.attacks.base import Attack, Card, DataSecret, InformedAttack, Measurement
from fgl_secure.attacks.neighbourhoods import OWN_EDGES, undirected_adjacency
from fgl_secure.attacks.recovery import share_right
from fgl_secure.attacks.structure.knowledge import (
    FEDSTRUCT_LOUVAIN,
    OWN_NAMES,
    STRUCTURE,
    CrawledGraph,
    HeldFeatures,
    foreign_features,
    neighbour_sums,
    own_rows,
)
from fgl_secure.attacks.truth import StructureTruth
from fgl_secure.errors import InputError
from fgl_secure.runtime import Directory, PublicParameters, Role, View
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


def nearest(rows: Floats, table: Floats, count: int, rng: np.random.Generator, *, rounding: float = ROUNDING) -> Ids:
    """The `count` nearest rows of a table, from near to far, equally near ones in random order.

    Args:
        rows: [m, d].
        table: [k, d], k at least 1.
        count: how many of the table, as far as there are that many.
        rng: breaks ties.
        rounding: squared distances up to this share of the table's mean squared length count as none.

    Returns:
        int64 [m, min(count, k)], rows of the table.
    """
    order = rng.permutation(len(table))
    if max(len(rows), len(table)) > DENSE:
        _, result = KDTree(table[order]).query(rows, k=min(count, len(table)))
        return order[np.asarray(result, dtype=np.int64).reshape(len(rows), -1)]
    distance = _squared_distances(rows, table[order], rounding)
    return np.asarray(order[distance.argsort(axis=1, kind="stable")[:, :count]])


def one_to_one(rows: Floats, table: Floats, rng: np.random.Generator, *, rounding: float = ROUNDING) -> Ids:
    """The assignment of least total squared distance, of each row of the table once at most.

    Kuhn's Hungarian method on all distances up to 5,000 rows, else a sparse one (Jonker and Volgenant 1987) on the 50
    nearest of each row.

    Args:
        rows: [m, d].
        table: [k, d].
        rng: breaks ties.
        rounding: as for `nearest`.

    Returns:
        int64 [m], rows of the table; -1 for those that remain without one.
    """
    order = rng.permutation(len(table))
    shuffled = table[order]
    if max(len(rows), len(table)) > DENSE:
        matched = _sparse_assignment(rows, shuffled)
    else:
        matched = np.full(len(rows), -1, dtype=np.int64)
        row_numbers, column = linear_sum_assignment(_squared_distances(rows, shuffled, rounding))
        matched[row_numbers] = column
    return np.where(matched >= 0, order[matched], -1)


def _squared_distances(rows: Floats, table: Floats, rounding: float = ROUNDING) -> Floats:
    """Squared Euclidean distances [m, k], 0 where they may come from rounding to single precision."""
    distance = cdist(rows, table, "sqeuclidean")
    scale = float((table**2).sum(axis=1).mean()) if len(table) else 0.0
    return np.asarray(np.where(distance <= rounding * scale, 0.0, distance))


def _sparse_assignment(rows: Floats, table: Floats) -> Ids:
    """Each row may also stay alone, at more than any distance: so there always is a full matching."""
    count = min(NEAREST, len(table))
    distance, result = (np.asarray(item).reshape(len(rows), count) for item in KDTree(table).query(rows, k=count))
    cost = distance**2
    alone = (cost.max(initial=0.0) + 1) * (len(rows) + 1)
    row_numbers = np.arange(len(rows))
    data = np.concatenate([cost.ravel() + 1, np.full(len(rows), alone)])  # an entry of zero would be none
    sources = np.concatenate([np.repeat(row_numbers, count), row_numbers])
    ends = sources, np.concatenate([result.ravel(), len(table) + row_numbers])
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


def _share_named(metric: str, guess: _NamedNodes, truth: StructureTruth, first: int) -> Measurement:
    """The share of nodes whose right name is among the first ones.

    Without the transcript any listed node of the client is as likely. Nodes with equal features are told apart by
    luck alone, which bounds what can be reached.
    """
    names = guess.names[:, :first]
    resolved = np.where(names >= 0, truth.identity[names], -1)
    right = (resolved == guess.nodes[:, None]).any(axis=1)
    blind = float(np.minimum(1, first / np.maximum(guess.choices, 1)).mean())
    best = max(float(np.minimum(1, first / guess.alike).mean()), float(right.mean()))
    text = f"foreign nodes are named right ({metric}) from a copy with {_edges_of(guess.rate)}."
    return share_right(metric, right, guess.nodes, text, random=blind, prior=blind, reachable=best)


def _edges_of(rate: float) -> str:
    return f"{rate:.0%} of the edges{', an upper bound' if rate >= 1 else ''}"


CRAWL = "a noisy copy of the graph under true names, who belongs to which client, and the rule of the features"
CANDIDATES = 5
"""Names that are listed for each node, the likeliest first."""


Matched = Callable[[Floats, Floats, np.random.Generator], Ids | None]
"""Rows, a table, and what breaks ties -> int64 [m, r], rows of the table, the likeliest first; -1 for none."""


@dataclass(frozen=True, slots=True)
class _Matching(InformedAttack[_NamedNodes, CrawledGraph, StructureTruth]):
    """One client's nodes are matched with the listed nodes of that client."""

    card: Card = field()  # no default: the base class has a property of that name
    match: Matched
    first: tuple[int, ...] = (1,)  # among how many names the right one counts

    def infer_with(self, view: View, public: PublicParameters, known: CrawledGraph) -> _NamedNodes | None:  # noqa: ARG002  # needs no parameter
        """Matches each foreign client's nodes at every client alone."""
        copy = _features_of_copy(known)
        if copy is None:
            return None
        same: dict[tuple[int, bytes, bytes], tuple[Ids, ...] | None] = {}  # what clients hold alike is matched once
        result = []
        for client, feature in foreign_features(view).items():
            compared = replace(feature, values=comparable(feature.values))
            for owner in np.unique(feature.owners[feature.owners >= 0]).tolist():
                group = compared.only(feature.owners == owner)
                key = owner, group.nodes.tobytes(), group.values.tobytes()
                if key not in same:
                    same[key] = self._among(group, copy, known.owners)
                columns = same[key]
                if columns is not None:
                    result.append((np.full(len(group.nodes), client), *columns))
        if not result:
            return None
        observers, nodes, names, choices, alike = map(np.concatenate, zip(*result, strict=True))
        return _NamedNodes(observers, nodes, names, choices, alike, known.rate)

    def _among(self, group: HeldFeatures, copy: Floats, owner_of: Ids) -> tuple[Ids, ...] | None:
        """Nodes, names, choices and alike as in `_NamedNodes`."""
        owner, rows = int(group.owners[0]), group.values
        listed = np.flatnonzero(owner_of == owner)
        if rows.shape[1] != copy.shape[1]:
            raise InputError(
                f"structure_features must give the {rows.shape[1]} columns that clients share; found {copy.shape[1]}"
            )
        # Seeded by what is matched: clients that hold the same reach the same conclusion.
        result = self.match(rows, copy[listed], np.random.default_rng(owner)) if len(listed) else None
        if result is None:
            return None
        # Rows that are equal up to rounding are told apart by luck alone.
        scale = max(float(np.sqrt((rows**2).sum(axis=1).mean())), np.finfo(np.float64).tiny)
        _, kind, alike = np.unique(np.round(rows / scale, 6), axis=0, return_inverse=True, return_counts=True)
        names = np.where(result >= 0, listed[result], -1)
        return group.nodes, names, np.full(len(names), len(listed)), alike[kind.ravel()].astype(np.int64)

    def score(self, guess: _NamedNodes, truth: StructureTruth) -> tuple[Measurement, ...]:
        """The share of nodes whose first name, or one of the first five, is right."""
        return tuple(_share_named(f"top-{count}", guess, truth, count) for count in self.first)


DIGITS = 5
"""Decimal digits of sums of reciprocals that survive single precision."""


def _degree_hashes(values: Floats) -> NDArray[np.float64] | None:
    """What can be read off features [m, d] for certain of degrees, and of neighbours' degrees in sorted order.

    Returns:
        float64 [m, k], rows equal where these are equal; None for features that say neither.
    """
    sums = neighbour_sums(values)
    if sums is not None:
        columns = (sums.degrees, np.round(sums.reciprocals, DIGITS), np.round(np.nan_to_num(sums.squares), DIGITS - 1))
        return np.stack(columns, axis=1).astype(np.float64)
    # The place of the one in each row of zeros and ones, int64 [m]; None where rows are anything else.
    flags = ((values == 0) | (values == 1)).all() and (values.sum(axis=1) == 1).all()
    places = values.argmax(axis=1).astype(np.int64) if flags and values.shape[1] > 1 else None
    return None if places is None else places[:, None].astype(np.float64)


def by_degree(rows: Floats, table: Floats, rng: np.random.Generator) -> Ids | None:
    """Names inside buckets of equal degree and equal degrees of neighbours, as the features tell both."""
    hashes, listed = _degree_hashes(rows), _degree_hashes(table)
    if hashes is None or listed is None or hashes.shape[1] != listed.shape[1]:
        return None
    _, bucket = np.unique(np.concatenate([hashes, listed]), axis=0, return_inverse=True)
    own_buckets, listed_buckets = bucket.ravel()[: len(rows)], bucket.ravel()[len(rows) :]
    names = np.full((len(rows), 1), -1, dtype=np.int64)
    for item in np.intersect1d(own_buckets, listed_buckets).tolist():
        own_nodes, candidates = np.flatnonzero(own_buckets == item), np.flatnonzero(listed_buckets == item)
        names[own_nodes, 0] = candidates[nearest(rows[own_nodes], table[candidates], 1, rng)[:, 0]]
    return names


def _features_of_copy(crawled_graph: CrawledGraph) -> Floats | None:
    """The structure features of all listed nodes on the crawl, in single precision as clients share them."""
    if crawled_graph.structure_features is None:
        return None
    copy = np.asarray(crawled_graph.structure_features(crawled_graph.edges, crawled_graph.owners))
    if copy.ndim != 2 or len(copy) != len(crawled_graph.owners):
        raise InputError(
            f"structure_features must give one row for each of {len(crawled_graph.owners)} listed nodes; found shape "
            f"{list(copy.shape)}"
        )
    return comparable(copy.astype(np.float32).astype(np.float64))


ECCENTRICITY = 0.5
"""By how many standard deviations of the scores the best must lead the second best."""


def _eccentric_best(scores: sparse.csr_array) -> Ids:
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
        Role.SILO, DataSecret.IDENTITY, STRUCTURE, FEDSTRUCT_LOUVAIN, minimum=0.8,
        auxiliary=f"{CRAWL}; the names of its own nodes", truth=StructureTruth, knowledge=CrawledGraph,
    )  # fmt: skip

    def infer_with(self, view: View, public: PublicParameters, known: CrawledGraph) -> _NamedNeighbours | None:  # noqa: ARG002  # needs no parameter
        copy, owner_of = _features_of_copy(known), known.owners
        if copy is None:
            return None
        listed = _Crawl(undirected_adjacency(known.edges, len(owner_of)), copy, owner_of)
        edges, names, size = own_rows(view, OWN_EDGES), own_rows(view, OWN_NAMES), len(view.parties.ids(Role.DEVICE))
        result = [
            _at_client(client, feature, edges[client], names[client], listed, size)
            for client, feature in foreign_features(view).items()
            if client in edges and client in names
        ]
        if not sum(len(columns[0]) for columns in result):
            return None
        observers, nodes, guessed_names, unaided = (np.concatenate(column) for column in zip(*result, strict=True))
        return _NamedNeighbours(observers, nodes, guessed_names, unaided, known.rate)

    def guess_without(self, guess: _NamedNeighbours, known: CrawledGraph, parties: Directory) -> _NamedNeighbours:  # noqa: ARG002  # found beside the other
        """Names by own edges and the crawl, which are there before any message."""
        return replace(guess, names=guess.unaided)

    def score(self, guess: _NamedNeighbours, truth: StructureTruth) -> tuple[Measurement, ...]:
        right, before = (
            np.where(names >= 0, truth.identity[names], -1) == guess.nodes for names in (guess.names, guess.unaided)
        )
        text = (
            f"external neighbours are named right from a copy with {_edges_of(guess.rate)}, {int(before.sum()):,} of "
            "them by own edges alone."
        )
        random = 1 / max(len(truth.identity), 1)
        return (share_right("neighbours named", right, guess.nodes, text, random=random, prior=random),)


@dataclass(frozen=True, slots=True, eq=False)
class _Crawl:
    """The crawl, 0/1 [k, k], its structure features [k, d], and the client of each listed node, int64 [k]."""

    adjacency: sparse.csr_array
    features: Floats
    owner_of: Ids


def _at_client(
    client: int, features: HeldFeatures, edges: Ids, own_names: Ids, listed: _Crawl, size: int
) -> tuple[Ids, ...]:
    """Observers, nodes, names and unaided names of the external neighbours whose features are held, int64 [m] each."""
    abroad, first = np.unique(edges[:, 1], return_index=True)
    external = np.flatnonzero(np.isin(abroad, features.nodes) & ~np.isin(abroad, own_names[:, 0]))
    nodes, owners = abroad[external], edges[first[external], 2]
    mapping = np.full(size, -1, dtype=np.int64)
    mapping[own_names[:, 0]] = own_names[:, 1]
    # How many matched neighbours every pair of nodes has in common: float64 [n, k], sparse.
    left = undirected_adjacency(edges[:, :2].T, size)
    right = listed.adjacency
    known = np.flatnonzero(mapping >= 0)
    ends = (known, mapping[known])
    matched = sparse.csr_array((np.ones(len(known)), ends), shape=(left.shape[0], right.shape[0]))
    every = sparse.csr_array(left.astype(np.float64) @ matched @ right.astype(np.float64))[nodes]
    pairs = sparse.csr_array(every).tocoo()
    same = owners[pairs.row] == listed.owner_of[pairs.col]  # nodes of different clients can't be the same
    common = sparse.csr_array((pairs.data[same], (pairs.row[same], pairs.col[same])), shape=pairs.shape)
    degree = np.maximum(np.asarray(listed.adjacency.sum(axis=1), dtype=np.float64), 1)
    scores = sparse.csr_array(common @ sparse.diags_array(1 / np.sqrt(degree)))
    values = comparable(features.values)[np.searchsorted(features.nodes, nodes)]
    unaided, names = _eccentric_best(scores), np.full(len(nodes), -1, dtype=np.int64)
    for row in range(len(nodes)):
        rng = np.random.default_rng([client, int(nodes[row])])  # ties fall alike whatever else is known
        candidates = rng.permutation(_candidates(common, row, np.flatnonzero(listed.owner_of == owners[row])))
        if len(candidates):
            names[row] = candidates[_squared_distances(values[[row]], listed.features[candidates])[0].argmin()]
            unaided[row] = candidates[0] if unaided[row] < 0 else unaided[row]
    return np.full(len(nodes), client), nodes, names, unaided


def _candidates(common: sparse.csr_array, row: int, otherwise: Ids) -> Ids:
    """The columns of most common neighbours in a row; all of the client where the crawl lost the edges that tell."""
    inside = slice(common.indptr[row], common.indptr[row + 1])
    values = common.data[inside]
    if not len(values):
        return otherwise
    return np.asarray(common.indices[inside][values == values.max()], dtype=np.int64)


def _card(name: str, summary: str) -> Card:
    return Card(
        name, summary, "on FedStruct (ICLR 2025) App. G.1, with a crawl as Narayanan and Shmatikov (2009) assume it",
        Role.SILO, DataSecret.IDENTITY, STRUCTURE, FEDSTRUCT_LOUVAIN, minimum=0.9, auxiliary=CRAWL,
        truth=StructureTruth, knowledge=CrawledGraph,
        tells_nothing="a list of names doesn't say which of a client's nodes has which",
    )  # fmt: skip


ATTACKS: tuple[Attack[Any, Any], ...] = (
    _Matching(
        _card("nsf-nearest", "a client names a foreign node after the listed one with the nearest structure features"),
        lambda rows, table, rng: nearest(rows, table, CANDIDATES, rng), (1, CANDIDATES),
    ),
    _Matching(
        _card("nsf-assignment", "a client names all nodes of another one at once, at the least total distance"),
        lambda rows, table, rng: one_to_one(rows, table, rng)[:, None],
    ),
    _Matching(
        _card("nsf-degree-hashing",
              "a client names a foreign node after a listed one of equal degree and surroundings"),
        by_degree,
    ),
    _NsfPropagation(),
)  # fmt: skip
