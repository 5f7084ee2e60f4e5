"""Which nodes are neighbours? Link stealing from a model's answers, and from answers to changed features."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import expit, log_expit

from fgl_secure.attacks.areas import Ranking, area, area_interval
from fgl_secure.errors import InputError
from fgl_secure.graph import Graph
from fgl_secure.statistics.metrics import Interval
from fgl_secure.typing import Flags, Floats, Ids

DISTANCES: dict[str, Callable[[Floats, Floats], Floats]] = {
    "cosine": lambda a, b: 1 - cosine(a, b),
    "correlation": lambda a, b: 1 - cosine(_centred(a), _centred(b)),
    "Euclidean": lambda a, b: np.sqrt(((a - b) ** 2).sum(axis=1)),
    "squared Euclidean": lambda a, b: ((a - b) ** 2).sum(axis=1),
    "Manhattan": lambda a, b: np.abs(a - b).sum(axis=1),
    "Chebyshev": lambda a, b: np.abs(a - b).max(axis=1),
    "Bray-Curtis": lambda a, b: np.abs(a - b).sum(axis=1) / np.maximum(np.abs(a + b).sum(axis=1), 1e-300),
    "Canberra": lambda a, b: (np.abs(a - b) / np.maximum(np.abs(a) + np.abs(b), 1e-300)).sum(axis=1),
}
"""Distances [k] of rows [k, c], as in He et al., USENIX Security 2021, Table 3."""
NEGATIVES = ("random", "2 hops", "same class")
"""Kinds of pairs without an edge: any, with a common neighbour, with equal labels."""


def _centred(rows: Floats) -> Floats:
    return np.asarray(rows - rows.mean(axis=1, keepdims=True))


def cosine(a: Floats, b: Floats) -> Floats:
    """Return the cosine of rows [k, d], float64 [k]; 0 for a row of zeros."""
    return np.asarray((a * b).sum(axis=1) / np.maximum(np.sqrt((a * a).sum(axis=1) * (b * b).sum(axis=1)), 1e-300))


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Pairs of nodes, with and without an edge.

    Attributes:
        ends: int64 [2, k], the smaller end first.
        linked: bool [k].
        negatives: kind of the pairs without an edge.
    """

    ends: Ids
    linked: Flags
    negatives: str


def draw_pairs(graph: Graph, negatives: str, *, most: int = 5_000, seed: int = 0) -> Pairs:
    """Draw as many pairs without an edge as there are pairs with one.

    Args:
        graph: whose edges are taken in both directions.
        negatives: one of `NEGATIVES`.
        most: pairs of each kind.
        seed: of the draw.

    Raises:
        InputError: the graph has no edge, or no pair of that kind.
    """
    rng, n = np.random.default_rng(seed), graph.num_nodes
    keys = np.unique(graph.edges.min(axis=0) * n + graph.edges.max(axis=0))
    if not len(keys):
        raise InputError("graph must have an edge for links to be inferred; found none")
    positive = rng.choice(keys, min(most, len(keys)), replace=False)
    if negatives == "2 hops":
        ones = np.ones(graph.edges.shape[1], dtype=np.int64)
        adjacency = sparse.csr_array((ones, tuple(graph.edges)), shape=(n, n))
        near = sparse.triu(adjacency @ adjacency.T + adjacency.T @ adjacency, 1).tocoo()
        pool = near.coords[0].astype(np.int64) * n + near.coords[1]
    elif negatives in NEGATIVES:
        drawn = rng.integers(n, size=(2, 40 * len(positive)))
        if negatives == "same class":
            drawn = drawn[:, (graph.labels[drawn[0]] == graph.labels[drawn[1]]) & (graph.labels[drawn[0]] >= 0)]
        drawn = drawn[:, drawn[0] != drawn[1]]
        pool = drawn.min(axis=0) * n + drawn.max(axis=0)
    else:
        raise InputError(f"negatives must be one of {', '.join(NEGATIVES)}; found {negatives!r}")
    pool = np.setdiff1d(pool, keys)
    if not len(pool):
        raise InputError(f"graph must have pairs without an edge of the kind {negatives!r}; found none")
    negative = rng.choice(pool, min(len(positive), len(pool)), replace=False)
    ends = np.stack(np.divmod(np.concatenate([positive, negative]), n))
    return Pairs(ends, np.arange(ends.shape[1]) < len(positive), negatives)


