"""Fails when a test run shrank: `python floor.py REPORT`, with REPORT as `pytest --junitxml` writes it.

Tests that nobody collects any more don't fail, so the number of those that ran has a floor. It holds for a run without
the raw public data and without tests/repository, so that the tests of an installed wheel meet it too.
"""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree

FLOOR = 2900
"""Raised when tests are added, lowered only together with a reason in the change log."""


def executed(report: Path) -> int:
    """The number of tests that ran: collected and not skipped."""
    suites = ElementTree.parse(report).getroot().iter("testsuite")  # noqa: S314  # pytest wrote it a moment ago
    return sum(int(suite.attrib["tests"]) - int(suite.attrib["skipped"]) for suite in suites)


def main(report: str) -> None:
    """Exits with a message when fewer than `FLOOR` tests ran."""
    ran = executed(Path(report))
    if ran < FLOOR:
        sys.exit(f"{ran} tests ran; expected {FLOOR} or more (the floor in tests/repository/floor.py)")
    print(f"{ran} tests ran; the floor is {FLOOR}")


if __name__ == "__main__":
    main(*sys.argv[1:])
