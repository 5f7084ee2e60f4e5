"""`python -m benchmarks`: how fast field arithmetic and coded computing are on this machine, and against what."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from itertools import count
from platform import node
from typing import Any

import numpy as np
import torch

from benchmarks import ckks as bench_ckks
from benchmarks import field as bench_field
from benchmarks import gradients as bench_gradients
from benchmarks import hop_adjacency as bench_hop_adjacency
from benchmarks import lcc as bench_lcc
from benchmarks import secagg as bench_secagg
from benchmarks import secmp as bench_secmp
from benchmarks.pieces import BenchPart, Piece
from benchmarks.timing import NOT_DONE, BenchReport, Timing, line, verdict
from fgl_secure.ledger import Run, RunLedger, Watch, complete_runs, provenance

PARTS: dict[str, BenchPart] = {
    "field": bench_field.PART,
    "lcc": bench_lcc.PART,
    "secmp": bench_secmp.PART,
    "gradients": bench_gradients.PART,
    "ckks": bench_ckks.PART,
    "hop-adjacency": bench_hop_adjacency.PART,
    "secagg": bench_secagg.PART,
}


@dataclass(frozen=True, slots=True)
class HostMachine:
    """What was measured on.

    Attributes:
        cores: processor cores this process may use.
        load: processes that wanted to run during the last minute, this one included.
        cuda: the GPU, or None.
        galois: its version, or None where it isn't installed.
    """

    cores: int
    load: float
    cuda: str | None
    galois: str | None

    @classmethod
    def here(cls) -> HostMachine:
        """This machine, now."""
        cuda = torch.cuda.get_device_name() if torch.cuda.is_available() else None
        return cls(len(os.sched_getaffinity(0)), os.getloadavg()[0], cuda, _installed_version("galois"))


def _installed_version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def bench(part: str, ledger: RunLedger | None = None, watch: Watch | None = None) -> tuple[HostMachine, BenchReport]:
    """Measures one part.

    Args:
        part: a name in `PARTS`.
        ledger: where finished pieces are kept. One that was cut short on this machine goes on there; where one is
            whole, the part is measured again beside it.
        watch: is told of each piece.
    """
    machine, ledger = HostMachine.here(), ledger or RunLedger()
    attempts = (_runs(part, machine, attempt) for attempt in count())
    runs = next(item for item in attempts if any(ledger.find(run.key) is None for run in item))
    entries = complete_runs(runs, ledger, watch)
    result = {name: Piece.from_json(entry.found) for name, entry in zip(PARTS[part].pieces(), entries, strict=True)}
    return machine, PARTS[part].report(result)


def _runs(part: str, machine: HostMachine, attempt: int) -> list[Run]:
    """The pieces of the measurement of that number."""
    here = {"cores": machine.cores, "host": node(), "cuda": machine.cuda, "galois": machine.galois}
    key = {"of": f"bench {part}", "attempt": attempt, **here, **provenance()}
    return [
        Run({**key, "piece": name}, f"{part}, {name}", (part, name), partial(_run_task, work))
        for name, work in PARTS[part].pieces().items()
    ]


def _run_task(work: Callable[[], Piece]) -> dict[str, Any]:
    return work().as_json()


def as_json(machine: HostMachine, report: BenchReport) -> Mapping[str, Any]:
    """The figures as JSON values; times are seconds, sizes bytes."""
    figures = [{**asdict(figure), "reached": figure.is_reached} for figure in report.figures]
    return {
        "machine": asdict(machine),
        "copy_bytes_per_second": report.copy_rate,
        "figures": figures,
        "timings": [asdict(timing) for timing in report.timings],
    }


def rows_of(result: object) -> str:
    """What a piece came to, a line each, for those who wait for the others."""
    piece = Piece.from_json(result)
    figures = (verdict(figure).replace("\n", "\n  ") for figure in piece.figures)
    return "\n".join(["measured", *map(_row_of, piece.timings), *(f"  {figure}" for figure in figures)])


def _row_of(timing: Timing) -> str:
    counted = f"; {NOT_DONE}: {timing.counted}" if timing.counted else ""
    return f"  {timing.name}: {1e3 * timing.median:.2f} ms{counted}"


def describe(machine: HostMachine, report: BenchReport) -> str:
    """The figures for people."""
    oracle = (
        f"galois {machine.galois}" if machine.galois else "galois is not installed: pip install 'fgl-secure[bench]'"
    )
    head = f"{machine.cores} cores, load {machine.load:.1f}, numpy {np.__version__}, {oracle}, "
    head += f"GPU: {machine.cuda or 'none, CUDA not measured'}"
    copy = f"memory copy: {report.copy_rate / 1e9:.1f} GB/s read and written (warm destination, median)"
    rows = [line(timing, report.copy_rate) for timing in report.timings]
    return "\n".join([head, copy, "", *rows, "", *(verdict(figure) for figure in report.figures)]).rstrip()
