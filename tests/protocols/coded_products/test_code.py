"""Roles of coded products as functions: ranges, layouts, shares of zero, and decoding with wrong answers."""

import itertools
import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fgl_secure.algebra import Elements, PrimeField
from fgl_secure.algebra.residues import BELOW_2_8, ROWS, residues
from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import FieldRangeError, InputError, TooManyErrors
from fgl_secure.protocols.coded_products import OuterProduct, ProductCode, ProductLayout
from fgl_secure.protocols.coded_products.code import relay_products, silo_decode, with_zero, zero_sets, zero_weights
from fgl_secure.protocols.coded_products.encoding import EXACT
from fgl_secure.protocols.coded_products.scheme import LARGEST_LEFT, LARGEST_PRODUCT, LARGEST_RIGHT
from tests.error_codes import about

SHAPES = [(1, 3), (1, 4), (1, 5), (2, 5), (2, 6), (3, 7)]


def rank(field: PrimeField, matrix: list[list[int]]) -> int:
    """Over the field, by elimination."""
    rows, found, p = [list(map(int, row)) for row in matrix], 0, field.modulus
    for column in range(len(rows[0])):
        pivot = next((row for row in range(found, len(rows)) if rows[row][column] % p), None)
        if pivot is None:
            continue
        rows[found], rows[pivot] = rows[pivot], rows[found]
        inverse = pow(rows[found][column], -1, p)
        for row in range(found + 1, len(rows)):
            factor = rows[row][column] * inverse % p
            rows[row] = [(a - factor * b) % p for a, b in zip(rows[row], rows[found], strict=True)]
        found += 1
    return found


@pytest.mark.parametrize(("T", "R"), SHAPES)
@pytest.mark.parametrize("p", [11, BELOW_2_8[0]])
def test_shares_of_zero_are_uniform_to_any_T_relays(T: int, R: int, p: int) -> None:  # noqa: N802
    """They lie on polynomials of degree 2 T with 0 at 0, and T relays know nothing of them but their own shares.

    The streams that a coalition lacks reach T independent polynomials that vanish at its own points: of those with a
    root at 0 no more are consistent with what it has.
    """
    field = PrimeField(p)
    sets = zero_sets(T, R)
    assert len(sets) == math.comb(R, T)
    weights = {members: zero_weights(field, T, R, members) for members in sets}
    points = range(1, R + 1)
    for members, values in weights.items():
        assert all(not values[j].any() for j in range(R) if j not in members)
        powers = [[pow(x, k, p) for x in points] for k in range(1, 2 * T + 1)]  # with a root at 0
        for stream in values.T.tolist():
            assert rank(field, [*powers, stream]) == rank(field, powers) == min(2 * T, R)
    for coalition in itertools.combinations(range(R), T):
        unknown = [v for members, values in weights.items() if not set(members) & set(coalition) for v in values.T]
        assert rank(field, [v.tolist() for v in unknown]) == T


def test_sets_that_are_too_many_are_refused() -> None:
    """Their number grows as binomials do."""
    with pytest.raises(InputError, check=about("T times the number of sets of R - T relays")):
        zero_sets(8, 13)


def _value(field: PrimeField, coefficients: list[NDArray[np.int64]], at: int) -> Elements:
    total = np.zeros_like(coefficients[0])
    for power, each in enumerate(coefficients):
        total += each % field.modulus * pow(at, power, field.modulus) % field.modulus
    return (total % field.modulus).astype(field.dtype)


@given(st.sampled_from(SHAPES), st.integers(1, 7), st.integers(0, 2**32 - 1), st.data())
def test_wrong_answers_are_located_up_to_their_number(
    shape: tuple[int, int], primes: int, seed: int, data: st.DataObject
) -> None:
    """Of R answers (R - 2 T - 1) // 2 may be wrong, in any field and any entry; one more is noticed."""
    T, R = shape
    fields, rng = [PrimeField(p) for p in BELOW_2_8[:primes]], np.random.default_rng(seed)
    most = (math.prod(BELOW_2_8[:primes]) - 1) // 2
    secret = rng.integers(-min(most, 2**60), min(most, 2**60), 6)
    polynomials = [[secret, *(rng.integers(0, f.modulus, 6) for _ in range(2 * T))] for f in fields]
    answers = [tuple(_value(f, each, j) for f, each in zip(fields, polynomials, strict=True)) for j in range(1, R + 1)]
    correctable = (R - 2 * T - 1) // 2
    liars = sorted(data.draw(st.sets(st.integers(0, R - 1), max_size=correctable)))
    for liar in liars:
        place = data.draw(st.integers(0, primes - 1))
        answers[liar][place][data.draw(st.integers(0, 5))] ^= 1
    found, named = silo_decode(fields, T, range(1, R + 1), answers, SimulationCoins(0))
    assert np.array_equal(found, secret)
    assert list(named) == liars
    if R > 2 * T + 1:
        for liar in range(correctable + 1):
            answers[liar] = residues(fields, rng.integers(0, 2**20, 6))
        with pytest.raises(TooManyErrors):
            silo_decode(fields, T, range(1, R + 1), answers, SimulationCoins(0))


