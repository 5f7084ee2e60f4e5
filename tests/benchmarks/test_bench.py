"""`python -m benchmarks`: sizes made small, so that what is tested is what is said and not how fast this machine is."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks import ckks as bench_ckks
from benchmarks import field as bench_field
from benchmarks import gradients as bench_gradients
from benchmarks import hop_adjacency as bench_hop_adjacency
from benchmarks import lcc as bench_lcc
from benchmarks import measure as bench
from benchmarks import secagg as bench_secagg
from benchmarks import secmp as bench_secmp
from benchmarks import timing as timing_module
from benchmarks.__main__ import main
from benchmarks.pieces import Piece
from fgl_secure.cli.output import INTERRUPTED, OK
from fgl_secure.errors import DataNotFoundError
from fgl_secure.graph import datasets
from fgl_secure.methods.hifgl.audit_target import HiFGLSubject
from tests.benchmarks.test_secagg import SMALL as SMALL_ROUNDS
from tests.graphs import joined_digits

SMALL = {"ROWS": 50, "WIDTH": 4, "COLUMNS": 600, "GALOIS_COLUMNS": 100, "COORDINATES": 300}


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Every size a few thousandths of the real one, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    for name, size in SMALL.items():
        monkeypatch.setattr(bench_lcc, name, size)
    monkeypatch.setattr(bench_field, "LENGTH", 2**12)
    monkeypatch.setattr(bench_secmp, "DATASETS", ("digits",))
    monkeypatch.setattr(bench_secmp, "EPOCHS", 1)
    for name, value in {"DATASETS": ("digits",), "EPOCHS": 1, "DENSE_EPOCHS": 1}.items():
        monkeypatch.setattr(bench_gradients, name, value)
    for name, value in {"SHAPE": (6, 300), "TERMS": 3, "SAMPLED_ROWS": 2}.items():
        monkeypatch.setattr(bench_ckks, name, value)
    for name, value in {"DATASETS": ("digits",), "CLIENTS": 3, "DENSE_NODES": 0, "SAMPLED_ROWS": 1}.items():
        monkeypatch.setattr(bench_hop_adjacency, name, value)
    for name, value in SMALL_ROUNDS.items():
        monkeypatch.setattr(bench_secagg, name, value)


LEDGER = "fgl-secure-runs.jsonl"
"""Where finished pieces are kept, unless another file is named."""
ELSEWHERE = ("field", "lcc", "secagg", "secmp")
"""Parts that are run below, or in `test_secagg`."""


@pytest.mark.parametrize("part", [part for part in bench.PARTS if part not in ELSEWHERE])
def test_json_holds_every_timing_with_its_spread(
    part: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The object names the command and the machine; each median lies between its extremes."""
    monkeypatch.setattr(datasets, "load_digits_graph", lambda: joined_digits(300))
    assert main([part, "--json"]) == OK
    _check(part, json.loads(capsys.readouterr().out))


def _check(part: str, report: dict[str, Any]) -> None:
    """What every part's object has."""
    assert report["command"] == f"python -m benchmarks {part} --json"
    assert report["machine"]["cores"] >= 1
    assert report["copy_bytes_per_second"] > 0
    assert len(report["timings"]) >= 5
    for timed in report["timings"]:
        assert 0 < timed["least"] <= timed["median"] <= timed["most"]


def test_every_bounded_figure_is_named_with_its_bound_and_outcome(capsys: pytest.CaptureFixture[str]) -> None:
    """The eight figures that have a bound appear with it, as reached or not, and a miss says what limits it."""
    assert main(["lcc"]) == OK
    lines = capsys.readouterr().out.splitlines()
    figures = [text for text in lines if "(bound: " in text]
    assert [text.split("(bound: ")[1].split(",")[0] for text in figures] == [
        "at least 20", "at least 20", "at most 5", "at least 8", "at least 8", "at least 40", "at most 2",
    ]  # fmt: skip
    assert all("reached" in text for text in figures)
    for text, after in zip(lines, [*lines[1:], ""], strict=True):
        if "NOT reached" in text:
            assert after.startswith("    limited by")


