"""Matrices that evaluate polynomials: what coding theory there is, on a few points and in python integers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra.prime_field import PrimeField


def lagrange_matrix(field: PrimeField, nodes: Sequence[int], at: Sequence[int]) -> NDArray[np.int64]:
    """Values of the Lagrange basis polynomials on `nodes` at other points.

    Entry [i, j] is the product over k != j of (at_i - node_k) / (node_j - node_k): the row that turns values at the
    nodes into the value at `at_i`.

    Returns:
        int64 [len(at), len(nodes)].
    """
    p = field.modulus
    scales = [pow(_others(p, nodes, node, j), -1, p) for j, node in enumerate(nodes)]
    rows = [_basis_values(p, nodes, scales, x) for x in at]
    return np.array(rows, dtype=np.int64).reshape(len(at), len(nodes))


def vanishing_matrix(field: PrimeField, roots: Sequence[int], at: Sequence[int], columns: int) -> NDArray[np.int64]:
    """Values at some points of x^j times the product of all (x - root), for j below `columns`.

    Its columns span the polynomials of degree below len(roots) + columns that vanish at the roots.

    Returns:
        int64 [len(at), columns].
    """
    p, rows = field.modulus, []
    for x in at:
        value = _others(p, roots, x)
        rows.append([value * pow(x, j, p) % p for j in range(columns)])
    return np.array(rows, dtype=np.int64).reshape(len(at), columns)


def _others(p: int, nodes: Sequence[int], x: int, left_out: int | None = None) -> int:
    """The product of (x - node) over all nodes but one."""
    product = 1
    for k, node in enumerate(nodes):
        if k != left_out:
            product = product * (x - node) % p
    return product


def _basis_values(p: int, nodes: Sequence[int], scales: Sequence[int], x: int) -> list[int]:
    """One row: products of the differences before and behind each node, so that no difference is divided by."""
    behind = [1]
    for node in reversed(nodes[1:]):
        behind.append(behind[-1] * (x - node) % p)
    before, row = 1, []
    for node, scale, rest in zip(nodes, scales, reversed(behind), strict=True):
        row.append(before * rest * scale % p)
        before = before * (x - node) % p
    return row
