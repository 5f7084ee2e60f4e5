"""A table of a paper, run again and set beside the printed numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import cast

import fgl_reproduction
from fgl_reproduction.tables.rows import Figure, Row, printed_figures
from fgl_reproduction.tables.table import Case, Choices, Data, Measure, Metric, PaperTable
from fgl_secure.host import library_settings
from fgl_secure.ledger import Entry, Ledger, Run, Watch, completed, provenance
from fgl_secure.schemes import parse
from fgl_secure.threads import one_thread
from fgl_secure.training.presets import preset

Runs = Mapping[Case, Sequence[Mapping[Metric, float]]]


@dataclass(frozen=True, slots=True)
class Reproduction:
    """A table that was run again.

    Attributes:
        table: which.
        choices: how.
        rows: its lines, by data set, case and metric.
    """

    table: PaperTable
    choices: Choices
    rows: tuple[Row, ...]

    def as_json(self) -> dict[str, object]:
        """The reproduction as JSON values; what there is no value for is null."""
        return {
            "table": self.table.name,
            "preset": self.choices.preset,
            "seeds": list(self.choices.drawn),
            "rows": [row.as_json() for row in self.rows],
        }


@library_settings()
@one_thread()
def reproduce(
    table: PaperTable,
    choices: Choices,
    datasets: Sequence[str] = (),
    ledger: Ledger | None = None,
    watch: Watch | None = None,
) -> Reproduction:
    """Runs a table of a paper again.

    Args:
        table: which.
        choices: how.
        datasets: names; those of the paper when empty.
        ledger: where finished runs are kept; those that are there aren't run again.
        watch: is told of each run.

    Raises:
        FglSecureError: a choice breaks a rule, or a data set is not there, before anything ran.
    """
    table = replace(table, cases=table.chosen_cases(choices.clients, choices.methods))
    parse(choices.scheme, ("neighbours",))
    preset(choices.preset, table.datasets[0])
    loaded = [table.load(dataset, choices.data_root) for dataset in datasets or table.datasets]
    graphs = tuple({graph.name: graph for graph in loaded}.values())
    wanted = [each for graph in graphs for each in _runs(table, graph, choices)]
    entries = completed([run for _, _, run in wanted], ledger or Ledger(), watch)
    found: dict[str, dict[Case, list[Mapping[Metric, float]]]] = {graph.name: {} for graph in graphs}
    for (name, case, _), entry in zip(wanted, entries, strict=True):
        found[name].setdefault(case, []).append(_measured(table, entry))
    return Reproduction(
        table, choices, tuple(row for graph in graphs for row in _rows(table, graph, found[graph.name]))
    )


def _runs(table: PaperTable, graph: Data, choices: Choices) -> Iterator[tuple[str, Case, Run]]:
    """The runs of one data set, with its name and the case that each is of."""
    for case in table.cases:
        if case.measure is None:
            continue
        for seed in choices.drawn:
            key = {
                "of": f"reproduce {table.name}",
                "dataset": graph.name,
                "setting": case.setting,
                "method": case.method,
                "seed": seed,
                "preset": choices.preset,
                "scheme": choices.scheme,
                "epochs": choices.epochs,
                "device": choices.place.type,
                **provenance(Path(fgl_reproduction.__file__).parent),
            }
            name = f"{graph.name}, {case.setting}, {case.method}, seed {seed}"
            work = partial(_measure, case.measure, graph, choices, seed)
            yield graph.name, case, Run(key, name, (graph.name, case.method, case.setting), work)


def _measure(measure: Measure, graph: Data, choices: Choices, seed: int) -> dict[str, float]:
    return {metric.name: float(value) for metric, value in measure(graph, choices, seed).items()}


def _measured(table: PaperTable, entry: Entry) -> Mapping[Metric, float]:
    found = cast("Mapping[str, float]", entry.found)
    return {metric: found[metric.name] for metric in table.metrics}


def _rows(table: PaperTable, graph: Data, runs: Runs) -> Iterator[Row]:
    ours = _figures(table, runs)
    printed = printed_figures(table.printed)
    for case in table.cases:
        for metric in (*table.metrics, *(derived.metric for derived in table.derived)):
            paper = printed.get((graph.name, case.setting, case.line, metric.name), Figure())
            found = ours.get((case, metric), Figure())
            yield Row(graph.name, case.setting, case.method, metric, found, paper, case.measure is not None)


def _figures(table: PaperTable, runs: Runs) -> Mapping[tuple[Case, Metric], Figure]:
    figures = {
        (case, metric): Figure.over_runs([run[metric] for run in each])
        for case, each in runs.items()
        for metric in table.metrics
    }
    for derived in table.derived:
        means = {case: _mean(figures[case, derived.source]) for case in runs}
        for case, value in derived.compute(means).items():
            figures[case, derived.metric] = Figure(value)
    return figures


def _mean(figure: Figure) -> float:
    assert figure.mean is not None
    return figure.mean
