"""AES-256 in counter mode under many keys by a cipher object per key, and masks added in place.

Processors with AES instructions derive the same bits faster (`aes_instructions`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from fgl_secure.jit import njit

Bytes = NDArray[np.uint8]
Ids = NDArray[np.int64]
Elements = NDArray[np.int64]

PIECE = 2**13
"""Elements that all streams pass over before the next: they fill an eighth of a typical second-level cache."""
STEP = 2**13
"""Bytes of a stream that are made at a time: with as many zeros they stay in the first-level cache."""
MOST_TASKS = 16
"""Runs of pieces, each with a cipher of its own, so that a core that lags gets less."""


def write_streams(keys: Bytes, nonce: bytes, sizes: Ids) -> Bytes:
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


@njit(boundscheck=False)
def add_words(total: Elements, words: NDArray[Any], mask: Any, modulus: int, negative: bool) -> int:
    """total[i] += or -= words[i] & mask, corrected once; says how many words lie outside the field.

    Masked words are below 2 * modulus, so that the other sign takes everything back, whatever the words.
    """
    rejected = 0
    if negative:
        for i in range(total.size):
            word = np.int64(words[i] & mask)
            rejected += int(word >= modulus)
            value = total[i] - word
            total[i] = value + (modulus & (value >> 63))
    else:
        for i in range(total.size):
            word = np.int64(words[i] & mask)
            rejected += int(word >= modulus)
            value = total[i] - modulus + word
            total[i] = value + (modulus & (value >> 63))
    return rejected
