"""Schemes of neighbours' sums between processes: one a silo, which hosts its devices, and one a relay.

A silo's process knows the rows of its own devices and can subtract them from a sum. By default k_min of relay-coded
counts these rows, so what is left may be the row of one device; under `foreign-contributors` a sum has k_min rows of
other silos or none.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from fgl_secure.algebra import FixedPoint
from fgl_secure.coins import Coins
from fgl_secure.errors import ProtocolError
from fgl_secure.protocols.relay_coded.wire import found_among
from fgl_secure.protocols.scheme import Scheme, SumMachine, least_group
from fgl_secure.protocols.stepwise import done_array, done_steps
from fgl_secure.protocols.topology import NEIGHBOURS, AgreedGrouping, Grouping, Reals, Topology
from fgl_secure.runtime import Direction, OwnDraws, Phase, Role, Step
from fgl_secure.runtime.packing import Arrays, under, within
from fgl_secure.training.processes.hosting import Hosting
from fgl_secure.training.processes.neighbour_sums import NeighbourSums
from fgl_secure.training.processes.process import NOTHING, Inbox, Outbox, Process
from fgl_secure.training.processes.ways import Neighbours
from fgl_secure.training.silo import Silo
from fgl_secure.typing import Array, Ids

UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class Numbering:
    """Identifiers of parties that every process can work out: the server, silos, relays, and then devices.

    Attributes:
        silos: how many.
        relays: how many.
    """

    silos: int
    relays: int

    def silo(self, numbers: Ids) -> Ids:
        """Of silos."""
        return 1 + numbers

    @property
    def all_relays(self) -> Ids:
        """Of all relays."""
        return np.arange(1 + self.silos, 1 + self.silos + self.relays, dtype=np.int64)

    def device(self, numbers: Ids) -> Ids:
        """Of nodes of the whole graph."""
        return 1 + self.silos + self.relays + numbers

    def node(self, parties: Ids) -> Ids:
        """The nodes of devices; negative for other parties."""
        return parties - (1 + self.silos + self.relays)


class _Due(IntEnum):
    FORWARD = 0
    BACKWARD = 1
    SUMS = 2


class HostedSums(NeighbourSums):
    """One silo's part under a scheme whose devices add up, with the machines of its devices.

    Args:
        share: what it holds.
        scheme: its parameters; relays, if it has any, are parties K .. K + R - 1.
        session: 16 public bytes, different in every run.
        coins: its own, secret.
        width: most entries of a row, for schemes that must know.
        crossing: whether rows travel between silos alone, and silos add up inside themselves.

    Raises:
        FieldRangeError: the field cannot hold the sums.
    """

    def __init__(
        self, share: Silo, scheme: Scheme, session: bytes, coins: Coins, width: int = 1, *, crossing: bool = False
    ) -> None:
        self._share, self._scheme, self._session, self._draws = share, scheme, session, OwnDraws(coins)
        self._fixed = scheme.fixed_point(max(share.facts.largest_degree, 1))
        self._neighbours = Neighbours(share, least_group(scheme), scheme.contributors, crossing=crossing)
        self._width = width
        self._numbering = Numbering(share.facts.silos, scheme.helpers.get(Role.RELAY, 0))
        self._due = _Due.FORWARD
        self._hosting: Hosting[SumMachine] | None = None
        self.result = np.empty((0, 0))

    @property
    def row_code(self) -> FixedPoint | None:
        """As in `NeighbourSums`."""
        return self._fixed

    def prepare(self) -> Outbox:
        """Silos tell each other which messages are wanted."""
        return self._neighbours.tell(Direction.FORWARD)

    def begin(self, values: Reals, step: Step) -> Outbox:
        """Starts a sum.

        Raises:
            ProtocolError: the step was summed before, so that masks would be used again.
        """
        hosting, q = self._sums, values if self._fixed is None else self._fixed.encode(values)
        for n, machine in enumerate(hosting.machines):
            machine.begin(step, None if n else q)  # the first hosts the devices
        return hosting.turn({})

    def take(self, inbox: Inbox) -> Outbox | None:
        """One turn; None when all is agreed on, or when `result` is there."""
        if self._due is _Due.SUMS:
            out, sums = self._sums.turn(inbox), self._sums.machines[0].sums
            if sums is None:
                return out
            self.result = sums if self._fixed is None else self._fixed.decode(sums)
            return None
        if self._due is _Due.FORWARD:
            self._neighbours.hear(inbox, Direction.FORWARD)
            self._due = _Due.BACKWARD
            return self._neighbours.tell(Direction.BACKWARD)
        self._neighbours.hear(inbox, Direction.BACKWARD)
        self._agree()
        return None

    @property
    def agreed(self) -> bool:
        """Whether it is known which messages are sent."""
        return self._due is _Due.SUMS

    def _agree(self) -> None:
        self._due, self._hosting = _Due.SUMS, self._hosted()

    @property
    def _sums(self) -> Hosting[SumMachine]:
        if self._hosting is None:
            raise ProtocolError("silos must have agreed on messages before the first sum; they have not")
        return self._hosting

    def _hosted(self) -> Hosting[SumMachine]:
        """The machines of the own devices, and of the silo that forwards for them."""
        numbering = self._numbering
        ends, owners, silos = self._known()
        edges, back = self._neighbours.agreed()
        source, target = np.searchsorted(ends, edges)
        there = np.ones(len(back), dtype=np.bool_)
        grouping = AgreedGrouping(owners, owners, source, target, silos, silos, there, back)
        return self._hosting_of(Topology(NEIGHBOURS, grouping, self._width, helpers=numbering.all_relays))

    def _known(self) -> tuple[Ids, Ids, Ids]:
        """Nodes that the silo knows of, ascending, the identifiers of their devices, and those of their silos."""
        ends = np.union1d(self._share.nodes, self._share.foreign[:, 0])
        return ends, self._numbering.device(ends), self._numbering.silo(self._share.owners(ends)[0])

    def _hosting_of(self, topology: Topology) -> Hosting[SumMachine]:
        share, numbering = self._share, self._numbering
        here = np.append(numbering.silo(np.array([share.silo])), numbering.device(share.nodes))
        machines = self._scheme.machines(topology, self._session, self._draws, here)
        return Hosting(machines, share.silo, self._process_of, self._session)

    def _process_of(self, parties: Ids) -> Ids:
        """The silo of each device that is known here; UNKNOWN for others, and for the server."""
        nodes = self._numbering.node(parties)
        out = np.where(nodes < 0, parties - 1, UNKNOWN)
        known = np.isin(nodes, self._share.nodes) | np.isin(nodes, self._share.foreign[:, 0])
        out[known] = self._share.owners(nodes[known])[0]
        return out

    def summed(self) -> Ids:
        """int64 [m]: messages in the forward sum of each device."""
        return self._neighbours.way(Direction.FORWARD).counts

    def state(self) -> dict[str, Array]:
        """Keys, what is agreed on, and the sum at hand."""
        machines = {} if self._hosting is None else under("hosting", self._hosting.state())
        due = {"due": np.asarray(self._due, dtype=np.int64)}
        return {**due, **machines, **under("neighbours", self._neighbours.state())}

    def restore(self, state: Arrays) -> None:
        """Goes on where a state was taken."""
        self._due = _Due(int(state["due"]))
        self._neighbours.restore(within("neighbours", state))
        if self._due is _Due.SUMS:
            self._hosting = self._hosted()
            self._hosting.restore(within("hosting", state))


class RelayProcess(Process):
    """One relay: it sees shares under tags, and answers with their sums.

    Args:
        index: of the relay, from 0.
        silos: how many silos there are; the relay is party `silos + index`.
        scheme: its parameters.
        session: 16 public bytes, different in every run.
        coins: its own, secret.
    """

    def __init__(self, index: int, silos: int, scheme: Scheme, session: bytes, coins: Coins) -> None:
        self._silos, self._numbering = silos, Numbering(silos, scheme.helpers[Role.RELAY])
        nobody: Ids = np.empty(0, dtype=np.int64)
        grouping = Grouping(nobody, nobody, nobody, nobody, nobody, nobody)
        topology = Topology(NEIGHBOURS, grouping, 1, helpers=self._numbering.all_relays)
        here = self._numbering.all_relays[index : index + 1]
        machines = scheme.machines(topology, session, OwnDraws(coins), here)
        self._hosting = Hosting(machines, silos + index, self._process_of, session, self._admit)
        self._devices: Ids = np.empty((2, 0), dtype=np.int64)
        self._step: Step | None = None

    @property
    def report(self) -> dict[str, Array] | None:
        """None: a relay finds nothing."""
        return None

    def turn(self, inbox: Inbox) -> Outbox:
        """One turn.

        Raises:
            ProtocolError: something has arrived that honest parties do not send, or relays do not agree.
        """
        (machine,) = self._hosting.machines
        steps = {each.step for parcels in inbox.values() for each in parcels if each.phase is not Phase.KEYS}
        if len(steps) > 1:
            raise ProtocolError(f"silos and relays must go through steps together; found {len(steps)} at once")
        for step in steps - {self._step}:
            machine.begin(step)
            self._step = step
        found = self._hosting.turn(inbox)
        if machine.remarks:
            remark = machine.remarks[0]
            raise ProtocolError(f"parties must all be heard of and agree; of party {remark.party}: {remark.what}")
        return found or NOTHING

    def _process_of(self, parties: Ids) -> Ids:
        """The silo from which each device was first heard of; UNKNOWN before."""
        nodes, (known, silos) = self._numbering.node(parties), self._devices
        out = np.where(nodes < 0, parties - 1, UNKNOWN)
        at = found_among(nodes, known)
        out[at >= 0] = silos[at[at >= 0]]
        return out

    def _admit(self, sender: int, parties: Ids) -> None:
        """A device is its silo's that it was first heard of from."""
        new = np.unique(parties[self._process_of(parties) == UNKNOWN])
        if not len(new) or sender >= self._silos:
            return
        devices = np.stack([self._numbering.node(new), np.full(len(new), sender)])
        joined = np.concatenate([self._devices, devices[:, devices[0] >= 0]], axis=1)
        self._devices = joined[:, np.argsort(joined[0])]

    def state(self) -> dict[str, Array]:
        """Keys, and the messages at hand."""
        step = done_array([] if self._step is None else [self._step])
        return under("hosting", self._hosting.state()) | {"devices": self._devices, "step": step}

    def restore(self, state: Arrays) -> None:
        """Goes on where a state was taken."""
        self._devices, self._step = state["devices"], next(iter(done_steps(state["step"])), None)
        self._hosting.restore(within("hosting", state))
