"""Nonsense on the command line: status 2, one line that says what would be right, nothing printed, nothing written."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from fgl_secure.cli.main import BAD_INPUT, OK, main
from tests.cli.processes import started

RING = np.stack([np.arange(4), (np.arange(4) + 1) % 4])
ONES, ALTERNATE = np.ones((4, 2)), np.arange(4) % 2

NONSENSE = {
    "graph that is no archive": (("audit", "--dataset", "torn.npz"), "must be an .npz file of plain arrays"),
    "graph without edges": (("train", "fedavg", "--dataset", "noedge.npz"), "missing: edge_index"),
    "edge to nowhere": (("compare", "--dataset", "far.npz"), "edges must join nodes 0..3; edge 0"),
    "negative label": (("audit", "--dataset", "negative.npz"), "labels must be 0 or more; node 1"),
    "pickled graph": (("compare", "--dataset", "pickled.npz"), "plain arrays, without Python objects"),
    "data set without a name": (("train", "hifgl", "--dataset", ""), "data set must be one of digits"),
    "silo file that is a folder": (("audit", "--silo-file", "."), "must be a file; found a folder"),
    "silo file without silos": (("compare", "--silo-file", "empty"), "one entry a node; found shape (0,)"),
    "config that is no TOML": (("audit", "--config", "empty.npz"), "config must be a TOML file"),
    "config of another command": (("compare", "--config", "train.toml"), "command of a config must be compare"),
    "config with an unknown key": (("train", "hifgl", "--config", "key.toml"), "found epoch; did you mean epochs?"),
    "config that is not there": (("compare", "--config", "none.toml"), "config must be a TOML file that can be read"),
    "out without a name": (("audit", "--out", ""), "must name a file or a folder; found ''"),
    "out with a NUL": (("compare", "--out", "a\0b"), "must name a file or a folder"),
    "out too long": (("audit", "--out", "x" * 300), "out must be a folder that can be made and written to"),
    "out below a file": (("compare", "--out", "empty/deep"), "out must be a folder that can be made"),
    "out where nobody writes": (("audit", "--out", "/proc/report"), "out must be a folder that can be made"),
    "runs in somebody's file": (("compare", "--runs", "mine.txt"), "line 1 of mine.txt is none"),
    "seed no integer": (("audit", "fedavg", "--seed", "x"), "argument --seed: must be an integer; found 'x'"),
    "seed of a comparison": (("compare", "--seed", "-1"), "seeds must be integers in 0..2^63 - 1"),
    "seed beyond all": (("train", "fedavg", "--seed", str(2**63)), "seed must lie in 0..2^63 - 1"),
    "no seeds of an audit": (("audit", "hifgl", "--seeds", "0"), "seeds must be at least one"),
    "no runs of a comparison": (("compare", "--seeds", "0"), "seeds must be at least 1"),
    "scheme without a name": (("audit", "--scheme", ""), "scheme must be written [TOPOLOGY=]NAME"),
    "schemes of which none is there": (("audit", "--scheme", ","), "scheme must be written [TOPOLOGY=]NAME"),
    "two schemes of one run": (
        ("train", "hifgl", "--scheme", "plaintext", "--scheme", "secmp"), "scheme must be given once"
    ),
    "attack without a name": (("compare", "--attack", ""), "attack must be one of clear-values"),
    "engine that is none": (("train", "hifgl", "--engine", "ray"), "must be one of one-process, flower"),
    "noise below zero": (("train", "fedavg", "--noise", "-1"), "noise must be positive"),
    "noise without end": (("train", "fedavg", "--noise", "inf"), "noise must be positive"),
    "epsilon of zero": (("train", "hifgl", "--dp-epsilon", "0"), "epsilon must be a positive number"),
    "loud and quiet": (("train", "hifgl", "-q", "-v"), "not allowed with argument"),
    "data of no method": (
        ("compare", "--dataset", "Motif-mini", "--methods", "hifgl"), "data must be one graph that is dealt to silos"
    ),
    "partition of a comparison": (("compare", "--partition", "x"), "partition must be one of random"),
    "method in capitals": (("audit", "HIFGL"), "did you mean hifgl?"),
    "method twice": (("audit", "hifgl", "hifgl"), "unrecognized arguments: hifgl"),
    "parameter of a scheme": (
        ("train", "hifgl", "--max-degree", "8"), "to be said as --scheme 'relay-coded[max_degree=...]'"
    ),
    "half a silo": (("audit", "hifgl", "--silos", "2.5"), "argument --silos: must be an integer; found '2.5'"),
    "noise in words": (("train", "fedavg", "--noise", "much"), "argument --noise: must be a number; found 'much'"),
    "option that is near": (("audit", "hifgl", "--epoch", "3"), "did you mean --epochs?"),
    "option near by its dashes alone": (("completion", "bash", "--clients", "9"), "arguments: --clients 9 (see"),
    "shell that is none": (("completion", "tcsh"), "must be one of bash, zsh, fish"),
    "two kinds to list": (("list", "methods", "more"), "unrecognized arguments: more"),
    "command without a name": (("",), "must be one of audit, train"),
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with files that nothing can be made of, from which commands are called."""
    monkeypatch.chdir(tmp_path)
    texts = {"mine.txt": "mine\n", "empty": "", "train.toml": 'command = "train"\n', "key.toml": "epoch = 3\n"}
    for name, text in texts.items():
        Path(name).write_text(text, encoding="utf-8")
    Path("torn.npz").write_bytes(b"PK\x03\x04torn")
    Path("empty.npz").write_bytes(b"\xff")
    np.savez("noedge.npz", x=ONES, y=ALTERNATE)
    np.savez("far.npz", x=ONES, y=ALTERNATE, edge_index=RING + 9)
    np.savez("negative.npz", x=ONES, y=-2 * ALTERNATE, edge_index=RING)
    np.savez("pickled.npz", x=np.array([object()] * 4), y=ALTERNATE, edge_index=RING)
    return tmp_path


