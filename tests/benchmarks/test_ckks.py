"""`python -m benchmarks ckks` on a small matrix: tests of what is printed, not of speed."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import ckks as bench_ckks
from benchmarks.timing import Report, Timing, verdict


@pytest.fixture
def report(monkeypatch: pytest.MonkeyPatch) -> Report:
    """A run over six rows of 300 columns and three terms."""
    for name, value in {"SHAPE": (6, 300), "TERMS": 3, "SAMPLED_ROWS": 2}.items():
        monkeypatch.setattr(bench_ckks, name, value)
    return bench_ckks.PART.run()


def test_all_four_ways_are_measured_with_bytes_and_memory(report: Report) -> None:
    """Each way to sum has a line that tells its bytes and the memory it took at most."""
    lines = [timing.name for timing in report.timings if timing.name.startswith("sum of 3 terms of 6 x 300")]
    ways = ("a sketch of", "dense, packed", "one TenSEAL vector a row, from 2 rows", "integers in the clear")
    for name, way in zip(lines, ways, strict=True):
        assert way in name
        assert "MB sent" in name
        assert name.endswith("MB held at most")
    assert len(report.timings) == 1 + 6 + len(ways)


def test_ratios_are_those_of_the_lines(report: Report) -> None:
    """The figures compare what was measured, and say that the rows were extrapolated."""
    by_name = {figure.name: figure for figure in report.figures}
    slow, ours = (_named(report, part) for part in ("one TenSEAL vector a row", "a sketch of"))
    assert by_name["sketch: time of one TenSEAL vector a row over ours"].value == slow.median / ours.median
    extrapolated = by_name["sketch: bytes of one TenSEAL vector a row over ours"]
    assert "reached)\n    extrapolated from 2 of 6 rows; keys included" in verdict(extrapolated)
    assert len(by_name) == 4


def test_bytes_of_rows_grow_with_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row has a ciphertext from each sender and one sum, and a context goes to each sender and the server."""
    monkeypatch.setattr(bench_ckks, "TERMS", 2)
    monkeypatch.setattr(bench_ckks, "SAMPLED_ROWS", 1)
    sent = []
    for rows in (1, 3):
        monkeypatch.setattr(bench_ckks, "SHAPE", (rows, 50))
        sent.append(bench_ckks._rows(bench_ckks._terms()).sent)
    assert sent[1] - sent[0] == pytest.approx(2 * 3 * 331_700, rel=0.02)


def test_memory_held_is_that_of_the_largest_moment() -> None:
    """What was freed again counts, and what follows doesn't add to it."""

    def work() -> None:
        for _ in range(3):
            np.ones(10**6)

    assert bench_ckks._peak(work) == pytest.approx(8e6, rel=0.1)


def _named(report: Report, part: str) -> Timing:
    return next(timing for timing in report.timings if part in timing.name and timing.name.startswith("sum of"))