@given(
    st.floats(2.0**-10, 2.0**10), st.floats(2.0**-10, 2.0**10), st.none() | st.floats(2.0**-10, 2.0**20),
    st.integers(1, 2**16), st.integers(1, 12), st.integers(0, 2**32 - 1),
)  # fmt: skip
def test_sums_within_the_bounds_are_exact(
    left: float, right: float, product: float | None, terms: int, least: int, seed: int
) -> None:
    """Whatever the bounds, terms of the largest products stay within the fields; decoding is exact."""
    try:
        code = ProductCode.for_sums(left=left, right=right, terms=terms, product=product, least_bits=least)
    except FieldRangeError:
        assert terms * min(left * right, product or left * right) * 4.0**least > EXACT / 4
        return
    room = (math.prod(field.modulus for field in code.fields) - 1) // 2
    assert terms * code.largest <= min(room, EXACT)
    both = code.left.largest * code.right.largest
    assert code.largest == both or (product is not None and code.largest < both)
    assert product is None or abs(code.largest - min(both, product * 2.0**code.fraction_bits)) <= 0.5
    assert min(code.left.fraction_bits, code.right.fraction_bits) >= least
    assert 0 <= code.right.fraction_bits - code.left.fraction_bits <= 1
    a, b = (np.random.default_rng(seed).uniform(-bound, bound, (terms % 7 + 1, 2)) for bound in (left, right))
    x, d = code.left.encode(a), code.right.encode(b)
    found = code.decode(x.T @ d)
    assert np.array_equal(found, (x.astype(object).T @ d.astype(object)).astype(np.float64) / 2.0**code.fraction_bits)
    error = len(a) * (right * code.left.error + left * code.right.error + code.left.error * code.right.error)
    assert np.abs(found - a.T @ b).max() <= error * (1 + 1e-9)


def test_as_many_primes_are_taken_as_sums_ask_for() -> None:
    """Sums of whatever size take as few as hold them; none hold all: the message has the figures."""
    made = partial(ProductCode.for_sums, left=LARGEST_LEFT, right=LARGEST_RIGHT)
    sizes = (8, 9, 810, 811, 78_648, 78_649)
    found = [made(product=LARGEST_PRODUCT, terms=terms) for terms in sizes]
    assert [len(each.fields) for each in found] == [5, 6, 6, 6, 6, 7]
    cora = made(product=LARGEST_PRODUCT, terms=600)
    assert [field.modulus for field in cora.fields] == list(BELOW_2_8[:6])
    assert (cora.left.fraction_bits, cora.right.fraction_bits) == (10, 10)
    found = [made(terms=terms) for terms in (4, 5, 405, 406, 39_324, 39_325)]
    assert [len(each.fields) for each in found] == [5, 6, 6, 6, 6, 7]
    with pytest.raises(FieldRangeError):
        ProductCode.for_sums(left=2.0**20, right=2.0**20, terms=2)
    with pytest.raises(FieldRangeError):
        ProductCode.for_sums(left=2.0**20, right=2.0**20, product=2.0**33, terms=2)
    with pytest.raises(FieldRangeError, check=about("left rows")):
        cora.left.encode(np.array([64.5]))
    with pytest.raises(InputError, check=about("right rows")):
        cora.right.encode(np.array([np.nan]))


def test_layouts_lay_static_numbers_first() -> None:
    """What a device shares, and the factors that a relay makes of it."""
    layout = ProductLayout((OuterProduct(2, 3, 1), OuterProduct(1, 2, 2, static=True)))
    assert (layout.static, layout.fresh, layout.entries, layout.terms) == (2, 8 + 2, 3 + 4, 2)
    lefts = [np.arange(24).reshape(2, 4, 3), np.arange(100, 108).reshape(1, 4, 2)]
    rights = [np.arange(200, 208).reshape(2, 4, 1), np.arange(300, 308).reshape(1, 4, 2)]
    whole = layout.rows(lefts, rights, static=True)
    again = layout.rows([lefts[0], None], rights, static=False)
    assert whole[1].tolist() == [102, 103, 3, 4, 5, 15, 16, 17, 201, 205, 302, 303]
    assert np.array_equal(whole[:, 2:], again)
    held = [each[[0, 3]] for each in (whole[:, :2], again)]
    cut = list(layout.factors(held[0].astype(np.int8), held[1].astype(np.int8)))
    assert [place for place, _, _ in cut] == [slice(4, 7), slice(0, 4)]
    bytes_of = [[each.astype(np.int8).astype(np.int64) for each in side] for side in (lefts, rights)]
    for (_, one, other), left, right in zip(cut, *bytes_of, strict=True):
        expected = sum(a[[0, 3]].T @ b[[0, 3]] for a, b in zip(left, right, strict=True))
        assert np.array_equal(one.T.astype(np.int64) @ other, expected)
    ((place, one, other),) = layout.factors(None, held[1].astype(np.int8))  # without what is static
    assert place == slice(0, 3)
    assert np.array_equal(one, cut[0][1])
    assert np.array_equal(other, cut[0][2])
    first, second = layout.split(np.arange(14).reshape(2, 7))
    assert first.tolist() == [[[4], [5], [6]], [[11], [12], [13]]]
    assert second[0].tolist() == [[0, 1], [2, 3]]


