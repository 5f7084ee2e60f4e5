"""Naming external neighbours from the own nodes outward, with structure features where the graph leaves a choice.

Naming external neighbours from the own nodes outward, with structure features where the graph leaves a choice.

A client knows its own nodes by name, and which pseudonyms abroad are their neighbours: seeds for de-anonymising the
rest (Narayanan and Shmatikov, IEEE S&P 2009).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fgl_secure.attacks.base import Card, InformedAttack, Measurement
from fgl_secure.attacks.neighbourhoods import undirected
from fgl_secure.attacks.structure.knowledge import FEDSTRUCT_LOUVAIN, STRUCTURE, CrawledGraph
from fgl_secure.attacks.structure.nsf_identity import CRAWL, comparable, features_of_copy, squared_distances
from fgl_secure.attacks.structure.nsf_views import OWN_EDGES, OWN_NAMES, HeldFeatures, foreign_features, own_rows
from fgl_secure.attacks.structure.truth import StructureTruth
from fgl_secure.runtime import Directory, PublicParameters, Role, Secret, View
from fgl_secure.statistics.metrics import clustered_proportion

Floats = NDArray[np.float64]

Ids = NDArray[np.int64]

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


def over_root_degree(scores: sparse.csr_array, right: sparse.csr_array) -> sparse.csr_array:
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
class NamedNeighbours:
    """Whom clients take their external neighbours for.

    Attributes:
        observers: int64 [k], party identifiers of the clients.
        nodes: int64 [k], device indices.
        names: int64 [k], indices in the list that the crawl goes by; -1 for none.
        unaided: int64 [k], the same without structure features: what own edges and the crawl tell by themselves.
        rate: the share of the edges that the crawl has.
    """

    observers: Ids
    nodes: Ids
    names: Ids
    unaided: Ids
    rate: float


class NsfPropagation(InformedAttack[NamedNeighbours, CrawledGraph, StructureTruth]):
    """Among the listed nodes with most common neighbours with an external one, that with the nearest features."""

    card = Card(
        "nsf-propagation",
        "a client names its external neighbours: by common own neighbours, then by the nearest structure features",
        "on FedStruct (ICLR 2025) App. G.1, seeded as by Narayanan and Shmatikov (2009)",
        Role.SILO, Secret.IDENTITY, STRUCTURE, FEDSTRUCT_LOUVAIN, minimum=0.8,
        auxiliary=f"{CRAWL}; the names of its own nodes", truth=StructureTruth, knowledge=CrawledGraph,
    )  # fmt: skip

    def infer_with(self, view: View, public: PublicParameters, known: CrawledGraph) -> NamedNeighbours | None:  # noqa: ARG002  # needs no parameter
        """Names every external neighbour whose features are known, at every client alone."""
        copy, owner_of = features_of_copy(known), known.owners
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
        return NamedNeighbours(observers, nodes, named, unaided, known.rate)

    def guess_without(self, guess: NamedNeighbours, known: CrawledGraph, parties: Directory) -> NamedNeighbours:  # noqa: ARG002  # found beside the other
        """Names by own edges and the crawl, which are there before any message."""
        return replace(guess, names=guess.unaided)

    def score(self, guess: NamedNeighbours, truth: StructureTruth) -> tuple[Measurement, ...]:
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
    scores = over_root_degree(common, listed.adjacency)
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
