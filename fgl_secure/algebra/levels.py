"""How large the parts of vectors are at most, by a sum modulo p that tells nothing else: a secure maximum."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgl_secure.coins import Coins
from fgl_secure.errors import ProtocolError
from fgl_secure.typing import Integers


@dataclass(frozen=True, slots=True)
class Levels:
    """Levels of magnitude, ascending for each part.

    Who has a number beyond a level in a part puts a uniform element of the field there, and 0 at all others; the
    vectors are added up modulo p. A sum of elements of which one is uniform and independent is uniform. So at levels
    that a party reaches the total is uniform, no matter which party and however many do, and elsewhere it is 0: it
    depends on the numbers by the level of each part's maximum and by nothing else. A level that is reached looks empty
    with probability 1/p; if it is the highest one, a party finds its numbers beyond the bound, which is an error.

    Attributes:
        modulus: p.
        levels: for each part the magnitudes that are to be exceeded.
    """

    modulus: int
    levels: tuple[tuple[float, ...], ...]

    @property
    def length(self) -> int:
        """Of a vector: of all levels of all parts."""
        return sum(map(len, self.levels))

    def encode(self, magnitudes: Sequence[float], coins: Coins) -> Integers:
        """The vector of whose numbers are so large, part by part: int64 [length], fresh each time."""
        parts = [magnitude > np.array(above) for magnitude, above in zip(magnitudes, self.levels, strict=True)]
        reached = np.concatenate([np.zeros(0, dtype=np.bool_), *parts])
        return np.where(reached, coins.uniform(self.modulus, (self.length,)), 0)

    def reached_levels(self, total: NDArray[np.integer] | NDArray[np.bool_], names: Sequence[object]) -> list[int]:
        """How many levels of each part a party reaches.

        Args:
            total: [length], the sum of the vectors, or where it is not 0.
            names: of the parts, for messages.

        Raises:
            ProtocolError: a level is reached, and one below it is not: some vector was none of these.
        """
        counts = []
        for name, place in zip(names, self._places(), strict=True):
            result = np.flatnonzero(total[place])
            if len(result) and int(result[-1]) >= len(result):
                raise ProtocolError(
                    f"levels under {name!r} must be reached from the lowest on; one is left out, so that a "
                    f"client must have handed in something else"
                )
            counts.append(len(result))
        return counts

    def _places(self) -> Iterator[slice]:
        start = 0
        for above in self.levels:
            yield slice(start, start + len(above))
            start += len(above)
