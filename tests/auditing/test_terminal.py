from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from fgl_secure.auditing.terminal import print_report
from tests.auditing.samples import CLAIM, COST, RECORD, REPORT


def printed(report: object = REPORT, width: int = 80, encoding: str = "utf-8") -> str:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding, newline="\n")
    print_report(report, Console(file=stream, width=width))  # type: ignore[arg-type]
    stream.flush()
    return raw.getvalue().decode(encoding)


@pytest.mark.parametrize("width", [40, 80, 140])
def test_a_pipe_gets_plain_text(width: int) -> None:
    """Outside a terminal there is no escape code, no line beyond the width, and no missing word."""
    text = printed(width=width)
    assert "\x1b" not in text
    assert max(len(line) for line in text.splitlines()) <= width
    assert "not detected" in text.lower()
    assert "0.998" in text


def test_standard_output_is_the_default(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a console the report goes to standard output, and a captured one gets no escape code."""
    print_report(REPORT)
    out = capsys.readouterr().out
    assert out.startswith("Privacy audit of secmp on Cora")
    assert "\x1b" not in out


def test_a_terminal_gets_colour() -> None:
    """A terminal, and only a terminal, gets colour codes."""
    stream = io.StringIO()
    print_report(REPORT, Console(file=stream, force_terminal=True, color_system="standard", width=80))
    assert "\x1b[" in stream.getvalue()


@pytest.mark.parametrize("width", [80, 140])
def test_verdicts_come_first_and_contradictions_last(width: int) -> None:
    """The reader meets the verdicts, then accuracy and cost, then what contradicts a claim."""
    text = printed(width=width)
    places = [text.index(word) for word in ("shared-mask", "accuracy 81.1 %", "Contradicted claims", CLAIM)]
    assert places == sorted(places)


def test_errors_are_not_called_accuracy() -> None:
    """A report of a regression says so and shows errors in their own unit."""
    text = printed(replace(REPORT, run={**REPORT.run, "score": "mean absolute error"}))
    assert "mean absolute error 0.811 test, 0.806 validation" in text
    assert "accuracy" not in text


def test_markup_and_control_codes_in_names_are_inert() -> None:
    """Square brackets are shown as they are, and escape codes in a name never reach the terminal."""
    record = replace(RECORD, attack="[red]x[/red]\x1b[2J\r\x07", finding="[/] a\u202eb")
    text = printed(replace(REPORT, records=(record,)))
    assert "[red]x[/red]" in text
    assert not {"\x1b", "\r", "\x07", "\u202e"} & set(text)


def test_an_ascii_stream_is_enough() -> None:
    """A stream that takes only ASCII gets the whole report, figures that were not measured included."""
    text = printed(replace(REPORT, cost={**COST, "seconds": None}), width=140, encoding="ascii")
    assert "Contradicted claims" in text