def test_without_galois_the_rest_is_measured_and_the_lack_is_said(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where galois isn't installed its ratios are missing, with the reason and the remedy."""
    monkeypatch.setattr(timing_module, "find_spec", lambda _: None)
    monkeypatch.setattr(bench, "_installed_version", lambda _: None)
    assert main(["lcc"]) == OK
    said = capsys.readouterr().out
    assert "galois is not installed: pip install 'fgl-secure[bench]'" in said
    assert said.count("not measured, galois is not installed") == 5
    assert main(["field"]) == OK
    assert "galois," not in capsys.readouterr().out


def test_secured_epochs_are_held_against_plain_pyg(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Every protocol has its ratio and the time of its first epoch; a data set that is not there is named."""
    monkeypatch.setattr(bench_secmp, "DATASETS", ("digits", "Cora"))
    monkeypatch.setattr(bench_secmp, "_prepare_subjects", _without("Cora", bench_secmp._prepare_subjects))
    assert main(["secmp", "--json"]) == OK
    report = json.loads(capsys.readouterr().out)
    _check("secmp", report)
    figures = {figure["name"]: figure for figure in report["figures"]}
    for protocol in ("relay-coded", "relay-coded[graph-shown]", "secmp", "plaintext"):
        assert figures[f"digits: epoch under {protocol} over plain PyG"]["value"] > 0
        assert any(t["name"] == f"digits: first epoch with set-up, {protocol}" for t in report["timings"])
    per_message = figures["digits: bytes a message over the published 532"]
    assert per_message["value"] == (16 + 2 * 35 + 256) / 532
    assert per_message["reached"]
    covered = figures["digits: messages with covers over those along edges, relay-coded"]
    assert covered["value"] == 21 * 1797 / 12616
    assert covered["reached"]
    assert figures["Cora: secured epoch over plain PyG"]["value"] is None
    _check_print_of_secmp([json.loads(each)["found"] for each in (tmp_path / LEDGER).read_text().splitlines()])


def _check_print_of_secmp(kept: list[Any]) -> None:
    """What people read: bytes of a device beside a bound that is reached, and what no epoch did in every row of one."""
    pieces = {str(number): Piece.from_json(found) for number, found in enumerate(kept)}
    whole = bench.describe(bench.HostMachine.here(), bench.PARTS["secmp"].report(pieces))
    alone = "\n".join(map(bench.rows_of, kept))
    for scheme in ("relay-coded", "relay-coded[tags=sealed]"):
        figure = f"digits: messages with covers over those along edges, {scheme}: 2.99 (bound: at most 3, reached)"
        after = "    every device sends 21 in a pass, and 2[0-9]{2},[0-9]{3} bytes in an epoch, seals included"
        assert re.search(f"^{re.escape(figure)}\n{after}$", whole, re.MULTILINE)
        assert re.search(f"^  {re.escape(figure)}\n  {after}$", alone, re.MULTILINE)
    assert "    headers of 35 and sealed fetches of 1168 bytes included\n" in whole
    for text in (whole, alone):
        timed = [row for row in text.splitlines() if "epoch" in row and " ms" in row]
        assert len(timed) == 3 * (1 + len(bench_secmp.PROTOCOLS))
        for row in timed:
            assert ("counted, not done: " in row) == ("plain PyG" not in row)
            assert ("counted, not done: seals of messages" in row) == ("relay-coded" in row)


def _without(
    dataset: str, preparation: Callable[[str], tuple[HiFGLSubject, ...]]
) -> Callable[[str], tuple[HiFGLSubject, ...]]:
    """Preparation that does not find a data set."""

    def found(name: str) -> tuple[HiFGLSubject, ...]:
        if name == dataset:
            raise DataNotFoundError(f"{dataset} is not there")
        return preparation(name)

    return found


def test_a_bench_that_was_cut_short_goes_on_and_a_whole_one_starts_again(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What was measured before the end is in the file and not measured again; after a whole bench everything is."""
    measured: list[int] = []
    genuine = bench_field._field

    def counted(modulus: int) -> Piece:
        measured.append(modulus)
        if len(measured) == 2:
            raise KeyboardInterrupt
        return genuine(modulus)

    monkeypatch.setattr(bench_field, "_field", counted)
    assert main(["field", "-q"]) == INTERRUPTED
    kept = (tmp_path / LEDGER).read_text(encoding="utf-8").splitlines()
    assert [json.loads(each)["run"]["piece"] for each in kept] == ["memory copy", "2^31-1"]
    capsys.readouterr()
    assert main(["field", "--json"]) == OK
    said = capsys.readouterr()
    assert "2 of 3 runs are done already" in said.err
    _check("field", json.loads(said.out))
    first = json.loads(said.out)["timings"][1]
    assert first == json.loads(kept[1])["found"]["timings"][0]
    assert measured == [*bench_field.MODULI, list(bench_field.MODULI)[1]]
    assert main(["field", "--json"]) == OK
    assert len(measured) == 5
    assert json.loads(capsys.readouterr().out)["timings"][1] != first
