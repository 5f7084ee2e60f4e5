"""Each method computes on a CUDA device where there is one, near to what a CPU computes, and the same in equal runs."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fgl_secure import methods, train
from fgl_secure.coins import SimulationCoins
from fgl_secure.methods import FedAvg, FedSpray, HiFGL
from fgl_secure.methods.comparison import source_of
from fgl_secure.training.loop import TrainingResult

METHODS = tuple(map(methods.method, methods.names()))
CUDA = pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"))


def data_of(method: str) -> str:
    """An embedded data set for a method."""
    return "Motif-mini" if method == "fedvn" else "digits"


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Kinds of devices of the losses that gradients are taken of, in whatever thread."""
    kinds: set[str] = set()

    def noting(work: Callable[..., Any]) -> Callable[..., Any]:
        def noted(outputs: torch.Tensor | Sequence[torch.Tensor], *rest: Any, **more: Any) -> Any:
            kinds.update(each.device.type for each in ([outputs] if isinstance(outputs, torch.Tensor) else outputs))
            return work(outputs, *rest, **more)

        return noted

    for name in ("grad", "backward"):
        monkeypatch.setattr(torch.autograd, name, noting(getattr(torch.autograd, name)))
    return kinds


@pytest.fixture(autouse=True)
def _few(few_digits: None) -> None:
    """Some of the digits."""


def trained(method: Any, device: str) -> TrainingResult:
    """Two rounds with all coins repeated."""
    return train(method(epochs=2), source_of(data_of(method.name)), device=device, coins=SimulationCoins(7)).result


@contextmanager
def two_threads() -> Iterator[None]:
    """PyTorch takes two, and compiled loops too as far as this process may."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("method", "device"),
    [(each, "cpu") for each in (FedAvg, FedSpray, HiFGL)]
    + [pytest.param(each, *CUDA.values, marks=CUDA.marks) for each in METHODS],
)
def test_equal_runs_end_equal(method: Any, device: str) -> None:
    """To the last bit, also with two threads: nothing is added up in an order of the hour."""
    check_equal_runs(method, device)


def check_equal_runs(method: Any, device: str) -> None:
    """Two of them have the same losses and reports."""
    with two_threads():
        first, second = trained(method, device), trained(method, device)
    assert first.losses == second.losses
    assert first.report.keys() == second.report.keys()
    assert all(np.array_equal(first.report[name], second.report[name], equal_nan=True) for name in first.report)


ROOT = Path(__file__).parents[2]
TWICE = """
import hashlib, sys
import torch
from fgl_secure import train
from fgl_secure.coins import SimulationCoins
from fgl_secure.methods import FedStruct, HiFGL
from fgl_secure.graph import datasets
from fgl_secure.threads import most
from tests.graphs import first_digits
datasets.load_digits_graph = lambda: first_digits(400)
for _ in range(2):
    result = train(HiFGL(epochs=1), device="cpu", coins=SimulationCoins(7)).result
    end = repr(result.losses).encode() + result.report["theta"].tobytes()
    print(torch.get_num_threads(), most(), hashlib.sha256(end).hexdigest())
train(FedStruct(epochs=1), device="cpu")
print("torch._dynamo" in sys.modules)
"""


def test_equal_runs_end_equal_where_compiled_loops_share_the_work() -> None:
    """Masks, shares and sums of secured training take two threads in a process that may have them.

    And such a process has no TorchDynamo, which takes longer to load than the first epoch.
    """
    settings = {**os.environ, "OMP_NUM_THREADS": "2", "NUMBA_NUM_THREADS": "2"}
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", TWICE], env=settings, cwd=ROOT, capture_output=True, check=True
    )
    first, second, compiler = run.stdout.decode().splitlines()
    assert first.startswith("2 2 ")
    assert first == second
    assert compiler == "False"


@pytest.mark.parametrize("device", [CUDA])
@pytest.mark.parametrize("method", METHODS)
def test_a_device_computes_what_a_cpu_does(method: Any, device: str) -> None:
    """Losses before anything has been learnt agree; after it, rounding goes its own way."""
    assert trained(method, device).losses[0] == pytest.approx(trained(method, "cpu").losses[0], rel=1e-3)


@pytest.mark.parametrize("device", [CUDA])
@pytest.mark.parametrize("method", METHODS)
def test_a_method_trains_there(method: Any, device: str, seen: set[str]) -> None:
    result = train(method(epochs=1), source_of(data_of(method.name)), device=device)
    assert result.accuracy.test is not None
    assert seen == {device}
