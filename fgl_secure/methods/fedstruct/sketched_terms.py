"""Terms of FedStruct's exchange (App. D) as vectors of integers: what sender and receiver compute.

Entries in fixed point go into a linear sketch whose size the receiver asks for, or into a dense vector where that is
smaller; the receiver reads the sum of all terms from the sum of the vectors, and nothing else.

The sketch is an invertible Bloom lookup table (Goodrich, Mitzenmacher 2011) whose cells hold only sums that are linear
in the values: of the values, and of the values times their positions. So the table of a sum of vectors is the sum of
their tables, and reveals to its reader only the sum: neither the vector that an entry came from, nor their number.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fgl_secure.errors import InputError, SketchOverfullError
from fgl_secure.threads import njit
from fgl_secure.typing import Integers

HASHES = 3
"""Cells of each entry, one in each third of the table: large tables of 1.222 cells an entry can then be read."""

CELLS_PER_ENTRY = 1.3
"""Cells for each entry that a table is meant for, a little above the limit."""

EXTRA_CELLS = 48
"""Cells beside, because small tables are further from the limit."""


FIRST_ENTRIES, FIRST_GROWTH = 50, 5
"""Entries a row that a receiver expects of its first sum, and by how much it expects the second to be larger."""


def after_sum(before: tuple[int, int] | None, entries: int) -> tuple[int, int]:
    """The entries of the last two sums after another one of so many."""
    return (entries // FIRST_GROWTH if before is None else before[1], entries)


@dataclass(frozen=True, slots=True)
class LinearSketch:
    """A table for the entries of a matrix of non-negative integers.

    Attributes:
        shape: rows and columns of the matrix.
        third: cells in each third of the table.
        seed: of the hash functions; public, and drawn anew when a table could not be read.
        split: whether cells hold the row and the column of a position apart, which takes half as much again but keeps
            sums small where large ones cannot be held exactly.
    """

    shape: tuple[int, int]
    third: int
    seed: int
    split: bool

    def __post_init__(self) -> None:
        if min(self.shape) < 1 or self.third < 1:
            raise InputError(f"shape and third must be at least 1; found {self.shape} and {self.third}")
        if not 0 <= self.seed < 2**63:
            raise InputError(f"seed must lie in 0..2^63 - 1; found {self.seed}")

    @classmethod
    def for_entries(cls, shape: tuple[int, int], entries: int, *, seed: int, split: bool) -> LinearSketch:
        """A table from which up to `entries` entries are very likely to be read."""
        return cls(shape, math.ceil((CELLS_PER_ENTRY * entries + EXTRA_CELLS) / HASHES), seed, split)

    @property
    def cells(self) -> int:
        """Cells of the table."""
        return HASHES * self.third

    @property
    def length(self) -> int:
        """Integers of the table: two a cell, or three where positions are split."""
        return self.cells * (3 if self.split else 2)

    def largest_factor(self) -> int:
        """By how much a value is multiplied at most in the table."""
        rows, columns = self.shape
        return max(rows, columns) if self.split else rows * columns

    def encode(self, rows: Integers, columns: Integers, values: Integers) -> Integers:
        """The table of a sparse matrix.

        Args:
            rows: int64 [e].
            columns: int64 [e]; no position twice.
            values: int64 [e], at least 1.

        Returns:
            int64 [length].

        Raises:
            InputError: a position lies outside the matrix, or a value is below 1.
        """
        for name, index, size in (("rows", rows, self.shape[0]), ("columns", columns, self.shape[1])):
            if len(index) and not (int(index.min()) >= 0 and int(index.max()) < size):
                raise InputError(f"{name} must lie in 0..{size - 1}; found {int(index.min())}..{int(index.max())}")
        if len(values) and int(values.min()) < 1:
            raise InputError("values must be at least 1; at least one is not")
        table = np.zeros((self.length // self.cells, self.cells), dtype=np.int64)
        _add(table, rows, columns, values, self.shape[1], self.third, np.uint64(self.seed), self.split)
        return table.reshape(-1)

    def decode(self, table: Integers) -> tuple[Integers, Integers, Integers]:
        """Reads the entries of a table back.

        Args:
            table: int64 [length], a sum of tables of this plan.

        Returns:
            rows, columns and values, int64 [e] each, in the order of rows, then columns.

        Raises:
            SketchOverfullError: the table has more entries than it can give back, or is none.
        """
        if table.shape != (self.length,):
            raise InputError(f"table must have shape [{self.length}]; found {list(table.shape)}")
        left = table.reshape(-1, self.cells).copy()
        keys = np.empty(self.cells, dtype=np.int64)
        values = np.empty(self.cells, dtype=np.int64)
        result = _peel(left, keys, values, *self.shape, self.third, np.uint64(self.seed), self.split)
        if result < 0 or left.any():
            raise SketchOverfullError(
                f"table of {self.cells:,} cells must hold fewer entries to be read; it has too many, or is damaged"
            )
        order = np.argsort(keys[:result], kind="stable")
        ordered = keys[:result][order]
        return ordered // self.shape[1], ordered % self.shape[1], values[:result][order]


@njit()
def _cell(key: int, hash_number: int, third: int, seed: int) -> int:
    """The cell of a key in one third of the table: splitmix64 of key and seed, which spreads keys evenly."""
    x = np.uint64(key) + seed + np.uint64(hash_number + 1) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x = x ^ (x >> np.uint64(31))
    return hash_number * third + np.int64((x >> np.uint64(1)) % np.uint64(third))  # type: ignore[return-value]


@njit()
def _add(
    table: Integers, rows: Integers, columns: Integers, values: Integers, width: int, third: int, seed: int, split: bool
) -> None:
    for e in range(len(values)):
        key = rows[e] * width + columns[e]
        for hash_number in range(HASHES):
            cell = _cell(key, hash_number, third, seed)
            table[0, cell] += values[e]
            if split:
                table[1, cell] += values[e] * rows[e]
                table[2, cell] += values[e] * columns[e]
            else:
                table[1, cell] += values[e] * key


@njit()
def _only_key(table: Integers, cell: int, height: int, width: int, third: int, seed: int, split: bool) -> int:
    """The key of a cell that looks as if it held one entry, else -1."""
    value = table[0, cell]
    if value <= 0 or table[1, cell] < 0 or table[1, cell] % value:
        return -1
    if split:
        if table[2, cell] < 0 or table[2, cell] % value:
            return -1
        row, column = table[1, cell] // value, table[2, cell] // value
        if row >= height or column >= width:
            return -1
        key = row * width + column
    else:
        key = table[1, cell] // value
        if key >= height * width:
            return -1
    return key if _cell(key, cell // third, third, seed) == cell else -1


@njit()
def _peel(
    table: Integers, keys: Integers, values: Integers, height: int, width: int, third: int, seed: int, split: bool
) -> int:
    """Takes entries out of cells that hold one, until none is left; -1 where more come out than there are cells."""
    waiting = np.arange(table.shape[1])
    result = 0
    while len(waiting):
        following = np.empty(HASHES * len(waiting), dtype=np.int64)
        count = 0
        for index in range(len(waiting)):
            key = _only_key(table, waiting[index], height, width, third, seed, split)
            if key < 0:
                continue
            if result == len(keys):
                return -1
            value = table[0, waiting[index]]
            keys[result], values[result] = key, value
            result += 1
            for hash_number in range(HASHES):
                cell = _cell(key, hash_number, third, seed)
                table[0, cell] -= value
                if split:
                    table[1, cell] -= value * (key // width)
                    table[2, cell] -= value * (key % width)
                else:
                    table[1, cell] -= value * key
                following[count] = cell
                count += 1
        waiting = following[:count]
    return result
