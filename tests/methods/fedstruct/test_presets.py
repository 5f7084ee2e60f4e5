"""FedStruct's settings: those of the paper's Table 5, and what is the public code's alone."""

from dataclasses import fields, replace

import pytest

from fgl_secure.errors import InputError
from fgl_secure.methods.fedstruct.preset import (
    Averaging,
    FeatureModelKind,
    FedStructPreset,
    Stepping,
    Weighting,
    fedstruct_preset,
)
from fgl_secure.training.presets import Selection
from tests.error_codes import about


@pytest.mark.parametrize(
    ("dataset", "expected"),
    [
        ("Cora", (0.002, 5e-4, 40, 2, 10, (64,), (256,))),
        ("CiteSeer", (0.002, 5e-4, 60, 2, 20, (64,), (128, 64))),
        ("PubMed", (0.008, 1e-3, 125, 2, 20, (128,), (128,))),
        ("Chameleon", (0.003, 3e-4, 60, 1, 1, (64,), (256,))),
        ("Photo", (0.005, 1e-3, 150, 1, 3, (256,), (256,))),
    ],
)
def test_settings_are_those_of_table_5(dataset: str, expected: tuple[object, ...]) -> None:
    """Rates, decay, rounds, layers and widths are the printed ones, with d_s = 256 and p = 30, in both presets."""
    for chosen in (fedstruct_preset(name, dataset) for name in ("honest", "paper")):
        printed = (chosen.learning_rate, chosen.weight_decay, chosen.epochs, chosen.feature_hops, chosen.hops)
        assert (*printed, chosen.feature_hidden, chosen.structure_hidden) == expected
        assert (chosen.structure_rate, chosen.structure_width, chosen.kept) == (expected[0], 256, 30)


def test_presets_differ_in_named_switches_alone() -> None:
    """`paper` is the public code's way of weighing, losing, averaging and reporting; everything else is the same."""
    honest, paper = fedstruct_preset("honest", "Cora"), fedstruct_preset("paper", "Cora")
    differing = {each.name for each in fields(honest) if getattr(honest, each.name) != getattr(paper, each.name)}
    assert differing == {"name", "weighting", "double_softmax", "forgotten_loops", "averaging", "selection"}
    assert (honest.weighting, honest.averaging, honest.selection) == (
        Weighting.LABELLED, Averaging.POOLED, Selection.VALIDATION,
    )  # fmt: skip
    assert not honest.double_softmax
    assert not honest.forgotten_loops
    assert paper.selection is None
    assert paper.stepping is Stepping.ADAM
    assert paper.feature_model is FeatureModelKind.DGCN


def test_other_data_sets_take_coras_settings() -> None:
    """A graph that the authors did not use is trained like Cora."""
    assert fedstruct_preset("paper", "digits") == fedstruct_preset("paper", "Cora")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epochs": 0}, "epochs"),
        ({"hops": 0}, "hops"),
        ({"structure_width": 0}, "structure_width"),
        ({"kept": 0}, "kept"),
        ({"dropout": 1.0}, "dropout"),
        ({"feature_model": FeatureModelKind.SAGE, "sage_widths": ()}, "sage_widths"),
    ],
)
def test_settings_that_make_no_sense_are_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, check=about(message)):
        _changed(fedstruct_preset("honest", "Cora"), change)


def _changed(preset: FedStructPreset, change: dict[str, object]) -> FedStructPreset:
    return replace(preset, **change)  # type: ignore[arg-type]
