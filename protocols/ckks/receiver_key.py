"""Sums over clients under CKKS, as FedStruct App. D asks: the receiver holds the key, another party adds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from fgl_secure.crypto.ckks_parameters import Parameters, limit
from fgl_secure.errors import InputError
from fgl_secure.protocols.ckks.claim import RECEIVER_KEY_CLAIM
from fgl_secure.protocols.ckks.receiver_machines import Aggregator, KeyRing, Plan, Receiver, Senders
from fgl_secure.protocols.identity import Names
from fgl_secure.protocols.opened import OpenedCollective, topology_of
from fgl_secure.protocols.scheme import Scheme, SumMachine
from fgl_secure.protocols.topology import Topology
from fgl_secure.protocols.vector_sum import VectorGroup, VectorScheme, VectorSession, check_range
from fgl_secure.runtime import Channel, Claim, Draws, PublicParameters

Ids = NDArray[np.int64]

BATCH_BYTES = 2**24
"""Most bytes of one batch of messages, but for one message."""


@dataclass(frozen=True, slots=True)
class Ckks(Scheme, VectorScheme):
    """The receiver of a sum makes a key pair; senders encrypt, an aggregator adds, the receiver decrypts and rounds.

    Per sum each sender sends one vector of ciphertexts, and the aggregator one. A receiver gives its public key once to
    each party of a process's run (`Draws`), and serves all its sums of equal parameters with it. Keys and ciphertexts
    take SEAL's randomness and not that of the draws.

    Attributes:
        batch_bytes: most bytes of one batch of messages, which is what is held in memory at once beside the sums.
    """

    batch_bytes: int = BATCH_BYTES
    _rings: WeakKeyDictionary[Draws, KeyRing] = field(
        default_factory=WeakKeyDictionary, init=False, repr=False, compare=False
    )

    label: ClassVar[str] = "ckks"
    summary: ClassVar[str] = "the receiver holds a CKKS key, another party adds ciphertexts that it cannot read"

    @property
    def name(self) -> str:
        """`ckks`."""
        return self.label

    @property
    def claim(self) -> Claim:
        """Computational secrecy of terms against the aggregator alone and against the receiver alone."""
        return RECEIVER_KEY_CLAIM

    @property
    def public(self) -> PublicParameters:
        """No field and no masks."""
        return PublicParameters()

    def refuses(self, topology: Topology) -> str | None:
        """Served is one sum of integers that another party adds up than the one entitled to it."""
        if not topology.is_one_sum:
            return "it adds up one sum, at a party that is not entitled to it, and there is none such"
        if topology.aggregator == topology.receiver:
            return "whoever adds up holds the key and would read every term; ckks-shared-key is for that"
        if topology.bound is None:
            return "it sums integers up to a bound, and there is none"
        return None

    def claim_for(self, topology: Topology) -> Claim:  # noqa: ARG002  # alike for all
        """What holds for every sum."""
        return RECEIVER_KEY_CLAIM

    def limit(self, terms: int) -> int:
        """Where the proved bound of the error reaches 1/2."""
        return limit(terms)

    def machines(
        self,
        topology: Topology,
        session: bytes,  # noqa: ARG002  # public keys are named by their fingerprints
        draws: Draws,
        hosted: Ids | None = None,
        *,
        names: Names | None = None,  # noqa: ARG002  # there is nothing to sign
    ) -> tuple[SumMachine, ...]:
        """See `Scheme.machines`; the receiver makes its key pair where it has none yet."""
        why = self.refuses(topology)
        if why is not None:
            raise InputError(f"{self.name} must serve the topology {topology.name}; it does not, because {why}")
        if draws.batch_shape:
            raise InputError(f"coins must be those of one run, for SEAL draws its own; found tapes {draws.batch_shape}")
        plan = self._plan(topology)
        ring = self._rings.setdefault(draws, KeyRing())
        roles = (Senders, plan.senders), (Aggregator, [plan.aggregator]), (Receiver, [plan.receiver])
        here = [(role, np.sort(np.asarray(parties, dtype=np.int64))) for role, parties in roles]
        if hosted is not None:
            here = [(role, parties[np.isin(parties, hosted)]) for role, parties in here]
        return tuple(role(parties, plan, ring) for role, parties in here if len(parties))

    def open(self, channel: Channel, group: VectorGroup, length: int, bound: int) -> VectorSession:
        """See `VectorScheme.open`."""
        return OpenedCollective(self, topology_of(group, length, bound), channel)

    def _plan(self, topology: Topology) -> Plan:
        bound, aggregator, receiver = topology.bound, topology.aggregator, topology.receiver
        assert bound is not None, "see refuses"
        assert aggregator is not None, "see refuses"
        assert receiver is not None, "see refuses"
        terms, length = len(topology.senders), topology.width
        check_range(self, terms, length, bound)
        parameters = Parameters.for_sums(terms, bound, length=length)
        return Plan(topology.senders, aggregator, receiver, length, parameters, self.batch_bytes)
