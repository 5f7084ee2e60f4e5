"""Shares as one received word: error location on a random combination, everything else as erasures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic

from fgl_secure.algebra.array_kinds import arithmetic_of
from fgl_secure.algebra.interpolation import lagrange_matrix
from fgl_secure.algebra.prime_field import ElementsT, PrimeField
from fgl_secure.algebra.reed_solomon import locate_errors
from fgl_secure.coins import Coins
from fgl_secure.errors import TooManyErrors


@dataclass(frozen=True, slots=True, eq=False)
class Word(Generic[ElementsT]):
    """Values of polynomials, one for each coordinate, at common points, some rows of them wrong.

    Attributes:
        field: the field.
        points: m distinct elements.
        rows: elements [m, L], the values at each point.
        dimension: coefficients of each polynomial, at most m - 2 max_errors.
        max_errors: rows that may be wrong.
    """

    field: PrimeField
    points: tuple[int, ...]
    rows: ElementsT
    dimension: int
    max_errors: int

    def decode(self, at: Sequence[int], coins: Coins) -> tuple[ElementsT, tuple[int, ...]]:
        """Evaluates the polynomials at other points.

        Errors are located in one random combination of the coordinates, which misses a wrong row with probability
        1 / p. So whatever was not used to interpolate is compared at every coordinate, and a coordinate that
        disagrees is decoded by itself: it names one more wrong row, or shows that there are too many. After at most
        `max_errors` such rounds the answer agrees with all rows but the wrong ones.

        Returns:
            Elements [len(at), L] and the wrong rows in ascending order.

        Raises:
            TooManyErrors: more than `max_errors` rows are wrong.
        """
        wrong: tuple[int, ...] = self._located(self._random_combination(coins)) if self.max_errors else ()
        agreeing: int
        while len(wrong) <= self.max_errors:
            values, agreeing = self._interpolated(at, wrong)
            if agreeing == self.rows.shape[1]:
                return values, wrong
            wrong = tuple(sorted({*wrong, *self._located(self._coordinate(agreeing))}))
        raise _too_many(self.max_errors)

    def _random_combination(self, coins: Coins) -> list[int]:
        weights = coins.uniform(self.field.modulus, (self.rows.shape[1],))
        combination: list[int] = self.field.dot(self.rows, weights).tolist()
        return combination

    def _coordinate(self, index: int) -> list[int]:
        rows: Any = self.rows
        values: list[int] = rows[:, index].tolist()
        return values

    def _located(self, values: list[int]) -> tuple[int, ...]:
        wrong = locate_errors(self.field.modulus, self.points, values, self.dimension, self.max_errors)
        if wrong is None:
            raise _too_many(self.max_errors)
        return wrong

    def _interpolated(self, at: Sequence[int], wrong: tuple[int, ...]) -> tuple[ElementsT, int]:
        """Values at other points from the first right rows, and up to which coordinate the other right rows agree."""
        right = [i for i in range(len(self.points)) if i not in wrong]
        used: list[int] = right[: self.dimension]
        checked: list[int] = right[self.dimension :]
        matrix = lagrange_matrix(self.field, [self.points[i] for i in used], [*at, *(self.points[i] for i in checked)])
        arithmetic, _ = arithmetic_of(self.rows)
        return arithmetic.interpolate(matrix, self.rows, used, checked, self.field.modulus)


def _too_many(max_errors: int) -> TooManyErrors:
    return TooManyErrors(f"shares must be wrong for at most max_errors = {max_errors} workers; more of them disagree")
