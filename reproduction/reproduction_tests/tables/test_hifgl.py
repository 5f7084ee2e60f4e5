"""HiFGL's tables: their printed numbers, their cases, and what a run of each measures."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

import fgl_secure
from fgl_reproduction.methods import FedPub
from fgl_reproduction.tables.hifgl import (
    ACCURACY,
    ALGORITHMS,
    COURSES,
    DEPTHS,
    FRAMEWORKS,
    GAIN,
    MEMORY,
    SECONDS,
    SILOS,
    TABLES,
    HiFGLTrainingCurve,
    Training,
    load_graph,
)
from fgl_reproduction.tables.hifgl_baselines import FEDAVG, HIFGL, train_framework
from fgl_reproduction.tables.hifgl_complexity import (
    CODES,
    COMPLEXITY,
    COUNTED,
    DECODED,
    ENCODED,
    LINES,
    MODEL,
    MU,
    TERM,
)
from fgl_reproduction.tables.reproduce import reproduce
from fgl_reproduction.tables.rows import printed_figures
from fgl_reproduction.tables.table import Choices, PaperTable, TableCase
from fgl_secure.cli.main import OK, main
from fgl_secure.graph import load
from fgl_secure.training.presets import preset

QUICK = Choices(seeds=1, epochs=2)


@pytest.mark.parametrize("table", [each for each in TABLES if each.printed], ids=lambda each: each.name)
def test_every_printed_number_has_its_row(table: PaperTable) -> None:
    """Printed numbers and rows of the paper's data sets are the same, one for one: no name is spelt in two ways."""
    metrics = [*table.metrics, *(each.metric for each in table.derived)]
    wanted = {(data, case.setting, case.line, metric.name)
              for data in table.datasets for case in table.cases for metric in metrics}  # fmt: skip
    assert set(printed_figures(table.printed)) == wanted


def test_printed_gains_follow_from_printed_accuracies() -> None:
    """Our formula on the paper's accuracies gives the paper's gains, to their two digits (6.1)."""
    printed = printed_figures(FRAMEWORKS.printed)
    for data in FRAMEWORKS.datasets:
        means = {case: _mean(printed, data, case, ACCURACY.name) for case in FRAMEWORKS.cases}
        for case, gain in FRAMEWORKS.derived[0].compute(means).items():
            assert gain == pytest.approx(_mean(printed, data, case, GAIN.name), abs=0.0051)


def _mean(printed: object, data: str, case: TableCase, metric: str) -> float:
    assert isinstance(printed, dict)
    return float(printed[data, case.setting, case.line, metric].mean)


def test_silos_are_of_equal_size_and_hold_equal_parts_of_the_split() -> None:
    """Sizes differ by at most one node; training nodes are 60 % of the graph, and the seed repeats both."""
    graph = load_graph(load("digits"), 5, 3)
    sizes = [len(graph.devices_of(silo)) for silo in range(5)]
    assert max(sizes) - min(sizes) <= 1
    assert int(graph.train_mask.sum()) == round(0.6 * graph.num_devices)
    again = load_graph(load("digits"), 5, 3)
    assert (graph.silo_of == again.silo_of).all()
    assert (graph.test_mask == again.test_mask).all()


@pytest.mark.parametrize("preset", ["honest", "paper", "public-code"])
def test_runs_repeat_with_their_seed(preset: str) -> None:
    """The same seed gives the same accuracy, another seed another one."""
    data, run = load("digits"), Training(FEDAVG, "sage")
    first, again, other = (run(data, Choices(preset, epochs=3), seed)[ACCURACY] for seed in (0, 0, 1))
    assert first == again != other


def test_rate_and_width_of_the_public_code_are_those_of_the_data_set() -> None:
    """The line trains as the honest preset does, with rate, decay and width of the public code (128 on PubMed)."""
    data = replace(load("digits"), name="PubMed")
    found = Training(HIFGL, "gcn", public_rate=True)(data, Choices(epochs=3), 0)[ACCURACY]
    training = replace(preset("honest", "PubMed"), epochs=3, learning_rate=0.1, decay_every=8, hidden=128)
    result = train_framework(HIFGL, load_graph(data, 5, 0), training, backbone="gcn", seed=0)
    assert found == result.accuracy.test
    assert found != Training(HIFGL, "gcn")(data, Choices(epochs=3), 0)[ACCURACY]


def test_deeper_models_are_measured_in_a_process_of_their_own() -> None:
    """A run of Table 5 gives accuracy, seconds and the memory of a process that has loaded torch: .1 to 10 GB."""
    case = DEPTHS.cases[2]
    assert case.measure is not None
    few = Choices(seeds=1, epochs=1)
    found = case.measure(load("digits"), few, 0)
    assert set(found) == {ACCURACY, SECONDS, MEMORY}
    assert 0.1 < found[MEMORY] < 10
    training = Training(HIFGL, "gcn_without_loops", layers=4, hidden=64)
    assert found[ACCURACY] == training(load("digits"), few, 0)[ACCURACY]


