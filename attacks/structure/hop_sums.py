"""Structure embeddings and edges that clients solve sums and aggregated queries for.

A client that shares no structure features answers weighted sums of g(s_u) over its nodes u instead, with the asker's
rows of the combined adjacency as weights (FedStruct, ICLR 2025, App. G.1, Eq. 47 and 49). The paper refuses further
queries only where their number would let everything be solved; what matters is which nodes the row space of the
asked weights determines (Chin and Ozsoyoglu, IEEE TSE 8, 1982), and one is enough.

A client that computes z <- D^-1 (A + I) z with its neighbours' clients learns for each own node and hop the sum of the
foreign neighbours' embeddings. It knows who is summed: its sums are equations with its crossing edges as coefficients,
and foreign nodes that these determine (a node alone in a sum is the plain case) are read in every hop.

Of the foreign nodes w that a client reads in every hop, d_w z_w' = z_w + the sum of z_u over w's neighbours holds
between one hop and the next. With the client's own nodes taken out, what remains is a sum of as many foreign rows as
the degree leaves room for; where these rows are known too, it names them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.base import Attack, Card, Measurement
from fgl_secure.attacks.edge_claims import (
    MARGIN,
    ForeignEdges,
    edges_of_known_surroundings,
    explained_by,
    score_foreign_edges,
)
from fgl_secure.attacks.neighbourhoods import Client, clients_of, rows_of, stacked
from fgl_secure.attacks.recovery import largest_share
from fgl_secure.attacks.row_space import Solver, solver
from fgl_secure.attacks.structure.knowledge import FEDSTRUCT_HOPWISE, FEDSTRUCT_QUERIES, STRUCTURE
from fgl_secure.attacks.truth import StructureTruth
from fgl_secure.runtime import Phase, PublicParameters, Role, Secret, Step, Transcript, View
from fgl_secure.statistics.metrics import clustered_proportion
from fgl_secure.typing import Floats, Ids

CLOSE = 1e-2
"""Up to this relative distance an embedding counts as read; rows that rounding may move further are not claimed."""


@dataclass(frozen=True, slots=True, eq=False)
class _Systems:
    """_Systems of sums, one for each observer and client whose nodes are summed."""

    askers: Ids  # int64 [p], index of the observing client; of the first one where several pool what they have
    # int64 [p], index of the client whose nodes are summed; that of the observer where they are of several
    targets: Ids
    equations: Ids  # int64 [p], number of sums
    touched: Ids  # int64 [p], nodes that are asked about
    exposed: Ids  # int64 [p], how many of these the sums determine


@dataclass(frozen=True, slots=True, eq=False)
class _SolvedSystem:
    """One system: its row of `_Systems`, and the nodes int64 [k] with the rows float64 [k, c] that are claimed."""

    counts: tuple[int, int, int, int, int]
    nodes: Ids
    values: Floats


@dataclass(frozen=True, slots=True, eq=False)
class _SolvedEmbeddings:
    """Structure embeddings that observers read from sums."""

    step: Step  # when the sums were given
    systems: _Systems  # who had which sums
    system: Ids  # int64 [k], from which of these each row is read
    nodes: Ids  # int64 [k], device index of the node that each row is said to belong to
    values: Floats  # float64 [k, c], the rows

    @classmethod
    def of_all(cls, step: Step, solved: list[_SolvedSystem]) -> _SolvedEmbeddings:
        """The claims from all systems, side by side; at least one system."""
        systems = _Systems(*np.array([each.counts for each in solved], dtype=np.int64).T)
        system = np.repeat(np.arange(len(solved)), [len(each.nodes) for each in solved])
        values = [each.values for each in solved if len(each.nodes)] or [solved[0].values]
        nodes = np.concatenate([each.nodes for each in solved])
        return cls(step, systems, system, nodes, np.concatenate(values))


def _sure_rows(solution: Solver, sums: Floats, rounding: Floats) -> tuple[NDArray[np.bool_], Floats]:
    """The determined rows, and which of them rounding moves by no more than `CLOSE`.

    Args:
        solution: how to combine the sums.
        sums: float64 [q, c].
        rounding: float64 [q], how far a coordinate of each sum may be off.

    Returns:
        Bool [k] and float64 [k, c].
    """
    values = solution.weights @ sums
    moved = np.abs(solution.weights) @ rounding
    return moved <= CLOSE * np.linalg.norm(values, axis=1), values


def _score_solved_embeddings(guess: _SolvedEmbeddings, truth: StructureTruth) -> tuple[Measurement, ...]:
    """How many rows are right, from how many systems and of how many nodes one is, and the labels read off.

    The prior of the first two takes every node's row to be the most frequent one; that of labels is the majority.
    """
    systems = guess.systems
    right, common = _right(guess, truth)
    finding = (
        f"{int(right.sum()):,} of {len(right):,} claimed rows of single nodes are right; "
        f"{len(np.unique(guess.system[right])):,} of {len(systems.askers):,} systems of sums give one."
    )
    everyone = np.arange(len(systems.askers))
    reading, guessing = (np.isin(everyone, guess.system[which]) for which in (right, common))
    share = clustered_proportion(reading, systems.targets, seed=0)
    reach, prior = float((systems.exposed > 0).mean()), float(guessing.mean())
    name = "systems that give a node away"
    found = (
        Measurement.of_share(name, share, finding, prior=prior, reachable=reach),
        _share_of_nodes(guess, right, finding),
    )
    if not len(right):
        return found
    exact = clustered_proportion(right, guess.nodes, seed=0)
    rows = Measurement.of_share("exact recovery", exact, finding, prior=float(common.mean()))
    return (rows, *found, _labels(guess, truth))


def _right(guess: _SolvedEmbeddings, truth: StructureTruth) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Bool [k]: which claimed rows are right, and for which the most frequent row would be.

    Where no two of the claimed nodes have the same row, none is frequent: nobody could guess it.
    """
    if not len(guess.nodes):
        return np.zeros(0, dtype=np.bool_), np.zeros(0, dtype=np.bool_)
    secret = truth.embeddings[guess.step][guess.nodes]
    off = np.linalg.norm(guess.values - secret, axis=1)
    _, first = np.unique(guess.nodes, return_index=True)
    rows, counts = np.unique(secret[first], axis=0, return_counts=True)
    common = (secret == rows[counts.argmax()]).all(axis=1) & (counts.max() > 1)
    return off <= CLOSE * np.linalg.norm(secret, axis=1), np.asarray(common)


