"""Feature rows that a sum over one neighbour tells, and how rows of single nodes are scored.

A sum over one neighbour is that neighbour's feature row.

f_i^1 of a node with one neighbour at other clients is x of that neighbour, whatever scheme computed it (Fed2GNN,
section 4.2). In the clear each passive client's part arrives by itself, and one neighbour *at that client* is enough.

Feature rows and edges from differences of hop sums.

Subtracting sums over neighbours from each other, until single nodes' features are left.

Sums for two nodes of a client whose neighbours elsewhere differ in one node differ in that node's row; in general the
first hop's sums are equations with the client's own edges as coefficients, and what their row space determines is read.
Whoever knows the public topology has the later hops as equations about the same rows: mu_m^{k-1} is a sum of feature
rows with numbers of walks as coefficients (Fed2GNN, Protocol 1), and the client's own rows can be taken out.

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

from fgl_secure.attacks.base import Attack, Card, InformedAttack, Measurement
from fgl_secure.attacks.edge_claims import (
    MARGIN,
    ForeignEdges,
    edges_of_known_surroundings,
    explained_by,
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
from fgl_secure.attacks.row_space import Determined, Equations, determined
from fgl_secure.attacks.truth import TreeTruth, crosses_silos
from fgl_secure.runtime import Circumstance, PublicParameters, Role, Secret, View
from fgl_secure.statistics.metrics import clustered_proportion, exact_proportion
from fgl_secure.typing import Floats, Ids

CLOSE = 1e-3
"""Up to this relative distance a row counts as read; rows that rounding may move further are not claimed."""


@dataclass(frozen=True, slots=True, eq=False)
class _FeatureRows:
    """Rows that clients claim to have read."""

    clients: Ids  # int64 [k], index of the client that makes each claim
    nodes: Ids  # int64 [k], the node of another client that each row is said to belong to
    values: Floats  # float64 [k, d]
    observers: Ids  # int64 [p], the clients that had sums to read
    touched: Ids  # int64 [p], how many nodes of others these sums are about
    determined: Ids  # int64 [p], how many of these they determine beyond those that are alone in a sum

    @classmethod
    def of_all(cls, parts: list[tuple[int, Ids, Floats, int, int]]) -> _FeatureRows:
        """The claims of all clients side by side; at least one part.

        Args:
            parts: for each client its index, nodes [k], rows [k, d], and the numbers of touched and determined nodes.
        """
        clients = np.repeat([index for index, *_ in parts], [len(nodes) for _, nodes, *_ in parts]).astype(np.int64)
        nodes, values = (np.concatenate([part[column] for part in parts]) for column in (1, 2))
        counts = np.array([(index, touched, found) for index, _, _, touched, found in parts], dtype=np.int64)
        return cls(clients, nodes, values, *counts.T)


def _sure(values: Floats, error: Floats) -> NDArray[np.bool_]:
    """Bool [k]: the rows [k, d] that an error [k] of each coordinate leaves close."""
    return np.asarray(error * np.sqrt(values.shape[1]) <= CLOSE * np.linalg.norm(values, axis=1))


def _right_rows(nodes: Ids, values: Floats, truth: TreeTruth) -> tuple[NDArray[np.bool_], float]:
    """Which claimed rows are right, bool [k], and for which share the most frequent row would be.

    Where no two of the claimed nodes have the same row, none is frequent: nobody could guess it.
    """
    if not len(nodes):
        return np.zeros(0, dtype=np.bool_), 0.0
    secret = truth.features[nodes].astype(np.float64)
    off = np.linalg.norm(values - secret, axis=1)
    _, first = np.unique(nodes, return_index=True)
    rows, counts = np.unique(secret[first], axis=0, return_counts=True)
    common = float((secret == rows[counts.argmax()]).all(axis=1).mean()) if counts.max() > 1 else 0.0
    return np.asarray(off <= CLOSE * np.linalg.norm(secret, axis=1)), common


def _exact_rows(right: NDArray[np.bool_], nodes: Ids, prior: float, finding: str) -> Measurement:
    """The share of claimed rows that are right; the interval resamples nodes, of which several clients may speak."""
    share = clustered_proportion(right, nodes, seed=0)
    return Measurement.of_share("exact recovery", share, finding, prior=prior)


def _score_feature_rows(guess: _FeatureRows, truth: TreeTruth, reading: str) -> tuple[Measurement, ...]:
    """How many rows are right, and how many of the nodes that sums are about are read.

    Args:
        guess: the claims.
        truth: with the rows that were summed as features.
        reading: how they were read, in words.
    """
    right, prior = _right_rows(guess.nodes, guess.values, truth)
    total = int(guess.touched.sum())
    finding = (
        f"{int(right.sum()):,} of {len(right):,} feature rows are read exactly {reading}, of {total:,} nodes of other "
        f"clients that {len(guess.observers)} clients, each alone, get sums over."
    )
    share = _share_of_touched(guess, right, finding)
    return (_exact_rows(right, guess.nodes, prior, finding), share) if len(right) else (share,)


def _share_of_touched(guess: _FeatureRows, right: NDArray[np.bool_], finding: str) -> Measurement:
    """The size of the leak: each client counts each node that its sums are about once."""
    read = np.array([right[guess.clients == index].sum() for index in guess.observers.tolist()], dtype=np.int64)
    which = np.repeat(np.arange(len(read)), guess.touched)
    number = np.arange(len(which)) - np.repeat(np.cumsum(guess.touched) - guess.touched, guess.touched)
    share = clustered_proportion(number < read[which], guess.observers[which], seed=0)
    reach = int(guess.determined.sum()) / max(int(guess.touched.sum()), 1)
    return Measurement.of_share("nodes exposed", share, finding, reachable=reach, context=True)


@dataclass(frozen=True, slots=True, eq=False)
class _SingleRows:
    """Sums that clients take for one neighbour's row."""

    targets: Ids  # int64 [k], the own node that each sum is for
    nodes: Ids  # int64 [k], the neighbour
    values: Floats  # float64 [k, d], its row


