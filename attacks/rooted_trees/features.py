"""Feature rows that a sum over one neighbour tells, and how rows of single nodes are scored.

A sum over one neighbour is that neighbour's feature row.

f_i^1 of a node with one neighbour at other clients is x of that neighbour, whatever scheme computed it (Fed2GNN,
section 4.2). In plaintext each passive client's part arrives by itself, and one neighbour *at that client* is enough.

Feature rows and edges from differences of hop sums.

Subtracting sums over neighbours from each other, until single nodes' features are left.

Sums for two nodes of a client whose neighbours elsewhere differ in one node differ in that node's row; in general the
first hop's sums are equations with the client's own edges as coefficients, and what their row space determines is read.
A party that knows the public topology has the later hops as equations about the same rows: mu_m^{k-1} is a sum of
feature rows with numbers of walks as coefficients (Fed2GNN, Protocol 1), and the client's own rows can be taken out.

Which edges between other clients' nodes the second hop tells: those whose ends' features the first has given away.

Of a neighbour m whose row the first hop's sums determine, the second hop's sums determine mu_m^1, the sum over all of
m's neighbours (Fed2GNN, Protocol 1). With the client's own nodes taken out, what remains is a sum of feature rows of
other clients' nodes; where these are known too, it names them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fgl_secure.attacks.base import Attack, Card, DataSecret, InformedAttack, Measurement
from fgl_secure.attacks.edge_claims import (
    ForeignEdges,
    edges_of_known_surroundings,
    explained_edges,
    score_foreign_edges,
)
from fgl_secure.attacks.rooted_trees.knowledge import (
    FED2GNN,
    HOP_SUMS,
    ClientSums,
    HopRules,
    PublicTopology,
    client_sums,
)
from fgl_secure.attacks.row_space import DeterminedRows, Equations, SolvedRows, exact_rows, solve
from fgl_secure.attacks.truth import TreeTruth, crosses_silos
from fgl_secure.runtime import Circumstance, PublicParameters, Role, Step, View
from fgl_secure.statistics.metrics import clustered_proportion, exact_proportion
from fgl_secure.typing import Floats, Ids

CLOSE = 1e-3
"""Up to this relative distance a row counts as read; rows that rounding may move further are not claimed."""


def _sure(values: Floats, error: Floats) -> NDArray[np.bool_]:
    """Bool [k]: the rows [k, d] that an error [k] of each coordinate leaves close."""
    return np.asarray(error * np.sqrt(values.shape[1]) <= CLOSE * np.linalg.norm(values, axis=1))


def _right_rows(nodes: Ids, values: Floats, truth: TreeTruth) -> tuple[NDArray[np.bool_], float]:
    """Which claimed rows are right, bool [k], and for which share the most frequent row would be."""
    right, common = exact_rows(nodes, values, truth.features[nodes].astype(np.float64), CLOSE)
    return right, float(common.mean()) if len(common) else 0.0


def _exact_rows(right: NDArray[np.bool_], nodes: Ids, prior: float, finding: str) -> Measurement:
    """The share of claimed rows that are right; the interval resamples nodes, of which several clients may speak."""
    share = clustered_proportion(right, nodes, seed=0)
    return Measurement.of_share("exact recovery", share, finding, prior=prior)


@dataclass(frozen=True, slots=True, eq=False)
class _SingleNeighbourRows:
    """Sums that clients take for one neighbour's row."""

    targets: Ids  # int64 [k], the own node that each sum is for
    nodes: Ids  # int64 [k], the neighbour
    values: Floats  # float64 [k, d], its row


class _HopFeatureSingle(Attack[_SingleNeighbourRows, TreeTruth]):
    """A client takes each sum of the first hop that is over one node for that node's row."""

    card = Card(
        "hop-feature-single",
        "a client reads the features of a neighbour that is alone in a sum",
        "on Fed2GNN 4.2: passive clients send sums over a node's neighbours, however few these are",
        Role.SILO, DataSecret.NODE_FEATURES, HOP_SUMS, FED2GNN, Circumstance.SINGLE_NEIGHBOUR, truth=TreeTruth,
    )  # fmt: skip

    def infer(self, view: View, public: PublicParameters) -> _SingleNeighbourRows | None:
        result = [(sums, np.flatnonzero(sums.single)) for sums in client_sums(view, public)]
        if not result:
            return None
        targets = [sums.nodes[index] for sums, index in result]
        nodes = [sums.members[index].indices.astype(np.int64) for sums, index in result]
        values = [sums.values[0][index] for sums, index in result]
        return _SingleNeighbourRows(*(np.concatenate(parts) for parts in (targets, nodes, values)))

    def score(self, guess: _SingleNeighbourRows, truth: TreeTruth) -> tuple[Measurement, ...]:
        right, prior = _right_rows(guess.nodes, guess.values, truth)
        total, apart = single_neighbours(truth)
        crossing = np.unique(truth.edges[1][crosses_silos(truth)])
        exposed = np.isin(crossing, guess.targets[right])
        finding = (
            f"{int(right.sum()):,} of {len(right):,} sums taken for one neighbour's features are exactly that; "
            f"{int(exposed.sum()):,} of {len(crossing):,} nodes with neighbours at other clients expose one so."
        )
        kinds = (("nodes with one neighbour elsewhere", total), ("nodes with one at a client", apart))
        shares = [
            Measurement.of_share(
                name, exact_proportion(int((exposed & where[crossing]).sum()), len(crossing)), finding,
                reachable=float(where[crossing].mean()), context=True,
            )
            for name, where in kinds
            if len(crossing)
        ]  # fmt: skip
        return (_exact_rows(right, guess.nodes, prior, finding), *shares) if len(right) else tuple(shares)


