"""Lagrange coding: the published matrix, decoding from any enough shares, and polynomials evaluated by hand."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgl_secure.algebra import LagrangeCode, PrimeField, lagrange_matrix
from fgl_secure.algebra.interpolation import values_at
from fgl_secure.coins import SimulationCoins, TapeCoins
from fgl_secure.errors import FieldRangeError, InputError, NotEnoughShares
from tests.enumeration import GRID, PRIMES, Secret, View, counts_of, largest_distance, smallest_distance
from tests.error_codes import about
from tests.strategies import elements, prime_fields

P = 101
SMALL = PrimeField(P)


@st.composite
def codes(draw: st.DrawFn) -> LagrangeCode:
    """Any K, T and N that the field has points for, on any distinct points."""
    field = draw(prime_fields(smallest=5))
    K, T = draw(st.integers(1, 2)), draw(st.integers(0, 1))
    N = draw(st.integers(1, min(5, field.modulus - K - T)))
    point = st.integers(0, field.modulus - 1)
    points = tuple(draw(st.lists(point, min_size=N + K + T, max_size=N + K + T, unique=True)))
    return LagrangeCode(field, K, T, N, points[:N], points[N:])


def value_at(coefficients: list[int], x: int, p: int) -> int:
    """A polynomial's value, highest coefficient first, by Horner's rule on python integers."""
    value = 0
    for coefficient in coefficients:
        value = (value * x + coefficient) % p
    return value


@given(st.data(), prime_fields(smallest=5))
def test_matrix_evaluates_the_interpolated_polynomial(data: st.DataObject, field: PrimeField) -> None:
    """The matrix turns the values of any polynomial of small enough degree at the nodes into those elsewhere."""
    p, point = field.modulus, st.integers(0, field.modulus - 1)
    nodes = data.draw(st.lists(point, min_size=1, max_size=5, unique=True))
    at = data.draw(st.lists(point, min_size=1, max_size=4))
    polynomial = data.draw(st.lists(point, min_size=len(nodes), max_size=len(nodes)))
    values = [value_at(polynomial, x, p) for x in nodes]
    expected = [value_at(polynomial, x, p) for x in at]
    assert field.combine(lagrange_matrix(field, nodes, at), np.array(values)).tolist() == expected


def test_nodes_that_are_one_are_refused() -> None:
    """No polynomial has two values at one point."""
    with pytest.raises(InputError, check=about("nodes")):
        lagrange_matrix(SMALL, [1, 2, 1], [3])


@given(st.data(), prime_fields(smallest=5), st.integers(0, 2**32))
def test_many_polynomials_are_evaluated_through_points_of_their_own(
    data: st.DataObject, field: PrimeField, seed: int
) -> None:
    """Their values are those of Horner's rule, and points that are off are named, whatever is behind the last."""
    p, rng = field.modulus, np.random.default_rng(seed)
    most = min(7, p)
    dimension = data.draw(st.integers(1, most))
    count, width = data.draw(st.integers(0, 70)), data.draw(st.integers(1, 3))
    points = np.array([rng.choice(min(p, 1000), most, replace=False) for _ in range(count)], dtype=np.int64)
    points = points.reshape(count, most)
    counts = rng.integers(dimension, most + 1, count)
    polynomials = rng.integers(0, p, (count, width, dimension))
    values = np.array(
        [[[value_at(f.tolist(), int(x), p) for f in some] for x in row]
         for some, row in zip(polynomials, points, strict=True)],
        dtype=np.int64,
    ).reshape(count, most, width)  # fmt: skip
    lies = np.arange(most) >= dimension
    lies = lies & (rng.random((count, most)) < 0.3)
    values[lies, rng.integers(0, width)] += 1
    at = int(rng.integers(0, p))
    found, off = values_at(field, points, counts, values % p, dimension, at)
    assert found.tolist() == [[value_at(f.tolist(), at, p) for f in some] for some in polynomials]
    assert np.array_equal(off, lies & (np.arange(most) < counts[:, None]))


