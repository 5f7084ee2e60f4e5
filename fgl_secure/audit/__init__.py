"""Audits: what an attack recovered, how sure that is, and a report that people and programs can read."""

from __future__ import annotations

from fgl_secure.audit.metrics import (
    Interval,
    Proportion,
    advantage,
    clustered_proportion,
    exact_proportion,
    exact_rows_recovered,
    node_block_proportion,
    smallest_detectable,
)
from fgl_secure.audit.records import Record, Verdict, judge
from fgl_secure.audit.report import Exposure, Report, contradictions, write_report
from fgl_secure.audit.terminal import print_report

__all__ = [
    "Exposure",
    "Interval",
    "Proportion",
    "Record",
    "Report",
    "Verdict",
    "advantage",
    "clustered_proportion",
    "contradictions",
    "exact_proportion",
    "exact_rows_recovered",
    "judge",
    "node_block_proportion",
    "print_report",
    "smallest_detectable",
    "write_report",
]
