"""SHA-256 (FIPS 180-4) of many rows of one length: calling the hash from Python takes longer than the hash.

Eight rows are worked on at once, a number of each in the lanes of one register; there are no tables and no branches.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from fgl_secure.threads import Thread, parallel, range_of

Bytes = NDArray[np.uint8]
Words = NDArray[np.uint32]

LANES = 8
_BLOCK, _LENGTH, _STATE, _ROUNDS = 64, 8, 8, 64


def _roots(power: int, count: int) -> Words:
    """The first 32 bits behind the point of the square (2) or cube (3) roots of the first primes."""
    primes = [n for n in range(2, 312) if all(n % d for d in range(2, n))][:count]
    found = []
    for prime in primes:
        root = 0
        for bit in reversed(range(36)):
            root |= (1 << bit) * ((root | 1 << bit) ** power <= prime << 32 * power)
        found.append(root & 2**32 - 1)
    return np.array(found, dtype=np.uint32)


_START, _CONSTANTS = _roots(2, _STATE), _roots(3, _ROUNDS)


def digests(rows: Bytes) -> Bytes:
    """SHA-256 of every row.

    Args:
        rows: uint8 [g, bytes].

    Returns:
        uint8 [g, 32].
    """
    count, size = rows.shape
    batches = -(-count // LANES)
    padded = np.zeros((batches * LANES, -(-(size + 1 + _LENGTH) // _BLOCK) * _BLOCK), dtype=np.uint8)
    padded[:count, :size], padded[:, size] = rows, 0x80
    padded[:, -_LENGTH:] = np.frombuffer((8 * size).to_bytes(_LENGTH, "big"), dtype=np.uint8)
    words = padded.view(">u4").astype(np.uint32).reshape(batches, LANES, padded.shape[1] // 4).swapaxes(1, 2)
    out = np.tile(_START[:, None], (batches, 1, LANES))
    _digest_all(np.ascontiguousarray(words), out)
    by_row = out.swapaxes(1, 2).reshape(batches * LANES, _STATE)[:count]
    return by_row.astype(">u4", order="C").view(np.uint8)


@intrinsic  # type: ignore[untyped-decorator]  # numba ships no types
def _compress(_: Any, words: Any, state: Any) -> Any:  # noqa: ARG001
    """Works a block into the state (6.2.2): addresses of [16, LANES] and [8, LANES] words."""

    def code(context: Any, builder: ir.IRBuilder, __: Any, values: Any) -> Any:
        kind = ir.VectorType(ir.IntType(32), LANES)

        def at(address: Any, row: int) -> Any:
            offset = ir.Constant(ir.IntType(64), row * LANES * 4)
            return builder.inttoptr(builder.add(address, offset), kind.as_pointer())

        def all_lanes(number: int) -> Any:
            return ir.Constant(kind, [number] * LANES)

        def added(*terms: Any) -> Any:
            return reduce(builder.add, terms)

        def mixed(*terms: Any) -> Any:
            return reduce(builder.xor, terms)

        def turned(word: Any, bits: int) -> Any:
            return builder.or_(builder.lshr(word, all_lanes(bits)), builder.shl(word, all_lanes(32 - bits)))

        def schedule(x: Any, one: int, other: int, away: int) -> Any:
            return mixed(turned(x, one), turned(x, other), builder.lshr(x, all_lanes(away)))

        words, state = values
        w = [builder.load(at(words, t), align=4) for t in range(16)]
        for t in range(16, _ROUNDS):
            low, high = schedule(w[t - 15], 7, 18, 3), schedule(w[t - 2], 17, 19, 10)
            w.append(added(w[t - 16], low, w[t - 7], high))
        before = [builder.load(at(state, i), align=4) for i in range(_STATE)]
        a, b, c, d, e, f, g, h = before
        for word, constant in zip(w, _CONSTANTS.tolist(), strict=True):
            turns = mixed(turned(e, 6), turned(e, 11), turned(e, 25))
            chosen = mixed(builder.and_(e, f), builder.and_(builder.not_(e), g))
            one = added(h, turns, chosen, word, all_lanes(constant))
            turns = mixed(turned(a, 2), turned(a, 13), turned(a, 22))
            most = mixed(builder.and_(a, b), builder.and_(a, c), builder.and_(b, c))
            a, b, c, d, e, f, g, h = added(one, turns, most), a, b, c, builder.add(d, one), e, f, g
        for i, (old, new) in enumerate(zip(before, (a, b, c, d, e, f, g, h), strict=True)):
            builder.store(builder.add(old, new), at(state, i), align=4)
        return context.get_dummy_value()

    return types.void(types.uint64, types.uint64), code


@parallel
def _digest_all(words: Words, out: Words, thread: Thread) -> None:
    """Shapes: words [b, 16 blocks, LANES], out [b, 8, LANES]."""
    for batch in range_of(len(words), thread):
        for first in range(0, words.shape[1], 16):
            _compress(np.uint64(words[batch, first:].ctypes.data), np.uint64(out[batch].ctypes.data))
