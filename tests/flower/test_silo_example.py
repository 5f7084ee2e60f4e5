"""The example with silos as SuperNodes does what it says, without the processes."""

import importlib
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from fgl_secure.flower.mailbox import fresh_session
from fgl_secure.training.processes.sums import carried
from fgl_secure.typing import Array

EXAMPLE = Path(__file__).parents[2] / "examples" / "flower_silos"
SILOS = 3


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The script of the example; its modules are forgotten afterwards."""
    monkeypatch.syspath_prepend(str(EXAMPLE))
    before = set(sys.modules)
    yield importlib.import_module("run_here")
    for name in set(sys.modules) - before:
        if name == "run_here" or name.startswith("silos_app"):
            del sys.modules[name]


def found_by_parties(script: ModuleType, folder: Path, config: dict[str, str | int]) -> dict[str, Array]:
    """What the server app would write, from parties that are carried each other's messages."""
    run, session = script.task.run_of(config), fresh_session()
    script.save_shares(script._job(config), folder)
    held = {n: partial(script.task.held, n, SILOS, str(folder / f"silo{n}")) for n in range(run.parties)}
    group = {n: run.party(n, session, held[n]) for n in range(run.parties)}
    server = run.server(session)
    posts: dict[int, dict[int, bytes]] = {}
    while any(group[silo].program.report is None for silo in range(SILOS)):
        posts = carried({n: party.turn(posts.get(n, {})) for n, party in group.items()}, server)
    return {f"{silo}/{name}": value for silo in range(SILOS) for name, value in group[silo].program.report.items()}


@pytest.mark.parametrize("options", [["--silos", "2"], ["--rounds", "0"]])
def test_options_out_of_range_are_one_line(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], options: list[str]
) -> None:
    """Too few silos or rounds are refused before anything is started."""
    monkeypatch.setattr(sys, "argv", ["run_here.py", *options])
    assert script.main() == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n")) == ("", 1)


def test_the_check_of_the_example_holds(script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Parties that hold the files of their shares train what one process trains; a wrong loss is noticed."""
    config = {"method": "fedavg", "silos": SILOS, "rounds": 2, "scheme": script.task.MASKS}
    found, expected = found_by_parties(script, tmp_path, config), script._job(config).train()
    assert script._verdict(found, expected) == 0
    found["0/losses"] = found["0/losses"] + np.array([0.0, 1e-3])
    assert script._verdict(found, expected) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "WRONG"
    for right, words in ((True, "as in one process"), (False, "and they are not those of one process")):
        stopped = {"0/losses": np.array(expected.losses[:1]) + (not right)}
        assert script._verdict(stopped, expected) == 1
        assert capsys.readouterr().out == f"STOPPED: 1 of 2 rounds are over, {words}\n"
