"""Audits that also attack the finished model: what stands in the report, and that schemes do not change it."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from fgl_secure import audit
from fgl_secure.attacks.registry import attack, model_attacks
from fgl_secure.auditing import Report
from fgl_secure.auditing.finished_models import CONTROLS, other_split
from fgl_secure.auditing.matrix import State
from fgl_secure.ceilings import METRICS, ceiling_lines, read_ceilings
from fgl_secure.errors import InputError, UnknownNameError
from fgl_secure.graph import FederatedGraph, Graph, SplitMasks
from fgl_secure.methods import Fed2GNN, FedAvg, FedSpray, FedStruct, HiFGL, LocalPerturbation
from fgl_secure.testing import assert_below_ceilings
from tests.error_codes import about

NODES = 120


def _graph() -> FederatedGraph:
    """Labels that features don't tell, so that a model has to remember single nodes; two neighbours a node."""
    rng, ring = np.random.default_rng(0), np.arange(NODES)
    ends = np.stack([ring, (ring + 1) % NODES])
    features, edges = rng.random((NODES, 100)) < 0.3, np.concatenate([ends, ends[::-1]], axis=1)
    graph = Graph.from_arrays("ring", features.astype(np.float32), rng.integers(0, 3, NODES), edges)
    split = rng.permutation(NODES) % 4
    return FederatedGraph.from_assignment(graph, ring % 3, SplitMasks(split < 2, split == 2, split == 3))


GRAPH = _graph()


@pytest.fixture(scope="module", autouse=True)
def few_models() -> Iterator[None]:
    """Attackers train few models, for speed."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("fgl_secure.auditing.finished_models.SHADOWS", 4)
        yield


@pytest.fixture(scope="module")
def report(few_models: None) -> Report:  # noqa: ARG001  # it comes first
    """One run of HiFGL under two schemes."""
    return audit(HiFGL(epochs=30), GRAPH, ["plaintext", "relay-coded[k_min=2]"], attacks="outputs", progress=False)


def test_models_stand_beside_schemes_in_one_report(report: Report) -> None:
    """Each attack has figures with baseline, controls and the plaintext run's figure, and a card that says its cost."""
    names = {item.card.name for item in model_attacks()}
    for scheme in report.protocols:
        found = [record for record in report.records if record.protocol == scheme and record.attack in names]
        assert {record.attack for record in found} == names
        assert all(record.verdict.is_measured and record.positive_holds for record in found)
        assert all(record.null_interval is not None and record.in_the_clear is not None for record in found)
    cells = {
        (str(cell.secret), cell.role, cell.state) for cell in report.matrix if cell.secret.short.startswith("model's")
    }
    assert {state for _, _, state in cells} == {State.NO_GUARANTEE}
    assert {role for _, role, _ in cells} == {"silo", "server", "outsider"}
    about_attack = report.attacks["membership-silo"]
    assert isinstance(about_attack, dict)
    assert "trained itself" in str(about_attack["knows"])
    assert "one question per node" in str(about_attack["knows"])
    assert any("Secure sums do not change" in note for note in report.notes)
    assert not report.violations


def test_secure_sums_change_no_figure_of_the_model(report: Report) -> None:
    """Models overfit and are found out, by as much under either scheme."""
    plain, coded = report.protocols
    figures = {
        scheme: {(r.attack, r.metric): r for r in report.records if r.protocol == scheme and "AUC" in r.metric}
        for scheme in (plain, coded)
    }
    for key, record in figures[plain].items():
        assert abs(record.value - figures[coded][key].value) < 0.25
        assert record.in_the_clear == pytest.approx(record.value)
    for scheme in (plain, coded):
        best = max(record.value for (name, _), record in figures[scheme].items() if name == "membership-silo")
        assert best > 0.3


def test_a_report_with_outsiders_is_read_back(report: Report, tmp_path: Path) -> None:
    report.write(tmp_path)
    assert Report.read(tmp_path) == report


def test_noise_has_a_run_of_its_own_beside_the_same_without() -> None:
    noisy = HiFGL(epochs=1, perturbation=LocalPerturbation(epsilon=1.0, hops=2), without_noise=True)
    found = audit(noisy, GRAPH, "plaintext", attacks=["membership-outsider"], progress=False)
    assert found.protocols == ("plaintext", "plaintext+local")
    with pytest.raises(InputError, check=about("without_noise")):
        HiFGL(without_noise=True)


