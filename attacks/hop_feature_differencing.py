"""Subtracting sums over neighbours from each other, until single nodes' features are left.

Sums for two nodes of a client whose neighbours elsewhere differ in one node differ in that node's row; in general the
first hop's sums are equations with the client's own edges as coefficients, and what their row space determines is read.
Whoever knows the public topology has the later hops as equations about the same rows: mu_m^{k-1} is a sum of feature
rows with numbers of walks as coefficients (Fed2GNN, Protocol 1), and the client's own rows can be taken out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fgl_secure.attacks.base import Attack, Auxiliary, Card, InformedAttack, Material, Measurement, Reference
from fgl_secure.attacks.hop_feature_rows import FeatureRows, score_feature_rows, sure
from fgl_secure.attacks.hop_feature_rules import HopRules
from fgl_secure.attacks.hop_feature_system import Determined, Equations, determined
from fgl_secure.attacks.hop_feature_views import ClientSums, client_sums
from fgl_secure.attacks.truth import Truth
from fgl_secure.runtime import Circumstance, PublicParameters, Role, Secret, View

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]

MOST_HOPS = 3
"""Hops whose sums are solved together at most; later ones say little that is new, and their equations are dense."""


class HopFeatureDifferencing(Attack[FeatureRows]):
    """A client solves its sums of the first hop by what it knows of its own nodes' edges."""

    @property
    def card(self) -> Card:
        """Every client alone."""
        return Card(
            "hop-feature-differencing",
            "a client subtracts overlapping sums of the first hop for the features of single neighbours",
            "on Fed2GNN 4.2: exact sums over overlapping sets of known neighbours",
            Role.SILO,
            Secret.NODE_FEATURES,
            Material.HOP_SUMS,
            Reference.FED2GNN,
            Circumstance.REPEATED_SUM,
            minimum=0.9,
        )

    def infer(self, view: View, public: PublicParameters) -> FeatureRows | None:
        """Reads what the first hop determines beyond neighbours that are alone in a sum."""
        found = [(sums, determined(first_hop(sums))) for sums in client_sums(view, public)]
        return _claims(found)

    def score(self, guess: FeatureRows, truth: Truth) -> tuple[Measurement, ...]:
        """How many rows are right, and how many of the nodes in reach are read, see `score_feature_rows`."""
        return score_feature_rows(guess, truth, "by subtracting sums of the first hop")


class HopFeatureTopology(InformedAttack[FeatureRows]):
    """A client that knows all edges solves the sums of all hops together."""

    @property
    def card(self) -> Card:
        """Every client alone."""
        return Card(
            "hop-feature-topology",
            "a client that knows the graph solves the sums of several hops for the features of single nodes",
            "on Fed2GNN 4.2: later hops are sums of the same features, over walks that the graph tells",
            Role.SILO,
            Secret.NODE_FEATURES,
            Material.HOP_SUMS,
            Reference.FED2GNN,
            Circumstance.REPEATED_SUM,
            minimum=0.9,
            auxiliary="all edges and whose node is whose",
        )

    def infer_with(self, view: View, public: PublicParameters, auxiliary: Auxiliary) -> FeatureRows | None:
        """Reads what the first hops determine beyond neighbours that are alone in a sum of the first."""
        crawl, owners, rules = auxiliary.crawl, auxiliary.crawl_owner, auxiliary.hop_public
        if crawl is None or owners is None or rules is None:
            return None
        heard = Heard.of(crawl, owners, rules)
        return _claims([(sums, determined(all_hops(sums, heard))) for sums in client_sums(view, public)])

    def score(self, guess: FeatureRows, truth: Truth) -> tuple[Measurement, ...]:
        """How many rows are right, and how many of the nodes in reach are read, see `score_feature_rows`."""
        return score_feature_rows(guess, truth, "by solving the sums of several hops")


def first_hop(sums: ClientSums) -> Equations:
    """A client's sums of the first hop as equations about the nodes of others."""
    return Equations(sums.members, sums.values[0], sums.unit * np.diff(sums.members.indptr).astype(np.float64))


