"""`fgl-secure bench`: how fast field arithmetic and coded computing are on this machine, and against what."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
import torch

from fgl_secure.cli.bench import ckks as bench_ckks
from fgl_secure.cli.bench import field as bench_field
from fgl_secure.cli.bench import gradients as bench_gradients
from fgl_secure.cli.bench import hop_adjacency as bench_hop_adjacency
from fgl_secure.cli.bench import lcc as bench_lcc
from fgl_secure.cli.bench import secagg as bench_secagg
from fgl_secure.cli.bench import secmp as bench_secmp
from fgl_secure.cli.bench.timing import Report, line, verdict

PARTS: dict[str, Callable[[], Report]] = {
    "field": bench_field.run,
    "lcc": bench_lcc.run,
    "secmp": bench_secmp.run,
    "gradients": bench_gradients.run,
    "ckks": bench_ckks.run,
    "hop-adjacency": bench_hop_adjacency.run,
    "secagg": bench_secagg.run,
}


@dataclass(frozen=True, slots=True)
class Machine:
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
    def here(cls) -> Machine:
        """This machine, now."""
        cuda = torch.cuda.get_device_name() if torch.cuda.is_available() else None
        return cls(len(os.sched_getaffinity(0)), os.getloadavg()[0], cuda, _installed("galois"))


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def bench(part: str) -> tuple[Machine, Report]:
    """Measures one part.

    Args:
        part: a name in `PARTS`.
    """
    machine = Machine.here()
    return machine, PARTS[part]()


def as_json(machine: Machine, report: Report) -> Mapping[str, Any]:
    """The figures as JSON values; times are seconds, sizes bytes."""
    figures = [{**asdict(figure), "reached": figure.reached} for figure in report.figures]
    return {
        "machine": asdict(machine),
        "copy_bytes_per_second": report.copy_rate,
        "figures": figures,
        "timings": [asdict(timing) for timing in report.timings],
    }


def describe(machine: Machine, report: Report) -> str:
    """The figures for people."""
    oracle = (
        f"galois {machine.galois}" if machine.galois else "galois is not installed: pip install 'fgl-secure[bench]'"
    )
    head = f"{machine.cores} cores, load {machine.load:.1f}, numpy {np.__version__}, {oracle}, "
    head += f"GPU: {machine.cuda or 'none, CUDA not measured'}"
    copy = f"memory copy: {report.copy_rate / 1e9:.1f} GB/s read and written (fresh destination, median)"
    rows = [line(timing, report.copy_rate) for timing in report.timings]
    return "\n".join([head, copy, "", *rows, "", *(verdict(figure) for figure in report.figures)]).rstrip()
