"""What one message, edge or device can change, once rows are clipped, and what a run may cost and has cost so far.

The grouped sums of one pass are one vector: all groups side by side. A message adds its row to one group, so leaving
it out moves that vector by the row's norm, at most the clip C. Messages of one unit go to different groups, where
their changes are orthogonal: k of them move the vector by at most sqrt(k) C.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from fgl_secure.dp.accountant import Account, check_budget
from fgl_secure.errors import InputError
from fgl_secure.typing import Ids


class Unit(StrEnum):
    """What two neighbouring inputs differ in: all messages of one unit, present or all zero."""

    MESSAGE = "one directed message"
    EDGE = "one undirected edge"
    NODE = "one device"
    CLIENT = "one client's update"


@dataclass(frozen=True, slots=True)
class Relation:
    """The neighbouring relation of a claim: present or all zero.

    Inputs in which a unit's messages are others, and not zero, are two such steps apart: what is said of epsilon here
    holds for them with twice the sensitivity (`Perturbation.replacing_epsilon`), and not as it stands.

    Attributes:
        unit: what one of the two inputs lacks.
        cap: B, most messages that one device sends in one pass; given for NODE only.
    """

    unit: Unit
    cap: int | None = None

    def __post_init__(self) -> None:
        if (self.unit is Unit.NODE) != (self.cap is not None):
            raise InputError(f"cap must be given for units of {Unit.NODE} and for no other; found {self.cap}")
        if self.cap is not None and self.cap < 1:
            raise InputError(f"cap must be at least 1 message; found {self.cap}")

    def __str__(self) -> str:
        unit = str(self.unit) if self.cap is None else f"{self.unit} with at most {self.cap} messages a pass"
        return f"{unit}, present or all zero"

    @property
    def messages(self) -> int:
        """Most messages of one unit in one pass: 1, the 2 ways of an edge, or the cap."""
        return {Unit.MESSAGE: 1, Unit.EDGE: 2, Unit.NODE: self.cap or 0, Unit.CLIENT: 1}[self.unit]

    def l2_sensitivity(self, clip: float) -> float:
        """Largest change of one pass's sums in L2 norm, in the unit of `clip`.

        C for a message or an update; sqrt(2) C for an edge, whose two messages reach two groups; sqrt(B) C for a device
        with at most B messages to B groups. What the change makes of later rows is covered by adaptive
        composition, as long as a device's rows depend on its own data and on noisy sums only.
        """
        return math.sqrt(self.messages) * clip

    def l1_sensitivity(self, l2: float, width: int) -> float:
        """Largest change in L1 norm when rows are integers [width]: min(sqrt(k d) l2, l2^2).

        Cauchy and Schwarz give the first; an integer is at most its own square, which gives the second.
        """
        return min(math.sqrt(self.messages * width) * l2, l2 * l2)

    def check(self, senders: Ids, targets: Ids) -> None:
        """Raises unless no unit has more messages in this pass than the sensitivity counts; drops nothing.

        Args:
            senders: int64 [m], the party that sends each message.
            targets: int64 [m], the group of each message.

        Raises:
            InputError: a sender has two messages to one group, or more messages than the cap.
        """
        if self.unit is Unit.MESSAGE or not len(senders):
            return
        pairs = np.stack([senders, targets])
        if np.unique(pairs, axis=1).shape[1] != len(senders):
            raise InputError(f"messages must be at most one from a sender to a group for units of {self.unit}")
        if self.cap is not None:
            _check_cap(senders, self.cap)


def _check_cap(senders: Ids, cap: int) -> None:
    counts = np.bincount(senders)
    if int(counts.max()) > cap:
        raise InputError(
            f"messages of one device in one pass must not exceed the cap {cap}, for which the noise is made; found "
            f"{int((counts > cap).sum())} devices beyond it, up to {int(counts.max())} messages"
        )


def rounding_excess(width: int) -> float:
    """By how much rounding to integers may lengthen a row of `width` coordinates, in grid units: sqrt(d) / 2."""
    return math.sqrt(width) / 2


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
    def spent_releases(self) -> int:
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
