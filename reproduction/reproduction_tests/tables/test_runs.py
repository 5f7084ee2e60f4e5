"""Long runs: a `reproduce` that was killed goes on where it was, two go on at once, and a full disk loses no figure."""

import json
import os
import signal
import time
from pathlib import Path

import pytest

from fgl_secure.cli.main import BAD_INPUT, INTERRUPTED, OK

if os.name != "posix":
    pytest.skip("signals and limits of file sizes are POSIX's", allow_module_level=True)

from tests.cli.processes import PATIENCE, started

REPRODUCE = ("reproduce", "hifgl-table3", "--datasets", "digits", "--seeds", "1", "--epochs", "1", "--json")
RUNS = "fgl-secure-runs.jsonl"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a process that runs to its end."""
    return tmp_path_factory.mktemp("whole")


@pytest.fixture(scope="module")
def uninterrupted_output(whole: Path) -> tuple[str, str]:
    """What it prints, on both streams."""
    status, out, err = started(whole, REPRODUCE).ended()
    assert status == OK
    return out, err


def test_rows_are_told_as_they_come_with_what_remains(uninterrupted_output: tuple[str, str]) -> None:
    """A line a run on the standard error stream: its name, what it measured, how long it took, what is left."""
    lines = uninterrupted_output[1].splitlines()
    assert lines[0].startswith("fgl-secure: digits, silos ")
    assert "accuracy 0." in lines[0]
    assert f"1 of {len(lines)}, about " in lines[0]
    assert lines[-1].endswith(f"{len(lines)} of {len(lines)}")


def run_and_stop(folder: Path, way: signal.Signals, rows: int) -> tuple[int | None, str, str]:
    """Statuses and streams of a reproduction that gets a signal once its file has more rows than these."""
    run, place, before = started(folder, REPRODUCE), folder / RUNS, time.monotonic()
    while not (place.exists() and place.read_bytes().count(b"\n") > rows):
        assert run.process.is_alive(), "it writes its first row before it ends"
        assert time.monotonic() - before < PATIENCE
        time.sleep(0.01)
    run.send(way)
    return run.ended()


def test_a_killed_reproduction_goes_on_and_gives_the_same_table(
    tmp_path: Path, uninterrupted_output: tuple[str, str]
) -> None:
    """Ctrl-C after a row, then a kill after another: what was done is not done again; the table is as uninterrupted."""
    place, kept = tmp_path / RUNS, list[str]()
    for way in (signal.SIGINT, signal.SIGKILL):
        status, out, err = run_and_stop(tmp_path, way, len(kept))
        assert (status, out) == (-signal.SIGKILL if way is signal.SIGKILL else INTERRUPTED, "")
        assert err.endswith("fgl-secure: interrupted\n") is (way is signal.SIGINT)
        assert "Traceback" not in err
        kept = place.read_text(encoding="utf-8").split("\n")[:-1]
    status, out, err = started(tmp_path, REPRODUCE).ended()
    total = len(uninterrupted_output[1].splitlines())
    assert (status, out) == (OK, uninterrupted_output[0])
    assert 2 <= len(kept) < total
    assert f"{len(kept)} of {total} runs are done already" in err
    assert err.count("accuracy 0.") == total - len(kept)
    lines = [json.loads(line) for line in place.read_text(encoding="utf-8").splitlines() if line.endswith("}")]
    assert len(lines) == total
    assert len({json.dumps(line["run"]) for line in lines}) == total


def test_two_at_once_do_not_disturb_each_other(
    tmp_path: Path, whole: Path, uninterrupted_output: tuple[str, str]
) -> None:
    """Both append to one file that lacks two runs, both print the whole table, and a third has nothing left to do."""
    finished = (whole / RUNS).read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / RUNS).write_text("".join(finished[:-2]), encoding="utf-8")
    both = [started(tmp_path, REPRODUCE) for _ in range(2)]
    assert [each.ended()[:2] for each in both] == [(OK, uninterrupted_output[0])] * 2
    status, out, err = started(tmp_path, REPRODUCE).ended()
    assert (status, out) == (OK, uninterrupted_output[0])
    assert "accuracy 0." not in err


def test_a_full_disk_loses_no_figure(tmp_path: Path, uninterrupted_output: tuple[str, str]) -> None:
    """Where the file takes no more, the table is printed all the same; one line says what is lost, with status 2."""
    status, out, err = started(tmp_path, [*REPRODUCE, "-q", "--runs", "deep/runs.jsonl"], most=500).ended()
    assert (status, out) == (BAD_INPUT, uninterrupted_output[0])
    assert err.startswith("fgl-secure: error: runs must be a file that takes finished runs; found deep")
    assert err.count("\n") == 1
