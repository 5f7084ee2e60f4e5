"""AES-256 in counter mode under many keys, in one compiled loop.

From Python a cipher takes microseconds to set up. Where each message has a key of its own and is short, that would be
nearly all of the time. Processors that have instructions for AES make a key schedule in less time than a library is
called in. On others the loop calls the OpenSSL that Python itself is linked with, by address; where it isn't to be
found (a Python that has it built in and hides it), ciphers are set up one by one. All three give the same bits.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import numba
import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from fgl_secure.crypto import aes_instructions
from fgl_secure.errors import ProtocolError

Bytes = NDArray[np.uint8]
Ids = NDArray[np.int64]

MOST_AT_ONCE = 2**30
"""Bytes that one call encrypts: OpenSSL counts them in an int."""
_POINTERS = 5


def write_streams(keys: Bytes, nonce: bytes, sizes: Ids) -> Bytes:
    """The beginnings of the key streams of some keys from one counter block on.

    Args:
        keys: uint8 [s, 32], secret.
        nonce: 16 bytes, the block that each stream starts from; blocks are counted modulo 2^128.
        sizes: int64 [s], bytes of each.

    Returns:
        uint8 [sum of sizes], one stream behind the other.
    """
    if aes_instructions.available():
        return aes_instructions.write_streams(keys, nonce, sizes)
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


@numba.njit(cache=True, nogil=True, boundscheck=False)  # type: ignore[untyped-decorator]  # as above
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
