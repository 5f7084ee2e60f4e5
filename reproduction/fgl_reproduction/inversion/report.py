"""The result of an inversion as text and as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from fgl_reproduction.inversion.attacked_round import Figure, Inversion, Structure
from fgl_reproduction.inversion.scores import EdgeScores, GraphScores
from fgl_secure import __version__

SCORED = ("this run", "prior", "random")


def as_json(result: Inversion) -> dict[str, Any]:
    """Return everything except the rows themselves, ready for `json.dumps`."""
    chosen = asdict(result.options)
    chosen["data_root"] = None if result.options.data_root is None else str(result.options.data_root)
    return {
        "version": __version__,
        "options": chosen,
        "epsilon": result.epsilon,
        "summed": result.summed,
        "figures": [_figure(each) for each in result.figures],
        "rows": None if result.rows is None else {name: asdict(each) for name, each in result.rows.scores.items()},
        "structure": None if result.structure is None else _structure(result.structure),
    }


def describe(result: Inversion) -> str:
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


def heading(result: Inversion) -> str:
    """Return the attacked round in one line."""
    chosen = result.options
    what = (
        f"the sum of gradients of {chosen.silos} clients" if result.summed else f"gradients of {chosen.silos} clients"
    )
    noise = (
        ""
        if result.epsilon is None
        else f", noise z = {chosen.noise:g} (epsilon {result.epsilon:.3g}, zero-out adjacency)"
    )
    nodes = "1 node" if chosen.batch == 1 else f"{chosen.batch} nodes"
    return f"{chosen.attack} on {what}, {nodes} each: {chosen.dataset}, {chosen.backbone}, {chosen.scheme}{noise}"


def structure_means(structure: Structure) -> dict[str, float]:
    """Return means: AUC and F1 of edges and of the baseline, GSM-0 to GSM-2, share of graphs fully recovered."""
    found = {f"edge {name}": value for name, value in _means(structure.edges).items()}
    prior = {f"edge {name}, prior": value for name, value in _means(structure.prior).items()}
    levels = np.mean([each.gsm for each in structure.graphs], axis=0)
    gsm = {f"GSM-{hops}": float(value) for hops, value in enumerate(levels)}
    return {**found, **prior, **gsm, "FULL": float(np.mean([each.full for each in structure.graphs]))}


def _means(scores: tuple[EdgeScores, ...]) -> dict[str, float]:
    if not scores:
        return {}
    return {"AUC": float(np.mean([each.auc for each in scores])), "F1": float(np.mean([each.f1 for each in scores]))}


def _structure(structure: Structure) -> dict[str, Any]:
    graphs: tuple[GraphScores, ...] = structure.graphs
    return {
        "edges": [asdict(each) for each in structure.edges],
        "prior": [asdict(each) for each in structure.prior],
        "graphs": [asdict(each) for each in graphs],
        "means": structure_means(structure),
    }


def _structure_lines(structure: Structure) -> list[str]:
    return [
        "edges and graphs, mean",
        *(f"  {name:<32}{value:.3f}" for name, value in structure_means(structure).items()),
    ]


def _figure(each: Figure) -> dict[str, Any]:
    found = each.found
    return {
        "metric": found.metric,
        "value": found.value,
        "ci95": [found.interval.low, found.interval.high],
        "random": found.random,
        "prior": found.prior,
        "null_control": each.null.value,
        "n": found.n,
        "finding": found.finding,
    }


def _figure_lines(result: Inversion) -> list[str]:
    return [
        f"{each.found.metric:<34}{each.found.value:.3f} [{each.found.interval.low:.2f}, {each.found.interval.high:.2f}]"
        f"  random {each.found.random:.3f}  prior {each.found.prior:.3f}  permuted truth {each.null.value:.3f}"
        for each in result.figures
    ]


def _name(name: str) -> str:
    return {"prior": "mean of the node's class (baseline)", "random": "some other node (random)"}.get(name, name)
