"""Budgets: nothing is released that they do not cover."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgl_secure.dp import (
    Budget,
    BudgetExhaustedError,
    GaussianAccount,
    PrivacyTarget,
    Relation,
    SkellamAccount,
    Unit,
    noise_multiplier,
)
from fgl_secure.errors import InputError
from tests.error_codes import about

DELTA = 1e-5
EDGE = Relation(Unit.EDGE)
TARGET = PrivacyTarget(4.0, DELTA, EDGE, 5)
ACCOUNT = GaussianAccount(noise_multiplier(4.0, DELTA, 5))


@given(st.lists(st.integers(0, 3), max_size=8))
def test_spending_beyond_the_budget_changes_nothing(asked: list[int]) -> None:
    """Releases are counted while they fit; the first that does not raises and leaves the count as it was."""
    budget, counted = Budget(TARGET, ACCOUNT), 0
    for releases in asked:
        if counted + releases <= 5:
            assert budget.affords(releases)
            budget.spend(releases)
            counted += releases
        else:
            assert not budget.affords(releases)
            with pytest.raises(BudgetExhaustedError, check=about("releases")):
                budget.spend(releases)
        assert budget.spent == counted
    assert budget.epsilon_spent <= TARGET.epsilon
    assert (budget.epsilon_spent == 0) == (counted == 0)


def test_noise_that_does_not_last_is_refused_at_once() -> None:
    """A budget whose releases would cost more than its epsilon raises when it is made, for either kind of noise."""
    for account in (GaussianAccount(ACCOUNT.multiplier * 0.99), SkellamAccount(100.0, 10.0, 10.0)):
        with pytest.raises(BudgetExhaustedError, check=about("noise")):
            Budget(TARGET, account)


def test_exhausted_budgets_are_input_errors() -> None:
    """Whoever catches InputError catches an exhausted budget as well."""
    assert issubclass(BudgetExhaustedError, InputError)


def test_negative_releases_are_refused() -> None:
    """A budget cannot be refilled."""
    with pytest.raises(InputError, check=about("releases")):
        Budget(TARGET, ACCOUNT).spend(-1)


@pytest.mark.parametrize(("epsilon", "delta", "releases"), [
    (0.0, DELTA, 1), (1.0, 0.0, 1), (1.0, 1.5, 1), (1.0, DELTA, 0),
])  # fmt: skip
def test_targets_outside_their_range_are_refused(epsilon: float, delta: float, releases: int) -> None:
    """Epsilon must be positive, delta inside (0, 1), and there must be a release."""
    with pytest.raises(InputError):
        PrivacyTarget(epsilon, delta, EDGE, releases)
