"""Many stream ciphers under many keys, read together."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from fgl_secure.crypto.counter_mode import write_streams
from fgl_secure.crypto.prg import KEY_BYTES, FieldStream, word_of
from fgl_secure.errors import InputError
from fgl_secure.threads import parallel


class KeyedStreams:
    """AES-256 in counter mode under many keys, cut into field elements as `FieldStream` does.

    Args:
        keys: uint8 [s, 32], secret.
    """

    __slots__ = ("_keys",)

    def __init__(self, keys: NDArray[np.uint8]) -> None:
        if keys.dtype != np.uint8 or keys.shape[1:] != (KEY_BYTES,):
            raise InputError(f"keys must be uint8 [s, {KEY_BYTES}]; found {keys.dtype} {list(keys.shape)}")
        self._keys = keys

    def __repr__(self) -> str:
        return f"KeyedStreams(<{len(self._keys)} secret keys>)"

    def uniform(
        self, modulus: int, counts: NDArray[np.int64], nonce: bytes, dtype: np.dtype[Any] | None = None
    ) -> NDArray[Any]:
        """Reads the first elements of every stream under one nonce.

        Args:
            modulus: size of the range, 1 to 2^63.
            counts: int64 [s], how many elements to read from each stream.
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
        words, kind = write_streams(self._keys, nonce, counts * word.itemsize).view(word), np.dtype(dtype or np.int64)
        out = words.view(kind) if kind.itemsize == word.itemsize else np.empty(len(words), dtype=kind)
        if _masked(words, mask, np.uint64(modulus), out):
            self._replace_streams_with_rejections(words, mask, modulus, counts, nonce, out)
        return out

    def _replace_streams_with_rejections(
        self, words: NDArray[Any], mask: Any, modulus: int, counts: NDArray[np.int64], nonce: bytes, out: NDArray[Any]
    ) -> None:
        """Streams in which a word was rejected are read again by the class that moves up the words behind it."""
        ends = np.cumsum(counts)
        rejected = np.flatnonzero((words & mask) >= modulus)  # masked or not yet
        for stream in np.unique(np.searchsorted(ends, rejected, side="right")).tolist():
            count, key = int(counts[stream]), self._keys[stream].tobytes()
            out[ends[stream] - count : ends[stream]] = FieldStream(key, nonce).uniform(modulus, count)


@parallel
def _masked(words: NDArray[Any], mask: Any, modulus: Any, out: NDArray[Any]) -> int:
    """out[i] = words[i] & mask, where the words are or elsewhere; says how many of them lie outside the range."""
    rejected = 0
    for i in numba.prange(len(words)):
        masked = np.uint64(words[i] & mask)
        out[i] = masked
        rejected += masked >= modulus
    return rejected
