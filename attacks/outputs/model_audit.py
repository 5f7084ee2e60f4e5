"""What a finished model reveals of its training nodes and of the graph: one call for any model of nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import ArrayLike

from fgl_secure.algebra.checks import as_floats
from fgl_secure.attacks.areas import area
from fgl_secure.attacks.outputs.links import NEGATIVES, LinkArea, attack_links, draw_pairs
from fgl_secure.attacks.outputs.membership import (
    LEAST,
    Power,
    RateAt,
    blind_scores,
    membership_scores,
    power_of,
    union_at,
)
from fgl_secure.attacks.outputs.neighbourhoods import Ask, Neighbourhoods, check_priors, draw_neighbourhoods, g_base
from fgl_secure.attacks.outputs.shadows import Shadows, ShadowTraining, SubgraphAnswers, train_shadows
from fgl_secure.ceilings import LINKS_AUC, MEMBERSHIP_AUC, MEMBERSHIP_TPR, Bounded, certainly_above
from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph, Graph
from fgl_secure.statistics.metrics import Interval
from fgl_secure.typing import Flags, Floats, Ids

RATES = (0.01, 0.001)
"""False-positive rates at which true-positive rates are reported."""
CONTROLS = 4
"""Shadow models that are attacked as controls."""
FEWEST = 20
"""Members, and others, of a subpopulation that gets a row."""

Predict = Callable[[torch.Tensor, torch.Tensor], Any]


@dataclass(frozen=True, slots=True)
class MembershipRow:
    """How well one attack tells training nodes from others.

    Attributes:
        attack: its name.
        query: what the attacker asks with: "features" alone, "features and edges", or "subgraphs" of its choice.
        nodes: which nodes: "all", "drawn" at random, or a subpopulation.
        power: areas and rates with their intervals; of a union of attacks None.
        union: what all attacks find together at each allowed false-positive rate; None of a single attack.
        null_auc: area of the same attack on a model that was trained on other nodes; None where it was not run.
        shadow_auc: area of the same attack on shadow models and their own training nodes; None likewise.
    """

    attack: str
    query: str
    nodes: str
    power: Power | None
    union: Mapping[float, RateAt] | None = None
    null_auc: float | None = None
    shadow_auc: float | None = None


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class ModelAudit:
    """What was inferred from a model's answers.

    Attributes:
        membership: a row for each attack, query and group of nodes.
        links: for each kind of pairs without an edge that the graph has, how well answers tell neighbours (attack 0).
        learned_links: the same with features, some known pairs, or both, by kind and by number of the attack.
        accuracy: share of correct answers about members and about others.
        shadows: number of shadow models.
    """

    membership: tuple[MembershipRow, ...]
    links: Mapping[str, LinkArea]
    accuracy: tuple[float, float]
    shadows: int
    learned_links: Mapping[tuple[str, int], LinkArea] = field(default_factory=dict)

    @property
    def worst(self) -> MembershipRow:
        """The row of one attack on all nodes, or nodes drawn from all, with the largest area; blind is none."""
        rows = [row for row in self.membership if row.power and row.nodes in WHOLE and row.attack != BLIND]
        return max(rows, key=lambda row: cast("Power", row.power).auc)

    def exceeds(self, auc: float = 0.55) -> tuple[str, ...]:
        """Attacks whose area, not that of a subpopulation, is certainly above a ceiling: its interval's lower end is.

        Examples:
            >>> ModelAudit((), {}, (1.0, 1.0), 0).exceeds(0.55)
            ()
        """
        return certainly_above(self.bounded(), MEMBERSHIP_AUC, auc)

    def bounded(self) -> Iterator[Bounded]:
        """Yield the figures that ceilings are compared with: of attacks on all nodes, or on nodes drawn from all."""
        for row in self.membership:
            if row.power is not None and row.nodes in WHOLE and row.attack != BLIND:
                what = f"{row.attack}, asked with {row.query}"
                yield Bounded(MEMBERSHIP_AUC, what, row.power.auc_interval.low)
                rate = row.power.rates[RATES[0]]
                yield Bounded(MEMBERSHIP_TPR, what, rate.interval.low - rate.fpr)
        for kind, link in self.links.items():
            yield Bounded(LINKS_AUC, f"links, other pairs: {kind}", link.interval.low)

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each figure.

        Each has attack, query, nodes, metric, value, low, high, fpr (realised) and baseline, and for areas of attacks
        on all nodes null and positive, the areas of the two controls.
        """
        out: list[dict[str, Any]] = []
        for row in self.membership:
            of = (row.attack, row.query, row.nodes)
            if row.power is not None:
                area = _figure(*of, "auc", row.power.auc, row.power.auc_interval, None, 0.5)
                out.append(area | {"null": row.null_auc, "positive": row.shadow_auc})
            rates = (row.union or {}) if row.power is None else row.power.rates
            for allowed, rate in rates.items():
                metric = f"tpr at {100 * allowed:g} % fpr"
                out.append(_figure(*of, metric, rate.tpr, rate.interval, rate.fpr, allowed))
        named = [("distance of answers", negatives, link) for negatives, link in self.links.items()]
        named += [(LEARNED[number], negatives, link) for (negatives, number), link in self.learned_links.items()]
        for attack, negatives, link in named:
            of = (attack, EDGES, f"pairs, {negatives}")
            out.append(_figure(*of, "auc", link.auc, link.interval, None, link.baseline))
        return out

    def to_dataframe(self) -> Any:  # pandas is optional
        """Return `rows` as a `pandas.DataFrame`.

        Raises:
            InputError: pandas is not installed.
        """
        try:
            import pandas as pd  # noqa: PLC0415  # takes a second
        except ImportError as error:
            raise InputError("to_dataframe needs pandas; install 'fgl-secure[tables]'") from error
        return pd.DataFrame(self.rows())

    def __repr__(self) -> str:
        inside, outside = self.accuracy
        lines = [
            f"Model audit: accuracy {inside:.3f} on members, {outside:.3f} on others; {self.shadows} shadow models"
        ]
        lines.append(f"{'membership':<14}{'asked with':<20}{'nodes':<18}{'AUC':<22}{'TPR at 1 % FPR':<22}null")
        for row in self.membership:
            power, rate = row.power, (row.union or {}).get(RATES[0])
            area = "" if power is None else _with_interval(power.auc, power.auc_interval)
            rate = power.rates[RATES[0]] if power is not None else rate
            at = "" if rate is None else _with_interval(rate.tpr, rate.interval)
            null = "" if row.null_auc is None else f"{row.null_auc:.3f}"
            lines.append(f"{row.attack:<14}{row.query:<20}{row.nodes:<18}{area:<22}{at:<22}{null}".rstrip())
        for negatives, link in self.links.items():
            area = _with_interval(link.auc, link.interval)
            lines.append(f"links, negatives {negatives}: AUC {area}, baseline {link.baseline:.3f}")
        for (negatives, number), link in self.learned_links.items():
            area = _with_interval(link.auc, link.interval)
            lines.append(f"links, {LEARNED[number]}, negatives {negatives}: AUC {area}, baseline {link.baseline:.3f}")
        return "\n".join(lines)


