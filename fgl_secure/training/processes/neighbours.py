"""Sums over neighbours between processes: one a silo, which hosts its devices, and one a relay where there are any.

Before the first sum silos agree on which messages are sent; where a scheme bounds how many a device sends, devices
agree on partners. A silo's process hosts its devices while they agree, and knows what they know: their partners, and
of ways through them where they come from and go to. Who is at the other end of a way it is not told.

A silo's process knows the rows of its own devices and can subtract them from a sum. By default k_min of relay-coded
counts these rows, so what is left may be the row of one device; under `foreign-contributors` a sum has k_min rows of
other silos or none.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra import FixedPoint
from fgl_secure.coins import Coins
from fgl_secure.errors import InputError, ProtocolError
from fgl_secure.protocols.partners.agreement import Partners, outcome
from fgl_secure.protocols.partners.machine import PartnerDevices
from fgl_secure.protocols.relay_coded.wire import find_positions
from fgl_secure.protocols.scheme import HostedScheme, Scheme, SumMachine, least_group
from fgl_secure.protocols.stepwise import done_array, done_steps
from fgl_secure.protocols.topology import (
    NEIGHBOURS,
    AgreedGrouping,
    Contributors,
    Grouping,
    Partnering,
    Reals,
    Topology,
    is_computed,
)
from fgl_secure.runtime import Direction, OwnDraws, Phase, Role, Step
from fgl_secure.runtime.packing import Arrays, under, within
from fgl_secure.training.parties import most_rows
from fgl_secure.training.processes.process import NOTHING, Hosting, Inbox, Outbox, Parcel, Process, fitting, only
from fgl_secure.training.silo import Silo
from fgl_secure.typing import Array, Flags, Ids

_UNKNOWN = -1
_NO_IDS: Ids = np.empty(0, dtype=np.int64)
_NO_MESSAGES = Grouping(*[_NO_IDS] * 6)
"""What rules are worked out from that need no more than the scheme's own parameters."""


@dataclass(frozen=True, slots=True)
class _Numbering:
    """Identifiers of parties that every process can work out: the server, silos, relays, and then devices."""

    silos: int
    relays: int

    def silo(self, numbers: Ids) -> Ids:
        return 1 + numbers

    @property
    def all_relays(self) -> Ids:
        return np.arange(1 + self.silos, 1 + self.silos + self.relays, dtype=np.int64)

    def device(self, nodes: Ids) -> Ids:
        return 1 + self.silos + self.relays + nodes

    def node(self, parties: Ids) -> Ids:
        """Return the nodes of devices; negative for other parties."""
        return parties - (1 + self.silos + self.relays)


class _Edges:
    """Along which of a silo's edges messages are sent, in both directions.

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
        self._source_silo, self._target_silo = (share.owners(ends)[0] for ends in share.edges)
        received = self._to_here & ~self._from_here if crossing else self._to_here
        self._foreign = self._from_here != self._to_here if contributors is Contributors.FOREIGN else None
        self._sent = {direction: np.zeros(share.edges.shape[1], dtype=np.bool_) for direction in Direction}
        self._sent[Direction.FORWARD][received] = self._is_computed(share.edges[1], received)

    def send_edges(self, direction: Direction) -> Outbox:
        """Tell every other silo which of its devices' messages go into sums of own devices."""
        is_local, other = self._ends(direction)[1]
        step, edges = Step(0, direction=direction), self._sent[direction]
        return {silo: [Parcel(Phase.WANTED, step, (edges[is_local & (other == silo)],))] for silo in self._share.others}

    def receive_edges(self, inbox: Inbox, direction: Direction) -> None:
        """Take what the others told of a direction; after the forward one it is known what goes backward."""
        is_local, other = self._ends(direction)[0]
        for silo in self._share.others:
            places = np.flatnonzero(is_local & (other == silo))
            (flags,) = fitting(only(inbox, silo, Phase.WANTED), ("|b1", (len(places),)))
            self._sent[direction][places] = flags
        forward, backward = (self._sent[item] for item in (Direction.FORWARD, Direction.BACKWARD))
        if direction is Direction.FORWARD:
            back = self._from_here & forward
            backward[back] = self._is_computed(self._share.edges[0], back)
        elif (backward & ~forward).any():
            raise ProtocolError("silos must send back along messages that were sent; one would not")

    def _is_computed(self, devices: Ids, mask: Flags) -> Flags:
        """Return which of some messages, to or from own devices, go into sums: bool [k]."""
        foreign = None if self._foreign is None else self._foreign[mask]
        return is_computed(self._share.local(devices[mask]), self._minimum, foreign)

    @property
    def forward(self) -> Flags:
        """Bool [e], once the others have been heard."""
        return self._sent[Direction.FORWARD]

    def agreed_edges(self) -> tuple[Ids, Flags]:
        """Return the edges along which messages go forward, int64 [2, f], and which of them go back, bool [f]."""
        return self._share.edges[:, self.forward], self._sent[Direction.BACKWARD][self.forward]

    def _ends(self, direction: Direction) -> tuple[tuple[Flags, Ids], tuple[Flags, Ids]]:
        """Return which messages leave here, and for which silos; and which come here, and from which silos."""
        leaving, coming = (self._from_here, self._target_silo), (self._to_here, self._source_silo)
        return (leaving, coming) if direction is Direction.FORWARD else (coming, leaving)

    def state(self) -> dict[str, Array]:
        return {direction.name: sent.copy() for direction, sent in self._sent.items()}

    def restore(self, state: Arrays) -> None:
        self._sent = {direction: state[direction.name].copy() for direction in Direction}


