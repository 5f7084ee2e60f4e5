"""Loops are compiled ahead by processes that are gone afterwards, and whatever goes wrong there costs time alone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fgl_secure import ahead
from fgl_secure.cli.main import BAD_INPUT, OK, main
from fgl_secure.crypto import aes_instructions
from tests.first_loops import taking_torch

LOOP = "fgl_secure.algebra.elementwise_kernels.count_outside"
LINE = f"0.1 {' '.join(LOOP.rsplit('.', 1))} Array(int64, 1, 'C'), int64, UniTuple(int64, 2)\n"

USED = """
import sys
from pathlib import Path
import numpy as np
from fgl_secure import ahead
from fgl_secure.algebra.elementwise_kernels import count_outside
ahead._busy = lambda cores: False
ahead.start(Path(sys.argv[1]), Path(sys.argv[2]))
begun = len(ahead._workers)
assert count_outside(np.arange(5), 3) == 2
stats = count_outside.kernel.stats
ahead.stop()
print(begun, sum(stats.cache_hits.values()), sum(stats.cache_misses.values()))
"""

CALLED = """
import json
from fgl_secure.cli.main import main
from tests.first_loops import EPOCH, called
assert main(EPOCH) == 0
print(json.dumps(sorted(called())))
"""


@pytest.fixture
def several(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine of two cores whose user has switched nothing off; no process is left."""
    monkeypatch.delenv(ahead.SWITCH, raising=False)
    monkeypatch.setattr(ahead, "_cores", lambda: 2)
    monkeypatch.setattr(ahead, "_busy", lambda *_: False)
    yield
    ahead.stop()


def written(folder: Path, text: str) -> Path:
    path = folder / "list.txt"
    path.write_text(text, encoding="utf-8")
    return path


def use(folder: Path, path: Path, **settings: str) -> list[int]:
    """Processes that were begun, and whether numba found a loop on disk or not, in a process of its own."""
    (folder / "numba").mkdir(exist_ok=True)
    environment = {**os.environ, ahead.SWITCH: "1", "NUMBA_CACHE_DIR": str(folder / "numba"), **settings}
    command = [sys.executable, "-P", "-c", USED, str(folder / "cache"), str(path)]
    run = subprocess.run(command, env=environment, cwd=folder, capture_output=True, check=True)
    return [int(word) for word in run.stdout.split()]


@pytest.mark.skipif(ahead._cores() == 1, reason="one core has no other to compile on")
def test_a_loop_that_is_compiled_ahead_is_found_on_disk(tmp_path: Path) -> None:
    """Once for all: the next process begins none. Nothing is loaded from the folder that somebody works in."""
    (tmp_path / "numba.py").write_text("open('loaded', 'w').close()", encoding="utf-8")
    path = written(tmp_path, LINE)
    assert use(tmp_path, path) == [1, 1, 0]
    assert [file.stat().st_size for file in (tmp_path / "cache" / "compiled").iterdir()] == [0]
    assert use(tmp_path, path) == [0, 1, 0]
    assert not (tmp_path / "loaded").exists()


@pytest.mark.parametrize(
    ("text", "switch"),
    [
        (LINE, "0"),
        (LINE.replace("count_outside", "no_such_loop"), "1"),
        (LINE.replace("Array(int64", "Array(int65"), "1"),
        (LINE.replace("Array(int64", "Array(boolean"), "1"),
        ("no list\n", "1"),
    ],
    ids=["off", "no loop", "no type", "other types", "no list"],
)
def test_what_is_not_on_disk_is_compiled_where_it_is_called(tmp_path: Path, text: str, switch: str) -> None:
    """Where that is switched off, and where it fails."""
    _, found, compiled = use(tmp_path, written(tmp_path, text), **{ahead.SWITCH: switch})
    assert (found, compiled) == (0, 1)


@pytest.mark.usefixtures("several")
def test_a_process_that_dies_is_not_waited_for(tmp_path: Path) -> None:
    """A loop that it had in hand is free at once."""
    ahead.start(tmp_path, written(tmp_path, LINE))
    (worker,) = ahead._workers
    worker.process.send_signal(signal.SIGKILL)
    ahead.wait_for(LOOP)
    assert LOOP not in ahead.in_hand


@pytest.mark.usefixtures("several")
def test_a_process_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "PATIENCE", 0.1)
    ahead.start(tmp_path, written(tmp_path, LINE))
    (worker,) = ahead._workers
    worker.process.send_signal(signal.SIGSTOP)
    ahead.wait_for(LOOP)
    assert worker.process.returncode == -signal.SIGKILL


@pytest.mark.usefixtures("several")
def test_no_process_is_left_behind_and_nothing_unfinished_is_called_done(tmp_path: Path) -> None:
    ahead.start(tmp_path)
    workers = list(ahead._workers)
    assert len(workers) == 2
    ahead.stop()
    assert all(worker.process.returncode is not None for worker in workers)
    assert not ahead.in_hand
    assert not (tmp_path / "compiled").exists()


@pytest.mark.usefixtures("several")
@pytest.mark.parametrize(("name", "found"), [("_cores", 1), ("_busy", True)])
def test_without_an_idle_core_loops_are_compiled_where_they_are_called(
    name: str, found: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ahead, name, lambda *_: found)
    ahead.start(tmp_path)
    assert not ahead._workers


def test_processes_take_about_as_long() -> None:
    """No module is in two shares, and there are no more shares than cores."""
    loops = ahead.listed(ahead.LIST)
    for cores in (1, 2, 3, 100):
        shares = ahead._shares(loops, cores)
        assert sorted(module for share in shares for module in share) == sorted({each.module for each in loops})
        assert len(shares) <= cores
    long, short = sorted(
        sum(each.seconds for each in loops if each.module in share) for share in ahead._shares(loops, 2)
    )
    assert 0.6 * short < long


def test_commands_that_train_hifgl_begin_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[Path] = []
    monkeypatch.setattr(ahead, "start", begun.append)
    monkeypatch.setenv("FGL_SECURE_CACHE", str(tmp_path))
    missing = str(tmp_path / "missing.npz")
    assert main(["train", "fedavg", "--dataset", missing]) == BAD_INPUT
    assert main(["list", "datasets"]) == OK
    assert not begun
    assert main(["train", "hifgl", "--dataset", missing]) == BAD_INPUT
    assert main(["audit", "--dataset", missing]) == BAD_INPUT
    assert begun == [tmp_path, tmp_path]


@pytest.mark.skipif(not aes_instructions.available(), reason="other loops are called where AES has no instructions")
def test_the_list_is_what_a_first_epoch_calls() -> None:
    """`python -m tests.first_loops` writes it anew; what else is called takes PyTorch to load."""
    root = Path(__file__).parents[1]
    run = subprocess.run([sys.executable, "-c", CALLED], cwd=root, capture_output=True, check=True)
    called = {tuple(each) for each in json.loads(run.stdout.splitlines()[-1])}
    lines = [each for each in ahead.listed(ahead.LIST) if ahead.is_called(each.module)]
    listed = {(each.module, each.loop, each.types) for each in lines}
    modules = {module for module, _, _ in listed}
    assert {each for each in called if each[0] in modules} == listed
    others = {module for module, _, _ in called} - modules
    assert taking_torch(modules | others) == others
