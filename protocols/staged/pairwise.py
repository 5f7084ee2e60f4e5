"""Pairwise masking, message by message (Bonawitz et al., CCS 2017, figure 4; graph of Bell et al., CCS 2020).

KEYS: every client publishes two fresh X25519 keys, signed by its identity where there are identities. SHARES: it hears
its neighbours' keys and seals for each of them shares of its two secrets. VECTORS: it hears who shared, and hands in
its vector under the masks that it has with those and one of its own. AGREEMENT: it hears which of its secrets the
server asks about everybody, checks that, and votes. OPENING: it hears its neighbours' votes, and opens one share at
most of everybody, if enough of them were told the same.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from fgl_secure.algebra import MERSENNE_61
from fgl_secure.coins import Coins
from fgl_secure.errors import InputError
from fgl_secure.protocols.identity import Identities, Identity
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.staged.interface import SumTerms
from fgl_secure.protocols.staged.masking.client import MaskingClient
from fgl_secure.protocols.staged.masking.memory import Memory, memory_from
from fgl_secure.protocols.staged.masking.plan import MaskingPlan, plan_of
from fgl_secure.protocols.staged.masking.secrets import OwnSecrets
from fgl_secure.protocols.staged.masking.server import MaskingServer
from fgl_secure.protocols.staged.mirrored import Mirrored
from fgl_secure.protocols.staged.terms import check_identity, check_terms


@dataclass(frozen=True, slots=True)
class StagedPairwiseMasking(Mirrored):
    """The scheme; masks, shares and checks are those of `PairwiseMasking`.

    Where the graph is sparse every client finds it by itself, from session and number of the sum; see `plan_of`. The
    server is trusted with no more than that: that it did not choose the session to suit it.

    Attributes:
        threshold: least clients that must be left at every stage, more than half of them; None takes
            floor(2n/3) + 1 of n.
        degree: neighbours of each client, even; None takes everybody for up to 64 clients, and beyond that what the
            bounds of a random sparse graph ask for.
        modulus: of the field, a prime.
    """

    threshold: int | None = None
    degree: int | None = None
    modulus: int = MERSENNE_61

    def __post_init__(self) -> None:
        _ = self.array_level

    @property
    def array_level(self) -> PairwiseMasking:
        """Whose masks and checks these are; raises `InputError` for parameters that it refuses."""
        return PairwiseMasking(self.threshold, self.modulus, self.degree)

    def degree_for(self, clients: int) -> int:
        """See `PairwiseMasking.degree_for`."""
        return self.array_level.degree_for(clients)

    def check(self, terms: SumTerms) -> None:
        """See `StagedScheme.check`.

        Raises:
            InputError: see there; and a threshold that is not the scheme's.
            FieldRangeError: see there; and a field with fewer points than shares.
        """
        check_terms(self, terms, terms.clients // 2 + 1)
        if self.threshold not in (None, terms.threshold):
            raise InputError(f"threshold must be the scheme's {self.threshold}; found {terms.threshold}")
        _ = self._plan(terms).sharing.code  # raises where the field has too few points

    def client(
        self,
        terms: SumTerms,
        index: int,
        coins: Coins,
        identity: Identity | None = None,
        identities: Identities | None = None,
    ) -> MaskingClient:
        """See `StagedScheme.client`. Where the others know identities, they take no keys but those it signed.

        Raises:
            InputError: terms that `check` refuses, an index that is not among the clients, an identity without
                identities or the reverse, or one that is not the client's own among them.
        """
        self.check(terms)
        if not 0 <= index < terms.clients:
            raise InputError(f"index must lie in 0..{terms.clients - 1}; found {index}")
        check_identity(index, identity, identities)
        plan, secrets, signature, near = self._plan(terms), OwnSecrets.draw(coins), b"", None
        if identity is not None and identities is not None:
            signature = identity.sign(plan.statement(index, *secrets.public()))
            near = Identities({v: identities.public[v] for v in plan.near(index) if v in identities.public})
        return MaskingClient(plan, Memory(index, secrets, signature, near))

    def server(self, terms: SumTerms, coins: Coins) -> MaskingServer:
        """See `StagedScheme.server`."""
        self.check(terms)
        return MaskingServer(self._plan(terms), coins)

    def restored(self, terms: SumTerms, state: bytes) -> MaskingClient:
        """See `StagedScheme.restored`."""
        self.check(terms)
        plan = self._plan(terms)
        return MaskingClient(plan, memory_from(plan, state))

    def _plan(self, terms: SumTerms) -> MaskingPlan:
        return plan_of(
            terms, self.modulus, replace(self.array_level, threshold=terms.threshold).degree_for(terms.clients)
        )
