"""The interface of every scheme: grouped sums between parties."""

from __future__ import annotations

from abc import abstractmethod
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra import FixedPoint
from fgl_secure.protocols.promising import Promising
from fgl_secure.protocols.topology import Grouping, Reals
from fgl_secure.runtime import Channel, Step


class Session(Protocol):
    """A scheme at work on one grouping, with whatever its set-up agreed on."""

    @abstractmethod
    def sum(self, values: Reals, step: Step, /) -> NDArray[np.float64]:
        """Computes the grouped sums of one step.

        Args:
            values: [n, d], the rows to be summed; in a backward step the rows are the groups of the forward pass.
            step: round, layer and direction; a backward step runs along the reversed messages.

        Returns:
            float64 [g, d], the sum of each group, zero where nothing was sent.
        """


class Scheme(Promising):
    """A way to compute grouped sums, and what it promises about them."""

    @property
    @abstractmethod
    def minimum_group(self) -> int:
        """Least messages of a sum that is computed; the owner of a smaller group gets zero and is told nothing."""

    @abstractmethod
    def gradient_scheme(self, members: int) -> Scheme | None:
        """What sums parameter gradients of up to that many devices for their silo; None where they go in the clear.

        Its sums of so many gradients must stay below 2^53 units of its fixed point, which float64 holds exactly.
        """

    @abstractmethod
    def fixed_point(self, terms: int) -> FixedPoint | None:
        """The map into the field for sums of up to `terms` rows; None for a scheme over real numbers.

        Raises:
            FieldRangeError: the field cannot hold such sums.
        """

    @property
    @abstractmethod
    def relays(self) -> int:
        """How many relays take part beside the parties of the grouping."""

    @property
    @abstractmethod
    def variants(self) -> tuple[Scheme, ...]:
        """The same scheme under other parameters or readings of its source, which an audit runs as well."""

    @abstractmethod
    def open(self, channel: Channel, grouping: Grouping, width: int) -> Session:
        """Sets the scheme up.

        Args:
            channel: carries and records all messages; gives the coins.
            grouping: who sends what to whom in the forward pass.
            width: most coordinates that a row will have.
        """
