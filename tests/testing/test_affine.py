"""Comparison by row spaces, held against enumeration."""

from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from fgl_secure.runtime import Channel, Directory, Party, Phase, Role, Step
from fgl_secure.statistics.exact import compare_exactly
from fgl_secure.testing import NotPrivateError, Protocol, VacuousTestError, assert_affinely_private
from fgl_secure.testing.affine import Judge, Judges, NotAffineError, distance
from fgl_secure.testing.arms import Arm, align_views
from fgl_secure.testing.protocol import Inputs
from tests.error_codes import about
from tests.strategies import Ints

PARTIES = Directory({Role.SERVER: 1, Role.SILO: 1})
SERVER = (Party(Role.SERVER, 0),)


def linear(matrices: dict[int, Ints], p: int = 3) -> Protocol:
    """A client sends its value, in every place, plus its coins times the matrix for that value."""

    def run(inputs: Inputs, channel: Channel) -> None:
        value = int(inputs[1, 0])
        matrix = matrices[value]
        coins = channel.draw("masks", channel.parties.ids(Role.SILO), p, (len(matrix),))
        payload = (value + coins @ matrix) % p
        channel.send(Phase.VALUES, Step(0), channel.parties.ids(Role.SILO), channel.parties.ids(Role.SERVER), payload)

    return Protocol(run, PARTIES, p)


A, B = np.array([[0], [0]]), np.array([[0], [1]])


@pytest.mark.parametrize("case", range(40))
def test_distances_are_those_of_enumeration(case: int) -> None:
    """For random matrices, of one input or of two, total variation is what counting all tapes gives."""
    generator = np.random.default_rng(case)
    first = generator.integers(0, 3, (3, 3)) * generator.integers(0, 2, (3, 1))
    second = first if case % 2 else generator.integers(0, 3, (3, 3)) * generator.integers(0, 2, (3, 1))
    protocol = linear({0: first, 1: second})
    arms = [Arm(protocol, values, SERVER).on_all_tapes() for values in (A, B)]
    views = align_views(arms[0], arms[1], PARTIES)
    assert distance(protocol, A, B, SERVER) == compare_exactly(views.a, views.b).total_variation


def test_the_check_passes_what_is_private_and_rejects_what_is_not() -> None:
    """A fresh mask in every place passes, and one mask for two places is rejected, with the coalition named."""
    good, broken = linear(dict.fromkeys((0, 1), np.eye(2, dtype=np.int64))), linear(
        dict.fromkeys((0, 1), np.array([[1, 2]]))
    )  # fmt: skip
    judges = Judges()
    found = assert_affinely_private(good, A, B, SERVER, broken_twin=broken, judges=judges)
    assert found.statistic.startswith("total variation 0 (0) of the joint views, affine in 2 coins modulo 3")
    with pytest.raises(NotPrivateError, match=r"coalition: server 0\n  statistic: total variation 1"):
        assert_affinely_private(broken, A, B, SERVER, broken_twin=broken, judges=judges)
    with pytest.raises(VacuousTestError):
        assert_affinely_private(good, A, B, SERVER, broken_twin=good)


def test_questions_about_one_protocol_share_its_runs() -> None:
    """Whoever asks once more with the same judges has nothing run again, neither protocol nor twin."""
    runs: list[str] = []

    def counted(protocol: Protocol, name: str) -> Protocol:
        def run(inputs: Inputs, channel: Channel) -> None:
            runs.append(name)
            protocol.run(inputs, channel)

        return replace(protocol, run=run, name=name)

    good = counted(linear(dict.fromkeys((0, 1), np.eye(2, dtype=np.int64))), "good")
    broken = counted(linear(dict.fromkeys((0, 1), np.array([[1, 2]]))), "broken")
    judges, counts = Judges(), []
    for _ in range(2):
        assert_affinely_private(good, A, B, SERVER, broken_twin=broken, judges=judges)
        counts.append(dict(Counter(runs)))
    assert counts[0] == counts[1]
    assert set(counts[0]) == {"good", "broken"}


def test_constants_beyond_the_field_are_compared_as_they_are() -> None:
    """A key of 3 and one of 0 are not the same modulo 3."""

    def run(inputs: Inputs, channel: Channel) -> None:
        payload = np.full((*channel.batch_shape, 1, 1), 3 * int(inputs[1, 0]))
        channel.send(Phase.KEYS, Step(0), channel.parties.ids(Role.SILO), channel.parties.ids(Role.SERVER), payload)

    assert distance(Protocol(run, PARTIES, 3), A, B, SERVER) == Fraction(1)


def test_what_is_not_affine_is_refused() -> None:
    """A square of a coin, a coin of another range, and a modulus that is no prime."""

    def square(_: Inputs, channel: Channel) -> None:
        coins = channel.draw("masks", channel.parties.ids(Role.SILO), 7, (1,))
        ends = channel.parties.ids(Role.SILO), channel.parties.ids(Role.SERVER)
        channel.send(Phase.VALUES, Step(0), *ends, coins * coins % 7)

    with pytest.raises(NotAffineError, match="view of server 0 must be affine"):
        Judge(Protocol(square, PARTIES, 7)).view(A, SERVER)
    with pytest.raises(NotAffineError, check=about("coins")):
        Judge(Protocol(square, PARTIES, 11)).view(A, SERVER)
    for modulus in (8, 2**31 - 1):
        with pytest.raises(NotAffineError, check=about("modulus")):
            Judge(Protocol(square, PARTIES, modulus))
