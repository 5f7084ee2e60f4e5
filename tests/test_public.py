"""What `from fgl_secure import audit, train` takes: data first or a method first, and silos in every way."""

import io
import sys
import warnings
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch

from fgl_secure import Data, FederatedGraph, audit, train
from fgl_secure.auditing import Report
from fgl_secure.cli.main import main
from fgl_secure.cli.output import VIOLATED
from fgl_secure.errors import InputError, UnknownNameError
from fgl_secure.methods import FedAvg, FedVN, HiFGL
from tests.error_codes import about

FAST: dict[str, Any] = {"attacks": "visible-devices", "device": "cpu"}
METHOD = HiFGL(epochs=1)


def ring(n: int = 60) -> Any:
    """A ring of nodes with chords, two classes, six features, as PyTorch Geometric has it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its own imports are deprecated in torch
        from torch_geometric.data import Data as PygData

    nodes = np.arange(n)
    pairs = np.hstack([np.stack([nodes, (nodes + step) % n]) for step in (1, 2, 3)])
    edges = torch.from_numpy(np.hstack([pairs, pairs[::-1]]))
    features = torch.from_numpy(np.random.default_rng(0).random((n, 6), dtype=np.float32))
    return PygData(x=features, y=torch.from_numpy(nodes % 2), edge_index=edges)


def from_pyg(silos: Any) -> FederatedGraph:
    """The ring, dealt to silos."""
    return FederatedGraph.from_pyg(ring(), silos, name="ring")


@pytest.mark.parametrize("silos", ["louvain:3", 3, np.arange(60) % 3, None])
def test_a_graph_of_ones_own_in_one_line(tmp_path: Path, silos: Any) -> None:
    """PyTorch Geometric's data, silos in every way, one scheme, and a folder as text."""
    report = audit(ring(), method=METHOD, silos=silos, scheme="secmp", **FAST)
    assert report.run["silos"] == (5 if silos is None else 3)
    written = report.write(str(tmp_path / "out"))
    assert all(path.is_file() for path in written)


def test_equal_calls_give_equal_findings(tmp_path: Path) -> None:
    """Data first or method first, by name or set up: the same findings, and the report says how to repeat it."""
    first = audit("digits", method=METHOD, silos="random:4", scheme="secmp", **FAST)
    second = audit(METHOD, Data("digits", silos=4), ["secmp"], **FAST)
    assert first.records == second.records
    *imports, call = str(first.run["command"]).split("; ")
    assert call == (
        f"audit({METHOD!r}, {Data('digits', silos=4)!r}, schemes='secmp', attacks='visible-devices', seed=0)"
    )
    names: dict[str, Any] = {}
    exec("; ".join([*imports, f"again = {call}"]), names)  # noqa: S102  # as the report prints it
    assert names["again"].records == first.records
    second.write(tmp_path / "first")
    said = (tmp_path / "first" / "run.toml").read_text(encoding="utf-8").splitlines()[0]
    words = said.partition("fgl-secure audit ")[2].replace("run.toml", str(tmp_path / "first" / "run.toml")).split()
    assert main(["audit", *words, "--out", str(tmp_path / "again"), "--quiet"]) == VIOLATED
    assert Report.read(tmp_path / "again").records == first.records


def test_a_run_that_no_options_repeat_has_no_file_of_them(tmp_path: Path) -> None:
    """A graph in memory has no name that a command line could read."""
    report = audit(ring(), method=METHOD, silos=3, scheme="secmp", **FAST)
    assert "run.toml" not in [path.name for path in report.write(tmp_path)]


@pytest.mark.parametrize("method", ["fedavg", FedAvg, FedAvg()])
def test_a_method_comes_first_by_name_as_a_class_or_with_choices(method: Any) -> None:
    trained = train(method, ring(), silos=3, seed=cast(int, np.int64(1)), device="cpu")
    assert trained.plan.method == "fedavg"
    assert repr(trained).startswith("Trained(fedavg on ")
    assert len(repr(trained)) < 160 > len(repr(trained.result)) - 300


def test_a_name_stands_for_the_kind_of_data_that_a_method_takes() -> None:
    """Clients of FedVN have many graphs each, whichever comes first."""
    from_method = train(FedVN(epochs=1), "Motif-mini", "plaintext", device="cpu")
    from_data = train("Motif-mini", method=FedVN(epochs=1), scheme="plaintext", device="cpu")
    assert from_method.result.losses == from_data.result.losses


def test_training_takes_the_same() -> None:
    """A name of data, a name of a method, a number of silos."""
    done = train("digits", method=FedAvg(epochs=1), silos=3, device="cpu")
    assert done.plan.graph.num_silos == 3
    assert done.plan.method == "fedavg"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: audit(METHOD, "digits", method="fedavg"), "method"),
        (lambda: audit("digits", "Cora"), "of"),
        (lambda: audit("digits", method="fedprox"), "method"),
        (lambda: audit(METHOD, schemes="secmp", scheme="plaintext"), "scheme"),
        (lambda: audit(METHOD, silos="louvain"), "silos"),
        (lambda: audit(METHOD, Data(), silos=3), "silos"),
        (lambda: audit("digits", silos=[0, 1]), "silos"),
        (lambda: train("Motif-mini", method="fedvn", silos=3), "silos"),
        (lambda: train("digits", method="fedvn"), "graph set"),
        (lambda: audit(ring(), silos="louvain"), "silos"),
        (lambda: audit(ring(), silos="metis:5"), "partition"),
        (lambda: train(ring(), silos=2.5), "silos"),
        (lambda: train(ring(), silos=True), "silos"),
        (lambda: train(ring().to_dict()), "data"),
        (lambda: from_pyg(61), "silos"),
        (lambda: audit("Corra"), "data set"),
    ],
)
def test_what_is_refused(call: Any, message: str) -> None:
    with pytest.raises((InputError, UnknownNameError), check=about(message)):
        call()


def test_graphs_say_what_they_are_without_arrays() -> None:
    """A repr names sizes and dumps nothing."""
    graph = from_pyg("louvain:3")
    assert graph.partition == "louvain"
    assert "array" not in repr(graph)
    assert len(repr(graph)) < 200


@pytest.mark.parametrize("seed", ["a", 1.5, True])
def test_a_seed_of_another_kind_is_refused(seed: Any) -> None:
    """By name, before anything is loaded or trained."""
    with pytest.raises(InputError, check=about("seed")):
        train(FedAvg(epochs=1), "digits", "plaintext", seed=seed)


@pytest.mark.parametrize(("progress", "lines"), [(None, True), (True, True), (False, False)])
def test_progress_is_shown_unless_it_is_switched_off(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, progress: bool | None, lines: bool
) -> None:
    monkeypatch.setattr("fgl_secure.progress.EVERY", 0.001)
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    train(FedAvg(epochs=2), ring(), silos=3, device="cpu", progress=progress)
    assert ("training under pairwise-masking" in capsys.readouterr().err) is lines
    with pytest.raises(InputError, check=about("progress")):
        train(FedAvg(epochs=2), ring(), silos=3, progress=cast(Any, "loud"))


@pytest.mark.parametrize("stream", [None, io.StringIO()])
def test_training_needs_no_error_stream(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO | None) -> None:
    """As in a service, or when it was closed."""
    if stream is not None:
        stream.close()
    monkeypatch.setattr(sys, "stderr", stream)
    assert train(FedAvg(epochs=1), ring(), silos=3, device="cpu").accuracy.test is not None
