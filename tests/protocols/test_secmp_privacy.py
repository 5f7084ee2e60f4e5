"""What Secret Message Passing hides and what it does not, proved over small fields on every coin tape at once."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from fgl_secure.algebra import Overflow, PrimeField
from fgl_secure.coins import TapeCoins
from fgl_secure.protocols.secmp import Points, SecretMessagePassing
from fgl_secure.runtime import Channel, Directory, Party, Phase, Recording, Role, Step
from tests.enumeration import Secret, View, largest_distance, smallest_distance
from tests.protocols.conformance import opened
from tests.strategies import Ints, grouping_over

PRIMES = (5, 7, 11)
POINTS = Points(alphas=(3, 4), betas=(1, 2))
SENT = (-1, 0, 1)  # what one coordinate can be at bound 1 without fraction bits


def codes_on_all_tapes(p: int, sent: Secret, targets: Ints, silo_of: Ints, rounds: int = 1) -> list[View]:
    """Sender i sends its value to its target in every round; the codes [tapes, senders, T + 1] of each round."""
    senders, devices = len(sent), len(silo_of)
    directory = Directory.hierarchy(int(silo_of.max()) + 1, devices)
    edges = np.stack([np.arange(senders), targets])
    everyone = np.arange(devices)
    grouping = grouping_over(directory, silo_of, everyone, everyone, edges)
    scheme = SecretMessagePassing(PrimeField(p), bound=1.0, fraction_bits=0, overflow=Overflow.WRAP, points=POINTS)
    channel = Channel(directory, TapeCoins(p, directory.counts[Role.SILO]), Recording.everything())
    session = opened(scheme, channel, grouping, 1)
    values = np.zeros((devices, 1))
    values[:senders, 0] = sent
    for number in range(rounds):
        session.sum(values, Step(number))
    watching = [Party(Role.DEVICE, int(target)) for target in sorted(set(targets.tolist()))]
    seen = channel.transcript.view(watching).messages(Phase.CODES)
    return [np.asarray(rows.payload)[..., 0] for rows in seen]


def one_sender(p: int, sent: Secret) -> View:
    """Device 0 sends to device 1: both codes, [tapes, 2]."""
    (codes,) = codes_on_all_tapes(p, sent, np.array([1]), np.array([0, 0]))
    return codes[:, 0]


def two_senders(p: int, sent: Secret, *, silos: int = 1) -> View:
    """Devices 0 and 1 send to devices 2 and 3: the first code of each, [tapes, 2]."""
    silo_of = np.array([0, 0, 0, silos - 1])
    (codes,) = codes_on_all_tapes(p, sent, np.array([2, 3]), silo_of)
    return codes[:, :, 0]


@pytest.mark.parametrize("p", PRIMES)
@pytest.mark.parametrize("code", [0, 1])
def test_one_code_under_a_fresh_mask_hides_the_embedding(p: int, code: int) -> None:
    """One code of one message has the same counts for every embedding: Lemma 5.1, under its premises."""
    assert largest_distance(lambda sent: one_sender(p, sent)[:, [code]], [(h,) for h in SENT]) == 0


@pytest.mark.parametrize("p", PRIMES)
def test_both_codes_tell_the_embedding(p: int) -> None:
    """The target receives T + 1 codes, and together they are never the same for two embeddings."""
    assert smallest_distance(lambda sent: one_sender(p, sent), [(h,) for h in SENT]) == 1


@pytest.mark.parametrize("p", PRIMES)
def test_published_sharing_of_z_is_rejected(p: int) -> None:
    """Two senders under one silo's z: one code of each tells their difference, even between equal sums."""
    equal_sums = [(0, 0), (1, -1), (-1, 1)]
    assert smallest_distance(lambda sent: two_senders(p, sent), equal_sums) == 1


@pytest.mark.parametrize("p", PRIMES)
def test_a_z_for_each_message_passes_the_same_judge(p: int) -> None:
    """The repaired twin, targets in silos with a z each: one code of each sender tells nothing about either."""
    secrets = list(itertools.product(SENT, repeat=2))
    assert largest_distance(lambda sent: two_senders(p, sent, silos=2), secrets) == 0


@pytest.mark.parametrize("p", PRIMES)
def test_z_kept_over_rounds_is_rejected(p: int) -> None:
    """The same embedding gives the same code in every round: a pseudonym of its sender, on every tape."""
    first, second = codes_on_all_tapes(p, (1,), np.array([1]), np.array([0, 0]), rounds=2)
    assert len(first) == p
    assert np.array_equal(first, second)


@pytest.mark.parametrize("p", PRIMES)
def test_all_tapes_give_the_sum(p: int) -> None:
    """Whatever the coins, the target's sum is right: the enumeration runs the scheme and not a model of it."""
    directory, everyone = Directory.hierarchy(1, 3), np.arange(3)
    grouping = grouping_over(directory, np.zeros(3, dtype=np.int64), everyone, everyone, np.array([[0, 1], [2, 2]]))
    scheme = SecretMessagePassing(PrimeField(p), bound=1.0, fraction_bits=0, overflow=Overflow.WRAP, points=POINTS)
    session = opened(scheme, Channel(directory, TapeCoins(p, 1)), grouping, 1)
    sums = session.sum(np.ones((3, 1)), Step(0))
    assert sums.shape == (p, 3, 1)
    assert (sums[:, :, 0] == [0, 0, 2]).all()
