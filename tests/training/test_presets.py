"""Presets: what the authors did, and the honest twin."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fgl_secure.errors import InputError, UnknownNameError
from fgl_secure.training.presets import HONEST, Federation, Selection, preset
from tests.error_codes import about


def test_honest_preset_is_the_same_for_all_data() -> None:
    """The honest preset chooses on validation data, federates for real and lets every neighbour speak."""
    assert preset("honest", "Cora") is preset("honest", "anything") is HONEST
    assert (HONEST.selection, HONEST.federation) == (Selection.VALIDATION, Federation.FEDAVG)
    assert not HONEST.split_restricted
    assert not HONEST.published_layers
    assert (HONEST.hidden, HONEST.epochs, HONEST.learning_rate, HONEST.decay_every, HONEST.decay) == (
        64,
        50,
        0.01,
        4,
        0.9,
    )


@pytest.mark.parametrize(
    ("dataset", "rate", "decay_every", "dropout", "hidden"),
    [("Cora", 0.005, 4, 0.0, 64), ("CiteSeer", 0.01, 16, 0.1, 64), ("PubMed", 0.1, 8, 0.0, 128)],
)
def test_paper_preset_follows_the_public_code(
    dataset: str, rate: float, decay_every: int, dropout: float, hidden: int
) -> None:
    """The paper's preset has the settings of each data set and every oddity of the code."""
    published = preset("paper", dataset)
    assert (published.learning_rate, published.decay_every) == (rate, decay_every)
    assert (published.dropout, published.hidden) == (dropout, hidden)
    assert (published.selection, published.federation) == (Selection.TEST, Federation.SHARED)
    assert published.split_restricted
    assert published.published_layers
    assert (published.epochs, published.patience) == (1024, 16)


def test_paper_preset_takes_coras_settings_elsewhere() -> None:
    """On a data set that the authors did not use the settings of Cora apply."""
    assert preset("paper", "digits") == preset("paper", "Cora")


def test_unknown_presets_are_refused() -> None:
    """The message lists the presets that there are."""
    with pytest.raises(UnknownNameError, check=about("preset")):
        preset("best", "Cora")


def test_widths_follow_layers_and_hidden() -> None:
    """Two layers by default; one layer has no hidden width; more layers repeat it; none is refused."""
    assert HONEST.widths(1433, 7) == (1433, 64, 7)
    assert replace(HONEST, layers=1).widths(5, 2) == (5, 2)
    assert replace(HONEST, layers=4, hidden=3).widths(5, 2) == (5, 3, 3, 3, 2)
    with pytest.raises(InputError, check=about("layers")):
        replace(HONEST, layers=0)


def test_rounds_can_be_changed_and_nothing_else() -> None:
    """A number of rounds replaces the preset's, None keeps it, and less than one is refused."""
    assert HONEST.with_epochs(None) is HONEST
    assert HONEST.with_epochs(3).epochs == 3
    assert HONEST.with_epochs(3).with_epochs(50) == HONEST
    with pytest.raises(InputError, check=about("epochs")):
        HONEST.with_epochs(0)
