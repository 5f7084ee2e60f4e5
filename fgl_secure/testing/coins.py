"""Coins that run a protocol many times at once, and coins that count."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fgl_secure.coins import MAX_TAPES, Coins
from fgl_secure.errors import InputError
from fgl_secure.typing import Integers


@dataclass(frozen=True, slots=True)
class CoinDraw:
    """One draw of a run: `count` coins, each uniform below `modulus`."""

    modulus: int
    count: int


class CountingCoins(Coins):
    """Coins that are all zero and note what was drawn: the dry run that says how many tapes there are.

    Args:
        batch_shape: leading axes that the protocol expects, () or (1,).
    """

    __slots__ = ("_batch_shape", "draws")

    def __init__(self, batch_shape: tuple[int, ...] = ()) -> None:
        self._batch_shape = batch_shape
        self.draws: list[CoinDraw] = []

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """As given."""
        return self._batch_shape

    def uniform(self, modulus: int, shape: tuple[int, ...]) -> Integers:
        """Zeros int64 [*batch_shape, *shape]."""
        self.draws.append(CoinDraw(modulus, math.prod(shape)))
        return np.zeros((*self._batch_shape, *shape), dtype=np.int64)


class BatchCoins(Coins):
    """Independent coins for `size` runs at once: one leading axis, as under enumeration.

    Args:
        source: coins of one run, without leading axes.
        size: how many runs.
    """

    __slots__ = ("_size", "_source")

    def __init__(self, source: Coins, size: int) -> None:
        if source.batch_shape or size < 1:
            raise InputError(
                f"source must have no leading axes and size be at least 1; found {source.batch_shape} and {size}"
            )
        self._source, self._size = source, size

    def __repr__(self) -> str:
        return f"BatchCoins({self._source!r}, size={self._size})"

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """(size,)."""
        return (self._size,)

    def uniform(self, modulus: int, shape: tuple[int, ...]) -> Integers:
        """Draws int64 [size, *shape], uniform on 0 .. modulus - 1."""
        return self._source.uniform(modulus, (self._size, *shape))


def tape_count(draws: Sequence[CoinDraw]) -> int:
    """How many coin tapes a run with these draws has."""
    return math.prod(draw.modulus**draw.count for draw in draws)


class TapeError(InputError):
    """A protocol asked a tape for coins that no dry run asked for: its tapes are not equally likely."""


class Tapes(Coins):
    """Every coin tape of a protocol whose draws may have different ranges; `TapeCoins` where they have one.

    Args:
        draws: the draws of one run, in order.
        tape: None for all tapes at once, with a leading axis; a number for one tape, without.

    Raises:
        InputError: for more than 2^24 tapes.
    """

    __slots__ = ("_draws", "_next", "_stride", "_tapes")

    def __init__(self, draws: Sequence[CoinDraw], tape: int | None = None) -> None:
        total = tape_count(draws)
        if total > MAX_TAPES:
            raise InputError(
                f"coin tapes must number at most 2^24 to be enumerated; found {_factors(draws)}: take a smaller field, "
                "fewer parties, or the statistical check"
            )
        self._draws, self._next, self._stride = tuple(draws), 0, 1
        self._tapes: Integers = np.arange(total, dtype=np.int64) if tape is None else np.array(tape, dtype=np.int64)

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """(tapes,), or () for one tape."""
        return self._tapes.shape

    @property
    def is_exhausted(self) -> bool:
        """Whether every draw of the tapes has been taken."""
        return self._next == len(self._draws)

    def uniform(self, modulus: int, shape: tuple[int, ...]) -> Integers:
        """Draws int64 [*batch_shape, *shape]: the next coins of every tape."""
        draw = CoinDraw(modulus, math.prod(shape))
        if self.is_exhausted or self._draws[self._next] != draw:
            raise TapeError(
                "draws must not depend on the values of earlier coins, or tapes are not equally likely; draw "
                f"{self._next} asks for {draw.count} coins below {draw.modulus}, as no dry run did"
            )
        positions = self._stride * modulus ** np.arange(draw.count, dtype=np.int64)
        self._next += 1
        self._stride *= modulus**draw.count
        digits = np.expand_dims(self._tapes, -1) // positions % modulus
        return np.asarray(digits.reshape((*self.batch_shape, *shape)), dtype=np.int64)


def _factors(draws: Sequence[CoinDraw]) -> str:
    return " * ".join(f"{draw.modulus}^{draw.count}" for draw in draws)
