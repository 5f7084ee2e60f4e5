"""Sums over clients set up for tests: machines in as many processes as there are parties, and bytes between them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import ProtocolError
from fgl_secure.protocols.identity import Identities, Identity, Names
from fgl_secure.protocols.scheme import SumMachine
from fgl_secure.protocols.secagg.scheme import AggregationScheme
from fgl_secure.protocols.secagg.terms import Stage
from fgl_secure.protocols.topology import CLIENTS, SERVER, Topology
from fgl_secure.runtime import Directory, MessageKind, Messages, OwnDraws, Phase, Role, Step, decode, encode

Ints = NDArray[np.int64]

SESSION = bytes(range(16))
NOW = Step(3)
NEVER = len(Stage)
NOBODY: Mapping[int, int] = {}
LEADER = 0
"""The server's party identifier."""

STAGES: Mapping[MessageKind, Stage] = {
    Phase.KEYS: Stage.KEYS,
    Phase.DRAW: Stage.DRAW,
    Phase.SECRET_SHARES: Stage.SHARES,
    Phase.MASKED_VECTORS: Stage.VECTORS,
    Phase.CIPHERTEXTS: Stage.VECTORS,
    Phase.VECTORS: Stage.VECTORS,
    Phase.ROSTERS: Stage.AGREEMENT,
    Phase.VETOES: Stage.VETO,
    Phase.UNMASKING: Stage.OPENING,
}
"""The stage that a client's message is of."""


def picks(seed: int) -> random.Random:
    """What tests choose with, repeatably."""
    return random.Random(seed)  # noqa: S311  # chooses what is tried; no secret comes of it


def directory_of(clients: int) -> Directory:
    """A server, silos that send, one that may receive, and one that looks on."""
    return Directory.hierarchy(clients + 2, 1)


def topology_of(clients: int, *, split: bool = False, length: int = 2, bound: int | None = 50) -> Topology:
    """Silos that send to the server, or to one more silo by way of the server (split)."""
    silos = directory_of(clients).ids(Role.SILO)
    receiver = int(silos[clients]) if split else LEADER
    return Topology.to_one(CLIENTS if split else SERVER, silos[:clients], receiver, LEADER, length, bound)


def vectors_of(clients: int, length: int = 2) -> Ints:
    """Different vectors of small numbers."""
    return (np.arange(clients * length, dtype=np.int64).reshape(clients, length) * 7) % 23 - 11


def names_of(clients: int, *, split: bool = False) -> tuple[dict[int, Identity], Identities]:
    """Everybody's signing key, and what everybody knows of them."""
    own = {u: Identity.generate(SimulationCoins(1000 + u)) for u in range(clients + split)}
    return own, Identities({u: identity.public for u, identity in own.items()})


@dataclass(frozen=True, slots=True)
class Sent:
    """Bytes on their way."""

    sender: int
    receiver: int
    phase: MessageKind
    data: bytes


Listener = Callable[["Sum", Sent], None]


