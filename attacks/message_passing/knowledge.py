"""Runs that attacks on message passing read, and what attackers know beside their views."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

TRAINING = "neighbour sums in training"
"""Scenario: embeddings and gradients of a training run."""

SMALL_FEATURES = "neighbour sums of 0/1 features in a small field"
"""Scenario: one exchange of features in a field small enough for brute force."""

STATIC_ROWS = "one release of static features"
"""Scenario: 0/1 features, each row divided by the root of its device's degree, summed once (HiFGL, Eq. 2)."""

DROP_OUTS = "static rows summed with drop-outs"
"""Scenario: the same rows summed in several rounds, in which devices take part or not."""

SILENCE = "neighbour sums in which one or two devices fall silent"
"""Scenario: sums in which no message of one device, or of two, reaches a relay."""

DEVIATION = "neighbour sums with devices that deviate"
"""Scenario: an exchange in which devices hand something else to be decoded than what the protocol says."""

PLAINTEXT = "plaintext"
SECMP = "secmp"
SMALL_FIELD = "secmp in the field of 11 elements"
SILO_PATH = "plaintext by way of the silos"
SECMP_STATIC = "secmp, one release of static features"
SECMP_DROP_OUTS = "secmp with drop-outs"
SECMP_DEVIATING = "secmp with devices that deviate"
CLEAR_GRADIENTS = "parameter gradients of single devices in the clear"
UNMASKED_SHARES = "shares without masks"
SHARED_MASKS = "shares under one mask for all senders"
FRESH_TAGS = "circuits to unnamed groups, at relays that see who sends"
OWN_SILOS = "circuits of unnamed devices, whose own silos hand rows to relays"
SILENT_SENDERS = "rows of unnamed devices, which silos hand on whether all are there or not"
"""Controls, as HiFGL makes them."""


@dataclass(frozen=True, slots=True, eq=False)
class PublicRows:
    """A public list of rows, as a directory of papers or of profiles would have them.

    Attributes:
        rows: [n, d], a row for each device, by device index.
    """

    rows: NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class SilentDevices:
    """Which devices fall silent in which round, as their silos and the network see it.

    Attributes:
        by_round: int64 [rounds, 2], party identifiers; NOT_SILENT in the place of each that there is not.
    """

    by_round: NDArray[np.int64]


NOT_SILENT = -1
