"""How near reconstructed rows, edges and graphs come to the true ones.

The figures GSM-0, GSM-1, GSM-2 and FULL are those of GRAIN (Drencheva et al., ICLR 2025), with what its evaluation
takes from the attacked network replaced by something that depends on the graph alone:

* nodes are matched first, one to one, by an assignment (theirs is by hidden states, ours by rows);
* GSM-0 is agreement of the features themselves: theirs the F1 of categorical features, here, where features are
  numbers, the share of entries that are right up to half a step;
* GSM-N for N = 1, 2 is the coefficient of determination R^2, at least 0, between what N layers make of both graphs:
  theirs are the layers of the attacked network, ours N averages with D^-1/2 (A + I) D^-1/2 without weights;
* all are multiplied by the smaller over the larger number of nodes, which is 1 here as sizes are known;
* FULL is 1 if every row is recovered and every edge is right.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.areas import area
from fgl_secure.attacks.gradients.inversion import likeliest_edges
from fgl_secure.attacks.gradients.matching import HALF_STEP, is_recovered
from fgl_secure.typing import Floats


@dataclass(frozen=True, slots=True)
class RowScores:
    """How near rows are to those that they are matched with.

    Attributes:
        rmse: root of the mean squared error over rows and entries.
        cosine: mean cosine of rows, 0 for rows of zeros.
        exact: share of rows without an entry that is off by 1/32 or more.
        rows: how many there are.
    """

    rmse: float
    cosine: float
    exact: float
    rows: int


def row_scores(result: NDArray[Any], true: NDArray[Any]) -> RowScores:
    """Compares rows [m, d] that are in the same order."""
    error = np.asarray(result, dtype=np.float64) - true
    return RowScores(
        float(np.sqrt((error**2).mean())), float(cosines(result, true).mean()),
        float(is_recovered(result, true).mean()), len(true),
    )  # fmt: skip


def cosines(result: NDArray[Any], true: NDArray[Any]) -> Floats:
    """float64 [m], cosines of rows [m, d]; 0 where one is all zeros."""
    lengths = np.linalg.norm(result, axis=1) * np.linalg.norm(true, axis=1)
    products = (np.asarray(result, dtype=np.float64) * true).sum(axis=1)
    quotient: Floats = np.divide(products, lengths, out=np.zeros(len(lengths)), where=lengths > 0)
    return quotient


HOPS = 2


@dataclass(frozen=True, slots=True)
class EdgeScores:
    """How well weights of pairs tell edges.

    Attributes:
        auc: probability that an edge has a larger weight than another pair; .5 where either is missing.
        f1: of the pairs of largest weight, as many as there are edges; precision and recall are the same.
        density: share of pairs that are edges, the f1 of a random guess.
        pairs: how many pairs there are.
    """

    auc: float
    f1: float
    density: float
    pairs: int


@dataclass(frozen=True, slots=True)
class GraphScores:
    """Agreement of two graphs.

    Attributes:
        gsm: GSM-0, GSM-1 and GSM-2, see above.
        full: whether all of it is right.
    """

    gsm: tuple[float, ...]
    full: bool


def edge_scores(weights: Floats, true: Floats) -> EdgeScores:
    """Compares weights [m, m] with an adjacency [m, m] of zeros and ones, both symmetric and in the same order."""
    upper = np.triu_indices(len(true), 1)
    score, edge = weights[upper], true[upper] > 0
    top = likeliest_edges(weights, int(edge.sum()))[upper]
    f1 = float((top & edge).sum() / max(int(edge.sum()), 1))
    return EdgeScores(area(score[edge], score[~edge]), f1, float(edge.mean()) if len(edge) else 0.0, len(edge))


def graph_scores(result: NDArray[Any], guessed: Floats, true: NDArray[Any], adjacency: Floats) -> GraphScores:
    """Compares rows [m, d] and adjacencies [m, m] of zeros and ones of two graphs in the same order."""
    levels = [float((np.abs(result - true) < HALF_STEP).mean())]
    here, there = np.asarray(result, dtype=np.float64), np.asarray(true, dtype=np.float64)
    for _ in range(HOPS):
        here, there = _propagate(here, guessed), _propagate(there, adjacency)
        levels.append(_determination(here, there))
    full = bool(is_recovered(result, true).all() and np.array_equal(guessed, adjacency))
    return GraphScores(tuple(levels), full)


def _propagate(rows: Floats, adjacency: Floats) -> Floats:
    looped = adjacency + np.eye(len(adjacency))
    root = 1 / np.sqrt(looped.sum(axis=1, keepdims=True))
    return np.asarray(root * (looped @ (root * rows)))


def _determination(result: Floats, true: Floats) -> float:
    """R^2 over all entries, at least 0."""
    spread = ((true - true.mean()) ** 2).sum()
    return max(0.0, 1 - float(((result - true) ** 2).sum() / spread)) if spread > 0 else 0.0
