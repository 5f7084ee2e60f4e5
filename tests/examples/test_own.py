"""The complete files of docs/your_own.md: short, and they do what the page says."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import fgl_secure
from fgl_secure import backbones
from fgl_secure.errors import UnknownNameError
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods import FedAvg, HiFGL
from tests.error_codes import about
from tests.graphs import two_communities

OWN = Path(__file__).parents[2] / "examples" / "own"
SCHEME = OWN.parent / "scheme"
SCHEMES = ("plaintext", "secmp", "relay-coded[k_min=1]")


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of the files, from which they can be imported."""
    monkeypatch.syspath_prepend(str(OWN))
    yield OWN
    for file in OWN.glob("*.py"):
        sys.modules.pop(file.stem, None)


@pytest.fixture
def propagation(own: Path) -> ModuleType:
    return importlib.import_module(next(own.glob("label_propagation.py")).stem)


@pytest.fixture
def pads(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(SCHEME))
    return importlib.import_module(next(SCHEME.glob("*.py")).stem)


@pytest.fixture(scope="module")
def graph() -> FederatedGraph:
    return two_communities(devices=48, silos=3)


@pytest.mark.parametrize("file", sorted([*OWN.glob("*.py"), *SCHEME.glob("*.py")]), ids=lambda file: file.name)
def test_files_have_forty_lines_at_most(file: Path) -> None:
    """A page that is copied from is short."""
    assert len(file.read_text(encoding="utf-8").splitlines()) <= 40


def propagated(graph: FederatedGraph, rounds: int) -> np.ndarray:
    """Beliefs after so many rounds, from the whole graph."""
    known, classes = graph.train_mask[:, None], np.eye(graph.num_classes, dtype=np.float32)
    labels = classes[graph.labels] * known
    beliefs = labels
    for _ in range(rounds):
        sums = np.zeros_like(beliefs)
        np.add.at(sums, graph.edges[1], beliefs[graph.edges[0]])
        beliefs = np.where(known, labels, sums / np.maximum(graph.in_degree, 1)[:, None])
    return beliefs


@pytest.mark.parametrize("scheme", SCHEMES)
def test_label_propagation_is_that_of_the_whole_graph(
    propagation: ModuleType, graph: FederatedGraph, scheme: str
) -> None:
    """Under every scheme the best round by validation is that of propagation with everything in one place."""
    result = fgl_secure.train(propagation.LabelPropagation(epochs=4), graph, scheme).result
    right = [propagated(graph, rounds).argmax(axis=1) == graph.labels for rounds in range(5)]
    validation = [share[graph.validation_mask].mean() for share in right]
    assert result.selected_round == int(np.argmax(validation))
    assert result.accuracy.validation == pytest.approx(max(validation))
    assert result.accuracy.test == pytest.approx(right[result.selected_round][graph.test_mask].mean())


def test_label_propagation_is_audited(propagation: ModuleType, graph: FederatedGraph) -> None:
    """Attacks on neighbours' sums read it as they read HiFGL: they break SecMP, and not its repair."""
    report = fgl_secure.audit(propagation.LabelPropagation(epochs=1), graph, ["secmp", "relay-coded"])
    fallen = {record.protocol for record in report.violations}
    assert fallen == {"secmp"}


def test_games_are_played_on_a_method_of_ones_own(propagation: ModuleType, graph: FederatedGraph) -> None:
    """What goes into sums has a secret's name already, so that guarantees of its scheme are tested."""
    report = fgl_secure.audit(propagation.LabelPropagation(epochs=1), graph, ["relay-coded"], attacks="games")
    games = {record.attack: record for record in report.records if record.attack.startswith("game-")}
    assert {"game-embedding-relay", "game-embedding-device", "game-cross-edge-silo"} <= set(games)
    assert not any(record.violates_guarantee for record in games.values())
    assert 0 < games["game-embedding-relay"].detectable_advantage < 0.01


def test_games_are_played_on_a_scheme_of_ones_own(pads: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """It names the field that pads hide; a pad of 0 for one coordinate violates its guarantee, and is placed."""
    run = {"server": pads.DealtPads()}
    plain, sums = (fgl_secure.train(FedAvg(epochs=2), None, each).result for each in ("plaintext", run))
    assert np.allclose(plain.losses, sums.losses, atol=1e-5)
    report = fgl_secure.audit(FedAvg(epochs=2), schemes=[run], attacks="games")
    (record,) = (record for record in report.records if record.attack == "game-summand-server")
    assert not report.violations
    assert 0 < record.detectable_advantage < 0.001

    begin = pads.PaddedClients.begin

    def leaky(self: Any, step: Any, rows: Any = None) -> None:
        real = self.draws
        self.draws = SimpleNamespace(draw=lambda *words: real.draw(*words) * (np.arange(words[3][0]) != 3))
        begin(self, step, rows)
        self.draws = real

    monkeypatch.setattr(pads.PaddedClients, "begin", leaky)
    (violation,) = fgl_secure.audit(FedAvg(epochs=2), schemes=[run], attacks="games").violations
    assert violation.attack == "game-summand-server"
    assert "coordinates 3" in violation.finding


@pytest.mark.parametrize("scheme", ["plaintext", "relay-coded[k_min=1]"])
def test_a_backbone_of_ones_own_trains(own: Path, graph: FederatedGraph, scheme: str) -> None:
    """Two heads of attention learn under every scheme, devices' gradients among what is summed."""
    known = set(backbones.names())
    importlib.import_module(next(own.glob("two_heads.py")).stem)
    try:
        result = fgl_secure.train(HiFGL(backbone="two_heads", epochs=8), graph, scheme).result
    finally:
        for name in set(backbones.names()) - known:
            del backbones._registered[name]
    assert result.losses[-1] < result.losses[0]
    with pytest.raises(UnknownNameError, check=about("backbone")):
        HiFGL(backbone="two_heads")
