"""AES-256 in counter mode under many keys by the processor's own instructions: no tables, and so constant-time.

A key schedule takes fewer cycles than one call into a library, and streams are those of OpenSSL, bit for bit. Processor
time on an Intel Xeon: an epoch of `python -m benchmarks secmp` on digits under relay-coded takes 8.3 times as long with
a cipher object of `cryptography` per key, which serves processors without the instructions. A round of `python -m
benchmarks secagg` of 20 clients takes 1.3 to 1.6 times as long with masks added one after the other, and 1.4 times as
long with instructions for one block in place of four (VAES with AVX-512).
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

from fgl_secure.threads import Thread, njit, parallel, range_of, read_only
from fgl_secure.typing import Bytes, Flags, Ids

Elements = NDArray[np.int64]
Words = NDArray[np.uint64]

LANES = 4
"""Keys whose schedules are made side by side: one waits for each of its instructions."""
CHUNKS = 64
"""Pieces that the keys are cut into, for threads."""
PIECE = 2**13
"""Elements that all streams pass over before the next: they fill an eighth of a typical second-level cache."""
STEP = 2**13
"""Bytes of a stream that are made at a time: with as many zeros they stay in the first-level cache."""
MOST_TASKS = 16
"""Runs of pieces, each with a cipher of its own, so that a core that lags gets less."""

_ROUNDS = 14
_SCHEDULE = 2 * (_ROUNDS + 1)
"""Words of 64 bits of a key's schedule."""
_BLOCK_BYTES = 16

_I8, _I32, _I64 = (ir.IntType(bits) for bits in (8, 32, 64))
_PAIR, _QUAD, _SIXTEEN = ir.VectorType(_I64, 2), ir.VectorType(_I32, 4), ir.VectorType(_I8, 16)
_ZEROS = ir.Constant(_QUAD, [0] * 4)


def _has(*features: str) -> bool:
    """Whether the processor has features, named as LLVM does, and numba compiles for this processor and with them.

    LLVM ends the process where it meets an instruction that it was told to do without. Numbers lie lowest byte first.
    """
    settings = numba.config
    if sys.byteorder != "little" or settings.DISABLE_JIT or settings.CPU_NAME or settings.CPU_FEATURES:
        return False
    host_cpu_features = binding.get_host_cpu_features()
    return all(host_cpu_features.get(feature, False) for feature in features)


@cache
def available() -> bool:
    """Whether loops may name the instructions."""
    return _has("aes")


_WIDE = bool(numba.config.ENABLE_AVX) and _has("aes", "vaes", "avx512f", "avx512bw")
_PARALLEL = 4 if _WIDE else 1
"""Blocks that an instruction takes."""
BLOCKS = 16 if _WIDE else 8
"""Counter blocks that are encrypted side by side."""
_ROOM = LANES * _SCHEDULE + 2 * BLOCKS
"""Words of a piece: the schedules of its lanes, and the blocks at the end of a stream."""