def _share_of_nodes(guess: _SolvedEmbeddings, right: NDArray[np.bool_], finding: str) -> Measurement:
    """How many of the nodes that are asked about are read: the size of the leak."""
    touched = guess.systems.touched
    read = np.bincount(guess.system[right], minlength=len(touched))
    which = np.repeat(np.arange(len(touched)), touched)
    number = np.arange(len(which)) - np.repeat(np.cumsum(touched) - touched, touched)
    share = clustered_proportion(number < read[which], guess.systems.targets[which], seed=0)
    reach = int(guess.systems.exposed.sum()) / max(int(touched.sum()), 1)
    return Measurement.of_share("nodes exposed", share, finding, reachable=reach, context=True)


def _labels(guess: _SolvedEmbeddings, truth: StructureTruth) -> Measurement:
    """How often the largest coordinate of a claimed row is the node's label; right rows can tell no more of it."""
    actual = truth.labels[guess.nodes]
    right = guess.values.argmax(axis=1) == actual
    share = clustered_proportion(right, guess.nodes, seed=0)
    reach = float((truth.embeddings[guess.step][guess.nodes].argmax(axis=1) == actual).mean())
    finding = (
        f"The largest coordinate of {int(right.sum()):,} of {len(right):,} rows that are read is the node's label."
    )
    random, prior = 1 / (int(truth.labels.max()) + 1), largest_share(actual[:, None])
    return Measurement.of_share("labels", share, finding, random=random, prior=prior, reachable=reach)


OWN_QUERIES = "own query weights"
"""Name of a client's rows (client that is asked, own node, node of that client, weight): what it asks."""

ROUNDING = 2.0**-23
"""Relative rounding of an answer, which is a float32."""


