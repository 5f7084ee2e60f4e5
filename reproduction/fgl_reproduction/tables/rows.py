"""The lines of a reproduced table: our figure, the printed one, and whether they agree."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from fgl_reproduction.tables.table import PRINTED, Metric

SLACK = 1e-9
"""Decimal fractions are not exact: a difference of just one printed deviation counts as within."""

Key = tuple[str, str, str, str]
"""Data set, setting, method and name of the metric."""


@dataclass(frozen=True, slots=True)
class MeanFigure:
    """A mean with its deviation; either is None where there is none."""

    mean: float | None = None
    std: float | None = None

    @classmethod
    def over_runs(cls, values: Sequence[float]) -> MeanFigure:
        """Mean and sample standard deviation (divisor runs - 1); one run has no deviation."""
        return cls(fmean(values), stdev(values) if len(values) > 1 else None)


@dataclass(frozen=True, slots=True)
class FigureRow:
    """One figure beside its printed counterpart.

    Attributes:
        dataset: name.
        setting: what varies down the table.
        method: as the paper calls it.
        metric: what was measured.
        ours: over our runs; no mean where the method is not implemented or the metric is undefined.
        paper: as printed; no mean where the paper prints none.
        implemented: whether the method can be run here.
    """

    dataset: str
    setting: str
    method: str
    metric: Metric
    ours: MeanFigure
    paper: MeanFigure
    implemented: bool = True

    @property
    def within(self) -> bool | None:
        """Whether our mean lies within one printed deviation of the printed mean; None where one is missing."""
        if self.ours.mean is None or self.paper.mean is None or self.paper.std is None:
            return None
        return abs(self.ours.mean - self.paper.mean) <= self.paper.std + SLACK

    def as_json(self) -> dict[str, object]:
        """The row as JSON values."""
        return {
            "dataset": self.dataset,
            "setting": self.setting,
            "method": self.method,
            "metric": self.metric.name,
            "ours_mean": self.ours.mean,
            "ours_std": self.ours.std,
            "paper_mean": self.paper.mean,
            "paper_std": self.paper.std,
            "within": self.within,
        }


def printed_figures(file: str | None) -> Mapping[Key, MeanFigure]:
    """The paper's numbers in a file of the folder `printed`; its `#` lines name their source."""
    if file is None:
        return {}
    text = (PRINTED / file).read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return {_key(row): MeanFigure(_number(row["mean"]), _number(row["std"])) for row in csv.DictReader(lines)}


def _key(row: Mapping[str, str]) -> Key:
    return row["dataset"], row["setting"], row["method"], row["metric"]


def _number(text: str) -> float | None:
    return float(text) if text else None
