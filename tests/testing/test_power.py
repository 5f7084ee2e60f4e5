"""Samples from the entries of vectors: so many as are asked for, each of its own; and what tests must see with them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from fgl_secure.algebra import PrimeField
from fgl_secure.coins import SimulationCoins
from fgl_secure.runtime import Channel, Directory, MessageBatch, Phase, Recording, Role, Step
from fgl_secure.testing.coins import BatchCoins
from fgl_secure.testing.protocol import Inputs
from tests.power import ADVANTAGE, ENTRIES, Array, runs_of, sampled_by_entries

PARTIES = Directory({Role.DEVICE: 2, Role.SERVER: 1})
PROTOCOLS = Path(__file__).parent.parent / "protocols"
CHECKS = ("assert_statistically_private", "assert_simulatable")


def masked(inputs: Inputs, channel: Channel) -> None:
    """Two devices send an entry under a mask each, and something that nobody looks at."""
    devices, server = channel.parties.ids(Role.DEVICE), np.repeat(channel.parties.ids(Role.SERVER), 2)
    masks = channel.coins.uniform(2**31 - 1, inputs.shape)
    channel.send(Phase.CODES, Step(0), devices, server, PrimeField().add(inputs, masks))
    channel.send(Phase.COUNTS, Step(0), devices, server, np.zeros((2, 1), dtype=np.int64))


def codes(batch: MessageBatch) -> list[Array]:
    """The codes alone."""
    return [batch.fields["payload"]] if batch.phase is Phase.CODES and batch.fields else []


def sampled(samples: int, seed: int = 0) -> Array:
    """What is sent, [samples, 2, 1]."""
    channel = Channel(PARTIES, BatchCoins(SimulationCoins(seed), samples), Recording.everything())
    sampled_by_entries(masked, codes)(np.array([[3], [4]]), channel)
    (batch,) = channel.transcript.messages
    assert batch.payload is not None
    return batch.payload


@pytest.mark.parametrize("samples", [1, ENTRIES, ENTRIES + 1, 3 * ENTRIES - 1])
def test_there_are_as_many_samples_as_asked_for(samples: int) -> None:
    """Of whole runs and a last one that may be shorter, and no two have one mask."""
    found = sampled(samples)
    assert found.shape == (samples, 2, 1)
    assert len(np.unique(found)) == 2 * samples
    assert sum(runs_of(samples)) == samples


def test_samples_follow_from_the_coins() -> None:
    """The same for the same coins, and others for others."""
    assert np.array_equal(sampled(5), sampled(5))
    assert not np.isin(sampled(5), sampled(5, seed=1)).any()


def test_runs_that_send_other_messages_are_no_samples_of_one_view() -> None:
    """Messages of two runs with other ends are not put into one column."""
    runs = iter(range(2))

    def wandering(inputs: Inputs, channel: Channel) -> None:
        ends = channel.parties.ids(Role.DEVICE)[[next(runs)]]
        channel.send(Phase.CODES, Step(0), ends, channel.parties.ids(Role.SERVER), inputs[:1])

    channel = Channel(PARTIES, BatchCoins(SimulationCoins(0), ENTRIES + 1), Recording.everything())
    with pytest.raises(AssertionError, match="the same in every run"):
        sampled_by_entries(wandering, codes)(np.array([[3], [4]]), channel)


def _stated(source: str) -> Iterator[float]:
    """The advantages that calls of statistical checks state as numbers."""
    for call in ast.walk(ast.parse(source)):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in CHECKS:
            for each in call.keywords:
                if each.arg == "advantage" and isinstance(each.value, ast.Constant):
                    yield float(each.value.value)  # type: ignore[arg-type]  # a number


def test_no_test_of_a_scheme_sees_less() -> None:
    """Statistics of schemes state no advantage above the one that all see; the judge finds one that does."""
    assert ADVANTAGE <= 0.05
    assert not [path for path in PROTOCOLS.rglob("*.py") for found in _stated(path.read_text("utf-8")) if found > 0.05]
    assert list(_stated("assert_statistically_private(good, a, b, SERVER, broken_twin=twin, advantage=0.8)")) == [0.8]
