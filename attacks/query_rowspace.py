"""Solving aggregated queries for the structure embeddings of single nodes.

A client that shares no structure features answers weighted sums of g(s_u) over its nodes u instead, with the asker's
rows of the combined adjacency as weights (FedStruct, ICLR 2025, App. G.1, Eq. 47 and 49). The paper refuses further
queries only where their number would let everything be solved; what matters is which nodes the row space of the
asked weights determines (Chin and Ozsoyoglu, IEEE TSE 8, 1982), and one is enough.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.adjacency import rows_of, stacked
from fgl_secure.attacks.base import Attack, Card, Material, Measurement, Reference
from fgl_secure.attacks.row_space import solver
from fgl_secure.attacks.solved_embeddings import (
    SolvedEmbeddings,
    SolvedSystem,
    Systems,
    score_solved_embeddings,
    sure_rows,
)
from fgl_secure.attacks.truth import Truth
from fgl_secure.runtime import Phase, PublicParameters, Role, Secret, Step, View

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]

OWN_QUERIES = "own query weights"
"""Name of a client's rows (client that is asked, own node, node of that client, weight): what it asks."""

ROUNDING = 2.0**-23
"""Relative rounding of an answer, which is a float32."""


class QueryRowSpace(Attack[SolvedEmbeddings]):
    """A client solves the answers of every other client for the nodes that its own weights determine."""

    @property
    def card(self) -> Card:
        """Every client alone; several pool their queries in the view of a coalition."""
        return Card(
            "query-rowspace",
            "a client solves the answers to its aggregated queries for the embeddings of single nodes",
            "against FedStruct (ICLR 2025) App. G.1: counting queries keeps structure features private",
            Role.SILO,
            Secret.STRUCTURE_FEATURE,
            Material.STRUCTURE,
            Reference.FEDSTRUCT_QUERIES,
            minimum=0.75,
        )

    def infer(self, view: View, public: PublicParameters) -> SolvedEmbeddings | None:  # noqa: ARG002  # needs no parameter
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
        return SolvedEmbeddings.of_all(step, solved)

    def score(self, guess: SolvedEmbeddings, truth: Truth) -> tuple[Measurement, ...]:
        """Rows that are right, pairs of clients and nodes that are exposed, labels: `score_solved_embeddings`."""
        return score_solved_embeddings(guess, truth)


def queries_allowed(touched: Ids, *, width: int = 1, classes: int = 1) -> Ids:
    """The most queries that the paper's count allows: m d_s / c after Eq. 47, and m after Eq. 49 (the default).

    Args:
        touched: int64, number m of nodes that are asked about.
        width: d_s, the number of structure features.
        classes: c, the number of coordinates of an answer.
    """
    return np.asarray(touched * width // classes)


def leaking_although_allowed(systems: Systems, *, width: int = 1, classes: int = 1) -> tuple[int, int]:
    """How many pairs of clients expose a node although they obey the paper's count, and how many obey it.

    Args:
        systems: the pairs, see `QueryRowSpace.infer`.
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
    batches = view.messages(Phase.QUERY_ANSWERS)
    step = max((batch.step for batch in batches), key=lambda step: step.round, default=Step(0))
    last = [batch for batch in batches if batch.step == step]
    if not last:
        nobody = np.empty(0, dtype=np.int64)
        return step, _Answers(nobody, nobody, np.empty((0, 1)))
    senders = view.parties.index_of(np.concatenate([batch.senders for batch in last]), Role.SILO)
    values = np.concatenate([np.asarray(batch.payload, dtype=np.float64) for batch in last])
    return step, _Answers(np.concatenate([batch.observers for batch in last]), senders, values)


def _solved(asker: int, target: int, queries: Floats, told: Floats) -> SolvedSystem:
    """Solves the answers [q, 1 + c] to queries [m, 3] (own node, foreign node, weight)."""
    nodes, column = np.unique(queries[:, 1].astype(np.int64), return_inverse=True)
    answered, first = np.unique(told[:, 0].astype(np.int64), return_index=True)
    there = np.isin(queries[:, 0], answered)
    row = np.searchsorted(answered, queries[there, 0].astype(np.int64))
    matrix = np.zeros((len(answered), len(nodes)))
    np.add.at(matrix, (row, column[there]), queries[there, 2])
    solution, sums = solver(matrix), told[first, 1:]
    sure, values = sure_rows(solution, sums, ROUNDING * np.abs(sums).max(axis=1, initial=0.0))
    counts = (asker, target, len(answered), len(nodes), len(solution.unknowns))
    return SolvedSystem(counts, nodes[solution.unknowns[sure]], values[sure])
