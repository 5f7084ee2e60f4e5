"""The latent map is linear, learnt through sums alone, and of the scale that was asked for."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from fgl_secure.errors import InputError
from fgl_secure.methods.fed2gnn.preset import DecoderPreset, LatentPreset, fed2gnn_preset
from fgl_secure.methods.fed2gnn.program import learn_latent, project_features
from fgl_secure.protocols.topology import SERVER
from fgl_secure.runtime import Channel
from fgl_secure.schemes import server_scheme
from fgl_secure.training.collectives import Collectives
from fgl_secure.training.one_process import OneProcess
from fgl_secure.training.presets import Selection
from fgl_secure.training.program import Program
from fgl_secure.typing import Array
from tests.error_codes import about
from tests.methods.fed2gnn.small import channel_of, some_digits

GRAPH = some_digits(200, 3)
PRESET = LatentPreset(width=8, epochs=3)


class Learning(Program):
    """Learns the map."""

    def __init__(self, comm: Collectives, preset: LatentPreset, seed: int) -> None:
        super().__init__(comm)
        self._preset, self._seed = preset, seed

    def round(self, number: int) -> bool:  # noqa: ARG002  # there is one
        self.kept["map"] = learn_latent(self.comm, self._preset, seed=self._seed, device=torch.device("cpu"))
        return False

    @property
    def report(self) -> dict[str, Array]:
        return self.kept


def learnt(
    preset: LatentPreset = PRESET, seed: int = 0, scheme: str | None = None, channel: Channel | None = None
) -> np.ndarray:
    schemes = {SERVER: server_scheme(scheme or "plaintext")}
    process = OneProcess(GRAPH, schemes, channel or channel_of(GRAPH), lambda comm: Learning(comm, preset, seed))
    process.round(0)
    first, *others = (program.kept["map"] for program in process.programs)
    assert all(np.array_equal(first, other) for other in others)
    return first


@pytest.mark.parametrize("epochs", [0, 3])
def test_mapped_features_have_the_scale_that_was_asked_for(epochs: int) -> None:
    """The root mean square over all nodes, whether the map is learnt or left as drawn."""
    found = project_features(GRAPH.features, learnt(replace(PRESET, epochs=epochs)))
    assert found.shape == (200, 8)
    assert np.sqrt((found.astype(np.float64) ** 2).mean()) == pytest.approx(PRESET.scale, rel=1e-5)


def test_learning_changes_the_map_and_seeds_repeat_it() -> None:
    """Equal seeds give equal bits, under masks too; another seed and no learning give other maps."""
    one = learnt()
    assert np.array_equal(one, learnt())
    assert np.array_equal(one, learnt(scheme="pairwise-masking"))
    assert not np.array_equal(one, learnt(seed=1))
    assert not np.allclose(one, learnt(replace(PRESET, epochs=0)))


@pytest.mark.parametrize(
    ("dataset", "backbone", "rate", "dropout", "decay", "hidden", "pool", "blocks", "decoder_epochs"),
    [
        ("Cora", "gcn", 0.01, 0.5, 1e-3, 16, 3, 4, 200),
        ("CS", "gcn", 0.1, 0.0, 1e-3, 16, 3, 4, 200),
        ("DBLP", "gcn", 0.01, 0.75, 1e-4, 32, 2, 5, 200),
        ("Cora", "sage", 0.01, 0.5, 1e-3, 16, 3, 5, 50),
        ("CS", "sage", 0.01, 0.0, 1e-3, 16, 3, 5, 20),
        ("DBLP", "sage", 0.01, 0.75, 1e-4, 32, 3, 5, 100),
    ],
)
def test_settings_are_those_of_table_6(
    dataset: str,
    backbone: str,
    rate: float,
    dropout: float,
    decay: float,
    hidden: int,
    pool: int,
    blocks: int,
    decoder_epochs: int,
) -> None:
    found = fed2gnn_preset("paper", dataset, backbone)
    assert (found.learning_rate, found.dropout, found.weight_decay, found.hidden) == (rate, dropout, decay, hidden)
    assert (found.decoder.pool, found.decoder.blocks, found.decoder.epochs) == (pool, blocks, decoder_epochs)
    assert (found.epochs, found.neighbours, found.hops) == (200, 10, 2)
    assert (found.decoder.separator_rate, found.decoder.predictor_rate) == (1e-3, 1e-2)


@pytest.mark.parametrize("backbone", ["gcn", "sage", "dagnn"])
def test_the_presets_differ_in_what_chooses_the_round_alone(backbone: str) -> None:
    """The paper's is chosen on test nodes, the honest one on validation nodes."""
    paper, honest = (fed2gnn_preset(name, "Cora", backbone) for name in ("paper", "honest"))
    assert paper.selection is Selection.TEST
    assert replace(honest, name="paper", selection=Selection.TEST) == paper
    assert honest.selection is Selection.VALIDATION


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pool": 1}, "pool"),
        ({"blocks": 0}, "blocks"),
        ({"batch": 0}, "batch"),
        ({"coordinates": 0}, "coordinates"),
        ({"epochs": -1}, "epochs"),
    ],
)
def test_decoders_out_of_range_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, check=about(message)):
        replace(DecoderPreset(), **change)