def test_rows_of_few_bits_take_fewer_primes_and_no_other_right_rows() -> None:
    """Bags of words need no bits behind the point: sums are a thousandth, and stand for the same numbers."""
    code = ProductCode.for_sums(left=LARGEST_LEFT, right=LARGEST_RIGHT, terms=600, product=LARGEST_PRODUCT)
    rows, others = OuterProduct(1, 3, 2, static=True), OuterProduct(1, 2, 2)
    words, pixels, fine = (replace(rows, left_bits=bits) for bits in (0, 4, 16))
    assert [len(code.of(each).fields) for each in (rows, words, pixels, fine, others)] == [6, 4, 5, 6, 6]
    assert [code.of(each).fraction_bits for each in (rows, words, pixels, fine)] == [20, 10, 14, 20]
    assert code.of(words).right == code.right
    assert 2**10 * code.of(words).largest == code.largest
    fields, static = code.fields_for(ProductLayout((others, words, pixels)))
    assert (fields, static) == (code.fields, 5)
    with pytest.raises(FieldRangeError, check=about("primes")):
        _ = replace(code, primes=BELOW_2_8[:2]).fields
    assert code.fields_for(ProductLayout((words,))) == (code.of(words).fields, 4)
    assert code.fields_for(ProductLayout((others,))) == (code.fields, 0)


@pytest.mark.parametrize("batch", [(), (2,)])
@pytest.mark.parametrize("R", [3, 5])
def test_static_entries_of_fewer_fields_are_decoded_beside_the_rest(batch: tuple[int, ...], R: int) -> None:
    """From the first two of four fields, also where a liar is corrected in a field that has fresh entries alone."""
    layout = ProductLayout((OuterProduct(1, 2, 1), OuterProduct(1, 3, 2, static=True)))
    fields, rng = [PrimeField(p) for p in BELOW_2_8[:4]], np.random.default_rng(0)
    rows = [rng.integers(-9, 10, (*batch, 5, width)) for width in (layout.static, layout.fresh)]
    static, fresh = (residues(fields[:count], each) for count, each in zip((2, 4), rows, strict=True))
    sums = relay_products(layout, static, fresh)
    assert [block.shape for block in sums] == [(2, *batch, 8), (2, *batch, 2)]
    answers = []
    for j in range(R):  # on one polynomial of degree 2 with the sums at 0
        streams = [(np.full(4, (j + 1) ** power), np.arange(8) + np.zeros((*batch, 1), int)) for power in (1, 2)]
        answers.append(with_zero(fields, sums, streams))
    if R > 3:
        answers[3][2][..., 0] ^= 1
    found, wrong = silo_decode(fields, 1, range(1, R + 1), answers, SimulationCoins(0))
    assert wrong == ((3,) if R > 3 else ())
    left, right = rows[1][..., :2], rows[1][..., 2:3]
    assert np.array_equal(layout.split(found)[0], np.swapaxes(left, -1, -2) @ right)
    assert np.array_equal(layout.split(found)[1], np.swapaxes(rows[0], -1, -2) @ rows[1][..., 3:])


@pytest.mark.parametrize("rows", [ROWS, ROWS + 1, ROWS + 7000])
def test_sums_of_more_rows_than_32_bits_hold_do_not_wrap(rows: int) -> None:
    """All remainders the largest, over as many rows as are multiplied at a time and more; masks are added to all."""
    field, layout = PrimeField(BELOW_2_8[0]), ProductLayout((OuterProduct(1, 2, 2, static=True),))
    half = field.modulus // 2
    largest = np.full((rows, 2), half, dtype=np.int8)
    (found,) = relay_products(layout, (largest,), (largest,))
    assert found.tolist() == [[rows * half**2] * 4]
    (masked,) = with_zero((field,), [found], [(np.array([3]), np.arange(4))])
    assert (masked.astype(np.int64) % field.modulus).tolist() == [
        (rows * half**2 + 3 * i) % field.modulus for i in range(4)
    ]


def test_liars_in_different_fields_are_too_many_together() -> None:
    """Each field by itself has one wrong answer of five, which could be corrected; they are of two relays."""
    fields = [PrimeField(p) for p in BELOW_2_8[:2]]
    answers = [tuple(np.full(3, j, dtype=np.int8) for _ in fields) for j in range(1, 6)]  # on x, with 0 at 0
    answers[0][0][1] += 1
    found, named = silo_decode(fields, 1, range(1, 6), answers, SimulationCoins(0))
    assert (found.tolist(), named) == ([0, 0, 0], (0,))
    answers[3][1][2] += 1
    with pytest.raises(TooManyErrors):
        silo_decode(fields, 1, range(1, 6), answers, SimulationCoins(0))
