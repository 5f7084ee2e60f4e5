"""Words of toy schemes, with and without flaws, and whether games reject them."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra import MERSENNE_31
from fgl_secure.auditing.game_words import Words, trials
from fgl_secure.statistics.statistical import ALPHA, holm
from fgl_secure.typing import Integers

SHAPE = (200, 24)
MODULI = (251, 256, MERSENNE_31, 2**61 - 1, 2**64)
Flaw = Callable[[Integers, Integers], Integers]


def masked(seed: int, modulus: int, flaw: Flaw | None = None, shape: tuple[int, int] = SHAPE) -> Words:
    """Small numbers of 20 senders for two receivers in five steps, under masks."""
    rng = np.random.default_rng(seed)
    kind = np.uint64 if modulus == 2**64 else np.int64
    masks = rng.integers(0, modulus - 1, endpoint=True, size=shape, dtype=kind).view(np.int64)
    rows = np.random.default_rng(0).integers(0, max(modulus // 512, 2), size=shape)
    masks = masks if flaw is None else flaw(masks, rng.permutation(shape[0]))
    values = rows + masks if modulus == 2**64 else (rows + masks % modulus) % modulus
    message = np.arange(shape[0])
    return Words("toy", modulus, values, message % 20, 20 + message % 2, message // 40)


def rejected(first: Words, second: Words, third: Words, *, pool: bool = True) -> bool:
    """Whether two samples in a row show that words are not uniform, as games decide it."""
    one = {each.key: each.outcome.p_value for each in trials(first, second, receivers_pool=pool)}
    two = {each.key: each.outcome.p_value for each in trials(second, third, receivers_pool=pool)}
    adjusted = holm(np.array(list(one.values())), len(one))
    low = [key for key, p in zip(one, adjusted, strict=True) if p <= ALPHA]
    return any(two[key] * len(low) <= ALPHA for key in low)


def with_holes(holes: NDArray[np.bool_], masks: Integers, _order: Integers) -> Integers:
    """Masks that are 0 in some places."""
    return np.asarray(np.where(holes, 0, masks))
