"""How a method is trained: as its authors did, oddities included, or honestly."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Self

from fgl_secure.errors import InputError, UnknownNameError
from fgl_secure.graph import FederatedGraph


class Selection(StrEnum):
    """Which accuracy decides the round that is reported."""

    VALIDATION = "validation"
    TEST = "test"


class Federation(StrEnum):
    """How the silos' models become one."""

    FEDAVG = "fedavg"
    """Each silo takes a step with its own optimiser, the server averages the models (HiFGL 4.3)."""
    SHARED = "shared"
    """One model and one optimiser for all silos, as in the public code."""
    LOCAL = "local"
    """Each silo keeps what it has learnt: nothing is averaged."""
    FEDPROX = "fedprox"
    """FedAvg with (mu / 2) |w - w_global|^2 added to each silo's loss (Li et al. 2020, Eq. 2), w_global being the model
    that the server sent last. With one local step, which starts at w_global, the gradient of that term is
    mu (w - w_global) = 0 and the step FedAvg's, bit for bit and for every mu: it takes `local_steps` of two or more."""
    FEDPER = "fedper"
    """FedAvg of all layers but the last, which stays with its silo (Arivazhagan et al. 2019)."""


@dataclass(frozen=True, slots=True)
class Preset:
    """Everything about training that is not the graph, the backbone or the scheme.

    Attributes:
        name: "honest" or "paper".
        hidden: width of the hidden layers.
        epochs: most rounds; a round is one full-graph step of every silo.
        learning_rate: of Adam, without weight decay.
        decay_every: rounds after which the rate is multiplied by `decay`.
        decay: factor of the learning rate.
        dropout: probability of dropping a hidden unit.
        patience: rounds without improvement after which training stops; None never stops early.
        selection: which accuracy picks the reported round.
        federation: how the silos' models become one.
        split_restricted: whether only devices of the same split exchange messages.
        published_layers: whether layers aggregate and start as those of the public code.
        static_first_layer: whether devices sum their neighbours' features once and for all, and project the sum with
            each round's weights, instead of summing projected features anew in every round.
        layers: number of layers, at least 1; all but the last are followed by ReLU.
        proximal: mu of FedProx.
        local_steps: rounds after which the silos' models are averaged, each of one step; between two averages silos
            go on with models of their own, and none of these rounds can be the reported one.
    """

    name: str
    hidden: int = 64
    epochs: int = 50
    learning_rate: float = 0.01
    decay_every: int = 4
    decay: float = 0.9
    dropout: float = 0.0
    patience: int | None = None
    selection: Selection = Selection.VALIDATION
    federation: Federation = Federation.FEDAVG
    split_restricted: bool = False
    published_layers: bool = False
    static_first_layer: bool = False
    layers: int = 2
    proximal: float = 0.01
    local_steps: int = 1

    def __post_init__(self) -> None:
        for name in ("layers", "local_steps"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1; found {getattr(self, name)}")
        if self.local_steps > 1 and self.federation is Federation.SHARED:
            raise InputError(f"local_steps must be 1 where silos share one model; found {self.local_steps}")

    def widths(self, features: int, classes: int) -> tuple[int, ...]:
        """Width of the input and of every layer's output, layers + 1 numbers."""
        return (features, *(self.hidden,) * (self.layers - 1), classes)

    def with_epochs(self, epochs: int | None) -> Preset:
        """The same preset with another number of rounds; None changes nothing."""
        if epochs is None:
            return self
        if epochs < 1:
            raise InputError(f"epochs must be at least 1; found {epochs}")
        return replace(self, epochs=epochs)


HONEST = Preset("honest")
"""The set-up of the paper's section 6.1 (rate .01 times .9 every 4 epochs, 50 epochs, hidden 64), federated for real,
chosen on validation data, with every neighbour's message."""

_PUBLISHED = Preset(
    "paper",
    epochs=1024,
    patience=16,
    selection=Selection.TEST,
    federation=Federation.SHARED,
    split_restricted=True,
    published_layers=True,
)
"""What the public code does at cefcdca: one shared model, messages within a split only, stopping on test accuracy."""

_PUBLISHED_SETTINGS = {
    "Cora": replace(_PUBLISHED, learning_rate=0.005, decay_every=4),
    "CiteSeer": replace(_PUBLISHED, learning_rate=0.01, decay_every=16, dropout=0.1),
    "PubMed": replace(_PUBLISHED, learning_rate=0.1, decay_every=8, hidden=128),
}

PRESETS = ("honest", "paper")


def preset(name: str, dataset: str) -> Preset:
    """The preset of a name for a data set; `paper` on a data set that the authors did not use takes Cora's settings."""
    if name not in PRESETS:
        raise UnknownNameError("preset", name, PRESETS)
    return HONEST if name == "honest" else _PUBLISHED_SETTINGS.get(dataset, _PUBLISHED_SETTINGS["Cora"])


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
class AveragedPreset:
    """How a model is trained by federated averaging of what clients learn on their own graphs.

    Attributes:
        name: "honest" or "paper".
        hidden: width of the hidden layers.
        epochs: rounds.
        learning_rate: of a client's steps.
        weight_decay: factor of the L2 penalty.
        dropout: probability of dropping a hidden unit.
        hops: how far a client hears of nodes elsewhere.
        local_steps: full-graph steps of every client in a round.
        descent: whether these are of gradient descent, and not of Adam.
        keep_moments: whether a client's Adam goes on from round to round, instead of starting anew.
        row_range: largest magnitude of a row of the first hop, where a scheme wants to know; more is refused.
        patience: rounds without improvement after which training stops; None never stops early.
        selection: which accuracy picks the reported round.
    """

    name: str
    hidden: int = 16
    epochs: int = 200
    learning_rate: float = 0.01
    weight_decay: float = 1e-3
    dropout: float = 0.5
    hops: int = 2
    local_steps: int = 1
    descent: bool = False
    keep_moments: bool = True
    row_range: float = 64.0
    patience: int | None = None
    selection: Selection = Selection.VALIDATION

    def __post_init__(self) -> None:
        for name in ("hidden", "epochs", "hops", "local_steps"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1; found {getattr(self, name)}")
        check_rate("dropout", self.dropout)

    def with_epochs(self, epochs: int | None) -> Self:
        """The same preset with another number of rounds; None changes nothing."""
        return self if epochs is None else replace(self, epochs=epochs)


def check_rate(name: str, value: float) -> None:
    """Raises unless a share of units to drop lies in [0, 1)."""
    if not 0 <= value < 1:
        raise InputError(f"{name} must be in [0, 1); found {value}")
