"""How large the numbers of every tensor are at most, found by a sum that tells nothing else: a secure maximum."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fgl_secure.aggregation.arrays import LARGEST, SMALLEST, reals_of
from fgl_secure.aggregation.encoding import bound_for, named
from fgl_secure.aggregation.layout import Entry, Layout, Tree
from fgl_secure.algebra.quantization import Integers, check_finite
from fgl_secure.coins import Coins
from fgl_secure.errors import FieldRangeError, InputError, ProtocolError

LOWEST = -40
"""Binary exponent of the first level above zero; smaller numbers count as this large."""
STEP = 2
"""Levels go by factors of 2^STEP: the maximum is told to within that, and not more closely."""
HEADROOM_BITS = 4
"""A range is 2^HEADROOM_BITS times what was found, for later rounds: parameters grow."""
ZERO_BOUND = 1.0
"""Taken for a tensor that is zero at all clients, which says nothing of its range: biases that are yet untrained."""


@dataclass(frozen=True, slots=True)
class RangeLevels:
    """The levels that clients tell they reach, for every float tensor; integers need no range.

    For each tensor there is a row of levels: the first is reached by a client that has a number other than zero there,
    the others by one with a magnitude above 2^e, for e = LOWEST, LOWEST + STEP, ... up to what the type holds. A
    client puts a uniform element of the field at every level that it reaches and 0 at all others; the vectors are
    added up modulo p under the scheme.

    A sum of elements of which one is uniform and independent is uniform. So at levels that somebody reaches the total
    is uniform, whoever and however many do, and elsewhere it is 0: it depends on the clients' numbers by the level of
    each tensor's maximum and by nothing else. A level that is reached looks empty with probability 1/p; if it is the
    highest one, some client finds its numbers beyond the bound, which is an error and no wrong mean.

    Where ranges are known already, levels within them are left out, and the lowest level of a tensor is reached by who
    has outgrown its range. So as long as nobody has, the sum is 0 and tells nothing but that.

    Attributes:
        layout: of the mappings.
        modulus: p, of the scheme's field.
        known: ranges that were found before, by tensor; None where none were.
    """

    layout: Layout
    modulus: int
    known: Mapping[str, float] | None = None
    _above: Mapping[str, Sequence[int]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        above = {}
        for entry in self.layout.floats:
            floor = self._floor(entry.name)
            above[entry.name] = [exponent for exponent in _exponents(entry) if 2.0**exponent > floor]
        object.__setattr__(self, "_above", above)

    @property
    def length(self) -> int:
        """Entries of a vector; 0 where there are no floats."""
        return sum(map(len, self._above.values()))

    def encode(self, mapping: Tree, coins: Coins) -> Integers:
        """The vector of a mapping, int64 [length], fresh each time.

        Raises:
            InputError: another layout, NaN or infinity; names the key.
            FieldRangeError: a number beyond 2^1023.
        """
        arrays = self.layout.arrays(mapping)
        reached = [self._reached(entry, reals_of(arrays[entry.name])) for entry in self.layout.floats]
        return np.where(np.concatenate(reached), coins.uniform(self.modulus, (self.length,)), 0)

    def bounds(self, total: Integers) -> dict[str, float]:
        """A bound for every float tensor, from the sum of the vectors modulo p: a power of two, with headroom.

        Where no level is reached, it is the known one.

        Raises:
            ProtocolError: a level is reached, and one below it is not: some vector was none of these.
        """
        if total.shape != (self.length,):
            raise InputError(f"total must be int64 [{self.length}]; found {list(total.shape)}")
        found = {}
        for entry, place in self._places():
            levels = np.flatnonzero(total[place])
            if len(levels) and int(levels[-1]) >= len(levels):
                raise ProtocolError(
                    f"levels under {entry.name!r} must be reached from the lowest on; one is left out, so that a "
                    f"client must have handed in something else"
                )
            if self.known is not None and not len(levels):
                found[entry.name] = self.known[entry.name]
                continue
            largest = ZERO_BOUND if not len(levels) else 2.0 ** self._above[entry.name][levels[-1]]
            found[entry.name] = bound_for(entry, math.ldexp(largest, min(HEADROOM_BITS, 1024 - math.frexp(largest)[1])))
        return found

    def _places(self) -> Iterator[tuple[Entry, slice]]:
        start = 0
        for entry in self.layout.floats:
            count = len(self._above[entry.name])
            yield entry, slice(start, start + count)
            start += count

    def _floor(self, name: str) -> float:
        """What is known of a tensor's magnitude: who exceeds it reaches the lowest level."""
        return 0.0 if self.known is None else self.known[name]

    def _reached(self, entry: Entry, reals: NDArray[np.float64]) -> NDArray[np.bool_]:
        magnitude, exponents = check_finite(reals, named(entry)), self._above[entry.name]
        most = _exponents(entry)[-1]
        if magnitude > 2.0**most:
            raise FieldRangeError(f"numbers under {entry.name!r} must not exceed 2^{most}; at least one does")
        floors = [self._floor(entry.name), *(2.0**e for e in exponents)][: len(exponents)]
        return np.array([magnitude > floor for floor in floors], dtype=np.bool_)


def _exponents(entry: Entry) -> list[int]:
    """For each level the exponent that magnitudes stay within when it is the highest one reached."""
    lowest, highest = max(LOWEST, SMALLEST[entry.dtype]), min(LARGEST[entry.dtype], 1023)
    return [*range(lowest, highest, STEP), highest]
