"""What a table of a paper is made of: cases that are run for every seed, and metrics that are measured in each."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch

from fgl_secure.errors import InputError, UnknownNameError
from fgl_secure.graph import load
from fgl_secure.training.loop import compute_device

PLAINTEXT = "plaintext"


@dataclass(frozen=True, slots=True)
class Choices:
    """The choices of one reproduction.

    Attributes:
        preset: "honest", "paper" or, for HiFGL's own lines, "public-code".
        seeds: number of runs of each case, with seeds from 0 on, or the seeds; a run takes its seed for partition,
            split and initial weights.
        scheme: computes neighbourhood sums of the paper's own method; what it is compared with runs in plaintext.
        epochs: most training rounds; None takes the preset's.
        data_root: folder of the raw data sets; None takes the environment's.
        clients: numbers of clients that are run, of a table that varies them; empty runs all.
        methods: lines that are run, by the method that they name; empty runs all.
        device: where model compute runs: "auto", "cpu" or "cuda".

    Raises:
        InputError: seeds or epochs are below 1, or the device has another name.
        DeviceUnavailableError: CUDA was asked for and is absent.
    """

    preset: str = "honest"
    seeds: int | tuple[int, ...] = 5
    scheme: str = PLAINTEXT
    epochs: int | None = None
    data_root: Path | None = None
    clients: tuple[int, ...] = ()
    methods: tuple[str, ...] = ()
    device: str = "auto"

    def __post_init__(self) -> None:
        if (
            not self.seeds_of_runs
            or min(self.seeds_of_runs) < 0
            or len(set(self.seeds_of_runs)) < len(self.seeds_of_runs)
        ):
            raise InputError(
                f"seeds must be at least 1 run, or different seeds of at least 0 as in 11,12; found {self.seeds}"
            )
        if self.epochs is not None and self.epochs < 1:
            raise InputError(f"epochs must be at least 1; found {self.epochs}")
        compute_device(self.device)

    @property
    def seeds_of_runs(self) -> tuple[int, ...]:
        """The seed of each run."""
        return tuple(range(self.seeds)) if isinstance(self.seeds, int) else self.seeds

    @property
    def place(self) -> torch.device:
        """The device."""
        return compute_device(self.device)

    def check_plaintext(self) -> None:
        """Raises an InputError where a scheme was chosen and makes no difference to what is measured."""
        if self.scheme != PLAINTEXT:
            raise InputError(f"scheme must be {PLAINTEXT} for this table, whose sums are exact; found {self.scheme}")


@dataclass(frozen=True, slots=True)
class Metric:
    """What is measured, with its unit in the name, and how many digits behind the point are shown."""

    name: str
    digits: int


Data = Any
"""What a table's runs start from: one graph, or a set of many small ones."""

Measure = Callable[[Any, Choices, int], Mapping[Metric, float]]
"""One run: from a data set of the kind that the table loads, the choices and a seed to what was measured."""


@dataclass(frozen=True, slots=True)
class TableCase:
    """One line of a table.

    Attributes:
        setting: what varies down the table, such as "silos 5".
        method: the method as the paper calls it.
        measure: runs it once; None for a method of the paper that is not implemented here.
        clients: the number of clients, where the table varies it; None where it doesn't, or where there are none.
        beside: the paper's line beside whose numbers it stands, where the paper has one for several lines here; its
            own unless given.
    """

    setting: str
    method: str
    measure: Measure | None
    clients: int | None = None
    beside: str = ""

    @property
    def line(self) -> str:
        """The line of the paper that it is compared with."""
        return self.beside or self.method


@dataclass(frozen=True, slots=True)
class DerivedMetric:
    """A metric that is computed from the means of another one, as the paper does.

    Attributes:
        metric: the derived one.
        source: the measured one.
        compute: from the means of a data set's cases to the derived values; None where one is undefined.
    """

    metric: Metric
    source: Metric
    compute: Callable[[Mapping[TableCase, float]], Mapping[TableCase, float | None]]


