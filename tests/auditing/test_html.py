import re
from dataclasses import replace
from html.parser import HTMLParser

from fgl_secure.auditing.html import command_text, render_html
from fgl_secure.auditing.matrix import State
from fgl_secure.auditing.report import Report
from fgl_secure.runtime import SecretKind
from tests.auditing.samples import ABOUT, ACCURACY, CELLS, COST, EXPOSURE, RECORD, REPORT

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


class _Hostile(SecretKind):
    SECRET = (HOSTILE, HOSTILE)


def hostile() -> Report:
    record = replace(RECORD, attack=HOSTILE, protocol=HOSTILE, finding=HOSTILE, claim=HOSTILE, view=HOSTILE)
    return replace(
        REPORT,
        run={"protocol": HOSTILE, "dataset": HOSTILE, HOSTILE: HOSTILE, "command": HOSTILE, "protocols": [HOSTILE]},
        accuracy={**ACCURACY, "protocols": {HOSTILE: ACCURACY}},
        cost={**COST, "protocols": {HOSTILE: COST}},
        matrix=(replace(CELLS[1], scheme=HOSTILE, secret=_Hostile.SECRET, role=HOSTILE, attacks=(HOSTILE,)),),
        attacks={HOSTILE: {**ABOUT, **dict.fromkeys(("summary", "source", "page", "knows"), HOSTILE)}},
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


def test_the_page_loads_nothing() -> None:
    """The page loads nothing: no source, no import, no script; it links within itself, and to papers."""
    for report in (REPORT, hostile()):
        text = render_html(report)
        bare = re.sub(r'<a href="https://[^"]+" rel="noreferrer">', "", text).lower().replace(HOSTILE.lower(), "")
        assert not re.search(r"https?:|\bsrc\s*=|url\(|@import|//[a-z]", bare)
        page = outline(text)
        assert {"script", "link", "iframe", "object", "base"}.isdisjoint(page.tags)
        inside = [link[1:] for link in page.links if link.startswith("#")]
        assert inside
        assert set(inside) <= set(page.ids)
        assert {link for link in page.links if not link.startswith("#")} <= {"https://arxiv.org/abs/2406.10616"}


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
    """The matrix comes first, then plots, findings, who saw what, claims, words and how to repeat the run."""
    text = render_html(REPORT)
    names = ["guarantees", "recovered", "cost", "findings", "seen", "claims", "words", "repeat"]
    assert re.findall(r'<section id="(\w+)"', text) == names
    assert re.findall(r'<li><a href="#(\w+)"', text) == names


def test_the_page_says_what_was_found() -> None:
    """The summary, the violated guarantee, the figures, the cost and the quoted command are on the page."""
    text = render_html(REPORT)
    for said in (
        "1 of 2 guarantees of secmp is violated by 1 finding.",
        "0.998 [0.994, 1.000]",
        "1.000 (needs 0.900)",
        "Would have caught a true figure of 0.037 or more",
        "A device subtracts single codes of two neighbours.",
        "docs/message_passing.md",
        "5.4 MB",
        "81.1 %",
        "fgl-secure audit --out &#39;a folder&#39;",
        "The backward pass sends messages too.",
    ):
        assert said in text


def test_one_entry_an_attack() -> None:
    """All figures of an attack under all schemes stand in one entry; what read nothing is folded."""
    text = render_html(REPORT)
    assert len(re.findall(r'<details class="attack"', text)) == len({record.attack for record in REPORT.records})
    assert text.count('class="result violated"') == 1
    assert re.search(r'<details class="fold"><summary>1 that read nothing[^<]*distinguisher', text)


def test_red_is_for_contradicted_promises_alone() -> None:
    """An attack that reads everything where nothing is promised is not shown as a contradiction."""
    free = replace(RECORD, violates_guarantee=False, claim="")
    open_cell = next(cell for cell in CELLS if cell.state is State.NO_GUARANTEE)
    text = render_html(replace(REPORT, records=(free,), matrix=(open_cell,)))
    body = text[text.index("<main>") :]
    assert "result found" in body
    shown = re.sub(r'<ul class="legend">.*?</ul>', "", body, flags=re.DOTALL)
    assert not re.search(r'class="[^"]*violated', shown)


def test_errors_are_not_called_accuracy() -> None:
    """A report of a regression has errors, in their own unit, under a heading that says so."""
    text = render_html(replace(REPORT, run={**REPORT.run, "score": "mean absolute error"}))
    assert '<h2 id="cost-title">Mean absolute error and cost</h2>' in text
    assert "less is better" in text
    assert "81.1 %" not in text
    assert "0.811" in text
    assert '<h2 id="cost-title">Accuracy and cost</h2>' in render_html(REPORT)


def test_states_are_told_by_shape_and_word() -> None:
    """What became of a promise has its own shape beside its word, so that colour alone never carries it."""
    cells = tuple(replace(CELLS[3], state=state, role=f"role {i}") for i, state in enumerate(State))
    text = render_html(replace(REPORT, matrix=cells))
    for state in State:
        name = str(state).replace(" ", "-")
        assert text.count(f'id="icon-{name}"') == 1
        assert f'href="#icon-{name}"/></svg>{str(state).capitalize()}</span>' in text
    shapes = re.findall(r'<symbol id="icon-[^"]+"[^>]*>(.*?)</symbol>', text)
    assert len(set(shapes)) == len(State)


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