@dataclass(frozen=True, slots=True)
class LinkArea:
    """How well scores tell linked pairs from others.

    Attributes:
        auc: area under the curve.
        interval: its 95 % interval, by resampling nodes.
        baseline: area of the best score without the model: cosine of features, or equal labels.
        pairs: number of pairs.
    """

    auc: float
    interval: Interval
    baseline: float
    pairs: int


def score_pairs(scores: Floats, pairs: Pairs, graph: Graph) -> LinkArea:
    """Compare scores, higher for what looks more like an edge, with the truth."""
    (first, second), features, labels = pairs.ends, graph.features.astype(np.float64), graph.labels
    without = (cosine(features[first], features[second]), (labels[first] == labels[second]).astype(np.float64))
    baseline = max(_area(each, pairs.linked) for each in without)
    value, units = _area(scores, pairs.linked), int(min(pairs.linked.sum(), (~pairs.linked).sum()))
    ranking = Ranking(pairs.ends, scores, pairs.linked)
    interval = area_interval(value, [ranking], np.ones(1, np.int64), graph.num_nodes, units)
    return LinkArea(value, interval, baseline, len(scores))


def _area(scores: Floats, linked: Flags) -> float:
    return area(scores[linked], scores[~linked])


def answer_distances(answers: Floats, pairs: Pairs, distance: str = "correlation") -> Floats:
    """Score pairs by how close a model's answers for both ends are (attack 0 of He et al., USENIX Security 2021).

    Args:
        answers: float64 [n, c], probabilities of each node.
        pairs: of nodes.
        distance: one of `DISTANCES`.

    Returns:
        float64 [k], the negative distances.
    """
    if distance not in DISTANCES:
        raise InputError(f"distance must be one of {', '.join(DISTANCES)}; found {distance!r}")
    first, second = pairs.ends
    return -DISTANCES[distance](answers[first], answers[second])


RIDGE = 1e-2


@dataclass(frozen=True, slots=True, eq=False)
class KnownPairs:
    """Pairs of which the attacker knows whether they have an edge, of the attacked graph or of one of its own.

    Attributes:
        pairs: of nodes.
        answers: float64 [n, c], those of a model of that graph.
        features: float64 [n, d] of its nodes; None where they are not used.
    """

    pairs: Pairs
    answers: Floats
    features: Floats | None = None


def pair_features(answers: Floats, ends: Ids, features: Floats | None = None) -> Floats:
    """Describe pairs by eight distances and four comparisons of entropies, and by distances of features if given.

    Args:
        answers: float64 [n, c], probabilities of each node.
        ends: int64 [2, k].
        features: float64 [n, d].

    Returns:
        float64 [k, 12] or [k, 20]; the number of classes and of features is not in it, so that graphs compare.
    """
    first, second = ends
    entropy = -(answers * np.log(np.maximum(answers, 1e-300))).sum(axis=1)
    a, b = entropy[first], entropy[second]
    columns = [each(answers[first], answers[second]) for each in DISTANCES.values()]
    columns += [(a + b) / 2, a * b, np.abs(a - b), (a - b) ** 2]
    if features is not None:
        columns += [each(features[first], features[second]) for each in DISTANCES.values()]
    return np.stack(columns, axis=1)


