"""Presets are the paper's Table 6, and refuse what makes no sense."""

from dataclasses import replace
from typing import Any

import pytest

from fgl_secure.errors import InputError
from fgl_secure.methods.fed2gnn.preset import DecoderPreset, fed2gnn_preset
from fgl_secure.training.presets import Selection
from tests.error_codes import about


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
    """Every printed number, and those that are printed once for all."""
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


def test_other_data_sets_take_coras_settings_and_table_2_has_five_layers() -> None:
    """Settings fall back on Cora's of the backbone."""
    assert fed2gnn_preset("honest", "digits", "sage") == fed2gnn_preset("honest", "Cora", "sage")
    assert fed2gnn_preset("honest", "CS", "dagnn").hops == 5


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
