"""`fgl-secure reproduce` as a command: what it lists, takes and refuses."""

import json
import os
import re
import subprocess
import sys
from functools import partial
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from fgl_reproduction.tables.catalogue import TABLES
from fgl_reproduction.tables.catalogue import table as table_of
from fgl_reproduction.tables.costs import run_alone
from fgl_reproduction.tables.numbered import NUMBERED
from fgl_secure.cli.main import BAD_INPUT, OK
from tests.cli.test_main import Cli, cli

__all__ = ["cli"]

NONSENSE = {
    "no table": ((), "table must be named"),
    "no such table": (("hifgl-table33",), "did you mean hifgl-table3?"),
    "runs without a name": (("hifgl-table3", "--runs", ""), "must name a file or a folder"),
    "runs in a folder": (("hifgl-table3", "--runs", "."), "runs must be a file that can be made"),
    "runs in a device": (("hifgl-table3", "--runs", "/dev/null"), "is not, name another"),
    "runs too long": (("hifgl-table3", "--runs", "x" * 300), "runs must be a file that can be made"),
    "seeds below zero": (("hifgl-table3", "--seeds", "-3"), "seeds must be at least 1"),
    "scheme of another sum": (
        ("hifgl-table3", "--scheme", "pairwise-masking"), "as plaintext, secmp, relay-coded do"
    ),
    "clients of a table without": (("hifgl-table3", "--clients", "9"), "clients must not be named"),
    "table of other data": (("fedvn-table1", "--datasets", "digits"), "graph set must have many graphs"),
    "unknown data set": (("hifgl-table3", "--datasets", "Imagenet"), "data set must be one of"),
    "no data set": (("hifgl-table3", "--datasets"), "--datasets"),
    "seeds no integer": (("hifgl-table3", "--seeds", "few"), "found 'few'"),
    "no epochs": (("hifgl-table3", "--datasets", "digits", "--epochs", "0"), "epochs must be at least 1"),
    "unknown preset": (("hifgl-table3", "--preset", "best"), "must be one of"),
    "unknown scheme": (("hifgl-table3", "--scheme", "magic"), "magic"),
    "data folder without files": (("hifgl-table6", "--data-root", "nowhere"), "nowhere"),
}  # fmt: skip


@pytest.mark.parametrize(("words", "remedy"), NONSENSE.values(), ids=NONSENSE.keys())
def test_nonsense_is_refused_in_one_line(cli: Cli, tmp_path: Path, words: tuple[str, ...], remedy: str) -> None:
    """Nothing runs, nothing is printed, nothing is written."""
    result = cli("reproduce", *words)
    assert (result.status, result.out, result.err.count("\n")) == (BAD_INPUT, "", 1)
    assert remedy in result.err
    assert not list(tmp_path.iterdir())


def test_the_table_is_read_from_a_file_of_options(cli: Cli, tmp_path: Path) -> None:
    """What stands without an option has the name of its place, and gives way to what is said."""
    (tmp_path / "run.toml").write_text("table = 'nonsense'", encoding="utf-8")
    assert "found 'nonsense'" in cli("reproduce", "--config", "run.toml").err
    assert "found 'other'" in cli("reproduce", "other", "--config", "run.toml").err


def test_the_list_has_every_number_with_its_table_or_the_reason(cli: Cli) -> None:
    """A line each, or an object each for programs."""
    result, listed = cli("reproduce", "--list"), json.loads(cli("reproduce", "--list", "--json").out)
    lines = {line.split()[0]: line for line in result.out.splitlines()}
    assert result.status == OK
    assert list(lines) == [each["name"] for each in listed] == [each.name for each in NUMBERED]
    assert "reproduce fedstruct-table6; Amazon Ratings is not available" in lines["fedstruct:table6"]
    assert "none; settings, which the presets have" in lines["fedstruct:table5"]
    assert sorted(TABLES) == sorted(name for each in NUMBERED for name in each.tables)


def test_help_loads_no_table() -> None:
    """Every start of the program imports the command's module, which brings neither torch nor a table."""
    code = "import sys, fgl_reproduction.tables.command; print('torch' in sys.modules or 'numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


LARGE = 150_000_000
"""Bytes, well above what interpreter and imports vary by."""


def hold(count: int) -> tuple[int, int]:
    """Writes to that many bytes at one time, and lets go of them."""
    return int(np.ones(count, dtype=np.uint8).sum()), os.getpid()


def test_memory_is_that_of_the_task_alone() -> None:
    """A task that holds 150 MB more is measured at about 150 MB more, whatever others hold: each has a process."""
    held_here = np.ones(4 * LARGE, dtype=np.uint8)
    ((_, one), small), ((counted, other), large) = (run_alone(partial(hold, count)) for count in (1, LARGE))
    assert counted == LARGE
    assert len({os.getpid(), one, other}) == 3
    assert large - small == pytest.approx(LARGE / 1e9, rel=0.1)
    assert small < held_here.nbytes / 1e9


def test_a_killed_process_ran_out_of_memory() -> None:
    """A process that vanished without a word is reported as out of memory, not waited for."""
    with pytest.raises(MemoryError):
        run_alone(partial(os._exit, 9))


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
    found = [(each.paper, each.number) for each in NUMBERED]
    assert [each for each in found if each != ("HiFGL", "Appendix A.4")] == wanted


def test_everything_has_a_table_or_a_reason() -> None:
    """A reason is words; a name is a table that there is."""
    for each in NUMBERED:
        assert each.tables or len(each.why.split()) > 2, each
        for name in each.tables:
            assert table_of(name).title.split(":")[0].endswith((each.number, f"{each.number}(a)", f"{each.number}(b)",
                                                                f"{each.number}(d)")), name  # fmt: skip


def test_every_file_of_printed_numbers_belongs_to_a_table() -> None:
    """And begins with the paper and the table, as a title does."""
    folder = files("fgl_reproduction.tables") / "printed"
    present = {each.name for each in folder.iterdir() if each.name.endswith(".csv")}
    read = {table_of(name).printed for each in NUMBERED for name in each.tables} - {None}
    assert present == read
    titles = {table_of(name).title.split(":")[0] for each in NUMBERED for name in each.tables}
    for name in present:
        assert any((folder / name).read_text(encoding="utf-8").startswith(f"# {title}") for title in titles), name
        paper, kind, number = re.fullmatch(r"(\w+?)_(table|fig)(\d+)d?\.csv", name).groups()  # type: ignore[union-attr]
        kinds = {"table": "Table", "fig": "Figure"}
        assert any((each.paper.lower(), each.number) == (paper, f"{kinds[kind]} {number}") for each in NUMBERED)
