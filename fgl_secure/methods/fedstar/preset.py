"""How FedStar is trained: with the settings of its public code, or honestly."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fgl_secure.errors import InputError, UnknownNameError
from fgl_secure.training.presets import PRESETS, AveragedPreset


@dataclass(frozen=True, slots=True)
class FedStarPreset(AveragedPreset):
    """Everything about training that is not the graph or how sums are computed.

    Attributes:
        layers: of both encoders.
        walks: n_rw, steps of the longest random walk.
        degrees: n_dg, columns of the one-hot degree; larger ones share the last.
    """

    layers: int = 3
    walks: int = 16
    degrees: int = 16

    def __post_init__(self) -> None:
        AveragedPreset.__post_init__(self)
        for name in ("layers", "walks", "degrees"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1; found {getattr(self, name)}")


_PUBLISHED = FedStarPreset("paper", hidden=64, epochs=200, learning_rate=1e-3, weight_decay=5e-4)
"""The defaults of the public code, but for batches of 128 graphs: a client has one graph here, and takes a step on it.
There the model after the last round is scored; here validation nodes choose the round, in both presets."""

HONEST = replace(_PUBLISHED, name="honest", learning_rate=0.003)
"""The rate is chosen among .001, .003 and .01 on validation nodes (Cora, ten clients by Louvain, seed 0)."""


def fedstar_preset(name: str) -> FedStarPreset:
    """The preset of a name; it is the same for all data sets.

    Args:
        name: "honest" or "paper".
    """
    if name not in PRESETS:
        raise UnknownNameError("preset", name, PRESETS)
    return HONEST if name == "honest" else _PUBLISHED
