"""Reproducing a table: runs, means, verdicts and what is printed, on a table of invented figures."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest
import torch

from fgl_reproduction.tables import reproduce
from fgl_reproduction.tables.printing import describe
from fgl_reproduction.tables.reproduce import Reproduction
from fgl_reproduction.tables.rows import FigureRow, MeanFigure, printed_figures
from fgl_reproduction.tables.table import Choices, DerivedMetric, Metric, PaperTable, TableCase
from fgl_secure.errors import DataNotFoundError, DeviceUnavailableError, InputError, UnknownNameError
from fgl_secure.graph import Graph
from fgl_secure.ledger import LedgerEntry, RunLedger, Watch
from tests.error_codes import about

SCORE, HALF = Metric("score", 3), Metric("half the score", 1)
ROW_KEYS = [
    "dataset", "setting", "method", "metric", "ours_mean", "ours_std", "paper_mean", "paper_std", "within",
]  # fmt: skip


def fake_measure(data: Graph, choices: Choices, seed: int) -> Mapping[Metric, float]:
    """A figure that depends on everything that it is given."""
    return {SCORE: data.num_nodes + (100 if choices.preset == "paper" else 0) + seed**2}


def halves(means: Mapping[TableCase, float]) -> Mapping[TableCase, float | None]:
    return {case: mean / 2 if case.method == "ours" else None for case, mean in means.items()}


TABLE = PaperTable(
    name="invented",
    title="A table of [nothing]",
    datasets=("digits",),
    cases=(
        TableCase("silos 1", "ours", fake_measure),
        TableCase("silos 1", "other", fake_measure),
        TableCase("silos 2", "absent", None),
    ),
    metrics=(SCORE,),
    derived=(DerivedMetric(HALF, SCORE, halves),),
    printed="invented.csv",
    notes=("Nothing of this was printed.",),
    method="HiFGL",
)

PRINTED = {
    ("digits", "silos 1", "ours", "score"): MeanFigure(1798.0, 1.0),
    ("digits", "silos 1", "other", "score"): MeanFigure(1798.0, 0.5),
    ("digits", "silos 2", "absent", "score"): MeanFigure(3.0, None),
}


@pytest.fixture(autouse=True)
def _fake_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reproduce, "printed_figures", {"invented.csv": PRINTED}.__getitem__)


def run_reproduce(choices: Choices | None = None, datasets: tuple[str, ...] = ()) -> Reproduction:
    return reproduce.reproduce(TABLE, choices or Choices(seeds=3), datasets)


def test_seeds_can_be_named() -> None:
    """Fresh ones, in place of those from 0 on."""
    seen = RecordingWatch()
    found = reproduce.reproduce(TABLE, Choices(seeds=(11, 12)), watch=seen)
    assert found.as_json()["seeds"] == [11, 12]
    assert {name.split()[-1] for name, _ in seen.ends} == {"11", "12"}


def test_means_and_deviations_are_over_seeds_from_zero() -> None:
    """Seeds 0, 1, 2 give the mean and the sample standard deviation of what the runs measured."""
    rows = run_reproduce().rows
    values = [1797.0, 1798.0, 1801.0]
    assert rows[0].ours == MeanFigure(fmean(values), stdev(values))
    assert [(row.method, row.metric) for row in rows] == [
        (method, metric) for method in ("ours", "other", "absent") for metric in (SCORE, HALF)
    ]


def test_one_run_has_no_deviation() -> None:
    """With one seed there is a mean alone."""
    assert run_reproduce(Choices(seeds=1)).rows[0].ours == MeanFigure(1797.0, None)


def test_choices_reach_the_runs() -> None:
    """The preset is handed to every run."""
    assert run_reproduce(Choices("paper", seeds=1)).rows[0].ours.mean == 1897


def test_methods_choose_lines() -> None:
    """Named lines alone are run, in the table's order; all else that is known of them stays."""
    whole, seen = run_reproduce(Choices(seeds=2)).rows, RecordingWatch()
    chosen = reproduce.reproduce(TABLE, Choices(seeds=2, methods=("absent", "other")), (), watch=seen)
    assert chosen.rows == tuple(row for row in whole if row.method != "ours")
    assert [name for name, _ in seen.ends] == [f"digits, silos 1, other, seed {seed}" for seed in (0, 1)]