@given(st.data(), codes())
def test_shares_lie_on_one_polynomial(data: st.DataObject, code: LagrangeCode) -> None:
    """A share is the value at its alpha of the polynomial that has blocks and masks at the betas."""
    p = code.field.modulus
    polynomial = data.draw(st.lists(st.integers(0, p - 1), min_size=code.K + code.T, max_size=code.K + code.T))
    at_betas = np.array([value_at(polynomial, beta, p) for beta in code.betas], dtype=np.int64)
    shares = code.encode_with_masks(at_betas[: code.K], at_betas[code.K :])
    assert shares.dtype == code.field.dtype
    assert shares.tolist() == [value_at(polynomial, alpha, p) for alpha in code.alphas]


@given(st.data(), codes(), st.integers(0, 2**32))
def test_every_subset_of_enough_shares_decodes(data: st.DataObject, code: LagrangeCode, seed: int) -> None:
    """Any K + T shares in any order give the blocks back; any fewer are refused."""
    blocks = data.draw(elements(code.field, (code.K, 2)))
    shares = code.encode(blocks, SimulationCoins(seed))
    needed = code.recovery_threshold()
    assert needed == code.K + code.T
    for size in range(code.N + 1):
        for workers in itertools.permutations(range(code.N), size):
            if size >= needed:
                assert np.array_equal(code.decode(shares[list(workers)], workers).blocks, blocks)
            else:
                with pytest.raises(NotEnoughShares, check=about("shares")):
                    code.decode(shares[list(workers)], workers)


@given(st.integers(1, 3), st.integers(0, 2), st.integers(2, 3), st.integers(0, 2**32))
def test_products_decode_at_their_degree(K: int, T: int, degree: int, seed: int) -> None:
    """Workers that compute a product of shares let the product of the blocks be decoded (Theorem 1)."""
    N = (K + T - 1) * degree + 1
    code, rng = LagrangeCode(SMALL, K, T, N), np.random.default_rng(seed)
    factors = rng.integers(0, P, (degree, K, 2))
    coins = SimulationCoins(seed)
    product, expected = np.ones((N, 2), dtype=np.int64), np.ones((K, 2), dtype=np.int64)
    for factor in factors:
        product = SMALL.multiply(product, code.encode(factor, coins))
        expected = expected * factor % P
    assert code.recovery_threshold(degree) == N
    assert np.array_equal(code.decode(product, range(N), degree=degree).blocks, expected)
    with pytest.raises(NotEnoughShares, check=about("shares")):
        code.decode(product[: N - 1], range(N - 1), degree=degree)


@given(st.integers(1, 3), st.integers(0, 3), st.integers(1, 5))
def test_default_points_are_distinct_wherever_they_fit(K: int, T: int, N: int) -> None:
    """Without points given, K + T + N distinct ones are taken; the field that is one too small is refused."""
    field = PrimeField(7)
    if K + T + N <= 7:
        code = LagrangeCode(field, K, T, N)
        assert len({*code.alphas, *code.betas}) == K + T + N
        assert code.encoding_matrix.shape == (N, K + T)
    else:
        with pytest.raises(FieldRangeError):
            LagrangeCode(field, K, T, N)


@pytest.mark.parametrize(
    ("alphas", "betas", "message"),
    [
        ((3, 4, 5), (1, 3), "alphas and betas"),
        ((3, 4, 4), (1, 2), "alphas and betas"),
        ((3, 4, 5), (2, 2), "alphas and betas"),
        ((3, 4), (1, 2), "alphas and betas"),
        ((3, 4, 5), (1, 2, 6), "alphas and betas"),
        ((3, 4, 11), (1, 2), "alphas and betas"),
        ((3, 4, -1), (1, 2), "alphas and betas"),
    ],
)
def test_unfit_points_are_refused(alphas: tuple[int, ...], betas: tuple[int, ...], message: str) -> None:
    """Points that coincide, are too few or too many, or lie outside the field raise; an alpha on a beta above all."""
    with pytest.raises(InputError, check=about(message)):
        LagrangeCode(PrimeField(11), 1, 1, 3, alphas, betas)


@pytest.mark.parametrize(("K", "T", "N"), [(0, 1, 1), (1, -1, 1), (1, 1, 0)])
def test_parameters_out_of_range_are_refused(K: int, T: int, N: int) -> None:
    """A code has a block and a worker at least, and no negative number of masks."""
    with pytest.raises(InputError):
        LagrangeCode(SMALL, K, T, N)


def all_blocks(p: int, K: int) -> list[Secret]:
    """Every tuple of K blocks over the field."""
    return list(itertools.product(range(p), repeat=K))


