"""Which foreign node is which: structure features against the same features of a noisy copy of the graph.

Whoever has crawled the graph, or part of it, computes on the copy what clients compute, and looks for equal rows.
FedStruct (ICLR 2025, App. G.1) names the danger without a figure.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.base import Auxiliary, Card, InformedAttack, Material, Measurement, Reference
from fgl_secure.attacks.named_nodes import MatchedGroup, NamedNodes, gathered, share_named
from fgl_secure.attacks.nsf_matching import comparable, equal_rows, nearest, one_to_one
from fgl_secure.attacks.nsf_views import HeldFeatures, foreign_features
from fgl_secure.attacks.nsf_walks import degree_hashes
from fgl_secure.attacks.truth import Truth
from fgl_secure.errors import InputError
from fgl_secure.runtime import PublicParameters, Role, Secret, View

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]

CRAWL = "a noisy copy of the graph under true names, who belongs to which client, and the rule of the features"
CANDIDATES = 5
"""Names that are listed for each node, the likeliest first."""


class _Matching(InformedAttack[NamedNodes]):
    """What all ways of matching one client's nodes with the listed nodes of that client share."""

    def infer_with(self, view: View, public: PublicParameters, auxiliary: Auxiliary) -> NamedNodes | None:  # noqa: ARG002  # needs no parameter
        """Matches each foreign client's nodes at every client alone."""
        copy = features_of_copy(auxiliary)
        if copy is None or auxiliary.crawl_owner is None:
            return None
        same: dict[tuple[int, bytes, bytes], MatchedGroup | None] = {}  # what clients hold alike is matched once
        found = []
        for client, held in foreign_features(view).items():
            for group in by_owner(held):
                key = int(group.owners[0]), group.nodes.tobytes(), group.values.tobytes()
                if key not in same:
                    same[key] = self._among(group, copy, auxiliary.crawl_owner)
                found.append((client, same[key]))
        return gathered([(client, match) for client, match in found if match is not None], auxiliary.crawl_rate)

    def _among(self, group: HeldFeatures, copy: Floats, owner_of: Ids) -> MatchedGroup | None:
        listed = np.flatnonzero(owner_of == group.owners[0])
        _check_width(group.values, copy)
        if not len(listed):
            return None
        # Seeded by what is matched: clients that hold the same reach the same conclusion.
        found = self._match(group.values, copy[listed], np.random.default_rng(int(group.owners[0])))
        if found is None:
            return None
        names = np.where(found >= 0, listed[found], -1)
        return MatchedGroup(group.nodes, names, np.full(len(names), len(listed)), equal_rows(group.values))

    @abstractmethod
    def _match(self, rows: Floats, table: Floats, rng: np.random.Generator) -> Ids | None:
        """int64 [m, r]: rows of the table for each row, the likeliest first; -1 for none."""

    def score(self, guess: NamedNodes, truth: Truth) -> tuple[Measurement, ...]:
        """The share of nodes whose first name is right."""
        return (share_named("top-1", guess, truth, 1),)


class NsfNearest(_Matching):
    """The listed node with the nearest features."""

    @property
    def card(self) -> Card:
        """Every client alone."""
        return _card(
            "nsf-nearest", "a client names a foreign node after the listed one with the nearest structure features"
        )

    def _match(self, rows: Floats, table: Floats, rng: np.random.Generator) -> Ids:
        return nearest(rows, table, CANDIDATES, rng)

    def score(self, guess: NamedNodes, truth: Truth) -> tuple[Measurement, ...]:
        """The share of nodes whose first name, or one of the first five, is right."""
        return share_named("top-1", guess, truth, 1), share_named("top-5", guess, truth, CANDIDATES)


class NsfAssignment(_Matching):
    """The assignment of names to nodes of least total distance."""

    @property
    def card(self) -> Card:
        """Every client alone."""
        return _card("nsf-assignment", "a client names all nodes of another one at once, at the least total distance")

    def _match(self, rows: Floats, table: Floats, rng: np.random.Generator) -> Ids:
        return one_to_one(rows, table, rng)[:, None]


class NsfDegreeHashing(_Matching):
    """Names inside buckets of equal degree and equal degrees of neighbours, as the features tell both."""

    @property
    def card(self) -> Card:
        """Every client alone."""
        return _card(
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


def features_of_copy(auxiliary: Auxiliary) -> Floats | None:
    """The structure features of all listed nodes on the crawl, in single precision as clients share them."""
    if auxiliary.crawl is None or auxiliary.crawl_owner is None or auxiliary.structure_features is None:
        return None
    copy = np.asarray(auxiliary.structure_features(auxiliary.crawl, auxiliary.crawl_owner))
    if copy.ndim != 2 or len(copy) != len(auxiliary.crawl_owner):
        raise InputError(
            f"structure_features must give one row for each of {len(auxiliary.crawl_owner)} listed nodes; found shape "
            f"{list(copy.shape)}"
        )
    return comparable(copy.astype(np.float32).astype(np.float64))


def by_owner(held: HeldFeatures) -> list[HeldFeatures]:
    """The nodes of each client that is known to own any, apart, with features as they are best compared."""
    there = replace(held, values=comparable(held.values))
    return [there.only(held.owners == owner) for owner in np.unique(held.owners[held.owners >= 0]).tolist()]


def _check_width(values: Floats, copy: Floats) -> None:
    if values.shape[1] != copy.shape[1]:
        raise InputError(
            f"structure_features must give the {values.shape[1]} columns that clients share; found {copy.shape[1]}"
        )


def _card(name: str, summary: str) -> Card:
    return Card(
        name,
        summary,
        "on FedStruct (ICLR 2025) App. G.1, with a crawl as Narayanan and Shmatikov (2009) assume it",
        Role.SILO,
        Secret.IDENTITY,
        Material.STRUCTURE,
        Reference.FEDSTRUCT_LOUVAIN,
        minimum=0.9,
        auxiliary=CRAWL,
    )