def _figure(
    attack: str,
    query: str,
    nodes: str,
    metric: str,
    value: float,
    interval: Interval,
    fpr: float | None,
    baseline: float,
) -> dict[str, Any]:
    of = {"attack": attack, "query": query, "nodes": nodes, "metric": metric}
    figures = {"value": value, "low": interval.low, "high": interval.high, "fpr": fpr, "baseline": baseline}
    return of | figures | {"null": None, "positive": None}


def _with_interval(value: float, interval: Interval) -> str:
    return f"{value:.3f} ({interval.low:.3f}-{interval.high:.3f})"


BLIND = "blind"
"""The attack without the model, which shows whether the split itself tells members."""
ALONE, EDGES, CHOSEN = "features", "features and edges", "subgraphs"
LEARNED = {2: "answers and features", 3: "known pairs", 6: "known pairs and features"}
"""What link attacks of He et al. with these numbers use beside answers."""
WHOLE = ("all", "drawn")
"""What rows call nodes that stand for all."""


def audit_model(
    predict: Predict | ArrayLike,
    graph: Any,  # Graph, FederatedGraph or PyTorch Geometric's Data
    members: ArrayLike,
    *,
    shadows: int | Shadows = 32,
    training: ShadowTraining | None = None,
    seed: int = 0,
    device: str = "cpu",
    folder: Any = None,
    neighbourhoods: int = 200,
    priors: ArrayLike | None = None,
) -> ModelAudit:
    """Measure what a node classifier's answers reveal: its training nodes, and edges of the graph.

    The attacker knows features, labels and edges of all candidate nodes, a similar training procedure, and asks the
    model. It trains shadow models on random halves of the nodes.

    Args:
        predict: takes features float32 [n, d] and edges int64 [2, m] as tensors and gives probabilities [n, c]. Or an
            array [n, c] of answers that were given with all edges; the model is then asked nothing else.
        graph: features, labels and edges, as the model is trained on them.
        members: bool [n] or indices of the nodes that the model was trained on. Nodes without a label count for
            neither kind.
        shadows: number of shadow models, or those of `train_shadows`.
        training: of the shadow models; the closer to the model's own, the stronger the attack.
        seed: of shadow models, pairs and folds.
        device: where shadow models are trained: "cpu" or "cuda".
        folder: where finished shadow models are kept, so that a call that was stopped goes on.
        neighbourhoods: nodes that G-BASE is played on, half of them members, where the model can be asked; 0 leaves it
            out.
        priors: [n] probabilities that a node is a training node before the model is asked, for G-BASE; None stands for
            the share of nodes that shadow models are trained on.

    Returns:
        Areas under the curve, true-positive rates at 1 % and 0.1 % false positives with the realised rate, and 95 %
        intervals, for each attack beside a baseline without the model, and areas for links.

    Raises:
        InputError: answers are not finite, do not sum to one or have another length; all nodes are members or none;
            there is one class; priors are no probabilities.

    Examples:
        >>> import numpy as np
        >>> from fgl_secure.graph import load
        >>> from fgl_secure.attacks.outputs import ShadowTraining, audit_model
        >>> graph = load("digits")
        >>> answers = np.full((graph.num_nodes, 10), 0.1)  # a model that learnt nothing
        >>> audit = audit_model(answers, graph, np.arange(900), shadows=2, training=ShadowTraining(epochs=1))
        >>> audit.links["random"].auc
        0.5
    """
    checked = _graph(graph)
    member = _flags(members, checked.num_nodes)
    scored = checked.labels >= 0
    if (member & scored).sum() in (0, scored.sum()):
        count = int(scored.sum())
        raise InputError(f"members must be some of {count} labelled nodes, and not all; found {int(member.sum())}")
    if neighbourhoods < 0:
        raise InputError(f"neighbourhoods must be at least 0; found {neighbourhoods}")
    if priors is not None:
        check_priors(as_floats(priors, "priors"), checked.num_nodes)
    answers = _answers(predict, checked)
    if not isinstance(shadows, Shadows):
        shadows = train_shadows(checked, shadows, training=training, seed=seed, device=device, folder=folder)
    if shadows.members.shape[1] != checked.num_nodes:
        raise InputError(f"shadows must be of {checked.num_nodes} nodes; found {shadows.members.shape[1]}")
    queries = None
    if callable(predict) and neighbourhoods and checked.edges.size:
        rng = np.random.default_rng([seed, 2])  # as many members as others, so that few of either kind are enough
        kinds = (rng.permutation(np.flatnonzero(each & scored)) for each in (member, ~member))
        nodes = np.sort(np.concatenate([each[: max(neighbourhoods // 2, 1)] for each in kinds]))
        drawn = draw_neighbourhoods(checked, nodes, node_priors(priors, checked, shadows), seed=seed)
        own, others = partial(_ask, predict, checked), answers_of(shadows, checked, device)
        queries = SubgraphQueries(drawn, drawn.compare(own), drawn.compare(others))
    return report_of(answers, checked, member, shadows, queries, seed)


@dataclass(frozen=True, slots=True, eq=False)
class SubgraphQueries:
    """Answers of models about neighbourhoods.

    Attributes:
        drawn: the nodes, and sets of others.
        own: float64 [2, k, 1, v], what the attacked model answered: see `Neighbourhoods.compare`.
        others: float64 [2, k, m, v], what shadow models did.
    """

    drawn: Neighbourhoods
    own: Floats
    others: Floats


def answers_of(shadows: Shadows, graph: Graph, device: str) -> Ask:
    """Ask shadow models about subgraphs."""
    return SubgraphAnswers(shadows, graph, device).log_probabilities


def node_priors(priors: ArrayLike | None, graph: Graph, shadows: Shadows) -> Floats:
    """Probabilities [n] of training nodes, unless given the share that shadow models have."""
    if priors is None:
        return np.full(graph.num_nodes, shadows.members[:, graph.labels >= 0].mean())
    return as_floats(priors, "priors")


def _ask(predict: Predict, graph: Graph, present: Flags) -> Floats:
    """Log probabilities [1, n] of the true labels on the subgraph of some nodes."""
    edges = graph.edges[:, present[graph.edges].all(axis=0)]
    with torch.no_grad():
        given = predict(torch.from_numpy(np.array(graph.features)), torch.from_numpy(np.array(edges)))
    answers = _checked_answers(given, graph)
    return np.log(np.maximum(answers[np.arange(len(answers)), np.maximum(graph.labels, 0)], LEAST))[None]


def report_of(
    answers: Mapping[str, Floats],
    graph: Graph,
    member: Flags,
    shadows: Shadows,
    queries: SubgraphQueries | None,
    seed: int,
) -> ModelAudit:
    """Attack answers that were given."""
    checked, scored = graph, graph.labels >= 0
    subject = _Subject(checked, member, scored, shadows, seed)
    rows = [subject.blind()]
    for query, given in answers.items():
        rows += subject.rows(query, given, None if queries is None else queries.drawn.nodes)
    if queries is not None:
        rows.append(subject.of_neighbourhoods(queries))
    last = answers.get(EDGES, next(iter(answers.values())))
    right = last.argmax(axis=1) == checked.labels
    links: dict[str, LinkArea] = {}
    learned_links: dict[tuple[str, int], LinkArea] = {}
    if EDGES in answers and checked.edges.size:
        for negatives in NEGATIVES:
            with suppress(InputError):  # a graph may have no pairs of the kind
                pairs = draw_pairs(checked, negatives, seed=seed)
                areas = attack_links(last, pairs, checked, seed=seed)
                links[negatives] = areas.pop(0)
                learned_links |= {(negatives, number): link for number, link in areas.items()}
    accuracy = float(right[member & scored].mean()), float(right[~member & scored].mean())
    return ModelAudit(tuple(rows), links, accuracy, len(shadows.members), learned_links)


@dataclass(frozen=True, slots=True, eq=False)
class _Subject:
    """One model's nodes, and the shadow models that attacks on it use."""

    graph: Graph
    member: Flags
    scored: Flags
    shadows: Shadows
    seed: int

    def of_neighbourhoods(self, queries: SubgraphQueries) -> MembershipRow:
        """The row of G-BASE, with its controls."""
        nodes, others = queries.drawn.nodes, queries.others
        member, inside = self.member[nodes], self.shadows.members[:, nodes]
        priors = queries.drawn.priors[nodes]
        controls = []
        for target in range(min(CONTROLS, len(inside) - 1)):
            rest = np.arange(len(inside)) != target
            scores = g_base(others[:, :, [target]], others[:, :, rest], inside[rest], priors)[0]
            controls.append([area(scores[each], scores[~each]) for each in (member, inside[target])])
        power = power_of(g_base(queries.own, others, inside, priors)[0], member, RATES)
        null, own = np.mean(controls, axis=0).tolist()
        return MembershipRow("G-BASE", CHOSEN, "drawn", power, None, null, own)

    def rows(self, query: str, answers: Floats, drawn: Ids | None) -> list[MembershipRow]:
        """A row for each attack, for all of them together, for subpopulations, and of RMIA for nodes drawn."""
        nodes = np.flatnonzero(self.scored)
        labels, member = self.graph.labels[nodes], self.member[nodes]
        own = np.log(np.maximum(answers[nodes, labels], LEAST))
        stored = self.shadows.apart if query == ALONE else self.shadows.joined
        all_shadows = stored[:, nodes, labels].astype(np.float64)
        inside = self.shadows.members[:, nodes]
        scores = membership_scores(own, all_shadows, inside)
        controls = self._controls(all_shadows, inside, member)
        out = [
            MembershipRow(name, query, "all", power_of(each, member, RATES), None, *controls[name])
            for name, each in scores.items()
        ]
        union = {rate: union_at(list(scores.values()), member, rate) for rate in RATES}
        out.append(MembershipRow("union", query, "all", None, union))
        for name, chosen in self._subpopulations(nodes):
            if min((member & chosen).sum(), (~member & chosen).sum()) >= FEWEST:
                power = power_of(scores[_GROUPED][chosen], member[chosen], RATES)
                out.append(MembershipRow(_GROUPED, query, name, power))
        if drawn is not None:
            beside = np.isin(nodes, drawn)
            out.append(MembershipRow("RMIA", query, "drawn", power_of(scores["RMIA"][beside], member[beside], RATES)))
        return out

    def _controls(self, shadows: Floats, inside: Flags, member: Flags) -> dict[str, tuple[float, float]]:
        """Per attack the area on shadow models for the attacked model's members, and for their own."""
        areas: dict[str, list[tuple[float, float]]] = {}
        for target in range(min(CONTROLS, len(shadows) - 1)):
            others = np.arange(len(shadows)) != target
            for name, scores in membership_scores(shadows[target], shadows[others], inside[others]).items():
                both = (area(scores[member], scores[~member]), area(scores[inside[target]], scores[~inside[target]]))
                areas.setdefault(name, []).append(both)
        return {name: (float(null), float(own)) for name in areas for null, own in [np.mean(areas[name], axis=0)]}

    def _subpopulations(self, nodes: np.ndarray) -> list[tuple[str, Flags]]:
        ends = np.concatenate([self.graph.edges, self.graph.edges[::-1]], axis=1)
        degree = np.bincount(np.unique(ends, axis=1)[1], minlength=self.graph.num_nodes)[nodes]
        few, many = np.quantile(degree[degree > 0], (1 / 3, 2 / 3)) if degree.any() else (0, 0)
        groups = [
            ("isolated", degree == 0),
            (f"degree 1-{few:.0f}", (degree > 0) & (degree <= few)),
            (f"degree above {many:.0f}", degree > many),
        ]
        labels = self.graph.labels[nodes]
        return groups + [(f"class {label}", labels == label) for label in np.unique(labels)]

    def blind(self) -> MembershipRow:
        """Guess members from degree, label and features without the model: above one half the split itself leaks."""
        nodes = np.flatnonzero(self.scored)
        member = self.member[nodes]
        scores = blind_scores(self.graph, nodes, member, self.seed)
        return MembershipRow(BLIND, "nothing", "all", power_of(scores, member, RATES))


_GROUPED = "LiRA offline"
"""The attack whose figures are split into subpopulations."""


def _graph(graph: Any) -> Graph:
    if isinstance(graph, Graph):
        return graph
    if isinstance(graph, FederatedGraph):
        return graph.graph
    return FederatedGraph.from_pyg(graph, 1, verbose=False).graph


def _flags(members: ArrayLike, nodes: int) -> Flags:
    values = np.asarray(members.cpu() if isinstance(members, torch.Tensor) else members)
    if values.dtype == np.bool_ and values.shape == (nodes,):
        return values
    if (
        values.ndim != 1
        or values.dtype.kind not in "iu"
        or (values.size and not 0 <= values.min() <= values.max() < nodes)
    ):
        raise InputError(
            f"members must be bool [{nodes}] or indices below {nodes}; found {values.dtype} {list(values.shape)}"
        )
    out = np.zeros(nodes, dtype=np.bool_)
    out[values] = True
    return out


def _answers(predict: Predict | ArrayLike, graph: Graph) -> dict[str, Floats]:
    """Probabilities [n, c] by query."""
    if not callable(predict):
        return {EDGES: _checked_answers(predict, graph)}
    features, edges = torch.from_numpy(np.array(graph.features)), torch.from_numpy(np.array(graph.edges))
    out = {}
    for query, asked in ((ALONE, edges[:, :0]), (EDGES, edges)):
        if query == ALONE or graph.edges.size:
            with torch.no_grad():
                out[query] = _checked_answers(predict(features, asked), graph)
    return out


def _checked_answers(values: Any, graph: Graph) -> Floats:
    answers, classes = as_floats(values, "answers of predict"), int(graph.labels.max()) + 1
    if answers.ndim != 2 or len(answers) != graph.num_nodes or answers.shape[1] < classes:
        raise InputError(
            f"answers of predict must be [{graph.num_nodes}, {classes}]: nodes and classes; found {list(answers.shape)}"
        )
    if not np.isfinite(answers).all():
        raise InputError("answers of predict must be finite; found NaN or infinity")
    if answers.min() < 0 or np.abs(answers.sum(axis=1) - 1).max() > 1e-3:
        raise InputError("answers of predict must be probabilities that sum to one per node; apply a softmax to logits")
    return answers
