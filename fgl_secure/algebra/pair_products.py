"""Products of matrices of bytes by AVX2's instruction for pairs: two products of 16 bits and their sum, in 32 bits.

It is for processors that have none for products of bytes (see `exact_products`), where it multiplies about
twice as fast as floats do. Rows are taken in pairs, whose bytes lie side by side as numbers of 16 bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from fgl_secure.algebra.reduction import compiled, inlined
from fgl_secure.processor import has
from fgl_secure.threads import Thread, range_of, read_only

Bytes = NDArray[np.int8]
Sums = NDArray[np.int32]
Pairs = NDArray[np.int16]

FOR_BYTES = ("avx512vnni", "avxvnni", "amx-int8")
"""What LLVM calls instructions for products of bytes, of which a processor that has any needs none for pairs."""

HEIGHT, WIDTH = 6, 16
"""Of a tile of the product, which stays in registers while its rows are added up."""
COLUMNS = 16 * HEIGHT
"""Of the left matrix, whose pairs stay in cache while they meet all of the right one."""
DEPTH = 256
"""Pairs of rows that are added up at a time."""

_LANES = 8
_I32, _I64 = (ir.IntType(bits) for bits in (32, 64))
_ONE = ir.Constant(_I64, 1)
_SUMS, _PAIRS = ir.VectorType(_I32, _LANES), ir.VectorType(ir.IntType(16), 2 * _LANES)


def available() -> bool:
    """Whether this processor has the instruction, none for bytes, and numba compiles for this processor."""
    return has("avx2") and not any(has(feature) for feature in FOR_BYTES)


def product(left: Bytes, right: Bytes) -> Sums:
    """The sum over rows of the outer products of two rows.

    Args:
        left: int8 [n, d], above -128.
        right: int8 [n, h], above -128; products of columns must add up to less than 2^31.

    Returns:
        int32 [d, h].
    """
    out = np.zeros((left.shape[1], right.shape[1]), dtype=np.int32)
    if left.size and right.size:
        by_columns = left.strides[0] == 1 and left.strides[1] >= len(left)
        work = left.size * right.shape[1]
        _multiply(*_flat(left.T if by_columns else left), by_columns, *_flat(right), len(left), out, work=work)
    return out


def _flat(rows: Bytes) -> tuple[Bytes, int]:
    """From the first byte of a matrix to its last, and how many from row to row; copied if those of a row are apart."""
    if rows.strides[1] != 1 or rows.strides[0] < rows.shape[1]:
        rows = np.ascontiguousarray(rows)
    step = rows.strides[0]
    return read_only(as_strided(rows, ((len(rows) - 1) * step + rows.shape[1],), (1,))), step


@intrinsic  # type: ignore[untyped-decorator]  # numba ships no types
def _tile(_: Any, left: Any, step: Any, apart: Any, right: Any, count: Any, out: Any) -> Any:  # noqa: ARG001
    """Writes int32 [HEIGHT, WIDTH], the sums over `count` pairs of rows at two addresses.

    `step` bytes are between pairs of the left matrix, whose columns are `apart`; the right one's lie side by side.
    """

    def code(context: Any, builder: ir.IRBuilder, __: Any, values: Any) -> Any:
        left, step, apart, right, count, out = values
        name = "llvm.x86.avx2.pmadd.wd"
        kind = ir.FunctionType(_SUMS, [_PAIRS, _PAIRS])
        multiply = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)

        def pointer(address: Any, offset: int, kind: ir.Type, step: Any = _ONE) -> Any:
            ahead = builder.mul(step, ir.Constant(_I64, offset))
            return builder.inttoptr(builder.add(address, ahead), kind.as_pointer())

        def everywhere(pair: Any) -> Any:
            """A pair of bytes in all lanes."""
            single = builder.insert_element(ir.Constant(_SUMS, ir.Undefined), pair, ir.Constant(_I32, 0))
            return builder.bitcast(builder.shuffle_vector(single, single, ir.Constant(_SUMS, None)), _PAIRS)

        lanes = range(WIDTH // _LANES)
        places = [(row, lane) for row in range(HEIGHT) for lane in lanes]
        sums = {place: cgutils.alloca_once_value(builder, ir.Constant(_SUMS, None)) for place in places}
        for total in sums.values():
            builder.store(ir.Constant(_SUMS, None), total)
        with cgutils.for_range(builder, count) as loop:
            here = builder.add(left, builder.mul(loop.index, step))
            there = builder.add(right, builder.mul(loop.index, ir.Constant(_I64, 4 * WIDTH)))
            lines = [builder.load(pointer(there, 32 * lane, _PAIRS), align=2) for lane in lanes]
            for row in range(HEIGHT):
                weight = everywhere(builder.load(pointer(here, row, _I32, apart), align=2))
                for lane in lanes:
                    total = sums[row, lane]
                    builder.store(
                        builder.add(builder.load(total), builder.call(multiply, [weight, lines[lane]])), total
                    )
        for row, lane in places:
            to = pointer(out, 4 * (row * WIDTH + lane * _LANES), _SUMS)
            builder.store(builder.load(sums[row, lane]), to, align=4)
        return context.get_dummy_value()

    return types.void(types.uint64, types.int64, types.int64, types.uint64, types.int64, types.uint64), code


@inlined
def _pair_up(flat: Any, step: int, rows: int, first: int, start: int, width: int, out: Any) -> None:
    """Bytes of some columns of the rows from `first` on, two rows side by side; zeros where there are no more."""
    for k in range(len(out)):
        row, line = first + 2 * k, out[k]
        at = row * step + start
        upper = flat[at : at + width]
        if row + 1 < rows:
            lower = flat[at + step : at + step + width]
            for i in range(width):
                line[2 * i] = upper[i]
                line[2 * i + 1] = lower[i]
        else:
            for i in range(width):
                line[2 * i] = upper[i]
                line[2 * i + 1] = 0


@inlined
def _widen(flat: Any, step: int, rows: int, first: int, start: int, width: int, out: Any) -> None:
    """The same of a matrix whose columns lie one behind the other: two of its bytes are side by side.

    The last one's neighbour is left as it was, for it is multiplied by a zero of the other matrix.
    """
    count = min(out.shape[1], rows - first)
    for i in range(width):
        at, line = (start + i) * step + first, out[i]
        column = flat[at : at + count]
        for k in range(count):
            line[k] = column[k]


@compiled
def _multiply(
    left: Bytes, left_step: int, by_columns: bool, right: Bytes, right_step: int, rows: int, out: Sums, thread: Thread
) -> None:
    """Adds left.T @ right, by blocks of columns of the left matrix, whose rows or columns lie one behind the other."""
    width, height = out.shape
    tiles = (height + WIDTH - 1) // WIDTH
    room, other = np.zeros(2 * DEPTH * COLUMNS, dtype=np.int16), np.zeros((tiles, DEPTH, 2 * WIDTH), dtype=np.int16)
    in_rows, in_columns = room.reshape(DEPTH, 2 * COLUMNS), room.reshape(COLUMNS, 2 * DEPTH)
    tile = np.empty((HEIGHT, WIDTH), dtype=np.int32)
    step, apart = (4, 4 * DEPTH) if by_columns else (4 * COLUMNS, 4)
    columns = min(COLUMNS, (width + HEIGHT * thread[1] - 1) // (HEIGHT * thread[1]) * HEIGHT)  # a block for each thread
    blocks = range_of((width + columns - 1) // columns, thread)
    if not len(blocks):
        return
    for first in range(0, rows, 2 * DEPTH):
        count = min((rows - first + 1) // 2, DEPTH)
        for j in range(tiles):
            _pair_up(right, right_step, rows, first, j * WIDTH, min(WIDTH, height - j * WIDTH), other[j, :count])
        for block in blocks:
            start = block * columns
            here = min(columns, width - start)
            if by_columns:
                _widen(left, left_step, rows, first, start, here, in_columns)
            else:
                _pair_up(left, left_step, rows, first, start, here, in_rows[:count])
            for i in range(0, here, HEIGHT):
                mine = np.uint64(room.ctypes.data + apart * i)
                for j in range(tiles):
                    _tile(mine, step, apart, np.uint64(other[j].ctypes.data), count, np.uint64(tile.ctypes.data))
                    for row in range(min(HEIGHT, here - i)):
                        found, line = out[start + i + row, j * WIDTH : min((j + 1) * WIDTH, height)], tile[row]
                        for k in range(len(found)):
                            found[k] += line[k]
