"""Fails when a test run shrank: `python floor.py REPORT [FLOOR]`, with REPORT as `pytest --junitxml` writes it.

Tests that nobody collects any more don't fail, so the number of those that ran has a floor. It holds for a run without
the raw public data and without tests/repository. A run of some of the tests has a floor of its own.
"""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree

FLOOR = 7500
"""Raised when tests are added, lowered only together with a reason in the change log."""


def executed(report: Path) -> int:
    """The number of tests that ran: collected and not skipped."""
    suites = ElementTree.parse(report).getroot().iter("testsuite")  # noqa: S314  # pytest wrote it a moment ago
    return sum(int(suite.attrib["tests"]) - int(suite.attrib["skipped"]) for suite in suites)


def main(report: str, floor: str = str(FLOOR)) -> None:
    """Exits with a message when fewer tests ran than the floor says."""
    ran = executed(Path(report))
    if ran < int(floor):
        sys.exit(f"{ran} tests ran; expected {floor} or more (the floor in tests/repository/floor.py or .ci/wheel)")
    print(f"{ran} tests ran; the floor is {floor}")


if __name__ == "__main__":
    main(*sys.argv[1:])
