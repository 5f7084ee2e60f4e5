"""Sums under LightSecAgg with senders that vanish or lie, for tests."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fgl_secure.coins import SimulationCoins
from fgl_secure.protocols.lightsecagg import LightSecAgg
from fgl_secure.runtime import Channel, Recording
from fgl_secure.runtime.channel import Loss
from tests.hostile import Parts as Tamper
from tests.hostile import by_parts
from tests.protocols.masking_cases import NOW, rows_of
from tests.protocols.vector_conformance import circle

Ints = NDArray[np.int64]

STAGES = (0, 2, 3, 4, 5)
"""Those of `masking_cases.silent`, without keys of a step, which there are not."""


def summed(
    scheme: LightSecAgg,
    senders: int,
    *,
    split: bool = False,
    loss: Loss | None = None,
    tamper: Tamper | None = None,
    length: int = 3,
) -> tuple[list[int], Channel]:
    """One sum of small numbers, and the channel that it ran on."""
    directory, group = circle(senders, split=split)
    channel = Channel(directory, SimulationCoins(0), Recording.everything(), loss, by_parts(tamper))
    total = scheme.open(channel, group, length, 50).sum(rows_of(senders, length), NOW)
    return total.tolist(), channel
