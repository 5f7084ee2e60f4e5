"""Fed2GNN's tables: their printed numbers, their cases, and what a run of each measures."""

from dataclasses import replace

import numpy as np
import pytest

from fgl_reproduction.tables import fed2gnn_runs as table_runs
from fgl_reproduction.tables.fed2gnn import (
    FED2GNN,
    FEDSAGE,
    FIGURE_3,
    FIGURE_4,
    FIGURE_5,
    FIGURE_6,
    FIGURE_7,
    FIGURE_8,
    PAPER,
    TABLE_1,
    TABLE_2,
    TABLE_3,
    TABLE_4,
    TABLES,
    TOGETHER,
    UNMAPPED,
)
from fgl_reproduction.tables.fed2gnn_baselines import Fed2GNNBaseline
from fgl_reproduction.tables.fed2gnn_runs import (
    ACCURACY,
    AMONG,
    BEFORE,
    LOSS_AFTER,
    SECONDS,
    SECONDS_BEFORE,
    TRAINING,
    Fed2GNNBaselineRun,
    Fed2GNNCost,
    Fed2GNNLossCurve,
    Fed2GNNRun,
    Fed2GNNSetting,
    FedSageRun,
    loss_after,
)
from fgl_reproduction.tables.fed2gnn_together import TogetherClient
from fgl_reproduction.tables.rows import printed_figures
from fgl_reproduction.tables.table import Choices, PaperTable
from fgl_secure.errors import InputError, UnknownNameError
from fgl_secure.graph import Graph, load
from fgl_secure.methods.fed2gnn.preset import Fed2GNNPreset, LatentPreset
from fgl_secure.methods.fed2gnn.program import Fed2GNNClient
from fgl_secure.training.job import Job

QUICK = Choices(seeds=1, epochs=2)


def some_digits(nodes: int = 200) -> Graph:
    whole = load("digits")
    inside = (whole.edges < nodes).all(axis=0)
    return Graph.from_arrays("digits", whole.features[:nodes], whole.labels[:nodes], whole.edges[:, inside])


@pytest.mark.parametrize("table", [TABLE_1, TABLE_2], ids=lambda each: each.name)
def test_every_printed_number_has_its_row(table: PaperTable) -> None:
    wanted = {(data, case.setting, case.line, ACCURACY.name) for data in PAPER.datasets for case in table.cases}
    assert set(printed_figures(table.printed)) == wanted


def test_figures_have_no_printed_numbers_and_their_axes() -> None:
    """Depths 2 to 10, and d from 3 to 20 on Cora alone."""
    assert FIGURE_3.printed is None
    assert FIGURE_4.printed is None
    assert FIGURE_4.datasets == ("Cora",)
    depths = {case.setting for case in FIGURE_3.cases if case.method == FED2GNN}
    assert depths == {f"DAGNN, layers {depth}" for depth in range(2, 11)}
    assert {case.setting for case in FIGURE_4.cases} >= {"GCN, d 3", "DAGNN, d 20"}
    assert all(table.printed is None for table in (FIGURE_5, FIGURE_6, FIGURE_7, FIGURE_8))
    assert len({table.name for table in TABLES}) == len(TABLES) == 10


def test_nothing_is_missing() -> None:
    """Every method has a measure, FedSage+ in the tables that print it."""
    for table in TABLES:
        assert all(case.measure is not None for case in table.cases)
        assert any(case.method == FEDSAGE for case in table.cases) is (table in (TABLE_1, TABLE_2))


def test_fedsage_is_a_run_of_the_tables() -> None:
    """On the table's backbone, with its width and hops."""
    assert 0 <= FedSageRun(Fed2GNNSetting("dagnn", 3))(some_digits(), QUICK, 0)[ACCURACY] <= 100


@pytest.mark.parametrize("backbone", ["gcn", "sage", "dagnn"])
def test_a_run_measures_and_repeats(backbone: str) -> None:
    """An accuracy in percent that the seed repeats."""
    run, data = Fed2GNNRun(Fed2GNNSetting(backbone, 3, neighbours=4)), some_digits()
    found = run(data, QUICK, 0)
    assert 0 <= found[ACCURACY] <= 100
    assert found == run(data, QUICK, 0)


@pytest.mark.parametrize("baseline", list(Fed2GNNBaseline))
def test_what_it_is_compared_with_runs(baseline: Fed2GNNBaseline) -> None:
    assert 0 <= Fed2GNNBaselineRun(baseline, Fed2GNNSetting("gcn", 3))(some_digits(), QUICK, 0)[ACCURACY] <= 100


