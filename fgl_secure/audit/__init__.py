"""Audits: what an attack recovered, how sure that is, and a report that people and programs can read."""

from __future__ import annotations

from fgl_secure.audit.records import Record, Verdict, judge
from fgl_secure.audit.report import Exposure, Report, contradictions, write_report
from fgl_secure.audit.terminal import print_report

__all__ = [
    "Exposure",
    "Record",
    "Report",
    "Verdict",
    "contradictions",
    "judge",
    "print_report",
    "write_report",
]
