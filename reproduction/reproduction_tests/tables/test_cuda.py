"""Runs of tables compute on a CUDA device where there is one."""

import pytest

from fgl_reproduction.tables.catalogue import table
from fgl_reproduction.tables.table import Choices
from tests.methods.test_cuda import CUDA, data_of, seen

__all__ = ["seen"]

TABLES = ("fed2gnn-table1", "fedspray-table2", "fedstruct-table2", "fedvn-table1", "hifgl-table3")


@pytest.mark.parametrize("device", ["cpu", CUDA])
@pytest.mark.parametrize("name", TABLES)
def test_runs_of_tables_are_computed_there(name: str, device: str, seen: set[str]) -> None:
    """The last case that can be run, whatever the device is."""
    printed, choices = table(name), Choices(epochs=1, device=device)
    measure = next(case.measure for case in reversed(printed.cases) if case.measure is not None)
    assert measure(printed.load(data_of(name.partition("-")[0]), None), choices, 0)
    assert seen == {device}
