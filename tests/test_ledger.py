"""The file of finished runs: whole lines, torn ones, other people's files, disks that are full."""

import gc
import json
import resource
import subprocess
import sys
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fgl_secure.errors import InputError
from fgl_secure.ledger import LedgerEntry, Run, RunLedger, Watch, complete_runs, provenance
from tests.error_codes import about

KEY = {"of": "test", "seed": 0, "epochs": None, "lines": "a\u2028b"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "runs.jsonl"


def test_a_run_comes_back_as_it_was(path: Path) -> None:
    """Floats to the bit, None, text with odd separators; keys in any order."""
    RunLedger(path).add(KEY, {"x": 0.1 + 0.2, "y": None}, 1.5)
    assert RunLedger(path).find(dict(reversed(KEY.items()))) == LedgerEntry(KEY, {"x": 0.1 + 0.2, "y": None}, 1.5)
    assert RunLedger(path).find({**KEY, "seed": 1}) is None


def test_nothing_is_made_before_the_first_run(path: Path) -> None:
    """A ledger that nothing is added to leaves no file and no folder."""
    RunLedger(path)
    assert not path.parent.exists()


@pytest.mark.parametrize("kept", [1, 4, 9, 30, -2])
def test_a_torn_line_is_skipped_and_its_run_is_run_again(path: Path, kept: int) -> None:
    """A kill in the middle of a line costs that run alone, is said, and leaves the file readable ever after."""
    ledger = RunLedger(path)
    ledger.add(KEY, 1, 0.0)
    whole = path.read_bytes()
    ledger.add({**KEY, "seed": 1}, 2, 0.0)
    torn = path.read_bytes()[len(whole) :]
    path.write_bytes(whole + torn[:kept])
    again = RunLedger(path)
    assert list(again.notes([KEY])) == [f"{path}: 1 torn line is skipped"]
    assert (again.find(KEY) is not None, again.find({**KEY, "seed": 1})) == (True, None)
    again.add({**KEY, "seed": 1}, 3, 0.0)
    found = RunLedger(path).find({**KEY, "seed": 1})
    assert found is not None
    assert found.found == 3


@pytest.mark.parametrize("text", ["mine\n", '{"mine": 1}', '{"run": {}}\nmine\n', "\x00\xff\n"])
def test_a_file_of_somebody_elses_is_refused_and_left_alone(path: Path, text: str) -> None:
    """A line that no kill could have left is not taken for a torn one."""
    path.parent.mkdir()
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, check=about("runs")):
        RunLedger(path)
    assert path.read_text(encoding="utf-8") == text


@pytest.mark.parametrize("place", ["/dev/full", "/dev/null", "/proc/version/runs.jsonl", "."])
def test_what_is_no_file_is_refused(place: str) -> None:
    """A device, a folder, and a place below a file take no runs."""
    with pytest.raises(InputError, check=about("runs")):
        RunLedger(Path(place))


