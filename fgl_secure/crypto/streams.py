"""Many stream ciphers under many keys, read together."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import shake_128
from typing import Any

import numba
import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from fgl_secure.crypto.prg import BLOCK_BYTES, KEY_BYTES, FieldStream, word_of
from fgl_secure.errors import InputError


class KeyedStreams:
    """AES-256 in counter mode under one key a party, cut into field elements as `FieldStream` does.

    The ciphers are kept between reads, as block ciphers: all streams of a read encrypt the same counter blocks, which
    are laid out once, and no cipher has to be told a nonce.

    Args:
        keys: secret keys of 32 bytes.
    """

    __slots__ = ("_encryptors", "_keys")

    def __init__(self, keys: Sequence[bytes]) -> None:
        wrong = next((key for key in keys if len(key) != KEY_BYTES), None)
        if wrong is not None:
            raise InputError(f"keys must have {KEY_BYTES} bytes each; found {len(wrong)}")
        self._keys = tuple(keys)
        mode = modes.ECB()  # noqa: S305  # of counter blocks, none of them twice: that is counter mode
        self._encryptors = [Cipher(algorithms.AES256(key), mode).encryptor() for key in self._keys]

    def __repr__(self) -> str:
        return f"KeyedStreams(<{len(self._keys)} secret keys>)"

    def uniform(
        self, modulus: int, counts: NDArray[np.int64], nonce: bytes, dtype: np.dtype[Any] | None = None
    ) -> NDArray[Any]:
        """Reads the first elements of every stream under one nonce.

        Args:
            modulus: size of the range, 1 to 2^63.
            counts: int64 [keys], how many elements to read from each stream.
            nonce: 16 bytes, the counter block that each stream starts from; no two reads under the same keys may
                start less than their own length apart.
            dtype: of the result, a signed type that holds modulus - 1; int64 unless given.

        Returns:
            [sum of counts], the elements of the first stream, then of the second, and so on; uniform on
            0 .. modulus - 1.
        """
        if len(counts) != len(self._keys):
            raise InputError(f"counts must be given for the {len(self._keys)} keys; found {len(counts)}")
        word, mask = word_of(modulus)
        total = int(counts.sum())
        buffer = bytearray(total * word.itemsize + 2 * BLOCK_BYTES)
        self._fill(buffer, (counts * word.itemsize).tolist(), nonce)
        words = np.frombuffer(buffer, dtype=word, count=total)
        out = np.empty(total, dtype=dtype or np.int64)
        if _masked(words, mask, np.uint64(modulus), out):
            self._replace_streams_with_rejections(words, mask, modulus, counts, nonce, out)
        return out

    def _fill(self, buffer: bytearray, sizes: list[int], nonce: bytes) -> None:
        """Writes one stream behind the other; what whole blocks hold beyond a stream's end is written over."""
        place, start = memoryview(buffer), 0
        blocks = counter_blocks(nonce, -(-max(sizes, default=0) // BLOCK_BYTES))
        for encryptor, size in zip(self._encryptors, sizes, strict=True):
            if size:
                encryptor.update_into(blocks[: -(-size // BLOCK_BYTES) * BLOCK_BYTES], place[start:])
                start += size

    def _replace_streams_with_rejections(
        self, words: NDArray[Any], mask: Any, modulus: int, counts: NDArray[np.int64], nonce: bytes, out: NDArray[Any]
    ) -> None:
        """Streams in which a word was rejected are read again by the class that moves up the words behind it."""
        ends = np.cumsum(counts)
        rejected = np.flatnonzero((words & mask) >= modulus)
        for stream in np.unique(np.searchsorted(ends, rejected, side="right")):
            count = int(counts[stream])
            out[ends[stream] - count : ends[stream]] = FieldStream(self._keys[stream], nonce).uniform(modulus, count)


class SeededStreams:
    """SHAKE-128 (FIPS 202) of a seed and a nonce, a stream a seed, cut into field elements.

    For seeds that are used once: a hash needs no key to be set up, which costs AES more than a short stream does.

    Args:
        seeds: secret, of 32 bytes.
    """

    __slots__ = ("_seeds",)

    def __init__(self, seeds: Sequence[bytes]) -> None:
        wrong = next((seed for seed in seeds if len(seed) != KEY_BYTES), None)
        if wrong is not None:
            raise InputError(f"seeds must have {KEY_BYTES} bytes each; found {len(wrong)}")
        self._seeds = tuple(seeds)

    def __repr__(self) -> str:
        return f"SeededStreams(<{len(self._seeds)} secret seeds>)"

    def uniform(self, modulus: int, count: int, nonce: bytes, dtype: np.dtype[Any] | None = None) -> NDArray[Any]:
        """Reads the first elements of every stream under one nonce.

        Args:
            modulus: size of the range, 1 to 2^63.
            count: how many elements to read from each stream.
            nonce: names the read; other streams under other nonces.
            dtype: of the result, a signed type that holds modulus - 1; int64 unless given.

        Returns:
            [seeds, count], uniform on 0 .. modulus - 1.
        """
        word, mask = word_of(modulus)
        size = count * word.itemsize
        read = b"".join([shake_128(seed + nonce).digest(size) for seed in self._seeds])
        words = np.frombuffer(read, dtype=word)
        out = np.empty(len(words), dtype=dtype or np.int64)
        if len(words) and _masked(words, mask, np.uint64(modulus), out):
            rejected = np.flatnonzero((words & mask) >= modulus) // count
            for stream in np.unique(rejected).tolist():
                found = self._without_rejections(self._seeds[stream] + nonce, word, int(mask), modulus, count)
                out[stream * count : (stream + 1) * count] = found
        return out.reshape(len(self._seeds), count)

    @staticmethod
    def _without_rejections(name: bytes, word: np.dtype[Any], mask: int, modulus: int, count: int) -> NDArray[Any]:
        """A stream in which the words behind a rejected one move up: read further until there are enough."""
        length = count
        while True:
            length *= 2
            words = np.frombuffer(shake_128(name).digest(length * word.itemsize), dtype=word) & word.type(mask)
            kept = words[words < modulus]
            if len(kept) >= count:
                found: NDArray[Any] = kept[:count]
                return found


def counter_blocks(nonce: bytes, count: int) -> memoryview:
    """The blocks that counter mode encrypts from a nonce on: 16 bytes each, big-endian, modulo 2^128."""
    high, low = (np.uint64(int.from_bytes(half, "big")) for half in (nonce[:8], nonce[8:]))
    blocks = np.empty((count, 2), dtype=">u8")
    blocks[:, 1] = low + np.arange(count, dtype=np.uint64)
    blocks[:, 0] = high + (blocks[:, 1] < low)
    return memoryview(blocks.tobytes())


@numba.njit(parallel=True, cache=True, boundscheck=False)  # type: ignore[untyped-decorator]  # numba ships no types
def _masked(words: NDArray[Any], mask: Any, modulus: Any, out: NDArray[Any]) -> int:
    """out[i] = words[i] & mask; says how many of them lie outside the range."""
    rejected = 0
    for i in numba.prange(len(words)):
        masked = np.uint64(words[i] & mask)
        out[i] = masked
        rejected += masked >= modulus
    return rejected