class _HopFeatureSingle(Attack[_SingleRows, TreeTruth]):
    """A client takes each sum of the first hop that is over one node for that node's row."""

    card = Card(
        "hop-feature-single",
        "a client reads the features of a neighbour that is alone in a sum",
        "on Fed2GNN 4.2: passive clients send sums over a node's neighbours, however few these are",
        Role.SILO, Secret.NODE_FEATURES, HOP_SUMS, FED2GNN, Circumstance.SINGLE_NEIGHBOUR, truth=TreeTruth,
    )  # fmt: skip

    def infer(self, view: View, public: PublicParameters) -> _SingleRows | None:
        """Reads the sums of the first hop over one node."""
        found = [(sums, np.flatnonzero(sums.single)) for sums in client_sums(view, public)]
        if not found:
            return None
        targets = [sums.nodes[at] for sums, at in found]
        nodes = [sums.members[at].indices.astype(np.int64) for sums, at in found]
        values = [sums.values[0][at] for sums, at in found]
        return _SingleRows(*(np.concatenate(parts) for parts in (targets, nodes, values)))

    def score(self, guess: _SingleRows, truth: TreeTruth) -> tuple[Measurement, ...]:
        """How many rows are right, and of how many nodes a neighbour is read: see `single_neighbours`."""
        right, prior = _right_rows(guess.nodes, guess.values, truth)
        total, apart = single_neighbours(truth)
        crossing = np.unique(truth.edges[1][crosses_silos(truth)])
        exposed = np.isin(crossing, guess.targets[right])
        finding = (
            f"{int(right.sum()):,} of {len(right):,} sums taken for one neighbour's features are exactly that; "
            f"{int(exposed.sum()):,} of {len(crossing):,} nodes with neighbours at other clients expose one so."
        )
        shares = [
            _share(name, exposed & where[crossing], float(where[crossing].mean()) if len(crossing) else 0.0, finding)
            for name, where in (("nodes with one neighbour elsewhere", total), ("nodes with one at a client", apart))
            if len(crossing)
        ]
        return (_exact_rows(right, guess.nodes, prior, finding), *shares) if len(right) else tuple(shares)


