"""How a method is trained: as its authors did, oddities included, or honestly."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from math import isfinite
from typing import Any, Self

from fgl_secure.errors import InputError, UnknownNameError
from fgl_secure.graph import FederatedGraph


class Selection(StrEnum):
    """Which accuracy decides the round that is reported.

    Examples:
        >>> str(Selection.VALIDATION)
        'validation'
    """

    VALIDATION = "validation"
    TEST = "test"


class Federation(StrEnum):
    """How the silos' models become one."""

    FEDAVG = "fedavg"
    """Each silo takes a step with its own optimiser, the server averages the models (HiFGL 4.3)."""
    SHARED = "shared"
    """One model and one optimiser for all silos, as in the public code."""


def check_fields(
    preset: object,
    *,
    counts: Iterable[str] = (),
    positive: Iterable[str] = (),
    nonnegative: Iterable[str] = (),
    shares: Iterable[str] = (),
) -> None:
    """Check fields of a preset; a field that is None is not checked.

    Args:
        preset: whose.
        counts: names of numbers that are at least 1.
        positive: of finite numbers above 0.
        nonnegative: of finite numbers of 0 or more.
        shares: of numbers in [0, 1).

    Raises:
        InputError: a field is out of its range.
    """
    rules: tuple[tuple[Iterable[str], str, Callable[[float], bool]], ...] = (
        (counts, "at least 1", lambda value: value >= 1),
        (positive, "positive", lambda value: isfinite(value) and value > 0),
        (nonnegative, "0 or more", lambda value: isfinite(value) and value >= 0),
        (shares, "in [0, 1)", lambda value: 0 <= value < 1),
    )
    for names, rule, holds in rules:
        for name in names:
            value = getattr(preset, name)
            if value is not None and not holds(value):
                raise InputError(f"{name} must be {rule}; found {value}")


@dataclass(frozen=True, slots=True)
class Schedule:
    """What the preset of every method has.

    Attributes:
        name: "honest" or "paper".
        epochs: most rounds.
    """

    name: str
    epochs: int = 50

    def with_epochs(self, epochs: int | None) -> Self:
        """The same preset with another number of rounds; None changes nothing."""
        return self.with_given(epochs=epochs)

    def with_given(self, **choices: Any) -> Self:
        """The same preset with other values of some fields; None changes nothing.

        Raises:
            InputError: a value is out of its field's range.
        """
        overrides = {name: value for name, value in choices.items() if value is not None}
        return replace(self, **overrides) if overrides else self


@dataclass(frozen=True, slots=True)
class Preset(Schedule):
    """Everything about training that is not the graph, the backbone or the scheme; a round is a step of every silo.

    Attributes:
        hidden: width of the hidden layers.
        learning_rate: of Adam, without weight decay.
        decay_every: rounds after which the rate is multiplied by `decay`.
        decay: factor of the learning rate.
        dropout: probability of dropping a hidden unit.
        patience: rounds without improvement after which training stops; None never stops early.
        selection: which accuracy picks the reported round.
        federation: how the silos' models become one.
        split_restricted: whether only devices of the same split exchange messages.
        mean_over_devices: whether a silo's gradient is the mean over all its devices (4.3), of which those without a
            training label count as zeros; otherwise the mean is over its training devices.
        layers_of: "literature", "paper" (Eqs. 2 and 3) or "public-code": whose layers a backbone has.
        static_first_layer: whether devices sum their neighbours' features once and for all, and project the sum with
            each round's weights, instead of summing projected features anew in every round.
        layers: number of layers, at least 1; all but the last are followed by ReLU.
    """

    hidden: int = 64
    learning_rate: float = 0.01
    decay_every: int = 4
    decay: float = 0.9
    dropout: float = 0.0
    patience: int | None = None
    selection: Selection = Selection.VALIDATION
    federation: Federation = Federation.FEDAVG
    split_restricted: bool = False
    mean_over_devices: bool = False
    layers_of: str = "literature"
    static_first_layer: bool = False
    layers: int = 2

    def __post_init__(self) -> None:
        check_fields(self, counts=("epochs", "layers"))

    def widths(self, features: int, classes: int) -> tuple[int, ...]:
        """Width of the input and of every layer's output, layers + 1 numbers."""
        return (features, *(self.hidden,) * (self.layers - 1), classes)


