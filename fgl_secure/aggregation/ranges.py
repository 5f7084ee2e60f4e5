"""How large the numbers of every tensor are at most, found by a sum that tells nothing else: a secure maximum."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.aggregation.arrays import LARGEST, SMALLEST
from fgl_secure.aggregation.encoding import bound_for, named
from fgl_secure.aggregation.layout import Entry, Layout, Tree
from fgl_secure.algebra.levels import Levels
from fgl_secure.algebra.quantization import Integers, finite, largest_magnitude
from fgl_secure.coins import Coins
from fgl_secure.errors import FieldRangeError, InputError

LOWEST = -40
"""Binary exponent of the first level above zero; smaller numbers count as this large."""
STEP = 2
"""Levels go by factors of 2^STEP: the maximum is told to within that, and not more closely."""
HEADROOM_BITS = 4
"""A range is 2^HEADROOM_BITS times what was found, for later rounds: parameters grow. Where they have outgrown one,
twice as many bits are left: what grows on costs two more sums whenever it does."""
ZERO_BOUND = 1.0
"""Taken for a tensor that is zero at all clients, which says nothing of its range: biases that are yet untrained."""


@dataclass(frozen=True, slots=True)
class RangeLevels:
    """The levels that clients tell they reach, for every float tensor; integers need no range.

    For each tensor there is a row of levels: the first is reached by a client that has a number other than zero there,
    the others by one with a magnitude above 2^e, for e = LOWEST, LOWEST + step, ... up to what the type holds; see
    `Levels` for how they are told, and what that tells.

    Where ranges are known already, levels within them are left out, and the lowest level of a tensor is reached by who
    has outgrown its range. So as long as nobody has, the sum is 0 and tells nothing but that.

    Attributes:
        layout: of the mappings.
        modulus: p, of the scheme's field.
        known: ranges that were found before, by tensor; None where none were.
        step: levels go by factors of 2^step.
        headroom_bits: a range is 2^headroom_bits times what is found, and one that was outgrown 4^headroom_bits times.
        weight_bits: numbers are told times weights of up to 2^weight_bits.
    """

    layout: Layout
    modulus: int
    known: Mapping[str, float] | None = None
    step: int = STEP
    headroom_bits: int = HEADROOM_BITS
    weight_bits: int = 0
    _exponents: Mapping[str, Sequence[int]] = field(init=False, repr=False, compare=False)
    _levels: Levels = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        exponents, levels = {}, []
        for entry in self.layout.floats:
            floor = self._floor(entry.name)
            above = [e for e in _exponents(entry, self.step, self.weight_bits) if 2.0**e > floor]
            exponents[entry.name] = above
            levels.append((floor, *(2.0**e for e in above))[: len(above)])
        object.__setattr__(self, "_exponents", exponents)
        object.__setattr__(self, "_levels", Levels(self.modulus, tuple(levels)))

    @property
    def length(self) -> int:
        """Entries of a vector; 0 where there are no floats."""
        return self._levels.length

    def encode(
        self, mapping: Tree, coins: Coins, brought: Mapping[str, NDArray[np.floating[Any]]] | None = None
    ) -> Integers:
        """The vector of a mapping, int64 [length], fresh each time.

        Args:
            mapping: of this layout.
            coins: of the client.
            brought: by tensor, float64, what is told of in place of the mapping's own numbers.

        Raises:
            InputError: another layout, NaN or infinity; names the key.
            FieldRangeError: a number beyond the last level.
        """
        if brought is None:
            return self._levels.encode(list(self._magnitudes(mapping).values()), coins)
        told = [(entry, largest_magnitude(brought[entry.name])) for entry in self.layout.floats]
        return self._levels.encode([self._checked(*each) for each in told], coins)

    def outgrown(self, mapping: Tree) -> bool:
        """Whether a mapping has a number beyond the range that is known.

        Raises:
            InputError, FieldRangeError: see `encode`.
        """
        return any(size > self._floor(name) for name, size in self._magnitudes(mapping).items())

    def bounds(self, total: Integers) -> dict[str, float]:
        """A bound for every float tensor, from the sum of the vectors modulo p: a power of two, with headroom.

        Where no level is reached, it is the known one.

        Raises:
            ProtocolError: a level is reached, and one below it is not: some vector was none of these.
        """
        if total.shape != (self.length,):
            raise InputError(f"total must be int64 [{self.length}]; found {list(total.shape)}")
        found, entries = {}, self.layout.floats
        for entry, count in zip(entries, self._levels.reached(total, [e.name for e in entries]), strict=True):
            if self.known is not None and not count:
                found[entry.name] = self.known[entry.name]
                continue
            largest = ZERO_BOUND if not count else 2.0 ** self._exponents[entry.name][count - 1]
            spare = self.headroom_bits * (1 if self.known is None else 2)
            room = min(spare, 1024 - math.frexp(largest)[1])
            found[entry.name] = self._capped(entry, math.ldexp(largest, room))
        return found

    def _capped(self, entry: Entry, bound: float) -> float:
        return bound if self.weight_bits else bound_for(entry, bound)

    def _floor(self, name: str) -> float:
        """What is known of a tensor's magnitude: who exceeds it reaches the lowest level."""
        return 0.0 if self.known is None else self.known[name]

    def _magnitudes(self, mapping: Tree) -> dict[str, float]:
        """The largest magnitude of every float tensor, by name."""
        arrays = self.layout.arrays(mapping)
        return {entry.name: self._checked(entry, arrays.largest(entry.name)) for entry in self.layout.floats}

    def _checked(self, entry: Entry, largest: float) -> float:
        magnitude, most = finite(largest, named(entry)), _highest(entry, self.weight_bits)
        if magnitude > 2.0**most:
            raise FieldRangeError(f"numbers under {entry.name!r} must not exceed 2^{most}; at least one does")
        return magnitude


def _exponents(entry: Entry, step: int, weight_bits: int) -> list[int]:
    """For each level the exponent that magnitudes stay within when it is the highest one reached."""
    lowest, highest = max(LOWEST, SMALLEST[entry.dtype]), _highest(entry, weight_bits)
    return [*range(lowest, highest, step), highest]


def _highest(entry: Entry, weight_bits: int) -> int:
    """The last of them."""
    return min(LARGEST[entry.dtype] + weight_bits, 1023)
