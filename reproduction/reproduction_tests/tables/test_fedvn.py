"""FedVN's tables: their printed numbers, their cases, and what a run measures."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from fgl_reproduction.tables.fedvn import (
    ACCURACIES,
    COURSES,
    DECOUPLED,
    ERRORS,
    FACTORS,
    GENERATORS,
    NOT_IMPLEMENTED,
    NUMBERS,
    PULLED,
    SETTING,
    SIMILAR_CLIENTS,
    SIMILAR_NODES,
    TABLES,
)
from fgl_reproduction.tables.fedvn_baselines import DITTO, FEDAVG, FEDVN, PROGRAMS, WITHOUT_GENERATORS, FedVNAveraging
from fgl_reproduction.tables.fedvn_runs import (
    ACCURACY,
    AFTER,
    ERROR,
    LARGEST_COSINE,
    LAST_ACCURACY,
    LAST_ERROR,
    LEAST_COSINE,
    MEAN_COSINE,
    ClientSimilarities,
    FedVNAccuracyCurve,
    GraphRun,
    NamedSet,
    VirtualSimilarities,
    accuracy_after,
    between_clients,
    load_named_set,
    mean_cosines,
    run_of,
    unit_rows,
)
from fgl_reproduction.tables.rows import printed_figures
from fgl_reproduction.tables.table import Choices
from fgl_secure.errors import InputError, UnknownNameError
from fgl_secure.graph.datasets import load_set
from fgl_secure.graph.graph_sets import GraphSet
from fgl_secure.methods.fedvn.preset import FedVNPreset
from fgl_secure.training.job import Job
from fgl_secure.training.parameters import flat
from tests.error_codes import about
from tests.methods.fedvn.sets import random_set

QUICK = Choices(seeds=1, epochs=1)


def test_every_printed_number_has_its_row() -> None:
    """Printed numbers and rows of the paper's data sets are the same, one for one."""
    wanted = {
        (data, SETTING, case.line, metric.name)
        for table, metric, named in ((ACCURACIES, ACCURACY, ("CMNIST",)), (ERRORS, ERROR, ()))
        for data in (*table.datasets, *named)
        for case in table.cases
    }
    assert set(printed_figures(ACCURACIES.printed)) == wanted
    assert ACCURACIES.printed == ERRORS.printed
    assert set(printed_figures(GENERATORS.printed)) == {
        (data, SETTING, case.line, ACCURACY.name) for data in ("Motif-basis", "CMNIST") for case in GENERATORS.cases
    }
    figures = (COURSES, FACTORS, NUMBERS, SIMILAR_NODES, SIMILAR_CLIENTS)
    assert (ACCURACIES, ERRORS, GENERATORS, *figures) == TABLES


def test_what_is_not_implemented_is_named_and_not_run() -> None:
    """Baselines that are missing have a line and no measure; the notes name them, and SST2."""
    for table in (ACCURACIES, ERRORS, COURSES):
        assert {case.method for case in table.cases if case.measure is None} == set(NOT_IMPLEMENTED)
        assert all(name in " ".join(table.notes) for name in (*NOT_IMPLEMENTED, "SST2"))


def test_a_run_measures_the_selected_and_the_last_round() -> None:
    """Two accuracies in percent; the best round of `paper` is at least as good as the last."""
    measured = run_of(FEDVN)(load_named_set("motif-mini"), Choices(preset="paper", seeds=1, epochs=2), 0)
    assert set(measured) == {ACCURACY, LAST_ACCURACY}
    assert 0 <= measured[LAST_ACCURACY] <= measured[ACCURACY] <= 100


def test_cases_run_what_they_are_called(monkeypatch: pytest.MonkeyPatch) -> None:
    """A case's method, M, lambda_1 and lambda_2 are those that are trained, and no run is there twice."""
    tried: list[tuple[object, int, float, float]] = []
    fedvn, averaging, alike = (PROGRAMS[name] for name in (FEDVN, FEDAVG, WITHOUT_GENERATORS))

    def note_call(*_given: object, kind: object, **_others: object) -> Job:
        preset = next(each for each in _given if isinstance(each, FedVNPreset))
        tried.append((kind, preset.virtual_nodes, preset.decoupling, preset.contrast))
        raise InputError("enough")

    monkeypatch.setattr("fgl_reproduction.tables.fedvn_runs.clients_of", note_call)
    for case in (*GENERATORS.cases, *FACTORS.cases, *NUMBERS.cases, *SIMILAR_NODES.cases, *SIMILAR_CLIENTS.cases):
        assert case.measure is not None
        with pytest.raises(InputError, match="enough"):
            case.measure(NamedSet("Motif-mini"), Choices(preset="paper"), 0)
    factors = [(one, two) for one in (0, 0.01, 0.1, 1, 10) for two in (0, 1, 5, 10, 20)]
    assert tried == [
        (fedvn, 20, 0.1, 1),
        (fedvn, 20, 10, 1),
        (alike, 1, 0.1, 1),
        *((fedvn, 20, one, two) for one, two in factors),
        *((fedvn, number, 0.1, 1) for number in (1, 5, 10, 20, 50, 100)),
        *((fedvn, 10, factor, 1) for factor in (0.1, 0)),
        *((kind, 20, 0.1, 1) for kind in (averaging, fedvn)),
        (fedvn, 20, 10, 1),
    ]
    assert {case.method: case.line for case in ACCURACIES.cases if case.beside} == {
        PULLED: "Ditto",
        "FedStar without structure features": "FedStar",
        DECOUPLED: "FedVN",
    }
    assert [case.setting for case in FACTORS.cases] == [f"lambda_1 {one:g}, lambda_2 {two:g}" for one, two in factors]
    assert [case.setting for case in NUMBERS.cases] == [f"M {number}" for number in (1, 5, 10, 20, 50, 100)]


