"""Coins: independent, uniform, never the same twice; and all tapes at once."""

import copy
import hashlib
import itertools
import os
import pickle
import warnings
from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fgl_secure import SecureAggregator
from fgl_secure.aggregation.layout import TensorLayout
from fgl_secure.aggregation.privacy import DistributedNoise
from fgl_secure.algebra import MERSENNE_31
from fgl_secure.coins import MAX_TAPES, Coins, SimulationCoins, SystemCoins, TapeCoins, distinct_elements
from fgl_secure.errors import InputError
from tests.error_codes import about


class ScriptedCoins(Coins):
    """Coins that come out as written down, one a draw."""

    def __init__(self, script: tuple[int, ...]) -> None:
        self._script: Iterator[int] = iter(script)

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return ()

    def uniform(self, modulus: int, shape: tuple[int, ...]) -> NDArray[np.int64]:
        coin = next(self._script)
        assert coin < modulus
        return np.full(shape, coin, dtype=np.int64)


@pytest.mark.parametrize("coins", [SystemCoins(), SimulationCoins(3)], ids=["system", "simulation"])
def test_coins_never_repeat(coins: Coins) -> None:
    """A thousand draws of four elements of 31 bits are all different."""
    draws = {tuple(coins.uniform(MERSENNE_31, (4,)).tolist()) for _ in range(1000)}
    assert len(draws) == 1000


def test_system_coins_differ_between_supplies() -> None:
    first, second = (set(SystemCoins().uniform(MERSENNE_31, (64,)).tolist()) for _ in range(2))
    assert not first & second


def test_simulation_coins_repeat_with_their_seed() -> None:
    """Equal seeds give equal coins through any sequence of draws, other seeds give others."""
    one, same, other = (SimulationCoins(seed) for seed in (5, 5, 6))
    for modulus, shape in ((11, (3, 2)), (MERSENNE_31, (5,)), (2, (0,))):
        drawn = one.uniform(modulus, shape)
        assert np.array_equal(drawn, same.uniform(modulus, shape))
    assert not np.array_equal(one.uniform(MERSENNE_31, (8,)), other.uniform(MERSENNE_31, (8,)))


@pytest.mark.parametrize("seed", [-1, 0, 2**80])
def test_any_integer_is_a_seed(seed: int) -> None:
    """Negative seeds and seeds of more than 64 bits are as good as others."""
    assert SimulationCoins(seed).uniform(7, (2,)).shape == (2,)


@given(st.integers(1, 50), st.lists(st.integers(0, 4), max_size=3))
def test_draws_have_the_shape_asked_for(modulus: int, shape: list[int]) -> None:
    """A draw of one run has exactly the shape asked for, with elements below the modulus."""
    for coins in (SystemCoins(), SimulationCoins(0)):
        drawn = coins.uniform(modulus, tuple(shape))
        assert drawn.shape == tuple(shape)
        assert coins.batch_shape == ()
        assert ((drawn >= 0) & (drawn < modulus)).all()


def test_reprs_show_seeds_and_hide_secrets() -> None:
    """Simulation coins are named as what they are; system coins show nothing."""
    assert repr(SimulationCoins(17)) == "SimulationCoins(seed=17)"
    assert repr(SystemCoins()) == "SystemCoins(<secret>)"
    assert repr(TapeCoins(3, 2)) == "TapeCoins(modulus=3, length=2, used=0)"


@given(st.integers(1, 5), st.lists(st.integers(0, 2), max_size=3))
def test_tapes_enumerate_every_word_exactly_once(modulus: int, draws: list[int]) -> None:
    """The draws of all tapes side by side are all words over the modulus, each on exactly one tape."""
    length = sum(draws)
    coins = TapeCoins(modulus, length)
    taken = [coins.uniform(modulus, (count,)) for count in draws]
    words = np.concatenate([np.empty((modulus**length, 0), dtype=np.int64), *taken], axis=1)
    assert coins.unused_coins == 0
    assert coins.batch_shape == (modulus**length,)
    expected = itertools.product(range(modulus), repeat=length)
    assert Counter(map(tuple, words.tolist())) == Counter(expected)


def test_tapes_keep_the_shape_of_a_draw() -> None:
    """A draw of shape [2, 1] has the tapes in front, and leaves the other coins for later draws."""
    coins = TapeCoins(3, 4)
    assert coins.uniform(3, (2, 1)).shape == (81, 2, 1)
    assert coins.unused_coins == 2


