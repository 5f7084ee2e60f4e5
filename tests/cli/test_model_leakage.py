"""`fgl-secure model-leakage`: trained models, answers of a model of one's own, the ceiling and nonsense."""

import json
from pathlib import Path

import numpy as np
import pytest

from fgl_secure.cli.main import main
from fgl_secure.cli.output import BAD_INPUT, OK, VIOLATED

QUICK = ["--shadows", "4", "--epochs", "60", "--hidden", "16", "--dropout", "0", "--weight-decay", "0", "-q"]


@pytest.fixture
def graph(tmp_path: Path) -> str:
    """A graph of 200 nodes whose labels are hard to learn, as a file."""
    rng = np.random.default_rng(0)
    path = tmp_path / "graph.npz"
    np.savez(
        path, x=rng.standard_normal((200, 30)), y=rng.integers(0, 3, 200), edge_index=rng.integers(0, 200, (2, 400))
    )
    return str(path)


def test_models_are_trained_and_attacked(graph: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A ceiling that is exceeded gives the status of violated guarantees, one that is not gives success."""
    words = ["model-leakage", "--dataset", graph, "--targets", "2", "--models", str(tmp_path / "models"), *QUICK]
    assert main([*words, "--json"]) == OK
    found = json.loads(capsys.readouterr().out)
    areas = {(row["attack"], row["query"]): row["mean"] for row in found["rows"] if row["metric"] == "auc"}
    assert areas["RMIA", "features"] > 0.65
    assert main([*words, "--ceiling", "0.55"]) == VIOLATED
    assert "above the ceiling of 0.55 for membership.auc: " in capsys.readouterr().out
    assert main([*words, "--ceiling", "membership.auc=1", "--ceiling", "links.auc=1"]) == OK


def test_answers_of_ones_own_are_attacked(graph: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Answers that are right for members alone: the loss tells them."""
    with np.load(graph) as stored:
        labels = stored["y"]
    members = np.arange(200) < 100
    answers = np.where(members[:, None], np.eye(3)[labels], 1 / 3)
    np.save(tmp_path / "answers.npy", answers)
    np.save(tmp_path / "members.npy", members)
    files = ["--answers", str(tmp_path / "answers.npy"), "--members", str(tmp_path / "members.npy")]
    assert main(["model-leakage", "--dataset", graph, *files, "--ceiling", "0.9", *QUICK]) == VIOLATED
    assert "loss" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [
        ["--answers", "answers.npy"],
        ["--members", "members.npy"],
        ["--answers", "none.npy", "--members", "none.npy"],
        ["--targets", "9"],
        ["--shadows", "1"],
        ["--dropout", "1"],
        ["--ceiling", "members=0.5"],
        ["--ceiling", "high"],
    ],
)
def test_nonsense_is_one_line(graph: str, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["model-leakage", "--dataset", graph, *QUICK, *words]) == BAD_INPUT
    assert capsys.readouterr().err.startswith("fgl-secure: error: ")


HALF = np.arange(200) < 100
UNIFORM = np.full((200, 3), 1 / 3)


@pytest.mark.parametrize(
    ("answers", "members", "named"),
    [
        (np.where(HALF[:, None], UNIFORM, np.nan), HALF, "finite"),
        (2 * UNIFORM, HALF, "sum to one"),
        (UNIFORM[1:], HALF, "[199, 3]"),
        (UNIFORM, np.zeros(200, np.bool_), "members"),
        (UNIFORM, np.ones(200, np.bool_), "members"),
        (UNIFORM, HALF[1:], "members"),
    ],
    ids=["NaN", "sums of two", "another length", "no members", "all members", "members of another length"],
)
def test_answers_that_are_none_are_one_line(
    graph: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], answers: object, members: object, named: str
) -> None:
    for name, values in (("answers", answers), ("members", members)):
        np.save(tmp_path / f"{name}.npy", np.asarray(values))
    files = ["--answers", str(tmp_path / "answers.npy"), "--members", str(tmp_path / "members.npy")]
    assert main(["model-leakage", "--dataset", graph, *files, *QUICK]) == BAD_INPUT
    (line,) = capsys.readouterr().err.splitlines()
    assert named in line


@pytest.mark.parametrize("flaw", ["one class", "no edges"])
def test_graphs_of_one_class_are_one_line_and_those_without_edges_are_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flaw: str
) -> None:
    rng, path = np.random.default_rng(0), tmp_path / "flawed.npz"
    labels, edges = rng.integers(0, 1 if flaw == "one class" else 3, 60), rng.integers(0, 60, (2, 100))
    kept = edges[:, :0] if flaw == "no edges" else edges
    np.savez(path, x=rng.standard_normal((60, 8)), y=labels, edge_index=kept)
    status = main(["model-leakage", "--dataset", str(path), "--targets", "2", *QUICK])
    said = capsys.readouterr()
    if flaw == "one class":
        assert status == BAD_INPUT
        assert "classes" in said.err
        assert len(said.err.splitlines()) == 1
    else:
        assert status == OK
        assert "features and edges" not in said.out
