"""What counts as a difference of two runs where a library has randomness of its own."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fgl_secure.auditing.game_views import REPEATS, Batch, differences
from fgl_secure.runtime import Step

ENDS = np.zeros(6, dtype=np.int64)


def sent(words: NDArray[Any]) -> list[Batch]:
    ends = ENDS[: len(words)]
    return [Batch("ciphertexts", Step(0), ends, ends, 8, {"words": words})]


def rules(ones: list[NDArray[Any]], others: list[NDArray[Any]]) -> list[str]:
    """Rules that differ in runs of two inputs; the last run of each is the same from then on."""
    one, other = (list(map(sent, runs)) for runs in (ones, others))
    found = differences(one[0], other[0], lambda n: one[min(n, len(one) - 1)], lambda n: other[min(n, len(other) - 1)])
    return [each.rule for each in found]


@pytest.mark.parametrize("seed", range(20))
def test_sizes_that_vary_by_themselves_are_no_difference(seed: int) -> None:
    """Numbers of few values agree by chance in two runs of one input."""
    rng = np.random.default_rng(seed)
    sizes = [rng.integers(1000, 1003, size=(6, 1)) for _ in range(4)]
    while np.array_equal(sizes[0], sizes[2]):
        sizes[2] = rng.integers(1000, 1003, size=(6, 1))
    assert rules([sizes[0], sizes[2]], [sizes[1], sizes[3]]) == []


def test_a_size_that_stays_by_chance_is_no_difference() -> None:
    """Sizes of other messages of the field vary between two runs of one input."""
    sizes = [[30_930, 30_925], [30_905, 30_924], [30_930, 30_931], [30_934, 30_925]]
    runs = [[sent(np.array([[size]], dtype=np.uint32))[0] for size in run] for run in sizes]
    assert list(differences(runs[0], runs[1], lambda _: runs[2], lambda _: runs[3])) == []


@pytest.mark.parametrize("seed", range(20))
def test_words_of_few_values_that_agree_by_chance_are_no_difference(seed: int) -> None:
    """Compressed ciphertexts hold large words of two or three values beside random ones."""
    rng = np.random.default_rng(seed)
    few = rng.integers(2**40, 2**62, size=3)
    runs = [
        np.hstack([rng.integers(2**40, 2**62, size=(6, 3)), rng.choice(few, size=(6, 1))]) for _ in range(2 * REPEATS)
    ]
    assert rules(runs[:REPEATS], runs[REPEATS:]) == []


@pytest.mark.parametrize("steady", [np.full((6, 1), 2**40), np.full((6, 1), 7)])
def test_a_word_that_follows_the_input_is_a_difference(steady: NDArray[Any]) -> None:
    """Beside random words of the same message: a large one in any case, a small one where no small one varies."""
    rng = np.random.default_rng(0)
    ones, others = (
        [np.hstack([rng.integers(2**40, 2**62, size=(6, 3)), steady + shift]) for _ in range(REPEATS)]
        for shift in (0, 1)
    )
    assert rules(ones, others) == ["depends on the secret"]
