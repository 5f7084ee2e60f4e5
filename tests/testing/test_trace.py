"""Traces: any difference in who sends how much when is found, payloads don't matter."""

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from fgl_secure.errors import InputError
from fgl_secure.runtime import Channel, Directory, Phase, Role, Step
from fgl_secure.testing import Protocol, TraceDiffersError, VacuousTestError, assert_same_trace
from fgl_secure.testing.protocol import Inputs
from tests.error_codes import about

PARTIES = Directory({Role.DEVICE: 2, Role.SERVER: 1})
A, B = [0, 0, 0], [1, 0, 0]
FIRST = Step(0)


def send(
    inputs: Inputs, channel: Channel, *, to: int = 2, step: Step = FIRST, width: int = 1, phase: Phase = Phase.VALUES
) -> None:
    """One message of device 0 with its secret under masks."""
    payload = (channel.coins.uniform(5, (1, width)) + inputs[0]) % 5
    channel.send(phase, step, np.array([0]), np.array([to]), payload)


def constant(inputs: Inputs, channel: Channel) -> None:
    """The same messages for all inputs."""
    send(inputs, channel)


def longer(inputs: Inputs, channel: Channel) -> None:
    """Length depends on the secret."""
    send(inputs, channel, width=1 + int(inputs[0]))


def more(inputs: Inputs, channel: Channel) -> None:
    """Number depends on the secret."""
    for _ in range(1 + int(inputs[0])):
        send(inputs, channel)


def elsewhere(inputs: Inputs, channel: Channel) -> None:
    """Receiver depends on the secret."""
    send(inputs, channel, to=2 - int(inputs[0]))


def later(inputs: Inputs, channel: Channel) -> None:
    """Round depends on the secret."""
    send(inputs, channel, step=Step(int(inputs[0])))


def relabelled(inputs: Inputs, channel: Channel) -> None:
    """Phase depends on the secret."""
    send(inputs, channel, phase=Phase.SUMS if inputs[0] else Phase.VALUES)


def with_dummies(inputs: Inputs, channel: Channel, *, shift: int = 0) -> None:
    """A random number of dummy messages, 0 to 3, to which the secret adds where it is told to."""
    send(inputs, channel)
    dummies = int(channel.coins.uniform(4, ()).max())
    for _ in range(min(dummies + shift * int(inputs[0]), 3)):
        send(inputs, channel)


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


def test_a_random_number_of_dummies_is_a_distribution() -> None:
    """Traces that depend on coins alone pass, and those whose distribution moves with the secret do not."""
    good, moved = Protocol(with_dummies, PARTIES), Protocol(partial(with_dummies, shift=1), PARTIES)
    found = assert_same_trace(good, A, B, broken_twin=moved, runs=40, advantage=0.2)
    assert found.check == "same distribution of traces"
    assert "0.2 in one bit of the trace, with probability 0.99" in found.detectable
    with pytest.raises(TraceDiffersError, match=r"chi-square of which trace|distance of number"):
        assert_same_trace(moved, A, B, broken_twin=moved, runs=40, advantage=0.2)


def test_a_twin_that_is_fine_makes_the_test_an_error() -> None:
    """The same constant protocol as its own twin gives no pass."""
    with pytest.raises(
        VacuousTestError, match=r"found the protocol itself. same trace: the broken twin constant was not rejected"
    ):
        assert_same_trace(GOOD, A, B, broken_twin=GOOD)


def test_unfair_questions_are_refused() -> None:
    """Equal inputs, inputs of different shape, no runs and a twin between other parties are errors of the caller."""
    twin = Protocol(longer, PARTIES)
    with pytest.raises(InputError, check=about("inputs_a and inputs_b")):
        assert_same_trace(GOOD, A, A, broken_twin=twin)
    with pytest.raises(InputError, check=about("inputs_a and inputs_b")):
        assert_same_trace(GOOD, A, [[0], [1], [0]], broken_twin=twin)
    with pytest.raises(InputError, check=about("runs")):
        assert_same_trace(GOOD, A, B, broken_twin=twin, runs=0)
    with pytest.raises(InputError, check=about("broken_twin")):
        assert_same_trace(GOOD, A, B, broken_twin=Protocol(longer, Directory({Role.DEVICE: 3})))
