"""Random splits: every node once, exact sizes, repeatable."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgl_secure.errors import InputError
from fgl_secure.graph import random_split
from tests.error_codes import about

FRACTIONS = [(0.6, 0.2, 0.2), (0.1, 0.1, 0.8), (1.0, 0.0, 0.0), (1 / 3, 1 / 3, 1 / 3)]


@given(st.integers(1, 500), st.integers(0, 2**64), st.sampled_from(FRACTIONS))
def test_every_node_is_in_one_set_of_the_right_size(n: int, seed: int, fractions: tuple[float, float, float]) -> None:
    """Each node is in exactly one mask, and each size is less than one node away from its share."""
    masks = random_split(n, seed, fractions)
    stacked = np.stack([masks.train, masks.validation, masks.test])
    assert stacked.dtype == np.bool_
    assert (stacked.sum(axis=0) == 1).all()
    assert (np.abs(stacked.sum(axis=1) - n * np.array(fractions)) <= 1).all()


def test_seed_repeats_the_split() -> None:
    """Equal seeds give equal splits and different seeds different ones."""
    first, again, other = (random_split(100, seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first.train, again.train)
    np.testing.assert_array_equal(first.test, again.test)
    assert not np.array_equal(first.train, other.train)


@pytest.mark.parametrize(
    ("n", "seed", "fractions", "message"),
    [
        (0, 0, (0.6, 0.2, 0.2), "n"),
        (10, -1, (0.6, 0.2, 0.2), "seed"),
        (10, 0, (0.6, 0.2, 0.3), "fractions"),
        (10, 0, (1.2, -0.2, 0.0), "fractions"),
        (10, 0, (float("nan"), 0.5, 0.5), "fractions"),
    ],
)
def test_bad_arguments_are_refused(n: int, seed: int, fractions: tuple[float, float, float], message: str) -> None:
    with pytest.raises(InputError, check=about(message)):
        random_split(n, seed, fractions)
