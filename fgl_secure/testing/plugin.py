"""The pytest plugin: options of the statistical checks, and a summary of what every check could have detected.

Loaded at the start of every pytest run where the package is installed, so it imports the standard library only.
"""

from __future__ import annotations

from collections.abc import Generator

import pytest

from fgl_secure.testing.evidence import CURRENT, Settings

_PROPERTY = "privacy"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds --privacy-samples, --privacy-seed and --privacy-ceiling."""
    group = parser.getgroup("privacy", "privacy tests (fgl_secure.testing)")
    group.addoption(
        "--privacy-samples",
        type=int,
        metavar="N",
        help="sample size per arm of statistical checks that name none; too small a number is refused",
    )
    group.addoption("--privacy-seed", type=int, metavar="SEED", help="repeat statistical checks with these coins")
    group.addoption(
        "--privacy-ceiling",
        action="append",
        default=[],
        metavar="METRIC=VALUE",
        help="what assert_below_ceilings allows at most, repeatable: membership.auc, membership.tpr or links.auc",
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Hands the options to the checks of one test and keeps what they report with the test's other properties."""
    lines: list[str] = []
    options = item.config.option
    token = CURRENT.set(
        Settings(options.privacy_samples, options.privacy_seed, lines.append, tuple(options.privacy_ceiling))
    )
    try:
        return (yield)
    finally:
        CURRENT.reset(token)
        item.user_properties.extend((_PROPERTY, line) for line in lines)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Prints what each check found and the smallest advantage that it detects."""
    reports = [report for result in terminalreporter.stats.values() for report in result]
    lines = [
        (report.nodeid, line)
        for report in reports
        if isinstance(report, pytest.TestReport) and report.when == "call"
        for name, line in report.user_properties
        if name == _PROPERTY
    ]
    if lines and terminalreporter.verbosity < 0:
        terminalreporter.write_line(f"{len(lines)} privacy checks; without -q each says what it detects")
        return
    if lines:
        terminalreporter.section("privacy tests")
    for nodeid, line in lines:
        terminalreporter.write_line(f"{nodeid}: {line}")
