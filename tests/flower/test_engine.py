"""The same code in Flower's simulation engine."""

import json
import sys
from typing import Any

import numpy as np
import pytest
import torch

from fgl_secure.flower import SecureAggregationMod
from tests.flower.processes import ROOT, run
from tests.flower.test_recorded_run import app_with, runs_of

CUDA = pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"))


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What runs in Flower's simulation engine print, one after the other in one process."""
    pytest.importorskip("ray", reason="ray is not installed: it comes with fgl-secure[flower]")
    home = tmp_path_factory.mktemp("flower")
    return run([sys.executable, "-W", "ignore", "-m", "tests.flower.engine"], ROOT, home).stdout


def figures(printed: str, name: str) -> dict[str, list[object]]:
    """The line of figures that begins with a name."""
    found = next((json.loads(line) for line in printed.splitlines() if line.startswith(f'{{"{name}"')), None)
    assert found is not None, printed
    return dict(found)


def test_simulation_engine_gives_the_weighted_mean(simulated: str) -> None:
    """Mod and strategy run unchanged in the simulation engine, where actors keep contexts between messages."""
    found = figures(simulated, "model")
    assert found["included"] == [4, 4]
    np.testing.assert_allclose(np.array(found["model"], dtype=float), [2.0, 2.0, 2.0], atol=1e-6)


@pytest.mark.parametrize("device", ["cpu", CUDA])
def test_the_simulation_engine_trains_what_one_process_trains(simulated: str, device: str) -> None:
    """With sums under masks, and relays as SuperNodes: losses, round and accuracies are those of one process."""
    found = figures(simulated, device)[device]
    assert isinstance(found, dict)
    assert found["found"] == found["expected"]


def test_processes_record_what_one_process_records(simulated: str) -> None:
    """Kinds, rounds, senders and receivers of all messages, but for the question after the run's configuration."""
    found: dict[str, Any] = figures(simulated, "recorded")
    runs = runs_of(app_with(SecureAggregationMod()), rounds=2)
    expected = [
        [batch.phase.label, batch.step.round, int(batch.senders[0]), int(batch.receivers[0])]
        for batch in runs.run().messages
    ]
    assert found["incidents"] == 0
    assert found["recorded"][-len(expected) :] == expected
    assert {kind for kind, *_ in found["recorded"][: -len(expected)]} == {"training records"}
