"""What models that are trained on a random half of a graph would reveal, as means over several of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fgl_secure.attacks.outputs.model_audit import (
    ALONE,
    BLIND,
    EDGES,
    RATES,
    WHOLE,
    ModelAudit,
    SubgraphQueries,
    answers_of,
    node_priors,
    report_of,
)
from fgl_secure.attacks.outputs.neighbourhoods import draw_neighbourhoods
from fgl_secure.attacks.outputs.shadows import ShadowTraining, train_shadows
from fgl_secure.ceilings import LINKS_AUC, MEMBERSHIP_AUC, MEMBERSHIP_TPR, Bounded, certainly_above
from fgl_secure.errors import InputError
from fgl_secure.graph import Graph
from fgl_secure.statistics.metrics import mean_interval


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class ModelLeakage:
    """Audits of several models of one training procedure.

    Attributes:
        audits: one for each attacked model.
    """

    audits: tuple[ModelAudit, ...]

    def rows(self) -> list[dict[str, Any]]:
        """A row for each figure but subpopulations: attack, query, nodes, metric, mean, extremes and baseline."""
        values: dict[tuple[str, ...], list[tuple[float, float]]] = {}
        for audit in self.audits:
            for row in audit.rows():
                if row["nodes"] in WHOLE or row["nodes"].startswith("pairs"):
                    key = (row["attack"], row["query"], row["nodes"], row["metric"])
                    values.setdefault(key, []).append((row["value"], row["baseline"]))
        out = []
        for of, each in values.items():
            found, baseline = np.array(each).T
            figures = {"mean": found.mean(), "least": found.min(), "largest": found.max(), "baseline": baseline.mean()}
            names = dict(zip(("attack", "query", "nodes", "metric"), of, strict=True))
            out.append(names | {name: float(value) for name, value in figures.items()})
        return out

    def exceeds(self, auc: float) -> tuple[str, ...]:
        """Attacks whose mean area is certainly above a ceiling, by the lower end of Student's 95 % interval."""
        return certainly_above(self.bounded(), MEMBERSHIP_AUC, auc)

    def bounded(self) -> Iterator[Bounded]:
        """Yield the figures that ceilings are compared with: lower ends of Student's intervals of means over models."""
        values: dict[tuple[str, str], list[float]] = {}
        for audit in self.audits:
            for row in audit.membership:
                if row.power is not None and row.nodes in WHOLE and row.attack != BLIND:
                    what, rate = f"{row.attack}, asked with {row.query}", row.power.rates[RATES[0]]
                    values.setdefault((MEMBERSHIP_AUC, what), []).append(row.power.auc)
                    values.setdefault((MEMBERSHIP_TPR, what), []).append(rate.tpr - rate.fpr)
            for kind, link in audit.links.items():
                values.setdefault((LINKS_AUC, f"links, other pairs: {kind}"), []).append(link.auc)
        for of, each in values.items():
            if len(each) > 1:
                yield Bounded(*of, mean_interval(each).low)

    def __repr__(self) -> str:
        accuracy = np.mean([audit.accuracy for audit in self.audits], axis=0)
        lines = [
            f"{len(self.audits)} models, {self.audits[0].shadows} shadow models each: accuracy {accuracy[0]:.3f} on "
            f"members, {accuracy[1]:.3f} on others; means over models (least-largest)",
            f"{'attack':<25}{'asked with':<20}{'nodes':<18}{'AUC':<21}{'baseline':<10}TPR at 1 % and 0.1 % FPR",
        ]
        lines_of: dict[tuple[str, str, str], dict[str, dict[str, Any]]] = {}
        for row in self.rows():
            lines_of.setdefault((row["attack"], row["query"], row["nodes"]), {})[row["metric"]] = row
        for (attack, query, nodes), found in lines_of.items():
            auc = found.get("auc")
            area = f"{auc['mean']:.3f} ({auc['least']:.3f}-{auc['largest']:.3f})" if auc else ""
            baseline = f"{auc['baseline']:.3f}" if auc else ""
            rates = "  ".join(f"{row['mean']:.3f}" for metric, row in found.items() if metric != "auc")
            lines.append(f"{attack:<25}{query:<20}{nodes:<18}{area:<21}{baseline:<10}{rates}".rstrip())
        return "\n".join(lines)


def model_leakage(
    graph: Graph,
    *,
    shadows: int = 32,
    targets: int = 8,
    training: ShadowTraining | None = None,
    seed: int = 0,
    device: str = "cpu",
    folder: Path | str | None = None,
    neighbourhoods: int = 200,
) -> ModelLeakage:
    """Train graph networks on random halves of a graph, and attack some of them with the others as shadow models.

    Args:
        graph: features, labels and edges.
        shadows: shadow models for each attacked one, at least 2.
        targets: attacked models, 2 to shadows + 1.
        training: of all models.
        seed: of subsets and training.
        device: "cpu" or "cuda".
        folder: where finished models are kept, so that a call that was stopped goes on.
        neighbourhoods: nodes that G-BASE is played on, drawn at random; 0 leaves it out.

    Returns:
        The audits, and means over them.

    Raises:
        InputError: a number is out of range, or the graph lacks labels or classes.

    Examples:
        >>> from fgl_secure.graph import load
        >>> model_leakage(load("digits"), shadows=2, targets=2, training=ShadowTraining(epochs=1)).exceeds(0.9)
        ()
    """
    if neighbourhoods < 0:
        raise InputError(f"neighbourhoods must be at least 0; found {neighbourhoods}")
    if not 2 <= targets <= shadows + 1:
        raise InputError(f"targets must be in 2..{shadows + 1}, one more than shadows; found {targets}")
    models = train_shadows(graph, shadows + 1, training=training, seed=seed, device=device, folder=folder)
    audits, drawn, compared = [], None, np.empty(0)
    if neighbourhoods and graph.edges.size:
        labelled = np.random.default_rng([seed, 2]).permutation(np.flatnonzero(graph.labels >= 0))
        nodes = np.sort(labelled[:neighbourhoods])
        drawn = draw_neighbourhoods(graph, nodes, node_priors(None, graph, models), seed=seed)
        compared = drawn.compare(answers_of(models, graph, device))
    for target in range(targets):
        others = np.arange(len(models.members)) != target
        answers = {ALONE: models.apart[target]} | ({EDGES: models.joined[target]} if graph.edges.size else {})
        queries = None if drawn is None else SubgraphQueries(drawn, compared[:, :, [target]], compared[:, :, others])
        given = {query: np.exp(each.astype(np.float64)) for query, each in answers.items()}
        audits.append(report_of(given, graph, models.members[target], models.select(others), queries, seed))
    return ModelLeakage(tuple(audits))
