"""Schemes for one sum over clients, and, until their callers know collectives, sums of vectors by way of these."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from numpy.typing import NDArray

from fgl_secure.errors import InputError, ProtocolError
from fgl_secure.protocols.identity import Names
from fgl_secure.protocols.one_sum.terms import OneSum, refusal
from fgl_secure.protocols.scheme import Scheme, SumMachine
from fgl_secure.protocols.topology import CLIENTS, SERVER, Topology
from fgl_secure.protocols.vector_sum import Integers, VectorGroup, VectorSession
from fgl_secure.runtime import Channel, Claim, Draws, Step, simulate
from fgl_secure.runtime.messages import SESSION_BYTES

Ids = NDArray[np.int64]


class OneSumScheme(Scheme):
    """A scheme that serves topologies with one sum, added up by one party."""

    @property
    @abstractmethod
    def modulus(self) -> int | None:
        """Of sums without a bound; None where there are none."""

    @abstractmethod
    def threshold_for(self, clients: int) -> int:
        """The threshold among so many clients: the scheme's own, or its default.

        Raises:
            InputError: too few clients, or a threshold that privacy forbids.
        """

    @abstractmethod
    def claim_among(self, clients: int) -> Claim:
        """What holds for so many clients."""

    def claim_for(self, topology: Topology) -> Claim:
        """What holds for the clients of a topology."""
        return self.claim_among(len(topology.senders))

    def refuses(self, topology: Topology) -> str | None:
        """See `Scheme.refuses`."""
        return refusal(topology)

    def terms_for(self, topology: Topology, session: bytes) -> OneSum:
        """The terms of sums of a topology.

        Raises:
            InputError: the scheme refuses it, or the threshold does not fit it.
            FieldRangeError: sums could be beyond the limit.
        """
        why = self.refuses(topology)
        if why is not None:
            raise InputError(f"topology must be one that {self.name} serves; it is not, because {why}")
        terms = OneSum.of(topology, session, self.threshold_for(len(topology.senders)))
        terms.check_range(self.limit(terms.n), self.name, self.modulus)
        return terms

    @abstractmethod
    def machines(
        self, topology: Topology, session: bytes, draws: Draws, hosted: Ids | None = None, *, names: Names | None = None
    ) -> tuple[SumMachine, ...]:
        """See `Scheme.machines`. With names keys are signed and checked, so that no server can pass on its own."""


class CollectiveSession(VectorSession):
    """Sums of vectors by the machines of a scheme.

    Args:
        scheme: how.
        channel: between all parties.
        group: who sends to whom.
        length: entries of every vector.
        bound: largest magnitude of an entry.
    """

    def __init__(self, scheme: OneSumScheme, channel: Channel, group: VectorGroup, length: int, bound: int) -> None:
        if length < 1 or bound < 1:
            raise InputError(f"length and bound must be at least 1; found {length} and {bound}")
        name = SERVER if group.receiver == group.aggregator else CLIENTS
        topology = Topology.to_one(name, group.senders, group.receiver, group.aggregator, length, bound)
        session = bytes(SESSION_BYTES)
        if not channel.batch_shape:
            session = bytes(channel.coins.uniform(256, (SESSION_BYTES,)).tolist())
        self._channel, self._senders = channel, topology.senders
        self._machines = scheme.machines(topology, session, channel)

    def sum(self, rows: Integers, step: Step) -> Integers:
        """See `VectorSession.sum`."""
        if rows.ndim != 2 or len(rows) != len(self._senders):  # a row a sender
            raise InputError(f"rows must be int64 with one for each of {len(self._senders)}; found {list(rows.shape)}")
        for machine in reversed(self._machines):
            own = np.isin(machine.parties, self._senders).all()
            machine.begin(step, rows if own else None)
        self._channel.note_inputs("vectors", step, self._senders, rows)
        simulate(self._machines, self._channel)
        sums = [machine.sums for machine in self._machines if machine.sums is not None]
        if not sums:
            raise ProtocolError("the masked sum and its roster must reach the receiver; one was lost")
        return np.asarray(sums[0][(0,) * (sums[0].ndim - 1)])
