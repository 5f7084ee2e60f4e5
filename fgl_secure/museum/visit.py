"""A walk through the museum, and what it says: a table for people, and records for programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fgl_secure.errors import InputError
from fgl_secure.host import library_settings
from fgl_secure.museum.catalogue import EXHIBITS
from fgl_secure.museum.examination import Finding, examine
from fgl_secure.museum.exhibit import Exhibit
from fgl_secure.threads import one_thread

HEADER = ("exhibit", "flaw", "source", "result", "coalition", "statistic", "seconds")


@library_settings()
@one_thread()
def visit(
    names: Sequence[str] = (), *, seed: int | None = None, before: Callable[[Exhibit], object] = lambda _: None
) -> tuple[Finding, ...]:
    """Examines exhibits, each in the same way.

    Args:
        names: which; all unless given.
        seed: repeats samples and bounds; None draws secret coins.
        before: is told of each exhibit before it is examined.

    Raises:
        InputError: a name is not in the catalogue, or the seed is below zero.
    """
    if seed is not None and seed < 0:
        raise InputError(f"seed must be at least 0, or None for secret coins; found {seed}")
    known = {exhibit.name: exhibit for exhibit in EXHIBITS}
    for name in names:
        if name not in known:
            raise InputError(f"exhibits must be among {', '.join(known)}; found {name!r}")
    found = []
    for exhibit in [known[name] for name in names] or EXHIBITS:
        before(exhibit)
        found.append(examine(exhibit, seed))
    return tuple(found)


def result_of(finding: Finding) -> str:
    """The words `found` or `kept`, and `missed` or `REJECTED` where that is wrong."""
    right = {(False, True): "found", (True, False): "kept", (False, False): "missed", (True, True): "REJECTED"}
    return right[finding.exhibit.sound, finding.found]


def table(findings: Sequence[Finding]) -> list[tuple[str, ...]]:
    """A row for each exhibit, under `HEADER`."""
    return [
        (
            finding.exhibit.name,
            finding.exhibit.flaw,
            finding.exhibit.source,
            result_of(finding),
            finding.observer,
            f"{finding.check}: {finding.statistic}",
            f"{finding.seconds:.1f}",
        )
        for finding in findings
    ]


def records(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """The same as objects for JSON, with the scale and the number of questions."""
    return [
        {
            "exhibit": finding.exhibit.name,
            "sound": finding.exhibit.sound,
            "flaw": finding.exhibit.flaw,
            "source": finding.exhibit.source,
            "scale": finding.exhibit.scale,
            "result": result_of(finding),
            "coalition": finding.observer,
            "check": finding.check,
            "statistic": finding.statistic,
            "questions": finding.questions,
            "seconds": round(finding.seconds, 2),
        }
        for finding in findings
    ]
