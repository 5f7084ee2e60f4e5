"""Matrices that evaluate polynomials, and the values of many polynomials of which each has points of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra.prime_field import PrimeField
from fgl_secure.algebra.reduction import canonical, compiled, inlined, multiply
from fgl_secure.errors import InputError
from fgl_secure.threads import Thread, range_of
from fgl_secure.typing import Array, Flags, Ids

FEW = 64
"""Polynomials that are worked on at one time by each core, so that what a core needs is laid out once for all."""


def lagrange_matrix(field: PrimeField, nodes: Sequence[int], at: Sequence[int]) -> NDArray[np.int64]:
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
    others, out = np.array(at, dtype=np.int64), np.empty((len(at), len(nodes)), dtype=np.int64)
    scales = np.empty(len(nodes), dtype=np.int64)
    _scales(points, p, scales)
    _bases(points, scales, others, p, out)
    return out


def vanishing_matrix(field: PrimeField, roots: Sequence[int], at: Sequence[int], columns: int) -> NDArray[np.int64]:
    """Values at some points of x^j times the product of all (x - root), for j below `columns`.

    Its columns span the polynomials of degree below len(roots) + columns that vanish at the roots.

    Returns:
        int64 [len(at), columns].
    """
    p, rows = field.modulus, []
    for x in at:
        value = 1
        for root in roots:
            value = value * (x - root) % p
        rows.append([value * pow(x, j, p) % p for j in range(columns)])
    return np.array(rows, dtype=np.int64).reshape(len(at), columns)


def values_at(
    field: PrimeField, points: Ids, counts: Ids, values: NDArray[np.int64], dimension: int, at: int
) -> tuple[NDArray[np.int64], Flags]:
    """The values at one point of many polynomials, each through points of its own.

    The first `dimension` points of each determine it; which of the others lie on it too is told.

    Args:
        field: of all of it.
        points: elements, int64 [s, m], distinct within a row.
        counts: int64 [s], how many of a row's points there are, `dimension` or more; the others don't count.
        values: elements, int64 [s, m, w], of w polynomials at each point.
        dimension: coefficients of a polynomial.
        at: an element.

    Returns:
        Elements, int64 [s, w], and bool [s, m]: at which points all w polynomials have another value.
    """
    shape = values.shape
    out, off = np.empty((shape[0], shape[2]), dtype=np.int64), np.zeros(shape[:2], dtype=np.bool_)
    laid = np.ascontiguousarray(points), np.ascontiguousarray(counts), np.ascontiguousarray(values)
    _values_at(*laid, dimension, at, field.modulus, out, off)
    return out, off


@compiled
def _scales(nodes: Array, modulus: int, out: Array, thread: Thread) -> None:
    """out[j] = 1 / the product over k != j of (node_j - node_k)."""
    for j in range_of(len(nodes), thread):
        out[j] = _inverse(_others(nodes, len(nodes), j, modulus), modulus)


@compiled
def _bases(nodes: Array, scales: Array, at: Array, modulus: int, out: Array, thread: Thread) -> None:
    """out[i, j] = the j-th basis polynomial at at[i]."""
    for i in range_of(len(at), thread):
        _basis(nodes, scales, len(nodes), at[i], modulus, out[i])


@compiled
def _values_at(
    points: Array,
    counts: Array,
    values: Array,
    dimension: int,
    at: int,
    modulus: int,
    out: Array,
    off: Array,
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
            _basis(points[s], scales, dimension, at, modulus, row)
            _weighed(row, values[s], dimension, modulus, out[s])
            for i in range(dimension, counts[s]):
                _basis(points[s], scales, dimension, points[s, i], modulus, row)
                _weighed(row, values[s], dimension, modulus, value)
                for w in range(width):
                    off[s, i] |= value[w] != values[s, i, w]


@inlined
def _others(nodes: Array, count: int, j: int, modulus: int) -> Any:
    """The product of the differences of one node and the others."""
    product = np.int64(1)
    for k in range(count):
        if k != j:
            product = multiply(product, canonical(nodes[j] - nodes[k], modulus), modulus)
    return product


@inlined
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


@inlined
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


@inlined
def _weighed(weights: Array, rows: Array, count: int, modulus: int, out: Array) -> None:
    """out[w] = the sum over j of weights[j] * rows[j, w]."""
    for w in range(len(out)):
        total = np.int64(0)
        for j in range(count):
            total = canonical(total + multiply(weights[j], rows[j, w], modulus), modulus)
        out[w] = total


@inlined
def _inverse(value: Any, modulus: int) -> Any:
    """value^(modulus - 2)."""
    base, exponent, power = value, modulus - 2, np.int64(1)
    while exponent > 0:
        if exponent & 1:
            power = multiply(power, base, modulus)
        base = multiply(base, base, modulus)
        exponent >>= 1
    return power
