from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

from fgl_secure.auditing.html import command_text, render_html
from fgl_secure.auditing.records import Verdict
from fgl_secure.auditing.report import Report
from tests.auditing.samples import ACCURACY, COST, EXPOSURE, QUIET, RECORD, REPORT

VOID = {"meta", "line", "rect", "circle", "path", "use", "br", "link"}
HOSTILE = "<script>alert(1)</script>\"'&<img onerror=x>"


class Outline(HTMLParser):
    """Collects tags, ids and links, and checks that elements close in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}
        self.ids += [value or "" for name, value in attrs if name == "id"]
        self.links += [value or "" for name, value in attrs if name == "href"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag


def outline(text: str) -> Outline:
    parser = Outline()
    parser.feed(text)
    parser.close()
    return parser


def hostile() -> Report:
    record = replace(RECORD, attack=HOSTILE, protocol=HOSTILE, finding=HOSTILE, claim=HOSTILE, view=HOSTILE)
    return replace(
        REPORT,
        run={"protocol": HOSTILE, "dataset": HOSTILE, HOSTILE: HOSTILE, "command": HOSTILE, "protocols": [HOSTILE]},
        accuracy={**ACCURACY, "protocols": {HOSTILE: ACCURACY}},
        cost={**COST, "protocols": {HOSTILE: COST}},
        records=(record, replace(record, positive_control=0.0)),
        exposures=(replace(EXPOSURE, protocol=HOSTILE, content=HOSTILE, phase=HOSTILE, receiver_role=HOSTILE),),
        claims={HOSTILE: {"protects": [HOSTILE], "source": HOSTILE}},
        notes=(HOSTILE,),
    )


def test_hostile_names_stay_text() -> None:
    """Names from outside never become markup, wherever the page shows them."""
    text = render_html(hostile())
    tags = outline(text).tags
    assert "script" not in tags
    assert "img" not in tags
    assert "onerror" not in outline(text).attributes
    assert text.count("&lt;script&gt;") >= 15


def test_the_page_stands_alone() -> None:
    """The page loads nothing: no address, no source, no import, no script, and links only within itself."""
    for report in (REPORT, hostile()):
        text = render_html(report)
        assert not re.search(r"https?:|\bsrc\s*=|url\(|@import|//[a-z]", text.lower().replace(HOSTILE.lower(), ""))
        page = outline(text)
        assert {"script", "link", "iframe", "object", "base"}.isdisjoint(page.tags)
        assert page.links
        assert all(link.startswith("#") and link[1:] in page.ids for link in page.links)


def test_the_page_is_well_formed() -> None:
    """Elements close in order, ids are unique, there is one title heading, and each table has a caption."""
    page = outline(render_html(REPORT))
    assert page.open == []
    assert len(page.ids) == len(set(page.ids))
    assert page.tags.count("h1") == 1
    assert page.tags.count("table") == page.tags.count("caption")


def test_equal_reports_give_equal_pages() -> None:
    """The page depends on the report alone."""
    assert render_html(REPORT) == render_html(replace(REPORT))


def test_sections_come_in_the_agreed_order() -> None:
    """Verdicts come first, then figures, who saw what, cost, accuracy, claims and how to repeat the run."""
    text = render_html(REPORT)
    names = ["verdicts", "words", "figures", "seen", "cost", "accuracy", "claims", "repeat"]
    assert re.findall(r'<section id="(\w+)"', text) == names


def test_the_page_says_what_was_found() -> None:
    """The summary, the contradicted claim, the figures, the cost and the quoted command are on the page."""
    text = render_html(REPORT)
    for said in (
        "1 of 2 claims of secmp is contradicted by 1 finding.",
        "0.998 [0.994, 1.000]",
        "1.000 (needs 0.900)",
        "Would have caught a true figure of 0.037 or more",
        "5.4 MB",
        "81.1 %",
        "fgl-secure audit --out &#39;a folder&#39;",
        "The backward pass sends messages too.",
    ):
        assert said in text


def test_errors_are_not_called_accuracy() -> None:
    """A report of a regression has errors, in their own unit, under a heading that says so."""
    text = render_html(replace(REPORT, run={**REPORT.run, "score": "mean absolute error"}))
    assert '<h2 id="accuracy-title">Mean absolute error</h2>' in text
    assert "less is better" in text
    assert "81.1 %" not in text
    assert "0.811" in text
    assert '<h2 id="accuracy-title">Accuracy</h2>' in render_html(REPORT)


def test_verdicts_are_told_by_shape_and_word() -> None:
    """Each verdict has its own shape beside its word, so that colour alone never carries it."""
    text = render_html(replace(REPORT, records=(RECORD, QUIET)))
    for verdict in Verdict:
        name = str(verdict).replace(" ", "-")
        assert text.count(f'id="icon-{name}"') == 1
        assert f'href="#icon-{name}"/></svg>{str(verdict).capitalize()}</span>' in text
    shapes = re.findall(r'<symbol id="icon-[^"]+"[^>]*>(.*?)</symbol>', text)
    assert len(set(shapes)) == len(Verdict)


def test_failed_controls_are_named_on_the_page() -> None:
    """A finding whose control failed is marked as no evidence."""
    weak = replace(RECORD, positive_control=0.2)
    assert "No evidence: the positive control reached 0.200" in render_html(replace(REPORT, records=(weak,)))


def test_an_empty_report_is_still_a_page() -> None:
    """Without findings, exposures and claims each section says so."""
    text = render_html(Report(run={}, accuracy={**ACCURACY, "per_silo": []}, cost=COST, claims={}))
    for said in ("No attack was run.", "No messages were recorded.", "No protocol of this run states a claim."):
        assert said in text


def test_a_command_is_shown_as_a_shell_reads_it() -> None:
    """Arguments are quoted where needed, a text is kept, and nothing is nothing."""
    assert command_text(["a", "b c"]) == "a 'b c'"
    assert command_text("a b") == "a b"
    assert command_text(None) == ""
