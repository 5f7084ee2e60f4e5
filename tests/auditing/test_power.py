"""Beside each figure stands what the attack finds on the subject in the clear; finding nothing is judged by it."""

import re
from dataclasses import replace

from fgl_secure.attacks.base import KnowledgeBaseline
from fgl_secure.attacks.registry import attack
from fgl_secure.auditing.html import render_html
from fgl_secure.auditing.report import promises_tested
from fgl_secure.auditing.verdict import Verdict
from fgl_secure.methods import HiFGL
from tests.auditing.samples import QUIET, RECORD, REPORT
from tests.auditing.test_terminal import printed


def test_an_attack_without_power_tests_no_claim() -> None:
    """A claim that nothing violates counts as tested only by attacks that find something in the clear."""
    plan, each = HiFGL(epochs=1).plan(schemes=("relay-coded",)), attack("visible-devices")
    quiet = replace(QUIET, attack="visible-devices", protocol=plan.subjects[0].name)
    blind = replace(quiet, in_the_clear=0.0, in_the_clear_verdict=Verdict.NOT_DETECTED)
    assert promises_tested(plan, [quiet], (each,))
    assert not promises_tested(plan, [blind], (each,))


def test_words_and_charts_show_it() -> None:
    """In a wide terminal, in a narrow one, and on the page."""
    blind = replace(QUIET, in_the_clear=0.012, in_the_clear_verdict=Verdict.NOT_DETECTED)
    odd = replace(QUIET, in_the_clear=None, in_the_clear_verdict=None, knowledge=KnowledgeBaseline.NOT_LOOKED_AT)
    report = replace(REPORT, records=(RECORD, blind, odd))
    wide, narrow, page = printed(report, 160, verbose=True), printed(report, verbose=True), render_html(report)
    for text in (" ".join(wide.split()), page):
        assert "1.000 (broken)" in text
        assert "nothing compares with what it reads" in text
    said = re.sub(r"\s+", "", wide)
    assert "Saysnothing:unprotected,too,itfindsnothingonthissubject(0.012)." in said
    assert "Thebaselineleavesoutwhattheattackknowsbesideitsview" in said
    assert "Says nothing: unprotected, too, it finds nothing on this subject (0.012)." in page
    assert "The baseline leaves out what the attack knows beside its view" in page
    assert re.search(r"baseline +plain *$", narrow, re.MULTILINE)
    assert "0.012" in narrow
