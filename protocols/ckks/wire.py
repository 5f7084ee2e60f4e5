"""Ciphertexts as fields of messages: of fixed size, whatever the keys and vectors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.crypto.ckks import PublicKey, ReceiverKey, wire_bytes
from fgl_secure.crypto.ckks_parameters import OVERHEAD_BYTES, Parameters
from fgl_secure.errors import InputError, MalformedMessageError, ProtocolError
from fgl_secure.runtime import Messages

Array = NDArray[Any]
Bytes = NDArray[np.uint8]
Integers = NDArray[np.int64]

CIPHERTEXTS, SIZES = "ciphertexts", "sizes"
"""Fields: uint8 [m, count, bytes], and how many of these bytes are each ciphertext's, uint32 [m, count]."""
TAG = "tag"
"""Field: the tags of a vector or sum under a key that clients share, uint64 [m, TAGS]."""


def padded(data: Sequence[bytes], size: int) -> tuple[Bytes, NDArray[np.uint32]]:
    """Strings of bytes with zeros up to a size: uint8 [n, size], and their lengths, uint32 [n]."""
    rows = np.zeros((len(data), size), dtype=np.uint8)
    for row, one in zip(rows, data, strict=True):
        row[: len(one)] = np.frombuffer(one, dtype=np.uint8)  # longer ones raise: sizes are chosen to hold all
    return rows, np.array([len(one) for one in data], dtype=np.uint32)


def unpadded(rows: Bytes, sizes: NDArray[np.uint32], what: str) -> list[bytes]:
    """What was padded.

    Args:
        rows: uint8 [n, size].
        sizes: uint32 [n].
        what: they are, for messages of errors.

    Raises:
        MalformedMessageError: a length is beyond the size.
    """
    if len(sizes) and int(sizes.max()) > rows.shape[1]:
        raise MalformedMessageError(f"{what} must have up to {rows.shape[1]:,} bytes; found {int(sizes.max()):,}")
    return [row[:size].tobytes() for row, size in zip(rows, sizes.tolist(), strict=True)]


def public_bytes(parameters: Parameters) -> int:
    """Of a public key in a message or state, padded: two polynomials."""
    return parameters.chain.ciphertext_bytes + OVERHEAD_BYTES


def secret_bytes(parameters: Parameters) -> int:
    """Of a key file in a message or state, padded: three polynomials."""
    return 2 * parameters.chain.ciphertext_bytes + OVERHEAD_BYTES


def public_key(data: bytes, parameters: Parameters) -> PublicKey:
    """The key that bytes hold.

    Raises:
        MalformedMessageError: they hold no public key, or not a whole one.
        ProtocolError: it has other parameters.
    """
    try:
        public = PublicKey.from_bytes(data)
    except InputError as error:
        raise MalformedMessageError("public key must be a whole one; it is not") from error
    if public.parameters != parameters:
        raise ProtocolError(f"public key must have {parameters}; found {public.parameters}")
    return public


def secret_keys(rows: Bytes, sizes: NDArray[np.uint32]) -> list[ReceiverKey]:
    """The key pairs of padded key files in a state.

    Raises:
        MalformedMessageError: one of them is none.
    """
    try:
        return [ReceiverKey.from_secret_file(data) for data in unpadded(rows, sizes, "key files")]
    except InputError as error:
        raise MalformedMessageError("state must hold whole keys; it does not") from error


def encrypted(key: PublicKey, vector: Integers) -> Iterator[bytes]:
    """The ciphertexts of a vector, made one after the other.

    Args:
        key: to encrypt under.
        vector: int64 [length], of magnitude up to the bound of the key's parameters.
    """
    for first in range(0, len(vector), key.parameters.entries):
        yield from key.encrypt(vector[first : first + key.parameters.entries])


def ciphertext_fields(
    vectors: Iterable[Iterable[bytes]], m: int, count: int, parameters: Parameters
) -> dict[str, Array]:
    """Fields of messages that carry a vector's ciphertexts each; those are made one after the other.

    Args:
        vectors: the ciphertexts of each.
        m: how many vectors.
        count: ciphertexts of a vector.
        parameters: of CKKS.
    """
    rows = np.zeros((m, count, wire_bytes(parameters)), dtype=np.uint8)
    sizes = np.zeros((m, count), dtype=np.uint32)
    for row, length, ciphertexts in zip(rows, sizes, vectors, strict=True):
        for at, data in enumerate(ciphertexts):
            row[at, : len(data)], length[at] = np.frombuffer(data, dtype=np.uint8), len(data)
    return {CIPHERTEXTS: rows, SIZES: sizes}


def check_ciphertexts(messages: Messages, count: int, parameters: Parameters) -> None:
    """Raises unless messages carry so many ciphertexts each.

    Raises:
        MalformedMessageError: they do not.
    """
    check_field(messages, CIPHERTEXTS, np.dtype(np.uint8), (count, wire_bytes(parameters)))
    check_field(messages, SIZES, np.dtype(np.uint32), (count,))


def ciphertexts_of(messages: Messages, row: int) -> list[bytes]:
    """The ciphertexts of one message that `check_ciphertexts` has passed.

    Raises:
        MalformedMessageError: a length is beyond what there is.
    """
    return unpadded(messages[CIPHERTEXTS][row], messages[SIZES][row], "ciphertexts")


def check_field(messages: Messages, name: str, kind: np.dtype[Any], shape: tuple[int, ...]) -> None:
    """Raises unless messages have a field of a type and shape.

    Raises:
        MalformedMessageError: they have not.
    """
    found = messages[name]
    if found.dtype != kind or found.shape[1:] != shape:
        raise MalformedMessageError(
            f"field {name} must be {kind} [m{''.join(f', {length}' for length in shape)}]; found {found.dtype} "
            f"{list(found.shape)}"
        )
