"""Messages that somebody who means harm makes of genuine ones: every machine takes or refuses them, and that is all."""

import tracemalloc
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from fgl_secure.errors import MalformedMessageError, ProtocolError
from fgl_secure.protocols.coded_products import CodedProducts
from fgl_secure.protocols.hosting import Due
from fgl_secure.protocols.relay_coded import Profile, RelayCoded
from fgl_secure.protocols.relay_coded.wire import PLACE, SUM
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.secmp import SecretMessagePassing
from fgl_secure.runtime import PAYLOAD, Messages, Phase, Step, decode, encode
from tests.protocols.hostile import SESSION, alike, arrivals, in_little_memory, tallied, to_machines, trials
from tests.protocols.test_roles import ALL

SCHEMES: tuple[Scheme, ...] = (*ALL, RelayCoded(profile=Profile.HIDDEN, max_degree=3), CodedProducts(k_min=2))


@pytest.fixture
def traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


@pytest.mark.usefixtures("traced")
@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: scheme.name)
def test_changed_messages_are_taken_or_refused(scheme: Scheme) -> None:
    """Cut, flipped, resent, readdressed, with other fields, shapes, entries: typed errors alone, in little memory."""
    found = tallied(to_machines(scheme), str(scheme), range(trials()), in_little_memory)
    assert found.taken
    assert found.refused


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: scheme.name)
def test_messages_of_another_step_move_nobody(scheme: Scheme) -> None:
    """A genuine message under the number of a step that nobody has begun is refused, and the machine is as it was."""
    genuine = arrivals(scheme)
    assert genuine
    for arrival in genuine:
        arrival.machine.restore(arrival.state)
        with pytest.raises(ProtocolError):
            arrival.machine.receive(replace(decode(arrival.data), step=Step(7)))
        assert alike(arrival.machine.state(), arrival.state)


def test_parties_with_impossible_numbers_are_nobody() -> None:
    """A pair of numbers beyond those that are due passes for none that is, and costs no error of arithmetic."""
    due = Due(np.array([1, 2, 2]), np.array([3, 3, 4]))
    for sender, receiver in ((2**63 - 1, 3), (-1, 3), (1, 8), (1, -2), (-(2**63), 2**63 - 1)):
        senders, receivers = np.array([sender, 1, 2, 2]), np.array([receiver, 3, 3, 4])
        messages = Messages(Phase.VALUES, Step(0), senders, receivers, {})
        rows, places = due.find(messages)
        assert rows is not None
        assert (rows.tolist(), places.tolist()) == ([1, 2, 3], [0, 1, 2])


@pytest.mark.parametrize("point", [None, -1, 2**31 - 1], ids=["twice", "negative", "beyond"])
def test_points_that_code_nothing_are_refused(point: int | None) -> None:
    """Coding parameters with a point twice, or one outside the field, are refused by the device that is sent them."""
    arrival = next(each for each in arrivals(SecretMessagePassing()) if decode(each.data).phase is Phase.PARAMETERS)
    messages = decode(arrival.data)
    arrival.machine.restore(arrival.state)
    arrival.machine.receive(messages)
    mu = messages[PAYLOAD].copy()
    mu[:, 0] = mu[:, 1] if point is None else point
    with pytest.raises(MalformedMessageError):
        arrival.hear(encode(replace(messages, fields={PAYLOAD: mu}), SESSION))


@pytest.mark.parametrize("scheme", [each for each in SCHEMES if type(each) is RelayCoded], ids=lambda each: each.name)
def test_answers_of_several_relays_are_taken_together_or_not_at_all(scheme: Scheme) -> None:
    """One batch with a good answer of one relay and a bad one of another leaves nothing of the good one behind."""
    arrival = next(
        each for each in arrivals(scheme) if SUM in (m := decode(each.data)).fields and m.phase is Phase.SEALED
    )
    genuine = decode(arrival.data)
    relay, other = int(genuine.senders[0]), int(genuine.senders[0]) + 1
    bad = genuine.fields[PLACE][:1].copy()
    bad.view(np.uint32)[...] = 2**32 - 1
    mixed = replace(
        genuine,
        senders=np.array([relay, other]),
        receivers=genuine.receivers[[0, 0]],
        fields={name: value[[0, 0]] for name, value in genuine.fields.items()}
        | {PLACE: np.concatenate([genuine.fields[PLACE][:1], bad])},
    )
    with pytest.raises(MalformedMessageError):
        arrival.hear(encode(mixed, SESSION))