class SiloEdges(_Edges):
    """Edges between silos that rows are sums along; a silo asks for no sum over fewer other silos than the minimum."""

    def __init__(self, share: Silo, minimum: int) -> None:
        super().__init__(share, 1)
        crossing = self._to_here & ~self._from_here
        asking = share.local(share.edges[1, crossing])
        pairs = np.unique(asking * share.facts.silos + self._source_silo[crossing]) // share.facts.silos
        enough = np.bincount(pairs, minlength=len(share.nodes)) >= minimum
        self.forward[:] = False
        self.forward[np.flatnonzero(crossing)[enough[asking]]] = True

    def rows(self) -> tuple[Ids, Ids]:
        """Return of rows to and from other silos the node that each is for, and the silo that adds it up."""
        node, silo = np.unique(np.stack([self._share.edges[1, self.forward], self._source_silo[self.forward]]), axis=1)
        return node, silo


class HostedSums:
    """One silo's part in the sums of every pass, with the machines of its devices.

    Args:
        share: what it holds.
        scheme: its parameters; relays, if it has any, are parties K .. K + R - 1.
        session: 16 public bytes, different in every run.
        coins: its own, secret.
        width: most entries of a row, for schemes that must know.
        crossing: whether rows travel between silos alone, and silos add up inside themselves.

    Attributes:
        result: float64 [m, d], the last sums of own devices.

    Raises:
        FieldRangeError: the field cannot hold the sums.
    """

    def __init__(
        self, share: Silo, scheme: Scheme, session: bytes, coins: Coins, width: int = 1, *, crossing: bool = False
    ) -> None:
        self._share, self._scheme, self._session, self._draws = share, scheme, session, OwnDraws(coins)
        self._fixed = scheme.fixed_point(max(share.facts.largest_degree, 1))
        self._edges = _Edges(share, least_group(scheme), scheme.contributors, crossing=crossing)
        self._width = width
        self._numbering = _Numbering(share.facts.silos, scheme.helpers.get(Role.RELAY, 0))
        self._passes_done = 0
        self._hosting: Hosting[SumMachine] | None = None
        self.result: NDArray[np.float64] = np.empty((0, 0))

    @property
    def row_code(self) -> FixedPoint | None:
        """How rows are written; None where they go in as they are."""
        return self._fixed

    def between(self) -> tuple[int | None, Flags]:
        """How many rows the silo adds where it adds up beforehand, and along which of its edges; None where not."""
        return None, np.empty(0, dtype=np.bool_)

    def prepare(self) -> Outbox:
        """Start what has to be agreed on before the first sum: silos tell each other which messages are wanted."""
        return self._edges.send_edges(Direction.FORWARD)

    def begin(self, values: Reals, step: Step) -> Outbox:
        """Start a sum; `take` says when it is there.

        Args:
            values: [m, d], the rows of own devices.
            step: round, layer and direction; each once.

        Raises:
            ProtocolError: the step was summed before, so that masks would be used again.
        """
        hosting, q = self._sums, values if self._fixed is None else self._fixed.encode(values)
        for n, machine in enumerate(hosting.machines):
            machine.begin(step, None if n else q)  # the first hosts the devices
        return hosting.turn({})

    def take(self, inbox: Inbox) -> Outbox | None:
        """Have one turn; None when all is agreed on, or when `result` is there.

        Raises:
            ProtocolError: what has arrived is not what is due.
        """
        if not self.is_agreed:
            out = self._take_agreement(inbox)
            if out is None:
                self._hosting = self._make_hosting()
            return out
        out, sums = self._sums.turn(inbox), self._sums.machines[0].sums
        if sums is None:
            return out
        self.result = sums if self._fixed is None else self._fixed.decode(sums)
        return None

    def _take_agreement(self, inbox: Inbox) -> Outbox | None:
        """Have one turn of the agreement; None when it is over."""
        direction = (Direction.FORWARD, Direction.BACKWARD)[self._passes_done]
        self._edges.receive_edges(inbox, direction)
        self._passes_done += 1
        return self._edges.send_edges(Direction.BACKWARD) if direction is Direction.FORWARD else None

    @property
    def is_agreed(self) -> bool:
        """Whether it is known which messages are sent."""
        return self._hosting is not None

    @property
    def _sums(self) -> Hosting[SumMachine]:
        if self._hosting is None:
            raise ProtocolError("silos must have agreed on messages before the first sum; they have not")
        return self._hosting

    def _make_hosting(self) -> Hosting[SumMachine]:
        """Make the machines of the own devices, and of the silo that forwards for them."""
        ends, owners, silos = self._known_nodes()
        edges, back = self._edges.agreed_edges()
        source, target = np.searchsorted(ends, edges)
        forward = np.ones(len(back), dtype=np.bool_)
        grouping = AgreedGrouping(owners, owners, source, target, silos, silos, forward, back)
        return self._hosting_of(Topology(NEIGHBOURS, grouping, self._width, helpers=self._numbering.all_relays))

    def _known_nodes(self) -> tuple[Ids, Ids, Ids]:
        """Return nodes that the silo knows of, ascending, the identifiers of their devices, and of their silos."""
        ends = np.union1d(self._share.nodes, self._share.foreign[:, 0])
        return ends, self._numbering.device(ends), self._numbering.silo(self._share.owners(ends)[0])

    def _hosting_of(self, topology: Topology, *, devices: bool = True) -> Hosting[SumMachine]:
        share, numbering = self._share, self._numbering
        hosted = numbering.silo(np.array([share.silo]))
        hosted = np.append(hosted, numbering.device(share.nodes)) if devices else hosted
        machines = self._scheme.machines(topology, self._session, self._draws, hosted)
        return Hosting(machines, share.silo, self._process_of, self._session)

    def _process_of(self, parties: Ids) -> Ids:
        """Return the silo of each device that is known here; _UNKNOWN for others, and for the server."""
        nodes = self._numbering.node(parties)
        out = np.where(nodes < 0, parties - 1, _UNKNOWN)
        known = np.isin(nodes, self._share.nodes) | np.isin(nodes, self._share.foreign[:, 0])
        out[known] = self._share.owners(nodes[known])[0]
        return out

    def message_counts(self) -> Ids:
        """Return how many messages are in the forward sum of each device, once that is agreed on: int64 [m]."""
        received = self._edges.forward & self._share.inside[1]
        receivers = self._share.local(self._share.edges[1, received])
        return np.bincount(receivers, minlength=len(self._share.nodes)).astype(np.int64)

    def partners(self) -> Ids | None:
        """Return from how many others each device hears, int64 [m]; None where these are its neighbours."""
        return None

    def state(self) -> dict[str, Array]:
        """Return keys, what is agreed on, and the current sum."""
        machines = {} if self._hosting is None else under("hosting", self._hosting.state())
        received = {"heard": np.array([self._passes_done, self.is_agreed], dtype=np.int64)}
        return {**received, **machines, **under("edges", self._edges.state())}

    def restore(self, state: Arrays) -> None:
        """Go on where a state was taken."""
        self._passes_done, agreed = state["heard"].tolist()
        self._edges.restore(within("edges", state))
        if agreed:
            self._hosting = self._make_hosting()
            self._hosting.restore(within("hosting", state))