class _QueryRowSpace(Attack[_SolvedEmbeddings, StructureTruth]):
    """A client solves the answers of every other client for the nodes that its own weights determine."""

    card = Card(
        "query-rowspace",
        "a client solves the answers to its aggregated queries for the embeddings of single nodes",
        "against FedStruct (ICLR 2025) App. G.1: counting queries keeps structure features private",
        Role.SILO, Secret.STRUCTURE_FEATURE, STRUCTURE, FEDSTRUCT_QUERIES, minimum=0.75, truth=StructureTruth,
    )  # fmt: skip

    def infer(self, view: View, public: PublicParameters) -> _SolvedEmbeddings | None:  # noqa: ARG002  # needs no parameter
        """Solves the answers of the last round that the view holds, apart for every pair of clients."""
        asked = rows_of(view, OWN_QUERIES)
        if not asked:
            return None
        queries = stacked(asked)
        owners = view.parties.index_of(np.concatenate([rows.owners for rows in asked]), Role.SILO)
        step, answers = _last_answers(view)
        targets = queries.values[:, 0].astype(np.int64)
        solved = []
        for observer, target in np.unique(np.stack([queries.observers, targets]), axis=1).T.tolist():
            here = (queries.observers == observer) & (targets == target)
            told = answers.values[(answers.observers == observer) & (answers.targets == target)]
            solved.append(_solved(int(owners[here].min()), target, queries.values[here, 1:], told))
        return _SolvedEmbeddings.of_all(step, solved)

    def score(self, guess: _SolvedEmbeddings, truth: StructureTruth) -> tuple[Measurement, ...]:
        """Rows that are right, pairs of clients and nodes that are exposed, labels: `_score_solved_embeddings`."""
        return _score_solved_embeddings(guess, truth)


