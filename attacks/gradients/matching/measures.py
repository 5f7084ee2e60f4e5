"""How near reconstructed rows and graphs are to the true ones, and what an audit says of them.

How near a reconstructed graph is to the true one: edges, neighbourhoods and the whole.

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
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from fgl_secure.attacks.areas import area
from fgl_secure.attacks.base import Measurement
from fgl_secure.attacks.gradients.matching.exhibits import Exhibit
from fgl_secure.attacks.gradients.matching.joint import likeliest_edges
from fgl_secure.attacks.gradients.matching.reconstruction import Reconstruction
from fgl_secure.attacks.gradients.truth import GradientTruth
from fgl_secure.statistics.metrics import clustered_proportion

Bools = NDArray[np.bool_]

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]

HALF_STEP = 1 / 32
"""A row counts as recovered if no entry is off by as much: half a step of 16 levels of grey, and well below one half
where features are zeros and ones."""


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


def matched(found: NDArray[Any], true: NDArray[Any], batch: int) -> Ids:
    """Which found row stands for each true one: int64 [m], the assignment of least squared distance.

    The order of nodes changes no gradient, so a reconstruction can't know it. Rows of the batch, the first b, are
    matched among themselves, and so are the others.

    Args:
        found: [m, d].
        true: [m, d].
        batch: b.
    """
    order = np.empty(len(true), dtype=np.int64)
    for part in (np.arange(batch), np.arange(batch, len(true))):
        rows, columns = linear_sum_assignment(cdist(true[part], found[part], "sqeuclidean"))
        order[part[rows]] = part[columns]
    return order


def row_scores(found: NDArray[Any], true: NDArray[Any]) -> RowScores:
    """Compares rows [m, d] that are in the same order."""
    error = np.asarray(found, dtype=np.float64) - true
    return RowScores(
        float(np.sqrt((error**2).mean())), float(cosines(found, true).mean()), float(recovered(found, true).mean()),
        len(true),
    )  # fmt: skip


def recovered(found: NDArray[Any], true: NDArray[Any]) -> NDArray[np.bool_]:
    """Bool [m], which rows [m, d] are right in every entry up to half a step."""
    return np.asarray(np.abs(np.asarray(found, dtype=np.float64) - true).max(axis=1) < HALF_STEP)


def cosines(found: NDArray[Any], true: NDArray[Any]) -> Floats:
    """float64 [m], cosines of rows [m, d]; 0 where one is all zeros."""
    lengths = np.linalg.norm(found, axis=1) * np.linalg.norm(true, axis=1)
    products = (np.asarray(found, dtype=np.float64) * true).sum(axis=1)
    quotient: Floats = np.divide(products, lengths, out=np.zeros(len(lengths)), where=lengths > 0)
    return quotient


def class_means(public: NDArray[Any], labels: Ids, wanted: Ids) -> Floats:
    """The prior: the mean public row of the class of each wanted label, float64 [k, d].

    Args:
        public: [n, d], rows of nodes that somebody else published.
        labels: int64 [n].
        wanted: int64 [k]; a class without public rows has the mean of all.
    """
    everyone = public.mean(axis=0, dtype=np.float64)
    means = [public[labels == each].mean(axis=0, dtype=np.float64) if (labels == each).any() else everyone
             for each in wanted]  # fmt: skip
    return np.stack(means)


@dataclass(frozen=True, slots=True, eq=False)
class Inverted:
    """What was made of each gradient.

    Attributes:
        exhibits: the gradients.
        found: a reconstruction of each.
    """

    exhibits: tuple[Exhibit, ...]
    found: tuple[Reconstruction, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Aligned:
    """A reconstruction in the order of the truth: devices int64 [m], rows [m, d], order int64 [m], batch b."""

    devices: Ids
    rows: Floats
    order: Ids
    batch: int


def aligned_with(guess: Inverted, truth: GradientTruth) -> list[Aligned]:
    """Every reconstruction in the order of the devices that its field is made of."""
    return [_aligned(exhibit, found, truth) for exhibit, found in zip(guess.exhibits, guess.found, strict=True)]


def _aligned(exhibit: Exhibit, found: Reconstruction, truth: GradientTruth) -> Aligned:
    devices = np.empty(exhibit.seen.field.nodes, dtype=np.int64)
    devices[exhibit.place] = np.concatenate([truth.fields[int(client)] for client in exhibit.clients])
    order = matched(found.features, truth.features[devices], exhibit.seen.field.batch)
    return Aligned(devices, found.features[order], order, exhibit.seen.field.batch)


def rows_recovered(aligned: list[Aligned], truth: GradientTruth) -> Measurement:
    """The share of batch nodes whose rows are right up to half a step of grey."""
    hits = [recovered(each.rows[: each.batch], truth.features[each.devices[: each.batch]]) for each in aligned]
    usual = [recovered(_prior(each, truth), truth.features[each.devices[: each.batch]]) for each in aligned]
    told = "rows of nodes in batches are found with every entry right within 1/32."
    return _share("rows recovered", hits, float(np.concatenate(usual).mean()), 0.0, told)


def nodes_told(aligned: list[Aligned], truth: GradientTruth) -> Measurement:
    """The share of batch nodes that a public list of all rows would tell by what was found."""
    hits = [_own_nearest(each.rows[: each.batch], each, truth) for each in aligned]
    usual = [_own_nearest(_prior(each, truth), each, truth) for each in aligned]
    told = "nodes in batches have no other node's row nearer to what was found than their own."
    random = 1 / len(truth.features)
    return _share("nodes told by their rows", hits, float(np.concatenate(usual).mean()), random, told)


def edges_found(guess: Inverted, aligned: list[Aligned]) -> Measurement | None:
    """The share of edges among as many pairs of largest weight; None where no field has any.

    Counted are edges that some average on the way to the batch depends on: the others leave no trace in a gradient. The
    prior is to join the nodes of the batch with each other and with all others first, or any at random if that is
    better.
    """
    hits, usual, density = [], [], []
    for exhibit, found, each in zip(guess.exhibits, guess.found, aligned, strict=True):
        field, weights = exhibit.seen.field, found.adjacency
        if weights is None or not field.pairs:
            continue
        there = np.triu(field.adjacency * field.averaged(exhibit.seen.model.reach), 1) > 0
        hits.append(likeliest_edges(weights[np.ix_(each.order, each.order)], field.pairs)[there])
        usual.append(likeliest_edges(_around_batch(field.nodes, field.batch), field.pairs)[there])
        density.append(np.full(len(hits[-1]), 2 * field.pairs / (field.nodes * (field.nodes - 1))))
    if not sum(len(each) for each in hits):
        return None
    told = "edges that a gradient depends on are among as many pairs of largest weight as there are edges."
    prior, random = float(np.concatenate(usual).mean()), float(np.concatenate(density).mean())
    return _share("edges found", hits, prior, random, told)


def _around_batch(nodes: int, batch: int) -> Floats:
    """Float64 [m, m]: how many ends of each pair are in the batch."""
    inside = (np.arange(nodes) < batch).astype(np.float64)
    return np.add.outer(inside, inside)


def _share(metric: str, hits: list[Bools], prior: float, random: float, told: str) -> Measurement:
    """The share of hits, whose units come in clusters: those of one gradient. A prior is no worse than chance."""
    hit, cluster = np.concatenate(hits), np.repeat(np.arange(len(hits)), [len(each) for each in hits])
    share = clustered_proportion(hit, cluster, seed=0)
    finding = f"{int(hit.sum()):,} of {len(hit):,} {told}"
    return Measurement.of_share(metric, share, finding, random=random, prior=max(prior, random))


def _prior(each: Aligned, truth: GradientTruth) -> Floats:
    """The mean row of each batch node's class: the best guess of who knows labels and public rows."""
    return class_means(truth.features, truth.labels, truth.labels[each.devices[: each.batch]])