class PartnerSums(HostedSums):
    """One silo's part in sums between partners, on whom devices agree before the first one.

    Args:
        share: what it holds.
        scheme: its parameters, with a max_degree.
        rules: of the agreement.
        session: 16 public bytes, different in every run.
        coins: its own, secret.

    Raises:
        InputError: edges are directed.
        FieldRangeError: the field cannot hold the sums.
    """

    def __init__(self, share: Silo, scheme: Scheme, rules: Partnering, session: bytes, coins: Coins) -> None:
        super().__init__(share, scheme, session, coins)
        self._fixed = scheme.fixed_point(rules.most)
        ends, owners, silos = self._known_nodes()
        source, target = np.searchsorted(ends, share.edges)
        self._sides = Grouping(owners, owners, source, target, silos, silos)
        self._devices = PartnerDevices(self._numbering.device(share.nodes), self._sides, rules, self._draws)
        self._agreement = Hosting([self._devices], share.silo, self._process_of, session)
        self._chosen: Partners | None = None

    def prepare(self) -> Outbox:
        """Have devices tell neighbours their numbers."""
        return self._agreement.turn({})

    def _take_agreement(self, inbox: Inbox) -> Outbox | None:
        out = self._agreement.turn(inbox)
        return out if self._devices.on_idle() else None

    @property
    def _partners(self) -> Partners:
        if self._chosen is None:
            self._chosen = outcome(self._sides, self._devices)
        return self._chosen

    def _make_hosting(self) -> Hosting[SumMachine]:
        numbering, partners = self._numbering, self._partners
        return self._hosting_of(
            Topology(
                NEIGHBOURS,
                partners.grouping,
                self._width,
                helpers=numbering.all_relays,
                circuits=partners.circuits,
                others=numbering.silo(np.arange(self._share.facts.silos)),
            )
        )

    def message_counts(self) -> Ids:
        """See `HostedSums.message_counts`."""
        return self._count_messages(self._scheme.answered_grouping(self._partners.grouping))

    def partners(self) -> Ids:
        """Return the partners of each device: int64 [m]."""
        return self._count_messages(self._partners.grouping)

    def _count_messages(self, grouping: Grouping) -> Ids:
        counts = np.bincount(grouping.target, minlength=len(grouping.group_owner))
        result: Ids = counts[np.searchsorted(self._known_nodes()[0], self._share.nodes)]
        return result

    def state(self) -> dict[str, Array]:
        """Return what devices know of partners, keys, and the current sum."""
        return super().state() | under("agreement", self._agreement.state())

    def restore(self, state: Arrays) -> None:
        """Go on where a state was taken."""
        self._agreement.restore(within("agreement", state))
        self._chosen = None
        super().restore(state)


