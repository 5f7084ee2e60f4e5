"""FedSpray's table: its printed numbers, its cases, and what a run of each measures."""

from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from fgl_reproduction.tables import fedspray_runs as table_runs
from fgl_reproduction.tables.fedspray import (
    AS_PRINTED,
    FIGURE_2,
    FIGURE_4,
    FIGURE_5,
    HOMOPHILIES,
    MAJORITY,
    MAJORITY_NODES,
    MINORITY_NODES,
    PAPER,
    RUN,
    TABLE_1,
    TABLE_2,
    TABLE_3,
    TABLE_5,
    class_figures,
)
from fgl_reproduction.tables.fedspray_baselines import Baseline
from fgl_reproduction.tables.fedspray_runs import (
    MINORITY,
    OVERALL,
    FedSprayBaselineRun,
    FedSprayRun,
    NodePartition,
    minority_of,
)
from fgl_reproduction.tables.rows import printed_figures
from fgl_reproduction.tables.table import Choices, PaperTable
from fgl_secure.errors import DataNotFoundError, InputError, UnknownNameError
from fgl_secure.graph import FederatedGraph, Graph, SplitMasks, load
from fgl_secure.methods.fedspray.client import minority_nodes
from fgl_secure.methods.fedspray.preset import FedSprayPreset, fedspray_preset
from fgl_secure.training.job import Job
from fgl_secure.training.silo import Silo

QUICK = Choices(seeds=1, epochs=2)


def test_every_printed_number_has_its_row() -> None:
    """Printed numbers and rows with published clients are the same, one for one: no name is spelt in two ways."""
    wanted = {
        (data, case.setting, case.line, metric.name)
        for data in PAPER.datasets
        for case in TABLE_2.cases
        if case.setting.endswith(NodePartition.PUBLISHED)
        for metric in (OVERALL, MINORITY)
    }
    printed = printed_figures(TABLE_2.printed)
    assert set(printed) == wanted
    assert len(printed) == 84
    assert all(figure.mean is not None and figure.std is not None for figure in printed.values())
    for table in (TABLE_1, TABLE_3):
        assert set(printed_figures(table.printed)) == {
            (data, case.setting, case.method, metric.name)
            for data in table.datasets
            for case in table.cases
            for metric in table.metrics
        }


@pytest.mark.parametrize(("backbone", "preset"), [("gcn", "honest"), ("sgc", "paper"), ("sage", "honest")])
def test_a_run_is_two_accuracies(backbone: str, preset: str) -> None:
    """In percent, the same for the same seed, for every backbone and both presets."""
    run, data, choices = (
        FedSprayRun(backbone, NodePartition.LOUVAIN),
        load("digits"),
        Choices(preset, seeds=1, epochs=2),
    )
    first = run(data, choices, 1)
    assert set(first) == {OVERALL, MINORITY}
    assert all(0 <= value <= 100 for value in first.values())
    assert run(data, choices, 1) == first


@pytest.mark.parametrize("baseline", Baseline)
def test_baselines_run(baseline: Baseline) -> None:
    """All baselines have both accuracies too."""
    found = FedSprayBaselineRun(baseline, "gcn", NodePartition.LOUVAIN)(load("digits"), QUICK, 0)
    assert all(0 <= value <= 100 for value in found.values())


def test_clients_are_drawn_from_the_seed() -> None:
    """Each client has 40 / 30 / 30 percent of its nodes in the masks, and another seed draws others."""
    data = load("digits")
    one, again, two = (NodePartition.LOUVAIN.load_graph(data, seed, None) for seed in (0, 0, 1))
    for client in range(one.num_silos):
        mine = one.silo_of == client
        shares = [mask[mine].mean() for mask in (one.train_mask, one.validation_mask, one.test_mask)]
        assert shares == pytest.approx([0.4, 0.3, 0.3], abs=1.5 / mine.sum())
        assert mine.sum() >= data.num_nodes // 20
    np.testing.assert_array_equal(one.train_mask, again.train_mask)
    assert one.num_devices != two.num_devices or (one.train_mask != two.train_mask).any()


def test_published_clients_are_for_their_graphs_alone(tmp_path: Path) -> None:
    """Another graph has none, and a folder without the files is named."""
    with pytest.raises(UnknownNameError, match="digits"):
        FedSprayRun("gcn", NodePartition.PUBLISHED)(load("digits"), QUICK, 0)
    with pytest.raises(DataNotFoundError, match="data_root"):
        NodePartition.PUBLISHED.load_graph(replace(load("digits"), name="PubMed"), 0, tmp_path)


