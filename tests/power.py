"""Statistics at production size: the advantage that tests see, and samples enough for it in a few seconds.

A run of a whole protocol takes milliseconds, and some 8,200 runs an arm see an advantage of .05. But every entry of a
vector is masked for itself: vectors whose entries are all the same give a sample an entry. So an advantage in what is
sent of one entry is seen by eight runs with fresh keys. A flaw that hangs on the keys of a run, and not on the
place of an entry, is seen by as many samples as there are runs; with `FGL_SECURE_ENTRIES=1`, as `make mutants` sets
it, each sample is a run of its own.
"""

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fgl_secure.coins import SimulationCoins
from fgl_secure.runtime import Channel, MessageBatch, Recording
from fgl_secure.testing.protocol import Inputs, Run

Array = NDArray[Any]
Shown = Callable[[MessageBatch], Sequence[Array]]
"""The fields of a batch that are looked at, [m, ..., entries] each; none for a batch that is passed over."""
ADVANTAGE = 0.05
"""The largest that may stay unseen at production size."""
VARIABLE = "FGL_SECURE_ENTRIES"
ENTRIES = int(os.environ.get(VARIABLE, "1024"))
"""How many samples one run gives: entries of its vectors."""

seeing = pytest.mark.parametrize("advantage", [ADVANTAGE], ids=[f"advantage={ADVANTAGE},entries_a_run={ENTRIES}"])
"""For tests that see such an advantage: their names say so."""


def runs_of(samples: int) -> list[int]:
    """How many samples each run gives, so that they are so many together."""
    return [min(ENTRIES, samples - first) for first in range(0, samples, ENTRIES)]


def sampled_by_entries(run: Run, shown: Shown) -> Run:
    """A protocol whose samples are the entries of vectors, up to `ENTRIES` of them from each run of another.

    Args:
        run: on inputs [rows, ..., entries], and a channel without leading axes.
        shown: what is looked at of its messages, whose number and ends must be the same in every run.

    Returns:
        The same on inputs [rows, ..., 1] and a channel with one leading axis; a message for each field that is shown.
    """

    def sampled(inputs: Inputs, channel: Channel) -> None:
        (samples,) = channel.batch_shape
        seeds = channel.coins.uniform(2**31, (8,))
        runs = [
            _run(run, np.repeat(inputs, entries, axis=-1), channel, seeds[ENTRIES * number])
            for number, entries in enumerate(runs_of(samples))
        ]
        for batches in zip(*runs, strict=True):  # one batch of each run
            first = batches[0]
            ends = {(batch.phase, batch.step, *batch.senders, *batch.receivers) for batch in batches}
            assert len(ends) == 1, "messages must be the same in every run"
            for parts in zip(*map(shown, batches), strict=True):
                entries = np.concatenate([np.moveaxis(part, -1, 0) for part in parts])
                channel.send(first.phase, first.step, first.senders, first.receivers, entries[..., None])

    def _run(run: Run, inputs: Inputs, channel: Channel, seed: Array) -> list[MessageBatch]:
        quiet = Channel(channel.parties, SimulationCoins(int.from_bytes(seed.tobytes())), Recording.everything())
        run(inputs, quiet)
        return [batch for batch in quiet.transcript.messages if shown(batch)]

    return sampled
