"""The kit on this package's own schemes: `secmp` as published is rejected, and it is said by which check."""

from functools import partial

import numpy as np
import pytest

from fgl_secure.algebra import MERSENNE_31, Overflow, PrimeField
from fgl_secure.errors import InputError
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.secmp import Mu, Points, SecretMessagePassing, source_encode
from fgl_secure.runtime import Channel, Directory, Party, Phase, Role, Step
from fgl_secure.statistics.statistical import SampleTooSmallError
from fgl_secure.testing import (
    NotPrivateError,
    NotSimulatableError,
    Protocol,
    VacuousTestError,
    assert_exactly_private,
    assert_same_trace,
    assert_simulatable,
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


PARTIES = Directory({Role.DEVICE: 2, Role.SERVER: 1})
SERVER = [Party(Role.SERVER, 0)]
INPUTS = [3, 4, 0]


def masked_sum(inputs: Inputs, channel: Channel, *, p: int, masked: bool = True) -> None:
    """Two devices send their values under masks that cancel: the server learns the sum."""
    devices, field = channel.parties.ids(Role.DEVICE), PrimeField(p)
    mask = channel.coins.uniform(p if masked else 1, (1,))
    masks = np.concatenate([mask, field.subtract(np.zeros_like(mask), mask)], axis=-1)
    server = np.repeat(channel.parties.ids(Role.SERVER), 2)
    channel.send(Phase.VALUES, Step(0), devices, server, field.add(inputs[:2], masks))


def sum_of(inputs: Inputs) -> int:
    """What the server may know."""
    return int(inputs[:2].sum())


def simulate(total: int, channel: Channel, *, p: int) -> None:
    """Two elements that are uniform but for their sum."""
    devices, field = channel.parties.ids(Role.DEVICE), PrimeField(p)
    first = channel.coins.uniform(p, (1,))
    server = np.repeat(channel.parties.ids(Role.SERVER), 2)
    values = np.concatenate([first, field.subtract(np.array([total]), first)], axis=-1).astype(field.dtype)
    channel.send(Phase.VALUES, Step(0), devices, server, values)


def ends(p: int) -> tuple[Protocol, Protocol]:
    """The protocol over a field and its twin without masks."""
    good, bad = partial(masked_sum, p=p), partial(masked_sum, p=p, masked=False)
    return Protocol(good, PARTIES, p), Protocol(bad, PARTIES, p, name="no masks")


@pytest.mark.parametrize(("p", "how"), [(11, "exact"), (MERSENNE_31, "statistical")])
def test_a_view_that_the_sum_explains_is_simulatable(p: int, how: str) -> None:
    """Small fields are compared on all tapes, large ones on samples."""
    good, twin = ends(p)
    simulator = partial(simulate, p=p)
    found = assert_simulatable(
        good, INPUTS, SERVER, simulator, leakage=sum_of, broken_twin=twin, advantage=0.05, seed=1
    )
    assert found.check == f"simulation, {how}"


@pytest.mark.parametrize("p", [11, MERSENNE_31])
def test_a_view_that_holds_more_is_rejected(p: int) -> None:
    """Values in the clear cannot be made up from their sum."""
    good, twin = ends(p)
    simulator = partial(simulate, p=p)
    with pytest.raises(NotSimulatableError, match="no masks shows a coalition more than the allowed leakage") as caught:
        assert_simulatable(twin, INPUTS, SERVER, simulator, leakage=sum_of, broken_twin=twin, advantage=0.05, seed=1)
    assert "coalition: server 0" in str(caught.value)
    with pytest.raises(VacuousTestError):
        assert_simulatable(good, INPUTS, SERVER, simulator, leakage=sum_of, broken_twin=good, advantage=0.05, seed=1)


def test_a_simulator_that_gets_too_little_fails() -> None:
    """Without the sum nobody can make up two elements that add up to it."""
    good, twin = ends(11)
    with pytest.raises(NotSimulatableError, match=r"total variation 1 "):
        assert_simulatable(good, INPUTS, SERVER, partial(simulate, p=11), leakage=lambda _: 0, broken_twin=twin)


def test_samples_too_small_and_empty_coalitions_are_refused() -> None:
    """The statistical comparison obeys the rule on samples, and somebody must look."""
    good, twin = ends(MERSENNE_31)
    simulator = partial(simulate, p=MERSENNE_31)
    with pytest.raises(SampleTooSmallError):
        assert_simulatable(good, INPUTS, SERVER, simulator, leakage=sum_of, broken_twin=twin, samples=100)
    with pytest.raises(InputError, check=about("coalition")):
        assert_simulatable(good, INPUTS, [], simulator, leakage=sum_of, broken_twin=twin)
