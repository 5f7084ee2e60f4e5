"""The report as Markdown and as JUnit's XML."""

import re
from dataclasses import replace
from xml.etree import ElementTree

from fgl_secure.auditing.matrix import State
from fgl_secure.auditing.texts import render_junit, render_markdown
from tests.auditing.samples import CELLS, CLAIM, RECORD, REPORT
from tests.auditing.test_html import HOSTILE, hostile


def test_markdown_has_the_matrix_and_all_figures() -> None:
    """Every row of a table has as many cells as its heading; matrix, figures and command are there."""
    text = render_markdown(REPORT)
    for said in ("violated by shared-mask difference", "no guarantee 0.998", "0.998 \\[0.994, 1.000\\]", "not tested"):
        assert said in text
    assert "    fgl-secure audit --out 'a folder'" in text
    for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        widths = {len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}
        assert len(widths) == 1


def test_markdown_of_hostile_names_is_text() -> None:
    """Names from outside become no markup and no line of their own."""
    breaking = replace(RECORD, attack="a|b\n# heading", finding="x")
    text = render_markdown(replace(hostile(), records=(breaking,)))
    outside = "\n".join(line for line in text.splitlines() if not line.startswith("    "))  # of the command's block
    assert HOSTILE not in outside
    assert "<script" not in re.sub(r"\\<", "", outside)
    assert "\n# heading" not in text
    assert "a\\|b \\# heading" in text


def test_junit_fails_what_is_violated() -> None:
    """A suite a scheme; violated guarantees fail, what nothing tested is skipped, and no claim is no test."""
    suites = ElementTree.fromstring(render_junit(REPORT))  # noqa: S314  # made here
    by_name = {suite.get("name"): suite for suite in suites}
    assert {name: suite.get("tests") for name, suite in by_name.items()} == {"plaintext": "0", "secmp": "2"}
    failures = by_name["secmp"].findall("testcase/failure")
    assert [(each.get("message"), each.text) for each in failures] == [("violated by shared-mask difference", CLAIM)]
    assert (by_name["secmp"].get("failures"), by_name["secmp"].get("skipped")) == ("1", "1")
    kept = replace(REPORT, matrix=(replace(CELLS[1], state=State.NOT_VIOLATED),))
    (case,) = ElementTree.fromstring(render_junit(kept)).iter("testcase")  # noqa: S314  # made here
    assert list(case) == []


def test_junit_of_hostile_names_is_xml() -> None:
    """Whatever names hold, control characters included, the file can be read."""
    cell = replace(CELLS[1], scheme="a\x00b\x1b<&", attacks=("\ud800",))
    (suite,) = ElementTree.fromstring(render_junit(replace(REPORT, matrix=(cell,))))  # noqa: S314  # made here
    assert suite.get("name") == "a b <&"


def test_reports_show_themselves() -> None:
    """In a notebook a report is its matrix, and its text is one line without arrays."""
    assert "Violated" in REPORT._repr_html_()
    assert "<script" not in hostile()._repr_html_()
    assert repr(REPORT) == "Report(plaintext, secmp: 3 findings, 1 of them violate a guarantee)"
