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

from fgl_secure.attacks.base import Attack, Card, DataSecret, Measurement
from fgl_secure.attacks.edge_claims import (
    ForeignEdges,
    edges_of_known_surroundings,
    explained_edges,
    score_foreign_edges,
)
from fgl_secure.attacks.neighbourhoods import ClientEdges, clients_of, rows_by_layer, rows_of, stack_rows
from fgl_secure.attacks.recovery import largest_share, share_right
from fgl_secure.attacks.row_space import DeterminedRows, SolvedRows, exact_rows, solver
from fgl_secure.attacks.structure.knowledge import FEDSTRUCT_HOPWISE, FEDSTRUCT_QUERIES, STRUCTURE
from fgl_secure.attacks.truth import StructureTruth
from fgl_secure.runtime import Phase, PublicParameters, Role, Step, Transcript, View
from fgl_secure.statistics.metrics import clustered_proportion
from fgl_secure.typing import Floats, Ids

CLOSE = 1e-2
"""Up to this relative distance an embedding counts as read; rows that rounding may move further are not claimed."""


class _Solving(Attack[SolvedRows, StructureTruth]):
    """Sums that observers solve for single rows."""

    def score(self, guess: SolvedRows, truth: StructureTruth) -> tuple[Measurement, ...]:
        """How many rows are right, from how many systems and of how many nodes one is, and the labels read off.

        The prior of the first two takes every node's row to be the most frequent one; that of labels is the majority.
        """
        secret = truth.embeddings[guess.step][guess.nodes]
        right, common = exact_rows(guess.nodes, guess.values, secret, CLOSE)
        finding = (
            f"{int(right.sum()):,} of {len(right):,} claimed rows of single nodes are right; "
            f"{len(np.unique(guess.system[right])):,} of {len(guess.askers):,} systems of sums give one."
        )
        reading, guessing = (np.isin(np.arange(len(guess.askers)), guess.system[mask]) for mask in (right, common))
        share, reach = clustered_proportion(reading, guess.targets, seed=0), float((guess.exposed > 0).mean())
        name, prior = "systems that give a node away", float(guessing.mean())
        result = (
            Measurement.of_share(name, share, finding, prior=prior, reachable=reach),
            guess.share_of_nodes(right, finding),
        )
        if not len(right):
            return result
        exact = clustered_proportion(right, guess.nodes, seed=0)
        rows = Measurement.of_share("exact recovery", exact, finding, prior=float(common.mean()))
        return (rows, *result, *_labels(guess, secret, truth))


def _labels(solved_rows: SolvedRows, secret: Floats, truth: StructureTruth) -> tuple[Measurement, ...]:
    """How often the largest coordinate of a claimed row is the node's label; right rows can tell no more of it."""
    has = truth.labels[solved_rows.nodes] >= 0
    if not has.any():
        return ()
    nodes = solved_rows.nodes[has]
    actual = truth.labels[nodes]
    reach = float((secret[has].argmax(axis=1) == actual).mean())
    random, prior = 1 / (int(truth.labels.max()) + 1), largest_share(actual[:, None])
    text, right = (
        "The largest coordinate of {} rows that are read is the node's label.",
        solved_rows.values[has].argmax(axis=1),
    )
    return (share_right("labels", right == actual, nodes, text, random=random, prior=prior, reachable=reach),)


OWN_QUERIES = "own query weights"
"""Name of a client's rows (client that is asked, own node, node of that client, weight): what it asks."""

ROUNDING = 2.0**-23
"""Relative rounding of an answer, which is a float32."""