def shares_of(code: LagrangeCode, blocks: Secret, workers: tuple[int, ...]) -> View:
    """What these workers receive, on every tape: [tapes, workers]."""
    tapes = TapeCoins(code.field.modulus, code.T)
    return code.encode(np.array(blocks), tapes)[:, list(workers)]


@pytest.mark.parametrize("p", PRIMES)
@pytest.mark.parametrize(("K", "T"), [(1, 1), (1, 2), (2, 1)])
def test_t_shares_are_independent_of_the_blocks(p: int, K: int, T: int) -> None:
    """The counts of any T shares over all masks are the same for all blocks."""
    code = LagrangeCode(PrimeField(p), K, T, min(p - K - T, 4))
    for workers in itertools.combinations(range(code.N), T):
        first, *others = [counts_of(shares_of(code, blocks, workers)) for blocks in all_blocks(p, K)]
        assert all(counts == first for counts in others)


@pytest.mark.parametrize(("p", "T"), GRID)
def test_t_shares_are_uniform(p: int, T: int) -> None:
    """Each tuple of T shares is seen on exactly one tape (Lemma 5.1 of HiFGL: the masks' block is invertible)."""
    code = LagrangeCode(PrimeField(p), 1, T, p - 1 - T)
    for workers in itertools.combinations(range(code.N), T):
        counts = counts_of(shares_of(code, (1,), workers))
        assert len(counts) == p**T
        assert set(counts.values()) == {1}


@pytest.mark.parametrize(("p", "T"), GRID)
def test_one_share_more_tells_the_block(p: int, T: int) -> None:
    """The broken twin with T + 1 shares at one party: views of different blocks never coincide."""
    code = LagrangeCode(PrimeField(p), 1, T, min(p - 1 - T, 4))
    for workers in itertools.combinations(range(code.N), T + 1):
        assert smallest_distance(lambda blocks, w=workers: shares_of(code, blocks, w), all_blocks(p, 1)) == 1  # type: ignore[misc]


def pair_view(p: int, T: int, secrets: Secret, *, shared: bool) -> View:
    """T shares of each of two encodings, with masks of their own or the same masks."""
    code = LagrangeCode(PrimeField(p), 1, T, T)
    tapes = TapeCoins(p, T if shared else 2 * T)
    masks = [tapes.uniform(p, (T,))] if shared else [tapes.uniform(p, (T,)) for _ in range(2)]
    first = code.encode_with_masks(np.array(secrets[:1]), masks[0])
    second = code.encode_with_masks(np.array(secrets[1:]), masks[-1])
    return np.concatenate([first[:, :T], second[:, :T]], axis=1)


@pytest.mark.parametrize(("p", "T"), GRID)
def test_masks_shared_between_encodings_are_rejected(p: int, T: int) -> None:
    """With the same masks T shares of each of two encodings tell the blocks' difference; fresh masks tell nothing."""
    secrets = [(0, h) for h in range(p)]
    assert smallest_distance(lambda s: pair_view(p, T, s, shared=True), secrets) == 1
    assert largest_distance(lambda s: pair_view(p, T, s, shared=False), secrets) == 0


@pytest.mark.parametrize("p", PRIMES)
def test_masks_that_miss_an_element_are_rejected(p: int) -> None:
    """Masks on 0 .. p - 2 leave one share 1 / (p - 1) away from private, and the enumeration says so exactly."""
    code = LagrangeCode(PrimeField(p), 1, 1, 2)

    def view(blocks: Secret) -> View:
        masks = TapeCoins(p - 1, 1).uniform(p - 1, (1,))
        return code.encode_with_masks(np.array(blocks), masks)[:, :1]

    assert largest_distance(view, all_blocks(p, 1)) == Fraction(1, p - 1)


def test_too_few_masks_are_rejected() -> None:
    """A polynomial of degree T - 1 instead of T leaves T shares without any privacy."""
    code = LagrangeCode(PrimeField(7), 1, 1, 3)
    assert smallest_distance(lambda blocks: shares_of(code, blocks, (0, 1)), all_blocks(7, 1)) == 1
    private = LagrangeCode(PrimeField(7), 1, 2, 3)
    assert largest_distance(lambda blocks: shares_of(private, blocks, (0, 1)), all_blocks(7, 1)) == 0
