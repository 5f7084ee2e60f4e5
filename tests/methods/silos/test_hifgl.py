"""HiFGL as programs of silos trains what HiFGL in one process trains."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from fgl_secure.coins import SimulationCoins, SystemCoins
from fgl_secure.errors import InputError, UnknownNameError
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.hifgl import training
from fgl_secure.methods.hifgl.program import HiFGL
from fgl_secure.methods.hifgl.training import train_hifgl
from fgl_secure.methods.silos.hifgl import HiFGLTask
from fgl_secure.methods.silos.relay import RelaySums
from fgl_secure.methods.silos.share import SiloShare
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.relay_coded import Profile, RelayCoded
from fgl_secure.protocols.scheme import NO_HELPERS, Scheme
from fgl_secure.runtime import Channel, Phase, Recording, Role
from fgl_secure.training.loop import TrainingResult
from fgl_secure.training.parties import hierarchy_of
from fgl_secure.training.presets import Federation, Preset
from tests.graphs import two_communities
from tests.methods.silos.runs import HIFGL, SESSION, hifgl_makes, together

CLOSE = 1e-6

IN_THE_CLEAR: dict[str, tuple[Preset, str, int]] = {
    "gcn": (HIFGL, "gcn", 1),
    "sage": (HIFGL, "sage", 1),
    "dropout": (replace(HIFGL, dropout=0.3), "gcn", 1),
    "three layers, large groups": (replace(HIFGL, layers=3), "gcn", 4),
    "sums of features kept": (replace(HIFGL, static_first_layer=True), "gcn", 1),
    "one model": (replace(HIFGL, federation=Federation.SHARED), "gcn", 1),
    "local models": (replace(HIFGL, federation=Federation.LOCAL), "gcn", 1),
    "last layer stays": (replace(HIFGL, federation=Federation.FEDPER, epochs=6), "gcn", 1),
    "stops early": (replace(HIFGL, patience=1, epochs=30), "gcn", 1),
    "published aggregation": (replace(HIFGL, published_aggregation=True), "gcn", 1),
}
OVER_RELAYS: dict[str, tuple[Preset, str, RelayCoded]] = {
    "gcn": (HIFGL, "gcn", RelayCoded(k_min=1)),
    "sage, small groups refused": (HIFGL, "sage", RelayCoded(k_min=4)),
    "T = 2": (replace(HIFGL, epochs=1), "gcn", RelayCoded(T=2, R=4)),
}


@pytest.fixture(scope="module")
def graph() -> FederatedGraph:
    return two_communities(devices=48, silos=3)


class _Runs:
    """Keeps the method that `train_hifgl` trains, to look at its models."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.made: list[HiFGL] = []

        def keep(*args: object, **options: object) -> HiFGL:
            self.made.append(HiFGL(*args, **options))  # type: ignore[arg-type]
            return self.made[-1]

        patch.setattr(training, "HiFGL", keep)

    def in_process(
        self, graph: FederatedGraph, preset: Preset, backbone: str, scheme: Scheme
    ) -> tuple[TrainingResult, list[np.ndarray]]:
        channel = Channel(hierarchy_of(graph, scheme.helpers), SimulationCoins(0))
        result = train_hifgl(graph, scheme, channel, preset, backbone=backbone)
        models = self.made[-1]._silos.models
        return result, [torch.cat([p.detach().reshape(-1) for p in model.parameters()]).numpy() for model in models]


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> _Runs:
    return _Runs(monkeypatch)


def check(found: dict[int, dict[str, np.ndarray]], expected: TrainingResult, models: list[np.ndarray]) -> None:
    assert len(found[0]["losses"]) == expected.rounds
    assert np.allclose(found[0]["losses"], expected.losses, atol=CLOSE, rtol=0)
    for silo, model in enumerate(models):
        assert np.allclose(found[silo]["theta"], model, atol=CLOSE, rtol=0)
    assert int(found[0]["selected round"]) == expected.selected_round
    assert float(found[0]["test"]) == expected.accuracy.test
    assert float(found[0]["validation"]) == expected.accuracy.validation


@pytest.mark.parametrize("name", IN_THE_CLEAR)
def test_training_in_the_clear_is_that_of_one_process(graph: FederatedGraph, runs: _Runs, name: str) -> None:
    """Losses, every silo's model, selected round and accuracies agree, though silos are put down after each turn."""
    preset, backbone, minimum = IN_THE_CLEAR[name]
    expected, models = runs.in_process(graph, preset, backbone, Plaintext(minimum_group=minimum))
    makes = hifgl_makes(graph, HiFGLTask(preset, backbone), Plaintext(), minimum=minimum)
    check(together(makes, graph, Plaintext(), put_down=name != "three layers, large groups"), expected, models)


def test_local_models_are_the_same_to_the_last_bit(graph: FederatedGraph, runs: _Runs) -> None:
    """Where nothing is averaged nothing is rounded: layers that are computed again give the very same gradients."""
    preset, backbone, _ = IN_THE_CLEAR["local models"]
    _, models = runs.in_process(graph, preset, backbone, Plaintext())
    found = together(hifgl_makes(graph, HiFGLTask(preset, backbone), Plaintext()), graph, Plaintext())
    assert all(np.array_equal(found[silo]["theta"], model) for silo, model in enumerate(models))


@pytest.mark.parametrize("name", OVER_RELAYS)
def test_training_over_relays_is_that_of_one_process(graph: FederatedGraph, runs: _Runs, name: str) -> None:
    """The same under the relay-coded scheme with relays as parties of their own, models averaged under masks."""
    preset, backbone, scheme = OVER_RELAYS[name]
    expected, models = runs.in_process(graph, preset, backbone, scheme)
    masks = PairwiseMasking()
    makes = hifgl_makes(graph, HiFGLTask(preset, backbone), masks, scheme)
    check(together(makes, graph, masks, put_down=name == "gcn"), expected, models)


def test_relays_leave_nothing_in_the_clear(graph: FederatedGraph) -> None:
    """In the clear silos send each other values; over relays they tell each other tags, and relays answer sums."""
    phases = {}
    for relays in (None, RelayCoded(k_min=1)):
        parties = hierarchy_of(graph, NO_HELPERS if relays is None else relays.helpers)
        channel = Channel(parties, SystemCoins(), Recording.everything())
        makes = hifgl_makes(graph, HiFGLTask(replace(HIFGL, epochs=1)), Plaintext(), relays)
        together(makes, graph, Plaintext(), channel)
        silos = channel.parties.ids(Role.SILO)
        between = [b for b in channel.transcript.messages if np.isin([b.senders[0], b.receivers[0]], silos).all()]
        phases[relays] = {batch.phase for batch in between}
    assert phases == {None: {Phase.WANTED, Phase.VALUES}, RelayCoded(k_min=1): {Phase.WANTED, Phase.TAGS}}


def test_presets_that_silos_cannot_follow_are_refused(graph: FederatedGraph) -> None:
    """A silo does not know the split of foreign nodes; and there is no such backbone."""
    with pytest.raises(InputError, match="split_restricted must be false"):
        hifgl_makes(graph, HiFGLTask(replace(HIFGL, split_restricted=True)), Plaintext())[0]()
    with pytest.raises(UnknownNameError, match="backbone"):
        HiFGLTask(HIFGL, "gat")


def test_profiles_that_silos_cannot_follow_are_refused(graph: FederatedGraph) -> None:
    """Silos send for their devices by name."""
    share = SiloShare.of(graph, 0)
    with pytest.raises(InputError, match="profile base"):
        RelaySums(share, RelayCoded(profile=Profile.ANON), SESSION, SystemCoins())
