"""Audits: what an attack recovered, how sure that is, and a report that people and programs can read.

Loaded when asked for: a configuration of a method lies in this package too, and `--help` reads no more than that.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fgl_secure.auditing.plot import STYLE, MarkdownTable, draw_edges, plot_findings
    from fgl_secure.auditing.records import Record
    from fgl_secure.auditing.report import Report
    from fgl_secure.auditing.terminal import print_report
    from fgl_secure.auditing.verdict import Verdict
    from fgl_secure.auditing.wording import bytes_text, figure, percent_text, with_interval

_HOMES = ("wording", "verdict", "records", "report", "terminal", "plot")

__all__ = [
    "STYLE",
    "MarkdownTable",
    "Record",
    "Report",
    "Verdict",
    "bytes_text",
    "draw_edges",
    "figure",
    "percent_text",
    "plot_findings",
    "print_report",
    "with_interval",
]


def __getattr__(name: str) -> object:
    homes = (import_module(f"{__name__}.{home}") for home in _HOMES if name in __all__)
    home = next((home for home in homes if hasattr(home, name)), None)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(home, name)


def __dir__() -> list[str]:
    return sorted(__all__)