def test_a_line_that_is_not_there_is_refused() -> None:
    """With the names of those that are, and also where the chosen numbers of clients leave none of it."""
    with pytest.raises(UnknownNameError, check=about("method of invented")):
        run_reproduce(Choices(methods=("ours", "othr")))
    lines = (TableCase("clients 2", "ours", fake_measure, 2), TableCase("clients 3", "other", fake_measure, 3))
    with pytest.raises(InputError, check=about("methods")):
        replace(TABLE, cases=lines).chosen_cases((3,), ("other", "ours"))


def test_derived_metrics_come_from_means() -> None:
    """A derived value has no deviation, and none at all where it is undefined."""
    rows = run_reproduce().rows
    assert rows[0].ours.mean is not None
    assert rows[1].ours == MeanFigure(rows[0].ours.mean / 2, None)
    assert rows[3].ours == MeanFigure()


def test_verdicts() -> None:
    """Within one printed deviation is within, beyond is not, and without deviation or figure there is no verdict."""
    rows = run_reproduce().rows
    assert [row.within for row in rows] == [True, None, False, None, None, None]


@pytest.mark.parametrize(("mean", "within"), [(0.8, True), (0.7, True), (0.9, True), (0.6999, False), (0.9001, False)])
def test_a_difference_of_one_deviation_is_within(mean: float, within: bool) -> None:
    """The bound itself counts, although decimal fractions are not exact."""
    assert FigureRow("d", "s", "m", SCORE, MeanFigure(mean, 5.0), MeanFigure(0.8, 0.1)).within is within


class RecordingWatch(Watch):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.starts: list[tuple[int, int, str]] = []
        self.ends: list[tuple[str, str]] = []
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)

    def on_start(self, done: int, total: int, name: str) -> None:
        self.starts.append((done, total, name))

    def on_finish(self, entry: LedgerEntry, name: str, rest: str) -> None:  # noqa: ARG002  # as it is told
        self.ends.append((name, rest))


def test_every_run_is_announced() -> None:
    """Before each run its number and name, and once at the end: only methods that can be run count."""
    seen = RecordingWatch()
    reproduce.reproduce(TABLE, Choices(seeds=2), (), watch=seen)
    assert [call[:2] for call in seen.starts] == [(done, 4) for done in range(5)]
    assert seen.starts[1][2] == "digits, silos 1, ours, seed 1"
    assert [name for name, _ in seen.ends] == [name for *_, name in seen.starts[:-1]]
    assert [rest.split(",")[0] for _, rest in seen.ends] == [f"{done} of 4" for done in (1, 2, 3, 4)]
    assert "about 0:00 left" in seen.ends[0][1]


def test_runs_of_the_file_are_not_run_again(tmp_path: Path) -> None:
    """More seeds add to those that are there, and the table is that of an uninterrupted run."""
    path, seen = tmp_path / "runs.jsonl", RecordingWatch()
    reproduce.reproduce(TABLE, Choices(seeds=2), ledger=RunLedger(path))
    done = reproduce.reproduce(TABLE, Choices(seeds=3), ledger=RunLedger(path), watch=seen)
    assert [name for name, _ in seen.ends] == [f"digits, silos 1, {method}, seed 2" for method in ("ours", "other")]
    assert done.rows == run_reproduce(Choices(seeds=3)).rows
    assert seen.notes == ["4 of 6 runs are done already, and are not run again"]


@pytest.mark.parametrize("other", [{"preset": "paper"}, {"epochs": 2}, {"scheme": "secmp"}])
def test_runs_of_other_options_are_not_used_and_said_to_be(tmp_path: Path, other: dict[str, Any]) -> None:
    """Every option that a figure depends on tells runs apart, and the difference is named."""
    path, seen = tmp_path / "runs.jsonl", RecordingWatch()
    reproduce.reproduce(TABLE, Choices(seeds=1), ledger=RunLedger(path))
    reproduce.reproduce(TABLE, replace(Choices(seeds=1), **other), ledger=RunLedger(path), watch=seen)
    assert len(seen.ends) == 2
    ((name, value),) = other.items()
    assert (
        f"2 runs are not used, of {name} {getattr(Choices(), name) or 'none'} where {value} is asked for"
        in seen.notes[0]
    )


def test_a_data_set_named_twice_is_run_once() -> None:
    """Names are those of `load`, in upper or lower case, and doubles are dropped."""
    assert run_reproduce(datasets=("DIGITS", "digits")) == run_reproduce(datasets=("digits",))


