"""Methods side by side: what is picked out of audits, who fits, what goes on the page, and that finished runs stay."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from fgl_secure.auditing.audit import audit
from fgl_secure.auditing.report import Report
from fgl_secure.cli.main import OK, VIOLATED, main
from fgl_secure.cli.printing import describe_comparison
from fgl_secure.errors import InputError
from fgl_secure.graph import Data, datasets
from fgl_secure.graph.data import GraphSets
from fgl_secure.ledger import RunLedger
from fgl_secure.methods import Fed2GNN, FedSpray, FedVN, HiFGL, names
from fgl_secure.methods import method as method_of
from fgl_secure.methods.comparison import (
    SECURED,
    AttackReading,
    MethodComparison,
    compare,
    fitting_scheme,
    render_html,
    render_markdown,
    rows,
    side_of,
    source_of,
    summary,
)
from fgl_secure.methods.fed2gnn import audit_target
from fgl_secure.methods.fedspray import audit_runs
from tests.error_codes import about
from tests.graphs import first_digits
from tests.methods.fed2gnn.small import hurried_preset

DATA, ATTACKS, MASKED = Data(partition="louvain", silos=3), ("proxy-counts", "clear-values"), ("pairwise-masking",)
QUICK = (FedSpray(epochs=1), FedVN(epochs=1), HiFGL(epochs=1))


@pytest.fixture(scope="module", autouse=True)
def _small() -> Iterator[None]:
    """Some of the digits; FedSpray's audits are of the first round and one more, as no other is compared here."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(datasets, "load_digits_graph", lambda: first_digits(300))
        patched.setattr(audit_runs, "ADDITIONS", 1)
        patched.setattr(audit_target, "fed2gnn_preset", hurried_preset)
        yield


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("comparison") / "runs.jsonl"


@pytest.fixture(scope="module")
def found(path: Path) -> MethodComparison:
    """Three methods of which one is for other data, one round."""
    return compare(DATA, MASKED, QUICK, ATTACKS, seeds=(1,), ledger=RunLedger(path), command="fgl-secure compare")


@pytest.fixture(scope="module")
def audited() -> Report:
    """One of its audits."""
    return audit(QUICK[0], DATA, ("plaintext", *MASKED), ATTACKS, seed=1)


def test_a_line_has_the_audits_own_figures(audited: Report, found: MethodComparison) -> None:
    """Scores, bytes and readings are those of the reports, for the run in the clear and the secured one."""
    line = found.lines[0]
    assert (line.name, line.title) == ("fedspray", "FedSpray")
    assert [each.name for each in found.lines] == ["fedspray", "hifgl"]
    assert line.secured is not None
    for side, name in ((line.clear, "plaintext"), (line.secured, MASKED[0])):
        accuracy, cost = _of(audited.accuracy)[name], _of(audited.cost)[name]
        assert side.scheme == name
        assert side.scores == (accuracy["test"],)
        assert side.bytes == pytest.approx(cost["bytes"], rel=0.01)
        (reading,) = [each for each in side.readings if each.attack == "proxy-counts"]
        values = [r.value for r in audited.records if r.attack == "proxy-counts" and r.protocol.startswith(name)]
        assert reading.value in values


def _of(part: Any) -> dict[str, dict[str, Any]]:
    return dict(part["protocols"])


def test_the_attack_breaks_what_is_in_the_clear_and_not_what_is_secured(found: MethodComparison) -> None:
    """The most frequent label of a client is read in the clear, and no better than the prior from the sum."""
    clear, secured = found.lines[0].sides
    assert clear.worst is not None
    assert (clear.worst.attack, clear.worst.verdict) == ("proxy-counts", "broken")
    assert secured.worst is None
    assert clear.worst_excess > 0.5 > secured.worst_excess == 0
    assert clear.scores == secured.scores
    assert {reading.attack for side in found.lines[0].sides for reading in side.readings} == {"proxy-counts"}


def test_not_attacked_and_nothing_found_are_two_words(found: MethodComparison) -> None:
    """Relays that see Fed2GNN's graph, and whose view no attack reads, are named; finding nothing is no such gap."""
    scheme = "relay-coded[p=2305843009213693951,k_min=1,graph-shown]"
    hops = Fed2GNN(epochs=1, hops=1, neighbours=4)
    compared = [compare(DATA, (scheme,), (hops,), (name,)) for name in ("hop-feature-single", "clear-values")]
    attacked, shown = (each.lines[0].secured for each in compared)
    assert attacked is not None
    assert shown is not None
    assert attacked.not_attacked == ("relay", "server")
    assert shown.not_attacked == ("relay", "server", "silo")
    assert rows(compared[1])[1][1][5] == "not attacked"
    spray = found.lines[0].secured
    assert spray is not None
    assert (rows(found)[1][1][5], spray.not_attacked) == ("nothing found", ("silo",))
    assert "not attacked" in summary(compared[1])
    assert "relay, server, silo" in render_markdown(compared[1])


