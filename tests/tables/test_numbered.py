"""The list of all that the five papers number: nothing is forgotten, and what it names is there."""

from __future__ import annotations

import re
from importlib.resources import files

from fgl_secure.cli.listing import listing
from fgl_secure.methods import method
from fgl_secure.methods import table as table_of
from fgl_secure.tables.numbered import NUMBERED

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


def test_every_table_of_the_five_methods_is_named() -> None:
    """What can be run again and is not in the list would never be found."""
    named = [name for each in NUMBERED for name in each.tables]
    ours = [table.name for paper in PAPERS for table in method(paper.lower()).tables()]
    assert sorted(named) == sorted(ours)


def test_every_file_of_printed_numbers_belongs_to_a_table() -> None:
    """And is read by one."""
    folder = files("fgl_secure") / "paper_tables"
    present = {each.name for each in folder.iterdir() if each.name.endswith(".csv")}
    read = {table_of(name).printed for each in NUMBERED for name in each.tables} - {None}
    assert present == read
    for name in present:
        paper, kind, number = re.fullmatch(r"(\w+?)_(table|fig)(\d+)d?\.csv", name).groups()  # type: ignore[union-attr]
        kinds = {"table": "Table", "fig": "Figure"}
        assert any((each.paper.lower(), each.number) == (paper, f"{kinds[kind]} {number}") for each in NUMBERED)


def test_the_listing_says_what_is_missing_and_why() -> None:
    """A line each, with the name for `reproduce` or the reason."""
    text = listing("tables")
    lines = {line.split()[0]: line for line in text.splitlines()[1:]}
    assert [name for name in lines if ":" in name] == [each.name for each in NUMBERED]
    assert "reproduce fedstruct-table6; Amazon Ratings is not at hand" in lines["fedstruct:table6"]
    assert "none; settings, which the presets have" in lines["fedstruct:table5"]
