"""The kit on this package's own schemes: `secmp` as published is rejected, and it is said by which check."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from fgl_secure.algebra import Overflow, PrimeField
from fgl_secure.errors import InputError
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.secmp import Mu, Points, SecretMessagePassing, source_encode
from fgl_secure.runtime import Channel, Directory, Party, Phase, Role, Step
from fgl_secure.testing import (
    NotPrivateError,
    Protocol,
    assert_exactly_private,
    assert_same_trace,
    assert_statistically_private,
    protocol_of,
)
from fgl_secure.testing.protocol import Inputs
from tests.error_codes import about
from tests.strategies import grouping_over

POINTS = Points(alphas=(3, 4), betas=(1, 2))
DIRECTORY = Directory.hierarchy(1, 3)
GROUPING = grouping_over(DIRECTORY, np.zeros(3, dtype=np.int64), np.arange(3), np.arange(3), np.array([[0, 1], [2, 2]]))
TARGET = [Party(Role.DEVICE, 2)]
EQUAL_SUMS = [[1.0], [-1.0], [0.0]], [[0.0], [0.0], [0.0]]
CLEAR = protocol_of(Plaintext(), GROUPING, DIRECTORY)


def small_secmp(p: int, points: Points | None = POINTS) -> SecretMessagePassing:
    """The published scheme over a small field."""
    return SecretMessagePassing(PrimeField(p), bound=1.0, fraction_bits=0, overflow=Overflow.WRAP, points=points)


@pytest.mark.parametrize("p", [5, 7, 11])
def test_secmp_is_rejected_by_enumeration(p: int) -> None:
    """The codes of two senders at one target tell more than their sum, on every tape (total variation 1)."""
    protocol = protocol_of(small_secmp(p), GROUPING, DIRECTORY)
    with pytest.raises(NotPrivateError, match=r"total variation 1 \(1\) of the joint views over") as caught:
        assert_exactly_private(protocol, *EQUAL_SUMS, TARGET, broken_twin=CLEAR)
    assert "coalition: device 2" in str(caught.value)


def test_secmp_with_points_of_its_own_is_rejected_tape_by_tape() -> None:
    """Points that are drawn have ranges of their own, and their tapes are enumerated all the same."""
    protocol = protocol_of(small_secmp(5, None), GROUPING, DIRECTORY, batched=False)
    with pytest.raises(NotPrivateError, match="over 600 coin tapes"):
        assert_exactly_private(protocol, *EQUAL_SUMS, TARGET, broken_twin=CLEAR)


def test_secmp_is_rejected_by_statistics_at_production_size() -> None:
    """Over 2^31 - 1 elements a combination of two codes differs; single coordinates are uniform."""
    protocol = protocol_of(SecretMessagePassing(points=POINTS), GROUPING, DIRECTORY)
    with pytest.raises(NotPrivateError, match=r"chi-square of (low|high) bits of .*codes\[0\].* [-+/] .*codes\[0\]"):
        assert_statistically_private(protocol, *EQUAL_SUMS, TARGET, broken_twin=CLEAR, advantage=0.05, seed=1)


def test_secmp_is_rejected_across_rounds() -> None:
    """Two rounds under one z: whether the embedding changed shows, even to a target that learns equal sums."""
    protocol = protocol_of(small_secmp(5), GROUPING, DIRECTORY, steps=(Step(0), Step(1)))
    same, swapped = np.zeros((3, 2, 1)), np.zeros((3, 2, 1))
    swapped[:, 1, 0] = [1, -1, 0]
    with pytest.raises(NotPrivateError, match="total variation 1 "):
        assert_exactly_private(protocol, same, swapped, TARGET, broken_twin=CLEAR)


ONE_WAY = Directory({Role.DEVICE: 1, Role.SILO: 1, Role.SERVER: 1})
READER = [Party(Role.SERVER, 0)]


def one_code(inputs: Inputs, channel: Channel, *, p: int, with_mu: bool) -> None:
    """The published encoding, of which a reader gets a single code, and mu or not."""
    field, reader = PrimeField(p), channel.parties.ids(Role.SERVER)
    z = channel.draw("z", channel.parties.ids(Role.SILO), p, (1, 1))
    mu = Mu(np.array([POINTS.alphas]), np.array([POINTS.betas]), z)
    zero = np.zeros(1, dtype=np.int64)
    codes = source_encode(field, field.elements(inputs[:1, None]), mu, zero, zero)
    channel.send(Phase.CODES, Step(0), channel.parties.ids(Role.DEVICE), reader, codes[..., 0, :])
    if with_mu:
        channel.send(Phase.PARAMETERS, Step(0), channel.parties.ids(Role.SILO), reader, mu.rows(field.dtype))


@pytest.mark.parametrize("p", [5, 7, 11, 13])
def test_one_code_is_private_until_its_reader_has_mu(p: int) -> None:
    """Lemma 5.1 holds for one code under a fresh z, and for a reader who holds z it says nothing."""
    alone, with_mu = (Protocol(partial(one_code, p=p, with_mu=told), ONE_WAY, p) for told in (False, True))
    a, b = [1, 0, 0], [3, 0, 0]
    waived = {"trace": "mu is a message more", "coalition": "nobody else is sent anything"}
    assert not assert_exactly_private(alone, a, b, READER, broken_twin=with_mu, waived=waived).rejected
    with pytest.raises(NotPrivateError, match="total variation 1 "):
        assert_exactly_private(with_mu, a, b, READER, broken_twin=with_mu)


def only_what_is_not_zero(inputs: Inputs, channel: Channel) -> None:
    """Sends values in the clear, and saves the message where the value is zero."""
    senders = channel.parties.ids(Role.DEVICE)[np.flatnonzero(inputs[:, 0])]
    target = np.full(len(senders), channel.parties.ids(Role.DEVICE)[2])
    payload = np.broadcast_to(np.ones(len(senders)), (*channel.batch_shape, len(senders)))
    channel.send(Phase.VALUES, Step(0), senders, target, payload)


def test_traces_of_schemes_do_not_depend_on_values() -> None:
    """What the network sees of a sum depends on who sends to whom and not on what."""
    twin = Protocol(only_what_is_not_zero, DIRECTORY, owners=GROUPING.row_owner)
    for protocol in (protocol_of(small_secmp(11), GROUPING, DIRECTORY), CLEAR):
        assert not assert_same_trace(protocol, *EQUAL_SUMS, broken_twin=twin).rejected


def test_a_scheme_needs_a_step() -> None:
    """A protocol that computes nothing is refused."""
    with pytest.raises(InputError, check=about("steps")):
        protocol_of(Plaintext(), GROUPING, DIRECTORY, steps=())
