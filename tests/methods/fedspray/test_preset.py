"""FedSpray's presets: what they are, and what they refuse."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

from fgl_secure.errors import InputError, UnknownNameError
from fgl_secure.methods.fedspray.preset import HONEST, fedspray_preset
from tests.error_codes import about


def test_the_honest_preset_is_the_papers_text() -> None:
    """The numbers of section 5.1.3, with lambda_1 chosen on validation nodes, and no oddity of the code."""
    found = fedspray_preset("honest", "PubMed")
    assert (found.epochs, found.local_epochs, found.hidden, found.width) == (300, 5, 64, 64)
    assert (found.learning_rate, found.proxy_rate, found.teaching, found.learning) == (0.003, 0.02, 1.0, 1.0)
    assert found.share_grid == 1024
    assert found.confidence is None
    assert not any((found.classifier_projects, found.own_proxies, found.uniform_weights))


def test_the_paper_preset_differs_by_named_switches() -> None:
    """Whatever differs from the honest preset is one of the oddities that the documentation names."""
    honest, paper = fedspray_preset("honest", "Physics"), fedspray_preset("paper", "Physics")
    assert (honest.name, paper.name) == ("honest", "paper")
    differing = {each.name for each in fields(honest) if getattr(honest, each.name) != getattr(paper, each.name)}
    assert differing == {
        "name", "teaching", "confidence", "classifier_projects", "own_proxies", "uniform_weights", "share_grid"
    }  # fmt: skip
    assert (paper.epochs, paper.teaching, paper.confidence) == (300, 5.0, 0.7)
    assert paper.share_grid is None


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("epochs", 0), ("local_epochs", 0), ("hidden", 0), ("width", 0), ("patience", 0), ("learning_rate", 0.0),
        ("proxy_rate", np.nan), ("teaching", -1.0), ("learning", np.inf), ("confidence", 1.0), ("confidence", -0.1),
        ("share_grid", 0),
    ],
)  # fmt: skip
def test_numbers_out_of_range_are_refused(argument: str, value: float) -> None:
    """Every number is checked, and the message has its name and the value."""
    with pytest.raises(InputError, check=about(argument)):
        replace(HONEST, **{argument: value})  # type: ignore[arg-type]


def test_rounds_can_be_chosen_and_names_must_be_known() -> None:
    """A number of rounds replaces the preset's, None leaves it; there are two names."""
    assert HONEST.with_epochs(7).epochs == 7
    assert HONEST.with_epochs(None) is HONEST
    with pytest.raises(InputError, check=about("epochs")):
        HONEST.with_epochs(0)
    with pytest.raises(UnknownNameError, check=about("preset")):
        fedspray_preset("authors", "PubMed")