def test_the_scheme_of_a_choice_computes_the_sums() -> None:
    """Relays take part where they are asked for; an unknown scheme is refused."""
    run = Fed2GNNRun(Fed2GNNSetting("gcn", 3))
    found = run(some_digits(), replace(QUICK, scheme="relay-coded[graph-shown]"), 0)
    assert 0 <= found[ACCURACY] <= 100
    with pytest.raises(UnknownNameError, match="plaintext"):
        run(some_digits(), replace(QUICK, scheme="telepathy"), 0)


def test_every_client_of_a_setting_has_labelled_nodes() -> None:
    """A partition without is drawn again; split and partition are the seed's."""
    setting, data = Fed2GNNSetting("gcn", 6), some_digits()
    graph = setting.load_graph(data, 3)
    assert np.bincount(graph.silo_of[graph.train_mask], minlength=6).all()
    assert np.array_equal(graph.silo_of, setting.load_graph(data, 3).silo_of)
    assert [int(mask.sum()) for mask in (graph.train_mask, graph.validation_mask, graph.test_mask)] == [80, 60, 60]


def test_lines_without_the_latent_map_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """FedAvg and FedAvg-Full with features as they are, beside the same printed lines, differ in that alone."""
    tried: list[Fed2GNNPreset] = []

    def note_call(*given: object, **_: object) -> Job:
        tried.append(next(each for each in given if isinstance(each, Fed2GNNPreset)))
        raise InputError("enough")

    monkeypatch.setattr(table_runs, "baseline_of", note_call)
    twins = [case for case in TABLE_1.cases if case.method.endswith(UNMAPPED)]
    assert {case.line for case in twins} == {"FedAvg", "FedAvg-Full"}
    for case in twins[:2]:
        known = next(each for each in TABLE_1.cases if (each.setting, each.method) == (case.setting, case.line))
        for measure in (case.measure, known.measure):
            assert measure is not None
            with pytest.raises(InputError, match="enough"):
                measure(some_digits(), QUICK, 0)
    for without, mapped in (tried[:2], tried[2:]):
        assert (without.latent, mapped.latent) == (None, LatentPreset())
        assert replace(without, latent=mapped.latent) == mapped


def test_figure_6_compares_decoders_trained_alone_and_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """FedAvg and both kinds of decoders, whose runs differ in that alone."""
    assert [case.method for case in FIGURE_6.cases] == ["FedAvg"] * 3 + [FED2GNN] * 3 + [TOGETHER] * 3
    tried: list[tuple[object, object]] = []

    def note_call(*given: object, kind: object, **_: object) -> Job:
        tried.append((kind, next(each for each in given if isinstance(each, Fed2GNNPreset))))
        raise InputError("enough")

    monkeypatch.setattr(table_runs, "clients_of", note_call)
    for case in FIGURE_6.cases[3::3]:
        assert case.measure is not None
        with pytest.raises(InputError, match="enough"):
            case.measure(some_digits(), QUICK, 0)
    (kind, alone), (other, together) = tried
    assert (kind, other) == (Fed2GNNClient, TogetherClient)
    assert together == alone


def test_a_course_is_the_losses_of_its_run() -> None:
    """After 1 round that of the first; where training is shorter, the last one's."""
    run = Fed2GNNBaselineRun(Fed2GNNBaseline.FEDAVG, Fed2GNNSetting("gcn", 3))
    losses = run.job(some_digits(), QUICK, 0).train().losses
    found = Fed2GNNLossCurve(run)(some_digits(), QUICK, 0)
    assert list(found.values()) == [losses[0], *[losses[1]] * (len(LOSS_AFTER) - 1)]
    assert list(found) == [loss_after(after) for after in LOSS_AFTER]
    assert {case.setting for case in FIGURE_5.cases} == {"GCN, Louvain", "GCN, random"}


def test_costs_are_counted_off_a_run() -> None:
    """Another layer of sums costs clients among themselves, and training nothing."""
    two, three = (
        Fed2GNNCost(Fed2GNNRun(Fed2GNNSetting("dagnn", 3, hops=hops)))(some_digits(), QUICK, 0) for hops in (2, 3)
    )
    assert set(two) == {AMONG, BEFORE, TRAINING, SECONDS_BEFORE, SECONDS}
    assert 0 < two[AMONG] < three[AMONG] < three[BEFORE]
    assert two[TRAINING] == three[TRAINING] > 0
    assert min(two[SECONDS_BEFORE], two[SECONDS]) > 0
    assert {case.method for case in FIGURE_7.cases} == {FED2GNN}
    assert [case.setting for case in FIGURE_8.cases] == [f"DAGNN, layers {hops}" for hops in (2, 3, 4, 5)]


def test_tables_3_and_4_count_the_data() -> None:
    """Everything printed has its count."""
    for table in (TABLE_3, TABLE_4):
        counted = {(case.setting, metric.name) for case in table.cases for metric in table.metrics}
        assert {(setting, metric) for _, setting, _, metric in printed_figures(table.printed)} <= counted
