"""The messages of neighbourhood sums as one silo sees them: what its devices send, and what they hear."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fgl_secure.errors import ProtocolError
from fgl_secure.protocols.partnering import Contributors, computed
from fgl_secure.runtime import Direction, Phase, Step
from fgl_secure.runtime.packing import Arrays
from fgl_secure.training.processes.parcels import Parcel
from fgl_secure.training.processes.process import Inbox, Outbox, fitting, only
from fgl_secure.training.silo import Silo
from fgl_secure.typing import Array, Flags, Ids


@dataclass(frozen=True, slots=True, eq=False)
class Way:
    """The messages of one direction; those between two silos stand in one order on both sides.

    Attributes:
        out_rows: int64 [o], the own device that sends each message.
        out_groups: int64 [o], the number of the device in whose sum it goes.
        out_silos: int64 [o], whose device that is.
        in_groups: int64 [i], the own device in whose sum each message goes that is for this silo.
        in_silos: int64 [i], whose device sends it.
        devices: own devices.
    """

    out_rows: Ids
    out_groups: Ids
    out_silos: Ids
    in_groups: Ids
    in_silos: Ids
    devices: int

    @property
    def counts(self) -> Ids:
        """int64 [devices]: messages in each sum."""
        return np.bincount(self.in_groups, minlength=self.devices).astype(np.int64)


class Neighbours:
    """Which messages are sent, in both directions.

    Args:
        share: what the silo holds.
        minimum: least messages of a sum that is computed.
        contributors: which messages count.
        crossing: whether messages go between silos alone, and each adds up inside itself.
    """

    def __init__(
        self, share: Silo, minimum: int, contributors: Contributors = Contributors.ALL, *, crossing: bool = False
    ) -> None:
        self._share, self._minimum = share, minimum
        self._from_here, self._to_here = share.inside
        self._source_silo, _ = share.owners(share.edges[0])
        self._target_silo, _ = share.owners(share.edges[1])
        heard = self._to_here & ~self._from_here if crossing else self._to_here
        self._foreign = self._from_here != self._to_here if contributors is Contributors.FOREIGN else None
        self._forward: Flags = np.zeros(share.edges.shape[1], dtype=np.bool_)
        self._forward[heard] = self._computed(share.edges[1], heard)
        self._backward: Flags = np.zeros_like(self._forward)

    def tell(self, direction: Direction) -> Outbox:
        """Tells every other silo which of its devices' messages go into sums of own devices."""
        told = self._forward if direction is Direction.FORWARD else self._backward
        here, other = self._ends(direction)[1]
        step = Step(0, direction=direction)
        return {silo: [Parcel(Phase.WANTED, step, (told[here & (other == silo)],))] for silo in self._share.others}

    def hear(self, inbox: Inbox, direction: Direction) -> None:
        """Takes what the others told of a direction; after the forward one it is known what goes backward."""
        told = self._forward if direction is Direction.FORWARD else self._backward
        here, other = self._ends(direction)[0]
        for silo in self._share.others:
            places = np.flatnonzero(here & (other == silo))
            (flags,) = fitting(only(inbox, silo, Phase.WANTED), ("|b1", (len(places),)))
            told[places] = flags
        if direction is Direction.FORWARD:
            self._settle_backward()
        elif (self._backward & ~self._forward).any():
            raise ProtocolError("silos must send back along messages that were sent; one would not")

    def _settle_backward(self) -> None:
        sent = self._from_here & self._forward
        self._backward[sent] = self._computed(self._share.edges[0], sent)

    def _computed(self, devices: Ids, which: Flags) -> Flags:
        """Bool [k]: of some messages, to or from own devices, those that go into sums."""
        foreign = None if self._foreign is None else self._foreign[which]
        return computed(self._share.local(devices[which]), self._minimum, foreign)

    def way(self, direction: Direction) -> Way:
        """The messages of a direction, once both have been told."""
        told = self._forward if direction is Direction.FORWARD else self._backward
        (from_here, receivers), (to_here, senders) = self._ends(direction)
        first, second = (0, 1) if direction is Direction.FORWARD else (1, 0)
        out, heard, edges = told & from_here, told & to_here, self._share.edges
        return Way(
            self._share.local(edges[first, out]),
            edges[second, out],
            receivers[out],
            self._share.local(edges[second, heard]),
            senders[heard],
            len(self._share.nodes),
        )

    def agreed(self) -> tuple[Ids, Flags]:
        """The edges along which messages go forward, int64 [2, f], sources above targets; bool [f], which go back."""
        return self._share.edges[:, self._forward], self._backward[self._forward]

    def _ends(self, direction: Direction) -> tuple[tuple[Flags, Ids], tuple[Flags, Ids]]:
        """Which messages leave here, and the silos that they are for; which come here, and the silos they are from."""
        leaving, coming = (self._from_here, self._target_silo), (self._to_here, self._source_silo)
        return (leaving, coming) if direction is Direction.FORWARD else (coming, leaving)

    def state(self) -> dict[str, Array]:
        """What was told."""
        return {"forward": self._forward.copy(), "backward": self._backward.copy()}

    def restore(self, state: Arrays) -> None:
        """Goes on where a state was taken."""
        self._forward, self._backward = state["forward"].copy(), state["backward"].copy()
