"""What counts as a difference of two runs where a library has randomness of its own."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fgl_secure.auditing.game_views import Batch, differences
from fgl_secure.runtime import Step

ENDS = np.zeros(6, dtype=np.int64)


def sent(words: NDArray[Any]) -> list[Batch]:
    ends = ENDS[: len(words)]
    return [Batch("ciphertexts", Step(0), ends, ends, 8, {"words": words})]


def rules(*runs: NDArray[Any]) -> list[str]:
    one, other, again, other_again = map(sent, runs)
    return [each.rule for each in differences(one, other, again, lambda: other_again)]


@pytest.mark.parametrize("seed", range(20))
def test_sizes_that_vary_by_themselves_are_no_difference(seed: int) -> None:
    """Numbers of few values agree by chance in two runs of one input."""
    rng = np.random.default_rng(seed)
    sizes = [rng.integers(1000, 1003, size=(6, 1)) for _ in range(4)]
    while np.array_equal(sizes[0], sizes[2]):
        sizes[2] = rng.integers(1000, 1003, size=(6, 1))
    assert rules(*sizes) == []


def test_a_size_that_stays_by_chance_is_no_difference() -> None:
    """Sizes of other messages of the field vary between two runs of one input."""
    sizes = [[30_930, 30_925], [30_905, 30_924], [30_930, 30_931], [30_934, 30_925]]
    runs = [[sent(np.array([[size]], dtype=np.uint32))[0] for size in run] for run in sizes]
    assert list(differences(runs[0], runs[1], runs[2], lambda: runs[3])) == []


@pytest.mark.parametrize("steady", [np.full((6, 1), 2**40), np.full((6, 1), 7)])
def test_a_word_that_follows_the_input_is_a_difference(steady: NDArray[Any]) -> None:
    """Beside random words of the same message: a large one in any case, a small one where no small one varies."""
    rng = np.random.default_rng(0)
    one, again, other, other_again = (
        np.hstack([rng.integers(2**40, 2**62, size=(6, 3)), steady + shift]) for shift in (0, 0, 1, 1)
    )
    assert rules(one, other, again, other_again) == ["depends on the secret"]
