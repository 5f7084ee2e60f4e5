"""Exact privacy of protocols whose views are affine in their coins, at sizes that enumeration cannot reach.

If a view is c(inputs) + coins M over F_p, with coins uniform and M the same for all inputs, then over all tapes it is
uniform on a coset of the row space of M. Two such distributions are the same or have no view in common: their total
variation is 0 if the difference of the offsets lies in the row space, and 1 if not. M is read off the protocol itself,
run on the zero tape and on every unit tape; that the view is affine is checked on random tapes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgl_secure.coins import Coins
from fgl_secure.runtime import Party, Private, Recording, Transcript
from fgl_secure.testing import Protocol
from fgl_secure.testing.arms import Layout, views_of
from fgl_secure.testing.coins import CountingCoins
from fgl_secure.testing.protocol import Inputs

Ints = NDArray[np.int64]

CHECKS = 8
"""Random tapes on which affinity is checked: a view that is not affine agrees on one with probability 1/p or so."""


class GivenTapes(Coins):
    """Some tapes, all at once: int64 [tapes, coins], all below one modulus."""

    def __init__(self, tapes: Ints, modulus: int) -> None:
        self._tapes, self._modulus, self._used = tapes, modulus, 0

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """(tapes,)."""
        return (len(self._tapes),)

    def uniform(self, modulus: int, shape: tuple[int, ...]) -> Ints:
        """The next coins of every tape."""
        assert modulus == self._modulus
        start, self._used = self._used, self._used + math.prod(shape)
        return self._tapes[:, start : self._used].reshape(-1, *shape).copy()


@dataclass(frozen=True, slots=True, eq=False)
class Affine:
    """A view as a function of the coins.

    Attributes:
        layout: of its coordinates.
        offset: int64 [coordinates], the view on the zero tape, modulo p.
        matrix: int64 [coins, coordinates].
    """

    layout: Layout
    offset: Ints
    matrix: Ints


class Judge:
    """Exact total variation of views of one protocol; every input is run once, whoever watches."""

    def __init__(self, protocol: Protocol) -> None:
        self._protocol, self._runs = protocol, dict[bytes, tuple[Transcript, Ints]]()

    def distance(self, a: Inputs, b: Inputs, coalition: tuple[Party, ...]) -> int:
        """Exact total variation of a coalition's views on two inputs: 0 or 1."""
        first, second = self._view(a, coalition), self._view(b, coalition)
        if first.layout != second.layout:
            return 1
        assert (first.matrix == second.matrix).all(), "coins enter the view differently for the two inputs"
        p = self._protocol.modulus
        return int(not in_row_space(first.matrix, (first.offset - second.offset) % p, p))

    def _view(self, inputs: Inputs, coalition: tuple[Party, ...]) -> Affine:
        key, p = inputs.tobytes(), self._protocol.modulus
        if key not in self._runs:
            self._runs[key] = self._run(inputs)
        transcript, tapes = self._runs[key]
        views = views_of(transcript, coalition, (Private.INPUT, Private.COINS))
        seen = np.broadcast_to(views.values, (len(tapes), views.values.shape[1])) % p
        coins = tapes.shape[1]
        offset, matrix = seen[0], (seen[1 : coins + 1] - seen[0]) % p
        expected = (offset + tapes[coins + 1 :] @ matrix) % p
        assert (seen[coins + 1 :] == expected).all(), "the view is not affine in the coins"
        return Affine(views.layout, offset, matrix)

    def _run(self, inputs: Inputs) -> tuple[Transcript, Ints]:
        counting, p = CountingCoins((1,)), self._protocol.modulus
        self._protocol.transcript(inputs, counting, Recording())
        coins = sum(draw.count for draw in counting.draws)
        zero, units = np.zeros((1, coins), dtype=np.int64), np.eye(coins, dtype=np.int64)
        tapes = np.concatenate([zero, units, np.random.default_rng(0).integers(0, p, (CHECKS, coins))])
        return self._protocol.transcript(inputs, GivenTapes(tapes, p), Recording.everything()), tapes


def distance(protocol: Protocol, a: Inputs, b: Inputs, coalition: tuple[Party, ...]) -> int:
    """One question to a judge."""
    return Judge(protocol).distance(a, b, coalition)


def in_row_space(matrix: Ints, vector: Ints, p: int) -> bool:
    """Whether a vector is a combination of the rows, by elimination modulo p."""
    rows, rest = matrix % p, vector % p
    for column in range(matrix.shape[1]):
        pivots = np.flatnonzero(rows[:, column])
        if not len(pivots):
            if rest[column]:
                return False
            continue
        pivot = rows[pivots[0]] * pow(int(rows[pivots[0], column]), -1, p) % p
        rows = np.delete(rows, pivots[0], axis=0)
        rows = (rows - np.outer(rows[:, column], pivot)) % p
        rest = (rest - rest[column] * pivot) % p
    return True
