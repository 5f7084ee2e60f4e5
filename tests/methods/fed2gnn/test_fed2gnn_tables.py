"""Fed2GNN's tables: their printed numbers, their cases, and what a run of each measures."""

from __future__ import annotations

from dataclasses import replace
from importlib.resources import files

import numpy as np
import pytest

from fgl_secure.errors import UnknownNameError
from fgl_secure.graph import Graph, load
from fgl_secure.methods.fed2gnn.baselines import Fed2GNNBaseline
from fgl_secure.methods.fed2gnn.tables import (
    ACCURACY,
    DATASETS,
    FED2GNN,
    FEDSAGE,
    FIGURE_3,
    FIGURE_4,
    TABLE_1,
    TABLE_2,
    TABLES,
    BaselineRun,
    Fed2GNNRun,
    FedSageRun,
    Setting,
)
from fgl_secure.tables.rows import printed_figures
from fgl_secure.tables.table import Choices, PaperTable

QUICK = Choices(seeds=1, epochs=2)


def some_digits(nodes: int = 200) -> Graph:
    whole = load("digits")
    inside = (whole.edges < nodes).all(axis=0)
    return Graph.from_arrays("digits", whole.features[:nodes], whole.labels[:nodes], whole.edges[:, inside])


@pytest.mark.parametrize("table", [TABLE_1, TABLE_2], ids=lambda each: each.name)
def test_every_printed_number_has_its_row(table: PaperTable) -> None:
    """Printed numbers and rows are the same, one for one."""
    wanted = {(data, case.setting, case.method, ACCURACY.name) for data in DATASETS for case in table.cases}
    assert set(printed_figures(table.printed)) == wanted


@pytest.mark.parametrize(("table", "number"), [(TABLE_1, "Table 1"), (TABLE_2, "Table 2")])
def test_printed_numbers_say_where_they_are_from(table: PaperTable, number: str) -> None:
    """The first line of a file names the paper and the table."""
    assert table.printed is not None
    text = (files("fgl_secure") / "paper_tables" / table.printed).read_text(encoding="utf-8")
    assert text.startswith(f"# Fed2GNN (anonymous submission), {number}")


def test_numbers_that_the_text_repeats() -> None:
    """The gaps between Central and Fed2GNN on Cora that section 5.3 names: 4.58, 5.68, 1.37 and 1.43 points."""
    for table, backbone, gaps in ((TABLE_1, "GCN", (4.58, 5.68)), (TABLE_2, "DAGNN", (1.37, 1.43))):
        printed = printed_figures(table.printed)
        central = printed["Cora", f"{backbone}, central", "Central", ACCURACY.name].mean
        for clients, gap in zip((10, 15), gaps, strict=True):
            ours = printed["Cora", f"{backbone}, clients {clients}", FED2GNN, ACCURACY.name].mean
            assert central is not None
            assert ours is not None
            assert round(central - ours, 2) == gap


def test_figures_have_no_printed_numbers_and_their_axes() -> None:
    """Depths 2 to 10, and d from 3 to 20 on Cora alone."""
    assert FIGURE_3.printed is None
    assert FIGURE_4.printed is None
    assert FIGURE_4.datasets == ("Cora",)
    depths = {case.setting for case in FIGURE_3.cases if case.method == FED2GNN}
    assert depths == {f"DAGNN, layers {depth}" for depth in range(2, 11)}
    assert {case.setting for case in FIGURE_4.cases} >= {"GCN, d 3", "DAGNN, d 20"}
    assert len({table.name for table in TABLES}) == 4


def test_nothing_is_missing() -> None:
    """Every method has a measure, FedSage+ in the tables that print it."""
    for table in TABLES:
        assert all(case.measure is not None for case in table.cases)
        printed = table.printed is not None
        assert any(case.method == FEDSAGE for case in table.cases) is printed


@pytest.mark.parametrize("backbone", ["sage", "dagnn"])
def test_fedsage_is_a_run_of_the_tables(backbone: str) -> None:
    """On the table's backbone, with its width and hops."""
    assert 0 <= FedSageRun(Setting(backbone, 3))(some_digits(), QUICK, 0)[ACCURACY] <= 100


@pytest.mark.parametrize("backbone", ["gcn", "sage", "dagnn"])
def test_a_run_measures_and_repeats(backbone: str) -> None:
    """An accuracy in percent that the seed repeats."""
    run, data = Fed2GNNRun(Setting(backbone, 3, neighbours=4)), some_digits()
    found = run(data, QUICK, 0)
    assert 0 <= found[ACCURACY] <= 100
    assert found == run(data, QUICK, 0)


@pytest.mark.parametrize("baseline", list(Fed2GNNBaseline))
def test_what_it_is_compared_with_runs(baseline: Fed2GNNBaseline) -> None:
    """An accuracy in percent."""
    assert 0 <= BaselineRun(baseline, Setting("gcn", 3))(some_digits(), QUICK, 0)[ACCURACY] <= 100


def test_the_scheme_of_a_choice_computes_the_sums() -> None:
    """Relays take part where they are asked for; an unknown scheme is refused."""
    run = Fed2GNNRun(Setting("gcn", 3))
    found = run(some_digits(), replace(QUICK, scheme="relay-coded"), 0)
    assert 0 <= found[ACCURACY] <= 100
    with pytest.raises(UnknownNameError, match="plaintext"):
        run(some_digits(), replace(QUICK, scheme="telepathy"), 0)


def test_every_client_of_a_setting_has_labelled_nodes() -> None:
    """A partition without is drawn again; split and partition are the seed's."""
    setting, data = Setting("gcn", 6), some_digits()
    graph = setting.federated(data, 3)
    assert np.bincount(graph.silo_of[graph.train_mask], minlength=6).all()
    assert np.array_equal(graph.silo_of, setting.federated(data, 3).silo_of)
    assert [int(mask.sum()) for mask in (graph.train_mask, graph.validation_mask, graph.test_mask)] == [80, 60, 60]
