"""What schemes for one sum over clients have in common."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from numpy.typing import NDArray

from fgl_secure.protocols.identity import Names
from fgl_secure.protocols.one_sum.terms import OneSum, refusal
from fgl_secure.protocols.scheme import Scheme, SumMachine
from fgl_secure.protocols.topology import Topology
from fgl_secure.runtime import Claim, Draws

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
            InputError: the scheme refuses it, or that senders may veto the sum, or the threshold does not fit it.
            FieldRangeError: sums could be beyond the limit.
        """
        self.check_serves(topology)
        terms = OneSum.of(topology, session, self.threshold_for(len(topology.senders)))
        terms.check_range(self.limit(terms.n), self.name, self.modulus)
        return terms

    @abstractmethod
    def machines(
        self, topology: Topology, session: bytes, draws: Draws, hosted: Ids | None = None, *, names: Names | None = None
    ) -> tuple[SumMachine, ...]:
        """See `Scheme.machines`. With names keys are signed and checked, so that no server can pass on its own."""
