"""Sums over clients under CKKS, as FedStruct App. D asks: the receiver holds the key, another party adds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar
from weakref import WeakKeyDictionary

import numpy as np

from fgl_secure.crypto.ckks_parameters import Parameters, limit
from fgl_secure.errors import InputError
from fgl_secure.protocols.ckks.claim import RECEIVER_KEY_CLAIM
from fgl_secure.protocols.ckks.receiver_machines import Aggregator, KeyRing, Receiver, ReceiverKeyPlan, Senders
from fgl_secure.protocols.identity import Names
from fgl_secure.protocols.one_sum.terms import OneSumScheme
from fgl_secure.protocols.scheme import SumMachine
from fgl_secure.protocols.topology import Topology
from fgl_secure.runtime import Claim, Draws, PublicParameters
from fgl_secure.typing import Ids

BATCH_BYTES = 2**24
"""Most bytes of one batch of messages, but for one message."""
LEAST_TERMS = 2
"""Of sums that are not one sender's vector."""


@dataclass(frozen=True, slots=True)
class Ckks(OneSumScheme):
    """The receiver of a sum makes a key pair; senders encrypt, an aggregator adds, the receiver decrypts and rounds.

    Per sum each sender sends one vector of ciphertexts, and the aggregator one. A receiver gives its public key once to
    each party of a process's run (`Draws`), and serves all its sums of equal parameters with it. Keys and ciphertexts
    take SEAL's randomness and not that of the draws.

    Attributes:
        threshold: least senders that must be left; None takes two, unless there is but one from the start.
        batch_bytes: most bytes of one batch of messages, which is what is held in memory at once beside the sums.
    """

    threshold: int | None = None
    batch_bytes: int = BATCH_BYTES
    _rings: WeakKeyDictionary[Draws, KeyRing] = field(
        default_factory=WeakKeyDictionary, init=False, repr=False, compare=False
    )

    label: ClassVar[str] = "ckks"
    summary: ClassVar[str] = "the receiver holds a CKKS key, another party adds ciphertexts that it cannot read"
    wide: ClassVar[str] = "a number takes a slot of a ciphertext, which is as large whatever is in it"

    @property
    def name(self) -> str:
        """`ckks`, with a threshold of one's own in brackets."""
        return self.label if self.threshold is None else f"{self.label}[threshold={self.threshold}]"

    @property
    def claim(self) -> Claim:
        """Computational secrecy of terms against the aggregator alone and against the receiver alone."""
        return RECEIVER_KEY_CLAIM

    @property
    def public(self) -> PublicParameters:
        """No field and no masks."""
        return PublicParameters()

    @property
    def modulus(self) -> None:
        """None: every sum has a bound."""
        return

    def refuses(self, topology: Topology) -> str | None:
        """Served is one sum of integers that another party adds up than the one entitled to it."""
        why = OneSumScheme.refuses(self, topology)
        if why is None and topology.aggregator == topology.receiver:
            return "whoever adds up holds the key and would read every term; ckks-shared-key is for that"
        return why

    def threshold_for(self, clients: int) -> int:
        """The threshold among so many senders.

        Raises:
            InputError: it does not lie in 1 .. clients.
        """
        least = min(LEAST_TERMS, clients)
        threshold = least if self.threshold is None else self.threshold
        if not 1 <= least <= threshold <= clients:
            raise InputError(f"threshold must lie in {least}..{clients} for {clients} senders; found {threshold}")
        return threshold

    def claim_among(self, clients: int) -> Claim:  # noqa: ARG002  # alike for all
        """What holds for every sum."""
        return RECEIVER_KEY_CLAIM

    def limit(self, terms: int) -> int:
        """Where the proved bound of the error reaches 1/2."""
        return limit(terms)

    def machines(
        self,
        topology: Topology,
        session: bytes,
        draws: Draws,
        hosted: Ids | None = None,
        *,
        names: Names | None = None,  # noqa: ARG002  # ciphertexts and keys are authentic by their channels
    ) -> tuple[SumMachine, ...]:
        """See `OneSumScheme.machines`: aggregator, senders, and receiver, who makes its key pair where it has none yet.

        Raises:
            InputError: the scheme refuses the topology, a threshold out of range, no bound, a session that is too
                short, or coins of several tapes, which SEAL does not take.
            FieldRangeError: sums could be beyond the limit.
        """
        if draws.batch_shape:
            raise InputError(f"coins must be those of one run, for SEAL draws its own; found tapes {draws.batch_shape}")
        terms = self.terms_for(topology, session)
        assert terms.bound is not None, "see terms_for"
        parameters = Parameters.for_sums(terms.n, terms.bound, length=terms.length)
        plan, ring = ReceiverKeyPlan(terms, parameters, self.batch_bytes), self._rings.setdefault(draws, KeyRing())
        senders = np.sort(terms.clients if hosted is None else terms.clients[np.isin(terms.clients, hosted)])
        out: list[SumMachine] = []
        if hosted is None or terms.server in hosted:
            out.append(Aggregator(np.array([terms.server]), plan, ring))
        if len(senders):
            out.append(Senders(senders, plan, ring))
        if hosted is None or terms.receiver in hosted:
            out.append(Receiver(np.array([terms.receiver]), plan, ring))
        return tuple(out)