@dataclass(frozen=True, slots=True)
class PaperTable:
    """A table or figure of a paper that can be run again.

    Attributes:
        name: as on the command line, such as "hifgl-table3".
        title: paper, number and subject.
        datasets: those of the paper.
        cases: lines, in the paper's order.
        metrics: measured ones, in order; a case may measure more.
        derived: computed from those.
        printed: file of the paper's numbers in the folder `printed`; None where it prints none.
        notes: what a reader has to know to compare.
        method: the paper's own, which is what a choice of scheme is about.
        load: from a name and the folder of the raw data sets to a data set.
    """

    name: str
    title: str
    datasets: tuple[str, ...]
    cases: tuple[TableCase, ...]
    metrics: tuple[Metric, ...]
    derived: tuple[DerivedMetric, ...] = ()
    printed: str | None = None
    notes: tuple[str, ...] = ()
    method: str = ""
    load: Callable[[str, Path | None], Data] = load

    def chosen_cases(self, clients: tuple[int, ...] = (), methods: tuple[str, ...] = ()) -> tuple[TableCase, ...]:
        """The cases with these numbers of clients and those without a number, of these methods; none named means all.

        Raises:
            InputError: the table has no case with one of the numbers, or none of the methods with one of them.
            UnknownNameError: the table has no case of one of the methods.
        """
        known = sorted({case.clients for case in self.cases if case.clients is not None})
        unknown = [number for number in clients if number not in known]
        if unknown:
            rule = f"be among {known}, those of {self.name}" if known else f"not be named for {self.name}"
            raise InputError(f"clients must {rule}; found {unknown[0]}")
        lines = tuple(dict.fromkeys(case.method for case in self.cases))
        for method in methods:
            if method not in lines:
                raise UnknownNameError(f"method of {self.name}", method, lines)
        wanted = [case for case in self.cases if not clients or case.clients in (None, *clients)]
        missing = [name for name in methods if name not in {case.method for case in wanted}]
        if missing:
            raise InputError(f"methods must be run with {list(clients)} clients in {self.name}; found {missing[0]!r}")
        return tuple(case for case in wanted if not methods or case.method in methods)


PRINTED = files("fgl_reproduction.tables") / "printed"
"""The folder of the papers' numbers."""


@dataclass(frozen=True, slots=True)
class Paper:
    """What the tables and figures of a paper have in common.

    Attributes:
        method: the paper's own.
        published: where and when.
        datasets: those of a table that names no others.
        metrics: likewise.
        load: as of `PaperTable`.
    """

    method: str
    published: str
    datasets: tuple[str, ...]
    metrics: tuple[Metric, ...]
    load: Callable[[str, Path | None], Data] = load

    def table(
        self,
        number: str,
        subject: str,
        cases: Iterable[TableCase],
        *,
        datasets: tuple[str, ...] = (),
        metrics: tuple[Metric, ...] = (),
        derived: tuple[DerivedMetric, ...] = (),
        notes: tuple[str, ...] = (),
    ) -> PaperTable:
        """A table, or a figure, with the printed numbers where there is a file of them.

        Args:
            number: "table3" or "fig4d"; a word behind a dash tells one part of it from another.
            subject: in the title.
            cases: lines, in the paper's order.
            datasets: other ones than the paper's.
            metrics: likewise.
            derived: computed from metrics.
            notes: what a reader has to know to compare.
        """
        key, (plain, *_) = self.method.lower(), number.split("-")
        file = f"{key}_{plain}.csv"
        kind, count, part = re.fullmatch(r"(table|fig)(\d+)(\w?)", plain).groups()  # type: ignore[union-attr]
        printed = f"{'Table' if kind == 'table' else 'Figure'} {count}{f'({part})' if part else ''}"
        return PaperTable(
            f"{key}-{number}",
            f"{self.method} ({self.published}), {printed}: {subject}",
            datasets or self.datasets,
            tuple(cases),
            metrics or self.metrics,
            derived,
            file if (PRINTED / file).is_file() else None,
            notes,
            self.method,
            self.load,
        )