def write_words(
    keys: Bytes, nonce: bytes, counts: Ids, word: np.dtype[Any], mask: Any, modulus: int
) -> tuple[Any, int]:
    """The beginnings of the key streams of some keys, cut into masked words; for processors with the instructions.

    Args:
        keys: uint8 [s, 32], secret.
        nonce: 16 bytes, the block that each stream starts from.
        counts: int64 [s], words of each.
        word: unsigned, of a power of two bytes.
        mask: of the bits of a word that count.
        modulus: up to 2^63.

    Returns:
        Words [sum of counts], one stream behind the other, and how many of them are not below the modulus.
    """
    ends = np.cumsum(counts)
    out = np.empty(int(ends[-1]) if len(ends) else 0, dtype=word)
    room = np.empty((min(CHUNKS, 1 + len(keys) // (4 * LANES)), _ROOM), dtype=np.uint64)
    high, low = (np.uint64(half) for half in np.frombuffer(nonce, dtype=">u8").tolist())
    rejected = _fill(read_only(np.ascontiguousarray(keys)), high, low, ends, room, mask, np.uint64(modulus), out)
    room.fill(0)  # schedules are as secret as keys
    return out, rejected


def add_streams(total: Elements, keys: Bytes, signs: Ids, word: np.dtype[Any], mask: Any, modulus: int) -> Flags:
    """Add the key streams of some keys, cut into words, to elements, or subtract them.

    A few streams at a time pass over the elements: those they are added to stay in the first-level cache.

    Args:
        total: int64 [count], elements; changed in place.
        keys: uint8 [s, 32], secret.
        signs: int64 [s], 1 or -1.
        word: unsigned, of a power of two bytes; streams start from counter block 0.
        mask: of the bits of a word that count; what they hold is below twice the modulus.
        modulus: below 2^62.

    Returns:
        Bool [s], for which keys a word is no element: the sum has it all the same, and has to be taken back.
    """
    pieces = -(-len(total) // PIECE)
    tasks = max(min(pieces, MOST_TASKS), 1)
    room = np.empty((tasks, LANES * _SCHEDULE + STEP // 8), dtype=np.uint64)
    rejected = np.zeros((tasks, len(keys)), dtype=np.bool_)
    like, work = np.empty(0, dtype=word), len(total) * len(keys)
    _add(read_only(np.ascontiguousarray(keys)), signs, room, like, mask, modulus, total, rejected, work=work)
    room.fill(0)  # schedules are as secret as keys
    return np.asarray(rejected.any(axis=0))


def _intrinsic(name: str, builder: ir.IRBuilder, kind: ir.Type = _PAIR, operands: int = 2) -> ir.Function:
    """An instruction, as LLVM names it."""
    result = builder.module.globals.get(name)
    return result or ir.Function(builder.module, ir.FunctionType(kind, [kind] * operands), name)


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

        def substitute(block: Any, picked: list[int], constant: int) -> Any:
            mask = ir.Constant(ir.VectorType(_I32, 16), picked * 4)
            same = builder.shuffle_vector(builder.bitcast(block, _SIXTEEN), ir.Constant(_SIXTEEN, ir.Undefined), mask)
            four = ir.Constant(_PAIR, [constant << 32 | constant] * 2)
            return builder.call(last, [builder.bitcast(same, _PAIR), four])

        def prefix_xor(block: Any) -> Any:
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
                    word = substitute(pair[1 - half], picked, 0 if half else constant)
                    pair[half] = builder.xor(prefix_xor(pair[half]), word)
                _store(builder, pair[half], out, lane * (_ROUNDS + 1) + number)
        return context.get_dummy_value()

    return types.void(*(types.uint64,) * (LANES + 1)), code


@intrinsic  # type: ignore[untyped-decorator]  # as above
def _encrypt(_: Any, schedule: Any, high: Any, low: Any, count: Any, out: Any) -> Any:  # noqa: ARG001
    """Writes the stream's blocks number count to count + BLOCKS - 1, of the counter high 2^64 + low."""
    kind = ir.VectorType(_I64, 2 * _PARALLEL)
    suffix = ".512" if _WIDE else ""

    def code(context: Any, builder: ir.IRBuilder, __: Any, values: Any) -> Any:
        schedule, high, low, count, out = values
        names = (f"llvm.x86.aesni.aesenc{name}{suffix}" for name in ("", "last"))
        step, last = (_intrinsic(name, builder, kind) for name in names)
        swap = _intrinsic(f"llvm.bswap.v{2 * _PARALLEL}i64", builder, kind, operands=1)

        def everywhere(value: Any) -> Any:
            """A number in all places of a register."""
            single = builder.insert_element(ir.Constant(kind, ir.Undefined), value, ir.Constant(_I32, 0))
            return builder.shuffle_vector(single, single, ir.Constant(ir.VectorType(_I32, 2 * _PARALLEL), None))

        def round_key(number: int) -> Any:
            pair, places = _load(builder, schedule, number), ir.VectorType(_I32, 2 * _PARALLEL)
            return builder.shuffle_vector(pair, pair, ir.Constant(places, [0, 1] * _PARALLEL))

        def counters(first: int) -> Any:
            """Counter blocks, highest byte first: the upper half of each carries what the lower one overflows."""
            ahead = ir.Constant(kind, [first + j // 2 for j in range(2 * _PARALLEL)])
            number = builder.add(everywhere(builder.add(low, count)), ahead)
            over = builder.zext(builder.icmp_unsigned("<", number, everywhere(low)), kind)
            upper = ir.Constant(ir.VectorType(ir.IntType(1), 2 * _PARALLEL), [1, 0] * _PARALLEL)
            return builder.call(swap, [builder.select(upper, builder.add(everywhere(high), over), number)])

        key = round_key(0)
        state = [builder.xor(counters(first), key) for first in range(0, BLOCKS, _PARALLEL)]
        for number in range(1, _ROUNDS):
            key = round_key(number)
            state = [builder.call(step, [blocks, key]) for blocks in state]
        key = round_key(_ROUNDS)
        for place, blocks in enumerate(state):
            to = _pointer(builder, out, _PARALLEL * place, kind)
            builder.store(builder.call(last, [blocks, key]), to, align=1)
        return context.get_dummy_value()

    return types.void(*(types.uint64,) * 5), code


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


@njit(boundscheck=False)
def _write_schedules(keys: Bytes, first: int, stop: int, room: Any) -> None:
    """Schedules of as many keys as there are lanes, at an address; of the last one again where there are no more."""
    a, b, c, d = (
        np.uint64(keys[first].ctypes.data),
        np.uint64(keys[min(first + 1, stop - 1)].ctypes.data),
        np.uint64(keys[min(first + 2, stop - 1)].ctypes.data),
        np.uint64(keys[min(first + 3, stop - 1)].ctypes.data),
    )
    _make_schedules(a, b, c, d, room)


@parallel
def _fill(
    keys: Bytes, high: Any, low: Any, ends: Ids, room: Words, mask: Any, modulus: Any, out: Any, thread: Thread
) -> int:
    """Writes streams, and masks the words of each while they are in cache; how many are not below the modulus."""
    chunks, count, size, rejected = len(room), len(ends), out.itemsize, 0
    for chunk in range_of(chunks, thread):
        first, stop = chunk * count // chunks, (chunk + 1) * count // chunks
        address = np.uint64(room[chunk].ctypes.data)
        rest = room[chunk, LANES * _SCHEDULE :].view(out.dtype)
        place = ends[first - 1] if first else 0
        for s in range(first, stop, LANES):
            _write_schedules(keys, s, stop, address)
            for lane in range(min(LANES, stop - s)):
                schedule = address + np.uint64(8 * _SCHEDULE * lane)
                end, start, blocks = ends[s + lane], place, np.uint64(0)
                while (end - place) * size >= _BLOCK_BYTES * BLOCKS:
                    _encrypt(schedule, high, low, blocks, np.uint64(out.ctypes.data + place * size))
                    place, blocks = place + _BLOCK_BYTES * BLOCKS // size, blocks + np.uint64(BLOCKS)
                if place < end:
                    _encrypt(schedule, high, low, blocks, np.uint64(rest.ctypes.data))
                    for i in range(end - place):
                        out[place + i] = rest[i]
                    place = end
                stream, outside = out[start:end], 0
                for i in range(len(stream)):
                    masked = stream[i] & mask
                    stream[i] = masked
                    outside += np.uint64(masked) >= modulus
                rejected += outside
    return rejected


@parallel
def _add(
    keys: Bytes, signs: Ids, room: Words, like: Any, mask: Any, modulus: int, total: Elements, bad: Any, thread: Thread
) -> None:
    """Adds streams to elements, or takes them away, and notes of which streams a word is no element."""
    tasks, size, count = len(room), like.itemsize, len(keys)
    pieces = (len(total) + PIECE - 1) // PIECE
    for task in range_of(tasks, thread):
        address = np.uint64(room[task].ctypes.data)
        words = room[task, LANES * _SCHEDULE :].view(like.dtype)
        out = np.uint64(words.ctypes.data)
        first, last = task * pieces // tasks * PIECE, min((task + 1) * pieces // tasks * PIECE, len(total))
        for s in range(0, count, LANES):
            _write_schedules(keys, s, count, address)
            for start in range(first, last, len(words)):
                part = total[start : min(start + len(words), last)]
                for lane in range(min(LANES, count - s)):
                    schedule = address + np.uint64(8 * _SCHEDULE * lane)
                    for index in range(0, len(part) * size, _BLOCK_BYTES * BLOCKS):
                        block = np.uint64((start * size + index) // _BLOCK_BYTES)
                        _encrypt(schedule, np.uint64(0), np.uint64(0), block, out + np.uint64(index))
                    bad[task, s + lane] |= add_words(part, words, mask, modulus, signs[s + lane] < 0) > 0
