"""The interface between a sum under LightSecAgg and what connects its clients: keys, or ideal means in their place."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra import Elements
from fgl_secure.protocols.coded_masks.code import MaskCode
from fgl_secure.protocols.coded_masks.roles import Roster
from fgl_secure.protocols.masking.delivery import Circle
from fgl_secure.runtime import Step

Ids = NDArray[np.int64]
Flags = NDArray[np.bool_]


class Links(ABC):
    """Masks of one session, and messages that the aggregator carries and cannot read.

    Args:
        circle: the parties.
        code: of the masks.
    """

    def __init__(self, circle: Circle, code: MaskCode) -> None:
        self.circle, self.code = circle, code

    @abstractmethod
    def set_up(self) -> Flags:
        """Exchanges what lasts for the session; says which senders take part: bool [m]."""

    @abstractmethod
    def begin(self, step: Step, who: Ids) -> None:
        """Some senders draw what their masks of a step come from."""

    @abstractmethod
    def mask(self, step: Step, u: int) -> Elements:
        """The mask of a sender that drew one, the same whenever it is asked for: elements [*batch, d]."""

    @abstractmethod
    def give(self, step: Step, u: int, to: Ids, coded: Elements) -> tuple[bool, Flags, Elements]:
        """A sender gives each of some others its coded mask.

        Args:
            step: when.
            u: who gives.
            to: int64 [n], to whom.
            coded: elements [*batch, n, width].

        Returns:
            Whether they reached the aggregator, bool [n], which of them reached whom they are for, and [*batch, n,
            width], what these hold then.
        """

    @abstractmethod
    def votes(self, step: Step, who: Ids, rosters: Roster) -> tuple[Flags, Ids]:
        """Senders tell each other which roster they were told: uint8 [n, m].

        Returns:
            Bool [n], who heard of the others' votes, and int64 [n], how many were told the same, itself included.
        """

    @abstractmethod
    def hand_in(self, step: Step, who: Ids, sums: Elements) -> tuple[Flags, Elements]:
        """Senders give the receiver their sums of coded masks: [*batch, n, width]; says which arrived, and as what."""