def test_several_writers_leave_whole_lines(path: Path) -> None:
    """Ledgers that add to one file at the same time lose no line and mix none."""
    ledgers = [RunLedger(path) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        for number in range(40):
            pool.submit(ledgers[number % 4].add, {**KEY, "seed": number}, "x" * 5000, 0.0)
    assert all(RunLedger(path).find({**KEY, "seed": number}) for number in range(40))


FULL = """
import resource
from pathlib import Path
from fgl_secure.ledger import RunLedger
resource.setrlimit(resource.RLIMIT_FSIZE, (400, resource.RLIM_INFINITY))
ledger = RunLedger(Path("runs.jsonl"))
for seed in range(9):
    ledger.add({"of": "test", "seed": seed}, "x" * 50, 0.0)
assert all(ledger.find({"of": "test", "seed": seed}) for seed in range(9)), "runs go on"
print(ledger.error)
"""


def test_a_disk_that_is_full_ends_the_writing_and_not_the_runs(tmp_path: Path) -> None:
    """Where no line fits any more, runs go on in memory, and the error says so; what was written stays readable."""
    done = subprocess.run([sys.executable, "-c", FULL], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("runs must be a file that takes finished runs; found runs.jsonl (")
    ledger = RunLedger(tmp_path / "runs.jsonl")
    assert ledger.find({"of": "test", "seed": 2}) is not None
    assert ledger.find({"of": "test", "seed": 8}) is None
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY, "the limit was that process's own"


class Rests(Watch):
    def __init__(self) -> None:
        self.rests: list[str] = []

    def on_finish(self, entry: LedgerEntry, name: str, rest: str) -> None:  # noqa: ARG002  # as it is told
        self.rests.append(rest)


def test_what_remains_is_judged_by_the_runs_most_like_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow method's runs are expected to be slow, and others to take the mean of what is known."""
    ticks: Iterator[float] = iter([0.0, 60.0, 60.0, 61.0, 61.0, 121.0, 121.0, 122.0])
    monkeypatch.setattr("fgl_secure.ledger.perf_counter", lambda: next(ticks))
    names = [("slow", 0), ("fast", 0), ("slow", 1), ("fast", 1)]
    runs = [Run({"of": name, "seed": seed}, name, (name,), lambda: None) for name, seed in names]
    watch = Rests()
    complete_runs(runs, RunLedger(), watch)
    assert watch.rests == [
        "1 of 4, about 3:00 left", "2 of 4, about 1:01 left", "3 of 4, about 0:01 left", "4 of 4",
    ]  # fmt: skip


@pytest.mark.parametrize(("long", "left"), [(-1.0, 0), (3600.0, 1)])
def test_what_a_long_run_worked_with_is_gone_when_the_next_begins(
    monkeypatch: pytest.MonkeyPatch, long: float, left: int
) -> None:
    """Also what refers to itself; short runs don't wait for that."""
    monkeypatch.setattr("fgl_secure.ledger._LONG", long)
    worked, found = list[weakref.ref[Watch]](), list[int]()

    def work() -> None:
        watch = Rests()
        vars(watch)["itself"] = watch
        found.append(sum(each() is not None for each in worked))
        worked.append(weakref.ref(watch))

    gc.disable()
    try:
        complete_runs([Run({"of": "test", "seed": seed}, "run", (), work) for seed in range(2)], RunLedger())
    finally:
        gc.enable()
    assert found == [0, left]


def test_lines_of_other_options_are_told_by_what_differs(path: Path) -> None:
    """Few kinds are named, the rest is counted; what is of another command is nobody's business."""
    ledger = RunLedger(path)
    for epochs in (1, 2, 3, 4, 4):
        ledger.add({**KEY, "epochs": epochs, "seed": 0 if epochs < 4 else epochs}, 1, 0.0)
    ledger.add({**KEY, "of": "another"}, 1, 0.0)
    notes = list(ledger.notes([KEY]))
    assert notes[0] == f"{path}: 1 run is not used, of epochs 1 where none is asked for"
    assert notes[-1] == f"{path}: 4 runs are not used, all together"


def test_provenance_changes_with_a_source(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The digest is of what files hold, wherever they are."""
    made = []
    for number, text in enumerate(("x = 1\n", "x = 1\n", "x = 2\n")):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "ledger.py").write_text(text, encoding="utf-8")
        monkeypatch.setattr("fgl_secure.ledger.__file__", str(folder / "ledger.py"))
        provenance.cache_clear()
        made.append(provenance()["source"])
    provenance.cache_clear()
    assert made[0] == made[1] != made[2]
    assert json.dumps(made)


def test_provenance_changes_with_a_source_of_another_package(tmp_path: Path) -> None:
    """Whose folder is named."""
    made = [provenance(tmp_path)["source"]]
    (tmp_path / "runs.py").write_text("", encoding="utf-8")
    provenance.cache_clear()
    assert provenance(tmp_path)["source"] not in (*made, provenance()["source"])
