"""What relays make of messages that have labels instead of tags: a fetch names those that belong to one sum."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fgl_secure.runtime import Phase, Step, View

Ids = NDArray[np.int64]

LABELS = "labels of sums"
"""Name of what owners of sums work out: the first label of each of their sums, at every relay."""


def by_fetch(tags: Ids, view: View, relay: int, step: Step) -> Ids:
    """What stands for the sum that each message is in: the first label of the fetch that names its own, or its tag.

    Args:
        tags: int64 [m, 2], tags or labels of messages.
        view: of relays.
        relay: party identifier; it takes into account what itself was asked for alone.
        step: when.
    """
    fetches = [batch for batch in view.messages(Phase.FETCH) if batch.step == step]
    named = [np.asarray(batch["opening"])[batch.receivers == relay] for batch in fetches]
    groups = {tuple(label): group[0] for each in named for group in each.tolist() for label in group}
    found = [groups.get(tuple(tag), tag) for tag in tags.tolist()]
    return np.array(found, dtype=np.int64).reshape(-1, 2)
