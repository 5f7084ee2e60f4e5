"""How FedGCN is trained: with the settings of its public code, or honestly."""

from __future__ import annotations

from dataclasses import replace

from fgl_secure.errors import InputError, UnknownNameError
from fgl_secure.training.presets import PRESETS, AveragedPreset, Selection

MOST_HOPS = 2
"""A network of two layers looks no further."""

HONEST = AveragedPreset(
    "honest", weight_decay=5e-4, row_range=256.0, epochs=100, learning_rate=0.5, local_steps=3, descent=True
)
"""What the public code does, three steps of gradient descent a round, and the round is chosen on validation nodes."""

_PUBLISHED = replace(HONEST, name="paper", selection=Selection.TEST)
"""Which round the public code reports it does not say: its best."""


def fedgcn_preset(name: str, hops: int = MOST_HOPS) -> AveragedPreset:
    """The preset of a name; it is the same for all data sets.

    Args:
        name: "honest" reports the best round on validation data, "paper" the best on test data.
        hops: 1 or 2.
    """
    if name not in PRESETS:
        raise UnknownNameError("preset", name, PRESETS)
    if not 1 <= hops <= MOST_HOPS:
        raise InputError(f"hops must lie in 1..{MOST_HOPS}; found {hops}")
    return replace(HONEST if name == "honest" else _PUBLISHED, hops=hops)
