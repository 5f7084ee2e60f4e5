"""The interface between a round of pairwise masking and where its masks come from."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra import Elements, PrimeField
from fgl_secure.protocols.masking.delivery import Circle
from fgl_secure.protocols.masking.roles import Asked
from fgl_secure.runtime import Step

Ids = NDArray[np.int64]
Flags = NDArray[np.bool_]

SELF, KEY = 0, 1
"""Which secret of a sender: the seed of its self mask, or the key of its pairwise masks. Both are made for one step."""


class MaskSupply(ABC):
    """Masks of one session, and the messages by which senders agree on them.

    Args:
        circle: the parties.
        field: of the masks.
        length: of every vector.
    """

    def __init__(self, circle: Circle, field: PrimeField, length: int) -> None:
        self.circle, self.field, self.length = circle, field, length

    @property
    @abstractmethod
    def words(self) -> int:
        """Elements that hold one secret."""

    @abstractmethod
    def set_up(self) -> Flags:
        """Exchanges what lasts for the session; says which senders take part: bool [m]."""

    @abstractmethod
    def begin(self, step: Step, alive: Flags) -> tuple[Flags, Flags]:
        """Agrees on the pairwise masks of a step.

        Returns:
            Bool [m], whose keys reached the aggregator, and bool [m, m], of whom each sender heard a key that is good
            for a mask; the row of one that is out is empty.
        """

    @abstractmethod
    def secrets(self, step: Step, who: Ids) -> Elements:
        """The fresh secrets of some senders: elements [*batch, n, 2, words]."""

    @abstractmethod
    def hand_over(self, step: Step, who: Ids, shares: Elements) -> tuple[Flags, Flags, Elements]:
        """Gives every neighbour its shares, unseen by the aggregator.

        Args:
            step: when.
            who: int64 [n], those that share their secrets.
            shares: elements [*batch, n, m, 2, words], by holder.

        Returns:
            Bool [m], whose shares reached the aggregator; bool [m, m], of whom each sender heard that they did, itself
            included, its row empty where it heard nothing; and [*batch, m, m, 2, words], the shares by holder and
            owner, NO_SHARE where none.
        """

    @abstractmethod
    def masked(self, u: int, row: NDArray[np.int64], others: Ids, step: Step) -> Elements:
        """A sender's vector [length] under its self mask, those shared with some others and the receiver's."""

    @abstractmethod
    def votes(self, step: Step, who: Ids, asked: Asked) -> tuple[Flags, Ids]:
        """Neighbours tell each other what they were asked: uint8 [n, m].

        Returns:
            Bool [n], who heard of the others' votes, and int64 [n], how many were asked the same, itself included.
        """

    @abstractmethod
    def unmask(self, total: Elements, secrets: Elements, asked: Asked, step: Step) -> None:
        """Takes away, in place, the masks that opened secrets give: [*batch, m, words] as `asked` says, uint8 [m]."""

    @abstractmethod
    def release(self, total: Elements, roster: Ids, step: Step) -> None:
        """Takes away, in place, the masks that the senders of a roster share with the receiver."""
