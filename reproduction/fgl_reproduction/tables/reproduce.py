"""A table of a paper, run again and set beside the printed numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import cast

import fgl_reproduction
from fgl_reproduction.tables.rows import FigureRow, MeanFigure, printed_figures
from fgl_reproduction.tables.table import Choices, Data, Measure, Metric, PaperTable, TableCase
from fgl_secure.host import library_settings
from fgl_secure.ledger import LedgerEntry, Run, RunLedger, Watch, complete_runs, provenance
from fgl_secure.schemes import parse
from fgl_secure.threads import one_thread
from fgl_secure.training.presets import preset

Runs = Mapping[TableCase, Sequence[Mapping[Metric, float]]]


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
    rows: tuple[FigureRow, ...]

    def as_json(self) -> dict[str, object]:
        """The reproduction as JSON values; what there is no value for is null."""
        return {
            "table": self.table.name,
            "preset": self.choices.preset,
            "seeds": list(self.choices.seeds_of_runs),
            "rows": [row.as_json() for row in self.rows],
        }


@library_settings()
@one_thread()
def reproduce(
    table: PaperTable,
    choices: Choices,
    datasets: Sequence[str] = (),
    ledger: RunLedger | None = None,
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
    wanted = [item for graph in graphs for item in _runs(table, graph, choices)]
    entries = complete_runs([run for _, _, run in wanted], ledger or RunLedger(), watch)
    result: dict[str, dict[TableCase, list[Mapping[Metric, float]]]] = {graph.name: {} for graph in graphs}
    for (name, case, _), entry in zip(wanted, entries, strict=True):
        result[name].setdefault(case, []).append(_entry_figures(table, entry))
    return Reproduction(
        table, choices, tuple(row for graph in graphs for row in _rows(table, graph, result[graph.name]))
    )


def _runs(table: PaperTable, graph: Data, choices: Choices) -> Iterator[tuple[str, TableCase, Run]]:
    """The runs of one data set, with its name and the case that each is of."""
    for case in table.cases:
        if case.measure is None:
            continue
        for seed in choices.seeds_of_runs:
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


def _entry_figures(table: PaperTable, entry: LedgerEntry) -> Mapping[Metric, float]:
    result = cast("Mapping[str, float]", entry.found)
    return {metric: result[metric.name] for metric in table.metrics}


def _rows(table: PaperTable, graph: Data, runs: Runs) -> Iterator[FigureRow]:
    figures = _figures(table, runs)
    printed = printed_figures(table.printed)
    for case in table.cases:
        for metric in (*table.metrics, *(derived.metric for derived in table.derived)):
            paper = printed.get((graph.name, case.setting, case.line, metric.name), MeanFigure())
            result = figures.get((case, metric), MeanFigure())
            yield FigureRow(graph.name, case.setting, case.method, metric, result, paper, case.measure is not None)


def _figures(table: PaperTable, runs: Runs) -> Mapping[tuple[TableCase, Metric], MeanFigure]:
    figures = {
        (case, metric): MeanFigure.over_runs([run[metric] for run in item])
        for case, item in runs.items()
        for metric in table.metrics
    }
    for derived in table.derived:
        means = {case: _mean(figures[case, derived.source]) for case in runs}
        for case, value in derived.compute(means).items():
            figures[case, derived.metric] = MeanFigure(value)
    return figures


def _mean(figure: MeanFigure) -> float:
    assert figure.mean is not None
    return figure.mean