HONEST = Preset("honest")
"""The set-up of the paper's section 6.1 (rate .01 times .9 every 4 epochs, 50 epochs, hidden 64), federated for real,
chosen on validation data, with every neighbour's message."""

_PAPER = Preset("paper", mean_over_devices=True, layers_of="paper")
"""What the paper's text says (sections 4.3 and 6.1, Eqs. 2 and 3). It does not say which round it reports; here it is
the best on validation data."""

_PUBLIC_CODE = Preset(
    "public-code",
    epochs=1024,
    patience=16,
    selection=Selection.TEST,
    federation=Federation.SHARED,
    split_restricted=True,
    layers_of="public-code",
)
"""What the public code does at cefcdca: one shared model, messages within a split only, stopping on test accuracy."""

_PUBLIC_CODE_SETTINGS = {
    "Cora": replace(_PUBLIC_CODE, learning_rate=0.005, decay_every=4),
    "CiteSeer": replace(_PUBLIC_CODE, learning_rate=0.01, decay_every=16, dropout=0.1),
    "PubMed": replace(_PUBLIC_CODE, learning_rate=0.1, decay_every=8, hidden=128),
}

PRESETS = ("honest", "paper")
HIFGL_PRESETS = (*PRESETS, _PUBLIC_CODE.name)


def preset(name: str, dataset: str) -> Preset:
    """Return HiFGL's preset of a name for a data set.

    `public-code` takes Cora's settings on a data set that the authors did not use.

    Raises:
        UnknownNameError: there is no such preset.
    """
    if name not in HIFGL_PRESETS:
        raise UnknownNameError("preset", name, HIFGL_PRESETS)
    if name == _PUBLIC_CODE.name:
        return _PUBLIC_CODE_SETTINGS.get(dataset, _PUBLIC_CODE_SETTINGS["Cora"])
    return HONEST if name == "honest" else _PAPER


LAST_ROUND = "the last round"
"""How the reported round is chosen if there is nothing to choose it on."""


def choice_of_round(selection: Selection | None, graph: FederatedGraph, by: str = "accuracy") -> str:
    """Say how the reported round is chosen: the last one if there are no nodes to choose it on.

    Args:
        selection: what the preset chooses the round on; None for the last one.
        graph: its masks.
        by: what is compared on these nodes.
    """
    if selection is None:
        return LAST_ROUND
    mask = {Selection.VALIDATION: graph.validation_mask, Selection.TEST: graph.test_mask}[selection]
    return f"chosen on {selection} {by}" if mask.any() else f"no {selection} nodes: {LAST_ROUND}"


@dataclass(frozen=True, slots=True)
class AveragedPreset(Schedule):
    """How a model is trained by federated averaging of what clients learn on their own graphs.

    Attributes:
        hidden: width of the hidden layers.
        learning_rate: of a client's steps.
        weight_decay: factor of the L2 penalty.
        dropout: probability of dropping a hidden unit.
        hops: how far a client hears of nodes elsewhere.
        local_steps: full-graph steps of every client in a round.
        descent: whether these are of gradient descent, and not of Adam.
        keep_moments: whether a client's Adam goes on from round to round, instead of starting anew.
        row_range: largest magnitude of a row of the first hop, where a scheme wants to know; more is refused.
        patience: rounds without improvement after which training stops; None never stops early.
        selection: which accuracy picks the reported round; None reports the last one.
    """

    epochs: int = 200
    hidden: int = 16
    learning_rate: float = 0.01
    weight_decay: float = 1e-3
    dropout: float = 0.5
    hops: int = 2
    local_steps: int = 1
    descent: bool = False
    keep_moments: bool = True
    row_range: float = 64.0
    patience: int | None = None
    selection: Selection | None = Selection.VALIDATION

    def __post_init__(self) -> None:
        check_fields(self, counts=("hidden", "epochs", "hops", "local_steps"), shares=("dropout",))
