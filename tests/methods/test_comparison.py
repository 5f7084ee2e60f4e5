"""Methods on one page: what is picked out of an audit, and that all five are there."""

from __future__ import annotations

import pytest

from fgl_secure.attacks.registry import attacks
from fgl_secure.auditing.audit import audit
from fgl_secure.auditing.report import Report
from fgl_secure.auditing.verdict import Verdict
from fgl_secure.graph import Data
from fgl_secure.methods import FedSpray, names
from fgl_secure.methods.comparison import CLEAR, FIVE, Compared, Line, line_of

QUICK = Compared(FedSpray(epochs=1), "pairwise-masking", ("proxy-counts", "all-codes"), Data(partition="louvain"))


@pytest.fixture(scope="module")
def audited() -> Report:
    """One audit of one round."""
    return audit(QUICK.method, QUICK.data, attacks=QUICK.attacks)


@pytest.fixture(scope="module")
def line(audited: Report) -> Line:
    """That audit as a line."""
    return line_of(QUICK, audited)


def test_all_five_methods_are_compared_by_attacks_that_there_are() -> None:
    """The page has the five methods of papers, and every attack that it names exists."""
    assert [each.method.name for each in FIVE] == [name for name in names() if name != "fedavg"]
    assert all(set(each.attacks) <= set(attacks()) and each.attacks for each in FIVE)


def test_a_line_has_the_audits_own_figures(audited: Report, line: Line) -> None:
    """Accuracies, bytes and figures are those of the audit's report, for the run in the clear and the secured one."""
    assert (line.title, line.dataset) == ("FedSpray", "digits")
    for side, name in ((line.clear, CLEAR), (line.secured, QUICK.secured)):
        assert side.accuracy == audited.accuracy["protocols"][side.scheme]["test"]  # type: ignore[index]
        assert side.bytes == audited.cost["protocols"][side.scheme]["bytes"]  # type: ignore[index]
        assert side.scheme.startswith(name)
        values = [r.value for r in audited.records if r.attack == "proxy-counts" and r.protocol.startswith(name)]
        assert side.readings[0].value in values


def test_the_attack_breaks_what_is_in_the_clear_and_not_what_is_secured(line: Line) -> None:
    """The most frequent label of a client is read in the clear, and no better than the prior from the sum."""
    assert line.clear.readings[0].verdict is Verdict.BROKEN
    assert line.secured.readings[0].verdict is Verdict.NOT_DETECTED
    assert line.clear.accuracy == line.secured.accuracy


def test_an_attack_with_nothing_to_read_has_no_figure(line: Line) -> None:
    """An attack on another method's messages has no value, no prior and no verdict."""
    for side in (line.clear, line.secured):
        assert (side.readings[1].value, side.readings[1].prior, side.readings[1].verdict) == (None, None, None)
