"""The stream of field elements: the standard's cipher, cut into exactly uniform elements."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given
from hypothesis import strategies as st

from fgl_secure.algebra import MERSENNE_31
from fgl_secure.crypto import FieldStream, streams
from tests import vectors
from tests.enumeration import Secret, View, largest_distance, total_variation

KEY = bytes(range(32))
NIST = vectors.load("aes_256_ctr")
CASES = vectors.load("field_stream")["cases"]
ANSWERS = [(case["key"], int(p), answer) for case in CASES for p, answer in case["elements"].items()]

ALL_BYTES = bytes(range(256))  # every 8-bit word once, hence every 4-bit word 16 times
FOUR_BIT_WORDS = np.arange(16)


class EveryWord:
    """A cipher whose keystream runs through all byte values in turn."""

    def __init__(self, *_: object) -> None:
        self._position = 0

    def encryptor(self) -> EveryWord:
        return self

    def update(self, data: bytes) -> bytes:
        start, self._position = self._position, self._position + len(data)
        return bytes(ALL_BYTES[i % 256] for i in range(start, self._position))

    def update_into(self, data: bytes, buffer: bytearray) -> None:
        buffer[: len(data)] = self.update(data)


def test_cipher_answers_as_nist_published() -> None:
    """AES-256 in counter mode, made as the stream makes it, gives the standard's ciphertext."""
    key, counter = bytes.fromhex(NIST["key"]), bytes.fromhex(NIST["counter"])
    encryptor = Cipher(algorithms.AES256(key), modes.CTR(counter)).encryptor()
    assert encryptor.update(bytes.fromhex(NIST["plaintext"])).hex() == NIST["ciphertext"]


@pytest.mark.parametrize("case", CASES, ids=[case["key"][:8] for case in CASES])
def test_keystream_starts_at_counter_zero(case: dict[str, str]) -> None:
    """A stream of bytes is the cipher's keystream from counter zero."""
    first = FieldStream(bytes.fromhex(case["key"])).uniform(256, 16)
    assert bytes(first.tolist()).hex() == case["first_block"]


@pytest.mark.parametrize(("key", "modulus", "answer"), ANSWERS)
def test_elements_are_the_accepted_words_of_the_keystream(key: str, modulus: int, answer: list[int]) -> None:
    """The elements are the little-endian masked words of the keystream that lie below the modulus, in order."""
    assert FieldStream(bytes.fromhex(key)).uniform(modulus, len(answer)).tolist() == answer


@pytest.mark.parametrize("modulus", range(1, 17))
def test_every_element_is_accepted_equally_often(modulus: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over all words of a keystream each element below the modulus comes out equally often: exactly uniform."""
    monkeypatch.setattr(streams, "Cipher", EveryWord)
    words_per_element = 256 // 2 ** (modulus - 1).bit_length()
    drawn = FieldStream(KEY).uniform(modulus, words_per_element * modulus)
    assert np.bincount(drawn, minlength=modulus).tolist() == [words_per_element] * modulus


def test_remainder_of_a_word_is_not_uniform() -> None:
    """The broken twin, a 4-bit word modulo 11, is 15/88 away from uniform and leaks a masked secret by 5/16."""
    masks = FOUR_BIT_WORDS % 11

    def masked(secret: Secret) -> View:
        return (masks + secret[0]) % 11

    assert total_variation(masks, np.arange(11)) == Fraction(15, 88)
    assert largest_distance(masked, [(h,) for h in range(11)]) == Fraction(5, 16)


def test_key_stays_out_of_repr() -> None:
    """Neither the bytes nor the hex digits of the key appear in the stream's repr."""
    shown = repr(FieldStream(KEY))
    assert KEY.hex()[:8] not in shown
    assert repr(KEY)[2:10] not in shown
    assert "secret" in shown


@given(
    st.sampled_from([1, 2, 3, 11, 16, 17, 251, 257, 65537, MERSENNE_31, 5 * 2**58, 2**61 - 1, 2**62 - 57]),
    st.integers(0, 3000),
    st.booleans(),
)
def test_adding_a_stream_adds_its_elements(modulus: int, count: int, negative: bool) -> None:
    """What is added, or taken away, are the elements that a draw gives, whether or not words are rejected."""
    before = FieldStream(KEY[::-1]).uniform(modulus, count)
    total, drawn = before.copy(), FieldStream(KEY).uniform(modulus, count)
    FieldStream(KEY).add_to(total, modulus, bytearray(streams.BUFFER_BYTES), negative=negative)
    sign = -1 if negative else 1
    assert total.tolist() == [
        (a + sign * b) % modulus for a, b in zip(before.tolist(), drawn.tolist(), strict=True)
    ]  # fmt: skip


@pytest.mark.parametrize("modulus", range(1, 17))
def test_every_element_is_added_equally_often(modulus: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over all words of a key stream each element comes to a sum of zero equally often: exactly uniform."""
    monkeypatch.setattr(streams, "Cipher", EveryWord)
    words_per_element = 256 // 2 ** (modulus - 1).bit_length()
    total = np.zeros(words_per_element * modulus, dtype=np.int64)
    FieldStream(KEY).add_to(total, modulus, bytearray(streams.BUFFER_BYTES), negative=False)
    assert np.bincount(total, minlength=modulus).tolist() == [words_per_element] * modulus


@pytest.mark.parametrize("sign", [1, -1])
def test_a_mask_goes_on_through_a_long_vector(sign: int) -> None:
    """A mask over several pieces is one stream from its start to its end, and no piece of it comes again."""
    key, modulus, count = bytes(range(32)), 2**61 - 1, 2 * streams.CHUNK + 1000
    total = np.zeros(count, dtype=np.int64)
    streams.add_masks(total, [key], [sign], modulus)
    expected = FieldStream(key).uniform(modulus, count)
    assert np.array_equal(total, expected if sign > 0 else (modulus - expected) % modulus)
    assert len(np.unique(total)) == count


def test_a_mask_with_words_outside_the_field_goes_on_through_a_long_vector() -> None:
    """Where masks are added one by one, since words are replaced, no piece of one comes again either."""
    total = np.zeros(2 * streams.CHUNK, dtype=np.int64)
    streams.add_masks(total, [bytes(range(32))], [1], 65_521)
    first, second = np.split(total, 2)
    assert (first == second).mean() < 0.001  # by chance 1 in 65,521


@pytest.mark.usefixtures("where_from")
@pytest.mark.parametrize("modulus", [13, 65_521, MERSENNE_31, 2**61 - 1])
@given(st.integers(0, 2**32), st.integers(0, 12), st.sampled_from([0, 1, 1000, 2000, 20_001]))
def test_many_masks_are_added_as_one_by_one(modulus: int, seed: int, count: int, length: int) -> None:
    """Each adds what its key stream gives alone, also where now and then a word is no element, as modulo 65,521."""
    rng = np.random.default_rng(seed)
    keys, signs = [rng.bytes(32) for _ in range(count)], rng.choice([1, -1], count).tolist()
    before = rng.integers(0, modulus, length)
    total, expected = before.copy(), before.astype(object)
    streams.add_masks(total, keys, signs, modulus)
    for key, sign in zip(keys, signs, strict=True):
        expected = (expected + sign * FieldStream(key).uniform(modulus, length).astype(object)) % modulus
    assert total.tolist() == expected.tolist()
