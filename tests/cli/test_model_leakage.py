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
    assert "above the ceiling of 0.55" in capsys.readouterr().out
    assert main([*words, "--ceiling", "1"]) == OK


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
    ],
)
def test_nonsense_is_one_line(graph: str, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["model-leakage", "--dataset", graph, *QUICK, *words]) == BAD_INPUT
    assert capsys.readouterr().err.startswith("fgl-secure: error: ")
