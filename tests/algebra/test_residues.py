"""Integers by their remainders modulo primes below 2^8, against Python's integers, at the edge of what is exact."""

import itertools
import math
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sympy import prevprime

from fgl_secure.algebra import PrimeField
from fgl_secure.algebra import residues as module
from fgl_secure.algebra.residues import (
    BELOW_2_8,
    FLOAT_ROWS,
    ROWS,
    combine,
    exact_product,
    from_combined,
    mask,
    residues,
    words_below,
)

ALL = [PrimeField(p) for p in BELOW_2_8]
seeds = st.integers(0, 2**32 - 1)
some_fields = st.lists(st.sampled_from([PrimeField(p) for p in (3, 5, 11, *BELOW_2_8)]), min_size=1, max_size=7,
                       unique_by=lambda field: field.modulus)  # fmt: skip


def test_primes_are_the_largest_below_2_8() -> None:
    """In descending order; a remainder of least magnitude is a byte, and a word holds their product several times."""
    p = 2**8
    for found in BELOW_2_8:
        p = prevprime(p)
        assert found == p
    assert BELOW_2_8[0] // 2 < 2**7
    assert 2**55 < math.prod(BELOW_2_8) < 2**56


def least(value: int, field: PrimeField) -> int:
    """The remainder of least magnitude."""
    rest = value % field.modulus
    return rest - field.modulus if 2 * rest > field.modulus else rest


@pytest.mark.parametrize("primes", [(3,), (251,), (3, 5), (3, 5, 7, 11), (89, 227)])
def test_remainders_of_uniform_words_are_uniform_and_independent(primes: tuple[int, ...]) -> None:
    """Enumerated: below a multiple of the product all combinations of remainders come equally often, else not."""
    fields, product = [PrimeField(p) for p in primes], math.prod(primes)
    found = residues(fields, np.arange(3 * product))
    _, times = np.unique(np.array(found), axis=1, return_counts=True)
    assert times.tolist() == [3] * product
    _, times = np.unique(np.array(residues(fields, np.arange(3 * product - 1))), axis=1, return_counts=True)
    assert set(times.tolist()) == {2, 3}
    assert words_below(fields) % product == 0
    assert 2**63 - product < words_below(fields) <= 2**63


EDGES = (0, 1, -1, 2**31 - 1, -(2**31), 2**32 - 1, 2**32, -(2**32), 2**52, 2**63 - 1, -(2**63))


@given(some_fields, st.lists(st.integers(-(2**63), 2**63 - 1) | st.sampled_from(EDGES), min_size=1, max_size=5))
def test_remainders_are_those_of_integers(fields: list[PrimeField], values: list[int]) -> None:
    """Of all that int64 holds, and of int32."""
    found = residues(fields, np.array([values, values]))
    assert all(each.tolist() == [[least(v, f) for v in values]] * 2 for f, each in zip(fields, found, strict=True))
    narrow = np.array(values).astype(np.int32)
    assert all(each.tolist() == [least(int(v), f) for v in narrow]
               for f, each in zip(fields, residues(fields, narrow), strict=True))  # fmt: skip


@given(some_fields, st.integers(1, 5), st.integers(0, 3000), st.sampled_from([(), (2,)]), seeds)
def test_shares_are_combinations(
    fields: list[PrimeField], several: int, size: int, batch: tuple[int, ...], seed: int
) -> None:
    """Of integers and the largest words, whatever the weights; the same integers for every tape."""
    rng = np.random.default_rng(seed)
    integers = rng.integers(-(2**52), 2**52, (size, 1))
    words = [rng.integers(2**62, 2**63 - 1, (*batch, size, 1), endpoint=True) for _ in range(several)]
    weights = np.array([rng.integers(0, f.modulus, several + 1) for f in fields])
    found = combine(fields, weights, integers, words)
    for field, each, own in zip(fields, found, weights.tolist(), strict=True):
        expected = own[0] * integers.astype(object) + sum(
            w * x.astype(object) for w, x in zip(own[1:], words, strict=True)
        )
        assert each.dtype == np.int8
        assert np.array_equal(each, np.vectorize(partial(least, field=field), otypes=[np.int64])(expected))


KINDS = {np.dtype(np.int8): 2**6, np.dtype(np.int32): 2**31 - 1, np.dtype(np.int64): 2**46}