def test_a_protocol_is_refused() -> None:
    """Sums are exact under every scheme, so the table runs in the clear and says so."""
    with pytest.raises(InputError):
        FedSprayRun("gcn", NodePartition.LOUVAIN)(load("digits"), Choices(scheme="secmp"), 0)


@pytest.mark.parametrize("table", [TABLE_2, TABLE_3, TABLE_5, FIGURE_4, FIGURE_5], ids=lambda each: each.name)
def test_lines_are_trained_as_they_are_called(table: PaperTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a line varies is another field of its preset, and no other field is; --epochs wins over a line's rounds."""
    tried: list[FedSprayPreset] = []

    def note_call(*given: object, **_: object) -> Job:
        tried.append(next(each for each in given if isinstance(each, FedSprayPreset)))
        raise InputError("enough")

    monkeypatch.setattr(table_runs, "clients_of", note_call)
    monkeypatch.setattr(table_runs, "plain_clients", note_call)
    monkeypatch.setattr(NodePartition, "load_graph", lambda *_: None)
    data = load("digits")
    for case in table.cases:
        for choices in (Choices("paper"), Choices("paper", epochs=3)):
            if case.measure is not None:
                with pytest.raises(InputError, match="enough"):
                    case.measure(data, choices, 0)
    plain = fedspray_preset("paper", "PubMed")
    changed = [
        {name: value for name, value in asdict(preset).items() if value != getattr(plain, name)}
        for preset in tried[::2]
    ]
    expected = {
        TABLE_2.name: [{}] * 3 * len(RUN) + [{"epochs": 500}] * len(RUN) + [{}] * 3 * len(RUN),
        TABLE_3.name: [{}, {"proxies": False}],
        TABLE_5.name: [{"local_epochs": 3}] * 2 + [{}] * 2 + [{"local_epochs": 10}] * 2,
        FIGURE_4.name: [{"teaching": 0.1}, {"teaching": 1.0}, {}, {"teaching": 10.0}, {"teaching": 50.0}],
        FIGURE_5.name: [{"width": 16}, {"width": 32}, {}, {"width": 128}, {"width": 256}],
    }
    assert changed == expected[table.name]
    assert all(preset.epochs == 3 for preset in tried[1::2])


def test_figure_2_measures_every_clients_minority_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The perceptron's and the network's; weighed by numbers of minority nodes they are the accuracy of all clients."""
    data, whole = load("digits"), NodePartition.LOUVAIN.load_graph(load("digits"), 0, None)
    monkeypatch.setattr(NodePartition, "load_graph", lambda *_: whole)
    for case in FIGURE_2.cases:
        assert case.measure is not None
        found = case.measure(data, QUICK, 0)
        shares = [found[minority_of(client)] for client in range(1, whole.num_silos + 1)]
        minority = np.concatenate([minority_nodes(Silo.of(whole, silo)) for silo in range(whole.num_silos)])
        owner = np.concatenate([np.full(len(whole.devices_of(silo)), silo) for silo in range(whole.num_silos)])
        test = np.concatenate([whole.test_mask[whole.devices_of(silo)] for silo in range(whole.num_silos)])
        counts = np.bincount(owner[minority & test], minlength=whole.num_silos)
        backbone = {"MLP": "mlp", "GNN": "gcn"}[case.method]
        pooled = FedSprayBaselineRun(Baseline.FEDAVG, backbone, NodePartition.PUBLISHED)(data, QUICK, 0)
        assert np.average(np.nan_to_num(shares), weights=counts) == pytest.approx(pooled[MINORITY])
        assert found[OVERALL] == pooled[OVERALL]


def test_table_1_counts_classes_and_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    """By hand: three nodes of class 0 and one of class 1 in a path, and an isolated node that has no homophily."""
    edges = [[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]]
    graph = Graph.from_arrays("path", np.eye(6), [0, 0, 0, 1, 1, 1], edges)
    masks = SplitMasks(*np.eye(3, 6, dtype=bool))
    masks = SplitMasks(masks.train | (np.arange(6) == 5), masks.validation, masks.test)
    one = FederatedGraph.from_assignment(graph, [0, 0, 0, 0, 0, 1], masks, "by hand")
    monkeypatch.setattr(NodePartition, "load_graph", lambda *_: one)
    found = class_figures(graph, QUICK, 0, 0)
    assert found == {
        MAJORITY: 0,
        MAJORITY_NODES: 3,
        MINORITY_NODES: 2,
        HOMOPHILIES[0]: pytest.approx((1 + 1 + 0.5) / 3),
        HOMOPHILIES[1]: 0,
    }
    assert sorted(AS_PRINTED) == list(range(7))
