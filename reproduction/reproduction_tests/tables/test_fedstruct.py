"""FedStruct's tables: their printed numbers, their cases, and what a run of each measures."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import fgl_secure
from fgl_reproduction.methods import FedGCN, FedPub, FedSage
from fgl_reproduction.methods.fedpub.program import clients_of as fedpub_clients
from fgl_reproduction.methods.fedpub.program import fedpub_preset
from fgl_reproduction.methods.fedsage.program import fedsage_preset
from fgl_reproduction.tables import fedstruct_runs as table_runs
from fgl_reproduction.tables.catalogue import table as table_of
from fgl_reproduction.tables.fedstruct import (
    ACCURACIES,
    BARS,
    CURVES,
    KNOWN_GRAPH,
    LABELS,
    PARTITION_BARS,
    PARTITIONS,
    PRUNING,
)
from fgl_reproduction.tables.fedstruct_baselines import FEDSGD_GNN
from fgl_reproduction.tables.fedstruct_costs import (
    BEFORE,
    BEFORE_TERMS,
    DERIVATIVES,
    GRADIENTS,
    TRAINING,
    TRAINING_TERMS,
    StructureCost,
)
from fgl_reproduction.tables.fedstruct_runs import (
    ACCURACY,
    FEDGCN,
    FEDPUB,
    FEDSAGE,
    PAPER,
    FedStructBaselineRun,
    FedStructRun,
    FedStructSetting,
    Make,
    StructureScored,
    load_undirected,
)
from fgl_reproduction.tables.printing import describe
from fgl_reproduction.tables.rows import printed_figures
from fgl_reproduction.tables.table import Choices, PaperTable
from fgl_secure.errors import InputError
from fgl_secure.graph import Graph, load
from fgl_secure.graph.partition import partition
from fgl_secure.methods.fedstruct.exchange import RowExchange
from fgl_secure.methods.fedstruct.preset import fedstruct_preset
from fgl_secure.methods.fedstruct.program import HOP2VEC, FedStructClient, FedStructTask, clients_of
from reproduction_tests.tables.small import NODES, run_small, small_graph
from tests.error_codes import about

QUICK = Choices(seeds=1, epochs=2)
OURS = (ACCURACIES, PARTITIONS, PRUNING, KNOWN_GRAPH, BARS, CURVES, PARTITION_BARS, LABELS)


@pytest.mark.parametrize("table", OURS, ids=lambda each: each.name)
def test_every_printed_number_has_its_row(table: PaperTable) -> None:
    """Printed numbers and rows of the paper's data sets are the same, one for one: no name is spelt in two ways."""
    wanted = {
        (data, case.setting, case.method, ACCURACY.name) for data in table.datasets for case in table.cases
    }  # fmt: skip
    assert set(printed_figures(table.printed)) == wanted
    assert table_of(table.name) == table


def test_the_tables_that_share_rows_share_their_numbers() -> None:
    """Rows of Table 7 with random partitioning, and of Figure 4 where it has numbers, are those of Table 2."""
    two, six, seven = (printed_figures(table.printed) for table in (ACCURACIES, PARTITIONS, PRUNING))
    for (data, setting, method, metric), figure in (*six.items(), *seven.items()):
        if setting == "random" and (key := (data, "clients 10", method, metric)) in two:
            assert figure == two[key]
    assert all(six[key] == figure for key, figure in seven.items() if key in six)
    for (data, setting, method, metric), figure in printed_figures(CURVES.printed).items():
        if setting.startswith("clients") and figure.mean is not None:
            assert figure == two[data, setting, method, metric]


def test_table_2_has_the_papers_rows() -> None:
    """Five data sets; all rows have a run."""
    assert PAPER.datasets == ("Cora", "CiteSeer", "PubMed", "Chameleon", "Photo")
    assert list(dict.fromkeys(case.method for case in ACCURACIES.cases)) == [
        "Central GNN", "FedSGD GNN", "FedSage+", "FedPub", "FedGCN-2hop",
        "FedStruct (Deg)", "FedStruct (Fed*)", "FedStruct (H2V)", "FedStruct (H2V)-F", "Local GNN",
    ]  # fmt: skip
    assert all(case.measure is not None for case in ACCURACIES.cases)


