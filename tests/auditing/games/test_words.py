"""Words under masks look uniform; words without masks, or under masks that are used twice, do not."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from fgl_secure.algebra import MERSENNE_31
from fgl_secure.auditing.game_words import Words, smallest_share, trials
from fgl_secure.statistics.statistical import ALPHA, POWER
from fgl_secure.typing import Integers
from tests.auditing.games.toys import MODULI, SHAPE, Flaw, masked, rejected, with_holes

_RUNS = 60


@pytest.mark.parametrize("modulus", MODULI)
def test_masks_pass(modulus: int) -> None:
    """Independent uniform words are not rejected, whoever pools what it has."""
    for seed in range(0, 30, 3):
        samples = [masked(seed + number, modulus) for number in (1, 2, 3)]
        assert not rejected(*samples, pool=modulus > 2**20)


def _one_coordinate(masks: Integers, _order: Integers) -> Integers:
    masks[:, 3] = 0
    return masks


def _one_sender(masks: Integers, _order: Integers) -> Integers:
    masks[::20] = 0
    return masks


def _one_message(masks: Integers, _order: Integers) -> Integers:
    masks[77] = 0
    return masks


def _fixed(masks: Integers, _order: Integers) -> Integers:
    masks[10] = np.random.default_rng(99).integers(0, 200, size=masks.shape[1])
    return masks


def _twice(masks: Integers, order: Integers) -> Integers:
    masks[order[0]] = masks[order[1]]
    return masks


def _opposite(masks: Integers, order: Integers) -> Integers:
    masks[order[0]] = -masks[order[1]]
    return masks


def _in_every_step(masks: Integers, _order: Integers) -> Integers:
    return np.tile(masks[:40], (5, 1))


def _one_word(masks: Integers, _order: Integers) -> Integers:
    return np.repeat(masks[:, :1], masks.shape[1], axis=1)


def _again_from_the_middle(masks: Integers, _order: Integers) -> Integers:
    half = masks.shape[1] // 2
    masks[:, half : 2 * half] = masks[:, :half]
    return masks


@pytest.mark.parametrize("modulus", [251, MERSENNE_31, 2**61 - 1, 2**64])
def test_a_stream_that_starts_again_is_found(modulus: int) -> None:
    """The masks of the second half of a message are those of the first."""
    assert rejected(*(masked(seed, modulus, _again_from_the_middle, (5, 600)) for seed in (1, 2, 3)))
    for seed in range(0, 30, 3):
        assert not rejected(*(masked(seed + number, modulus, None, (5, 600)) for number in (1, 2, 3)))


@pytest.mark.parametrize(
    "flaw", [_one_coordinate, _one_sender, _one_message, _fixed, _twice, _opposite, _in_every_step, _one_word]
)
@pytest.mark.parametrize("modulus", [251, MERSENNE_31, 2**64])
def test_flaws_of_masks_are_found(modulus: int, flaw: Flaw) -> None:
    """Masks that are missing, fixed or used twice, in one coordinate, message, sender or step."""
    assert rejected(*(masked(seed, modulus, flaw) for seed in (1, 2, 3)))


def _narrow(bits: int, masks: Integers, _order: Integers) -> Integers:
    narrow: Integers = masks % 2**bits
    return narrow


def test_narrow_masks_are_found() -> None:
    """Masks of half the range, and of half the bits."""
    for bits in (15, 30):
        samples = [masked(seed, MERSENNE_31, partial(_narrow, bits)) for seed in (1, 2, 3)]
        assert rejected(*samples)


@pytest.mark.parametrize("modulus", MODULI)
def test_words_without_any_mask_are_found(modulus: int) -> None:
    """Words of a few units, whatever the modulus."""
    samples = [replace(masked(seed, modulus), values=np.full(SHAPE, seed, dtype=np.int64)) for seed in (1, 2, 3)]
    assert rejected(*samples)


def test_a_word_for_two_receivers_is_found() -> None:
    """Where no coalition may have what both of two receivers are sent."""
    samples = [masked(seed, MERSENNE_31) for seed in (1, 2, 3)]
    for each in samples:
        each.values[1] = each.values[0]
    assert rejected(*samples, pool=False)


def test_a_sum_of_few_products_is_found() -> None:
    """A matrix of low rank, whatever masks its factors."""
    rng = np.random.default_rng(0)
    samples = []
    for _ in range(3):
        products = rng.integers(0, 251, size=(2, 64, 20)) @ rng.integers(0, 251, size=(2, 20, 64)) % 251
        samples.append(Words("toy", 251, products.reshape(2, -1), np.arange(2), np.full(2, 9), np.zeros(2, dtype=int)))
    assert rejected(*samples)


def test_the_stated_share_is_seen() -> None:
    """Places without masks in the share that is said to be seen are found in 97 of 100 runs."""
    tests = len(list(trials(masked(1, MERSENNE_31), masked(2, MERSENNE_31), receivers_pool=True)))
    share = smallest_share(masked(1, MERSENNE_31), tests, ALPHA, POWER)
    assert 0 < share < 0.01
    found = 0
    for number in range(_RUNS):
        holes = np.random.default_rng(number).random(SHAPE) < share
        leaks = [masked(3 * number + k, MERSENNE_31, partial(with_holes, holes)) for k in range(3)]
        found += rejected(*leaks)
    assert found >= _RUNS - 5  # where it is found in 97 of 100 runs, six in sixty are missed once in a hundred times
