"""Sums over neighbours as part of a silo's program, forward and backward: the interface, and the one in the clear."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra import Segments
from fgl_secure.errors import ProtocolError
from fgl_secure.methods.silos.parcels import Array, Arrays, Parcel, under, within
from fgl_secure.methods.silos.program import Inbox, Machine, Outbox, fitting, only
from fgl_secure.methods.silos.share import SiloShare
from fgl_secure.methods.silos.ways import Neighbours, Way
from fgl_secure.protocols.topology import Reals
from fgl_secure.runtime import Direction, Phase, Step


def step_array(step: Step) -> Array:
    """A step of a pass as a state keeps it."""
    backward = step.direction is Direction.BACKWARD
    return np.array([step.round, step.layer, backward, step.evaluation], dtype=np.int64)


def step_of(array: Array) -> Step:
    """The step of such an array."""
    number, layer, backward, evaluation = array.tolist()
    return Step(number, layer, Direction.BACKWARD if backward else Direction.FORWARD, bool(evaluation))


class NeighbourSums(Machine):
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

    @abstractmethod
    def summed(self) -> NDArray[np.int64]:
        """int64 [m]: messages in the forward sum of each device, once that is agreed on."""


class ClearSums(NeighbourSums):
    """Every message goes to the silo of its receiver as it is, which adds up.

    Args:
        share: what the silo holds.
        minimum: least messages of a sum that is computed.
    """

    def __init__(self, share: SiloShare, minimum: int = 1) -> None:
        self._share, self._neighbours = share, Neighbours(share, minimum)
        self._told: Direction | None = None
        self._step = Step(0)
        self._values: Reals = np.empty((0, 0))
        self._ready = False
        self.result = np.empty((0, 0))

    def prepare(self) -> Outbox:
        """Silos tell each other which messages are wanted."""
        self._told = Direction.FORWARD
        return self._neighbours.tell(Direction.FORWARD)

    def begin(self, values: Reals, step: Step) -> Outbox:
        """Sends the rows of all messages to other silos."""
        self._values, self._step = values, step
        way = self._neighbours.way(step.direction)
        rows = {silo: values[way.out_rows[way.out_silos == silo]] for silo in self._share.others}
        return {silo: [Parcel(Phase.VALUES, step, (each,))] for silo, each in rows.items()}

    def take(self, inbox: Inbox) -> Outbox | None:
        """One turn; None when all is agreed on, or when `result` is there."""
        if not self._ready:
            assert self._told is not None
            self._neighbours.hear(inbox, self._told)
            if self._told is Direction.FORWARD:
                self._told = Direction.BACKWARD
                return self._neighbours.tell(Direction.BACKWARD)
            self._ready = True
            return None
        way = self._neighbours.way(self._step.direction)
        self.result = Segments.by_group(way.in_groups, way.devices).real_sums(self._heard(inbox, way))
        return None

    def _heard(self, inbox: Inbox, way: Way) -> Array:
        """The rows of all messages for own devices, in their order."""
        width, me = self._values.shape[1], self._share.silo
        heard = np.empty((len(way.in_groups), width), dtype=self._values.dtype)
        heard[way.in_silos == me] = self._values[way.out_rows[way.out_silos == me]]
        for silo in self._share.others:
            places, kind = np.flatnonzero(way.in_silos == silo), heard.dtype.newbyteorder("<").str
            (rows,) = fitting(only(inbox, silo, Phase.VALUES), (kind, (len(places), width)))
            if not np.isfinite(rows).all():
                raise ProtocolError(f"silo {silo} must send finite values; it does not")
            heard[places] = rows
        return heard

    def summed(self) -> NDArray[np.int64]:
        """int64 [m]: messages in the forward sum of each device."""
        return self._neighbours.way(Direction.FORWARD).counts

    def state(self) -> dict[str, Array]:
        """What is agreed on, and the rows of the sum at hand."""
        told = -1 if self._told is None else int(self._told is Direction.BACKWARD)
        return {
            "where": np.array([told, self._ready], dtype=np.int64),
            "step": step_array(self._step),
            "values": self._values,
            **under("neighbours", self._neighbours.state()),
        }

    def restore(self, state: Arrays) -> None:
        """Goes on where a state was taken."""
        told, ready = state["where"].tolist()
        self._told = None if told < 0 else (Direction.FORWARD, Direction.BACKWARD)[told]
        self._ready, self._step, self._values = bool(ready), step_of(state["step"]), state["values"]
        self._neighbours.restore(within("neighbours", state))
