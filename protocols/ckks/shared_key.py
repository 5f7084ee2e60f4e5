"""Sums over clients under a CKKS key that they share and the server never has."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from fgl_secure.crypto.ckks_parameters import Parameters, limit
from fgl_secure.crypto.cryptography import RealCryptography
from fgl_secure.errors import InputError
from fgl_secure.protocols.ckks.claim import shared_key_claim
from fgl_secure.protocols.ckks.plan import SharedKeyPlan
from fgl_secure.protocols.ckks.shared_clients import SharedKeyClients
from fgl_secure.protocols.ckks.shared_server import SharedKeyServer
from fgl_secure.protocols.identity import Names
from fgl_secure.protocols.one_sum.terms import OneSumScheme, threshold_of
from fgl_secure.protocols.scheme import SumMachine
from fgl_secure.protocols.topology import Topology
from fgl_secure.runtime import Claim, Draws, PublicParameters
from fgl_secure.typing import Ids

BYTES = 256
"""Modulus of what is sealed: group keys, byte by byte."""


@dataclass(frozen=True, slots=True)
class SharedKeyCkks(OneSumScheme):
    """Clients share a key that one of them makes, and the server adds what it cannot read.

    Attributes:
        threshold: least clients that must be left at every stage, more than half of them, or two sums could each
            have enough that say them; None takes floor(2 n / 3) + 1 of n.
        clients: the machine of clients; another one only in tests of what it does.
    """

    label: ClassVar[str] = "ckks-shared-key"
    summary: ClassVar[str] = "clients share a CKKS key, the server adds ciphertexts that it cannot read"
    wide: ClassVar[str] = "a number takes a slot of a ciphertext, which is as large whatever is in it"
    parameters: ClassVar[tuple[str, ...]] = ("threshold",)
    reads_one_by_one: ClassVar[bool] = True

    threshold: int | None = None
    clients: type[SharedKeyClients] = field(default=SharedKeyClients, repr=False)

    @property
    def name(self) -> str:
        """`ckks-shared-key`, with a threshold of one's own in brackets."""
        return self.label if self.threshold is None else f"{self.label}[threshold={self.threshold}]"

    @property
    def claim(self) -> Claim:
        """What holds for any number of clients; `claim_among` says more."""
        return shared_key_claim(0 if self.threshold is None else self.threshold - 2)

    @property
    def public(self) -> PublicParameters:
        """No field and no masks."""
        return PublicParameters()

    @property
    def modulus(self) -> None:
        """None: every sum has a bound."""
        return

    def limit(self, terms: int) -> int:
        """Where the proved bound of the error reaches 1/2."""
        return limit(terms)

    def threshold_for(self, clients: int) -> int:
        """The threshold among so many clients."""
        return threshold_of(self.threshold, clients, clients // 2 + 1)

    def claim_among(self, clients: int) -> Claim:
        """What holds for so many clients."""
        return shared_key_claim(self.threshold_for(clients) - 2)

    def refuses(self, topology: Topology) -> str | None:
        """See `Scheme.refuses`."""
        why = OneSumScheme.refuses(self, topology)
        if why is None and topology.receiver != topology.aggregator:
            return "every client opens the sum and tells the server, and only one other is entitled to it"
        return why

    def machines(
        self, topology: Topology, session: bytes, draws: Draws, hosted: Ids | None = None, *, names: Names | None = None
    ) -> tuple[SumMachine, ...]:
        """See `OneSumScheme.machines`: server and clients.

        Raises:
            InputError: the scheme refuses the topology, a threshold out of range, no bound, a session that is too
                short, or coins of several tapes, which SEAL does not take.
            FieldRangeError: sums could be beyond the limit.
        """
        if draws.batch_shape:
            raise InputError(f"coins must be those of one run, for SEAL draws its own; found tapes {draws.batch_shape}")
        terms = self.terms_for(topology, session)
        assert terms.bound is not None, "see terms_for"
        plan = SharedKeyPlan(terms, Parameters.for_sums(terms.n, terms.bound, length=terms.length))
        crypto = RealCryptography(draws, BYTES)
        here = terms.clients if hosted is None else terms.clients[np.isin(terms.clients, hosted)]
        out: list[SumMachine] = []
        if hosted is None or terms.server in hosted:
            out.append(SharedKeyServer(plan, crypto, draws))
        if len(here):
            out.append(self.clients(np.sort(here), plan, crypto, draws, names))
        return tuple(out)