@pytest.mark.parametrize(("words", "remedy"), NONSENSE.values(), ids=NONSENSE.keys())
def test_nonsense_is_refused_in_one_line_that_says_what_is_right(
    folder: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], remedy: str
) -> None:
    """Nothing runs, nothing is printed, nothing is written; the line has the rule, and no traceback."""
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    try:
        status = main(words)
    except SystemExit as left:
        status = left.code if isinstance(left.code, int) else -1
    said = capsys.readouterr()
    assert (status, said.out) == (BAD_INPUT, "")
    assert re.fullmatch(r"fgl-secure[^\n]*: error: [^\n]*\n", said.err)
    assert remedy in said.err
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


AUDIT = ("audit", "--epochs", "1", "--device", "cpu", "--scheme", "plaintext", "--attack", "clear-values", "-q")


def test_two_audits_into_one_folder_leave_whole_files(tmp_path: Path) -> None:
    """Each file is one of the two's, from beginning to end, and nothing else is left."""
    both = [started(tmp_path, [*AUDIT, "--out", "both", "--seed", seed]) for seed in "01"]
    assert [each.ended()[0] for each in both] == [OK, OK]
    assert {path.name for path in (tmp_path / "both").iterdir()} == {
        "report.html", "report.json", "report.md", "report.xml", "run.toml",
    }  # fmt: skip
    text = {path.suffix: path.read_text(encoding="utf-8") for path in (tmp_path / "both").iterdir()}
    assert json.loads(text[".json"])["run"]["seed"] in (0, 1)
    assert text[".html"].rstrip().endswith("</html>")
    assert text[".xml"].rstrip().endswith("</testsuites>")
    assert re.search(r"^seed = [01]$", text[".toml"], re.MULTILINE)


def test_a_disk_too_small_for_the_report_loses_no_finding_and_no_older_report(tmp_path: Path) -> None:
    """What was found is printed; one line says why nothing was written, and the files of before are still there."""
    (tmp_path / "old").mkdir()
    (tmp_path / "old/report.json").write_text("{}", encoding="utf-8")
    status, out, err = started(tmp_path, [*AUDIT, "--out", "old"], most=2000).ended()
    assert status == BAD_INPUT
    assert out.strip()
    assert re.fullmatch(r"fgl-secure: error: folder must be a directory that can be written to; [^\n]*\n", err)
    assert [path.name for path in (tmp_path / "old").iterdir()] == ["report.json"]
    assert (tmp_path / "old/report.json").read_text(encoding="utf-8") == "{}"
