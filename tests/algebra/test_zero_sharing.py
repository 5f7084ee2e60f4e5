"""Sharings of zero: with one added, a decoder's raw view of a product tells the product and nothing else."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgl_secure.algebra import LagrangeCode, PrimeField
from fgl_secure.coins import SimulationCoins, TapeCoins
from tests.enumeration import Secret, View, counts_of, largest_distance, smallest_distance

PRIMES = (5, 7, 11)


def product_view(p: int, factors: Secret, *, zeros: bool) -> View:
    """What the decoder of the product of two secrets receives, on every tape: K = 1, T = 1, three workers."""
    code = LagrangeCode(PrimeField(p), 1, 1, 3)
    tapes = TapeCoins(p, 4 if zeros else 2)
    shares = [code.encode(np.array([factor]), tapes) for factor in factors]
    product = code.field.multiply(*shares)
    return code.field.add(product, code.zero_shares(tapes, (), degree=2)) if zeros else product


def pairs_with_product(p: int, product: int) -> list[Secret]:
    """Every pair of secrets with that product."""
    return [pair for pair in itertools.product(range(p), repeat=2) if pair[0] * pair[1] % p == product]


@pytest.mark.parametrize("p", PRIMES)
@pytest.mark.parametrize("product", [0, 1, 3])
def test_a_decoder_learns_the_product_alone(p: int, product: int) -> None:
    """With zero shares added, the raw views of all pairs with one product have equal counts over all coins."""
    pairs = pairs_with_product(p, product)
    assert largest_distance(lambda pair: product_view(p, pair, zeros=True), pairs[:5]) == 0


@pytest.mark.parametrize("p", PRIMES)
def test_without_zero_shares_a_decoder_learns_more(p: int) -> None:
    """The broken twin: the bare product's polynomial factors, and pairs with one product are told apart."""
    assert largest_distance(lambda pair: product_view(p, pair, zeros=False), pairs_with_product(p, 0)) > 0


@pytest.mark.parametrize("p", PRIMES)
def test_views_of_different_products_never_coincide(p: int) -> None:
    """The decoder does learn the product: views with different products have nothing in common."""
    assert smallest_distance(lambda pair: product_view(p, pair, zeros=True), [(1, x) for x in range(p)][:5]) == 1


@pytest.mark.parametrize("p", [11])
def test_two_masks_are_hidden_too(p: int) -> None:
    """T = 2: whatever the masks of both factors were, the views of one product have equal counts over the zero shares.

    Fields of 5 and 7 elements have no T = 2 code whose products decode: it takes 1 + 2 + 5 points.
    """
    code, rng = LagrangeCode(PrimeField(p), 1, 2, 5), np.random.default_rng(0)

    def view(case: Secret) -> View:
        a, b, *masks = case
        left = code.encode_with_masks(np.array([a]), np.array(masks[:2]))
        right = code.encode_with_masks(np.array([b]), np.array(masks[2:]))
        zeros = code.zero_shares(TapeCoins(p, 4), (), degree=2)
        return code.field.add(zeros, code.field.multiply(left, right))

    cases = [(*pair, *rng.integers(0, p, 4).tolist()) for pair in [(1, 6), (2, 3), (6, 1), (3, 2), (1, 6)]]
    assert largest_distance(view, cases) == 0
    bare = [tuple(code.encode_with_masks(np.array([a]), np.array([c, d])).tolist()) for a, _, c, d, *_ in cases]
    assert len(set(bare)) > 1


@pytest.mark.parametrize("p", PRIMES)
def test_zero_shares_are_every_vanishing_codeword_once(p: int) -> None:
    """Over all coins each sharing of zero comes out exactly once, and each decodes to zero."""
    code = LagrangeCode(PrimeField(p), 1, 1, 3)
    shares = code.zero_shares(TapeCoins(p, 2), (), degree=2)
    counts = counts_of(shares)
    assert (len(counts), set(counts.values())) == (p**2, {1})
    decoded = code.decode(shares.T, workers=range(3), degree=2)
    assert not decoded.blocks.any()


def coalition_view(p: int, factors: Secret, degree: int) -> View:
    """What the decoder and one worker see together: all masked products, and the worker's three shares."""
    code = LagrangeCode(PrimeField(p), 1, 1, 3)
    tapes = TapeCoins(p, 2 + degree)
    a, b = (code.encode(np.array([factor]), tapes) for factor in factors)
    zeros = code.zero_shares(tapes, (), degree=degree)
    masked = code.field.add(code.field.multiply(a, b), zeros)
    return np.concatenate([masked, a[:, :1], b[:, :1], zeros[:, :1]], axis=1)


@pytest.mark.parametrize("p", PRIMES)
@pytest.mark.parametrize("product", [0, 1])
def test_a_decoder_with_t_workers_learns_the_product_alone(p: int, product: int) -> None:
    """One colluding worker's shares, its zero share among them, add nothing to the product."""
    pairs = pairs_with_product(p, product)
    assert largest_distance(lambda pair: coalition_view(p, pair, 2), pairs[:4]) == 0


@pytest.mark.parametrize("p", PRIMES)
def test_zero_shares_of_too_low_a_degree_are_rejected(p: int) -> None:
    """The broken twin: a sharing of zero at degree one is undone by the decoder with one worker."""
    assert largest_distance(lambda pair: coalition_view(p, pair, 1), pairs_with_product(p, 0)[:4]) > 0


@given(st.integers(1, 3), st.integers(0, 2), st.integers(1, 3), st.integers(0, 2**32))
def test_results_are_unchanged(K: int, T: int, degree: int, seed: int) -> None:
    """Adding shares of zero leaves what decodes as it was, at every K, T and degree."""
    N = (K + T - 1) * degree + 1
    code, coins = LagrangeCode(PrimeField(101), K, T, N), SimulationCoins(seed)
    zeros = code.zero_shares(coins, (2, 3), degree=degree)
    assert zeros.shape == (N, 2, 3)
    assert not code.decode(zeros, workers=range(N), degree=degree).blocks.any()