class _QueryRowSpace(_Solving):
    """A client solves the answers of every other client for the nodes that its own weights determine."""

    card = Card(
        "query-rowspace",
        "a client solves the answers to its aggregated queries for the embeddings of single nodes",
        "against FedStruct (ICLR 2025) App. G.1: counting queries keeps structure features private",
        Role.SILO, DataSecret.STRUCTURE_FEATURE, STRUCTURE, FEDSTRUCT_QUERIES, minimum=0.75, truth=StructureTruth,
    )  # fmt: skip

    def infer(self, view: View, public: PublicParameters) -> SolvedRows | None:  # noqa: ARG002  # needs no parameter
        query_rows = rows_of(view, OWN_QUERIES)
        if not query_rows:
            return None
        queries = stack_rows(query_rows)
        owners = view.parties.index_of(np.concatenate([rows.owners for rows in query_rows]), Role.SILO)
        batches = [batch for batch in view.messages(Phase.QUERY_ANSWERS) if not batch.step.evaluation]
        step = max((batch.step for batch in batches), key=lambda step: step.round, default=Step(0))
        last = [batch for batch in batches if batch.step == step]
        targets = queries.values[:, 0].astype(np.int64)
        solved = []
        for observer, target in np.unique(np.stack([queries.observers, targets]), axis=1).T.tolist():
            mask, party = (queries.observers == observer) & (targets == target), view.parties.ids(Role.SILO)[target]
            answer_rows = [
                np.asarray(batch.payload, dtype=np.float64)[(batch.observers == observer) & (batch.senders == party)]
                for batch in last
            ]
            answers = np.concatenate(answer_rows) if answer_rows else np.empty((0, 1))
            solved.append(_solve_answers(int(owners[mask].min()), target, queries.values[mask, 1:], answers))
        return SolvedRows.of_all(step, solved)


def leaking_although_allowed(rows: SolvedRows) -> tuple[int, int]:
    """How many pairs of clients expose a node although they obey the paper's count, and how many obey it.

    The count after Eq. 49 allows as many queries as nodes are asked about.
    """
    obeying = rows.sums <= rows.touched
    return int((rows.exposed[obeying] > 0).sum()), int(obeying.sum())


def _solve_answers(
    asker: int, target: int, queries: Floats, answers: Floats
) -> tuple[tuple[int, int, int, int, int], Ids, Floats]:
    """Solves the answers [q, 1 + c] to queries [m, 3] (own node, foreign node, weight)."""
    nodes, column = np.unique(queries[:, 1].astype(np.int64), return_inverse=True)
    answered, first = np.unique(answers[:, 0].astype(np.int64), return_index=True)
    is_answered = np.isin(queries[:, 0], answered)
    row = np.searchsorted(answered, queries[is_answered, 0].astype(np.int64))
    matrix = np.zeros((len(answered), len(nodes)))
    np.add.at(matrix, (row, column[is_answered]), queries[is_answered, 2])
    solution, sums = solver(matrix), answers[first, 1:]
    values = solution.weights @ sums
    moved = np.abs(solution.weights) @ (ROUNDING * np.abs(sums).max(axis=1, initial=0.0))
    sure = moved <= CLOSE * np.linalg.norm(values, axis=1)
    counts = (asker, target, len(answered), len(nodes), len(solution.unknowns))
    return counts, nodes[solution.unknowns[sure]], values[sure]


HOP_SUMS = "hop sums"
"""Name of a client's rows (own node, sum of its foreign neighbours' embeddings), by layer from 0."""

OWN_EMBEDDINGS = "own hop embeddings"
"""Name of a client's rows (own node, its embedding), by layer from 0."""

REAL_BITS = 16
"""Bits behind the binary point, in units of the largest sum, to which sums are read where their coding is unknown."""


@dataclass(frozen=True, slots=True, eq=False)
class _HopSystem:
    """One client's sums of all hops, and the foreign rows that they determine."""

    client: ClientEdges  # who has the sums
    own: Floats  # float64 [hops, n, c], embeddings of its own nodes; 0 for other nodes
    sums: int  # number of sums in a hop
    known: DeterminedRows  # foreign nodes that the sums determine, with their embeddings before the first hop
    rows: Floats  # float64 [hops, k, c], their embeddings
    unit: float  # rounding of one sum


class _HopSumRows(_Solving):
    """A client solves its sums over foreign neighbours for the structure embeddings of single ones."""

    card = Card(
        "hop-sum-rows",
        "a client solves its sums over foreign neighbours for the structure embeddings of single nodes",
        "on hop-wise sums in place of FedStruct's (ICLR 2025) App. D: exact sums over few known neighbours",
        Role.SILO, DataSecret.STRUCTURE_FEATURE, STRUCTURE, FEDSTRUCT_HOPWISE, minimum=0.9, truth=StructureTruth,
    )  # fmt: skip

    def infer(self, view: View, public: PublicParameters) -> SolvedRows | None:
        steps = [rows.step for rows in rows_of(view, HOP_SUMS)]
        systems = _hop_systems(view, public)
        if not systems:
            return None
        first = min(steps, key=lambda step: (step.round, step.layer))
        solved = []
        for system in systems:
            index, nodes, rows = system.client.index, system.known.nodes, system.rows[0]
            counts = (index, index, system.sums, len(system.client.outside), len(nodes))
            sure = system.known.error <= CLOSE * np.linalg.norm(rows, axis=1)
            solved.append((counts, nodes[sure], rows[sure]))
        return SolvedRows.of_all(first, solved)


