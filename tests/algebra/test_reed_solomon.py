"""Error location: every pattern over small parameters, ten thousand random ones, and what cannot be told."""

import itertools
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgl_secure.algebra.interpolation import locate_errors

Pattern = tuple[tuple[int, int], ...]
"""Positions and what is added there."""


def evaluate(polynomial: list[int], x: int, p: int) -> int:
    """Value of a polynomial, lowest coefficient first, in python integers."""
    total: int = sum(coefficient * x**k for k, coefficient in enumerate(polynomial))
    return total % p


def patterns(p: int, m: int, errors: int) -> Iterator[Pattern]:
    """Every choice of that many positions with every choice of non-zero errors."""
    for positions in itertools.combinations(range(m), errors):
        for added in itertools.product(range(1, p), repeat=errors):
            yield tuple(zip(positions, added, strict=True))


def spoilt(values: list[int], pattern: Pattern, p: int) -> list[int]:
    """The values with the errors added."""
    wrong = list(values)
    for position, added in pattern:
        wrong[position] = (wrong[position] + added) % p
    return wrong


def nearest(p: int, points: list[int], values: list[int], k: int, errors: int) -> tuple[int, ...] | None:
    """The slow oracle: the wrong positions under the only polynomial that is near enough, by trying all."""
    for polynomial in itertools.product(range(p), repeat=k):
        wrong = tuple(i for i, x in enumerate(points) if evaluate(list(polynomial), x, p) != values[i])
        if len(wrong) <= errors:
            return wrong
    return None


@pytest.mark.parametrize(
    ("p", "m", "k", "A"), [(11, 6, 2, 2), (11, 5, 3, 1), (13, 6, 4, 1), (13, 7, 3, 2), (7, 6, 2, 2)]
)
def test_every_pattern_within_the_bound_is_located(p: int, m: int, k: int, A: int) -> None:
    """With k + 2A values every pattern of up to A errors is named exactly, whatever is added."""
    points, polynomial = [(3 * i + 1) % p for i in range(m)], [(5 * i + 2) % p for i in range(k)]
    values = [evaluate(polynomial, x, p) for x in points]
    for errors in range(A + 1):
        for pattern in patterns(p, m, errors):
            found = locate_errors(p, points, spoilt(values, pattern, p), k, A)
            assert found == tuple(position for position, _ in pattern)


@pytest.mark.parametrize(("p", "m", "k", "A"), [(11, 5, 2, 1), (13, 6, 3, 1), (7, 6, 1, 2)])
def test_one_error_too_many_is_noticed_with_one_value_to_spare(p: int, m: int, k: int, A: int) -> None:
    """With k + 2A + 1 values no pattern of A + 1 errors is taken for another polynomial."""
    points, values = list(range(m)), [evaluate([4, 1, 3][:k], x, p) for x in range(m)]
    for pattern in patterns(p, m, A + 1):
        assert locate_errors(p, points, spoilt(values, pattern, p), k, A) is None


def test_one_error_too_many_may_be_taken_for_another_polynomial_without() -> None:
    """With exactly k + 2A values some patterns of A + 1 errors are the values of another polynomial but for A."""
    p, m, k, A = 11, 4, 2, 1
    values = [evaluate([4, 1], x, p) for x in range(m)]
    found = [locate_errors(p, list(range(m)), spoilt(values, pattern, p), k, A) for pattern in patterns(p, m, A + 1)]
    assert None in found
    assert any(wrong is not None for wrong in found)


@given(st.data(), st.sampled_from([3, 5]), st.integers(1, 2), st.integers(0, 1))
def test_location_is_that_of_trying_all_polynomials(data: st.DataObject, p: int, k: int, A: int) -> None:
    """On any values at all the answer is that of the search through every polynomial."""
    m = data.draw(st.integers(min(p, k + 2 * A), p))
    A = min(A, (m - k) // 2)
    points = data.draw(st.permutations(range(p)))[:m]
    values = data.draw(st.lists(st.integers(0, p - 1), min_size=m, max_size=m))
    assert locate_errors(p, points, values, k, A) == nearest(p, points, values, k, A)
