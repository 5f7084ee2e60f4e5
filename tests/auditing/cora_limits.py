"""Simulated audits of the figures of Cora: `python -m tests.auditing.cora_limits` prints how often leaks are caught.

`cora_limits.json` has a row for each measured figure of the golden audit of Cora: the kind of interval, the independent
units behind it, its prior, and the smallest size that is said to be caught.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from scipy import stats

from fgl_secure.attacks.base import Measurement
from fgl_secure.auditing.audit import detectable
from fgl_secure.auditing.verdict import judge
from fgl_secure.graph import Data, FederatedGraph
from fgl_secure.statistics.metrics import (
    Interval,
    Proportion,
    advantage,
    clustered_advantage,
    clustered_proportion,
    exact_proportion,
    node_block_proportion,
    pair_advantage,
)

Rng = np.random.Generator
Plant = Callable[[Rng, float], Proportion]
Row = Mapping[str, Any]

RUNS, DRAWS = 150, 100
CAUGHT, COVERED = 146, 140
"""Of 150: 97 % and 93 %."""

ROWS: tuple[Row, ...] = tuple(json.loads(Path(__file__).with_name("cora_limits.json").read_text(encoding="utf-8")))


def name_of(row: Row) -> str:
    """Whose figure it is."""
    return f"{row['scheme']} {row['attack']} {row['metric']}"


def figure_of(row: Row) -> Measurement:
    """A figure with the same units and the same prior that found nothing."""
    arms = None if row["arms"] is None else (*row["arms"], row["alarms"])
    exact, none = row["arms"] is None, Interval(0.0, 1.0)
    return Measurement("x", 0.0, none, row["n"], 0.0, row["prior"], 1.0, exact, "x", arms=arms)


def independent_units(row: Row) -> Plant:
    """As many independent units as the figure counts, of which a share of a given size leaks."""

    def plant(rng: Rng, size: float) -> Proportion:
        if row["arms"] is None:
            return exact_proportion(int(rng.binomial(row["n"], size)), row["n"])
        (yes, no), alarms = row["arms"], row["alarms"]
        hits, wrong = rng.binomial(yes, min(alarms + size, 1.0)), rng.binomial(no, alarms)
        return advantage(int(hits), yes, int(wrong), no)

    return plant


def exact_coverage(row: Row, truth: float) -> float:
    """How often the interval of so many independent units holds the truth, summed over all counts that occur."""
    if row["arms"] is None:
        return sum(
            chance * exact_proportion(hits, row["n"]).interval.contains(truth)
            for hits, chance in _counts(row["n"], truth)
        )
    (yes, no), alarms = row["arms"], row["alarms"]
    return sum(
        one * other * advantage(hits, yes, wrong, no).interval.contains(truth)
        for hits, one in _counts(yes, alarms + truth)
        for wrong, other in _counts(no, alarms)
    )


def _counts(n: int, rate: float) -> list[tuple[int, float]]:
    """Binomial counts with their probabilities, but for those that hardly ever come."""
    chances = stats.binom.pmf(np.arange(n + 1), n, rate)
    return [(int(count), float(chances[count])) for count in np.flatnonzero(chances > 1e-7)]


def senders(graph: FederatedGraph) -> Plant:
    """Messages of which all of a sender's are read, or none."""
    source, nodes = graph.edges[0], graph.num_devices

    def plant(rng: Rng, rate: float) -> Proportion:
        return clustered_proportion((rng.random(nodes) < rate)[source], source, seed=0, draws=DRAWS)

    return plant


def ends(graph: FederatedGraph) -> Plant:
    """Messages that either end may give away."""
    edges, nodes = graph.edges, graph.num_devices

    def plant(rng: Rng, rate: float) -> Proportion:
        telling = rng.random(nodes) < 1 - np.sqrt(1 - rate)
        return node_block_proportion(telling[edges].any(axis=0), edges, nodes, seed=0, draws=DRAWS)

    return plant


def pairs(graph: FederatedGraph) -> Plant:
    """Messages that are claimed where the sender tells, and no others."""
    edges, nodes = graph.edges, graph.num_devices
    others = nodes * (nodes - 1) - edges.shape[1]

    def plant(rng: Rng, gain: float) -> Proportion:
        read = (rng.random(nodes) < gain)[edges[0]]
        return pair_advantage(read, edges, np.empty((2, 0), dtype=np.int64), others, nodes, seed=0, draws=DRAWS)

    return plant


def cells(graph: FederatedGraph) -> Plant:
    """Pairs of a silo and a foreign device, of which a device's are claimed all together."""
    silo, nodes = np.arange(graph.num_silos)[:, None], graph.num_devices
    there = np.zeros((graph.num_silos, nodes), dtype=np.bool_)
    there[graph.silo_of[graph.edges[0]], graph.edges[1]] = True
    asked = graph.silo_of != silo
    device = np.broadcast_to(np.arange(nodes), there.shape)[asked]

    def plant(rng: Rng, gain: float) -> Proportion:
        said = np.broadcast_to(rng.random(nodes) < gain, there.shape) & there
        return clustered_advantage(said[asked], there[asked], device, seed=0, draws=DRAWS)

    return plant


FAMILIES: Mapping[str, Callable[[FederatedGraph], Plant]] = MappingProxyType({
    "clustered_proportion": senders,
    "node_block_proportion": ends,
    "pair_advantage": pairs,
    "clustered_advantage": cells,
})  # fmt: skip
"""Leaks on a graph itself, by the kind of interval that such figures have."""


def audited(plant: Plant, size: float) -> list[Proportion]:
    """What 150 audits find of a planted leak."""
    rng = np.random.default_rng(1)
    return [plant(rng, size) for _ in range(RUNS)]


def caught(figures: Iterable[Proportion], prior: float, *, exact: bool) -> int:
    """Of how many the rule says that there is a leak."""
    return sum(judge(figure.value, figure.interval, prior, exact=exact).is_exposure for figure in figures)


def covered(figures: Iterable[Proportion], truth: float) -> int:
    """How many intervals hold the truth."""
    return sum(figure.interval.contains(truth) for figure in figures)


def silent(plant: Plant) -> Measurement:
    """What a figure is where nothing leaks."""
    nothing = plant(np.random.default_rng(3), 0.0)
    arms = None if nothing.arms is None else (*nothing.arms, 0.0)
    return Measurement("x", nothing.value, nothing.interval, nothing.n, 0.0, 0.0, 1.0, arms is None, "x", arms=arms)


def _print() -> None:
    print("| figure | n | prior | would catch | caught of 150 | covered of 150 |\n|---|---|---|---|---|---|")
    for row in ROWS:
        found, size = audited(independent_units(row), row["detectable"]), row["detectable"]
        counts = caught(found, row["prior"], exact=row["arms"] is None), covered(found, size)
        print(f"| {name_of(row)} | {row['n']:,} | {row['prior']:.3f} | {size:.4f} | {counts[0]} | {counts[1]} |")
    graph = Data("Cora").load(0)
    for kind, family in FAMILIES.items():
        plant = family(graph)
        figure = silent(plant)
        size = detectable(figure)
        found = audited(plant, size)
        counts = caught(found, 0.0, exact=figure.exact), covered(found, size)
        print(f"| on Cora: {kind} | {figure.n:,} | 0.000 | {size:.4f} | {counts[0]} | {counts[1]} |")


if __name__ == "__main__":
    _print()
