"""The latent map is linear, learnt through sums alone, and of the scale that was asked for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from fgl_secure.coins import SimulationCoins
from fgl_secure.methods.fed2gnn.latent import MEAN_SQUARE, LatentMap, learn_latent
from fgl_secure.methods.fed2gnn.models import PerceptronModel
from fgl_secure.methods.fed2gnn.preset import LatentPreset
from fgl_secure.runtime import Channel, Phase, Recording
from fgl_secure.schemes import server_scheme
from fgl_secure.training.parties import hierarchy_of
from fgl_secure.training.server_sums import RECEIVED, CollectiveSums
from tests.methods.fed2gnn.small import channel_of, some_digits
from tests.sums import clear_sums

GRAPH = some_digits(200, 3)
PRESET = LatentPreset(width=8, epochs=3)


def learnt(preset: LatentPreset = PRESET, seed: int = 0, scheme: str | None = None) -> LatentMap:
    channel = channel_of(GRAPH)
    sums = CollectiveSums(server_scheme(scheme or "plaintext"), channel)
    return learn_latent(GRAPH, channel, preset, sums, seed=seed, device=torch.device("cpu"))


@pytest.mark.parametrize("epochs", [0, 3])
def test_mapped_features_have_the_scale_that_was_asked_for(epochs: int) -> None:
    """The root mean square over all nodes, whether the map is learnt or left as drawn."""
    found = learnt(replace(PRESET, epochs=epochs))
    mapped = found(GRAPH.features)
    assert mapped.shape == (200, 8)
    assert np.sqrt((mapped.astype(np.float64) ** 2).mean()) == pytest.approx(PRESET.scale, rel=1e-5)
    assert found.rounds == epochs + 1


def test_the_map_is_linear() -> None:
    """It changes places with sums: what an exchange of sums needs."""
    found, rows = learnt(), GRAPH.features
    np.testing.assert_allclose(found(rows[:10].sum(axis=0)[None])[0], found(rows[:10]).sum(axis=0), rtol=1e-4)


def test_learning_changes_the_map_and_seeds_repeat_it() -> None:
    """Equal seeds give equal bits, under masks too; another seed and no learning give other maps."""
    one = learnt().matrix
    assert np.array_equal(one, learnt().matrix)
    assert np.array_equal(one, learnt(scheme="pairwise-masking").matrix)
    assert not np.array_equal(one, learnt(seed=1).matrix)
    assert not np.allclose(one, learnt(replace(PRESET, epochs=0)).matrix)


def test_directions_that_tell_classes_gain() -> None:
    """After learning, classes lie further apart than in the drawn map, compared with the spread within them."""

    def apart(found: LatentMap) -> float:
        mapped = found(GRAPH.features).astype(np.float64)
        means = np.stack([mapped[GRAPH.labels == label].mean(axis=0) for label in range(GRAPH.num_classes)])
        within = ((mapped - means[GRAPH.labels]) ** 2).mean()
        return float(means.var(axis=0).mean() / within)

    assert apart(learnt(replace(PRESET, epochs=60))) > 1.2 * apart(learnt(replace(PRESET, epochs=0)))


@pytest.mark.parametrize("epochs", [0, 3])
def test_all_that_is_sent_down_is_counted_and_noted(epochs: int) -> None:
    """A perceptron a round, the last one, and the mean square: a client that has these has the map."""
    channel = Channel(hierarchy_of(GRAPH), SimulationCoins(0), Recording.everything())
    preset = replace(PRESET, epochs=epochs)
    found = learn_latent(GRAPH, channel, preset, clear_sums(channel), seed=0, device=torch.device("cpu"))
    features, classes = GRAPH.graph.num_features, GRAPH.num_classes
    parameters = sum(each.numel() for each in PerceptronModel((features, 8, classes), torch.Generator()).parameters())
    sent = sum(batch.bytes for batch in channel.transcript.messages if batch.phase is Phase.MODEL)
    assert sent == GRAPH.num_silos * ((epochs + 1) * parameters * 4 + 8)
    notes = {batch.name: batch.values for batch in channel.transcript.private}  # the last of each name
    assert notes[RECEIVED].shape == (GRAPH.num_silos, parameters)
    scale = preset.scale / np.sqrt(notes[MEAN_SQUARE][0, 0])
    drawn = notes[RECEIVED][0, : features * 8].reshape(features, 8)
    np.testing.assert_allclose(drawn * scale, found.matrix, rtol=1e-6)