@pytest.mark.usefixtures("few_digits")
def test_algorithms_that_are_missing_are_rows_without_our_figure() -> None:
    """Table 4 names what is not implemented."""
    rows = reproduce(ALGORITHMS, replace(QUICK, methods=("FedPer-GCN", "FedPerGNN")), ("digits",)).rows
    assert [row.method for row in rows if row.ours.mean is None] == ["FedPerGNN"]
    assert any("FedPerGNN (Wu et al. 2022) predicts ratings" in note for note in ALGORITHMS.notes)


def test_lines_of_one_printed_number_stand_beside_it() -> None:
    """Models trained within silos have two lines, and the printed figure stands in both; no gain without Local-MLP."""
    names = ("FedAvg-GCN", "FedAvg-GCN, tested on all edges", "HiFGL-GCN")
    graph = replace(load("digits"), name="Cora")
    table = replace(FRAMEWORKS, load=lambda *_: graph)
    found = reproduce(table, replace(QUICK, methods=names), ("Cora",)).rows
    assert [row.paper.mean for row in found if row.metric == ACCURACY] == [0.8358, 0.8358, 0.8555]
    assert {row.ours.mean for row in found if row.metric != ACCURACY} == {None}


def test_silos_are_followed_while_they_train() -> None:
    """Figure 4: a silo's score after so many rounds; at the reported round that of the result."""
    data = load("digits")
    found = COURSES.cases[0].measure
    assert isinstance(found, HiFGLTrainingCurve)
    rounds = tuple(range(6))
    measured = replace(found, rounds=rounds)(data, replace(QUICK, epochs=5), 0)
    result = train_framework(
        HIFGL, load_graph(data, 5, 0), preset("honest", "digits").with_epochs(5), backbone="gcn_without_loops", seed=0
    )
    values = list(measured.values())
    course = [values[silo * len(rounds) + result.selected_round] for silo in range(5)]
    assert course == list(result.accuracy.per_silo)
    assert measured.keys() == set(replace(found, rounds=rounds).metrics)
    assert COURSES.cases[0].measure is not None
    short = COURSES.cases[0].measure(data, QUICK, 0)
    assert set(short) == set(COURSES.metrics), "after fewer rounds the last score stands"


def test_fedpub_is_a_run_of_table_4() -> None:
    """On the silos and the split of the other rows, in the clear, with its own settings."""
    data = load("digits")
    (measure,) = (case.measure for case in ALGORITHMS.cases if case.method == "FED-PUB")
    assert measure is not None
    expected = fgl_secure.train(FedPub(epochs=1), load_graph(data, SILOS, 0), "plaintext", seed=0).accuracy.test
    assert measure(data, Choices(epochs=1), 0)[ACCURACY] == expected


@pytest.mark.usefixtures("few_digits")
def test_command_prints_json_and_nothing_else(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """`reproduce hifgl-table3 --json -q` on the embedded data set: one object, 38 rows, no printed numbers."""
    words = ["reproduce", "hifgl-table3", "--datasets", "digits", "--seeds", "2", "--epochs", "2", "--json", "-q"]
    monkeypatch.chdir(tmp_path)
    assert main(words) == OK
    said = capsys.readouterr()
    data = json.loads(said.out)
    assert said.err == ""
    assert (data["table"], data["preset"], data["seeds"], len(data["rows"])) == ("hifgl-table3", "honest", [0, 1], 40)
    assert all(0 <= row["ours_mean"] <= 1 for row in data["rows"] if row["metric"] == "accuracy")
    assert {(row["paper_mean"], row["paper_std"], row["within"]) for row in data["rows"]} == {(None, None, None)}


@pytest.mark.usefixtures("few_digits")
def test_messages_are_counted_beside_the_papers_terms() -> None:
    """Codes, sums and models take what A.4 says. mu takes more, for a mask is a vector as wide as the widest row."""
    graph, cases = load("digits"), {(case.setting, case.method): case.measure for case in COMPLEXITY.cases}
    found = {key: measure(graph, QUICK, 0) for key, measure in cases.items() if measure is not None}
    for masks in (1, 2, 4):
        ours = {line: found[f"T {masks}", line] for line in LINES}
        assert all(ours[line][COUNTED] == ours[line][TERM] > 0 for line in (CODES, DECODED, MODEL))
        assert ours[ENCODED][COUNTED] == (masks + 1) * ours[DECODED][TERM]
        edges, hidden = graph.edges.shape[1], preset(QUICK.preset, graph.name).hidden
        assert 1e3 * ours[MU][TERM] == edges * (3 * masks + 2)
        assert 1e3 * ours[CODES][COUNTED] == edges * (masks + 1) * 2 * (hidden + graph.num_classes)  # forth and back
        assert 1e3 * ours[MU][COUNTED] == edges * (2 * masks + 2 + masks * hidden)