class _SiloRowSums(HostedSums):
    """One silo's part where silos add up beforehand what goes to one node; there is no way back."""

    def __init__(self, share: Silo, scheme: Scheme, session: bytes, coins: Coins, width: int) -> None:
        super().__init__(share, scheme, session, coins, width)
        self._edges = self._between = SiloEdges(share, least_group(scheme))
        self._fixed = scheme.fixed_point(most_rows(share.facts.silos))

    def between(self) -> tuple[int, Flags]:
        return int((self._between.rows()[1] == self._share.silo).sum()), self._between.forward

    def _take_agreement(self, inbox: Inbox) -> None:
        self._between.receive_edges(inbox, Direction.FORWARD)

    def _make_hosting(self) -> Hosting[SumMachine]:
        numbering, (nodes, senders) = self._numbering, self._between.rows()
        ends = np.union1d(self._share.nodes, nodes)
        owners = [numbering.silo(item) for item in (senders, self._share.owners(ends)[0])]
        forward, back = np.ones(len(nodes), dtype=np.bool_), np.zeros(len(nodes), dtype=np.bool_)
        order, target = np.arange(len(nodes)), np.searchsorted(ends, nodes)
        grouping = AgreedGrouping(owners[0], owners[1], order, target, owners[0], owners[1], forward, back)
        topology = Topology(NEIGHBOURS, grouping, self._width, helpers=numbering.all_relays)
        return self._hosting_of(topology, devices=False)


