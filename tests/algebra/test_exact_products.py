"""Products over small fields by float64, against integers, at the edge of what is exact."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sympy import prevprime

from fgl_secure.algebra import PrimeField
from fgl_secure.algebra.exact_products import MOST_BITS, NEAR_2_23, ROWS, Side, exact_product, from_residues
from fgl_secure.errors import FieldRangeError

FIELDS = tuple(PrimeField(p) for p in (3, 5, 101, 65521, *NEAR_2_23))


def test_primes_are_the_largest_that_fit() -> None:
    """The largest below 2^23, in descending order: 512 products of residues of least magnitude stay below 2^53."""
    p = 2**MOST_BITS
    for found in NEAR_2_23:
        p = prevprime(p)
        assert found == p
    assert ROWS * (NEAR_2_23[0] // 2) ** 2 < 2**53


@pytest.mark.parametrize("field", FIELDS, ids=str)
@given(st.data())
def test_products_are_those_of_integers(field: PrimeField, data: st.DataObject) -> None:
    """Whatever the shapes, also with none or several rows to a part, and behind a batch axis."""
    seed = data.draw(st.integers(0, 2**32 - 1))
    rows, d, h = (data.draw(st.integers(1, most)) for most in (40, 6, 5))
    batch = data.draw(st.sampled_from([(), (2,)]))
    rng = np.random.default_rng(seed)
    left, right = (rng.integers(0, field.modulus, (*batch, rows, width)).astype(field.dtype) for width in (d, h))
    found = exact_product(field, Side.whole(left), Side.whole(right))
    whole = np.matmul(np.swapaxes(left, -1, -2).astype(object), right.astype(object)) % field.modulus
    assert found.dtype == field.dtype
    assert np.array_equal(found, whole.astype(np.int64))


@pytest.mark.parametrize("rows", [0, 1, ROWS - 1, ROWS, ROWS + 1, 3 * ROWS + 7])
def test_the_largest_residues_over_many_rows_are_exact(rows: int) -> None:
    """All entries at half of the largest prime, where sums are largest; one bit more would be rounded."""
    field = PrimeField(NEAR_2_23[0])
    largest = np.full((rows, 2), field.modulus // 2, dtype=field.dtype)
    largest[:, 1] += 1  # the least residue
    side = Side.whole(largest)
    assert rows == 0 or set(np.abs(side.centred(field, 0, rows)).ravel().tolist()) == {float(field.modulus // 2)}
    expected = [[int(a) * int(b) * rows % field.modulus for b in (largest[:1, 0].sum(), largest[:1, 1].sum())]
                for a in (largest[:1, 0].sum(), largest[:1, 1].sum())]  # fmt: skip
    assert exact_product(field, side, side).tolist() == expected


def test_rows_that_are_weighed_by_one_number_are_exact() -> None:
    """All elements the largest, more of them than int64 holds the products of; and pairs of rows cut from others."""
    field, rows = PrimeField(NEAR_2_23[0]), 2**18 + 5
    weights = np.full((rows, 1), field.modulus - 1, dtype=field.dtype)
    assert rows * (field.modulus - 1) ** 2 > 2**63
    found = exact_product(field, Side.whole(weights), Side.whole(np.repeat(weights, 3, axis=1)))
    assert found.tolist() == [[rows % field.modulus] * 3]
    rng = np.random.default_rng(0)
    elements = rng.integers(0, field.modulus, (2, 50, 9)).astype(field.dtype)
    one = Side(elements, np.arange(0, 50, 3), 1, 1, 2)
    other = Side(elements, np.arange(17, 34), 3, 3, 2)
    found = exact_product(field, one, other)
    pairs = elements[:, ::3, 1:3].reshape(2, -1, 1), elements[:, 17:34, 3:9].reshape(2, -1, 3)
    assert np.array_equal(found, np.matmul(np.swapaxes(pairs[0], 1, 2).astype(object), pairs[1]) % field.modulus)


def test_fields_that_are_too_large_are_refused() -> None:
    """Beyond 2^23 sums would be rounded."""
    with pytest.raises(FieldRangeError, match="modulus must be below 2\\^23 for exact products; found 2147483647"):
        exact_product(PrimeField(), *(Side.whole(np.zeros((1, 1), dtype=np.int64)) for _ in range(2)))


@given(st.integers(1, 3), st.integers(0, 3), st.integers(0, 2**32 - 1))
def test_sides_are_cut_from_what_stays_where_it_is(terms: int, first: int, seed: int) -> None:
    """Some rows, in any order and any number of times, some columns, and several rows of a matrix in one."""
    field, rng = PrimeField(101), np.random.default_rng(seed)
    elements = rng.integers(0, 101, (2, 7, first + 4 * terms + 1)).astype(field.dtype)
    members = rng.integers(0, 7, 5)
    side = Side(elements, members, first, 4, terms)
    cut = elements[:, members, first : first + 4 * terms].reshape(2, 5 * terms, 4).astype(np.int64)
    start, stop = sorted(rng.integers(0, 5 * terms + 1, 2).tolist())
    assert len(side) == 5 * terms
    expected = np.where(cut > 50, cut - 101, cut)[:, start:stop]
    assert np.array_equal(side.centred(field, start, stop), expected)
    assert np.array_equal(exact_product(field, side, side), np.matmul(np.swapaxes(cut, 1, 2), cut) % 101)


@given(st.integers(1, 3), st.data())
def test_integers_come_back_from_their_remainders(count: int, data: st.DataObject) -> None:
    """Up to half of the product of all primes, and below 2^62."""
    fields = [PrimeField(p) for p in NEAR_2_23[:count]]
    most = min((math.prod(NEAR_2_23[:count]) - 1) // 2, 2**62)
    values = np.array([*data.draw(st.lists(st.integers(-most, most), min_size=1, max_size=5)), most, -most, 0])
    remainders = [(values % field.modulus).astype(field.dtype) for field in fields]
    assert np.array_equal(from_residues(fields, remainders), values)
