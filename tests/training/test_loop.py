"""The training loop: which round is reported, when it stops, and where it computes."""

import gc
import subprocess
import sys
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import DeviceUnavailableError, InputError, UnknownNameError
from fgl_secure.methods.hifgl.program import silos_of
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.runtime import Channel, Directory
from fgl_secure.training.loop import TrainingResult, compute_device
from fgl_secure.training.one_process import OneProcess
from fgl_secure.training.optimisers import SGD, Adam
from fgl_secure.training.parties import hierarchy_of
from fgl_secure.training.presets import HONEST, Preset, Selection
from tests.error_codes import about
from tests.graphs import two_communities

GRAPH = two_communities()
QUICK = replace(HONEST, hidden=4, epochs=8)
NEVER_BETTER = replace(QUICK, learning_rate=1e-30)


def train(preset: Preset) -> TrainingResult:
    return silos_of(GRAPH, Plaintext(), preset).train(Channel(hierarchy_of(GRAPH), SimulationCoins(0)))


@pytest.mark.parametrize("patience", [1, 3])
def test_training_stops_when_nothing_improves(patience: int) -> None:
    """Of models that are equal the first that was trained is reported, and `patience` rounds later training stops."""
    result = train(replace(NEVER_BETTER, patience=patience))
    assert (result.selected_round, result.rounds) == (1, patience + 2)
    assert len(result.losses) == result.rounds


def test_without_patience_all_rounds_run() -> None:
    """None never stops early."""
    result = train(NEVER_BETTER)
    assert (result.selected_round, result.rounds) == (1, QUICK.epochs)


@pytest.mark.parametrize("large", [True, False])
def test_what_large_graphs_trained_with_is_let_go(large: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """At once and not when Python next looks for circles; small ones are not worth the looking."""
    monkeypatch.setattr("fgl_secure.training.job.LARGE", 0 if large else GRAPH.features.nbytes + 1)
    monkeypatch.setattr("fgl_secure.host.LARGE", 0)
    job = silos_of(GRAPH, Plaintext(), QUICK)
    opened: list[weakref.ref[OneProcess]] = []

    class Noted(OneProcess):
        def __init__(self, *given: Any, **others: Any) -> None:
            super().__init__(*given, **others)
            opened.append(weakref.ref(self))

    gc.collect()
    gc.disable()
    try:
        replace(job, driver=Noted).train()
        assert [each() is None for each in opened] == [large]
    finally:
        gc.enable()


def measured(share: float | None) -> float:
    """A share that was measured."""
    assert share is not None
    return share


def test_selection_decides_which_round_is_reported() -> None:
    """Selection on test data reports at least the test accuracy of selection on validation data, and vice versa."""
    on_validation = train(QUICK).accuracy
    on_test = train(replace(QUICK, selection=Selection.TEST)).accuracy
    assert measured(on_test.test) >= measured(on_validation.test)
    assert measured(on_validation.validation) >= measured(on_test.validation)


def test_accuracies_of_silos_average_to_that_of_all() -> None:
    """Weighted by test devices the accuracies of the silos give the pooled one."""
    accuracy = train(QUICK).accuracy
    sizes = [int(GRAPH.test_mask[GRAPH.devices_of(silo)].sum()) for silo in range(GRAPH.num_silos)]
    assert all(sizes)
    pooled = sum(size * (share or 0.0) for size, share in zip(sizes, accuracy.per_silo, strict=True)) / sum(sizes)
    assert pooled == pytest.approx(accuracy.test)


def test_training_learns_the_communities() -> None:
    """The small example is learnt: the loss falls and test accuracy is above .8."""
    result = train(replace(QUICK, epochs=30, hidden=16))
    assert result.losses[-1] < 0.5 * result.losses[0]
    assert measured(result.accuracy.test) > 0.8


def test_progress_is_told_after_every_round() -> None:
    """The callback hears rounds done and rounds at most."""
    heard: list[tuple[int, int]] = []
    channel = Channel(hierarchy_of(GRAPH), SimulationCoins(0))
    silos_of(GRAPH, Plaintext(), QUICK.with_epochs(3)).train(channel, lambda *now: heard.append(now))
    assert heard == [(1, 3), (2, 3), (3, 3)]


def test_cuda_that_is_absent_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asking for CUDA where there is none raises; auto falls back to the CPU and says so by its device."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(DeviceUnavailableError):
        compute_device("cuda")
    assert compute_device("auto") == compute_device("cpu") == torch.device("cpu")


def test_cuda_that_is_present_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a CUDA device auto and cuda take it, cpu does not."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert compute_device("auto").type == compute_device("cuda").type == "cuda"
    assert compute_device("cpu").type == "cpu"


def test_unknown_devices_are_refused() -> None:
    with pytest.raises(UnknownNameError, check=about("device")):
        compute_device("tpu")


@pytest.mark.parametrize("silos", [1, 3])
def test_a_channel_for_other_parties_is_refused(silos: int) -> None:
    """The channel must be between the parties of the graph, not only as many."""
    others = Directory.hierarchy(silos, GRAPH.num_devices + GRAPH.num_silos - silos)
    with pytest.raises(InputError):
        silos_of(GRAPH, Plaintext(), QUICK.with_epochs(1)).train(Channel(others, SimulationCoins(0)))


SETTINGS: tuple[dict[str, Any], ...] = ({}, {"weight_decay": 0.1}, {"foreach": True}, {"fused": True})


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize(("ours", "theirs"), [(Adam, torch.optim.Adam), (SGD, torch.optim.SGD)])
def test_steps_are_pytorch_s_to_the_bit(
    ours: type[torch.optim.Optimizer], theirs: type[torch.optim.Optimizer], settings: dict[str, Any]
) -> None:
    """Through losses, and through a state that goes to another optimiser half-way; no step keeps a graph."""
    ends = []
    for kind in (ours, theirs):
        weights = torch.nn.Parameter(torch.arange(5.0))
        first, second = (kind([weights], lr=0.1, **settings) for _ in range(2))  # type: ignore[call-arg]
        for optimiser in (first, second):
            if optimiser is second:
                second.load_state_dict(first.state_dict())
            for turn in range(3):
                optimiser.zero_grad()
                assert weights.grad is None
                (weights * turn).sin().sum().backward()  # type: ignore[no-untyped-call]
                optimiser.step()
        assert weights.is_leaf
        ends.append(weights.detach())
    assert torch.equal(*ends)
    assert not torch.equal(ends[0], torch.arange(5.0))


def test_training_loads_no_compiler() -> None:
    """A process that trains has no TorchDynamo, which takes longer to load than the first epoch."""
    code = (
        "import sys; from fgl_secure.cli.main import main; from fgl_secure.graph import datasets\n"
        "from tests.graphs import first_digits\n"
        "datasets.load_digits_graph = lambda: first_digits(300)\n"
        "for method in ('hifgl', 'fedgcn', 'fedstruct', 'fedspray'):\n"
        "    assert main(['train', method, '--epochs', '1', '-q']) == 0\n"
        "assert 'torch._dynamo' not in sys.modules\n"
    )
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
