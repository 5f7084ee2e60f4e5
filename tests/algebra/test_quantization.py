"""Real numbers as field elements: exact sums, stated errors, and a range that is refused exactly at its end."""

import math
import re
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fgl_secure.algebra import MERSENNE_31, FixedPoint, Overflow, PrimeField
from fgl_secure.algebra.quantization import units_of
from fgl_secure.errors import FieldRangeError, InputError
from tests.error_codes import about
from tests.strategies import prime_fields, reals


def whole(value: float, fraction_bits: int) -> int:
    """The value times 2^fraction_bits, rounded with halves away from zero, in exact arithmetic."""
    scaled = abs(Fraction(value)) * 2**fraction_bits
    rounded: int = math.floor(scaled + Fraction(1, 2))
    return rounded if value >= 0 else -rounded


@given(reals(16.0, (6,)))
def test_encoding_rounds_halves_away_from_zero(values: NDArray[np.float64]) -> None:
    """An element is the exactly rounded value modulo p, whatever the value."""
    fixed = FixedPoint(PrimeField(), bound=16.0, fraction_bits=8, terms=4)
    expected = [whole(value, 8) % MERSENNE_31 for value in values.tolist()]
    assert fixed.encode(values).tolist() == expected


@given(st.data(), st.integers(1, 8), st.sampled_from([32, 64]))
def test_decoded_sums_are_within_the_stated_error(data: st.DataObject, terms: int, width: Literal[32, 64]) -> None:
    """A decoded sum of k terms is within k * 2^-(f + 1) of the sum, in exact arithmetic."""
    fixed = FixedPoint.for_sums(PrimeField(), bound=4.0, terms=terms)
    values = data.draw(reals(4.0, (terms, 2), width))
    elements = fixed.encode(values)
    sums = fixed.decode(PrimeField().combine(np.ones((1, terms), dtype=np.int64), elements)[0])
    allowed = terms * Fraction(1, 2 ** (fixed.fraction_bits + 1))
    for total, column in zip(sums.tolist(), values.T.tolist(), strict=True):
        assert abs(Fraction(total) - sum(map(Fraction, column))) <= allowed


@given(prime_fields(smallest=3), st.integers(1, 10))
@example(PrimeField(), 1)
@example(PrimeField(11), 5)
def test_largest_range_is_accepted_and_the_next_refused(field: PrimeField, terms: int) -> None:
    """The set-up accepts terms * bound up to (p - 1) / 2 and refuses the next integer bound."""
    largest = (field.modulus - 1) // 2 // terms
    if largest:
        fixed = FixedPoint(field, float(largest), 0, terms)
        extremes = fixed.encode(np.array([largest, -largest], dtype=np.float64)).astype(np.int64) * terms
        sums = fixed.decode((extremes % field.modulus).astype(field.dtype))
        assert sums.tolist() == [largest * terms, -largest * terms]
    with pytest.raises(FieldRangeError, check=about("terms * bound * 2^fraction_bits")):
        FixedPoint(field, float(largest + 1), 0, terms)


@given(st.floats(0.5, 1000.0), st.integers(1, 1000))
def test_most_precise_map_is_the_most_precise(bound: float, terms: int) -> None:
    """One more fraction bit than `for_sums` takes would be refused."""
    fixed = FixedPoint.for_sums(PrimeField(), bound=bound, terms=terms)
    with pytest.raises(FieldRangeError):
        FixedPoint(PrimeField(), bound, fixed.fraction_bits + 1, terms)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("overflow", list(Overflow))
def test_values_that_are_not_finite_are_refused(value: float, overflow: Overflow) -> None:
    """NaN and infinity raise, also where wrapping was asked for."""
    fixed = FixedPoint(PrimeField(11), 1.0, 0, 1, overflow)
    with pytest.raises(InputError, check=about("values")):
        fixed.encode(np.array([0.0, value]))


@pytest.mark.parametrize("value", [1.01, 16.0, 17.0, -1000.0])
def test_the_bound_that_the_message_names_holds_the_values(value: float) -> None:
    """Beyond the bound a power of two is named under which the same values are encoded, and twice as large ones."""
    with pytest.raises(FieldRangeError, check=about("values")) as caught:
        FixedPoint.for_sums(PrimeField(), bound=1.0, terms=100).encode(np.array([value]))
    named = re.findall(r"\[bound=(\d+)\]", str(caught.value))
    fixed = FixedPoint.for_sums(PrimeField(), bound=float(named[0]), terms=100)
    assert abs(fixed.decode(fixed.encode(np.array([value])))[0] - value) < 1e-3
    with pytest.raises(FieldRangeError, check=about("values")):
        FixedPoint(PrimeField(11), 1.0, 0, 3).encode(np.array([value]))