def single_neighbours(truth: TreeTruth) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which nodes have exactly one neighbour at all other clients together, and at some one of them: bool [n] each."""
    pairs = np.unique(truth.edges[:, crosses_silos(truth)], axis=1)
    n, silos = len(truth.silo_of), int(truth.silo_of.max()) + 1
    counts = np.bincount(pairs[1] * silos + truth.silo_of[pairs[0]], minlength=n * silos).reshape(n, silos)
    return counts.sum(axis=1) == 1, (counts == 1).any(axis=1)


def _share(metric: str, read: NDArray[np.bool_], reach: float, finding: str) -> Measurement:
    share = exact_proportion(int(read.sum()), len(read))
    return Measurement.of_share(metric, share, finding, reachable=reach, context=True)


MOST_HOPS = 3
"""Hops whose sums are solved together at most; later ones say little that is new, and their equations are dense."""


class _HopFeatureDifferencing(Attack[_FeatureRows, TreeTruth]):
    """A client solves its sums of the first hop by what it knows of its own nodes' edges."""

    card = Card(
        "hop-feature-differencing",
        "a client subtracts overlapping sums of the first hop for the features of single neighbours",
        "on Fed2GNN 4.2: exact sums over overlapping sets of known neighbours",
        Role.SILO, Secret.NODE_FEATURES, HOP_SUMS, FED2GNN, Circumstance.REPEATED_SUM, minimum=0.9, truth=TreeTruth,
    )  # fmt: skip

    def infer(self, view: View, public: PublicParameters) -> _FeatureRows | None:
        """Reads what the first hop determines beyond neighbours that are alone in a sum."""
        found = [(sums, determined(_first_hop(sums))) for sums in client_sums(view, public)]
        return _claims(found)

    def score(self, guess: _FeatureRows, truth: TreeTruth) -> tuple[Measurement, ...]:
        """How many rows are right, and how many of the nodes in reach are read, see `_score_feature_rows`."""
        return _score_feature_rows(guess, truth, "by subtracting sums of the first hop")


class _HopFeatureTopology(InformedAttack[_FeatureRows, PublicTopology, TreeTruth]):
    """A client that knows all edges solves the sums of all hops together."""

    card = Card(
        "hop-feature-topology",
        "a client that knows the graph solves the sums of several hops for the features of single nodes",
        "on Fed2GNN 4.2: later hops are sums of the same features, over walks that the graph tells",
        Role.SILO, Secret.NODE_FEATURES, HOP_SUMS, FED2GNN, Circumstance.REPEATED_SUM, minimum=0.9,
        auxiliary="all edges and whose node is whose", truth=TreeTruth, knowledge=PublicTopology,
        tells_nothing="edges say nothing of feature rows",
    )  # fmt: skip

    def infer_with(self, view: View, public: PublicParameters, known: PublicTopology) -> _FeatureRows | None:
        """Reads what the first hops determine beyond neighbours that are alone in a sum of the first."""
        heard = _Heard.of(known.edges, known.owners, known.rules)
        return _claims([(sums, determined(_all_hops(sums, heard))) for sums in client_sums(view, public)])

    def score(self, guess: _FeatureRows, truth: TreeTruth) -> tuple[Measurement, ...]:
        """How many rows are right, and how many of the nodes in reach are read, see `_score_feature_rows`."""
        return _score_feature_rows(guess, truth, "by solving the sums of several hops")


def _first_hop(sums: ClientSums) -> Equations:
    """A client's sums of the first hop as equations about the nodes of others."""
    return Equations(sums.members, sums.values[0], sums.unit * np.diff(sums.members.indptr).astype(np.float64))


@dataclass(frozen=True, slots=True, eq=False)
class _Heard:
    """Who hears of whom, as far as public knowledge goes."""

    adjacency: sparse.csr_array  # 0/1 float64 CSR [n, n], row i the nodes whose rows enter mu_i^1
    unsure: NDArray[np.bool_]  # bool [n], nodes of which it is not known whom they asked about

    @classmethod
    def of(cls, edges: Ids, owners: Ids, rules: HopRules) -> _Heard:
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

    def knowing(self, sums: ClientSums) -> _Heard:
        """The same with what a client knows of its own nodes: whom it asked about."""
        owned = sums.client.owned
        inside = sums.client.neighbours @ sparse.diags_array(owned.astype(np.float64))
        others = sparse.diags_array((~owned).astype(np.float64)) @ self.adjacency
        adjacency = sparse.csr_array(inside + sums.asked + others)
        adjacency.eliminate_zeros()
        return _Heard(adjacency, self.unsure & ~owned)