def _hop_systems(view: View, public: PublicParameters) -> list[_HopSystem]:
    """The sums of every client that has some, of the first round, solved."""
    batches = rows_of(view, HOP_SUMS)
    first = min((rows.step.round for rows in batches), default=0)
    layers = sorted({rows.step.layer for rows in batches if rows.step.round == first})
    if not layers:
        return []
    systems = []
    for client in clients_of(view):
        sums, own_embeddings = (rows_by_layer(view, name, client, layers, first) for name in (HOP_SUMS, OWN_EMBEDDINGS))
        if sums is None or own_embeddings is None:
            continue
        summed = np.flatnonzero(sums[1] & sums[0].any(axis=(0, 2)))  # a refused sum is noted as 0
        if len(summed):
            systems.append(_system(client, sums[0][:, summed], summed, own_embeddings[0], public))
    return systems


def noted_embeddings(transcript: Transcript) -> dict[Step, Floats]:
    """What all clients noted of their own nodes before each hop, float64 [n, c] in the order of the nodes.

    The truth that `_HopSumRows` is scored against: schemes over a field note elements of it and not real numbers.
    """
    embeddings = {}
    for batch in transcript.private:
        if batch.name == OWN_EMBEDDINGS:
            order = np.argsort(batch.values[:, 0], kind="stable")
            embeddings[batch.step] = batch.values[order, 1:].astype(np.float64)
    return embeddings


def _system(client: ClientEdges, sums: Floats, summed: Ids, own_rows: Floats, public: PublicParameters) -> _HopSystem:
    outside = client.outside
    solution = solver(client.neighbours[summed][:, outside].toarray())
    scale = float(np.abs(sums).max(initial=0.0))
    unit = scale * 2.0**-REAL_BITS if public.fraction_bits is None else 2.0**-public.fraction_bits
    terms = client.neighbours[summed][:, outside].sum(axis=1)
    rows = np.einsum("kq,hqc->hkc", solution.weights, sums)
    known = DeterminedRows(outside[solution.unknowns], rows[0], np.abs(solution.weights) @ (unit * terms))
    return _HopSystem(client, own_rows, len(summed), known, rows, unit)


class _HopSumEdges(Attack[ForeignEdges, StructureTruth]):
    """A client explains the change of a foreign row from hop to hop by foreign rows that it knows."""

    card = Card(
        "hop-sum-edges",
        "a client explains the change of foreign rows from hop to hop by the rows of their neighbours",
        "on hop-wise sums in place of FedStruct's (ICLR 2025) App. D: what the recursion tells of the graph",
        Role.SILO, DataSecret.FOREIGN_EDGE, STRUCTURE, FEDSTRUCT_HOPWISE, minimum=0.51, truth=StructureTruth,
    )  # fmt: skip

    def infer(self, view: View, public: PublicParameters) -> ForeignEdges | None:
        systems = _hop_systems(view, public)
        return ForeignEdges.of_all([_explain_changes(system) for system in systems]) if systems else None

    def score(self, guess: ForeignEdges, truth: StructureTruth) -> tuple[Measurement, ...]:
        return score_foreign_edges(guess, truth, edges_of_known_surroundings(truth))


def _explain_changes(system: _HopSystem) -> ForeignEdges:
    """Claims the neighbours of each known row whose change has one explanation by at most two known rows."""
    hops, count, c = system.rows.shape
    width = max(hops - 1, 0) * c
    known, later = (rows.transpose(1, 0, 2).reshape(count, width) for rows in (system.rows[:-1], system.rows[1:]))
    own_neighbours = system.client.neighbours[:, system.known.nodes].T
    inside = (own_neighbours @ system.own[:-1].transpose(1, 0, 2).reshape(own_neighbours.shape[1], -1)).reshape(
        count, width
    )
    degree = 1 + own_neighbours.sum(axis=1)
    # a node that is refused its sum over foreign neighbours counts neither them nor itself among theirs
    changes = np.stack([degree[:, None] * later - known - inside, later - known])
    slack = (degree + 3) * system.known.error + degree * system.unit
    return explained_edges(system.client, system.known, known, changes, later, slack)


ATTACKS: tuple[Attack[Any, Any], ...] = (_QueryRowSpace(), _HopSumRows(), _HopSumEdges())
