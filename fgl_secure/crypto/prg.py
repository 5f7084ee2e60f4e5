"""A stream cipher that yields uniform field elements."""

from __future__ import annotations

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from fgl_secure.errors import InputError

KEY_BYTES = 32


class FieldStream:
    """AES-256 in counter mode, cut into words and rejection-sampled below a modulus.

    Taking a word modulo p instead would favour small elements (for 4-bit words and p = 11 two masked secrets would
    differ by a total variation of up to .3125), so words outside the field are thrown away and never folded back.

    Args:
        key: 32 secret bytes, used for one stream only: the counter starts at zero.
    """

    __slots__ = ("_encryptor",)

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise InputError(f"key must have {KEY_BYTES} bytes; found {len(key)}")
        self._encryptor = Cipher(algorithms.AES256(key), modes.CTR(bytes(16))).encryptor()

    def __repr__(self) -> str:
        return "FieldStream(key=<secret>)"

    def uniform(self, modulus: int, count: int) -> NDArray[np.int64]:
        """Draws the next elements of the stream.

        Args:
            modulus: size of the range, 1 to 2^63; it need not be prime.
            count: how many elements, 0 or more.

        Returns:
            int64 [count], independent and uniform on 0 .. modulus - 1.
        """
        if not 1 <= modulus <= 2**63:
            raise InputError(f"modulus must lie in 1..2^63; found {modulus}")
        out = np.empty(count, dtype=np.int64)
        filled = 0
        while filled < count:
            accepted = self._accepted_words(modulus, count - filled)[: count - filled]
            out[filled : filled + len(accepted)] = accepted
            filled += len(accepted)
        return out

    def _accepted_words(self, modulus: int, wanted: int) -> NDArray[np.int64]:
        bits = (modulus - 1).bit_length()
        word = np.dtype(f"<u{next(size for size in (1, 2, 4, 8) if 8 * size >= bits)}")
        # 2^bits / modulus words are needed per element on average; a few more make a second pass rare.
        draws = int(wanted * (2**bits / modulus) * 1.02) + 16
        raw = np.frombuffer(self._encryptor.update(bytes(draws * word.itemsize)), dtype=word)
        words: NDArray[np.unsignedinteger] = raw & word.type(2**bits - 1)
        accepted = words if 2**bits == modulus else words[words < modulus]
        return np.asarray(accepted, dtype=np.int64)
