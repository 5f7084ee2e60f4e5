"""Key streams as uniform field elements, under one key or many, and the rings that masked vectors are added up in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from fgl_secure.crypto import aes_instructions
from fgl_secure.crypto.aes_instructions import add_words
from fgl_secure.errors import InputError, MalformedMessageError
from fgl_secure.threads import Thread, njit, parallel, slice_of
from fgl_secure.typing import Array

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
                # The words of a piece in which some are outside the field, and fresh ones for those.
                elements = np.empty(len(part), dtype=np.int64)
                filled = _accept(words, mask, np.uint64(modulus), elements)
                elements[filled:] = self.uniform(modulus, len(part) - filled)
                add_words(part, elements, np.int64(-1), modulus, negative)

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
        sign_array = np.array(signs, dtype=np.int64)
        redone = aes_instructions.add_streams(total, stacked, sign_array, word, mask, modulus).nonzero()[0].tolist()
        if redone:
            aes_instructions.add_streams(total, stacked[redone], -sign_array[redone], word, mask, modulus)  # undo these
    _add_one_by_one(total, [keys[index] for index in redone], [signs[index] for index in redone], modulus)


def _add_one_by_one(total: NDArray[np.int64], keys: Sequence[bytes], signs: Sequence[int], modulus: int) -> None:
    """The same, with words outside the field replaced by fresh ones."""
    if not keys:
        return
    streams, buffer = [FieldStream(key) for key in keys], bytearray(BUFFER_BYTES)
    for start in range(0, len(total), CHUNK):
        part = total[start : start + CHUNK]
        for stream, sign in zip(streams, signs, strict=True):
            stream.add_to(part, modulus, buffer, negative=sign < 0)


Elements = NDArray[np.int64]

MOST_BITS = 61
"""Of an element: two of them add up within 63."""
PIECE = 2**16
"""Elements whose bits are laid out at a time, a byte each: 4 MiB."""


@dataclass(frozen=True, slots=True)
class ModularRing:
    """The integers modulo a number, prime or not: masks are uniform over all of it, whatever it is.

    Attributes:
        modulus: 2 to 2^61.
        packed: whether an element takes as many bits on the wire as the modulus has, and not the least word of 8, 16,
            32 or 64 that holds it.
    """

    modulus: int
    packed: bool = False

    def __post_init__(self) -> None:
        if not 2 <= self.modulus <= 2**MOST_BITS:
            raise InputError(f"modulus must lie in 2..2^{MOST_BITS}; found {self.modulus}")

    @classmethod
    def least(cls, largest: int) -> ModularRing:
        """The smallest one of 2^k elements in which sums of magnitude up to `largest` do not wrap, packed.

        Raises:
            InputError: the magnitude is not in 1 .. 2^60 - 1.
        """
        if not 1 <= largest < 2 ** (MOST_BITS - 1):
            raise InputError(f"largest must lie in 1..2^{MOST_BITS - 1} - 1; found {largest}")
        return cls(2 ** (2 * largest).bit_length(), packed=True)

    @property
    def bits(self) -> int:
        """Of an element."""
        return (self.modulus - 1).bit_length()

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of a field of elements as it travels."""
        return np.dtype(np.uint8) if self.packed else word_of(self.modulus)[0]

    def entries(self, length: int) -> int:
        """Entries of that type in which so many elements travel."""
        return -(-length * self.bits // 8) if self.packed else length

    def add(self, a: Elements, b: Elements) -> Elements:
        """The sum of elements, with broadcasting: int64."""
        total: Elements = a + b
        total -= np.where(total >= self.modulus, self.modulus, 0)
        return total

    def write(self, values: Elements) -> Array:
        """Elements [..., n] as they travel, [..., entries(n)]."""
        if not self.packed:
            return values.view(self.dtype) if self.dtype.itemsize == 8 else values.astype(self.dtype)  # of int64
        out = np.zeros((*values.shape[:-1], self.entries(values.shape[-1])), dtype=np.uint8)
        for place in np.ndindex(values.shape[:-1]):
            out[place] = _pack_bits(values[place], self.bits)
        return out

    def read(self, array: Array, length: int) -> Elements:
        """The elements that have travelled: int64 [..., length].

        Args:
            array: [..., entries(length)], of the type in which they travel.
            length: how many.

        Raises:
            MalformedMessageError: a value is no element, or the bits behind the last one are not all 0.
        """
        if not self.packed:
            self._check(array)
            return array.view(np.int64) if array.itemsize == 8 else array.astype(np.int64)
        values = np.zeros((*array.shape[:-1], length), dtype=np.int64)
        if any(_unpack_bits(array[place], self.bits, values[place]) for place in np.ndindex(array.shape[:-1])):
            raise MalformedMessageError("bits behind the last element must be 0; they are not")
        self._check(values)
        return values

    def _check(self, values: Array) -> None:
        if values.size and int(values.max()) >= self.modulus:
            raise MalformedMessageError(f"elements must be below {self.modulus}; at least one is not")


def _pieces(length: int) -> Iterator[slice]:
    """Pieces of a row whose bits, of any number an element, fill whole bytes; except for the last one."""
    return (slice(start, min(start + PIECE, length)) for start in range(0, length, PIECE))


def _pack_bits(row: Elements, bits: int) -> Array:
    """A row's elements one behind the other, lowest bit first: uint8."""
    parts = [
        np.packbits(
            np.unpackbits(row[piece].astype("<i8").view(np.uint8).reshape(-1, 8), axis=1, bitorder="little")[:, :bits],
            bitorder="little",
        )
        for piece in _pieces(len(row))
    ]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.uint8)


def _unpack_bits(packed: Array, bits: int, out: Elements) -> bool:
    """Reads what `_pack_bits` wrote; says whether a bit behind the last element is not 0."""
    beyond = False
    for piece in _pieces(len(out)):
        count = piece.stop - piece.start
        first = piece.start * bits // 8
        flags = np.unpackbits(packed[first : first + -(-count * bits // 8)], bitorder="little")
        beyond = beyond or bool(flags[count * bits :].any())
        padded = np.zeros((count, 64), dtype=np.uint8)
        padded[:, :bits] = flags[: count * bits].reshape(count, bits)
        out[piece] = np.packbits(padded, axis=1, bitorder="little").view("<i8")[:, 0]
    return beyond


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
            rejected = _mask_words(words, mask, np.uint64(modulus))
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
            span = slice(int(ends[stream]) - count, int(ends[stream]))
            behind = FieldStream(key, nonce, past=count * words.itemsize).uniform(modulus, missing)
            remaining = words[span][words[span] < modulus]
            out[span] = np.concatenate([item.astype(out.dtype) for item in (remaining, behind)])


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
def _mask_words(words: NDArray[Any], mask: Any, modulus: Any, thread: Thread) -> int:
    """Masks words where they are; says how many of them lie outside the range."""
    rejected, words = 0, words[slice_of(len(words), thread)]
    for i in range(len(words)):
        masked = words[i] & mask
        words[i] = masked
        rejected += np.uint64(masked) >= modulus
    return rejected
