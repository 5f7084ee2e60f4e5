"""The result of an inversion as text and as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from fgl_reproduction.inversion.attacked_round import AttackFigure, InversionResult, StructureScores
from fgl_reproduction.inversion.scores import EdgeScores, GraphScores
from fgl_secure import __version__

SCORED = ("this run", "prior", "random")


def as_json(result: InversionResult) -> dict[str, Any]:
    """Return everything except the rows themselves, ready for `json.dumps`."""
    chosen = asdict(result.options)
    chosen["data_root"] = None if result.options.data_root is None else str(result.options.data_root)
    return {
        "version": __version__,
        "options": chosen,
        "epsilon": result.epsilon,
        "summed": result.summed,
        "figures": [_figure(item) for item in result.figures],
        "rows": None if result.rows is None else {name: asdict(item) for name, item in result.rows.scores.items()},
        "structure": None if result.structure is None else _structure(result.structure),
    }


def describe(result: InversionResult) -> str:
    """Return a summary for a terminal."""
    lines = [heading(result), *(f"  {line}" for line in _figure_lines(result))]
    if result.rows is not None:
        scores = result.rows.scores
        lines += ["", f"{'rows of ' + str(scores['this run'].rows) + ' nodes':<35}rmse    cosine  exact"]
        lines += [f"  {_name(name):<33}{scores[name].rmse:<8.3f}{scores[name].cosine:<8.3f}{scores[name].exact:.2f}"
                  for name in SCORED]  # fmt: skip
    if result.structure is not None:
        lines += ["", *_structure_lines(result.structure)]
    return "\n".join(lines)


def heading(result: InversionResult) -> str:
    """Return the attacked round in one line."""
    options = result.options
    what = (
        f"the sum of gradients of {options.silos} clients" if result.summed else f"gradients of {options.silos} clients"
    )
    noise = (
        ""
        if result.epsilon is None
        else f", noise z = {options.noise:g} (epsilon {result.epsilon:.3g}, zero-out adjacency)"
    )
    nodes = "1 node" if options.batch == 1 else f"{options.batch} nodes"
    return f"{options.attack} on {what}, {nodes} each: {options.dataset}, {options.backbone}, {options.scheme}{noise}"


def structure_means(structure: StructureScores) -> dict[str, float]:
    """Return means: AUC and F1 of edges and of the baseline, GSM-0 to GSM-2, share of graphs fully recovered."""
    means = {f"edge {name}": value for name, value in _means(structure.edges).items()}
    prior = {f"edge {name}, prior": value for name, value in _means(structure.prior).items()}
    levels = np.mean([item.gsm for item in structure.graphs], axis=0)
    gsm = {f"GSM-{hops}": float(value) for hops, value in enumerate(levels)}
    return {**means, **prior, **gsm, "FULL": float(np.mean([item.full for item in structure.graphs]))}


def _means(scores: tuple[EdgeScores, ...]) -> dict[str, float]:
    if not scores:
        return {}
    return {"AUC": float(np.mean([item.auc for item in scores])), "F1": float(np.mean([item.f1 for item in scores]))}


def _structure(structure: StructureScores) -> dict[str, Any]:
    graphs: tuple[GraphScores, ...] = structure.graphs
    return {
        "edges": [asdict(item) for item in structure.edges],
        "prior": [asdict(item) for item in structure.prior],
        "graphs": [asdict(item) for item in graphs],
        "means": structure_means(structure),
    }


def _structure_lines(structure: StructureScores) -> list[str]:
    return [
        "edges and graphs, mean",
        *(f"  {name:<32}{value:.3f}" for name, value in structure_means(structure).items()),
    ]


def _figure(figure: AttackFigure) -> dict[str, Any]:
    result = figure.found
    return {
        "metric": result.metric,
        "value": result.value,
        "ci95": [result.interval.low, result.interval.high],
        "random": result.random,
        "prior": result.prior,
        "null_control": figure.null.value,
        "n": result.n,
        "finding": result.finding,
    }


def _figure_lines(result: InversionResult) -> list[str]:
    return [
        f"{figure.found.metric:<34}{figure.found.value:.3f} [{figure.found.interval.low:.2f}, "
        f"{figure.found.interval.high:.2f}]"
        f"  random {figure.found.random:.3f}  prior {figure.found.prior:.3f}  permuted truth {figure.null.value:.3f}"
        for figure in result.figures
    ]


def _name(name: str) -> str:
    return {"prior": "mean of the node's class (baseline)", "random": "some other node (random)"}.get(name, name)
