"""Lagrange matrices, values of many polynomials, and shares as one word whose wrong letters are located.

The algorithm is Gao's ("A new algorithm for decoding Reed-Solomon codes", 2003, Algorithm 1a). It works on one short
vector of python integers, whatever the size of the shares: `LagrangeCode.decode` runs it once, on a random linear
combination of all coordinates. Polynomials are lists of coefficients, lowest first, without leading zeros; the zero
polynomial is the empty list.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra.kernels import canonical, compile_parallel, inline, multiply
from fgl_secure.algebra.prime_field import ElementsT, PrimeField
from fgl_secure.coins import Coins
from fgl_secure.errors import InputError, TooManyErrors
from fgl_secure.threads import Thread, range_of
from fgl_secure.typing import Array, Flags, Ids

FEW = 64
"""Polynomials that are worked on at one time by each core, so that what a core needs is laid out once for all."""


def lagrange_matrix(field: PrimeField, nodes: Sequence[int], targets: Sequence[int]) -> NDArray[np.int64]:
    """Values of the Lagrange basis polynomials on `nodes` at other points.

    Entry [i, j] is the product over k != j of (at_i - node_k) / (node_j - node_k): the row that turns values at the
    nodes into the value at `at_i`.

    Returns:
        int64 [len(at), len(nodes)].

    Raises:
        InputError: a node is given twice.
    """
    if len(set(nodes)) < len(nodes):
        raise InputError(f"nodes must be distinct; found {len(nodes) - len(set(nodes))} twice")
    points, p = np.array(nodes, dtype=np.int64), field.modulus
    others, out = np.array(targets, dtype=np.int64), np.empty((len(targets), len(nodes)), dtype=np.int64)
    scales = np.empty(len(nodes), dtype=np.int64)
    _scales(points, p, scales)
    _bases(points, scales, others, p, out)
    return out


def vanishing_matrix(field: PrimeField, roots: Sequence[int], points: Sequence[int], columns: int) -> NDArray[np.int64]:
    """Values at some points of x^j times the product of all (x - root), for j below `columns`.

    Its columns span the polynomials of degree below len(roots) + columns that vanish at the roots.

    Returns:
        int64 [len(at), columns].
    """
    p, rows = field.modulus, []
    for x in points:
        value = 1
        for root in roots:
            value = value * (x - root) % p
        rows.append([value * pow(x, j, p) % p for j in range(columns)])
    return np.array(rows, dtype=np.int64).reshape(len(points), columns)


def values_at(
    field: PrimeField, points: Ids, counts: Ids, values: NDArray[np.int64], dimension: int, point: int
) -> tuple[NDArray[np.int64], Flags]:
    """The values at one point of many polynomials, each through points of its own.

    The first `dimension` points of each determine it; which of the others lie on it too is told.

    Args:
        field: of all of it.
        points: elements, int64 [s, m], distinct within a row.
        counts: int64 [s], how many of a row's points there are, `dimension` or more; the others don't count.
        values: elements, int64 [s, m, w], of w polynomials at each point.
        dimension: coefficients of a polynomial.
        point: an element.

    Returns:
        Elements, int64 [s, w], and bool [s, m]: at which points all w polynomials have another value.
    """
    shape = values.shape
    out, deviates = np.empty((shape[0], shape[2]), dtype=np.int64), np.zeros(shape[:2], dtype=np.bool_)
    laid = np.ascontiguousarray(points), np.ascontiguousarray(counts), np.ascontiguousarray(values)
    _values_at(*laid, dimension, point, field.modulus, out, deviates)
    return out, deviates


@compile_parallel
def _scales(nodes: Array, modulus: int, out: Array, thread: Thread) -> None:
    """out[j] = 1 / the product over k != j of (node_j - node_k)."""
    for j in range_of(len(nodes), thread):
        out[j] = _inverse(_others(nodes, len(nodes), j, modulus), modulus)


@compile_parallel
def _bases(nodes: Array, scales: Array, points: Array, modulus: int, out: Array, thread: Thread) -> None:
    """out[i, j] = the j-th basis polynomial at at[i]."""
    for i in range_of(len(points), thread):
        _basis(nodes, scales, len(nodes), points[i], modulus, out[i])


@compile_parallel
def _values_at(
    points: Array,
    counts: Array,
    values: Array,
    dimension: int,
    point: int,
    modulus: int,
    out: Array,
    deviates: Array,
    thread: Thread,
) -> None:
    """See `values_at`."""
    polynomials, width = out.shape
    chunks = (polynomials + FEW - 1) // FEW
    for chunk in range_of(chunks, thread):
        scales, row = np.empty(dimension, dtype=np.int64), np.empty(dimension, dtype=np.int64)
        value = np.empty(width, dtype=np.int64)
        for s in range(chunk * FEW, min((chunk + 1) * FEW, polynomials)):
            _scale_all(points[s], dimension, modulus, scales, row)
            _basis(points[s], scales, dimension, point, modulus, row)
            _add_weighted(row, values[s], dimension, modulus, out[s])
            for i in range(dimension, counts[s]):
                _basis(points[s], scales, dimension, points[s, i], modulus, row)
                _add_weighted(row, values[s], dimension, modulus, value)
                for w in range(width):
                    deviates[s, i] |= value[w] != values[s, i, w]


@inline
def _others(nodes: Array, count: int, j: int, modulus: int) -> Any:
    """The product of the differences of one node and the others."""
    product = np.int64(1)
    for k in range(count):
        if k != j:
            product = multiply(product, canonical(nodes[j] - nodes[k], modulus), modulus)
    return product


@inline
def _scale_all(nodes: Array, count: int, modulus: int, out: Array, before: Array) -> None:
    """`_scales`, with one inversion for all of them (Montgomery's trick)."""
    product = np.int64(1)
    for j in range(count):
        out[j] = _others(nodes, count, j, modulus)
        before[j] = product
        product = multiply(product, out[j], modulus)
    inverse = _inverse(product, modulus)
    for j in range(count - 1, -1, -1):
        product = multiply(inverse, before[j], modulus)
        inverse = multiply(inverse, out[j], modulus)
        out[j] = product


@inline
def _basis(nodes: Array, scales: Array, count: int, x: int, modulus: int, out: Array) -> None:
    """One row: products of the differences before and behind each node, so that no difference is divided by."""
    product = np.int64(1)
    for j in range(count):
        out[j] = multiply(product, scales[j], modulus)
        product = multiply(product, canonical(x - nodes[j], modulus), modulus)
    product = np.int64(1)
    for j in range(count - 1, -1, -1):
        out[j] = multiply(out[j], product, modulus)
        product = multiply(product, canonical(x - nodes[j], modulus), modulus)


@inline
def _add_weighted(weights: Array, rows: Array, count: int, modulus: int, out: Array) -> None:
    """out[w] = the sum over j of weights[j] * rows[j, w]."""
    for w in range(len(out)):
        total = np.int64(0)
        for j in range(count):
            total = canonical(total + multiply(weights[j], rows[j, w], modulus), modulus)
        out[w] = total


@inline
def _inverse(value: Any, modulus: int) -> Any:
    """value^(modulus - 2)."""
    base, exponent, power = value, modulus - 2, np.int64(1)
    while exponent > 0:
        if exponent & 1:
            power = multiply(power, base, modulus)
        base = multiply(base, base, modulus)
        exponent >>= 1
    return power


Polynomial = list[int]


def locate_errors(
    modulus: int, points: Sequence[int], values: Sequence[int], dimension: int, max_errors: int
) -> tuple[int, ...] | None:
    """Finds the positions at which values differ from the one polynomial that is near enough.

    Args:
        modulus: a prime.
        points: m distinct elements.
        values: m elements, of which at most `max_errors` differ from a polynomial of degree below `dimension`.
        dimension: coefficients of the polynomial, 1 to m - 2 max_errors.
        max_errors: positions that may be wrong; m >= dimension + 2 max_errors, so at most one polynomial fits.

    Returns:
        The wrong positions in ascending order, or None: no polynomial differs in `max_errors` positions or fewer.
    """
    vanishing, interpolated = _newton(modulus, points, values)
    # Euclid's algorithm until the remainder's degree drops below `stop`; remainder / cofactor where it divides.
    stop = (len(points) + dimension + 1) // 2
    before, now = vanishing, interpolated
    cofactor_before, cofactor = [], [1]
    while len(now) > stop:
        quotient, remainder = _divide(modulus, before, now)
        before, now = now, remainder
        cofactor_before, cofactor = cofactor, _minus_product(modulus, cofactor_before, quotient, cofactor)
    quotient, remainder = _divide(modulus, now, cofactor)
    result = None if remainder else quotient
    if result is None or len(result) > dimension:
        return None
    errors = tuple(i for i, x in enumerate(points) if _value(modulus, result, x) != values[i])
    return errors if len(errors) <= max_errors else None


def _newton(modulus: int, points: Sequence[int], values: Sequence[int]) -> tuple[Polynomial, Polynomial]:
    """The product of all (x - point), and the polynomial of degree below m through all values."""
    vanishing, interpolated = [1], [0] * len(points)
    for i, (x, y) in enumerate(zip(points, values, strict=True)):
        miss = (y - _value(modulus, interpolated[:i], x)) * pow(_value(modulus, vanishing, x), -1, modulus)
        step = _pad(vanishing, len(points))
        interpolated = [(old + miss * new) % modulus for old, new in zip(interpolated, step, strict=True)]
        vanishing = [(low - x * high) % modulus for low, high in zip([0, *vanishing], [*vanishing, 0], strict=True)]
    return vanishing, _trim(interpolated)


def _pad(polynomial: Polynomial, length: int) -> Polynomial:
    return polynomial + [0] * (length - len(polynomial))


def _value(modulus: int, polynomial: Polynomial, x: int) -> int:
    value = 0
    for coefficient in reversed(polynomial):
        value = (value * x + coefficient) % modulus
    return value


def _trim(polynomial: Polynomial) -> Polynomial:
    while polynomial and not polynomial[-1]:
        polynomial.pop()
    return polynomial


def _divide(modulus: int, numerator: Polynomial, denominator: Polynomial) -> tuple[Polynomial, Polynomial]:
    """Quotient and remainder."""
    remainder, shift = list(numerator), len(numerator) - len(denominator)
    quotient, inverse = [0] * max(shift + 1, 0), pow(denominator[-1], -1, modulus)
    for degree in range(shift, -1, -1):
        factor = quotient[degree] = remainder[degree + len(denominator) - 1] * inverse % modulus
        for i, coefficient in enumerate(denominator):
            remainder[degree + i] = (remainder[degree + i] - factor * coefficient) % modulus
    return _trim(quotient), _trim(remainder)


def _minus_product(modulus: int, a: Polynomial, b: Polynomial, c: Polynomial) -> Polynomial:
    """The polynomial a - b c."""
    result = _pad(list(a), max(len(a), len(b) + len(c) - 1))
    for i, x in enumerate(b):
        for j, y in enumerate(c):
            result[i + j] = (result[i + j] - x * y) % modulus
    return _trim(result)


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

    def decode(self, points: Sequence[int], coins: Coins) -> tuple[ElementsT, tuple[int, ...]]:
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
        errors: tuple[int, ...] = self._locate_errors(self._random_combination(coins)) if self.max_errors else ()
        agreeing: int
        while len(errors) <= self.max_errors:
            values, agreeing = self._interpolate(points, errors)
            if agreeing == self.rows.shape[1]:
                return values, errors
            errors = tuple(sorted({*errors, *self._locate_errors(self._coordinate(agreeing))}))
        raise _too_many(self.max_errors)

    def _random_combination(self, coins: Coins) -> list[int]:
        weights = coins.uniform(self.field.modulus, (self.rows.shape[1],))
        combination: list[int] = self.field.dot(self.rows, weights).tolist()
        return combination

    def _coordinate(self, index: int) -> list[int]:
        rows: Any = self.rows
        values: list[int] = rows[:, index].tolist()
        return values

    def _locate_errors(self, values: list[int]) -> tuple[int, ...]:
        errors = locate_errors(self.field.modulus, self.points, values, self.dimension, self.max_errors)
        if errors is None:
            raise _too_many(self.max_errors)
        return errors

    def _interpolate(self, points: Sequence[int], errors: tuple[int, ...]) -> tuple[ElementsT, int]:
        """Values at other points from the first right rows, and up to which coordinate the other right rows agree."""
        right = [i for i in range(len(self.points)) if i not in errors]
        used: list[int] = right[: self.dimension]
        checked: list[int] = right[self.dimension :]
        matrix = lagrange_matrix(
            self.field, [self.points[i] for i in used], [*points, *(self.points[i] for i in checked)]
        )
        rows: Any = self.rows
        values: Any = self.field.combine_elements(matrix, rows[used] if errors else rows[: self.dimension], rows[:0])
        differs = (values[len(points) :] != rows[checked]).any(axis=0)
        agreeing = int((differs * 1).argmax()) if bool(differs.any()) else len(differs)
        return values[: len(points)], agreeing


def _too_many(max_errors: int) -> TooManyErrors:
    return TooManyErrors(f"shares must be wrong for at most max_errors = {max_errors} workers; more of them disagree")