def test_exhausted_tapes_raise_and_stay_as_they_were() -> None:
    """A draw of more coins than are left raises, names both figures and takes none."""
    coins = TapeCoins(5, 3)
    coins.uniform(5, (2,))
    with pytest.raises(InputError, check=about("length")):
        coins.uniform(5, (2,))
    assert coins.uniform(5, (1,)).shape == (125, 1)
    with pytest.raises(InputError, check=about("length")):
        coins.uniform(5, ())


def test_tapes_refuse_another_modulus() -> None:
    """Tapes over 5 elements cannot give coins over 4."""
    with pytest.raises(InputError, check=about("modulus")):
        TapeCoins(5, 3).uniform(4, (1,))


@pytest.mark.parametrize(("modulus", "length"), [(0, 1), (2, -1), (2, 25)])
def test_tapes_that_cannot_be_are_refused(modulus: int, length: int) -> None:
    """No elements, a negative length or more than 2^24 tapes are refused."""
    with pytest.raises(InputError, check=about("modulus ** length")):
        TapeCoins(modulus, length)


def test_largest_set_of_tapes_is_accepted() -> None:
    assert TapeCoins(2, 24).batch_shape == (MAX_TAPES,)


@pytest.mark.parametrize(("modulus", "count"), [(2, 2), (5, 1), (5, 3), (4, 4), (6, 0)])
def test_distinct_elements_are_exactly_uniform(modulus: int, count: int) -> None:
    """Over all coins each ordered tuple of distinct elements comes out exactly once."""
    scripts = itertools.product(*(range(modulus - taken) for taken in range(count)))
    drawn = Counter(tuple(distinct_elements(ScriptedCoins(script), modulus, count).tolist()) for script in scripts)
    assert drawn == Counter(itertools.permutations(range(modulus), count))


def test_more_distinct_elements_than_there_are_raise() -> None:
    with pytest.raises(InputError, check=about("count of distinct elements")):
        distinct_elements(SimulationCoins(0), 5, 6)


def in_children(ask: Callable[[], bytes], children: int = 2) -> list[bytes]:
    """What forked processes find, each by itself, and what this one finds after them."""
    found = []
    for _ in range(children):
        reading, writing = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python 3.12 on: that numba's threads do not live on, who are not needed
            child = os.fork()
        if not child:
            try:
                os.write(writing, ask())
            finally:
                os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            found.append(pipe.read())
        os.waitpid(child, 0)
    return [*found, ask()]


FORKS = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")


@FORKS
def test_forked_processes_have_coins_of_their_own() -> None:
    """Parent, children and grandchildren draw different coins from one supply; simulations repeat theirs on purpose."""
    secret, repeatable = SystemCoins(), SimulationCoins(0)
    secret.uniform(MERSENNE_31, (3,))

    def words(coins: Coins) -> bytes:
        return coins.uniform(2**63, (4,)).tobytes()

    def twice() -> bytes:
        return words(secret) + b"".join(in_children(lambda: words(secret), 1))

    drawn = [found[at : at + 32] for found in in_children(twice) for at in (0, 32, 64)]
    assert all(len(words_) == 32 for words_ in drawn)
    assert len(set(drawn)) == len(drawn) == 9
    assert len(set(in_children(lambda: words(repeatable)))) == 1


@FORKS
def test_a_process_number_that_is_used_again_is_another_process() -> None:
    """Whose identifier is the same as that of the process that the coins were made in."""
    coins = SystemCoins()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "getpid", lambda: 17)
        coins.uniform(2**63, (1,))  # made anew, for process 17
        drawn = in_children(lambda: coins.uniform(2**63, (4,)).tobytes(), 3)
    assert len(set(drawn)) == 4


@FORKS
def test_clients_that_go_on_in_forks_have_noise_and_keys_of_their_own() -> None:
    """A state that is restored in forked processes, each with the coins that were there before, has fresh noise."""
    noise = DistributedNoise(clip=1.0, epsilon=4.0, delta=1e-5, rounds=5)
    mapping = {"w": np.zeros(20)}
    for scheme in ("plaintext", "pairwise-masking"):
        aggregator = SecureAggregator.for_clients(3, scheme, threshold=2, privacy=noise)
        server = aggregator.server_round(TensorLayout.of(mapping))
        client = aggregator.client_round(0, server.session, server.number)
        client.provide(mapping)
        state, asked = client.state(), server.requests()[0]

        def answer(aggregator: SecureAggregator = aggregator, state: bytes = state, asked: bytes = asked) -> bytes:
            return hashlib.sha256(aggregator.restored_client(state).reply(asked)).digest()

        assert len(set(in_children(answer, 3))) == 4


def test_secret_coins_are_not_copied() -> None:
    """Neither by pickle nor by copies, which would draw the same."""
    for copied in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(InputError, check=about("secret coins")):
            copied(SystemCoins())
