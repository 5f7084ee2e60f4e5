"""AES-256 in counter mode under many keys by the processor's own instructions: no tables, and so constant-time.

A key schedule takes fewer cycles than one call into a library. Streams are those of OpenSSL, bit for bit.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

import numba
import numpy as np
from llvmlite import binding, ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from fgl_secure.threads import parallel

Bytes = NDArray[np.uint8]
Ids = NDArray[np.int64]
Words = NDArray[np.uint64]

LANES = 4
"""Keys whose schedules are made side by side: one waits for each of its instructions."""
BLOCKS = 8
"""Counter blocks that are encrypted side by side."""
CHUNKS = 64
"""Pieces that the keys are cut into, for threads."""

_ROUNDS = 14
_SCHEDULE = 2 * (_ROUNDS + 1)
"""Words of 64 bits of a key's schedule."""
_ROOM = LANES * _SCHEDULE + 2 * BLOCKS
"""Words of a piece: the schedules of its lanes, and the blocks at the end of a stream."""
_BLOCK_BYTES = 16

_I8, _I32, _I64 = (ir.IntType(bits) for bits in (8, 32, 64))
_PAIR, _QUAD, _SIXTEEN = ir.VectorType(_I64, 2), ir.VectorType(_I32, 4), ir.VectorType(_I8, 16)
_ZEROS = ir.Constant(_QUAD, [0] * 4)


@cache
def available() -> bool:
    """Whether this processor has the instructions, and numba compiles for this processor."""
    chosen = numba.config.CPU_NAME or numba.config.CPU_FEATURES
    return sys.byteorder == "little" and not chosen and bool(binding.get_host_cpu_features().get("aes", False))


