"""Runs that attacks on message passing read, and what attackers know beside their views."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.runtime import Phase, Step, View
from fgl_secure.typing import Ids

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
FRESH_TAGS = "messages under fresh tags, at relays that see who sends"
OWN_SILOS = "messages of unnamed devices, which their own silos hand to relays"
SILENT_SENDERS = "messages of unnamed devices, one or two of which fall silent"
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


def by_fetch(tags: Ids, view: View, relay: int, step: Step) -> Ids:
    """What stands for the sum that each message is in: the first label of the fetch that names its own, or its tag.

    Args:
        tags: int64 [m, 2], tags or labels of messages.
        view: of relays.
        relay: party identifier; it takes into account what itself was asked for alone.
        step: when.
    """
    fetches = [batch for batch in view.messages(Phase.FETCH) if batch.step == step]
    openings = [np.asarray(batch["opening"])[batch.receivers == relay] for batch in fetches]
    groups = {tuple(label): group[0] for item in openings for group in item.tolist() for label in group}
    result = [groups.get(tuple(tag), tag) for tag in tags.tolist()]
    return np.array(result, dtype=np.int64).reshape(-1, 2)
