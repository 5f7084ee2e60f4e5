"""A stream cipher that yields uniform field elements."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from fgl_secure.crypto import aes_instructions
from fgl_secure.crypto.aes_instructions import add_words
from fgl_secure.errors import InputError
from fgl_secure.jit import njit

KEY_BYTES = 32
CHUNK_BYTES = 2**19
"""Keystream made at a time: it is cut into elements while it is still in cache."""
BLOCK_BYTES = 16
BUFFER_BYTES = CHUNK_BYTES + BLOCK_BYTES

_ZEROS = memoryview(bytes(CHUNK_BYTES))


class FieldStream:
    """AES-256 in counter mode, cut into words and rejection-sampled below a modulus.

    Taking a word modulo p instead would favour small elements (for 4-bit words and p = 11 by a total variation
    of .3125), so words outside the field are thrown away and never folded back.

    Args:
        key: 32 secret bytes, used for one stream only unless every stream has a nonce of its own.
        nonce: 16 bytes, the counter block that the stream starts from.
        past: bytes of the stream that were read before, and are passed over.
    """

    __slots__ = ("_encryptor",)

    def __init__(self, key: bytes, nonce: bytes = bytes(BLOCK_BYTES), past: int = 0) -> None:
        for name, value, size in (("key", key, KEY_BYTES), ("nonce", nonce, BLOCK_BYTES)):
            if len(value) != size:
                raise InputError(f"{name} must have {size} bytes; found {len(value)}")
        blocks, rest = divmod(past, BLOCK_BYTES)
        start = (int.from_bytes(nonce, "big") + blocks) % 2 ** (8 * BLOCK_BYTES)
        counter = modes.CTR(start.to_bytes(BLOCK_BYTES, "big"))
        self._encryptor = Cipher(algorithms.AES256(key), counter).encryptor()
        self._encryptor.update(bytes(rest))

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
            filled += self._fill(modulus, out[filled:])
        return out

    def add_to(self, total: NDArray[np.int64], modulus: int, buffer: bytearray, *, negative: bool) -> None:
        """Adds the next elements of the stream to as many elements, or takes them away, without a copy of them.

        Args:
            total: int64 [count], elements; changed in place.
            modulus: of the field, below 2^62.
            buffer: BUFFER_BYTES that hold the key stream for a moment; several streams read by turns share one.
            negative: whether to take away.
        """
        if not 1 <= modulus < 2**62:
            raise InputError(f"modulus must lie in 1..2^62 - 1; found {modulus}")
        word, mask = word_of(modulus)
        for start in range(0, len(total), CHUNK_BYTES // word.itemsize):
            part = total[start : start + CHUNK_BYTES // word.itemsize]
            size = len(part) * word.itemsize
            self._encryptor.update_into(_ZEROS[:size], buffer)
            words = np.frombuffer(buffer, dtype=word, count=len(part))
            if add_words(part, words, mask, modulus, negative):
                add_words(part, words, mask, modulus, not negative)  # take all of it back
                self._add_accepted(part, words, mask, modulus, negative)

    def _add_accepted(self, total: NDArray[np.int64], words: Any, mask: Any, modulus: int, negative: bool) -> None:
        """The words of a piece in which some are outside the field, and fresh ones for those."""
        elements = np.empty(len(total), dtype=np.int64)
        filled = _accept(words, mask, np.uint64(modulus), elements)
        elements[filled:] = self.uniform(modulus, len(total) - filled)
        add_words(total, elements, np.int64(-1), modulus, negative)

    def _fill(self, modulus: int, out: NDArray[np.int64]) -> int:
        """Writes accepted words to the front of `out`, fewer than it holds now and then; says how many.

        What the cipher gives beyond the last element is thrown away, so a stream repeats only for equal draws.
        """
        word, mask = word_of(modulus)
        bits = (modulus - 1).bit_length()
        # 2^bits / modulus words are needed per element on average; a few more make a second pass rare.
        left = (int(len(out) * (2**bits / modulus) * 1.02) + 16) * word.itemsize
        buffer = bytearray(min(left, CHUNK_BYTES) + BLOCK_BYTES)
        keystream, filled = memoryview(buffer), 0
        while left:
            size = min(left, CHUNK_BYTES)
            self._encryptor.update_into(_ZEROS[:size], buffer)
            words = np.frombuffer(keystream[:size], dtype=word)
            filled += _accept(words, mask, np.uint64(modulus), out[filled:])
            left -= size
        return filled


@cache
def word_of(modulus: int) -> tuple[np.dtype[Any], Any]:
    """The unsigned words that a key stream is cut into for a range, and the mask of the bits that count."""
    bits = (modulus - 1).bit_length()
    word = np.dtype(f"<u{next(size for size in (1, 2, 4, 8) if 8 * size >= bits)}")
    return word, word.type(2**bits - 1)


@njit(boundscheck=False)
def _accept(words: NDArray[Any], mask: Any, modulus: Any, out: NDArray[np.int64]) -> int:
    """Writes the masked words below the modulus to the front of `out`, in order, as many as fit; says how many."""
    if len(words) <= len(out):  # in large fields hardly a word is rejected, and copying all of them takes wide steps
        rejected = 0
        for i in range(len(words)):
            masked = np.uint64(words[i] & mask)
            out[i] = masked
            rejected += masked >= modulus
        if rejected == 0:
            return len(words)
    filled = 0
    for i in range(len(words)):
        if filled == len(out):
            break
        masked = np.uint64(words[i] & mask)
        out[filled] = masked
        filled += masked < modulus  # writes over a rejected word next time, without a branch
    return filled


FEW = 0.5
"""Words outside the field in a mask, on average: where there are fewer, masks are added as if there were none."""
CHUNK = 2**17
"""Elements to which all masks are added before the next; both sides of a mask must draw it in pieces of one length."""


def add_masks(total: NDArray[np.int64], keys: Sequence[bytes], signs: Sequence[int], modulus: int) -> None:
    """Adds the masks of some keys to elements, or takes them away.

    Args:
        total: int64 [length], elements; changed in place.
        keys: 32 secret bytes each, used for this one mask.
        signs: 1 or -1 for each key.
        modulus: of the field.
    """
    word, mask = word_of(modulus)
    accepted = modulus / (int(mask) + 1)
    redone = list(range(len(keys)))
    if len(keys) and len(total) * (1 - accepted) < FEW and aes_instructions.available():
        stacked = np.frombuffer(b"".join(keys), dtype=np.uint8).reshape(len(keys), KEY_BYTES)
        which = np.array(signs, dtype=np.int64)
        redone = aes_instructions.add_streams(total, stacked, which, word, mask, modulus).nonzero()[0].tolist()
        if redone:
            aes_instructions.add_streams(total, stacked[redone], -which[redone], word, mask, modulus)  # undo these
    _add_one_by_one(total, [keys[at] for at in redone], [signs[at] for at in redone], modulus)


def _add_one_by_one(total: NDArray[np.int64], keys: Sequence[bytes], signs: Sequence[int], modulus: int) -> None:
    """The same, with words outside the field replaced by fresh ones."""
    if not keys:
        return
    streams, buffer = [FieldStream(key) for key in keys], bytearray(BUFFER_BYTES)
    for start in range(0, len(total), CHUNK):
        part = total[start : start + CHUNK]
        for stream, sign in zip(streams, signs, strict=True):
            stream.add_to(part, modulus, buffer, negative=sign < 0)
