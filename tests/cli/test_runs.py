"""Long runs: a `reproduce` that was killed goes on where it was, two go on at once, and a full disk loses no figure."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from fgl_secure.cli.main import BAD_INPUT, INTERRUPTED, OK

REPRODUCE = ("reproduce", "hifgl-table3", "--datasets", "digits", "--seeds", "1", "--epochs", "1", "--json")
RUNS = "fgl-secure-runs.jsonl"
PATIENCE = 240.0


def started(folder: Path, words: Sequence[str]) -> subprocess.Popen[str]:
    """The command line as a process of its own."""
    command = [sys.executable, "-m", "fgl_secure", *words]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        preexec_fn=takes_interrupts,  # noqa: PLW1509  # one thread alone runs here
    )


def takes_interrupts() -> None:
    """A shell's job in the background is deaf to interrupts, and so is what it starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Exit status and both streams."""
    out, err = process.communicate(timeout=PATIENCE)
    return process.returncode, out, err


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """What a process that runs to its end prints, on both streams."""
    status, out, err = ended(started(tmp_path_factory.mktemp("whole"), REPRODUCE))
    assert status == OK
    return out, err


def test_rows_are_told_as_they_come_with_what_remains(uninterrupted: tuple[str, str]) -> None:
    """A line a run on the standard error stream: its name, what it measured, how long it took, what is left."""
    lines = uninterrupted[1].splitlines()
    assert lines[0].startswith("fgl-secure: digits, silos ")
    assert "accuracy 0." in lines[0]
    assert f"1 of {len(lines)}, about " in lines[0]
    assert lines[-1].endswith(f"{len(lines)} of {len(lines)}")


@pytest.mark.parametrize("way", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_reproduction_goes_on_and_gives_the_same_table(
    tmp_path: Path, uninterrupted: tuple[str, str], way: signal.Signals
) -> None:
    """A kill, or Ctrl-C, after the first row; what was done is not done again, and the table is as uninterrupted."""
    process = started(tmp_path, REPRODUCE)
    place, before = tmp_path / RUNS, time.monotonic()
    while not (place.exists() and place.read_bytes().count(b"\n")):
        assert process.poll() is None, "it writes its first row before it ends"
        assert time.monotonic() - before < PATIENCE
        time.sleep(0.01)
    process.send_signal(way)
    status, out, err = ended(process)
    assert (status, out) == (-signal.SIGKILL if way is signal.SIGKILL else INTERRUPTED, "")
    assert err.endswith("fgl-secure: interrupted\n") is (way is signal.SIGINT)
    assert "Traceback" not in err
    kept = place.read_text(encoding="utf-8").split("\n")[:-1]
    status, out, err = ended(started(tmp_path, REPRODUCE))
    total = len(uninterrupted[1].splitlines())
    assert (status, out) == (OK, uninterrupted[0])
    assert 1 <= len(kept) < total
    assert f"{len(kept)} of {total} runs are done already" in err
    assert err.count("accuracy 0.") == total - len(kept)
    lines = [json.loads(line) for line in place.read_text(encoding="utf-8").splitlines() if line.endswith("}")]
    assert len(lines) == total
    assert len({json.dumps(line["run"]) for line in lines}) == total


def test_two_at_once_do_not_disturb_each_other(tmp_path: Path, uninterrupted: tuple[str, str]) -> None:
    """Both append to one file, both print the whole table, and a third has nothing left to do."""
    both = [started(tmp_path, REPRODUCE) for _ in range(2)]
    assert [ended(each)[:2] for each in both] == [(OK, uninterrupted[0])] * 2
    status, out, err = ended(started(tmp_path, REPRODUCE))
    assert (status, out) == (OK, uninterrupted[0])
    assert "accuracy 0." not in err


@pytest.mark.skipif(os.name != "posix", reason="limits of file sizes are POSIX's")
def test_a_full_disk_loses_no_figure(tmp_path: Path, uninterrupted: tuple[str, str]) -> None:
    """Where the file takes no more, the table is printed all the same; one line says what is lost, with status 2."""
    words = ["import resource, sys", "from fgl_secure.cli.main import main",
             "resource.setrlimit(resource.RLIMIT_FSIZE, (500, resource.RLIM_INFINITY))",
             f"sys.exit(main({[*REPRODUCE, '-q', '--runs', 'deep/runs.jsonl']!r}))"]  # fmt: skip
    done = subprocess.run([sys.executable, "-c", "\n".join(words)], capture_output=True, text=True, cwd=tmp_path,
                          check=False, timeout=PATIENCE)  # fmt: skip
    assert (done.returncode, done.stdout) == (BAD_INPUT, uninterrupted[0])
    assert done.stderr.startswith("fgl-secure: error: runs must be a file that takes finished runs; found deep")
    assert done.stderr.count("\n") == 1
