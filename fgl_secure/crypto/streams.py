"""Many stream ciphers under many keys, read together."""

from __future__ import annotations

from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from fgl_secure.crypto import aes_instructions
from fgl_secure.crypto.prg import KEY_BYTES, FieldStream, word_of
from fgl_secure.errors import InputError
from fgl_secure.threads import Thread, parallel, slice_of


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
        if aes_instructions.available():
            words, rejected = aes_instructions.write_words(self._keys, nonce, counts, word, mask, modulus)
        else:
            words = _write_streams(self._keys, nonce, counts * word.itemsize).view(word)
            rejected = _masked(words, mask, np.uint64(modulus))
        kind = np.dtype(dtype or np.int64)
        out: NDArray[Any] = words.view(kind) if kind.itemsize == word.itemsize else words.astype(kind)
        if rejected:
            self._replace_rejected(words, modulus, counts, nonce, out)
        return out

    def _replace_rejected(
        self, words: NDArray[Any], modulus: int, counts: NDArray[np.int64], nonce: bytes, out: NDArray[Any]
    ) -> None:
        """In streams in which a word was rejected the words behind it move up, and the stream is read on."""
        ends = np.cumsum(counts)
        rejected = np.flatnonzero(words >= modulus)
        streams, lacking = np.unique(np.searchsorted(ends, rejected, side="right"), return_counts=True)
        for stream, missing in zip(streams.tolist(), lacking.tolist(), strict=True):
            count, key = int(counts[stream]), self._keys[stream].tobytes()
            own = slice(int(ends[stream]) - count, int(ends[stream]))
            behind = FieldStream(key, nonce, past=count * words.itemsize).uniform(modulus, missing)
            kept = words[own][words[own] < modulus]
            out[own] = np.concatenate([each.astype(out.dtype) for each in (kept, behind)])


def _write_streams(keys: NDArray[np.uint8], nonce: bytes, sizes: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Return the beginnings of the key streams of some keys from one counter block on.

    Args:
        keys: uint8 [s, 32], secret.
        nonce: 16 bytes, the block that each stream starts from; blocks are counted modulo 2^128.
        sizes: int64 [s], bytes of each.

    Returns:
        uint8 [sum of sizes], one stream behind the other.
    """
    out = np.empty(int(sizes.sum()), dtype=np.uint8)
    ends = np.cumsum(sizes).tolist()
    for key, size, end in zip(keys, sizes.tolist(), ends, strict=True):
        stream = Cipher(algorithms.AES256(key.tobytes()), modes.CTR(nonce)).encryptor().update(bytes(size))
        out[end - size : end] = np.frombuffer(stream, dtype=np.uint8)
    return out


@parallel
def _masked(words: NDArray[Any], mask: Any, modulus: Any, thread: Thread) -> int:
    """Masks words where they are; says how many of them lie outside the range."""
    rejected, words = 0, words[slice_of(len(words), thread)]
    for i in range(len(words)):
        masked = words[i] & mask
        words[i] = masked
        rejected += np.uint64(masked) >= modulus
    return rejected
