"""`fgl-secure reproduce` as a command: what it lists, takes and refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from fgl_reproduction.tables.catalogue import TABLES
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
    "table of other data": (("fedvn-table1", "--datasets", "digits"), "graph set must be one of"),
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
    assert "reproduce fedstruct-table6; Amazon Ratings is not at hand" in lines["fedstruct:table6"]
    assert "none; settings, which the presets have" in lines["fedstruct:table5"]
    assert sorted(TABLES) == sorted(name for each in NUMBERED for name in each.tables)


def test_help_loads_no_table() -> None:
    """Every start of the program imports the command's module, which brings neither torch nor a table."""
    code = "import sys, fgl_reproduction.tables.command; print('torch' in sys.modules or 'numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
