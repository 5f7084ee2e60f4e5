"""Which nodes was a model trained on? Scores of membership from a model's answers and those of shadow models.

All functions take log probabilities of the true labels, and give one score a node, higher for what looks more like a
member. Shadow models are told apart from the attacked one by being trained on nodes that the attacker drew.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

from fgl_secure.attacks.areas import area
from fgl_secure.errors import InputError
from fgl_secure.graph import Graph
from fgl_secure.statistics.metrics import Interval, clopper_pearson, exact_proportion
from fgl_secure.typing import Flags, Floats, Ids

LEAST = 1e-12
"""Smallest probability, of a label and of all others together, that a score uses."""
MANY = 64
"""Shadow models from which on each node has a variance of its own (Carlini et al., S&P 2022, section V-B)."""


def _logits_of(log_probability: Floats) -> Floats:
    """log(p / (1 - p)), which is close to normal over models (Carlini et al., S&P 2022, section V-A)."""
    p = np.exp(log_probability)
    return np.asarray(np.log(np.maximum(p, LEAST)) - np.log(np.maximum(1 - p, LEAST)))


def lira_online(target: Floats, shadows: Floats, members: Flags) -> Floats:
    """The likelihood ratio attack with shadow models that were trained on a node (Carlini et al., S&P 2022, Alg. 1).

    Args:
        target: float64 [n], log probabilities of the attacked model.
        shadows: float64 [m, n], those of shadow models.
        members: bool [m, n], the nodes that each shadow model was trained on.
    """
    inside, outside, value = _normal(shadows, members), _normal(shadows, ~members), _logits_of(target)
    return np.asarray(norm.logpdf(value, *inside) - norm.logpdf(value, *outside))


def lira_offline(target: Floats, shadows: Floats, members: Flags) -> Floats:
    """The same without models that were trained on a node: how far its logit exceeds those of models that were not."""
    mean, deviation = _normal(shadows, ~members)
    return np.asarray((_logits_of(target) - mean) / deviation)


def _normal(shadows: Floats, chosen: Flags) -> tuple[Floats, Floats]:
    """Mean [n] and standard deviation [n] of logits over the chosen models of each node.

    With fewer than `MANY` models all nodes share one variance. A node without a chosen model takes the mean of all.
    """
    logits, count = _logits_of(shadows), chosen.sum(axis=0)
    total = np.where(chosen, logits, 0).sum(axis=0)
    overall = total.sum() / max(count.sum(), 1)
    mean = np.where(count > 0, total / np.maximum(count, 1), overall)
    squares = np.where(chosen, (logits - mean) ** 2, 0).sum(axis=0)
    pooled = squares.sum() / max(count.sum(), 1)
    variance = squares / np.maximum(count, 1) if len(shadows) >= MANY else np.full(len(mean), pooled)
    return mean, np.sqrt(np.maximum(np.where(count > 1, variance, pooled), LEAST))


def rmia(target: Floats, shadows: Floats) -> Floats:
    """The node's probability over its mean over shadow models, as logarithm.

    BASE (Lassila et al., NeurIPS 2025) and RMIA (Zarifzadeh et al., ICML 2024) with the whole population as reference
    both rank nodes in this order.
    """
    most = shadows.max(axis=0)
    return np.asarray(target - most - np.log(np.exp(shadows - most).mean(axis=0)))


def membership_scores(target: Floats, shadows: Floats, members: Flags) -> dict[str, Floats]:
    """Return the scores of all attacks on single answers, by name; arguments as for `lira_online`."""
    return {
        "loss": target,
        "LiRA online": lira_online(target, shadows, members),
        "LiRA offline": lira_offline(target, shadows, members),
        "RMIA": rmia(target, shadows),
    }


FOLDS = 5


def blind_scores(graph: Graph, nodes: Ids, members: Flags, seed: int) -> Floats:
    """Score nodes without the model, by a linear fit to others' membership: above one half the split itself tells.

    Args:
        graph: degrees, labels and features are fitted to.
        nodes: int64 [v], labelled ones.
        members: bool [v].
        seed: of projections and folds.
    """
    rng = np.random.default_rng(seed)
    degree = np.bincount(graph.edges.ravel(), minlength=graph.num_nodes)[nodes]
    labels = np.eye(int(graph.labels.max()) + 1)[graph.labels[nodes]]
    features = graph.features[nodes].astype(np.float64)
    projected = features @ rng.standard_normal((features.shape[1], min(features.shape[1], 50)))
    design = np.column_stack([np.log1p(degree), labels, projected, np.ones(len(nodes))])
    design = (design - design.mean(axis=0)) / np.maximum(design.std(axis=0), 1e-9)
    scores, fold = np.zeros(len(nodes)), rng.permutation(len(nodes)) % FOLDS
    for held_out in range(FOLDS):
        fit, test = fold != held_out, fold == held_out
        left = design[fit].T @ design[fit] + len(nodes) / 10 * np.eye(design.shape[1])
        target = members[fit] - members[fit].mean()
        scores[test] = design[test] @ np.linalg.solve(left, design[fit].T @ target)
    return scores


@dataclass(frozen=True, slots=True)
class Power:
    """How well scores tell members from others.

    Attributes:
        auc: area under the curve.
        auc_interval: its 95 % interval (DeLong et al., Biometrics 44, 1988).
        rates: by the largest allowed false-positive rate, what is reached there.
    """

    auc: float
    auc_interval: Interval
    rates: dict[float, RateAt]


@dataclass(frozen=True, slots=True)
class RateAt:
    """A true-positive rate at a bounded false-positive rate.

    Attributes:
        tpr: share of members above the threshold.
        interval: its 95 % interval (Clopper-Pearson).
        fpr: share of others above it: the realised rate, at most the allowed one.
    """

    tpr: float
    interval: Interval
    fpr: float


def power_of(scores: Floats, members: Flags, rates: tuple[float, ...] = (0.01, 0.001)) -> Power:
    """Compare scores with the truth.

    Args:
        scores: float64 [n], without NaN.
        members: bool [n], with both kinds.
        rates: largest false-positive rates.

    Raises:
        InputError: all nodes are members, or none.
    """
    if members.all() or not members.any():
        raise InputError(f"members must be some of {len(members)} nodes and not all; found {int(members.sum())}")
    value = area(scores[members], scores[~members])
    return Power(
        value,
        _area_interval(value, scores[members], scores[~members]),
        {rate: _rate_at(claims_at(scores, members, rate), members) for rate in rates},
    )


def _area_interval(value: float, inside: Floats, outside: Floats) -> Interval:
    """DeLong's interval; Clopper and Pearson's on the rarer kind where no score of one kind is among the other's."""
    variance = 0.0
    for each, other in ((inside, np.sort(outside)), (outside, np.sort(inside))):
        below = np.searchsorted(other, each, side="left") + np.searchsorted(other, each, side="right")
        variance += float(np.var(below / (2 * len(other)), ddof=min(1, len(each) - 1))) / len(each)
    if variance == 0:
        return clopper_pearson(value * min(len(inside), len(outside)), min(len(inside), len(outside)))
    half = 1.96 * variance**0.5
    return Interval(max(value - half, 0.0), min(value + half, 1.0))


def claims_at(scores: Floats, members: Flags, rate: float) -> Flags:
    """Nodes above the lowest threshold that at most a share `rate` of the others exceeds."""
    others = np.sort(scores[~members])[::-1]
    return np.asarray(scores > others[min(int(rate * len(others)), len(others) - 1)])


def union_at(all_scores: list[Floats], members: Flags, rate: float) -> RateAt:
    """What several attacks find together: each gets an equal part of the allowed rate (Bonferroni)."""
    claimed = [claims_at(scores, members, rate / len(all_scores)) for scores in all_scores]
    return _rate_at(np.logical_or.reduce(claimed), members)


def _rate_at(claimed: Flags, members: Flags) -> RateAt:
    found = exact_proportion(int(claimed[members].sum()), int(members.sum()))
    return RateAt(found.value, found.interval, float(claimed[~members].mean()))