def test_json_has_exactly_the_stated_keys() -> None:
    """Null stands where there is nothing, and the object survives a round trip."""
    data = json.loads(json.dumps(run_reproduce().as_json(), allow_nan=False))
    assert list(data) == ["table", "preset", "seeds", "rows"]
    assert (data["table"], data["preset"], data["seeds"]) == ("invented", "honest", [0, 1, 2])
    assert {tuple(row) for row in data["rows"]} == {tuple(ROW_KEYS)}
    assert list(data["rows"][0].values())[:4] == ["digits", "silos 1", "ours", "score"]
    assert list(data["rows"][0].values())[6:] == [1798.0, 1.0, True]
    assert list(data["rows"][4].values())[4:] == [None, None, 3.0, None, None]


def test_the_printed_table_has_every_row() -> None:
    """Title and notes are printed as they are; each row has our figure, the printed one and a verdict."""
    text = describe(run_reproduce())
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert lines[0] == "A table of [nothing]"
    assert lines[1] == "honest preset, 3 runs, seed 0, 1, 2, HiFGL under plaintext"
    assert "digits silos 1 ours score 1798.667 +- 2.082 1798.000 +- 1.000 within" in lines
    assert "digits silos 1 other score 1798.667 +- 2.082 1798.000 +- 0.500 outside" in lines
    assert "digits silos 1 ours half the score 899.3 - -" in lines
    assert "digits silos 2 absent score not implemented 3.000 -" in lines
    assert "Note: Nothing of this was printed." in lines
    assert "\x1b" not in text


def test_one_run_with_few_epochs_is_said() -> None:
    """The line under the title says what was chosen."""
    assert "paper preset, at most 7 epochs, 1 run, seed 0, HiFGL under secmp" in describe(
        run_reproduce(Choices("paper", 1, "secmp", 7))
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seeds": 0}, "seeds must be at least 1 run"),
        ({"seeds": -3}, "seeds must be at least 1 run"),
        ({"seeds": (1, 1)}, "seeds must be at least 1 run"),
        ({"seeds": (-1,)}, "seeds must be at least 1 run"),
        ({"epochs": 0}, "epochs must be at least 1; found 0"),
    ],
)
def test_impossible_choices_are_refused(change: dict[str, int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Choices(**change)  # type: ignore[arg-type]  # whichever field the case names


@pytest.mark.parametrize(
    ("choices", "datasets", "message"),
    [
        (Choices("best"), (), "preset must be one of honest, paper, public-code; found 'best'"),
        (Choices(scheme="magic"), (), "scheme must be one of .*; found 'magic'"),
        (Choices(), ("digits", "Imagenet"), "data set must be one of .*; found 'Imagenet'"),
    ],
)
def test_unknown_names_are_refused_before_anything_runs(
    choices: Choices, datasets: tuple[str, ...], message: str
) -> None:
    """Nothing is run when the preset, scheme or any data set does not exist."""
    seen = RecordingWatch()
    with pytest.raises(UnknownNameError, match=message):
        reproduce.reproduce(TABLE, choices, datasets, watch=seen)
    assert not seen.starts


def test_a_data_set_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """Raw files are looked for in the given folder before anything runs."""
    with pytest.raises(DataNotFoundError, check=about("data_root")):
        run_reproduce(Choices(data_root=tmp_path), ("digits", "Cora"))


def test_no_file_holds_no_figures() -> None:
    """A figure of a paper that prints no numbers has none."""
    assert printed_figures(None) == {}


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has CUDA")
def test_an_absent_device_is_refused_before_anything_runs() -> None:
    """By name, as is one that nobody knows."""
    with pytest.raises(DeviceUnavailableError, match="device 'cuda' needs a CUDA device"):
        Choices(device="cuda")
    with pytest.raises(UnknownNameError, check=about("device")):
        Choices(device="tpu")


def test_a_run_on_another_device_is_another_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its figures may differ, so finished runs of one are not taken for those of the other."""
    path = tmp_path / "runs.jsonl"
    reproduce.reproduce(TABLE, Choices(seeds=1), ledger=RunLedger(path))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    reproduce.reproduce(TABLE, Choices(seeds=1), ledger=RunLedger(path))
    assert [json.loads(line)["run"]["device"] for line in path.read_text(encoding="utf-8").splitlines()] == [
        "cpu", "cpu", "cuda", "cuda",
    ]  # fmt: skip