@pytest.mark.parametrize(
    ("method", "roles"),
    [
        (FedAvg(epochs=2), {"silo", "server", "outsider"}),
        (Fed2GNN(epochs=2), {"silo", "server", "outsider"}),
        (FedSpray(epochs=2), {"outsider"}),
        (FedStruct(epochs=2), {"silo", "outsider"}),
    ],
    ids=lambda value: value.name if hasattr(value, "name") else "",
)
def test_models_of_other_methods_are_attacked(method: FedAvg, roles: set[str]) -> None:
    """By those parties that get the model, or its answers."""
    found = audit(method, GRAPH, "plaintext", attacks="outputs", progress=False)
    assert {attack(record.attack).card.observer for record in found.records if record.verdict.is_measured} == roles


def test_the_usual_audit_has_no_row_of_a_model() -> None:
    found = audit(HiFGL(epochs=1), GRAPH, "plaintext", attacks=["all"], progress=False)
    assert not {item.card.name for item in model_attacks()} & {record.attack for record in found.records}


@pytest.mark.parametrize("item", model_attacks(), ids=lambda item: item.card.name)
def test_attacks_break_their_control_and_not_another_truth(item: object) -> None:
    named = attack(item.card.name)  # type: ignore[attr-defined]
    run = CONTROLS[named.card.control]()
    guess = run.guess(named)
    assert guess is not None
    assert all(figure.value >= named.card.minimum for figure in run.measure(named, guess))
    shuffled = [[figure.value for figure in run.score(named, guess, shuffle=seed)] for seed in range(20)]
    assert np.abs(np.mean(shuffled, axis=0)).max() < 0.1


def test_splits_are_drawn_anew_and_as_large() -> None:
    other = other_split(GRAPH, 3)
    for mask in ("train_mask", "validation_mask", "test_mask"):
        assert getattr(other, mask).sum() == getattr(GRAPH, mask).sum()
    assert (other.train_mask != GRAPH.train_mask).any()


def test_ceilings_fail_reports_and_tests(report: Report, tmp_path: Path) -> None:
    """A ceiling below the interval is exceeded, in the report, in JUnit's file and in a test; one above is not."""
    ceilings = read_ceilings(["membership.auc=0.55", "membership.tpr=1", "links.auc=1"])
    assert set(ceilings) == set(METRICS)
    (line,) = ceiling_lines(report, ceilings)
    assert "0.55 for membership.auc" in line
    with pytest.raises(AssertionError, match="membership"):
        assert_below_ceilings(report, ceilings)
    assert_below_ceilings(report, {"links.auc": 1.0})
    bounded = replace(report, run={**report.run, "ceilings": ceilings})
    bounded.write(tmp_path)
    suites = ElementTree.parse(tmp_path / "report.xml").getroot()  # noqa: S314  # written above
    (suite,) = [each for each in suites if each.get("name") == "ceilings"]
    assert (suite.get("tests"), suite.get("failures")) == ("3", "1")
    assert json.loads((tmp_path / "report.json").read_text("utf-8"))["run"]["ceilings"] == ceilings


@pytest.mark.parametrize("texts", [["x"], ["membership.auc=2"], ["0.5", "membership.auc=0.6"], ["links.auc=nan"]])
def test_nonsense_is_no_ceiling(texts: list[str]) -> None:
    with pytest.raises(InputError, check=about("ceiling")):
        read_ceilings(texts)


def test_ceilings_are_on_what_is_measured(report: Report) -> None:
    with pytest.raises(UnknownNameError):
        read_ceilings(["members=0.5"])
    with pytest.raises(InputError, check=about("ceilings")):
        audit(HiFGL(epochs=1), GRAPH, "plaintext", ceilings={"membership.auc": 0.5}, progress=False)
    empty = Report(run={}, accuracy={}, cost={}, claims={})
    with pytest.raises(InputError, check=about("ceiling")):
        assert_below_ceilings(empty, {"membership.auc": 0.5})
    with pytest.raises(InputError, check=about("ceilings")):
        assert_below_ceilings(report)
