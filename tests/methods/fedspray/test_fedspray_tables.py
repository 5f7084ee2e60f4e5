"""FedSpray's table: its printed numbers, its cases, and what a run of each measures."""

from __future__ import annotations

from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from fgl_secure.errors import DataNotFoundError, InputError, UnknownNameError
from fgl_secure.graph import load
from fgl_secure.methods.fedspray.baselines import Baseline
from fgl_secure.methods.fedspray.tables import (
    DATASETS,
    METHODS,
    MINORITY,
    NOT_IMPLEMENTED,
    OVERALL,
    TABLE_2,
    TABLES,
    BaselineRun,
    Clients,
    FedSprayRun,
)
from fgl_secure.tables.rows import printed_figures
from fgl_secure.tables.table import Choices

QUICK = Choices(seeds=1, epochs=2)


def test_every_printed_number_has_its_row() -> None:
    """Printed numbers and rows with published clients are the same, one for one: no name is spelt in two ways."""
    wanted = {
        (data, case.setting, case.method, metric.name)
        for data in DATASETS
        for case in TABLE_2.cases
        if case.setting.endswith(Clients.PUBLISHED)
        for metric in (OVERALL, MINORITY)
    }
    printed = printed_figures(TABLE_2.printed)
    assert set(printed) == wanted
    assert len(printed) == 84
    assert all(figure.mean is not None and figure.std is not None for figure in printed.values())
    assert TABLES == (TABLE_2,)


def test_printed_numbers_say_where_they_are_from() -> None:
    """The first line names the paper and the table, and some numbers are those of the paper."""
    assert TABLE_2.printed is not None
    text = (files("fgl_secure") / "paper_tables" / TABLE_2.printed).read_text(encoding="utf-8")
    assert text.startswith("# FedSpray (KDD 2024), Table 2")
    printed = printed_figures(TABLE_2.printed)
    found = printed["PubMed", "GCN, published clients", "FedSpray", MINORITY.name]
    assert (found.mean, found.std) == (62.12, 2.73)
    assert printed["Physics", "SGC, published clients", "Local", OVERALL.name].mean == 94.82


def test_table_2_has_the_papers_rows() -> None:
    """Three backbones by seven methods, two of them named as not implemented; data sets that are missing are named."""
    ours = [case for case in TABLE_2.cases if case.setting.endswith(Clients.PUBLISHED)]
    assert [case.method for case in ours] == 3 * list(METHODS)
    assert {case.method for case in TABLE_2.cases if case.measure is None} == set(NOT_IMPLEMENTED)
    assert all(name in TABLE_2.notes[-1] for name in (*NOT_IMPLEMENTED, "WikiCS", "Flickr"))
    others = [case for case in TABLE_2.cases if case.setting.endswith(Clients.LOUVAIN)]
    assert {case.method for case in others} == set(METHODS) - set(NOT_IMPLEMENTED)
    assert all(case.measure is not None for case in others)


@pytest.mark.parametrize("preset", ["honest", "paper"])
@pytest.mark.parametrize("backbone", ["gcn", "sgc", "sage"])
def test_a_run_is_two_accuracies(backbone: str, preset: str) -> None:
    """In percent, the same for the same seed, for every backbone and both presets."""
    run, data, choices = FedSprayRun(backbone, Clients.LOUVAIN), load("digits"), Choices(preset, seeds=1, epochs=2)
    first = run(data, choices, 1)
    assert set(first) == {OVERALL, MINORITY}
    assert all(0 <= value <= 100 for value in first.values())
    assert run(data, choices, 1) == first


@pytest.mark.parametrize("baseline", Baseline)
def test_baselines_run(baseline: Baseline) -> None:
    """All baselines have both accuracies too."""
    found = BaselineRun(baseline, "gcn", Clients.LOUVAIN)(load("digits"), QUICK, 0)
    assert all(0 <= value <= 100 for value in found.values())


def test_clients_are_drawn_from_the_seed() -> None:
    """Each client has 40 / 30 / 30 percent of its nodes in the masks, and another seed draws others."""
    data = load("digits")
    one, again, two = (Clients.LOUVAIN.federated(data, seed, None) for seed in (0, 0, 1))
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
        FedSprayRun("gcn", Clients.PUBLISHED)(load("digits"), QUICK, 0)
    with pytest.raises(DataNotFoundError, match="data_root"):
        Clients.PUBLISHED.federated(replace(load("digits"), name="PubMed"), 0, tmp_path)


def test_a_protocol_is_refused() -> None:
    """Sums are exact under every scheme, so the table runs in the clear and says so."""
    with pytest.raises(InputError, match="scheme must be plaintext for FedSpray's table; found secmp"):
        FedSprayRun("gcn", Clients.LOUVAIN)(load("digits"), Choices(scheme="secmp"), 0)
