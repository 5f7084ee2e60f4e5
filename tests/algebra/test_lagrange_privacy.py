"""T-privacy of Lagrange coding, proved over small fields by running every coin tape, and broken twins that fail."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from fgl_secure.algebra import LagrangeCode, PrimeField
from fgl_secure.coins import TapeCoins
from fgl_secure.errors import InputError
from tests.enumeration import GRID, PRIMES, Secret, View, counts_of, largest_distance, smallest_distance
from tests.error_codes import about


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


def test_masks_from_remainders_are_rejected() -> None:
    """4-bit words modulo 11 as masks leave one share 5/16 away from private."""
    code = LagrangeCode(PrimeField(11), 1, 1, 2)
    masks = (np.arange(16) % 11)[:, None]
    distance = largest_distance(lambda b: code.encode_with_masks(np.array(b), masks)[:, :1], all_blocks(11, 1))
    assert distance == Fraction(5, 16)


def test_too_few_masks_are_rejected() -> None:
    """A polynomial of degree T - 1 instead of T leaves T shares without any privacy."""
    code = LagrangeCode(PrimeField(7), 1, 1, 3)
    assert smallest_distance(lambda blocks: shares_of(code, blocks, (0, 1)), all_blocks(7, 1)) == 1
    private = LagrangeCode(PrimeField(7), 1, 2, 3)
    assert largest_distance(lambda blocks: shares_of(private, blocks, (0, 1)), all_blocks(7, 1)) == 0


@pytest.mark.parametrize("p", PRIMES)
def test_an_alpha_on_a_beta_is_rejected(p: int) -> None:
    """A worker whose alpha is beta_1 would receive the block itself, so such points are refused."""
    with pytest.raises(InputError, check=about("alphas and betas")):
        LagrangeCode(PrimeField(p), 1, 1, 2, alphas=(1, 3), betas=(1, 2))