@pytest.mark.parametrize(("run", "method"), [(FEDGCN, FedGCN), (FEDSAGE, FedSage), (FEDPUB, FedPub)])
def test_a_rival_is_a_run_of_the_table(run: Make, method: Any) -> None:
    """On the graph of the other rows, in the clear, with its own settings: as `train` has it."""
    data, measure = small_graph("digits"), run(FedStructSetting(3))
    assert measure is not None
    found = measure(data, Choices(epochs=1), 0)[ACCURACY]
    train = fgl_secure.train(method(epochs=1), FedStructSetting(3).load_graph(data, 0), "plaintext", seed=0)
    assert train.accuracy.test is not None
    assert found == 100 * train.accuracy.test


@pytest.mark.parametrize(
    ("dataset", "rounds", "rate", "generator_rounds"),
    [("Cora", 30, 0.01, 40), ("CiteSeer", 100, 0.001, 30), ("digits", 100, 0.01, None)],
)
def test_rivals_have_the_settings_of_fedstructs_repository(
    dataset: str, rounds: int, rate: float, generator_rounds: int | None
) -> None:
    """Rounds and rates are those of its configuration file for the data set; FedPub is tested after the last one."""
    fedpub = table_runs.published_fedpub(fedpub_preset("paper"), dataset)
    assert (fedpub.epochs, fedpub.learning_rate) == (rounds, rate)
    assert fedpub.tested_averaged == (fedpub.selection is None) == (dataset != "digits")
    usual = fedsage_preset("paper").generator
    told = usual if generator_rounds is None else replace(usual, rounds=generator_rounds, learning_rate=0.002)
    assert table_runs.published_fedsage(fedsage_preset("paper"), dataset).generator == told
    measure = FEDPUB(FedStructSetting(3))
    assert measure is not None
    data = replace(small_graph("digits"), name=dataset)
    found = measure(data, Choices("paper", epochs=1), 0)[ACCURACY]
    graph = FedStructSetting(3).load_graph(load_undirected(data), 0)
    assert found == 100 * float(fedpub_clients(graph, {}, fedpub.with_epochs(1)).train().report["test"])


def test_numbers_of_clients_choose_cases() -> None:
    """Named numbers and the central runs stay; a number that the table does not have is refused."""
    chosen = {case.setting for case in ACCURACIES.chosen_cases((5, 20))}
    assert chosen == {"central", "clients 5", "clients 20"}
    assert ACCURACIES.chosen_cases(()) == ACCURACIES.cases
    with pytest.raises(InputError, check=about("clients")):
        ACCURACIES.chosen_cases((7,))
    with pytest.raises(InputError, check=about("clients")):
        table_of("hifgl-table3").chosen_cases((5,))


@pytest.mark.usefixtures("few_digits")
def test_a_table_runs_for_chosen_clients() -> None:
    """Rows of the chosen numbers alone, all with a figure where there is a run, and the method in the heading."""
    done = run_small(
        ACCURACIES, lambda case: case.method not in RUN_ELSEWHERE, Choices(seeds=1, epochs=1, clients=(5,))
    )
    assert {row.setting for row in done.rows} == {"central", "clients 5"}
    assert all(row.ours.mean is not None for row in done.rows)
    assert "FedStruct under plaintext" in describe(done)


@pytest.mark.usefixtures("few_digits")
@pytest.mark.parametrize("preset", ["honest", "paper"])
@pytest.mark.parametrize("features", ["degree", "fedstar", HOP2VEC])
def test_a_run_of_fedstruct_is_an_accuracy(features: str, preset: str) -> None:
    """In percent, the same for the same seed, for all features of the tables and both presets."""
    run, digits = FedStructRun(features, FedStructSetting(3), hops=2), load("digits")
    first = run(digits, Choices(preset, seeds=1, epochs=2), 1)[ACCURACY]
    assert 0 <= first <= 100
    assert run(digits, Choices(preset, seeds=1, epochs=2), 1)[ACCURACY] == first


def test_a_setting_is_drawn_from_the_seed() -> None:
    """A tenth validates whatever the share of labelled nodes, and another seed draws another split and partition."""
    digits = load("digits")
    one, two = (
        FedStructSetting(4, labelled=0.3).load_graph(digits, 0),
        FedStructSetting(4, labelled=0.3).load_graph(digits, 1),
    )
    shares = [mask.mean() for mask in (one.train_mask, one.validation_mask, one.test_mask)]
    assert shares == pytest.approx([0.3, 0.1, 0.6], abs=0.001)
    assert (one.silo_of != two.silo_of).any()
    assert (one.train_mask != two.train_mask).any()