@dataclass(eq=False)
class Sum:
    """One sum, every party in a process of its own.

    Attributes:
        topology: of the sum.
        machines: by party identifier.
        step: which sum.
        session: what bytes are bound to.
        log: all that was sent.
    """

    topology: Topology
    machines: dict[int, SumMachine]
    step: Step = NOW
    session: bytes = SESSION
    log: list[Sent] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        scheme: AggregationScheme,
        topology: Topology,
        vectors: Ints | None,
        *,
        seed: int = 0,
        step: Step = NOW,
        session: bytes = SESSION,
        known: bool = False,
    ) -> Sum:
        """A sum that repeats for equal seeds; with identities (known) or without."""
        clients = topology.senders
        split = topology.receiver != topology.aggregator
        own, everybody = names_of(len(clients), split=split)
        run = cls(topology, {}, step, session)
        places = {int(party): u for u, party in enumerate([*clients.tolist(), topology.receiver or -1])}
        for party in dict.fromkeys([LEADER, *clients.tolist(), topology.receiver]):
            place = places.get(party, -1)
            names = Names({place: own[place]} if place in own else {}, everybody) if known else None
            draws = OwnDraws(SimulationCoins(seed + 1 + party))
            (run.machines[party],) = scheme.machines(topology, session, draws, np.array([party]), names=names)
        run.begin(vectors)
        return run

    def begin(self, vectors: Ints | None, step: Step | None = None) -> None:
        """Starts a step everywhere."""
        self.step = step or self.step
        for party, machine in self.machines.items():
            place = np.flatnonzero(self.topology.senders == party)
            machine.begin(self.step, vectors[place] if vectors is not None and len(place) else None)

    @property
    def server(self) -> SumMachine:
        """The machine that adds up."""
        return self.machines[LEADER]

    @property
    def result(self) -> list[int]:
        """The sum as who is entitled to it has it."""
        receiver = self.topology.receiver
        assert receiver is not None
        sums = self.machines[receiver].sums
        assert sums is not None
        found: list[int] = sums[0].tolist()
        return found

    @property
    def included(self) -> list[int]:
        """Whose vectors are in it, by place."""
        who = self.server.contributors
        return [] if who is None else np.flatnonzero(np.isin(self.topology.senders, who)).tolist()

    def turns(self) -> Iterator[list[Sent]]:
        """What is sent turn by turn, until nobody says anything twice in a row."""
        quiet = 0
        while quiet < 2:  # as drivers do
            out = [sent for party in self.machines for sent in self.spoken(party)]
            self.log += out
            quiet = 0 if out else quiet + 1
            yield out

    def spoken(self, party: int) -> Iterator[Sent]:
        """What a party says in its turn, a message each."""
        for batch in list(self.machines[party].step()):
            for row in range(len(batch)):
                one = batch.rows(np.array([row]))
                data = encode(one, self.session)
                yield Sent(int(one.senders[0]), int(one.receivers[0]), one.phase, data)

    def hand(self, sent: Sent) -> None:
        """Bytes to the party that they are for."""
        self.machines[sent.receiver].receive(decode(sent.data, self.session))

    def play(self, silent: Mapping[int, int] = NOBODY, listen: Listener | None = None, *, lenient: bool = False) -> Sum:
        """To the end, strictly: whatever a party refuses is raised.

        Args:
            silent: by place, the stage from which on nobody hears a client.
            listen: called before each message is handed over.
            lenient: whether what a party refuses is passed over instead.
        """
        places = {int(party): u for u, party in enumerate(self.topology.senders)}
        for out in self.turns():
            for sent in out:
                stage = STAGES.get(sent.phase, Stage.KEYS)
                if stage >= silent.get(places.get(sent.sender, -1), NEVER):
                    continue
                if listen is not None:
                    listen(self, sent)
                with suppress(ProtocolError) if lenient else nullcontext():
                    self.hand(sent)
        return self

    def restart(self, scheme: AggregationScheme, party: int) -> None:
        """A party goes on in another process."""
        draws = OwnDraws(SimulationCoins(12345))
        (fresh,) = scheme.machines(self.topology, self.session, draws, np.array([party]))
        fresh.restore(self.machines[party].state())
        self.machines[party] = fresh


def mark(machine: SumMachine) -> bytes:
    """What tells two states apart."""
    return machine.state()["digest"].tobytes()


def messages_in(log: Sequence[Sent], phase: Phase | None = None) -> list[Messages]:
    """Of a log, read."""
    return [decode(sent.data, SESSION) for sent in log if phase in (None, sent.phase)]


def changed(sent: Sent, **parts: Any) -> bytes:
    """The same message with other parts: fields by name, or `senders`, `receivers`, `step`, `phase`."""
    found = decode(sent.data, SESSION)
    own = {name: parts.pop(name) for name in ("senders", "receivers", "step", "phase") if name in parts}
    fields = {**found.fields, **parts}
    ends = {"senders": found.senders, "receivers": found.receivers, "step": found.step, "phase": found.phase, **own}
    return encode(Messages(fields=fields, **ends), SESSION)
