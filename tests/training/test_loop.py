"""The training loop: which round is reported, when it stops, and where it computes."""

import gc
import weakref
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import DeviceUnavailableError, InputError, UnknownNameError
from fgl_secure.methods.hifgl.program import silos_of
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.runtime import Channel, Directory
from fgl_secure.training.loop import Scores, TrainingResult, compute_device
from fgl_secure.training.one_process import OneProcess
from fgl_secure.training.parameters import SGD, Adam
from fgl_secure.training.parties import hierarchy_of
from fgl_secure.training.presets import HONEST, Preset, Selection
from tests.error_codes import about
from tests.graphs import two_communities

GRAPH = two_communities()
QUICK = replace(HONEST, hidden=4, epochs=8)
NEVER_BETTER = replace(QUICK, learning_rate=1e-30)


def train(preset: Preset) -> TrainingResult:
    return silos_of(GRAPH, Plaintext(), preset).train(Channel(hierarchy_of(GRAPH), SimulationCoins(0)))


@pytest.mark.parametrize(("patience", "rounds"), [(1, 3), (3, 5), (None, QUICK.epochs)])
def test_training_stops_when_nothing_improves(patience: int | None, rounds: int) -> None:
    """Of models that are equal the first that was trained is reported; without patience all rounds run."""
    result = train(replace(NEVER_BETTER, patience=patience))
    assert (result.selected_round, result.rounds) == (1, rounds)
    assert len(result.losses) == result.rounds


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
    on_validation = train(QUICK).accuracy
    on_test = train(replace(QUICK, selection=Selection.TEST)).accuracy
    assert measured(on_test.test) >= measured(on_validation.test)
    assert measured(on_validation.validation) >= measured(on_test.validation)


def test_progress_is_told_after_every_round() -> None:
    heard: list[tuple[int, int]] = []
    channel = Channel(hierarchy_of(GRAPH), SimulationCoins(0))
    silos_of(GRAPH, Plaintext(), QUICK.with_epochs(3)).train(channel, lambda *now: heard.append(now))
    assert heard == [(1, 3), (2, 3), (3, 3)]


@pytest.mark.parametrize("there", [True, False])
def test_devices_are_those_that_there_are(there: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """`auto` takes CUDA where there is one; CUDA that is absent is refused, and so is a device of another name."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: there)
    assert compute_device("auto").type == ("cuda" if there else "cpu")
    assert compute_device("cpu").type == "cpu"
    with pytest.raises(UnknownNameError, check=about("device")):
        compute_device("tpu")
    if not there:
        with pytest.raises(DeviceUnavailableError):
            compute_device("cuda")


@pytest.mark.parametrize("silos", [1, 3])
def test_a_channel_for_other_parties_is_refused(silos: int) -> None:
    others = Directory.hierarchy(silos, GRAPH.num_devices + GRAPH.num_silos - silos)
    with pytest.raises(InputError):
        silos_of(GRAPH, Plaintext(), QUICK.with_epochs(1)).train(Channel(others, SimulationCoins(0)))


SETTINGS: tuple[dict[str, Any], ...] = ({"weight_decay": 0.1}, {"fused": True})


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


ROUNDS = ([6, 10, 3, 4], [4, 10, 4, 4], [6, 10, 1, 4], [4, 10, 0, 4])


@pytest.mark.parametrize(
    ("selection", "less", "best"),
    [
        (Selection.VALIDATION, False, 2),
        (Selection.TEST, False, 1),
        (Selection.VALIDATION, True, 1),
        (Selection.TEST, True, 3),
        (None, False, 3),
    ],
)
def test_the_best_round_is_kept(selection: Selection | None, less: bool, best: int) -> None:
    """The most of right predictions, the least of errors; of equal ones the first that was trained; else the last."""
    scores = Scores(selection, less=less)
    for number, counts in enumerate(ROUNDS):
        scores.see(number, np.array(counts))
    assert scores.report["selected round"] == best
    assert scores.report["test"] == ROUNDS[best][2] / 4
    again = Scores(selection, less=less)
    again.restore(scores.state())
    assert again.report == scores.report
