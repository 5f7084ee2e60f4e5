"""Sums over neighbours as part of a silo's program, forward and backward: the interface."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra import FixedPoint
from fgl_secure.protocols.topology import Reals
from fgl_secure.runtime import Step
from fgl_secure.training.processes.process import Outbox, Part


class NeighbourSums(Part):
    """One silo's part in the sums of every pass.

    Attributes:
        result: float64 [m, d], the last sums of own devices.
    """

    result: NDArray[np.float64]

    @abstractmethod
    def prepare(self) -> Outbox:
        """Starts what has to be agreed on before the first sum; `take` says when that is done."""

    @abstractmethod
    def begin(self, values: Reals, step: Step) -> Outbox:
        """Starts a sum; `take` says when it is there.

        Args:
            values: [m, d], the rows of own devices.
            step: round, layer and direction; each once.
        """

    def between(self) -> tuple[int | None, NDArray[np.bool_]]:
        """How many rows the silo adds where it adds up beforehand, and along which of its edges; None where not."""
        return None, np.empty(0, dtype=np.bool_)

    @property
    def row_code(self) -> FixedPoint | None:
        """How rows are written; None where they go in as they are."""
        return None

    @abstractmethod
    def summed(self) -> NDArray[np.int64]:
        """int64 [m]: messages in the forward sum of each device, once that is agreed on."""

    def partners(self) -> NDArray[np.int64] | None:
        """int64 [m], from how many others each device hears, where these are not its neighbours."""
        return None