@dataclass(frozen=True, slots=True, eq=False)
class Heard:
    """Who hears of whom, as far as public knowledge goes.

    Attributes:
        adjacency: 0/1 float64 CSR [n, n], row i the nodes whose rows enter mu_i^1.
        unsure: bool [n], nodes of which it is not known whom they asked about.
    """

    adjacency: sparse.csr_array
    unsure: NDArray[np.bool_]

    @classmethod
    def of(cls, edges: Ids, owners: Ids, rules: HopRules) -> Heard:
        """From edges int64 [2, m], both directions of each, and the client of each node int64 [n]."""
        n = len(owners)
        source, target = np.unique(edges[:, edges[0] != edges[1]], axis=1)
        cross = owners[source] != owners[target]
        pairs = np.unique(np.stack([target[cross], owners[source[cross]]]), axis=1)
        refused = np.bincount(pairs[0], minlength=n) < rules.minimum
        most = n if rules.neighbours is None else rules.neighbours
        over = np.bincount(target[cross], minlength=n) > most
        unsure = over.copy()
        unsure[target[cross][over[source[cross]]]] = True  # an edge goes unless both its ends draw it
        kept = ~cross | ~refused[target]
        ends = (target[kept], source[kept])
        return cls(sparse.csr_array((np.ones(len(ends[0])), ends), shape=(n, n)), unsure)

    def knowing(self, sums: ClientSums) -> Heard:
        """The same with what a client knows of its own nodes: whom it asked about."""
        owned = sums.client.owned
        inside = sums.client.neighbours @ sparse.diags_array(owned.astype(np.float64))
        others = sparse.diags_array((~owned).astype(np.float64)) @ self.adjacency
        adjacency = sparse.csr_array(inside + sums.asked + others)
        adjacency.eliminate_zeros()
        return Heard(adjacency, self.unsure & ~owned)


def all_hops(sums: ClientSums, heard: Heard) -> Equations:
    """A client's sums of up to `MOST_HOPS` hops as equations about the nodes of others."""
    heard = heard.knowing(sums)
    n, owned = len(sums.client.owned), np.flatnonzero(sums.client.owned)
    in_turn = sums.members.multiply(sparse.csr_array(heard.adjacency.T)[sums.nodes])
    one_sided = sparse.csr_array(sums.members - in_turn)
    walks, unsure = [sparse.csr_array(sparse.eye_array(n))], np.zeros(n, dtype=np.bool_)
    parts = []
    for hop in range(min(len(sums.values), MOST_HOPS)):
        matrix = sparse.csr_array(sums.members @ walks[hop])
        if hop > 1:  # the passive client takes out what could not be taken out of a sum that was refused
            matrix = sparse.csr_array(matrix - one_sided @ walks[hop - 2])
        usable = np.flatnonzero(sums.members @ unsure.astype(np.float64) == 0)
        terms = sums.unit * np.asarray(abs(matrix).sum(axis=1)).ravel()
        every = Equations(matrix[usable], sums.values[hop][usable], terms[usable])
        parts.append(every.without(owned, sums.own[owned], np.zeros(len(owned))))
        walks.append(_next_walks(heard.adjacency, walks))
        unsure = np.asarray(heard.unsure | (heard.adjacency @ unsure.astype(np.float64) > 0))
    return Equations.stacked(parts)


def _next_walks(adjacency: sparse.csr_array, walks: list[sparse.csr_array]) -> sparse.csr_array:
    """mu^k in terms of features, from those of all hops before: walks that do not turn straight back."""
    further = sparse.csr_array(adjacency @ walks[-1])
    if len(walks) < 2:
        return further
    returning = np.asarray(adjacency.multiply(sparse.csr_array(adjacency.T)).sum(axis=1), dtype=np.float64).ravel()
    back = returning - (len(walks) > 2)  # from the third hop on the way back to the second last node is not there
    return sparse.csr_array(further - sparse.diags_array(back) @ walks[-2])


def _claims(found: list[tuple[ClientSums, Determined]]) -> FeatureRows | None:
    """Of every client the rows beyond those that are alone in a sum of the first hop."""
    if not found:
        return None
    parts = []
    for sums, solved in found:
        new = ~np.isin(solved.nodes, sums.alone)
        nodes, values = solved.nodes[new], solved.values[new]
        kept = sure(values, solved.error[new])
        touched = len(np.union1d(sums.touched, nodes))
        parts.append((sums.client.index, nodes[kept], values[kept], touched, len(nodes)))
    return FeatureRows.of_all(parts)
