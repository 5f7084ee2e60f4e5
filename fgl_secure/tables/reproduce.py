"""A table of a paper, run again and set beside the printed numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from fgl_secure.schemes import parse
from fgl_secure.tables.rows import Figure, Row, printed_figures
from fgl_secure.tables.table import Case, Choices, Data, Metric, PaperTable
from fgl_secure.training.presets import preset

Runs = Mapping[Case, Sequence[Mapping[Metric, float]]]

Started = Callable[[int, int, str], None]
"""Called before each run with the number of runs done, of all runs, and what runs next; once more at the end."""


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
            "seeds": self.choices.seeds,
            "rows": [row.as_json() for row in self.rows],
        }


def reproduce(
    table: PaperTable, choices: Choices, datasets: Sequence[str] = (), started: Started | None = None
) -> Reproduction:
    """Runs a table of a paper again.

    Args:
        table: which.
        choices: how.
        datasets: names; those of the paper when empty.
        started: called before each run.

    Raises:
        FglSecureError: a choice breaks a rule, or a data set is not there, before anything ran.
    """
    table = replace(table, cases=table.chosen_cases(choices.clients))
    parse(choices.scheme, ("neighbours",))
    preset(choices.preset, table.datasets[0])
    loaded = [table.load(dataset, choices.data_root) for dataset in datasets or table.datasets]
    graphs = tuple({graph.name: graph for graph in loaded}.values())
    counted = _Counted(started, sum(case.measure is not None for case in table.cases) * len(graphs) * choices.seeds)
    rows = [row for graph in graphs for row in _rows(table, graph, _runs(table, graph, choices, counted))]
    counted.end()
    return Reproduction(table, choices, tuple(rows))


class _Counted:
    """Counts runs for whoever wants to know."""

    def __init__(self, started: Started | None, total: int) -> None:
        self._started, self._done, self._total = started, 0, total

    def start(self, what: str) -> None:
        if self._started is not None:
            self._started(self._done, self._total, what)
        self._done += 1

    def end(self) -> None:
        if self._started is not None:
            self._started(self._total, self._total, "")


def _runs(table: PaperTable, graph: Data, choices: Choices, counted: _Counted) -> Runs:
    runs: dict[Case, list[Mapping[Metric, float]]] = {}
    for case in table.cases:
        if case.measure is None:
            continue
        for seed in range(choices.seeds):
            counted.start(f"{graph.name}, {case.setting}, {case.method}, seed {seed}")
            runs.setdefault(case, []).append(case.measure(graph, choices, seed))
    return runs


def _rows(table: PaperTable, graph: Data, runs: Runs) -> Iterator[Row]:
    ours = _figures(table, runs)
    printed = printed_figures(table.printed)
    for case in table.cases:
        for metric in (*table.metrics, *(derived.metric for derived in table.derived)):
            paper = printed.get((graph.name, case.setting, case.method, metric.name), Figure())
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