def test_the_worst_reading_is_the_largest_excess_unless_a_claim_falls() -> None:
    """A high value over a high prior comes after a lower one over none; a violated guarantee comes before both."""
    high = AttackReading("a", "s", "recall", 1.0, 0.99, 1.0, 0.894, 10, "leaks", "found", 0)
    excess = replace(high, attack="b", value=0.4, low=0.3, prior=0.0)
    fell = replace(high, attack="c", value=0.2, low=0.1, prior=0.0, tone="violated")
    assert sorted((high, excess, fell), key=lambda each: each.rank) == [fell, excess, high]


def test_who_does_not_fit_is_named_with_the_reason(found: MethodComparison) -> None:
    assert [(each.name, each.reason) for each in found.left_out] == [
        ("fedvn", "data must be a set of many small graphs for FedVN")
    ]


@pytest.mark.parametrize("name", names())
def test_every_method_fits_some_data_under_the_usual_schemes(name: str) -> None:
    method = method_of(name)()
    data = source_of("Motif-mini" if name == "fedvn" else "digits")
    assert isinstance(data, method.data)
    assert fitting_scheme(method, data, SECURED) in SECURED
    with pytest.raises(InputError, check=about("scheme")):
        fitting_scheme(method, data, ("server=secmp",))


def test_a_method_that_cannot_be_run_on_the_data_is_left_out() -> None:
    """What is refused once the data are known is a reason, too; the others go on."""
    data = DATA
    done = compare(data, SECURED, (Fed2GNN(epochs=1), FedSpray(epochs=1)), ATTACKS)
    assert [line.name for line in done.lines] == ["fedspray"]
    assert "k_min must leave some node a sum" in done.left_out[0].reason
    with pytest.raises(InputError, check=about("data")):
        compare(data, SECURED, (Fed2GNN(epochs=1),), ATTACKS)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"data": "Imagenet"}, "data set"),
        ({"schemes": ("magic",)}, "scheme"),
        ({"schemes": ()}, "seeds and schemes"),
        ({"attacks": ("x-ray",)}, "attack"),
        ({"seeds": ()}, "seeds and schemes"),
        ({"seeds": (-1,)}, "seeds"),
        ({"epochs": 0}, "epochs"),
        ({"device": "tpu"}, "device"),
        ({"data": GraphSets("Motif-mini"), "methods": (HiFGL(),)}, "data"),
    ],
)
def test_bad_choices_are_refused_before_anything_runs(
    monkeypatch: pytest.MonkeyPatch, words: dict[str, Any], message: str
) -> None:
    monkeypatch.setattr("fgl_secure.methods.comparison.examine", lambda *_, **__: pytest.fail("something ran"))
    with pytest.raises(InputError, match=re.escape(message)):
        compare(**words)