def queries_allowed(touched: Ids, *, width: int = 1, classes: int = 1) -> Ids:
    """The most queries that the paper's count allows: m d_s / c after Eq. 47, and m after Eq. 49 (the default).

    Args:
        touched: int64, number m of nodes that are asked about.
        width: d_s, the number of structure features.
        classes: c, the number of coordinates of an answer.
    """
    return np.asarray(touched * width // classes)


def leaking_although_allowed(systems: _Systems, *, width: int = 1, classes: int = 1) -> tuple[int, int]:
    """How many pairs of clients expose a node although they obey the paper's count, and how many obey it.

    Args:
        systems: the pairs, see `_QueryRowSpace.infer`.
        width: see `queries_allowed`.
        classes: see `queries_allowed`.
    """
    obeying = systems.equations <= queries_allowed(systems.touched, width=width, classes=classes)
    return int((systems.exposed[obeying] > 0).sum()), int(obeying.sum())


@dataclass(frozen=True, slots=True, eq=False)
class _Answers:
    """What observers are told: int64 [m] observers and clients that answer, float64 [m, 1 + c] (node, sums)."""

    observers: Ids
    targets: Ids
    values: Floats


def _last_answers(view: View) -> tuple[Step, _Answers]:
    batches = [batch for batch in view.messages(Phase.QUERY_ANSWERS) if not batch.step.evaluation]
    step = max((batch.step for batch in batches), key=lambda step: step.round, default=Step(0))
    last = [batch for batch in batches if batch.step == step]
    if not last:
        nobody = np.empty(0, dtype=np.int64)
        return step, _Answers(nobody, nobody, np.empty((0, 1)))
    senders = view.parties.index_of(np.concatenate([batch.senders for batch in last]), Role.SILO)
    values = np.concatenate([np.asarray(batch.payload, dtype=np.float64) for batch in last])
    return step, _Answers(np.concatenate([batch.observers for batch in last]), senders, values)


def _solved(asker: int, target: int, queries: Floats, told: Floats) -> _SolvedSystem:
    """Solves the answers [q, 1 + c] to queries [m, 3] (own node, foreign node, weight)."""
    nodes, column = np.unique(queries[:, 1].astype(np.int64), return_inverse=True)
    answered, first = np.unique(told[:, 0].astype(np.int64), return_index=True)
    there = np.isin(queries[:, 0], answered)
    row = np.searchsorted(answered, queries[there, 0].astype(np.int64))
    matrix = np.zeros((len(answered), len(nodes)))
    np.add.at(matrix, (row, column[there]), queries[there, 2])
    solution, sums = solver(matrix), told[first, 1:]
    sure, values = _sure_rows(solution, sums, ROUNDING * np.abs(sums).max(axis=1, initial=0.0))
    counts = (asker, target, len(answered), len(nodes), len(solution.unknowns))
    return _SolvedSystem(counts, nodes[solution.unknowns[sure]], values[sure])


HOP_SUMS = "hop sums"
"""Name of a client's rows (own node, sum of its foreign neighbours' embeddings), by layer from 0."""

OWN_EMBEDDINGS = "own hop embeddings"
"""Name of a client's rows (own node, its embedding), by layer from 0."""

REAL_BITS = 16
"""Bits behind the binary point, in units of the largest sum, to which sums are read where their coding is unknown."""


@dataclass(frozen=True, slots=True, eq=False)
class _HopSystem:
    """One client's sums of all hops, and the foreign rows that they determine."""

    client: Client  # who has the sums
    own: Floats  # float64 [hops, n, c], embeddings of its own nodes; 0 for other nodes
    sums: int  # number of sums in a hop
    nodes: Ids  # int64 [k], foreign nodes that the sums determine
    rows: Floats  # float64 [hops, k, c], their embeddings
    error: Floats  # float64 [k], how far a coordinate of each may be off
    unit: float  # rounding of one sum


class _HopSumRows(Attack[_SolvedEmbeddings, StructureTruth]):
    """A client solves its sums over foreign neighbours for the structure embeddings of single ones."""

    card = Card(
        "hop-sum-rows",
        "a client solves its sums over foreign neighbours for the structure embeddings of single nodes",
        "on hop-wise sums in place of FedStruct's (ICLR 2025) App. D: exact sums over few known neighbours",
        Role.SILO, Secret.STRUCTURE_FEATURE, STRUCTURE, FEDSTRUCT_HOPWISE, minimum=0.9, truth=StructureTruth,
    )  # fmt: skip

    def infer(self, view: View, public: PublicParameters) -> _SolvedEmbeddings | None:
        """The rows of the first hop, g(s_u) themselves."""
        steps = [rows.step for rows in rows_of(view, HOP_SUMS)]
        systems = _hop_systems(view, public)
        if not systems:
            return None
        first = min(steps, key=lambda step: (step.round, step.layer))
        return _SolvedEmbeddings.of_all(first, [_solved_hop(system) for system in systems])

    def score(self, guess: _SolvedEmbeddings, truth: StructureTruth) -> tuple[Measurement, ...]:
        """Rows that are right, clients that read one, nodes that are exposed, labels: `_score_solved_embeddings`."""
        return _score_solved_embeddings(guess, truth)


def _hop_systems(view: View, public: PublicParameters) -> list[_HopSystem]:
    """The sums of every client that has some, of the first round, solved."""
    batches = rows_of(view, HOP_SUMS)
    first = min((rows.step.round for rows in batches), default=0)
    layers = sorted({rows.step.layer for rows in batches if rows.step.round == first})
    if not layers:
        return []
    found = []
    for client in clients_of(view):
        sums, own = (_by_layer(view, name, layers, Step(first), client) for name in (HOP_SUMS, OWN_EMBEDDINGS))
        summed = np.flatnonzero(sums[1] & sums[0].any(axis=(0, 2)))  # a refused sum is noted as 0
        if len(summed):
            found.append(_system(client, sums[0][:, summed], summed, own[0], public))
    return found


def noted_embeddings(transcript: Transcript) -> dict[Step, Floats]:
    """What all clients noted of their own nodes before each hop, float64 [n, c] in the order of the nodes.

    The truth that `_HopSumRows` is scored against: schemes over a field note elements of it and not real numbers.
    """
    found = {}
    for batch in transcript.private:
        if batch.name == OWN_EMBEDDINGS:
            order = np.argsort(batch.values[:, 0], kind="stable")
            found[batch.step] = batch.values[order, 1:].astype(np.float64)
    return found


def _by_layer(view: View, name: str, layers: list[int], step: Step, client: Client) -> tuple[Floats, NDArray[np.bool_]]:
    """A client's rows of a name, float64 [hops, n, c], and bool [n], for which nodes there are some in every hop."""
    n = len(client.owned)
    tables = [
        stacked(tuple(rows for rows in rows_of(view, name, layer) if rows.step.round == step.round))
        for layer in layers
    ]  # fmt: skip
    width = tables[0].values.shape[1] - 1
    values, there = np.zeros((len(layers), n, width)), np.ones(n, dtype=np.bool_)
    for hop, table in enumerate(tables):
        rows = table.of(client.observer)
        nodes = rows[:, 0].astype(np.int64)
        values[hop, nodes] = rows[:, 1:]
        there &= np.isin(np.arange(n), nodes)
    return values, there


def _system(client: Client, sums: Floats, summed: Ids, own: Floats, public: PublicParameters) -> _HopSystem:
    outside = client.outside
    solution = solver(client.neighbours[summed][:, outside].toarray())
    scale = float(np.abs(sums).max(initial=0.0))
    unit = scale * 2.0**-REAL_BITS if public.fraction_bits is None else 2.0**-public.fraction_bits
    terms = client.neighbours[summed][:, outside].sum(axis=1)
    error = np.abs(solution.weights) @ (unit * terms)
    rows = np.einsum("kq,hqc->hkc", solution.weights, sums)
    return _HopSystem(client, own, len(summed), outside[solution.unknowns], rows, error, unit)


def _solved_hop(system: _HopSystem) -> _SolvedSystem:
    index, touched = system.client.index, len(system.client.outside)
    counts = (index, index, system.sums, touched, len(system.nodes))
    sure = system.error <= CLOSE * np.linalg.norm(system.rows[0], axis=1)
    return _SolvedSystem(counts, system.nodes[sure], system.rows[0, sure])


class _HopSumEdges(Attack[ForeignEdges, StructureTruth]):
    """A client explains the change of a foreign row from hop to hop by foreign rows that it knows."""

    card = Card(
        "hop-sum-edges",
        "a client explains the change of foreign rows from hop to hop by the rows of their neighbours",
        "on hop-wise sums in place of FedStruct's (ICLR 2025) App. D: what the recursion tells of the graph",
        Role.SILO, Secret.FOREIGN_EDGE, STRUCTURE, FEDSTRUCT_HOPWISE, minimum=0.51, truth=StructureTruth,
    )  # fmt: skip

    def infer(self, view: View, public: PublicParameters) -> ForeignEdges | None:
        """Looks for one or two known foreign neighbours of every foreign node that a client reads."""
        systems = _hop_systems(view, public)
        return ForeignEdges.of_all([_explained(system) for system in systems]) if systems else None

    def score(self, guess: ForeignEdges, truth: StructureTruth) -> tuple[Measurement, ...]:
        """Precision, recall and advantage, see `score_foreign_edges` and `edges_of_known_surroundings`."""
        return score_foreign_edges(guess, truth, edges_of_known_surroundings(truth))


def _explained(system: _HopSystem) -> ForeignEdges:
    """Claims the neighbours of each known row whose change has one explanation by at most two known rows."""
    hops, count, c = system.rows.shape
    width = max(hops - 1, 0) * c
    known, later = (rows.transpose(1, 0, 2).reshape(count, width) for rows in (system.rows[:-1], system.rows[1:]))
    ours = system.client.neighbours[:, system.nodes].T
    inside = (ours @ system.own[:-1].transpose(1, 0, 2).reshape(ours.shape[1], -1)).reshape(count, width)
    degree = 1 + ours.sum(axis=1)
    ends, others = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
    for w in range(count if width else 0):
        slack = MARGIN * ((degree[w] + 3) * system.error[w] + degree[w] * system.unit)
        # a node that is refused its sum over foreign neighbours counts neither them nor itself among theirs
        found = [
            explained_by(known, MARGIN * system.error, heard * later[w] - known[w] - inside[w] * whole, later[w], slack)
            for heard, whole in ((degree[w], 1.0), (1.0, 0.0))
        ]  # fmt: skip
        which = np.concatenate(found) if sum(map(len, found)) == max(map(len, found)) else np.empty(0, dtype=np.int64)
        ends.append(np.full(len(which), system.nodes[w]))
        others.append(system.nodes[which])
    return ForeignEdges.claimed(system.client, np.concatenate(ends), np.concatenate(others))


ATTACKS: tuple[Attack[Any, Any], ...] = (_QueryRowSpace(), _HopSumRows(), _HopSumEdges())
