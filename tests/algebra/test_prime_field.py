"""Arithmetic modulo a prime, against galois and against python integers."""

from collections.abc import Callable
from functools import cache
from typing import Any

import galois
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgl_secure.algebra import Elements, PrimeField
from fgl_secure.errors import FieldRangeError, InputError
from tests.error_codes import about
from tests.strategies import ALL_PRIMES, all_prime_fields, element_pairs, elements, integers

Operation = Callable[[Any, Any], Any]
Case = tuple[PrimeField, Elements, Elements]

OPERATIONS: dict[str, tuple[Callable[[PrimeField], Operation], Operation]] = {
    "add": (lambda field: field.add, lambda a, b: a + b),
    "subtract": (lambda field: field.subtract, lambda a, b: a - b),
    "multiply": (lambda field: field.multiply, lambda a, b: a * b),
}


@cache
def galois_field(modulus: int) -> Any:
    """The oracle's field, which is built once; in Python, for galois takes seconds to compile one."""
    return galois.GF(modulus, compile="python-calculate")


def oracle(field: PrimeField, values: Elements) -> Any:
    return galois_field(field.modulus)(values.astype(np.int64))


@pytest.mark.parametrize("operation", OPERATIONS)
@given(element_pairs())
def test_arithmetic_is_galois(operation: str, case: Case) -> None:
    """Sums, differences and products are galois's, in the field's own dtype."""
    field, a, b = case
    ours, theirs = OPERATIONS[operation]
    result = ours(field)(a, b)
    assert result.dtype == field.dtype
    assert np.array_equal(result, theirs(oracle(field, a), oracle(field, b)))


@given(element_pairs())
def test_inverse_is_galois(case: Case) -> None:
    """Inverses of non-zero elements are galois's."""
    field, a, _ = case
    a = np.where(a == 0, 1, a).astype(field.dtype)
    assert np.array_equal(field.inverse(a), oracle(field, a) ** -1)