def check_hosted(scheme: Scheme, *, devices: bool = True) -> None:
    """Raise InputError unless a scheme of neighbours' sums can be had with a process for each silo.

    Args:
        scheme: of these sums.
        devices: whether rows of devices travel to all their neighbours.
    """
    why = scheme.refuses_hosting(devices=devices) if isinstance(scheme, HostedScheme) else "it has no such form"
    if why is not None:
        raise InputError(
            f"scheme must serve neighbours with a process for each silo; {scheme.name} does not, because {why}"
        )


def hosted_sums(
    silo: Silo,
    scheme: Scheme,
    session: bytes,
    coins: Coins,
    width: int,
    *,
    between: bool = False,
    crossing: bool = False,
) -> HostedSums:
    """Return one silo's part in sums over neighbours under a scheme; see `check_hosted` and `HostedSums`.

    Args:
        silo: what it holds.
        scheme: its parameters.
        session: 16 public bytes, different in every run.
        coins: its own, secret.
        width: most entries of a row.
        between: whether silos add up beforehand what their nodes send to a node of another silo.
        crossing: whether rows travel between silos alone, and silos add up inside themselves.
    """
    if between:
        return _SiloRowSums(silo, scheme, session, coins, width)
    check_hosted(scheme, devices=not crossing)
    rules = scheme.partnering(_NO_MESSAGES)
    if rules is not None:
        return PartnerSums(silo, scheme, rules, session, coins)
    # Relays are not told how wide rows are, and all parties must be told alike.
    return HostedSums(silo, scheme, session, coins, 1 if scheme.helpers else width, crossing=crossing)


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
        self._silos, self._numbering = silos, _Numbering(silos, scheme.helpers[Role.RELAY])
        topology = Topology(NEIGHBOURS, _NO_MESSAGES, 1, helpers=self._numbering.all_relays)
        hosted = self._numbering.all_relays[index : index + 1]
        machines = scheme.machines(topology, session, OwnDraws(coins), hosted)
        self._hosting = Hosting(machines, silos + index, self._process_of, session, self._admit)
        self._devices: Ids = np.empty((2, 0), dtype=np.int64)
        self._step: Step | None = None

    def step(self, inbox: Inbox) -> Outbox:
        """Have one turn.

        Raises:
            ProtocolError: something has arrived that honest parties do not send, or relays do not agree.
        """
        (machine,) = self._hosting.machines
        steps = {parcel.step for parcels in inbox.values() for parcel in parcels if parcel.phase is not Phase.KEYS}
        if len(steps) > 1:
            raise ProtocolError(f"silos and relays must go through steps together; found {len(steps)} at once")
        for step in steps - {self._step}:
            machine.begin(step)
            self._step = step
        result = self._hosting.turn(inbox)
        if machine.remarks:
            remark = machine.remarks[0]
            raise ProtocolError(f"parties must all be heard of and agree; of party {remark.party}: {remark.what}")
        return result or NOTHING

    def _process_of(self, parties: Ids) -> Ids:
        """Return the silo from which each device was first heard of; _UNKNOWN before."""
        nodes, (known, silos) = self._numbering.node(parties), self._devices
        out = np.where(nodes < 0, parties - 1, _UNKNOWN)
        index = find_positions(nodes, known)
        out[index >= 0] = silos[index[index >= 0]]
        return out

    def _admit(self, sender: int, parties: Ids) -> None:
        """Note that a device is its silo's that it was first heard of from."""
        new = np.unique(parties[self._process_of(parties) == _UNKNOWN])
        if not len(new) or sender >= self._silos:
            return
        devices = np.stack([self._numbering.node(new), np.full(len(new), sender)])
        joined = np.concatenate([self._devices, devices[:, devices[0] >= 0]], axis=1)
        self._devices = joined[:, np.argsort(joined[0])]

    def state(self) -> dict[str, Array]:
        """Return keys, and the current messages."""
        step = done_array([] if self._step is None else [self._step])
        return under("hosting", self._hosting.state()) | {"devices": self._devices, "step": step}

    def restore(self, state: Arrays) -> None:
        """Go on where a state was taken."""
        self._devices, self._step = state["devices"], next(iter(done_steps(state["step"])), None)
        self._hosting.restore(within("hosting", state))