def test_finished_runs_are_not_run_again(path: Path, found: MethodComparison, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second comparison reads all from the file, to the same figures; other options, or data, are run."""
    monkeypatch.setattr("fgl_secure.methods.comparison.examine", lambda *_, **__: pytest.fail("it ran again"))
    again = compare(DATA, MASKED, QUICK, ATTACKS, seeds=(1,), ledger=RunLedger(path), command="fgl-secure compare")
    assert again.as_json() == found.as_json()
    held = DATA.load(0)
    features = held.graph.features.copy()
    features[0, 0] += 1
    other = replace(held, graph=replace(held.graph, stored=features))
    for data, methods in ((other, QUICK), (DATA, (FedSpray(epochs=2),)), (replace(DATA, silos=4), QUICK)):
        with pytest.raises(pytest.fail.Exception, match="it ran again"):
            compare(data, MASKED, methods, ATTACKS, ledger=RunLedger(path))


def test_of_seeds_the_worst_reading_counts() -> None:
    """A promise that falls once has fallen; scores are averaged."""
    quiet = AttackReading("a", "s", "rows", 0.9, 0.8, 1.0, 0.9, 10, "not detected", "quiet", 0)
    fell = replace(quiet, value=0.3, low=0.2, prior=0.0, verdict="leaks", tone="violated", seed=1)
    founds: list[dict[str, Any]] = [
        {"sides": [{"scheme": "s", "score": score, "bytes": size, "seconds": 1.0, "readings": [_plain(each)],
                    "not_attacked": [where]}]}
        for score, size, each, where in ((0.5, 10, quiet, "relay"), (0.7, 20, fell, "relay"), (0.6, 30, quiet, "silo"))
    ]  # fmt: skip
    side = side_of(founds, 0)
    assert side is not None
    assert side.readings == (fell,)
    assert side.bytes == 20
    assert side.not_attacked == ("relay", "silo")
    assert [side.score, side.deviation] == pytest.approx([0.6, 0.1])
    assert side_of(founds, 1) is None


def _plain(reading: AttackReading) -> dict[str, Any]:
    return {name: getattr(reading, name) for name in AttackReading.__dataclass_fields__}


class Page(HTMLParser):
    """Open elements, and what is loaded from elsewhere."""

    VOID = frozenset({"meta", "line", "path", "use", "circle", "rect", "br"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in self.VOID:
            self.open.append(tag)
        self.loaded += [
            value for name, value in attrs if name in ("src", "href") and value and not value.startswith("#")
        ]

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag


def test_the_page_is_whole_and_loads_nothing(found: MethodComparison) -> None:
    """Every element is closed, nothing is fetched, and all methods and the one left out are there."""
    text = render_html(found)
    page = Page(text)
    assert (page.open, page.loaded) == ([], [])
    for name in ("FedSpray", "FedVN", "HiFGL", "proxy-counts", "fgl-secure compare", "Left out"):
        assert name in text
    assert render_html(found) == text


def test_contradictions_are_those_of_chosen_schemes(found: MethodComparison) -> None:
    """What falls in the clear, where nobody hoped for anything, is shown and not counted."""
    fell = AttackReading("a", "s", "rows", 0.3, 0.2, 0.4, 0.0, 10, "leaks", "violated", 0)
    line = found.lines[0]
    assert line.secured is not None
    clear = replace(found, lines=(replace(line, clear=replace(line.clear, readings=(fell,))),))
    secured = replace(found, lines=(replace(line, secured=replace(line.secured, readings=(fell,))),))
    alone = replace(found, lines=(replace(line, clear=replace(line.clear, readings=(fell,)), secured=None),))
    assert [len(each.violations) for each in (clear, secured, alone)] == [0, 1, 1]
    assert "No finding violates" in summary(clear)
    assert "One finding violates" in summary(secured)


def test_all_forms_tell_the_same(found: MethodComparison, tmp_path: Path) -> None:
    """Terminal, Markdown and JSON have each run's score and bytes."""
    written = {place.suffix: place.read_text(encoding="utf-8") for place in found.write(tmp_path / "out")}
    assert written[".md"] == render_markdown(found)
    assert json.loads(written[".json"]) == json.loads(json.dumps(found.as_json()))
    for text in (written[".md"], describe_comparison(found)):
        for _, cells in rows(found):
            assert all(re.search(re.escape(cell), text) for cell in cells[2:5])


COMMAND = (
    "compare", "--methods", "fedspray", "--epochs", "1", "--partition", "louvain", "--silos", "3",
    "--attack", "proxy-counts",
)  # fmt: skip


def test_the_command_writes_prints_and_goes_on(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Files in the folder, a row as it comes, nothing twice, and its run file repeats it."""
    monkeypatch.chdir(tmp_path)
    assert main([*COMMAND, "--out", "a"]) == OK
    first = capsys.readouterr()
    assert "FedSpray on digits, pairwise-masking, seed 0: plaintext 0." in first.err
    written = sorted(each.name for each in (tmp_path / "a").iterdir())
    assert written == ["compare.html", "compare.json", "compare.md", "run.toml"]
    monkeypatch.setattr("fgl_secure.methods.comparison.examine", lambda *_, **__: pytest.fail("it ran again"))
    assert main(["compare", "--config", "a/run.toml", "--out", "b", "--json", "-q"]) == OK
    second = capsys.readouterr()
    assert second.err == ""
    a, b = (json.loads((tmp_path / each / "compare.json").read_text(encoding="utf-8")) for each in "ab")
    assert json.loads(second.out) == b
    assert (a["methods"], a["left_out"]) == (b["methods"], b["left_out"])


def test_a_contradicted_claim_of_a_named_scheme_is_the_status(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As of an audit: 3 where a scheme was named and evidence violates its claim, 0 where none was."""
    monkeypatch.chdir(tmp_path)
    words = ["compare", "--methods", "hifgl", "--epochs", "1", "--attack", "all-codes", "-q"]
    assert main([*words, "--scheme", "secmp"]) == VIOLATED
    assert "violates the guarantee" in capsys.readouterr().out
    assert main([*words, "--scheme", "relay-coded"]) == OK


def test_what_a_name_holds_is_escaped(found: MethodComparison) -> None:
    """A title or reason with markup stays text."""
    hostile = replace(found, lines=(replace(found.lines[0], title="<script>"),), left_out=found.left_out)
    assert "<script>" not in render_html(hostile)
    assert "<script>" not in hostile._repr_html_()
