"""The rule that no check can avoid: what passes the protocol must reject its broken twin."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from fgl_secure.errors import InputError
from fgl_secure.testing.evidence import Evidence, PrivacyAssertionError, VacuousTestError
from fgl_secure.testing.protocol import Protocol
from fgl_secure.testing.settings import CURRENT

_LOG = logging.getLogger("fgl_secure.testing")

Check = Callable[[Protocol], Evidence]


def require_twin(protocol: Protocol, broken_twin: Protocol) -> None:
    """Refuses what is not a protocol between the same parties, before anything runs."""
    for name, value in (("protocol", protocol), ("broken_twin", broken_twin)):
        if not isinstance(value, Protocol):
            raise InputError(f"{name} must be a Protocol; found {type(value).__name__}")
    if protocol.parties.counts != broken_twin.parties.counts:
        raise InputError(
            f"broken_twin must run between the protocol's parties {dict(protocol.parties.counts)}; "
            f"found {dict(broken_twin.parties.counts)}"
        )


def judge(
    check: Check,
    protocol: Protocol,
    broken_twin: Protocol,
    failure: type[PrivacyAssertionError],
    headline: str,
    *,
    fair: Callable[[], None],
    waived: tuple[str, ...] = (),
    check_twin: Check | None = None,
) -> Evidence:
    """Runs one check on the protocol and on its twin.

    Args:
        check: the check.
        protocol: what must pass it.
        broken_twin: what must not.
        failure: what to raise for the protocol.
        headline: first line of that error, with {protocol} in it.
        fair: refuses a test that passes whatever the protocol does; not asked where the protocol is rejected.
        waived: notes on the rules that the test waives.
        check_twin: the same check where a first rejection may be sure enough without a second; None is `check`.

    Raises:
        PrivacyAssertionError: of the type `failure`, when the protocol is rejected.
        VacuousTestError: when the twin is not, or the test shows nothing.
    """
    __tracebackhide__ = True
    evidence = check(protocol)
    evidence = replace(evidence, notes=(*evidence.notes, *waived))
    _LOG.info(evidence.summary)
    CURRENT.get().report(evidence.summary)
    if evidence.rejected:
        raise failure(evidence.message(headline.format(protocol=protocol)))
    fair()
    on_twin = (check_twin or check)(broken_twin)
    _LOG.info("broken twin: %s", on_twin.summary)
    if not on_twin.rejected:
        same = (
            "broken_twin must differ from protocol; found the protocol itself. " if _same(protocol, broken_twin) else ""
        )
        raise VacuousTestError(
            on_twin.message(f"{same}{evidence.check}: the broken twin {broken_twin} was not rejected, so the test of "
                            f"{protocol} shows nothing")
        )  # fmt: skip
    return evidence


def _same(protocol: Protocol, twin: Protocol) -> bool:
    here, there = (
        (run.func, run.args, tuple(run.keywords.items())) if isinstance(run, partial) else run
        for run in (protocol.run, twin.run)
    )
    return bool(here == there)
