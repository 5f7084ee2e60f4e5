"""The matrix as JUnit's XML, which CI servers show: a suite for each scheme, a test for each promise."""

from __future__ import annotations

from xml.etree.ElementTree import Element, SubElement, tostring

from fgl_secure.auditing import picture
from fgl_secure.auditing.html import title
from fgl_secure.auditing.matrix import Cell, State
from fgl_secure.auditing.schema import Findings


def render_junit(report: Findings) -> str:
    """The promises as tests: a contradicted one fails, one that is admitted or not tested is skipped.

    What a scheme doesn't promise is no test.
    """
    suites = Element("testsuites", name=_legal(title(report)))
    for scheme in picture.schemes(report):
        promised = [cell for cell in report.matrix if cell.scheme == scheme and cell.state is not State.NO_CLAIM]
        _suite(suites, scheme, promised)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + tostring(suites, encoding="unicode") + "\n"


def _suite(suites: Element, scheme: str, cells: list[Cell]) -> None:
    states = picture.tally(cells)
    suite = SubElement(
        suites,
        "testsuite",
        name=_legal(scheme),
        tests=str(len(cells)),
        failures=str(states.get(State.CONTRADICTED, 0)),
        errors="0",
        skipped=str(states.get(State.UNTESTED, 0) + states.get(State.ADMITTED, 0)),
    )
    for cell in cells:
        name = _legal(f"{cell.secret}, from {cell.role}s")
        case = SubElement(suite, "testcase", classname=_legal(scheme), name=name)
        if cell.state is State.CONTRADICTED:
            said = SubElement(case, "failure", message=_legal(f"contradicted by {', '.join(cell.attacks)}"))
            said.text = _legal("\n".join(cell.promises))
        elif cell.state not in (State.KEPT, State.UNREAD):
            SubElement(case, "skipped", message=_legal(f"{picture.cell_text(cell)}: {picture.MEANING[cell.state]}"))


def _legal(text: str) -> str:
    """Without what XML has no way to write."""
    return "".join(letter if letter in "\n\t" or letter.isprintable() else " " for letter in text)
