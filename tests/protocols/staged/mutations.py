"""Messages as a broken network or a hostile party makes them from genuine ones."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence

from fgl_secure.runtime.packing import packed, unpacked

HEAD_BYTES = 42
"""Of a message, before its first field."""

Mutation = Callable[[random.Random, bytes, Sequence[bytes]], bytes]


def flipped(draw: random.Random, message: bytes, _: Sequence[bytes]) -> bytes:
    """One to eight bits changed, half the time in the head alone."""
    changed = bytearray(message)
    end = min(HEAD_BYTES, len(message)) if draw.random() < 0.5 else len(message)
    for _bit in range(draw.randint(1, 8)):
        changed[draw.randrange(end)] ^= 1 << draw.randrange(8)
    return bytes(changed)


def cut(draw: random.Random, message: bytes, _: Sequence[bytes]) -> bytes:
    """The first part alone."""
    return message[: draw.randrange(len(message))]


def extended(draw: random.Random, message: bytes, _: Sequence[bytes]) -> bytes:
    """Bytes added at the end: random ones, or well-formed fields."""
    more = draw.randbytes(draw.randint(1, 40))
    return message + (more if draw.random() < 0.5 else packed([more]))


def spliced(draw: random.Random, message: bytes, others: Sequence[bytes]) -> bytes:
    """The head of one and the rest of another, or both cut anywhere."""
    other = draw.choice(others)
    if draw.random() < 0.5:
        return message[:HEAD_BYTES] + other[HEAD_BYTES:]
    return message[: draw.randrange(len(message))] + other[draw.randrange(len(other)) :]


def random_bytes(draw: random.Random, message: bytes, _: Sequence[bytes]) -> bytes:
    """Nothing genuine, or a genuine head before nothing genuine."""
    return (message[:HEAD_BYTES] if draw.random() < 0.5 else b"") + draw.randbytes(draw.randint(0, 200))


def relabelled(draw: random.Random, message: bytes, _: Sequence[bytes]) -> bytes:
    """A field whose length is said to be another: small, off by a little, or enormous."""
    at, starts = HEAD_BYTES, []
    while at + 8 <= len(message):
        starts.append(at)
        at += 8 + struct.unpack_from(">Q", message, at)[0]
    if not starts:
        return message + draw.randbytes(8)
    start = draw.choice(starts)
    (said,) = struct.unpack_from(">Q", message, start)
    other = draw.choice([0, 1, said + 1, max(said - 1, 0), said + 8, 2**31, 2**63, 2**64 - 1, draw.getrandbits(64)])
    return message[:start] + struct.pack(">Q", other) + message[start + 8 :]


def refielded(draw: random.Random, message: bytes, others: Sequence[bytes]) -> bytes:
    """Well-formed fields that are others than they were: emptied, cut, doubled, replaced, dropped, or exchanged."""
    fields, spare = unpacked(message[HEAD_BYTES:]), unpacked(draw.choice(others)[HEAD_BYTES:]) or [b""]
    if not fields:
        return message[:HEAD_BYTES] + packed(spare)
    at = draw.randrange(len(fields))
    field = fields[at]
    fields[at : at + 1] = draw.choice(
        [[b""], [field[: len(field) // 2]], [field, field], [field + field], [draw.choice(spare)], [],
         [draw.randbytes(len(field))], [bytes(len(field))], [b"\xff" * len(field)]]
    )  # fmt: skip
    if draw.random() < 0.3:
        draw.shuffle(fields)
    return message[:HEAD_BYTES] + packed(fields)


MUTATIONS: Sequence[Mutation] = (
    *(flipped, refielded) * 3,  # which parties must look into
    *(cut, extended, spliced, random_bytes, relabelled),
)