def single_neighbours(truth: TreeTruth) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which nodes have exactly one neighbour at all other clients together, and at some one of them: bool [n] each."""
    pairs = np.unique(truth.edges[:, crosses_silos(truth)], axis=1)
    n, silos = len(truth.silo_of), int(truth.silo_of.max()) + 1
    counts = np.bincount(pairs[1] * silos + truth.silo_of[pairs[0]], minlength=n * silos).reshape(n, silos)
    return counts.sum(axis=1) == 1, (counts == 1).any(axis=1)


MOST_HOPS = 3
"""Hops whose sums are solved together at most; later ones say little that is new, and their equations are dense."""


class _HopFeatureDifferencing(Attack[SolvedRows, TreeTruth]):
    """A client solves its sums of the first hop by what it knows of its own nodes' edges."""

    card = Card(
        "hop-feature-differencing",
        "a client subtracts overlapping sums of the first hop for the features of single neighbours",
        "on Fed2GNN 4.2: exact sums over overlapping sets of known neighbours",
        Role.SILO, DataSecret.NODE_FEATURES, HOP_SUMS, FED2GNN, Circumstance.REPEATED_SUM, minimum=0.9, truth=TreeTruth,
    )  # fmt: skip

    def infer(self, view: View, public: PublicParameters) -> SolvedRows | None:
        return _claims([(sums, solve(_first_hop(sums))) for sums in client_sums(view, public)])

    def score(self, guess: SolvedRows, truth: TreeTruth) -> tuple[Measurement, ...]:
        return _score_rows(guess, truth, "by subtracting sums of the first hop")


class _HopFeatureTopology(InformedAttack[SolvedRows, PublicTopology, TreeTruth]):
    """A client that knows all edges solves the sums of all hops together."""

    card = Card(
        "hop-feature-topology",
        "a client that knows the graph solves the sums of several hops for the features of single nodes",
        "on Fed2GNN 4.2: later hops are sums of the same features, over walks that the graph tells",
        Role.SILO, DataSecret.NODE_FEATURES, HOP_SUMS, FED2GNN, Circumstance.REPEATED_SUM, minimum=0.9,
        auxiliary="all edges and whose node is whose", truth=TreeTruth, knowledge=PublicTopology,
        tells_nothing="edges say nothing of feature rows",
    )  # fmt: skip

    def infer_with(self, view: View, public: PublicParameters, known: PublicTopology) -> SolvedRows | None:
        received = _Senders.of(known.edges, known.owners, known.rules)
        return _claims([(sums, solve(_all_hops(sums, received))) for sums in client_sums(view, public)])

    def score(self, guess: SolvedRows, truth: TreeTruth) -> tuple[Measurement, ...]:
        return _score_rows(guess, truth, "by solving the sums of several hops")


def _first_hop(sums: ClientSums) -> Equations:
    """A client's sums of the first hop as equations about the nodes of others."""
    return Equations(sums.members, sums.values[0], sums.unit * np.diff(sums.members.indptr).astype(np.float64))


@dataclass(frozen=True, slots=True, eq=False)
class _Senders:
    """Who hears of whom, as far as public knowledge goes."""

    adjacency: sparse.csr_array  # 0/1 float64 CSR [n, n], row i the nodes whose rows enter mu_i^1
    unsure: NDArray[np.bool_]  # bool [n], nodes of which it is not known whom they asked about

    @classmethod
    def of(cls, edges: Ids, owners: Ids, rules: HopRules) -> _Senders:
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
        mask = ~cross | ~refused[target]
        ends = (target[mask], source[mask])
        return cls(sparse.csr_array((np.ones(len(ends[0])), ends), shape=(n, n)), unsure)

    def knowing(self, sums: ClientSums) -> _Senders:
        """The same with what a client knows of its own nodes: whom it asked about."""
        owned = sums.client.owned
        inside = sums.client.neighbours @ sparse.diags_array(owned.astype(np.float64))
        others = sparse.diags_array((~owned).astype(np.float64)) @ self.adjacency
        adjacency = sparse.csr_array(inside + sums.asked + others)
        adjacency.eliminate_zeros()
        return _Senders(adjacency, self.unsure & ~owned)