@pytest.mark.parametrize("sign", [1, -1])
def test_bound_is_the_last_value_accepted(sign: int) -> None:
    """The bound itself is encoded, the next float beyond it raises."""
    fixed = FixedPoint(PrimeField(), 1.0, 4, 1)
    assert fixed.decode(fixed.encode(np.array([sign * 1.0]))).tolist() == [sign * 1.0]
    with pytest.raises(FieldRangeError, check=about("values")):
        fixed.encode(np.array([sign * math.nextafter(1.0, 2.0)]))


def test_wrapping_happens_only_when_asked_for() -> None:
    """In the field of 11 elements 6 becomes -5 under WRAP, and raises otherwise."""
    wrapping = FixedPoint(PrimeField(11), 1.0, 0, 100, Overflow.WRAP)
    assert wrapping.decode(wrapping.encode(np.array([6.0, -6.0, 11.0]))).tolist() == [-5.0, 5.0, 0.0]
    with pytest.raises(FieldRangeError):
        FixedPoint(PrimeField(11), 1.0, 0, 100)
    with pytest.raises(FieldRangeError):
        FixedPoint(PrimeField(11), 1.0, 0, 1).encode(np.array([6.0]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bound": 0.0}, "bound"),
        ({"bound": -1.0}, "bound"),
        ({"bound": math.nan}, "bound"),
        ({"bound": math.inf}, "bound"),
        ({"terms": 0}, "terms"),
        ({"fraction_bits": -1}, "fraction_bits"),
        ({"fraction_bits": 53}, "fraction_bits"),
    ],
)
def test_parameters_out_of_range_are_refused(change: dict[str, Any], message: str) -> None:
    """Every parameter is checked, and the message names it with its value."""
    parameters: dict[str, Any] = {"field": PrimeField(), "bound": 1.0, "fraction_bits": 4, "terms": 2, **change}
    with pytest.raises(InputError, check=about(message)):
        FixedPoint(**parameters)


@given(st.floats(1e-6, 1e9), st.integers(0, 2**61), st.integers(1, 40), st.integers(1, 2**20))
def test_a_quantizer_takes_the_most_bits_that_leave_sums_within_the_limit(
    bound: float, limit: int, terms: int, heaviest: int
) -> None:
    """With its bits the largest weighted sum is within the limit, with one more it would not be; else it raises."""
    try:
        found = FixedPoint.for_sums(bound=bound, limit=limit, terms=terms, heaviest=heaviest, most_bits=99)
    except FieldRangeError:
        assert terms * heaviest * units_of(bound, 1) > limit
        return
    assert terms * heaviest * found.largest <= limit < terms * heaviest * (units_of(bound, found.fraction_bits + 1))


@given(st.lists(st.floats(-64.0, 64.0), min_size=1, max_size=6), st.integers(1, 40), st.integers(1, 1000))
@example([61.86362003730969], 39, 265)
def test_quantized_sums_and_means_are_off_by_half_a_unit_a_number(values: list[float], bits: int, weight: int) -> None:
    """In exact arithmetic: k numbers by k half units at most, a number under a weight by one.

    A sum beyond 2^53 is rounded once more on its way to float64.
    """
    grid, exact = FixedPoint(None, 64.0, bits), sum(map(Fraction, values))
    units = grid.encode(np.array(values))
    assert int(np.abs(units).max()) <= grid.largest
    assert abs(Fraction(int(units.sum()), 2**bits) - exact) <= len(values) * Fraction(grid.error)
    mean, alone = grid.decode(weight * units, weight), grid.decode(units)
    assert np.abs(mean - alone).max() <= (0 if weight * int(np.abs(units).max()) <= 2**53 else 2 * np.spacing(64.0))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1.00001, -7.0])
def test_a_quantizer_refuses_what_does_not_fit_and_shows_no_value(value: float) -> None:
    """The message has what it was, the rule and the remedy."""
    with pytest.raises(InputError, check=about("updates")) as caught:
        FixedPoint(None, 1.0, 4, what="updates", remedy="clip them").encode(np.array([0.5, value]))
    assert f"{value:g}" not in str(caught.value).replace("found NaN or infinity", "")
    assert isinstance(caught.value, FieldRangeError) == math.isfinite(value)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("bits", [-1030, -3, 30])
def test_numbers_of_any_type_are_rounded_in_place_as_float64_is(kind: type[np.floating[Any]], bits: int) -> None:
    """Numbers of each type, more than go at once, into a part of a vector: as Python rounds them one by one."""
    values = np.random.default_rng(1).normal(0, 1000, 20_000).astype(kind)
    vector = np.full(len(values) + 2, 7, dtype=np.int64)
    FixedPoint(None, 1e5, bits).encode(values, out=vector[1:-1])
    assert vector[1:-1].tolist() == [round(math.ldexp(float(value), bits)) for value in values]
    assert vector[0] == vector[-1] == 7