@given(some_fields, st.sampled_from([0, 1, 2, 59, 60, 512]), st.sampled_from(sorted(KINDS, key=str)), seeds)
def test_masks_are_added_to_sums(fields: list[PrimeField], several: int, kind: np.dtype[Any], seed: int) -> None:
    """As many of the largest words as there may be, under weights of the largest magnitude, to the largest sums."""
    rng = np.random.default_rng(seed)
    values: NDArray[Any] = np.array([rng.integers(KINDS[kind] // 2, KINDS[kind], (2, 3)) for _ in fields]).astype(
        kind.str
    )
    words = [2**63 - 1 - rng.integers(0, 2**10, (2, 3)) for _ in range(several)]
    weights = np.array([np.full(several, f.modulus // 2) for f in fields])
    found = mask(fields, values, weights, words)
    for field, each, own, value in zip(fields, found, weights.tolist(), values, strict=True):
        expected = value.astype(object) + sum(w * x.astype(object) for w, x in zip(own, words, strict=True))
        assert each.dtype == np.int8
        assert each.ravel().tolist() == [least(value, field) for value in expected.ravel()]


@given(st.sampled_from([PrimeField(p) for p in (3, 5, *BELOW_2_8)]), st.sampled_from([31, 46]))
def test_sums_around_multiples_of_a_modulus_are_reduced(field: PrimeField, bits: int) -> None:
    """Where a quotient might be one off."""
    most = 2**bits // field.modulus
    values = [field.modulus * k + d for k, d in itertools.product((-most + 1, -1, 0, 1, most - 1), (-1, 0, 1))]
    sums: NDArray[Any] = np.array([values], dtype=np.int32 if bits == 31 else np.int64)
    (found,) = mask([field], sums, np.empty((1, 0), dtype=np.int64), ())
    assert found.tolist() == [least(value, field) for value in values]


@given(st.integers(1, 7), st.data())
def test_integers_come_back_from_their_remainders(count: int, data: st.DataObject) -> None:
    """Up to half of the product of all primes."""
    fields, most = ALL[:count], (math.prod(BELOW_2_8[:count]) - 1) // 2
    values = np.array([*data.draw(st.lists(st.integers(-most, most), min_size=1, max_size=5)), most, -most, 0])
    elements = [(values % field.modulus).astype(field.dtype) for field in fields]
    for each in (elements, residues(fields, values)):
        one = np.ones((count, 1), dtype=np.int64)
        assert np.array_equal(from_combined(fields, one, np.array(each)[:, None]), values)


@given(some_fields, st.integers(1, 40), st.integers(1, 2000), seeds)
def test_combined_remainders_are_of_one_integer(fields: list[PrimeField], terms: int, size: int, seed: int) -> None:
    """The sum of weighed elements in each field is the remainder of what comes out, which is of least magnitude."""
    rng = np.random.default_rng(seed)
    values = np.array(residues(fields, rng.integers(0, 2**62, (terms, size))))
    weights = np.array([rng.integers(0, f.modulus, terms) for f in fields])
    found = from_combined(fields, weights, values)
    for field, weight, each in zip(fields, weights, values.astype(np.int64), strict=True):
        assert np.array_equal(found % field.modulus, weight @ each % field.modulus)
    assert np.abs(found).max() <= math.prod(field.modulus for field in fields) / 2


@pytest.fixture(params=["by bytes", "by floats"])
def _both_ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the processor's instructions for bytes where it has them, and by float32."""
    if request.param == "by floats":
        monkeypatch.setattr(module, "_bytes_are_fast", lambda: False)
    elif not module._bytes_are_fast():
        pytest.skip("this processor has no instructions for products of bytes")


@pytest.mark.usefixtures("_both_ways")
@pytest.mark.parametrize("prime", [2, 3, 5, 101, *BELOW_2_8[:2]])
def test_products_are_those_of_integers(prime: int) -> None:
    """Whatever the shapes, also of vectors and of nothing, behind a batch axis, read-only and apart in memory."""
    rng, half = np.random.default_rng(prime), prime // 2
    shapes = [(1, 1, 1), (7, 1, 5), (7, 5, 1), (1, 4, 3), (0, 2, 3), (2, 2, 2), *rng.integers(1, 70, (20, 3)).tolist()]
    for rows, d, h in shapes:
        for batch in ((), (2,)):
            left, right = (rng.integers(-half, half + 1, (*batch, rows, w)).astype(np.int8) for w in (d, 2 * h))
            right = right[..., 1::2]
            left.flags.writeable = False
            whole = left.swapaxes(-1, -2).astype(np.int64) @ right.astype(np.int64)
            assert np.array_equal(exact_product(left, right), whole)
            assert np.array_equal(exact_product(right, left), whole.swapaxes(-1, -2))


@pytest.mark.usefixtures("_both_ways")
@pytest.mark.parametrize("widths", [(2, 2), (1, 3), (3, 1), (65, 17)])
@pytest.mark.parametrize("rows", [FLOAT_ROWS, FLOAT_ROWS + 1, ROWS, ROWS + 1, 2 * ROWS + 7])
@pytest.mark.parametrize("signs", [(1, 1), (-1, -1), (1, -1)])
def test_the_largest_elements_over_many_rows_are_exact(
    rows: int, widths: tuple[int, int], signs: tuple[int, int]
) -> None:
    """Where sums are largest: twice as many rows would not fit, and pieces are added up."""
    half = BELOW_2_8[0] // 2
    left, right = (
        np.full((rows, width), sign * half, dtype=np.int8) for width, sign in zip(widths, signs, strict=True)
    )
    assert np.unique(exact_product(left, right)).tolist() == [signs[0] * signs[1] * rows * half**2]
