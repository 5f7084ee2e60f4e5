"""Programs of silos on Flower: what one process finds, whatever the method and its schemes."""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pytest

import fgl_secure
from fgl_secure.auditing.program_method import ProgramMethod
from fgl_secure.auditing.programs import filled
from fgl_secure.errors import InputError
from fgl_secure.flower.programs import ProgramRun
from fgl_secure.flower.training import train_on_flower
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods import FedSpray, HiFGL
from fgl_secure.schemes import assignment
from fgl_secure.training.silo import Silo
from tests.flower.nodes import reports_of
from tests.graphs import two_communities

OWN = Path(__file__).parents[2] / "examples" / "own"


@pytest.fixture(scope="module")
def graph() -> FederatedGraph:
    return two_communities(devices=48, silos=3)


def check(method: ProgramMethod, graph: FederatedGraph, scheme: str) -> None:
    """Losses, the selected round and accuracies are those of one process, in every silo's report."""
    schemes = method.assigned(filled(assignment(scheme, method.topologies), graph.num_silos))
    run = ProgramRun(method, schemes, graph.num_silos)
    reports = reports_of(run, [Silo.of(graph, silo) for silo in range(graph.num_silos)])
    expected = fgl_secure.train(method, graph, scheme).result
    for report in reports.values():
        assert tuple(report["losses"]) == expected.losses
        assert int(report["selected round"]) == expected.selected_round
        assert float(report["test"]) == expected.accuracy.test
        assert float(report["validation"]) == expected.accuracy.validation


@pytest.mark.parametrize("scheme", ["plaintext", "relay-coded[k_min=1]", "relay-coded,server=lightsecagg"])
def test_hifgl_is_that_of_one_process(graph: FederatedGraph, scheme: str) -> None:
    """Under its default secure schemes among others."""
    check(HiFGL(epochs=2), graph, scheme)


@pytest.mark.parametrize("scheme", ["plaintext", "relay-coded[k_min=1]"])
def test_a_method_of_ones_own_is_that_of_one_process(
    graph: FederatedGraph, scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Label propagation as its page has it, without an edit."""
    monkeypatch.syspath_prepend(str(OWN))
    check(importlib.import_module("label_propagation").LabelPropagation(epochs=2), graph, scheme)


def test_what_cannot_run_apart_is_refused_before_anything_starts(graph: FederatedGraph) -> None:
    """Schemes that silos cannot follow, too few silos, and methods that are no programs."""
    for scheme in ("secmp", "relay-coded[anon]"):
        with pytest.raises(InputError, match="scheme of neighbours must be plaintext, or relay-coded in profile base"):
            train_on_flower(HiFGL(), graph, scheme)
    with pytest.raises(InputError, match="silos must be at least 3"):
        train_on_flower(HiFGL(), two_communities(silos=2), "plaintext")
    with pytest.raises(InputError, match="method must be a program of one silo"):
        train_on_flower(FedSpray(), graph)


def test_shares_in_files_are_those_cut_from_the_graph(graph: FederatedGraph, tmp_path: Path) -> None:
    """What a node reads is what its silo holds, degrees and the name of the graph among it."""
    silo = Silo.of(graph, 1)
    silo.save(tmp_path / "silo1")
    found = Silo.load(tmp_path / "silo1")
    assert found.facts == silo.facts
    assert found.facts.name == graph.graph.name
    assert np.array_equal(found.degrees, graph.in_degree[silo.nodes])
