import io
from dataclasses import replace

import pytest
from rich.console import Console

from fgl_secure.auditing import tables
from fgl_secure.auditing.matrix import State
from fgl_secure.auditing.report import Report
from fgl_secure.auditing.terminal import print_report
from tests.auditing.samples import CELLS, CLAIM, COST, RECORD, REPORT


def printed(report: Report = REPORT, width: int = 80, encoding: str = "utf-8", *, verbose: bool = False) -> str:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding, newline="\n")
    print_report(report, Console(file=stream, width=width), verbose=verbose)
    stream.flush()
    return raw.getvalue().decode(encoding)


@pytest.mark.parametrize("verbose", [False, True])
@pytest.mark.parametrize("width", [40, 80, 140])
def test_a_pipe_gets_plain_text(width: int, verbose: bool) -> None:
    """Outside a terminal there is no escape code, no line beyond the width, and no missing word."""
    text = printed(width=width, verbose=verbose)
    assert "\x1b" not in text
    assert max(len(line) for line in text.splitlines()) <= width
    said = "".join(text.split())
    assert "violated" in said
    assert not verbose or "notdetected" in said


def test_standard_output_is_the_default(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a console the report goes to standard output, and a captured one gets no escape code."""
    print_report(REPORT)
    out = capsys.readouterr().out
    assert out.startswith("Privacy audit of secmp on Cora")
    assert "\x1b" not in out


def test_a_terminal_gets_colour() -> None:
    stream = io.StringIO()
    print_report(REPORT, Console(file=stream, force_terminal=True, color_system="standard", width=80))
    assert "\x1b[" in stream.getvalue()


def test_many_schemes_stand_below_each_other() -> None:
    """Columns that don't fit make another block; none is left out and no line is too long."""
    names = [f"scheme-{i}[parameter={i}]" for i in range(5)]
    cells = tuple(replace(cell, scheme=name) for cell in CELLS[1::2] for name in names)
    text = printed(replace(REPORT, matrix=cells))
    assert all(name in text for name in names)
    assert max(len(line) for line in text.splitlines()) <= 80


def test_the_matrix_comes_first_and_contradictions_follow() -> None:
    """The reader meets the matrix, then what fell, then accuracy and cost; claims in full come on request."""
    text = printed()
    places = [text.index(word) for word in ("hidden", "1 guarantee violated, by shared-mask", "accuracy 81.1 %")]
    assert places == sorted(places)
    assert CLAIM not in text
    assert f"violates: {CLAIM}" in printed(verbose=True)


def test_errors_are_not_called_accuracy() -> None:
    """A report of a regression says so and shows errors in their own unit."""
    text = printed(replace(REPORT, run={**REPORT.run, "score": "mean absolute error"}))
    assert "mean absolute error 0.811, 5.4 MB" in text
    assert "accuracy" not in text


def test_markup_and_control_codes_in_names_are_inert() -> None:
    """Square brackets are shown as they are, and escape codes in a name never reach the terminal."""
    record = replace(RECORD, attack="[red]x[/red]\x1b[2J\r\x07", finding="[/] a\u202eb")
    text = printed(replace(REPORT, records=(record,)), verbose=True)
    assert "[red]x[/red]" in text
    assert not {"\x1b", "\r", "\x07", "\u202e"} & set(text)


def test_an_ascii_stream_is_enough() -> None:
    """A stream that takes only ASCII gets the whole report, figures that were not measured included."""
    text = printed(replace(REPORT, cost={**COST, "seconds": None}), width=140, encoding="ascii", verbose=True)
    assert "guarantee violated" in text


def test_verbose_shows_all_rows_and_violated_ones_always_show() -> None:
    rows = tables.rows(REPORT)
    assert "more with --verbose" not in printed(width=40, verbose=True)
    fallen = {row.short for row in rows if any(cell.state is State.VIOLATED for cell in row.cells)}
    narrow = printed(width=40, verbose=False)
    assert all(each.split()[0] in narrow for each in fallen)
    for row in rows:
        assert row.short.split()[0] in printed(width=80, verbose=True)
