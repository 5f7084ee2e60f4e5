"""Traces: any difference in who sends how much when is found, payloads don't matter."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from fgl_secure.errors import InputError
from fgl_secure.runtime import Channel, Directory, Phase, Role, Step
from fgl_secure.testing import Protocol, TraceDiffersError, VacuousTestError, assert_same_trace
from fgl_secure.testing.protocol import Inputs

PARTIES = Directory({Role.DEVICE: 2, Role.SERVER: 1})
A, B = [0, 0, 0], [1, 0, 0]
FIRST = Step(0)


def send(channel: Channel, *, to: int = 2, step: Step = FIRST, width: int = 1, phase: Phase = Phase.VALUES) -> None:
    """One message of random content from device 0."""
    channel.send(phase, step, np.array([0]), np.array([to]), channel.coins.uniform(5, (1, width)))


def constant(inputs: Inputs, channel: Channel) -> None:  # noqa: ARG001
    """The same messages for all inputs."""
    send(channel)


def longer(inputs: Inputs, channel: Channel) -> None:
    """Length depends on the secret."""
    send(channel, width=1 + int(inputs[0]))


def more(inputs: Inputs, channel: Channel) -> None:
    """Number depends on the secret."""
    for _ in range(1 + int(inputs[0])):
        send(channel)


def elsewhere(inputs: Inputs, channel: Channel) -> None:
    """Receiver depends on the secret."""
    send(channel, to=2 - int(inputs[0]))


def later(inputs: Inputs, channel: Channel) -> None:
    """Round depends on the secret."""
    send(channel, step=Step(int(inputs[0])))


def relabelled(inputs: Inputs, channel: Channel) -> None:
    """Phase depends on the secret."""
    send(channel, phase=Phase.SUMS if inputs[0] else Phase.VALUES)


def undecided(inputs: Inputs, channel: Channel) -> None:  # noqa: ARG001
    """Length depends on a coin."""
    send(channel, width=1 + int(channel.coins.uniform(2, (1,)).max()))


GOOD = Protocol(constant, PARTIES)


@pytest.mark.parametrize(
    ("run", "difference"),
    [
        (longer, "1 messages of 8 bytes .* against 1 messages of 16 bytes"),
        (more, "batch 1: no further message against 1 messages of 8 bytes"),
        (elsewhere, r"sender-receiver 0-2\) against .* sender-receiver 0-1\)"),
        (later, "round 0, .* against .* round 1,"),
        (relabelled, r"\(values, .* against .* \(sums,"),
    ],
)
def test_every_visible_difference_is_found(run: Callable[[Inputs, Channel], None], difference: str) -> None:
    """A protocol whose trace is constant passes; the one whose trace isn't fails, and the message shows where."""
    broken = Protocol(run, PARTIES)
    assert not assert_same_trace(GOOD, A, B, broken_twin=broken).rejected
    with pytest.raises(TraceDiffersError, match=difference) as caught:
        assert_same_trace(broken, A, B, broken_twin=broken)
    assert "coalition: an observer of the network" in str(caught.value)
    assert "detectable advantage: any difference that shows in one of 16 runs" in str(caught.value)


def test_traces_that_depend_on_coins_are_rejected() -> None:
    """A trace that changes from run to run is not constant, whatever it tells."""
    with pytest.raises(TraceDiffersError, match="2 different traces"):
        assert_same_trace(Protocol(undecided, PARTIES), A, B, broken_twin=Protocol(longer, PARTIES), runs=40)


def test_a_twin_that_is_fine_makes_the_test_an_error() -> None:
    """The same constant protocol as its own twin gives no pass."""
    with pytest.raises(VacuousTestError, match="same trace: the broken twin constant was not rejected"):
        assert_same_trace(GOOD, A, B, broken_twin=GOOD)


def test_unfair_questions_are_refused() -> None:
    """Equal inputs, inputs of different shape, no runs and a twin between other parties are errors of the caller."""
    twin = Protocol(longer, PARTIES)
    with pytest.raises(InputError, match="must differ"):
        assert_same_trace(GOOD, A, A, broken_twin=twin)
    with pytest.raises(InputError, match="one shape"):
        assert_same_trace(GOOD, A, [[0], [1], [0]], broken_twin=twin)
    with pytest.raises(InputError, match="runs"):
        assert_same_trace(GOOD, A, B, broken_twin=twin, runs=0)
    with pytest.raises(InputError, match="between the protocol's parties"):
        assert_same_trace(GOOD, A, B, broken_twin=Protocol(longer, Directory({Role.DEVICE: 3})))