def test_a_lambda_of_ditto_is_trained_with() -> None:
    """A personal model that is pulled harder is another one; without a choice lambda is the preset's."""
    data, choices = load_named_set("motif-mini"), Choices(preset="paper", seeds=1, epochs=1)
    own = []
    for program in (PROGRAMS[DITTO], partial(FedVNAveraging, pull=0.1), partial(FedVNAveraging, pull=10.0)):
        job = GraphRun(program).job(data, choices, 0)
        process = job.open(job.channel())
        process.round(0)
        client = next(iter(process.programs))
        assert isinstance(client, FedVNAveraging)
        assert client.personal is not None
        own.append(flat(list(client.personal.parameters())))
    chosen, same, harder = own
    assert np.array_equal(chosen, same)
    assert not np.allclose(chosen, harder)


def test_a_run_on_values_measures_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where targets are values the metrics are mean absolute errors; figures of classes refuse them."""

    def values(_name: str, seed: int, _data_root: Path | None) -> GraphSet:
        return random_set(seed, values=True)

    monkeypatch.setattr("fgl_reproduction.tables.fedvn_runs._load_set", values)
    assert set(run_of(FEDAVG)(NamedSet("random"), QUICK, 0)) == {ERROR, LAST_ERROR}
    for measure in (FedVNAccuracyCurve(run_of(FEDAVG)), ClientSimilarities(run_of(FEDAVG))):
        with pytest.raises(InputError, check=about("dataset")):
            measure(NamedSet("random"), QUICK, 0)


def test_every_seed_draws_its_own_graphs() -> None:
    """A set is loaded by name, with its name as the catalogue spells it, and drawn a seed."""
    named = load_named_set("motif-mini")
    assert named.name == "Motif-mini"
    for seed in (0, 1):
        assert (named.load(seed).edges == load_set("Motif-mini", seed).edges).all()
    assert named.load(0).edges.shape != named.load(1).edges.shape


def test_wrong_choices_are_refused() -> None:
    """Sets have names, and sums of the table's runs are in the clear."""
    with pytest.raises(UnknownNameError, match="Motif-max"):
        load_named_set("Motif-max")
    with pytest.raises(InputError):
        run_of(FEDVN)(NamedSet("Motif-mini"), Choices(scheme="secmp"), 0)


def test_a_course_is_the_accuracy_round_by_round() -> None:
    """After so many rounds of a run it is what a run of as many rounds ends with; past the end, the last."""
    data, choices = load_named_set("motif-mini"), Choices(preset="paper", seeds=1, epochs=5)
    run = run_of(FEDAVG)
    found = FedVNAccuracyCurve(run)(data, choices, 0)
    assert set(found) == {accuracy_after(after) for after in AFTER} == set(COURSES.metrics)
    for rounds in (1, 5):
        short = run(data, replace(choices, epochs=rounds), 0)
        assert found[accuracy_after(rounds)] == short[LAST_ACCURACY]
    assert found[accuracy_after(100)] == found[accuracy_after(5)]


def test_virtual_nodes_are_compared_in_pairs() -> None:
    """The mean, least and largest cosine of those of a run, which 3 virtual nodes give by hand."""
    run = run_of(FEDVN, virtual_nodes=3)
    data, choices = load_named_set("motif-mini"), Choices(preset="paper", seeds=1, epochs=2)
    found = VirtualSimilarities(run)(data, choices, 0)
    theta = run.job(data, choices, 0).train().report["theta"].astype(np.float64)
    a, b, c = theta[-300:].reshape(3, 100)
    cosines = [x @ y / (np.linalg.norm(x) * np.linalg.norm(y)) for x, y in ((a, b), (a, c), (b, c))]
    expected = (np.mean(cosines), min(cosines), max(cosines))
    assert [found[each] for each in (MEAN_COSINE, LEAST_COSINE, LARGEST_COSINE)] == pytest.approx(expected)


def test_clients_are_compared_class_by_class() -> None:
    """Over all pairs of clients and of their graphs; a mean is no less than the least."""
    data, choices = load_named_set("motif-mini"), Choices(preset="paper", seeds=1, epochs=1)
    found = ClientSimilarities(run_of(FEDVN))(data, choices, 0)
    assert set(found) == set(SIMILAR_CLIENTS.metrics)
    for label in range(3):
        least, mean = (found[between_clients(label, which)] for which in ("least", "mean"))
        assert -1 <= least <= mean <= 1


def test_mean_cosines_are_over_pairs_of_rows() -> None:
    """By hand, one pair of groups after the other; a row of zeros is like nothing."""
    drawn = np.random.default_rng(0)
    groups = [drawn.normal(size=(count, 4)) for count in (2, 3, 1)]
    pairs = [
        np.mean([x @ y / np.sqrt((x @ x) * (y @ y)) for x in groups[i] for y in groups[j]])
        for i, j in ((0, 1), (0, 2), (1, 2))
    ]
    np.testing.assert_allclose(mean_cosines([unit_rows(rows) for rows in groups]), pairs)
    assert not unit_rows(np.zeros((2, 3))).any()
    with pytest.raises(InputError, check=about("groups")):
        mean_cosines(groups[:1])
