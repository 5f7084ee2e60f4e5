"""The only source of randomness for anything under a privacy claim.

A scheme never asks numpy or torch for randomness: it asks the `Coins` it was given. The same code then runs with
secret coins (`SystemCoins`), repeatable ones (`SimulationCoins`) and all of them at once (`TapeCoins`).
"""

from __future__ import annotations

import hashlib
import itertools
import math
import os
from abc import ABC, abstractmethod
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from fgl_secure.crypto.streams import KEY_BYTES, FieldStream
from fgl_secure.errors import InputError

MAX_TAPES = 2**24


class Coins(ABC):
    """A supply of independent uniform elements."""

    @property
    @abstractmethod
    def batch_shape(self) -> tuple[int, ...]:
        """Leading axes that every draw has: () for one run, (tapes,) when all tapes run at once."""

    @abstractmethod
    def uniform(self, modulus: int, shape: tuple[int, ...]) -> NDArray[np.int64]:
        """Draws int64 [*batch_shape, *shape], uniform on 0 .. modulus - 1, never the same coins twice."""


_forks = itertools.count(1)
_process = 0
"""How many forks lie between the first process and this one; process identifiers are used again."""


def _renumber_process() -> None:
    global _process  # noqa: PLW0603  # what a process is, is known to the module alone
    _process = next(_forks)


os.register_at_fork(after_in_child=_renumber_process)


class SystemCoins(Coins):
    """Secret coins: 32 bytes of the operating system's entropy key a stream cipher.

    A process that was forked draws a key of its own, or parent and children would have the same masks and the same
    noise. Coins are not copied and not pickled.

    Examples:
        >>> SystemCoins().uniform(7, (3,)).shape
        (3,)
    """

    __slots__ = ("_owner", "_stream")

    def __init__(self) -> None:
        self._seed()

    def _seed(self) -> None:
        self._stream, self._owner = FieldStream(os.urandom(KEY_BYTES)), (os.getpid(), _process)

    def __repr__(self) -> str:
        return "SystemCoins(<secret>)"

    def __reduce__(self) -> NoReturn:
        raise InputError("secret coins must be made where they are used, and not be copied; found a copy asked for")

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """No leading axes: one run."""
        return ()

    def uniform(self, modulus: int, shape: tuple[int, ...]) -> NDArray[np.int64]:
        """Draws int64 [*shape], uniform on 0 .. modulus - 1; from a fresh key in a process that was forked."""
        if self._owner != (os.getpid(), _process):
            self._seed()
        return self._stream.uniform(modulus, math.prod(shape)).reshape(shape)


class SimulationCoins(Coins):
    """Repeatable coins for measurements and tests; a party that knows the seed knows every mask.

    Args:
        seed: any integer; equal seeds give equal coins.

    Examples:
        >>> SimulationCoins(0).uniform(7, (3,)).tolist() == SimulationCoins(0).uniform(7, (3,)).tolist()
        True
    """

    __slots__ = ("_seed", "_stream")

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._stream = FieldStream(hashlib.sha256(b"fgl-secure simulation coins|%d" % seed).digest())

    def __repr__(self) -> str:
        return f"SimulationCoins(seed={self._seed})"

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """No leading axes: one run."""
        return ()

    def uniform(self, modulus: int, shape: tuple[int, ...]) -> NDArray[np.int64]:
        """Draws int64 [*shape], uniform on 0 .. modulus - 1."""
        return self._stream.uniform(modulus, math.prod(shape)).reshape(shape)


class TapeCoins(Coins):
    """Every coin tape of a small protocol at once, for exact enumeration.

    The tapes are all words of `length` elements below `modulus`; a draw takes the next positions of every tape.
    A run with these coins is `modulus ** length` runs, and counting equal views compares distributions exactly.

    Args:
        modulus: size of the range of each coin.
        length: how many coins one run draws; `modulus ** length` may not exceed 2^24.
    """

    __slots__ = ("_length", "_modulus", "_used")

    def __init__(self, modulus: int, length: int) -> None:
        if modulus < 1 or length < 0 or modulus**length > MAX_TAPES:
            raise InputError(f"modulus ** length must lie in 1..2^24; found {modulus} ** {length}")
        self._modulus, self._length, self._used = modulus, length, 0

    def __repr__(self) -> str:
        return f"TapeCoins(modulus={self._modulus}, length={self._length}, used={self._used})"

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """(tapes,): the axis that runs over all tapes."""
        return (self._modulus**self._length,)

    @property
    def unused_coins(self) -> int:
        """Coins of each tape that no draw has taken yet."""
        return self._length - self._used

    def uniform(self, modulus: int, shape: tuple[int, ...]) -> NDArray[np.int64]:
        """Draws int64 [tapes, *shape]: the next coins of every tape."""
        count = math.prod(shape)
        if modulus != self._modulus:
            raise InputError(f"modulus must be the tapes' {self._modulus}; found {modulus}")
        if count > self.unused_coins:
            raise InputError(f"length must cover all draws: {self.unused_coins} coins are left, {count} are asked for")
        tapes = np.arange(self._modulus**self._length, dtype=np.int64)
        positions = self._modulus ** np.arange(self._used, self._used + count, dtype=np.int64)
        self._used += count
        digits = tapes[:, None] // positions[None, :] % self._modulus
        return digits.reshape(*self.batch_shape, *shape)


def distinct_elements(coins: Coins, modulus: int, count: int) -> NDArray[np.int64]:
    """Draws an ordered tuple of distinct elements, uniform over all such tuples.

    Args:
        coins: coins of one run (no tape axis: the draws have different ranges).
        modulus: size of the field.
        count: how many elements, at most `modulus`.

    Returns:
        int64 [count].
    """
    if count > modulus:
        raise InputError(f"count of distinct elements must not exceed the field's {modulus}; found {count}")
    chosen: list[int] = []
    for taken in range(count):
        element = int(coins.uniform(modulus - taken, ()))
        for earlier in sorted(chosen):  # the element-th of those not taken yet
            element += element >= earlier
        chosen.append(element)
    return np.array(chosen, dtype=np.int64)
