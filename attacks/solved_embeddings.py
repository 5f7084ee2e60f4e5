"""Structure embeddings of single nodes that observers solve sums for, and how they are scored."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.base import Measurement
from fgl_secure.attacks.recovery import largest_share
from fgl_secure.attacks.row_space import Solver
from fgl_secure.attacks.truth import Truth
from fgl_secure.runtime import Step
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


def score_solved_embeddings(guess: SolvedEmbeddings, truth: Truth) -> tuple[Measurement, ...]:
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
        Measurement(name, share.value, share.interval, share.n, 0.0, prior, reach, True, finding),
        _share_of_nodes(guess, right, finding),
    )
    if not len(right):
        return found
    exact = clustered_proportion(right, guess.nodes, seed=0)
    value, interval, n = exact.value, exact.interval, exact.n
    rows = Measurement("exact recovery", value, interval, n, 0.0, float(common.mean()), 1.0, True, finding)
    return (rows, *found, _labels(guess, truth))


def _right(guess: SolvedEmbeddings, truth: Truth) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
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
    value, interval, n = share.value, share.interval, share.n
    reach = int(guess.systems.exposed.sum()) / max(int(touched.sum()), 1)
    return Measurement("nodes exposed", value, interval, n, 0.0, 0.0, reach, True, finding, context=True)


def _labels(guess: SolvedEmbeddings, truth: Truth) -> Measurement:
    """How often the largest coordinate of a claimed row is the node's label; right rows can tell no more of it."""
    actual = truth.labels[guess.nodes]
    right = guess.values.argmax(axis=1) == actual
    share = clustered_proportion(right, guess.nodes, seed=0)
    value, interval, n = share.value, share.interval, share.n
    reach = float((truth.embeddings[guess.step][guess.nodes].argmax(axis=1) == actual).mean())
    finding = (
        f"The largest coordinate of {int(right.sum()):,} of {len(right):,} rows that are read is the node's label."
    )
    random, prior = 1 / (int(truth.labels.max()) + 1), largest_share(actual[:, None])
    return Measurement("labels", value, interval, n, random, prior, reach, True, finding)