def learn_links(answers: Floats, pairs: Pairs, known: Sequence[KnownPairs], features: Floats | None = None) -> Floats:
    """Score pairs by a logistic regression on pairs that are known (attacks 1 and 3 to 7 of He et al.).

    Args:
        answers: float64 [n, c], probabilities of each node by the attacked model.
        pairs: of its nodes; their truth is not read.
        known: pairs of the attacked graph, of another, or of both.
        features: float64 [n, d] of the attacked graph's nodes, if they are used.

    Returns:
        float64 [k], higher for what looks more like an edge.

    Raises:
        InputError: known pairs are all linked, or none; or some have features and others not.

    Examples:
        >>> import numpy as np
        >>> pairs = Pairs(np.array([[0, 0], [1, 2]]), np.array([True, False]), "random")
        >>> answers = np.array([[0.9, 0.1], [0.8, 0.2], [0.1, 0.9]])
        >>> int(learn_links(answers, pairs, [KnownPairs(pairs, answers)]).argmax())
        0
    """
    linked = np.concatenate([each.pairs.linked for each in known]) if known else np.zeros(0, np.bool_)
    if linked.all() or not linked.any():
        raise InputError(f"known pairs must have an edge in some cases and none in others; found {len(linked)} pairs")
    if any((each.features is None) != (features is None) for each in known):
        raise InputError("features must be given for all graphs or for none; found both")
    rows = np.concatenate([pair_features(each.answers, each.pairs.ends, each.features) for each in known])
    mean, deviation = rows.mean(axis=0), np.maximum(rows.std(axis=0), 1e-12)
    design = (rows - mean) / deviation
    sign = np.where(linked, 1.0, -1.0)

    def loss(weights: Floats) -> tuple[float, Floats]:
        margin = sign * (design @ weights[:-1] + weights[-1])
        slope = -sign * expit(-margin) / len(sign)
        gradient = np.append(design.T @ slope + RIDGE * weights[:-1], slope.sum())
        return float(-log_expit(margin).mean() + RIDGE / 2 * (weights[:-1] ** 2).sum()), gradient

    weights = minimize(loss, np.zeros(design.shape[1] + 1), jac=True, method="L-BFGS-B").x
    return np.asarray((pair_features(answers, pairs.ends, features) - mean) / deviation @ weights[:-1])


def attack_links(
    answers: Floats, pairs: Pairs, graph: Graph, *, known: float = 0.1, seed: int = 0
) -> dict[int, LinkArea]:
    """Measure attacks 0, 2, 3 and 6 of He et al.: without and with features, and with some pairs known.

    Args:
        answers: float64 [n, c], probabilities of each node by the attacked model.
        pairs: of nodes.
        graph: features and labels.
        known: share of the pairs that the attacker knows in attacks 3 and 6; these are not scored.
        seed: of the draw of known pairs.

    Returns:
        By the attack's number; attacks 3 and 6 are left out where known pairs are of one kind.
    """
    features = graph.features.astype(np.float64)
    close = answer_distances(answers, pairs)
    alike = cosine(features[pairs.ends[0]], features[pairs.ends[1]])
    scores = {0: close, 2: sum(each / max(float(each.std()), 1e-12) for each in (close, alike))}
    out = {number: score_pairs(np.asarray(each), pairs, graph) for number, each in scores.items()}
    is_known = np.random.default_rng([seed, 3]).random(len(pairs.linked)) < known
    training, scored = (
        Pairs(pairs.ends[:, each], pairs.linked[each], pairs.negatives) for each in (is_known, ~is_known)
    )
    if all(each.linked.any() and not each.linked.all() for each in (training, scored)):
        for number, used in ((3, None), (6, features)):
            learned = learn_links(answers, scored, [KnownPairs(training, answers, used)], used)
            out[number] = score_pairs(learned, scored, graph)
    return out


def influences(predict: Callable[[Floats], Any], features: Floats, nodes: Ids, *, step: float = 1e-5) -> Floats:
    """How much each node's answer depends on each other node's features (LinkTeller, Wu et al., S&P 2022, Alg. 1).

    Zero influence between nodes of a model of L layers says that no path of L edges joins them.

    Args:
        predict: takes features float64 [n, d] and gives logits or probabilities [n, c] of a model in double precision.
        features: float64 [n, d].
        nodes: int64 [k], those that are compared.
        step: the features of a node are multiplied by 1 + step; single precision needs a larger one.

    Returns:
        float64 [k, k], symmetric, zero on the diagonal: norms of the change over the step.
    """
    before = np.asarray(predict(features), dtype=np.float64)[nodes]
    out = np.zeros((len(nodes), len(nodes)))
    for row, node in enumerate(nodes):
        changed = features.copy()
        changed[node] *= 1 + step
        after = np.asarray(predict(changed), dtype=np.float64)[nodes]
        out[row] = np.linalg.norm(after - before, axis=1) / step
    out = (out + out.T) / 2
    np.fill_diagonal(out, 0)
    return out
