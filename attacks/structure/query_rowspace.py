"""Structure embeddings of single nodes that observers solve sums and aggregated queries for.

Solving aggregated queries for the structure embeddings of single nodes.

A client that shares no structure features answers weighted sums of g(s_u) over its nodes u instead, with the asker's
rows of the combined adjacency as weights (FedStruct, ICLR 2025, App. G.1, Eq. 47 and 49). The paper refuses further
queries only where their number would let everything be solved; what matters is which nodes the row space of the
asked weights determines (Chin and Ozsoyoglu, IEEE TSE 8, 1982), and one is enough.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.base import Attack, Card, Measurement
from fgl_secure.attacks.neighbourhoods import rows_of, stacked
from fgl_secure.attacks.recovery import largest_share
from fgl_secure.attacks.row_space import Solver, solver
from fgl_secure.attacks.structure.knowledge import FEDSTRUCT_QUERIES, STRUCTURE
from fgl_secure.attacks.structure.truth import StructureTruth
from fgl_secure.runtime import Phase, PublicParameters, Role, Secret, Step, View
from fgl_secure.statistics.metrics import clustered_proportion

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]

CLOSE = 1e-2
"""Up to this relative distance an embedding counts as read; rows that rounding may move further are not claimed."""


@dataclass(frozen=True, slots=True, eq=False)
class Systems:
    """Systems of sums, one for each observer and client whose nodes are summed.

    Attributes:
        askers: int64 [p], index of the observing client; of the first one where several pool what they have.
        targets: int64 [p], index of the client whose nodes are summed; that of the observer where they are of several.
        equations: int64 [p], number of sums.
        touched: int64 [p], nodes that are asked about.
        exposed: int64 [p], how many of these the sums determine.
    """

    askers: Ids
    targets: Ids
    equations: Ids
    touched: Ids
    exposed: Ids


@dataclass(frozen=True, slots=True, eq=False)
class SolvedSystem:
    """One system: its row of `Systems`, and the nodes int64 [k] with the rows float64 [k, c] that are claimed."""

    counts: tuple[int, int, int, int, int]
    nodes: Ids
    values: Floats


@dataclass(frozen=True, slots=True, eq=False)
class SolvedEmbeddings:
    """Structure embeddings that observers read from sums.

    Attributes:
        step: when the sums were given.
        systems: who had which sums.
        system: int64 [k], from which of these each row is read.
        nodes: int64 [k], device index of the node that each row is said to belong to.
        values: float64 [k, c], the rows.
    """

    step: Step
    systems: Systems
    system: Ids
    nodes: Ids
    values: Floats

    @classmethod
    def of_all(cls, step: Step, solved: list[SolvedSystem]) -> SolvedEmbeddings:
        """The claims from all systems, side by side; at least one system."""
        systems = Systems(*np.array([each.counts for each in solved], dtype=np.int64).T)
        system = np.repeat(np.arange(len(solved)), [len(each.nodes) for each in solved])
        values = [each.values for each in solved if len(each.nodes)] or [solved[0].values]
        nodes = np.concatenate([each.nodes for each in solved])
        return cls(step, systems, system, nodes, np.concatenate(values))


def sure_rows(solution: Solver, sums: Floats, rounding: Floats) -> tuple[NDArray[np.bool_], Floats]:
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


def score_solved_embeddings(guess: SolvedEmbeddings, truth: StructureTruth) -> tuple[Measurement, ...]:
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


def _right(guess: SolvedEmbeddings, truth: StructureTruth) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
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


def _share_of_nodes(guess: SolvedEmbeddings, right: NDArray[np.bool_], finding: str) -> Measurement:
    """How many of the nodes that are asked about are read: the size of the leak."""
    touched = guess.systems.touched
    read = np.bincount(guess.system[right], minlength=len(touched))
    which = np.repeat(np.arange(len(touched)), touched)
    number = np.arange(len(which)) - np.repeat(np.cumsum(touched) - touched, touched)
    share = clustered_proportion(number < read[which], guess.systems.targets[which], seed=0)
    reach = int(guess.systems.exposed.sum()) / max(int(touched.sum()), 1)
    return Measurement.of_share("nodes exposed", share, finding, reachable=reach, context=True)


def _labels(guess: SolvedEmbeddings, truth: StructureTruth) -> Measurement:
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


class QueryRowSpace(Attack[SolvedEmbeddings, StructureTruth]):
    """A client solves the answers of every other client for the nodes that its own weights determine."""

    card = Card(
        "query-rowspace",
        "a client solves the answers to its aggregated queries for the embeddings of single nodes",
        "against FedStruct (ICLR 2025) App. G.1: counting queries keeps structure features private",
        Role.SILO, Secret.STRUCTURE_FEATURE, STRUCTURE, FEDSTRUCT_QUERIES, minimum=0.75, truth=StructureTruth,
    )  # fmt: skip

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

    def score(self, guess: SolvedEmbeddings, truth: StructureTruth) -> tuple[Measurement, ...]:
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
    batches = [batch for batch in view.messages(Phase.QUERY_ANSWERS) if not batch.step.evaluation]
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
