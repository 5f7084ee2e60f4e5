"""What a two-sample test looks at: coordinates of a view, pairs of them, and linear relations between many.

Tests of single coordinates miss a mask that is used twice: each share is uniform and only their difference is not.
So modular differences, sums, ratios and equality of pairs are features in their own right, and so is every linear
combination of coordinates that was constant in a sample taken before.

Shares of linear schemes break by linear relations: T + 1 points of one polynomial of degree T, or two shares under
one mask, determine a combination of secrets. Pairs of coordinates show those of two terms with coefficient 1; the
null space of a sample shows all of them. Relations must be found on other samples than they are tested on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sympy import isprime

from fgl_secure.algebra import PrimeField
from fgl_secure.errors import FieldRangeError, InputError
from fgl_secure.typing import Integers

MAX_RELATIONS = 16
MAX_COLUMNS = 96
"""Coordinates among which relations are looked for: the first ones that vary."""

SPARE = 32
"""Samples beyond the number of columns: a chance relation has probability modulus ** -SPARE or so."""


def affine_relations(views: Integers, modulus: int, most: int = MAX_RELATIONS) -> Integers:
    """Combinations of coordinates that are constant over a sample.

    Args:
        views: int64 [n, d], a sample with more rows than coordinates that vary.
        modulus: a prime.
        most: how many relations to return at most.

    Returns:
        Coefficients int64 [r, d] in 0 .. modulus - 1, linearly independent, none of them about a constant coordinate
        alone; r = 0 for a sample without relations.
    """
    varying = np.flatnonzero((views != views[0]).any(axis=0))[:MAX_COLUMNS]
    if len(views) < len(varying) + SPARE:
        raise InputError(f"views must number at least {len(varying) + SPARE}; found {len(views)}")
    wide = np.int64 if modulus <= 2**31 else np.object_  # a product of two elements must fit
    moves = ((views[1:, varying] % modulus).astype(wide) - (views[0, varying] % modulus).astype(wide)) % modulus
    reduced, pivots = _row_echelon(moves, modulus)
    free = np.setdiff1d(np.arange(len(varying)), pivots)[:most]
    relations = np.zeros((len(free), views.shape[1]), dtype=np.int64)
    relations[np.arange(len(free)), varying[free]] = 1
    relations[:, varying[pivots]] = (-reduced[: len(pivots), free].T % modulus).astype(np.int64)
    return relations


def _row_echelon(matrix: NDArray[np.int64], modulus: int) -> tuple[NDArray[np.int64], Integers]:
    """The reduced row echelon form modulo a prime, and its pivot columns."""
    rows = matrix.copy()
    pivots: list[int] = []
    for column in range(rows.shape[1]):
        below = np.flatnonzero(rows[:, column][len(pivots) :])
        if not len(below):
            continue
        top, found = len(pivots), len(pivots) + int(below[0])
        rows[[top, found]] = rows[[found, top]]
        rows[top] = rows[top] * pow(int(rows[top, column]), -1, modulus) % modulus
        factors = rows[:, column].copy()
        factors[top] = 0
        rows = (rows - factors[:, None] * rows[top] % modulus) % modulus
        pivots.append(column)
    return rows, np.array(pivots, dtype=np.int64)


MAX_PAIRS = 60
"""Pairs of coordinates that a test looks at unless told otherwise."""

_LARGEST_MODULUS = 2**62


@dataclass(frozen=True, slots=True)
class Pairs:
    """The pairs of coordinates that are looked at.

    Attributes:
        chosen: pairs (i, j) with i < j, the likeliest first.
        possible: how many pairs there are, so that a report can say how many were left out.
    """

    chosen: tuple[tuple[int, int], ...]
    possible: int

    @classmethod
    def among(cls, positions: Sequence[int], varying: Sequence[int], most: int = MAX_PAIRS) -> Pairs:
        """Pairs of coordinates at the same position of two messages first: that is where a mask used twice shows.

        Args:
            positions: position of each coordinate inside its message.
            varying: the coordinates that are not constant; a pair with a constant tells what the other tells alone.
            most: how many pairs to keep.
        """
        if most < 0:
            raise InputError(f"pairs must not be negative; found {most}")
        position, columns = np.asarray(positions, dtype=np.int64), np.asarray(varying, dtype=np.int64)
        i, j = columns[np.stack(np.triu_indices(len(columns), k=1))]
        order = np.argsort(position[i] != position[j], kind="stable")[:most]
        return cls(tuple(zip(i[order].tolist(), j[order].tolist(), strict=True)), len(i))


@dataclass(frozen=True, slots=True, eq=False)
class Joins:
    """Which coordinates of a view are looked at together.

    Attributes:
        pairs: two at a time.
        relations: int64 [r, d], coefficients of linear combinations (`affine_relations`).
    """

    pairs: Pairs
    relations: Integers

    def columns(self, modulus: int) -> int:
        """How many derived columns `features_of` makes, equality flags not counted."""
        return (3 if has_ratios(modulus) else 2) * len(self.pairs.chosen) + len(self.relations)


@dataclass(frozen=True, slots=True, eq=False)
class Features:
    """Named columns derived from a sample of views.

    Attributes:
        raw: int64 [n, d], the coordinates themselves.
        joint: int64 [n, k * (2 or 3) + r], differences, sums and (over a prime field) ratios of the k pairs, and the
            r linear combinations.
        equal: bool [n, k], whether the two coordinates of a pair are equal.
        joint_names: what each column of `joint` is, over the labels of the coordinates.
        equal_names: the same for `equal`.
    """

    raw: Integers
    joint: Integers
    equal: NDArray[np.bool_]
    joint_names: tuple[str, ...]
    equal_names: tuple[str, ...]


def features_of(views: Integers, modulus: int, joins: Joins, labels: Sequence[str]) -> Features:
    """Derives the columns that two-sample tests look at.

    Args:
        views: int64 [n, d], a sample of views.
        modulus: size of the ring that messages live in; ratios need a prime.
        joins: which of the d coordinates to look at together; relations need a prime modulus.
        labels: a name for each coordinate.
    """
    if not 2 <= modulus < _LARGEST_MODULUS:
        raise FieldRangeError(f"modulus must lie in 2..2^62 - 1; found {modulus}")
    pairs = joins.pairs
    first, second = np.array(pairs.chosen, dtype=np.int64).reshape(-1, 2).T
    a, b = views[:, first] % modulus, views[:, second] % modulus
    names = [(labels[i], labels[j]) for i, j in pairs.chosen]
    joint, joint_names = [(a - b) % modulus, (a + b) % modulus], [f"{x} - {y}" for x, y in names]
    joint_names += [f"{x} + {y}" for x, y in names]
    if has_ratios(modulus):
        joint.append(_ratios(PrimeField(modulus), a, b))
        joint_names += [f"{x} / {y}" for x, y in names]
    if len(joins.relations):
        joint.append(PrimeField(modulus).combine(joins.relations, views % modulus, axis=1).astype(np.int64))
        joint_names += [_relation_name(row, labels) for row in joins.relations]
    equal = views[:, first] == views[:, second]
    return Features(
        views, np.concatenate(joint, axis=1), equal, tuple(joint_names), tuple(f"{x} = {y}" for x, y in names)
    )


def _relation_name(coefficients: Integers, labels: Sequence[str]) -> str:
    terms = [f"{coefficients[j]} * {labels[j]}" for j in np.flatnonzero(coefficients).tolist()]
    more = f" and {len(terms) - 3} more" if len(terms) > 3 else ""
    return f"the combination {' + '.join(terms[:3])}{more}"


def has_ratios(modulus: int) -> bool:
    """Whether elements can be divided: the modulus is a prime that `PrimeField` takes."""
    if not isprime(modulus):
        return False
    try:
        PrimeField(modulus)
    except FieldRangeError:
        return False
    return True


def _ratios(field: PrimeField, a: Integers, b: Integers) -> Integers:
    """Elements a / b, with 0 for b = 0."""
    if not b.size:
        return np.zeros_like(b)
    return np.where(b == 0, 0, field.multiply(a, field.inverse(np.where(b == 0, 1, b)))).astype(np.int64)