@given(st.data())
def test_linear_combination_is_the_matrix_product(data: st.DataObject) -> None:
    """Combining along any axis is galois's matrix product with that axis in front."""
    field = data.draw(all_prime_fields())
    shape = tuple(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    axis, rows = data.draw(st.integers(0, len(shape) - 1)), data.draw(st.integers(1, 4))
    blocks, matrix = data.draw(elements(field, shape)), data.draw(elements(field, (rows, shape[axis])))
    flat = np.moveaxis(blocks, axis, 0).reshape(shape[axis], -1)
    product = np.asarray(oracle(field, matrix) @ oracle(field, flat))
    others = [size for k, size in enumerate(shape) if k != axis]
    assert np.array_equal(
        field.combine(matrix, blocks, axis=axis), np.moveaxis(product.reshape(rows, *others), 0, axis)
    )


@pytest.mark.parametrize("modulus", ALL_PRIMES)
def test_largest_elements_do_not_overflow(modulus: int) -> None:
    """The square of the largest element is 1, and long combinations and sums of products of them are exact."""
    field: Any = PrimeField(modulus)
    top = modulus - 1
    assert field.multiply([top], [top]).tolist() == [1 % modulus]
    many = np.full((1, 5000), top)
    assert field.combine(many, many[0]).tolist() == [5000 % modulus]
    assert field.dot(many, many[0]).tolist() == [5000 % modulus]


@pytest.mark.parametrize("operation", OPERATIONS)
@given(st.data(), all_prime_fields())
def test_any_integers_stand_for_their_remainders(operation: str, data: st.DataObject, field: PrimeField) -> None:
    """Operands outside the field, negative ones included, give what python integers give, in any dtype."""
    a, b = data.draw(integers((3,))), data.draw(integers((3,)))
    ours, exact = OPERATIONS[operation]
    expected = [exact(x, y) % field.modulus for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    assert ours(field)(a, b).tolist() == expected
    assert ours(field)(a.astype(np.int8), b[0]).tolist() == [
        exact(x, int(b[0])) % field.modulus for x in a.astype(np.int8).tolist()
    ]


@given(st.data(), all_prime_fields(), st.integers(0, 3), st.integers(0, 3))
def test_two_stacks_combine_as_one(data: st.DataObject, field: PrimeField, upper: int, lower: int) -> None:
    """Two stacks, of which one lacks the batch axis, combine as one on top of the other; integers of any size go in."""
    first, second = data.draw(integers((1, upper, 3))), data.draw(elements(field, (4, lower, 3)))
    matrix = data.draw(integers((2, upper + lower)))
    stack = np.concatenate([np.broadcast_to(first, (4, upper, 3)), second], axis=1).astype(object)
    expected = np.einsum("rc,bcl->brl", matrix.astype(object), stack) % field.modulus
    assert field.combine_two(matrix, first, second, axis=1).tolist() == expected.tolist()


@pytest.mark.parametrize("modulus", ALL_PRIMES)
@pytest.mark.parametrize(("rows", "columns", "width"), [(3, 2, 5000), (5, 7, 1025), (2, 130, 511), (1, 1, 1)])
def test_wide_combinations_are_exact(modulus: int, rows: int, columns: int, width: int) -> None:
    """Combinations over several blocks of columns are those of python integers."""
    field, rng = PrimeField(modulus), np.random.default_rng(0)
    matrix, blocks = rng.integers(0, modulus, (rows, columns)), rng.integers(0, modulus, (columns, width))
    blocks, upper = blocks.astype(field.dtype), columns // 2
    expected = (matrix.astype(object) @ blocks.astype(object)) % modulus
    assert field.combine(matrix, blocks).tolist() == expected.tolist()
    assert field.combine_elements(matrix, blocks[:upper], blocks[upper:]).tolist() == expected.tolist()
    exact_sums = [sum(x * y for x, y in zip(row, blocks[0].tolist(), strict=True)) % modulus for row in blocks.tolist()]
    assert field.dot(blocks, blocks[0]).tolist() == exact_sums


@given(all_prime_fields(), st.data(), st.integers(1, 3), st.integers(1, 3))
def test_what_is_no_element_is_refused_by_strict_combinations(
    field: PrimeField, data: st.DataObject, upper: int, lower: int
) -> None:
    """One value outside the field anywhere raises, and the message does not show it."""
    parts = [np.zeros((upper, 5), dtype=np.int64), np.zeros((lower, 5), dtype=np.int64)]
    stranger = data.draw(st.one_of(st.integers(-(2**63), -1), st.integers(field.modulus, 2**63 - 1)))
    part = data.draw(st.sampled_from(parts))
    part[data.draw(st.integers(0, len(part) - 1)), data.draw(st.integers(0, 4))] = stranger
    with pytest.raises(FieldRangeError, check=about("blocks")):
        field.combine_elements(np.zeros((1, upper + lower), dtype=np.int64), parts[0], parts[1])


def test_read_only_and_strided_operands_are_taken_as_they_read() -> None:
    """Frozen arrays, transposed views and broadcast ones give what their copies give."""
    field: Any = PrimeField()
    a = np.arange(6, dtype=np.int32).reshape(2, 3)
    a.flags.writeable = False
    assert field.add(a.T, 1).tolist() == [[1, 4], [2, 5], [3, 6]]
    assert field.combine([[1, 2, 3]], a.T).tolist() == [[8, 26]]
    assert field.multiply(np.broadcast_to(np.int64(2), (2, 3)), a).tolist() == [[0, 2, 4], [6, 8, 10]]


@pytest.mark.parametrize("values", [[0.5], [True], np.array([2**63], dtype=np.uint64)])
def test_what_does_not_fit_int64_is_refused(values: Any) -> None:
    """Arithmetic takes integers of 64 bits and nothing else."""
    with pytest.raises(InputError, check=about("values")):
        PrimeField(11).add(values, 1)


def test_operands_of_other_shapes_are_refused() -> None:
    """Stacks that differ beside the axis, and weights of another length than the rows, raise."""
    field: Any = PrimeField(11)
    with pytest.raises(InputError, check=about("first and second")):
        field.combine_two([[1, 1]], [[1, 2]], [[1, 2, 3]])
    with pytest.raises(InputError, check=about("weights")):
        field.dot([[1, 2]], [1, 2, 3])


@pytest.mark.parametrize("modulus", [4, 9, 341, 2**31 - 3, 3_215_031_751 // 2])
def test_composites_are_refused(modulus: int) -> None:
    """A composite is no modulus, pseudoprimes included."""
    with pytest.raises(FieldRangeError, check=about("modulus")):
        PrimeField(modulus)


@pytest.mark.parametrize("modulus", [-7, 0, 1, 2**31 + 11, 2**61 - 31, 2**61 + 15])
def test_moduli_out_of_range_are_refused(modulus: int) -> None:
    """Nothing below 2 and no prime above 2^31 - 1 but 2^61 - 1 is a modulus."""
    with pytest.raises(FieldRangeError, check=about("modulus")):
        PrimeField(modulus)


@given(all_prime_fields(), st.integers(-(2**40), 2**40))
def test_elements_in_range_are_kept_and_others_refused(field: Any, value: int) -> None:
    """An integer below the modulus stays as it is; any other raises and is not reduced."""
    if 0 <= value < field.modulus:
        assert field.elements([value]).tolist() == [value]
    else:
        with pytest.raises(FieldRangeError, check=about("values")):
            field.elements([value])


@given(all_prime_fields())
def test_zero_has_no_inverse(field: Any) -> None:
    """Inverting an array with a zero raises, the modulus as a form of zero included."""
    for zero in (0, field.modulus):
        with pytest.raises(InputError, check=about("a")):
            field.inverse([1, zero])


@pytest.mark.parametrize("p", [2, 101, 4093, 4099, 2**23 - 15, 2**31 - 19])
def test_remainders_are_exact_at_both_ends_of_int64(p: int) -> None:
    quotients = np.array([0, 1, 2, 2**62 // p, 2**63 // p - 1], dtype=np.int64)
    near = (quotients[:, None] * p + np.array([-1, 0, 1])).ravel()
    values = np.concatenate([near, -near, [2**63 - 1, -(2**63), p // 2]])
    assert PrimeField(p).add(values, 0).tolist() == [int(value) % p for value in values]