def _own_nearest(rows: Floats, each: Aligned, truth: GradientTruth) -> Bools:
    """Bool [b]: whether no row of another node is nearer to each row than the node's own."""
    apart = cdist(rows, truth.features, "sqeuclidean")
    own = apart[np.arange(each.batch), each.devices[: each.batch]]
    return np.asarray(own <= apart.min(axis=1))


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


def graph_scores(found: NDArray[Any], guessed: Floats, true: NDArray[Any], adjacency: Floats) -> GraphScores:
    """Compares rows [m, d] and adjacencies [m, m] of zeros and ones of two graphs in the same order."""
    levels = [float((np.abs(found - true) < HALF_STEP).mean())]
    here, there = np.asarray(found, dtype=np.float64), np.asarray(true, dtype=np.float64)
    for _ in range(HOPS):
        here, there = _averaged(here, guessed), _averaged(there, adjacency)
        levels.append(_determination(here, there))
    full = bool(recovered(found, true).all() and np.array_equal(guessed, adjacency))
    return GraphScores(tuple(levels), full)


def _averaged(rows: Floats, adjacency: Floats) -> Floats:
    looped = adjacency + np.eye(len(adjacency))
    root = 1 / np.sqrt(looped.sum(axis=1, keepdims=True))
    return np.asarray(root * (looped @ (root * rows)))


def _determination(found: Floats, true: Floats) -> float:
    """R^2 over all entries, at least 0."""
    spread = ((true - true.mean()) ** 2).sum()
    return max(0.0, 1 - float(((found - true) ** 2).sum() / spread)) if spread > 0 else 0.0
