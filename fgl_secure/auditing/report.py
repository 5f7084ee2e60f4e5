"""Write an audit to disk: report.json for programs and report.html for people, both or neither."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from fgl_secure.auditing.html import render_html
from fgl_secure.auditing.records import Record
from fgl_secure.auditing.schema import SCHEMA, Exposure, Findings, contradictions
from fgl_secure.errors import InputError

__all__ = ["SCHEMA", "Exposure", "Report", "contradictions", "render_html", "render_json", "write_report"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report(Findings):
    """What an audit found, which can be written down; see `Findings` for its attributes."""

    @property
    def contradictions(self) -> tuple[Record, ...]:
        """The findings that contradict what their scheme claims."""
        return contradictions(self)

    def write(self, folder: Path | str) -> tuple[Path, Path]:
        """Writes report.json and report.html; see `write_report`."""
        return write_report(self, Path(folder))


def render_json(report: Findings) -> str:
    """The report as indented JSON text with a final newline; NaN and infinities cannot occur."""
    return json.dumps(report.to_json(), allow_nan=False, ensure_ascii=False, indent=2) + "\n"


def write_report(report: Findings, folder: Path) -> tuple[Path, Path]:
    """Write report.json and report.html into `folder`, which is made when missing.

    Both are rendered before anything is written, written beside their places and then moved there, so a failure
    leaves the folder as it was and a reader never meets half a file.

    Returns:
        The paths of report.json and report.html.

    Raises:
        InputError: when the folder is a file, cannot be made or cannot be written to.
    """
    texts = {"report.json": render_json(report), "report.html": render_html(report)}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _replace_all({folder / name: text for name, text in texts.items()})
    except OSError as error:
        raise InputError(f"folder must be a directory that can be written to; found {folder} ({error})") from error
    return folder / "report.json", folder / "report.html"


def _replace_all(texts: dict[Path, str]) -> None:
    beside = {path: path.with_name(f".{path.name}.{os.getpid()}.tmp") for path in texts}
    try:
        for path, text in texts.items():
            beside[path].write_text(text, encoding="utf-8", newline="\n")
        for path in texts:
            os.replace(beside[path], path)
    finally:
        for path in beside.values():
            path.unlink(missing_ok=True)