def _all_hops(sums: ClientSums, received: _Senders) -> Equations:
    """A client's sums of up to `MOST_HOPS` hops as equations about the nodes of others."""
    received = received.knowing(sums)
    n, owned = len(sums.client.owned), np.flatnonzero(sums.client.owned)
    in_turn = sums.members.multiply(sparse.csr_array(received.adjacency.T)[sums.nodes])
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
        walks.append(_next_walks(received.adjacency, walks))
        unsure = np.asarray(received.unsure | (received.adjacency @ unsure.astype(np.float64) > 0))
    return Equations.stack(parts)


def _next_walks(adjacency: sparse.csr_array, walks: list[sparse.csr_array]) -> sparse.csr_array:
    """mu^k in terms of features, from those of all hops before: walks that do not turn straight back."""
    further = sparse.csr_array(adjacency @ walks[-1])
    if len(walks) < 2:
        return further
    returning = np.asarray(adjacency.multiply(sparse.csr_array(adjacency.T)).sum(axis=1), dtype=np.float64).ravel()
    back = returning - (len(walks) > 2)  # from the third hop on the way back to the second last node is not there
    return sparse.csr_array(further - sparse.diags_array(back) @ walks[-2])


def _claims(result: list[tuple[ClientSums, DeterminedRows]]) -> SolvedRows | None:
    """Of every client the rows beyond those that are alone in a sum of the first hop."""
    if not result:
        return None
    parts = []
    for sums, solved in result:
        new = ~np.isin(solved.nodes, sums.alone)
        nodes, values, index = solved.nodes[new], solved.values[new], sums.client.index
        sure = _sure(values, solved.error[new])
        numbers = (index, index, len(sums.nodes), len(np.union1d(sums.foreign_nodes, nodes)), len(nodes))
        parts.append((numbers, nodes[sure], values[sure]))
    return SolvedRows.of_all(Step(0), parts)


def _score_rows(guess: SolvedRows, truth: TreeTruth, reading: str) -> tuple[Measurement, ...]:
    """How many rows are right, and how many of the nodes that sums are about are read, in words as `reading` says."""
    right, prior = _right_rows(guess.nodes, guess.values, truth)
    finding = (
        f"{int(right.sum()):,} of {len(right):,} feature rows are read exactly {reading}, of "
        f"{int(guess.touched.sum()):,} nodes of other clients that {len(guess.askers)} clients, each alone, get sums "
        "over."
    )
    share = guess.share_of_nodes(right, finding)
    return (_exact_rows(right, guess.nodes, prior, finding), share) if len(right) else (share,)


class _HopFeatureEdges(Attack[ForeignEdges, TreeTruth]):
    """A client explains the surroundings of nodes that it reads by other nodes that it reads."""

    card = Card(
        "hop-feature-edges",
        "a client explains the second hop's sums by the feature rows that the first hop gave away",
        "on Fed2GNN 4.2: the second hop sums whole neighbourhoods of known nodes",
        Role.SILO, DataSecret.FOREIGN_EDGE, HOP_SUMS, FED2GNN, truth=TreeTruth,
    )  # fmt: skip

    def infer(self, view: View, public: PublicParameters) -> ForeignEdges | None:
        systems = [sums for sums in client_sums(view, public) if len(sums.values) > 1]
        return ForeignEdges.of_all([_explain_sums(sums) for sums in systems]) if systems else None

    def score(self, guess: ForeignEdges, truth: TreeTruth) -> tuple[Measurement, ...]:
        return score_foreign_edges(guess, truth, edges_of_known_surroundings(truth))


def _explain_sums(sums: ClientSums) -> ForeignEdges:
    """Claims the neighbours of each known node whose surroundings have one explanation by at most two known rows."""
    known = solve(_first_hop(sums))
    good = _sure(known.values, known.error)
    known = DeterminedRows(known.nodes[good], known.values[good], known.error[good])
    first, terms = _first_hop(sums), sums.members.sum(axis=1)
    # The second hop has the same coefficients; rounding of a sum that was itself summed adds as much for each term.
    rounding = sums.unit * terms * len(sums.client.owned) ** 0.5
    around = solve(Equations(first.matrix, sums.values[1], first.error + rounding))
    index = np.searchsorted(around.nodes, known.nodes)
    inside = sums.client.neighbours[:, known.nodes].T @ sums.own
    # a node that is refused its sum over other clients' nodes counts none of them
    changes = np.stack([around.values[index] - inside, around.values[index]])
    return explained_edges(sums.client, known, known.values, changes, np.zeros_like(known.values), around.error[index])


ATTACKS: tuple[Attack[Any, Any], ...] = (
    _HopFeatureSingle(),
    _HopFeatureDifferencing(),
    _HopFeatureTopology(),
    _HopFeatureEdges(),
)
