"""What each role of a sum under CKKS does with what it holds and received, and the form of its messages."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fgl_secure.crypto.ckks import Adder, PublicKey
from fgl_secure.errors import ProtocolError
from fgl_secure.protocols.vector_sum import Ids, Integers
from fgl_secure.runtime import Delivery

FRAME_BYTES = 8
_FRAME = struct.Struct(">II")


def sender_ciphertexts(key: PublicKey, vector: Integers) -> Iterator[bytes]:
    """A sender's ciphertexts, made one after the other."""
    for first in range(0, len(vector), key.parameters.entries):
        yield from key.encrypt(vector[first : first + key.parameters.entries])


def aggregator_totals(
    adder: Adder, totals: Sequence[bytes], terms: Sequence[Mapping[int, bytes]], needed: int
) -> list[bytes]:
    """Sums so far with more terms added: `needed` ciphertexts, or none while there is no term."""
    if not terms:
        return list(totals)
    before = [[total] for total in totals] if totals else [[] for _ in range(needed)]
    return [adder.add([*before[i], *(term[i] for term in terms)]) for i in range(needed)]


def framed(messages: Iterator[tuple[int, bytes]], count: int, size: int) -> NDArray[np.uint8]:
    """uint8 [count, size]: the next messages, each position and length, then ciphertext and zeros: all of one size.

    Args:
        messages: positions in the vector and ciphertexts, of which `count` are taken.
        count: how many.
        size: bytes of each.
    """
    rows = np.zeros((count, size), dtype=np.uint8)
    for row, (position, data) in zip(rows, messages, strict=False):  # rows come first: no message is lost at the end
        content = _FRAME.pack(position, len(data)) + data
        row[: len(content)] = np.frombuffer(content, dtype=np.uint8)
    return rows


def unframe(message: bytes, size: int) -> tuple[int, bytes]:
    """Position and ciphertext of a framed message.

    Raises:
        ProtocolError: it has another size, or says that it is longer than it is.
    """
    if len(message) != size:
        raise ProtocolError(f"message must have {size:,} bytes; found {len(message):,}")
    position, length = _FRAME.unpack_from(message)
    if length > size - FRAME_BYTES:
        raise ProtocolError(f"message must hold up to {size - FRAME_BYTES:,} bytes of ciphertext; found {length:,}")
    return position, message[FRAME_BYTES : FRAME_BYTES + length]


def arrivals(delivery: Delivery, parties: Ids) -> Iterator[tuple[int, bytes]]:
    """What arrived whole and genuine, with a party of each; the rest is as good as lost."""
    for i, party in enumerate(parties.tolist()):
        size = delivery.payload[i].nbytes if delivery.sizes is None else int(delivery.sizes[i])
        if delivery.genuine is None or delivery.genuine[i]:
            yield party, delivery.payload[i].tobytes()[:size]
