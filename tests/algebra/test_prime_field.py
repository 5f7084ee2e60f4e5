"""Arithmetic modulo a prime, against galois and against python integers."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import galois
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgl_secure.algebra import MERSENNE_31, Elements, PrimeField
from fgl_secure.errors import FieldRangeError, InputError
from tests.strategies import PRIMES, element_pairs, elements, prime_fields

Operation = Callable[[Any, Any], Any]

OPERATIONS: dict[str, tuple[Callable[[PrimeField], Operation], Operation]] = {
    "add": (lambda field: field.add, lambda a, b: a + b),
    "subtract": (lambda field: field.subtract, lambda a, b: a - b),
    "multiply": (lambda field: field.multiply, lambda a, b: a * b),
}


@cache
def galois_field(modulus: int) -> Any:
    """The oracle's field; galois takes a while to build one."""
    return galois.GF(modulus)


def oracle(field: PrimeField, values: Elements) -> Any:
    return galois_field(field.modulus)(values.astype(np.int64))


@pytest.mark.parametrize("operation", OPERATIONS)
@given(element_pairs())
def test_arithmetic_is_galois(operation: str, case: tuple[PrimeField, Elements, Elements]) -> None:
    """Sums, differences and products are galois's, in the field's own dtype."""
    field, a, b = case
    ours, theirs = OPERATIONS[operation]
    result = ours(field)(a, b)
    assert result.dtype == field.dtype
    assert np.array_equal(result, theirs(oracle(field, a), oracle(field, b)))


@given(element_pairs())
def test_inverse_is_galois(case: tuple[PrimeField, Elements, Elements]) -> None:
    """Inverses of non-zero elements are galois's."""
    field, a, _ = case
    a = np.where(a == 0, 1, a).astype(field.dtype)
    assert np.array_equal(field.inverse(a), oracle(field, a) ** -1)


@given(st.data())
def test_linear_combination_is_the_matrix_product(data: st.DataObject) -> None:
    """Combining along any axis is galois's matrix product with that axis in front."""
    field = data.draw(prime_fields())
    shape = tuple(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    axis, rows = data.draw(st.integers(0, len(shape) - 1)), data.draw(st.integers(1, 4))
    blocks, matrix = data.draw(elements(field, shape)), data.draw(elements(field, (rows, shape[axis])))
    flat = np.moveaxis(blocks, axis, 0).reshape(shape[axis], -1)
    product = np.asarray(oracle(field, matrix) @ oracle(field, flat))
    others = [size for k, size in enumerate(shape) if k != axis]
    assert np.array_equal(
        field.combine(matrix, blocks, axis=axis), np.moveaxis(product.reshape(rows, *others), 0, axis)
    )


def test_largest_elements_do_not_overflow(field: PrimeField) -> None:
    """The square of the largest element of the production field is 1, and a long combination of them is exact."""
    top = MERSENNE_31 - 1
    assert field.multiply([top], [top]).tolist() == [1]
    many = np.full((1, 1000), top)
    assert field.combine(many, many[0]).tolist() == [1000]


@pytest.mark.parametrize(("modulus", "size"), [(2, 1), (127, 1), (131, 2), (32749, 2), (32771, 4), (MERSENNE_31, 4)])
def test_elements_take_the_least_bytes(modulus: int, size: int) -> None:
    """An element takes the smallest signed type that holds modulus - 1."""
    field = PrimeField(modulus)
    assert field.dtype.itemsize == size
    assert field.add([modulus - 1], [0]).tolist() == [modulus - 1]


@pytest.mark.parametrize("modulus", [4, 9, 341, 2**31 - 3, 3_215_031_751 // 2])
def test_composites_are_refused(modulus: int) -> None:
    """A composite is no modulus, pseudoprimes included."""
    with pytest.raises(FieldRangeError, match=f"modulus must be a prime; found {modulus}"):
        PrimeField(modulus)


@pytest.mark.parametrize("modulus", [-7, 0, 1, 2**31 + 11, 2**61 - 1])
def test_moduli_out_of_range_are_refused(modulus: int) -> None:
    """Nothing below 2 and no prime above 2^31 - 1 is a modulus."""
    with pytest.raises(FieldRangeError, match=f"modulus must lie in 2..2\\^31 - 1; found {modulus}"):
        PrimeField(modulus)


@given(prime_fields(), st.integers(-(2**40), 2**40))
def test_elements_in_range_are_kept_and_others_refused(field: PrimeField, value: int) -> None:
    """An integer below the modulus stays as it is; any other raises and is not reduced."""
    if 0 <= value < field.modulus:
        assert field.elements([value]).tolist() == [value]
    else:
        with pytest.raises(FieldRangeError, match=rf"values must lie in 0\.\.{field.modulus - 1}; found {value}"):
            field.elements([value])


@pytest.mark.parametrize("modulus", PRIMES)
def test_range_ends_exactly_at_the_modulus(modulus: int) -> None:
    """Both ends of the range are elements; the modulus itself and -1 are not."""
    field = PrimeField(modulus)
    assert field.elements([0, modulus - 1]).tolist() == [0, modulus - 1]
    for outside in (modulus, -1):
        with pytest.raises(FieldRangeError):
            field.elements([outside])


@pytest.mark.parametrize("values", [[0.0], [0.5], [True], ["1"], [1 + 0j]])
def test_what_is_not_an_integer_is_refused(values: list[Any]) -> None:
    """Floats, booleans, strings and complex numbers are no elements, even where they equal one."""
    with pytest.raises(InputError, match="values must be integers; found dtype"):
        PrimeField(11).elements(values)


@given(prime_fields())
def test_zero_has_no_inverse(field: PrimeField) -> None:
    """Inverting an array with a zero raises, the modulus as a form of zero included."""
    for zero in (0, field.modulus):
        with pytest.raises(InputError, match="0, which has no inverse"):
            field.inverse([1, zero])


def test_matrix_of_another_width_is_refused() -> None:
    """A matrix whose width is not the number of blocks raises, with both figures."""
    with pytest.raises(InputError, match=r"matrix must be \[r, 3\] for these blocks; found \[2, 2\]"):
        PrimeField(11).combine(np.ones((2, 2), dtype=int), np.ones((3, 1), dtype=int))


def test_fields_of_one_modulus_are_equal() -> None:
    """Fields compare by modulus and print it."""
    assert PrimeField(11) == PrimeField(11) != PrimeField(5)
    assert repr(PrimeField(11)) == "PrimeField(modulus=11)"
