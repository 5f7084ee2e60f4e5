"""Decoding with liars: located, named and corrected, or refused where the shares tell that there are too many."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgl_secure.algebra import Elements, LagrangeCode, PrimeField
from fgl_secure.coins import Coins, SimulationCoins
from fgl_secure.errors import FieldRangeError, InputError, NotEnoughShares, TooManyErrors
from tests.error_codes import about
from tests.strategies import Ints, all_prime_fields

STRIDES = {1: 1, 2: 3, 3: 97, 4: 997}
"""Of the lies of so many liars, one in so many is tried on whole shares; `test_reed_solomon` tries them all."""


class ZeroCoins(Coins):
    """The unluckiest combination there is: it sees no coordinate at all."""

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return ()

    def uniform(self, modulus: int, shape: tuple[int, ...]) -> Ints:  # noqa: ARG002  # it is zero in every field
        return np.zeros(shape, dtype=np.int64)


def encoded(code: LagrangeCode, width: int, seed: int = 0) -> tuple[Ints, Elements]:
    """Random blocks and their shares."""
    blocks = SimulationCoins(seed).uniform(code.field.modulus, (code.K, width))
    return blocks, code.encode(blocks, SimulationCoins(seed + 1))


@pytest.mark.parametrize(("p", "K", "T", "N", "A"), [(11, 1, 1, 6, 2), (13, 2, 1, 7, 2), (13, 1, 2, 5, 1)])
def test_every_set_of_liars_with_every_lie_is_corrected(p: int, K: int, T: int, N: int, A: int) -> None:
    """Each set of up to A workers is named exactly; the coordinates hold every combination of their lies."""
    code = LagrangeCode(PrimeField(p), K, T, N)
    for liars in itertools.chain.from_iterable(itertools.combinations(range(N), size) for size in range(A + 1)):
        lies = np.stack(np.meshgrid(*[np.arange(p)] * len(liars), [0]), axis=-1).reshape(-1, len(liars) + 1)[:, :-1]
        blocks, shares = encoded(code, len(lies))
        wrong = shares.astype(np.int64)
        wrong[list(liars)] = (wrong[list(liars)] + lies.T) % p
        decoded = code.decode(wrong, workers=range(N), max_errors=A)
        assert decoded.faulty == liars
        assert np.array_equal(decoded.blocks, blocks)


@given(st.data(), all_prime_fields(smallest=11), st.integers(0, 2**32), st.booleans())
def test_the_answer_does_not_depend_on_the_coins(
    data: st.DataObject, field: PrimeField, seed: int, unlucky: bool
) -> None:
    """Lies at single coordinates, stragglers and shuffled rows are dealt with under any coins, useless ones too."""
    code = LagrangeCode(field, K=1, T=1, N=8)
    blocks, shares = encoded(code, 4, seed)
    liars = data.draw(st.lists(st.integers(0, 7), max_size=2, unique=True))
    answering = [*liars, *(worker for worker in range(8) if worker not in liars)][: data.draw(st.integers(6, 8))]
    for liar in liars:
        at = data.draw(st.integers(0, 3))
        shares[liar, at] = field.add(shares[liar, at], data.draw(st.integers(1, field.modulus - 1)))
    workers = data.draw(st.permutations(answering))
    coins = ZeroCoins() if unlucky else SimulationCoins(seed)
    decoded = code.decode(shares[workers], workers, max_errors=2, coins=coins)
    assert decoded.faulty == tuple(sorted(liars))
    assert np.array_equal(decoded.blocks, blocks)


@pytest.mark.parametrize(("N", "A"), [(3, 0), (5, 1), (7, 2), (4, 0), (6, 1)])
def test_more_liars_than_allowed_are_noticed_where_it_is_guaranteed(N: int, A: int) -> None:
    """With more than A and up to m - k - A liars every set of them is refused: never a wrong answer for a right one."""
    code, p = LagrangeCode(PrimeField(11), K=1, T=1, N=N), 11
    blocks, shares = encoded(code, 1)
    most = N - code.recovery_threshold() - A
    for size in range(A + 1, most + 1):
        for liars in itertools.combinations(range(N), size):
            for lies in itertools.islice(itertools.product(range(1, p), repeat=size), 0, None, STRIDES[size]):
                wrong = shares.astype(np.int64)
                wrong[list(liars), 0] = (wrong[list(liars), 0] + lies) % p
                with pytest.raises(TooManyErrors, check=about("shares")):
                    code.decode(wrong, workers=range(N), max_errors=A)
    assert most > A
    assert np.array_equal(code.decode(shares, workers=range(N), max_errors=A).blocks, blocks)


def test_a_lie_at_one_of_a_hundred_thousand_coordinates_is_found(field: PrimeField) -> None:
    """A single wrong coordinate, in the last and in an inner block of columns, is enough to be named."""
    code = LagrangeCode(field, K=2, T=2, N=7)
    blocks, shares = encoded(code, 100_001)
    shares[6, 100_000] = field.add(shares[6, 100_000], 1)
    with pytest.raises(TooManyErrors):
        code.decode(shares, workers=range(7))
    for coins in (SimulationCoins(0), ZeroCoins()):
        decoded = code.decode(shares, workers=range(7), max_errors=1, coins=coins)
        assert (decoded.faulty, np.array_equal(decoded.blocks, blocks)) == ((6,), True)
    shares[6, 100_000], shares[0, 50_000] = field.subtract(shares[6, 100_000], 1), field.add(shares[0, 50_000], 5)
    assert code.decode(shares, workers=range(7), max_errors=1, coins=ZeroCoins()).faulty == (0,)


def test_products_are_corrected_at_their_degree(field: PrimeField) -> None:
    """A worker that lies about a product of shares is named, and the product decodes."""
    code = LagrangeCode(field, K=2, T=1, N=7)
    (a, shares_a), (b, shares_b) = encoded(code, 5), encoded(code, 5, 9)
    products = field.multiply(shares_a, shares_b)
    products[3] = field.add(products[3], 1)
    decoded = code.decode(products, workers=range(7), degree=2, max_errors=1)
    assert decoded.faulty == (3,)
    assert np.array_equal(decoded.blocks, field.multiply(a, b))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"workers": range(6), "max_errors": 3}, NotEnoughShares, "shares"),
        ({"workers": range(6), "degree": 6}, NotEnoughShares, "shares"),
        ({"workers": range(6), "degree": 0}, InputError, "degree"),
        ({"workers": range(6), "max_errors": -1}, InputError, "max_errors"),
        ({"workers": [0, 1, 2, 3, 4, 4]}, InputError, "workers"),
        ({"workers": [0, 1, 2, 3, 4, 6]}, InputError, "workers"),
        ({"workers": range(5)}, InputError, "shares"),
    ],
)
def test_requests_that_cannot_be_met_are_refused(
    arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    """Too few shares, unfit degrees, error numbers and workers raise, with the figures."""
    code = LagrangeCode(PrimeField(13), K=1, T=1, N=6)
    with pytest.raises(error, check=about(message)):
        code.decode(np.zeros((6, 2), dtype=np.int64), **arguments)


@pytest.mark.parametrize("value", [-1, 13])
def test_shares_of_another_field_are_refused(value: int) -> None:
    """A share that is no element raises before anything is decoded, and floats do too."""
    code = LagrangeCode(PrimeField(13), K=1, T=1, N=3)
    with pytest.raises(FieldRangeError, check=about("shares")):
        code.decode(np.full((3, 1), value), workers=range(3))
    with pytest.raises(InputError, check=about("values")):
        code.decode(np.zeros((3, 1)), workers=range(3))  # type: ignore[type-var]