def write_streams(keys: Bytes, nonce: bytes, sizes: Ids) -> Bytes:
    """See `counter_mode.write_streams`; for processors that have the instructions."""
    ends = np.cumsum(sizes)
    out = np.empty(int(ends[-1]) if len(ends) else 0, dtype=np.uint8)
    room = np.empty((min(CHUNKS, 1 + len(keys) // (4 * LANES)), _ROOM), dtype=np.uint64)
    high, low = np.frombuffer(nonce, dtype=">u8").tolist()
    _fill(np.ascontiguousarray(keys), np.uint64(high), np.uint64(low), ends, room, out)
    room.fill(0)  # schedules are as secret as keys
    return out


def _intrinsic(name: str, builder: ir.IRBuilder) -> ir.Function:
    """An instruction of two blocks, as LLVM names it."""
    found = builder.module.globals.get(name)
    return found or ir.Function(builder.module, ir.FunctionType(_PAIR, [_PAIR, _PAIR]), name)


def _pointer(builder: ir.IRBuilder, address: Any, place: int, kind: ir.Type = _PAIR) -> Any:
    """To the block at a place behind an address."""
    return builder.inttoptr(builder.add(address, ir.Constant(_I64, _BLOCK_BYTES * place)), kind.as_pointer())


def _load(builder: ir.IRBuilder, address: Any, place: int) -> Any:
    return builder.load(_pointer(builder, address, place), align=1)


def _store(builder: ir.IRBuilder, block: Any, address: Any, place: int) -> None:
    builder.store(block, _pointer(builder, address, place), align=1)


@intrinsic  # type: ignore[untyped-decorator]  # numba ships no types
def _make_schedules(_: Any, a: Any, b: Any, c: Any, d: Any, out: Any) -> Any:  # noqa: ARG001
    """Writes the round keys (FIPS 197, 5.2) of the four keys at some addresses, one schedule behind the other.

    SubWord is the last round's instruction on a block of four equal words, in which shifting rows moves nothing.
    """

    def code(context: Any, builder: ir.IRBuilder, __: Any, values: Any) -> Any:
        last = _intrinsic("llvm.x86.aesni.aesenclast", builder)

        def substituted(block: Any, picked: list[int], constant: int) -> Any:
            mask = ir.Constant(ir.VectorType(_I32, 16), picked * 4)
            same = builder.shuffle_vector(builder.bitcast(block, _SIXTEEN), ir.Constant(_SIXTEEN, ir.Undefined), mask)
            four = ir.Constant(_PAIR, [constant << 32 | constant] * 2)
            return builder.call(last, [builder.bitcast(same, _PAIR), four])

        def summed(block: Any) -> Any:
            """Each word plus all words before it."""
            quad = builder.bitcast(block, _QUAD)
            for shift in (1, 2):
                places = [4 + j - shift if j >= shift else 0 for j in range(4)]
                moved = builder.shuffle_vector(_ZEROS, quad, ir.Constant(_QUAD, places))
                quad = builder.xor(quad, moved)
            return builder.bitcast(quad, _PAIR)

        keys, out = values[:LANES], values[LANES]
        pairs = [[_load(builder, key, half) for half in range(2)] for key in keys]
        for number in range(_ROUNDS + 1):
            half, constant = number % 2, 1 << (number // 2 - 1) if number > 1 else 0
            for lane, pair in enumerate(pairs):
                if number > 1:
                    picked = [12, 13, 14, 15] if half else [13, 14, 15, 12]
                    word = substituted(pair[1 - half], picked, 0 if half else constant)
                    pair[half] = builder.xor(summed(pair[half]), word)
                _store(builder, pair[half], out, lane * (_ROUNDS + 1) + number)
        return context.get_dummy_value()

    return types.void(*(types.uint64,) * (LANES + 1)), code


@intrinsic  # type: ignore[untyped-decorator]  # as above
def _encrypt(_: Any, schedule: Any, high: Any, low: Any, count: Any, out: Any) -> Any:  # noqa: ARG001
    """Writes the stream's blocks number count to count + 7, of the counter high 2^64 + low."""

    def code(context: Any, builder: ir.IRBuilder, __: Any, values: Any) -> Any:
        schedule, high, low, count, out = values
        step, last = (_intrinsic(f"llvm.x86.aesni.aesenc{name}", builder) for name in ("", "last"))
        swap = builder.module.declare_intrinsic("llvm.bswap", [_I64])
        state, first = [], _load(builder, schedule, 0)
        for j in range(BLOCKS):
            number = builder.add(low, builder.add(count, ir.Constant(_I64, j)))
            carried = builder.add(high, builder.zext(builder.icmp_unsigned("<", number, low), _I64))
            block = ir.Constant(_PAIR, ir.Undefined)
            for place, half in enumerate((carried, number)):
                block = builder.insert_element(block, builder.call(swap, [half]), ir.Constant(_I32, place))
            state.append(builder.xor(block, first))
        for number in range(1, _ROUNDS):
            key = _load(builder, schedule, number)
            state = [builder.call(step, [block, key]) for block in state]
        key = _load(builder, schedule, _ROUNDS)
        for j, block in enumerate(state):
            _store(builder, builder.call(last, [block, key]), out, j)
        return context.get_dummy_value()

    return types.void(*(types.uint64,) * 5), code


@parallel
def _fill(keys: Bytes, high: Any, low: Any, ends: Ids, room: Words, out: Bytes) -> None:
    chunks, count = len(room), len(ends)
    for chunk in numba.prange(chunks):
        first, stop = chunk * count // chunks, (chunk + 1) * count // chunks
        own = np.uint64(room[chunk].ctypes.data)
        rest = room[chunk, LANES * _SCHEDULE :].view(np.uint8)
        place = ends[first - 1] if first else 0
        for s in range(first, stop, LANES):
            a, b, c, d = (
                np.uint64(keys[s].ctypes.data),
                np.uint64(keys[min(s + 1, stop - 1)].ctypes.data),
                np.uint64(keys[min(s + 2, stop - 1)].ctypes.data),
                np.uint64(keys[min(s + 3, stop - 1)].ctypes.data),
            )
            _make_schedules(a, b, c, d, own)
            for lane in range(min(LANES, stop - s)):
                schedule = own + np.uint64(8 * _SCHEDULE * lane)
                end, blocks = ends[s + lane], np.uint64(0)
                while end - place >= _BLOCK_BYTES * BLOCKS:
                    _encrypt(schedule, high, low, blocks, np.uint64(out.ctypes.data + place))
                    place, blocks = place + _BLOCK_BYTES * BLOCKS, blocks + np.uint64(BLOCKS)
                if place < end:
                    _encrypt(schedule, high, low, blocks, np.uint64(rest.ctypes.data))
                    for i in range(end - place):
                        out[place + i] = rest[i]
                    place = end
