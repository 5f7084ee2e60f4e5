"""Examine cases of the catalogue, each in the same way."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fgl_reproduction.known_flaws.case import FlawCase
from fgl_reproduction.known_flaws.catalogue import CASES
from fgl_reproduction.known_flaws.examination import Finding, examine
from fgl_secure.errors import InputError
from fgl_secure.host import library_settings
from fgl_secure.threads import one_thread


@library_settings()
@one_thread()
def run_cases(
    names: Sequence[str] = (), *, seed: int | None = None, before: Callable[[FlawCase], object] = lambda _: None
) -> tuple[Finding, ...]:
    """Examine cases and return a finding for each.

    Args:
        names: names of cases; all cases when empty.
        seed: repeats samples and bounds; None draws secret randomness.
        before: called with each case before its examination.

    Raises:
        InputError: a name is not in the catalogue, or the seed is negative.
    """
    if seed is not None and seed < 0:
        raise InputError(f"seed must be at least 0, or None for secret randomness; found {seed}")
    known = {case.name: case for case in CASES}
    for name in names:
        if name not in known:
            raise InputError(f"cases must be among {', '.join(known)}; found {name!r}")
    findings = []
    for case in [known[name] for name in names] or CASES:
        before(case)
        findings.append(examine(case, seed))
    return tuple(findings)