def test_a_partition_that_leaves_a_client_idle_is_drawn_again() -> None:
    """With 60 clients and three labelled nodes each on average some draws do; what comes out trains everywhere."""
    digits = load("digits")
    idle = 0
    for seed in range(5):
        graph = FedStructSetting(60).load_graph(digits, seed)
        assert np.bincount(graph.silo_of[graph.train_mask], minlength=60).all()
        first = partition("binomial", digits, 60, seed)
        idle += not np.bincount(first[graph.train_mask], minlength=60).all()
        assert np.array_equal(first, graph.silo_of) == bool(np.bincount(first[graph.train_mask], minlength=60).all())
    assert idle
    with pytest.raises(InputError, match="has no training node"):
        FedStructSetting(60, labelled=0.001).load_graph(digits, 0)


@pytest.mark.parametrize(
    "run", [FedStructRun(HOP2VEC, FedStructSetting(2)), FedStructBaselineRun(FEDSGD_GNN, FedStructSetting(2))]
)
def test_the_tables_run_in_the_clear(run: FedStructRun | FedStructBaselineRun) -> None:
    """A protocol is refused rather than ignored."""
    with pytest.raises(InputError):
        run(load("digits"), Choices(seeds=1, scheme="secmp"), 0)


RUN_ELSEWHERE = ("FedSage+", "FedPub", "FedGCN-1hop", "FedGCN-2hop", "FedGCN")
"""Rivals are run by tests of their own, and take longer."""


@pytest.mark.parametrize(("table", "setting"), [(PARTITIONS, "random"), (LABELS, "labelled 50 %")])
def test_new_tables_run(table: PaperTable, setting: str) -> None:
    """One partition of each; every line has an accuracy. Random walks, which take seconds, have a test of their own."""
    done = run_small(
        table, lambda case: case.setting == setting and case.method not in RUN_ELSEWHERE and "N2V" not in case.method
    )
    assert len(done.rows) > 3
    assert all(row.ours.mean is not None and 0 <= row.ours.mean <= 100 for row in done.rows)


def test_a_server_that_knows_the_graph_sends_features_of_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under either preset, with walks that the seed draws; other runs have what each client knows."""
    asked: list[tuple[int, int]] = []

    def note_call(_name: str, graph: Graph, _width: int, seed: int) -> np.ndarray:
        asked.append((graph.num_nodes, seed))
        return np.ones((graph.num_nodes, 4), dtype=np.float32)

    monkeypatch.setattr(table_runs, "structure_features", note_call)
    for preset in ("honest", "paper"):
        run = FedStructRun("node2vec", FedStructSetting(3), pruned=False, known=True, hops=1)
        run(small_graph(preset), Choices(preset, seeds=1, epochs=1), 5)
    assert asked == [(NODES, 5), (NODES, 5)]


def test_what_is_sent_is_counted_off_the_run() -> None:
    """Twice the rounds send twice as much and exchange the same; learnt features cost in training, others before."""
    graph, few = small_graph(), replace(QUICK, epochs=1)
    one, two = (StructureCost("degree", FedStructSetting(4))(graph, choices, 0) for choices in (few, QUICK))
    learnt = StructureCost(HOP2VEC, FedStructSetting(4))(graph, few, 0)
    assert one[BEFORE] == two[BEFORE] > 0
    assert one[TRAINING] < two[TRAINING] < 2.1 * one[TRAINING]
    assert learnt[TRAINING] > one[TRAINING]
    assert learnt[BEFORE_TERMS] < one[BEFORE_TERMS]
    assert two[TRAINING_TERMS] == 2 * one[TRAINING_TERMS]


def test_where_the_server_knows_the_graph_derivatives_are_counted() -> None:
    """Gradients are sent in a run; what the server would send is far more."""
    found = StructureCost("degree", FedStructSetting(4), known=True)(small_graph(), QUICK, 0)
    assert set(found) == {GRADIENTS, DERIVATIVES}
    assert found[DERIVATIVES] > 100 * found[GRADIENTS] > 0


def test_structure_alone_is_trained_as_ever_and_tested_without_features() -> None:
    """Both end with the same parameters, and predict differently."""
    data, choices = small_graph("digits"), Choices("paper", epochs=3)
    usual, alone = (
        FedStructRun(HOP2VEC, FedStructSetting(3), structure_alone=each)(data, choices, 0) for each in (False, True)
    )
    assert usual != alone
    federated, trained = FedStructSetting(3).load_graph(data, 0), []
    for kind in (FedStructClient, StructureScored):
        preset = replace(fedstruct_preset("paper", "digits"), epochs=2)
        task = FedStructTask(preset, RowExchange(), HOP2VEC)
        trained.append(clients_of(federated, task, kind=kind).train().report["theta"])
    assert np.array_equal(trained[0], trained[1])
