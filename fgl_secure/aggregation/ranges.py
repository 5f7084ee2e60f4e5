"""How large the numbers of every tensor are at most, found by a sum that tells nothing else: a secure maximum."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.aggregation.arrays import LARGEST, SMALLEST, reals_of
from fgl_secure.aggregation.encoding import bound_for, named
from fgl_secure.aggregation.layout import Entry, Layout
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

    Attributes:
        layout: of the mappings.
        modulus: p, of the scheme's field.
    """

    layout: Layout
    modulus: int

    @property
    def length(self) -> int:
        """Entries of a vector; 0 where there are no floats."""
        return sum(len(_exponents(entry)) for entry in self.layout.floats)

    def encode(self, mapping: Mapping[str, Any], coins: Coins) -> Integers:
        """The vector of a mapping, int64 [length], fresh each time.

        Raises:
            InputError: another layout, NaN or infinity; names the key.
            FieldRangeError: a number beyond 2^1023.
        """
        arrays = self.layout.arrays(mapping)
        reached = [_reached(entry, reals_of(arrays[entry.name])) for entry in self.layout.floats]
        return np.where(np.concatenate(reached), coins.uniform(self.modulus, (self.length,)), 0)

    def bounds(self, total: Integers) -> dict[str, float]:
        """A bound for every float tensor, from the sum of the vectors modulo p: a power of two, with headroom.

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
            largest = ZERO_BOUND if not len(levels) else 2.0 ** _exponents(entry)[levels[-1]]
            found[entry.name] = bound_for(entry, math.ldexp(largest, min(HEADROOM_BITS, 1024 - math.frexp(largest)[1])))
        return found

    def _places(self) -> Iterator[tuple[Entry, slice]]:
        start = 0
        for entry in self.layout.floats:
            count = len(_exponents(entry))
            yield entry, slice(start, start + count)
            start += count


def _exponents(entry: Entry) -> list[int]:
    """For each level the exponent that magnitudes stay within when it is the highest one reached."""
    lowest, highest = max(LOWEST, SMALLEST[entry.dtype]), min(LARGEST[entry.dtype], 1023)
    return [*range(lowest, highest, STEP), highest]


def _reached(entry: Entry, reals: NDArray[np.float64]) -> NDArray[np.bool_]:
    magnitude, exponents = check_finite(reals, named(entry)), _exponents(entry)
    if magnitude > 2.0 ** exponents[-1]:
        raise FieldRangeError(f"numbers under {entry.name!r} must not exceed 2^{exponents[-1]}; at least one does")
    return np.array([magnitude > floor for floor in (0.0, *(2.0**e for e in exponents[:-1]))])
