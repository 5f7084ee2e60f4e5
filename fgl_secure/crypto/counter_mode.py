"""AES-256 in counter mode under many keys, in one compiled loop.

From Python a cipher takes microseconds to set up. Where each message has a key of its own and is short, that would be
nearly all of the time. Processors that have instructions for AES make a key schedule in less time than a library is
called in (`aes_instructions`). On others the loop calls the OpenSSL that Python itself is linked with, by address;
where it isn't to be found (a Python that has it built in and hides it), ciphers are set up one by one. All three give
the same bits.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from fgl_secure.errors import ProtocolError
from fgl_secure.jit import njit
from fgl_secure.threads import Thread, parallel, range_of, read_only

Bytes = NDArray[np.uint8]
Ids = NDArray[np.int64]
Flags = NDArray[np.bool_]
Elements = NDArray[np.int64]

MOST_AT_ONCE = 2**30
"""Bytes that one call encrypts: OpenSSL counts them in an int."""
_POINTERS = 5

PIECE = 2**13
"""Elements that all streams pass over before the next: they fill an eighth of a typical second-level cache."""
STEP = 2**13
"""Bytes of a stream that are made at a time: with as many zeros they stay in the first-level cache."""
MOST_TASKS = 16
"""Runs of pieces, each with a cipher of its own, so that a core that lags gets less."""


def write_streams(keys: Bytes, nonce: bytes, sizes: Ids) -> Bytes:
    """The beginnings of the key streams of some keys from one counter block on.

    Args:
        keys: uint8 [s, 32], secret.
        nonce: 16 bytes, the block that each stream starts from; blocks are counted modulo 2^128.
        sizes: int64 [s], bytes of each.

    Returns:
        uint8 [sum of sizes], one stream behind the other.
    """
    out = np.zeros(int(sizes.sum()), dtype=np.uint8)
    linked = _linked()
    if linked is None:
        _one_by_one(keys, nonce, sizes, out)
        return out
    context = linked.new()
    if not context:
        raise MemoryError("OpenSSL found no room for a cipher")
    try:
        start = np.frombuffer(nonce, dtype=np.uint8)
        if not linked.initialise(context, linked.cipher, None, None, None) or not _in_one_loop(
            linked.address_of_initialise, linked.address_of_update, context,
            np.ascontiguousarray(keys), start, sizes, out, np.zeros(1, dtype=np.int32),
        ):  # fmt: skip
            raise ProtocolError("key streams must come from OpenSSL, which refused AES-256 in counter mode")
    finally:
        linked.free(context)  # and wipes the last key
    return out


def add_streams(total: Elements, keys: Bytes, signs: Ids, word: np.dtype[Any], mask: Any, modulus: int) -> Flags | None:
    """Adds the key streams of some keys, cut into words, to elements, or takes them away, on all cores.

    A piece of the elements stays in cache while all streams pass over it, and so does what is made of a stream at a
    time.

    Args:
        total: int64 [count], elements; changed in place.
        keys: uint8 [s, 32], secret.
        signs: int64 [s], 1 or -1.
        word: unsigned, of a power of two bytes; streams start from counter block 0.
        mask: of the bits of a word that count; what they hold is below twice the modulus.
        modulus: below 2^62.

    Returns:
        Bool [s], for which keys a word is no element: the sum has it all the same, and has to be taken back. None where
        OpenSSL's functions are not to be had, and nothing has changed.
    """
    linked = _linked()
    if linked is None:
        return None
    pieces = -(-len(total) // PIECE)
    tasks = max(min(pieces, MOST_TASKS), 1)
    contexts = np.array([linked.new() or 0 for _ in range(tasks)], dtype=np.int64)
    refused, off = np.zeros(tasks, dtype=np.bool_), np.zeros((tasks, len(keys)), dtype=np.bool_)
    try:
        if not contexts.all():
            raise MemoryError("OpenSSL found no room for a cipher")
        for context in contexts.tolist():
            refused[0] |= not linked.initialise(context, linked.cipher, None, None, None)
        _add_in_pieces(
            linked.address_of_initialise, linked.address_of_update, contexts, read_only(np.ascontiguousarray(keys)),
            signs, np.empty(0, dtype=word), mask, modulus, total, refused, off, work=len(total) * len(keys),
        )  # fmt: skip
    finally:
        for context in contexts.tolist():
            linked.free(context)
    if refused.any():
        raise ProtocolError("key streams must come from OpenSSL, which refused AES-256 in counter mode")
    return np.asarray(off.any(axis=0))


def _one_by_one(keys: Bytes, nonce: bytes, sizes: Ids, out: Bytes) -> None:
    """The same, with a cipher object for each key."""
    ends = np.cumsum(sizes).tolist()
    for key, size, end in zip(keys, sizes.tolist(), ends, strict=True):
        stream = Cipher(algorithms.AES256(key.tobytes()), modes.CTR(nonce)).encryptor().update(bytes(size))
        out[end - size : end] = np.frombuffer(stream, dtype=np.uint8)


class _Linked:
    """OpenSSL's functions, as the `_hashlib` of this Python has them.

    Raises:
        OSError: it is no file that can be opened, or AttributeError: it doesn't show them.
    """

    def __init__(self) -> None:
        import _hashlib  # noqa: PLC0415  # private, and missing from some builds

        library = ctypes.CDLL(_hashlib.__file__)
        self.new, self.free = library.EVP_CIPHER_CTX_new, library.EVP_CIPHER_CTX_free
        self.new.restype, self.free.argtypes = ctypes.c_void_p, (ctypes.c_void_p,)
        self.initialise, update = library.EVP_EncryptInit_ex, library.EVP_EncryptUpdate
        self.initialise.argtypes = (ctypes.c_void_p,) * _POINTERS
        library.EVP_aes_256_ctr.restype = ctypes.c_void_p
        self.cipher = library.EVP_aes_256_ctr()
        self.address_of_initialise, self.address_of_update = (
            ctypes.cast(each, ctypes.c_void_p).value for each in (self.initialise, update)
        )


@cache
def _linked() -> _Linked | None:
    """The functions; None where they are not to be had."""
    try:
        return _Linked()
    except (ImportError, AttributeError, OSError):
        return None


def _code(last: ir.Type) -> Callable[..., Any]:
    """Writes a call of a C function by its address: int function(void *, void *, void *, void *, last)."""

    def code(_: Any, builder: ir.IRBuilder, __: Any, values: Any) -> Any:
        pointer = ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.IntType(32), [pointer] * (_POINTERS - 1) + [last])
        passed = [builder.inttoptr(value, pointer) for value in values[1:_POINTERS]]
        final = builder.inttoptr if isinstance(last, ir.PointerType) else builder.trunc
        return builder.call(builder.inttoptr(values[0], kind.as_pointer()), [*passed, final(values[_POINTERS], last)])

    return code


_SIGNATURE = types.int32(*(types.int64,) * (_POINTERS + 1))


@intrinsic  # type: ignore[untyped-decorator]  # numba ships no types
def _initialise(_: Any, address: Any, context: Any, cipher: Any, engine: Any, key: Any, nonce: Any) -> Any:  # noqa: ARG001
    """EVP_EncryptInit_ex."""
    return _SIGNATURE, _code(ir.IntType(8).as_pointer())


@intrinsic  # type: ignore[untyped-decorator]  # as above
def _update(_: Any, address: Any, context: Any, out: Any, written: Any, read: Any, size: Any) -> Any:  # noqa: ARG001
    """EVP_EncryptUpdate."""
    return _SIGNATURE, _code(ir.IntType(32))


@njit(nogil=True, boundscheck=False)
def _in_one_loop(
    initialise: int, update: int, context: int, keys: Bytes, nonce: Bytes, sizes: Ids, out: Bytes, written: Any
) -> bool:
    """Encrypts the zeros of `out` where they are; False if OpenSSL refuses."""
    start = 0
    for i in range(len(sizes)):
        if sizes[i] == 0:
            continue
        if _initialise(initialise, context, 0, 0, keys[i].ctypes.data, nonce.ctypes.data) != 1:
            return False
        end = start + sizes[i]
        while start < end:
            size = min(end - start, MOST_AT_ONCE)
            place = out.ctypes.data + start
            if _update(update, context, place, written.ctypes.data, place, size) != 1:
                return False
            start += size
    return True


@parallel
def _add_in_pieces(
    initialise: int, update: int, contexts: Ids, keys: Bytes, signs: Ids, like: Any, mask: Any, modulus: int,
    total: Elements, refused: Any, off: Any, thread: Thread,
) -> None:  # fmt: skip
    """total[i] += or -= word i of each stream, modulo the modulus; see `add_streams`.

    Args:
        initialise: the address of EVP_EncryptInit_ex.
        update: the address of EVP_EncryptUpdate.
        contexts: a cipher for each task.
        keys: see `add_streams`.
        signs: see `add_streams`.
        like: an array of such words.
        mask: see `add_streams`.
        modulus: see `add_streams`.
        total: see `add_streams`.
        refused: bool [tasks]: whether OpenSSL did.
        off: bool [tasks, s]: whether a word is no element.
        thread: see `parallel`.
    """
    tasks, size = len(contexts), like.itemsize
    pieces = (len(total) + PIECE - 1) // PIECE
    for task in range_of(tasks, thread):
        zeros, words = np.zeros(STEP // size, like.dtype), np.empty(STEP // size, like.dtype)
        nonce, written = np.zeros(16, dtype=np.uint8), np.zeros(1, dtype=np.int32)
        for piece in range(task * pieces // tasks, (task + 1) * pieces // tasks):
            first, last = piece * PIECE, min((piece + 1) * PIECE, len(total))
            block = first * size // 16
            for byte in range(8):
                nonce[15 - byte] = (block >> (8 * byte)) & 255
            for s in range(len(keys)):
                if _initialise(initialise, contexts[task], 0, 0, keys[s].ctypes.data, nonce.ctypes.data) != 1:
                    refused[task] = True
                outside = 0
                for start in range(first, last, len(words)):
                    part = total[start : min(start + len(words), last)]
                    place, bytes_of = words.ctypes.data, len(part) * size
                    if _update(update, contexts[task], place, written.ctypes.data, zeros.ctypes.data, bytes_of) != 1:
                        refused[task] = True
                    outside += add_words(part, words, mask, modulus, signs[s] < 0)
                off[task, s] |= outside > 0


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
