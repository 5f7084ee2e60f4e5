"""Staged sums under CKKS: clients share a key that the server never has, and it adds what it cannot read.

In KEYS clients publish X25519 keys. In SHARES the first few clients, one more than may drop out, make a CKKS key pair
each and seal it for the others; the server forwards that of the first that is still there. In VECTORS clients encrypt,
in OPENING all that are left decrypt the sum and tell it to the server, which believes what at least `threshold` of them
say alike: the integers are exact, so honest clients cannot differ.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from fgl_secure.coins import Coins
from fgl_secure.crypto.ckks_parameters import limit
from fgl_secure.protocols.ckks.claim import shared_key_claim as promise
from fgl_secure.protocols.identity import Identities, Identity
from fgl_secure.protocols.staged.ciphertexts.client import CkksClient
from fgl_secure.protocols.staged.ciphertexts.memory import FIELDS, Memory, memory_from
from fgl_secure.protocols.staged.ciphertexts.plan import SCHEME, STAGES, CkksPlan
from fgl_secure.protocols.staged.ciphertexts.secrets import OwnSecrets
from fgl_secure.protocols.staged.ciphertexts.server import CkksServer
from fgl_secure.protocols.staged.interface import StagedClient, StagedScheme, StagedServer, SumTerms
from fgl_secure.protocols.staged.terms import check_identity, check_terms, threshold_of
from fgl_secure.protocols.staged.turn import Turn
from fgl_secure.runtime import Claim, PublicParameters


@dataclass(frozen=True, slots=True)
class StagedCkks(StagedScheme):
    """The scheme.

    Attributes:
        threshold: least clients that must be left at every stage, more than half of them, or two sums could each
            have enough that say them; None takes floor(2 n / 3) + 1 of n.
    """

    threshold: int | None = None

    @property
    def name(self) -> str:
        """`ckks`, with a threshold of one's own in brackets."""
        return "ckks" if self.threshold is None else f"ckks[threshold={self.threshold}]"

    @property
    def claim(self) -> Claim:
        """What holds for any number of clients; `claim_for` says more."""
        return promise(0 if self.threshold is None else self.threshold - 2)

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
        return threshold_of(self.threshold, clients, _majority(clients))

    def claim_for(self, clients: int) -> Claim:
        """What holds for so many clients."""
        return promise(self.threshold_for(clients) - 2)

    def check(self, terms: SumTerms) -> None:
        """See `StagedScheme.check`; sums without a bound are refused."""
        check_terms(self, terms, _majority(terms.clients))

    def client(
        self,
        terms: SumTerms,
        index: int,
        coins: Coins,
        identity: Identity | None = None,
        identities: Identities | None = None,
    ) -> StagedClient:
        """A client's part. CKKS keys and ciphertexts take SEAL's randomness, all else that of the coins."""
        self.check(terms)
        check_identity(index, identity, identities)
        plan, secrets = CkksPlan.of(terms), OwnSecrets.draw(coins)
        memory = Memory(secrets, identities=identities)
        if identity is not None:
            memory = replace(memory, signature=identity.sign(plan.statement(index, secrets.public)))
        return CkksClient(plan, Turn(SCHEME, terms, index, STAGES), memory)

    def server(self, terms: SumTerms, coins: Coins) -> StagedServer:  # noqa: ARG002  # it draws nothing
        """The server's part."""
        self.check(terms)
        return CkksServer(CkksPlan.of(terms))

    def restored(self, terms: SumTerms, state: bytes) -> StagedClient:
        """A client that goes on where `state` was taken."""
        self.check(terms)
        plan = CkksPlan.of(terms)
        turn, fields = Turn.restored(SCHEME, terms, STAGES, state, FIELDS)
        return CkksClient(plan, turn, memory_from(plan, fields))


def _majority(clients: int) -> int:
    return clients // 2 + 1
