"""LightSecAgg, message by message (So et al., MLSys 2022, algorithm 1, and a vote on the roster before it is opened).

KEYS: every client publishes a fresh X25519 key, signed by its identity where there are identities. SHARES: it hears the
others' keys and seals for each of them a coded mask. VECTORS: it gets those of the others, and hands in its vector
under its mask. AGREEMENT: it hears whose vectors are in the sum, and votes. OPENING: it hears the others' votes, and
opens the sum of the coded masks of those clients, if enough were told the same.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from fgl_secure.algebra import MERSENNE_61
from fgl_secure.coins import Coins
from fgl_secure.errors import InputError
from fgl_secure.protocols.identity import Identities, Identity
from fgl_secure.protocols.lightsecagg import LightSecAgg
from fgl_secure.protocols.lightsecagg.roster import colluding_of
from fgl_secure.protocols.staged.coded_masks.client import LightSecAggClient
from fgl_secure.protocols.staged.coded_masks.memory import FIELDS, Memory, memory_from
from fgl_secure.protocols.staged.coded_masks.plan import SCHEME, STAGES, LightSecAggPlan
from fgl_secure.protocols.staged.coded_masks.secrets import OwnSecrets
from fgl_secure.protocols.staged.coded_masks.server import LightSecAggServer
from fgl_secure.protocols.staged.interface import SumTerms
from fgl_secure.protocols.staged.mirrored import Mirrored
from fgl_secure.protocols.staged.terms import check_identity, check_terms
from fgl_secure.protocols.staged.turn import Turn


@dataclass(frozen=True, slots=True)
class StagedLightSecAgg(Mirrored):
    """The scheme; masks, codes and checks are those of `LightSecAgg`.

    Attributes:
        threshold: U, least clients that must be left at every stage, more than half of them; None takes
            floor(2n/3) + 1 of n.
        colluding: T, most clients that may collude, 1 .. U - 1; None takes a third of them.
        modulus: of the field, a prime.
    """

    threshold: int | None = None
    colluding: int | None = None
    modulus: int = MERSENNE_61

    def __post_init__(self) -> None:
        _ = self.array_level

    @property
    def array_level(self) -> LightSecAgg:
        """Whose masks and checks these are; raises `InputError` for parameters that it refuses."""
        return LightSecAgg(self.threshold, self.colluding, self.modulus)

    def check(self, terms: SumTerms) -> None:
        """See `StagedScheme.check`.

        Raises:
            InputError: see there; and a threshold that is not the scheme's, or not above T.
            FieldRangeError: see there; and a field with fewer than n + U elements.
        """
        _checked_plan(self, terms)

    def client(
        self,
        terms: SumTerms,
        index: int,
        coins: Coins,
        identity: Identity | None = None,
        identities: Identities | None = None,
    ) -> LightSecAggClient:
        """See `StagedScheme.client`.

        Raises:
            InputError: terms that `check` refuses, an index that is not among the clients, an identity without
                identities or the reverse, or one that is not the client's own among them.
        """
        plan, turn = _checked_plan(self, terms), Turn(SCHEME, terms, index, STAGES)
        check_identity(index, identity, identities)
        memory = Memory(OwnSecrets.draw(coins), identities=identities)
        if identity is not None:
            memory = replace(memory, signature=identity.sign(plan.statement(index, memory.secrets.public)))
        return LightSecAggClient(plan, turn, memory)

    def server(self, terms: SumTerms, coins: Coins) -> LightSecAggServer:
        """See `StagedScheme.server`."""
        return LightSecAggServer(_checked_plan(self, terms), coins)

    def restored(self, terms: SumTerms, state: bytes) -> LightSecAggClient:
        """See `StagedScheme.restored`."""
        plan = _checked_plan(self, terms)
        turn, fields = Turn.restored(SCHEME, terms, STAGES, state, FIELDS)
        return LightSecAggClient(plan, turn, memory_from(plan, fields))


@lru_cache(maxsize=4)
def _checked_plan(scheme: StagedLightSecAgg, terms: SumTerms) -> LightSecAggPlan:
    """The plan of a sum, after the checks of `StagedLightSecAgg.check`."""
    check_terms(scheme, terms, terms.clients // 2 + 1)
    if scheme.threshold not in (None, terms.threshold):
        raise InputError(f"threshold must be the scheme's {scheme.threshold}; found {terms.threshold}")
    colluding = colluding_of(terms.clients, terms.threshold, scheme.colluding)
    plan = LightSecAggPlan.of(terms, scheme.modulus, colluding)
    plan.code.check()
    return plan
