"""Write an audit to disk, for people, programs, pull requests and CI servers: all files or none."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fgl_secure.auditing.html import render_html, render_matrix
from fgl_secure.auditing.junit import render_junit
from fgl_secure.auditing.markdown import render_markdown
from fgl_secure.auditing.records import Record
from fgl_secure.auditing.schema import SCHEMA, Exposure, Findings, contradictions
from fgl_secure.errors import InputError

__all__ = ["SCHEMA", "Exposure", "Report", "contradictions", "render_html", "render_json", "write_report"]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Report(Findings):
    """What an audit found, which can be written down; see `Findings` for its attributes."""

    @property
    def contradictions(self) -> tuple[Record, ...]:
        """The findings that contradict what their scheme claims."""
        return contradictions(self)

    def write(self, folder: Path | str) -> tuple[Path, ...]:
        """Writes report.html, report.json, report.md and report.xml; see `write_report`."""
        return write_report(self, Path(folder))

    def __repr__(self) -> str:
        fell = len(self.contradictions)
        return f"Report({', '.join(self.protocols)}: {len(self.records)} findings, {fell} of them contradict a claim)"

    def _repr_html_(self) -> str:
        """The matrix, as notebooks show it."""
        return render_matrix(self)


def render_json(report: Findings) -> str:
    """The report as indented JSON text with a final newline; NaN and infinities cannot occur."""
    return json.dumps(report.to_json(), allow_nan=False, ensure_ascii=False, indent=2) + "\n"


def write_report(report: Findings, folder: Path) -> tuple[Path, ...]:
    """Write the report into `folder`, which is made when missing.

    report.html is for people, report.json for programs, report.md for a pull request, report.xml, in the format of
    JUnit, for a CI server. All are rendered before anything is written, written beside their places and then moved
    there, so a failure leaves the folder as it was and a reader never meets half a file.

    Returns:
        The paths of the files, that of report.html first.

    Raises:
        InputError: when the folder is a file, cannot be made or cannot be written to.
    """
    texts = {
        "report.html": render_html(report),
        "report.json": render_json(report),
        "report.md": render_markdown(report),
        "report.xml": render_junit(report),
    }
    return write_files(folder, texts)


def write_files(folder: Path, texts: Mapping[str, str]) -> tuple[Path, ...]:
    """Writes files into a folder, which is made when missing: all or none, each moved to its place when it is whole.

    Args:
        folder: where.
        texts: by name.

    Raises:
        InputError: when the folder is a file, cannot be made or cannot be written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _replace_all({folder / name: text for name, text in texts.items()})
    except OSError as error:
        raise InputError(f"folder must be a directory that can be written to; found {folder} ({error})") from error
    return tuple(folder / name for name in texts)


def _utf_8(text: str) -> bytes:
    """A text as bytes; names of files, whose bytes Python keeps as surrogates in a C locale, are what they were."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace").encode("utf-8")


def _replace_all(texts: dict[Path, str]) -> None:
    beside = {path: path.with_name(f".{path.name}.{os.getpid()}.tmp") for path in texts}
    try:
        for path, text in texts.items():
            beside[path].write_bytes(_utf_8(text))
        for path in texts:
            os.replace(beside[path], path)
    finally:
        for path in beside.values():
            path.unlink(missing_ok=True)