def _all_hops(sums: ClientSums, heard: _Heard) -> Equations:
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


def _claims(found: list[tuple[ClientSums, Determined]]) -> _FeatureRows | None:
    """Of every client the rows beyond those that are alone in a sum of the first hop."""
    if not found:
        return None
    parts = []
    for sums, solved in found:
        new = ~np.isin(solved.nodes, sums.alone)
        nodes, values = solved.nodes[new], solved.values[new]
        kept = _sure(values, solved.error[new])
        touched = len(np.union1d(sums.touched, nodes))
        parts.append((sums.client.index, nodes[kept], values[kept], touched, len(nodes)))
    return _FeatureRows.of_all(parts)


class _HopFeatureEdges(Attack[ForeignEdges, TreeTruth]):
    """A client explains the surroundings of nodes that it reads by other nodes that it reads."""

    card = Card(
        "hop-feature-edges",
        "a client explains the second hop's sums by the feature rows that the first hop gave away",
        "on Fed2GNN 4.2: the second hop sums whole neighbourhoods of known nodes",
        Role.SILO, Secret.FOREIGN_EDGE, HOP_SUMS, FED2GNN, truth=TreeTruth,
    )  # fmt: skip

    def infer(self, view: View, public: PublicParameters) -> ForeignEdges | None:
        """Looks for one or two known neighbours of every node that a client reads."""
        systems = [sums for sums in client_sums(view, public) if len(sums.values) > 1]
        return ForeignEdges.of_all([_explained(sums) for sums in systems]) if systems else None

    def score(self, guess: ForeignEdges, truth: TreeTruth) -> tuple[Measurement, ...]:
        """Precision, recall and advantage, see `score_foreign_edges` and `edges_of_known_surroundings`."""
        return score_foreign_edges(guess, truth, edges_of_known_surroundings(truth))


def _explained(sums: ClientSums) -> ForeignEdges:
    """Claims the neighbours of each known node whose surroundings have one explanation by at most two known rows."""
    known = determined(_first_hop(sums))
    good = _sure(known.values, known.error)
    known = Determined(known.nodes[good], known.values[good], known.error[good])
    around = _surroundings(sums)
    at = np.searchsorted(around.nodes, known.nodes)
    inside = sums.client.neighbours[:, known.nodes].T @ sums.own
    ends, others = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
    for w, place in enumerate(at.tolist()):
        slack = MARGIN * float(around.error[place])
        # a node that is refused its sum over other clients' nodes counts none of them
        found = [_known_parts(known, around.values[place] - own, slack) for own in (inside[w], 0.0 * inside[w])]
        which = np.concatenate(found) if sum(map(len, found)) == max(map(len, found)) else np.empty(0, dtype=np.int64)
        ends.append(np.full(len(which), known.nodes[w]))
        others.append(known.nodes[which])
    return ForeignEdges.claimed(sums.client, np.concatenate(ends), np.concatenate(others))


def _surroundings(sums: ClientSums) -> Determined:
    """mu_m^1 of every node that the first hop determines: the second hop has the same coefficients."""
    first = _first_hop(sums)
    return determined(Equations(first.matrix, sums.values[1], first.error + _rounding(sums)))


def _rounding(sums: ClientSums) -> Floats:
    """What rounding of a sum that was itself summed adds: as much once more for each term."""
    return np.asarray(sums.unit * sums.members.sum(axis=1) * len(sums.client.owned) ** 0.5)


def _known_parts(known: Determined, rest: Floats, slack: float) -> Ids:
    return explained_by(known.values, MARGIN * known.error, rest, np.zeros_like(rest), slack)


ATTACKS: tuple[Attack[Any, Any], ...] = (
    _HopFeatureSingle(),
    _HopFeatureDifferencing(),
    _HopFeatureTopology(),
    _HopFeatureEdges(),
)
