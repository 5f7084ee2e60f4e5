"""The list of all that the five papers number: nothing is forgotten, and what it names is there."""

from __future__ import annotations

import re
from importlib.resources import files

from fgl_reproduction.tables.catalogue import table as table_of
from fgl_reproduction.tables.numbered import NUMBERED

PAPERS = {"HiFGL": (6, 5), "FedStruct": (9, 6), "FedSpray": (5, 5), "Fed2GNN": (6, 8), "FedVN": (3, 6)}
"""How many tables and figures each has."""


def test_every_number_of_every_paper_is_there_once() -> None:
    """From 1 to the last, tables and figures."""
    wanted = [
        (paper, f"{kind} {number}")
        for paper, counts in PAPERS.items()
        for kind, count in zip(("Table", "Figure"), counts, strict=True)
        for number in range(1, count + 1)
    ]
    assert [(each.paper, each.number) for each in NUMBERED] == wanted


def test_everything_has_a_table_or_a_reason() -> None:
    """A reason is words; a name is a table that there is."""
    for each in NUMBERED:
        assert each.tables or len(each.why.split()) > 2, each
        for name in each.tables:
            assert table_of(name).title.split(":")[0].endswith((each.number, f"{each.number}(a)", f"{each.number}(b)",
                                                                f"{each.number}(d)")), name  # fmt: skip


def test_every_file_of_printed_numbers_belongs_to_a_table() -> None:
    """And is read by one."""
    folder = files("fgl_reproduction.tables") / "printed"
    present = {each.name for each in folder.iterdir() if each.name.endswith(".csv")}
    read = {table_of(name).printed for each in NUMBERED for name in each.tables} - {None}
    assert present == read
    for name in present:
        paper, kind, number = re.fullmatch(r"(\w+?)_(table|fig)(\d+)d?\.csv", name).groups()  # type: ignore[union-attr]
        kinds = {"table": "Table", "fig": "Figure"}
        assert any((each.paper.lower(), each.number) == (paper, f"{kinds[kind]} {number}") for each in NUMBERED)
