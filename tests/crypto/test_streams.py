"""Many streams read together are the same streams read alone."""

from __future__ import annotations

from hashlib import shake_128

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgl_secure.crypto.prg import FieldStream, word_of
from fgl_secure.crypto.streams import KeyedStreams, SeededStreams
from fgl_secure.errors import InputError
from tests.strategies import ALL_PRIMES

MODULI = (1, 2, 3, 5, 11, 129, 200, 256, 257, 2**31, 2**31 + 1, 2**32 - 5, 2**62 + 1, 2**63, *ALL_PRIMES)
"""Moduli just above a power of two reject nearly every second word, powers of two none."""

keys = st.lists(st.binary(min_size=32, max_size=32), min_size=1, max_size=5)
nonces = st.binary(min_size=16, max_size=16)


@given(st.data(), keys, nonces, st.sampled_from(MODULI))
def test_each_stream_is_that_of_its_key_and_nonce(
    data: st.DataObject, keys: list[bytes], nonce: bytes, modulus: int
) -> None:
    """For every modulus, rejections or none, the elements are FieldStream's, stream after stream, and in range."""
    counts = data.draw(st.lists(st.integers(0, 70), min_size=len(keys), max_size=len(keys)))
    found = KeyedStreams(keys).uniform(modulus, np.array(counts), nonce)
    expected = [FieldStream(key, nonce).uniform(modulus, count) for key, count in zip(keys, counts, strict=True)]
    assert np.array_equal(found, np.concatenate(expected))
    assert ((found >= 0) & (found < modulus)).all()


@given(nonces, st.sampled_from([3, 129, 2**31 - 1]))
def test_a_nonce_gives_the_same_again(nonce: bytes, modulus: int) -> None:
    """Ciphers that are kept between reads start at the nonce each time, whatever was read before."""
    some = KeyedStreams([bytes(32), bytes([1] * 32)])
    first = some.uniform(modulus, np.array([5, 9]), nonce)
    some.uniform(modulus, np.array([3, 0]), bytes(16))
    assert np.array_equal(first, some.uniform(modulus, np.array([5, 9]), nonce))


@pytest.mark.parametrize("nonce", [bytes(8) + b"\xff" * 8, b"\xff" * 16, bytes(15) + b"\x01"], ids=bytes.hex)
def test_counters_carry_over_all_sixteen_bytes(nonce: bytes) -> None:
    """Blocks are counted modulo 2^128, as OpenSSL's counter mode does; what goes past a stream's end is not seen."""
    counts = np.array([1000, 37])
    found = KeyedStreams([bytes(32), bytes([7] * 32)]).uniform(2**31 - 1, counts, nonce, np.dtype(np.int32))
    assert found.dtype == np.int32
    assert np.array_equal(found[:1000], FieldStream(bytes(32), nonce).uniform(2**31 - 1, 1000))
    assert np.array_equal(found[1000:], FieldStream(bytes([7] * 32), nonce).uniform(2**31 - 1, 37))


def test_unfit_input_is_refused() -> None:
    """Keys of another length and counts for other keys raise; no key is in a message or shown."""
    with pytest.raises(InputError, match="keys must have 32 bytes each; found 31"):
        KeyedStreams([bytes(32), bytes(31)])
    some = KeyedStreams([bytes(range(32))])
    with pytest.raises(InputError, match="counts must be given for the 1 keys; found 2"):
        some.uniform(11, np.array([1, 2]), bytes(16))
    assert repr(some) == "KeyedStreams(<1 secret keys>)"


@given(keys, nonces, st.sampled_from(MODULI), st.integers(0, 70))
def test_each_seed_gives_the_words_of_shake_that_are_in_range(
    seeds: list[bytes], nonce: bytes, modulus: int, count: int
) -> None:
    """SHAKE-128 of seed and nonce, cut into words whose high bits are dropped; words outside the range are left out."""
    found = SeededStreams(seeds).uniform(modulus, count, nonce)
    word, mask = word_of(modulus)
    expected = []
    for seed in seeds:
        words = np.frombuffer(shake_128(seed + nonce).digest(word.itemsize * 64 * (count + 8)), dtype=word) & mask
        expected.append(words[words < modulus][:count].astype(np.int64))
    assert np.array_equal(found, np.array(expected).reshape(len(seeds), count))
    assert ((found >= 0) & (found < modulus)).all()


def test_seeds_are_checked_and_not_shown() -> None:
    """Seeds of another length raise; no seed is shown."""
    with pytest.raises(InputError, match="seeds must have 32 bytes each; found 16"):
        SeededStreams([bytes(16)])
    assert repr(SeededStreams([bytes(32)])) == "SeededStreams(<1 secret seeds>)"
    assert SeededStreams([]).uniform(11, 3, bytes(16)).shape == (0, 3)
    assert SeededStreams([bytes(32)]).uniform(11, 3, bytes(16), np.dtype(np.int32)).dtype == np.int32
