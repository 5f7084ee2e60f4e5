"""How many partners devices may have, and what becomes of those that have few."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from fgl_secure.errors import InputError
from fgl_secure.typing import Flags, Ids

ROUNDS = 16
"""Of wishes: links that are open after them stay closed. Random graphs of 20,000 nodes settle within ten."""
TRIES = 8
"""How often a device with few partners asks for one more."""
REACH = 2
"""Most devices that pass a request on, and later a tag."""


class SmallGroups(StrEnum):
    """What becomes of a device with fewer partners than a sum must have messages."""

    SKIP = "skip"
    """It gets no sum."""
    TWO_HOP = "two-hop"
    """Its partners ask partners of their own, of whom some send it their rows; it doesn't learn which."""


class Contributors(StrEnum):
    """Which contributors of a sum `k_min` counts."""

    ALL = "all-contributors"
    """Every device whose row is in the sum."""
    FOREIGN = "foreign-contributors"
    """Those of other silos than the receiver's, where there are any, and then all: a process that hosts all devices of
    a silo can subtract their rows from what its devices receive."""


def is_computed(groups: Ids, least: int, foreign: Flags | None = None, counted: Flags | None = None) -> Flags:
    """Return which messages may go into the sums that they are for.

    Args:
        groups: int64 [m], the sum of each message, numbered from 0.
        least: fewest messages of a sum that is computed.
        foreign: bool [m], messages of which a sum has at least `least` or none; None where all count alike. A sum with
            fewer goes without them.
        counted: bool [m], the messages that count; all of them unless given.

    Returns:
        Bool [m].
    """
    counted = np.ones(len(groups), dtype=np.bool_) if counted is None else counted
    dropped = np.zeros_like(counted)
    if foreign is not None:
        dropped = foreign & (np.bincount(groups, weights=counted & foreign) < least)[groups]
    enough = np.bincount(groups, weights=counted & ~dropped) >= least
    result: Flags = enough[groups] & ~dropped
    return result


@dataclass(frozen=True, slots=True)
class Partnering:
    """The rules of an agreement, the same for all devices.

    Attributes:
        most: D, most partners of a device.
        least: k_min, how many a device wants at least.
        small_groups: what becomes of those that have fewer.
        contributors: which partners count when it is decided what a sum is over; see `is_computed`.

    Raises:
        InputError: most is below least, or least below 1.
    """

    most: int
    least: int
    small_groups: SmallGroups = SmallGroups.TWO_HOP
    contributors: Contributors = Contributors.ALL

    def __post_init__(self) -> None:
        if not 1 <= self.least <= self.most:
            raise InputError(f"least and most must be 1 <= least <= most; found {self.least} and {self.most}")

    @property
    def tries(self) -> int:
        """How often a device with few partners asks for one more."""
        return TRIES if self.small_groups is SmallGroups.TWO_HOP else 0

    @property
    def reach(self) -> int:
        """Most devices between two partners."""
        return REACH if self.small_groups is SmallGroups.TWO_HOP else 0


def check_mutual(owners: NDArray[np.int64], others: NDArray[np.int64]) -> None:
    """Checks that partners can be chosen among neighbours.

    Args:
        owners: int64 [m], who gets a row.
        others: int64 [m], whose row it is.

    Raises:
        InputError: a row travels one way alone between two devices, or two rows travel one way.
    """
    there, back = (np.sort(a << 32 | b) for a, b in ((owners, others), (others, owners)))
    if not np.array_equal(there, back):
        raise InputError(
            "rows must travel both ways between two partners (an undirected graph); some travel one way; take "
            "relay-coded[graph-shown], or make the graph undirected"
        )
    if len(np.unique(there)) < len(there):
        raise InputError("two devices must exchange one row each way; found two of one to the other")
