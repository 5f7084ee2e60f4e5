"""A privacy budget: what a run may cost, and what it has cost so far."""

from __future__ import annotations

from dataclasses import dataclass

from fgl_secure.dp.accountant import Account, check_budget
from fgl_secure.dp.sensitivity import Relation
from fgl_secure.errors import InputError


class BudgetExhaustedError(InputError):
    """Another release would cost more than the privacy budget allows."""


@dataclass(frozen=True, slots=True)
class PrivacyTarget:
    """What all releases of a run together may cost.

    Attributes:
        epsilon: above 0.
        delta: inside (0, 1).
        relation: what two neighbouring inputs differ in.
        releases: how many releases the budget is meant for: rounds x layers x directions, evaluations included.
    """

    epsilon: float
    delta: float
    relation: Relation
    releases: int

    def __post_init__(self) -> None:
        check_budget(self.epsilon, self.delta, self.releases)

    def __str__(self) -> str:
        return f"epsilon={self.epsilon:g}, delta={self.delta:g} of {self.relation}, over {self.releases} releases"


class Budget:
    """Counts releases against a target.

    Args:
        target: what the run may cost.
        account: what its releases cost.
        delta: the part of the target's delta that releases may use; None for all of it.

    Raises:
        BudgetExhaustedError: the target's releases already cost more than its epsilon.
    """

    __slots__ = ("_account", "_delta", "_spent", "_target")

    def __init__(self, target: PrivacyTarget, account: Account, delta: float | None = None) -> None:
        self._target, self._account, self._spent = target, account, 0
        self._delta = target.delta if delta is None else delta
        check_budget(target.epsilon, self._delta, target.releases)
        cost = account.epsilon(target.releases, self._delta)
        if cost > target.epsilon:
            raise BudgetExhaustedError(
                f"noise must keep {target.releases} releases within epsilon={target.epsilon:g} at "
                f"delta={self._delta:g}; found a cost of {cost:g}"
            )

    def __repr__(self) -> str:
        return f"Budget({self._target}; {self._spent} spent)"

    @property
    def target(self) -> PrivacyTarget:
        """What the run may cost."""
        return self._target

    @property
    def spent(self) -> int:
        """Releases made so far."""
        return self._spent

    @property
    def epsilon_spent(self) -> float:
        """What they cost at the releases' delta."""
        return self._account.epsilon(self._spent, self._delta)

    def affords(self, releases: int = 1) -> bool:
        """Whether that many more releases stay within the target."""
        if releases < 0:
            raise InputError(f"releases must not be negative; found {releases}")
        return self._spent + releases <= self._target.releases

    def check(self, releases: int = 1) -> None:
        """Raises unless that many more releases stay within the target.

        Raises:
            BudgetExhaustedError: they do not.
        """
        if not self.affords(releases):
            raise BudgetExhaustedError(
                f"releases must stay within the budget of {self._target}; found {self._spent} spent and "
                f"{releases} more asked for"
            )

    def spend(self, releases: int = 1) -> None:
        """Counts releases that are about to be made.

        Raises:
            BudgetExhaustedError: they do not fit; then nothing is counted and nothing may be released.
        """
        self.check(releases)
        self._spent += releases
