"""LightSecAgg: sums of vectors under masks that are opened in one go (So et al., MLSys 2022).

Every sender adds a mask to its vector, and gives each of the others a coded piece of it: any U pieces determine the
mask, any T tell nothing. When it is known whose vectors came, every sender that is left adds up the pieces that it
holds of theirs, and U of these sums decode to the sum of the masks, however many dropped out. So a drop-out costs
nothing, where pairwise masking unmasks one after another; sharing costs N / (U - T) times the vector for each sender.

N senders may drop out down to U, T of them may collude with the aggregator, and U - T is what shortens the pieces:
more of one is paid for with the others.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from fgl_secure.algebra import PrimeField
from fgl_secure.crypto.streams import ModularRing
from fgl_secure.errors import InputError
from fgl_secure.protocols.identity import Names
from fgl_secure.protocols.lightsecagg.machines import LightSecAggClients, LightSecAggServer
from fgl_secure.protocols.lightsecagg.plan import LightSecAggPlan, MaskCode
from fgl_secure.protocols.pairwise_masking.scheme import SUM_LEAKS, primitives
from fgl_secure.protocols.scheme import SumMachine
from fgl_secure.protocols.secagg.scheme import MaskedScheme
from fgl_secure.protocols.secagg.server import SumReceiver
from fgl_secure.protocols.topology import Topology
from fgl_secure.runtime import Claim, Draws, Guarantee, Role, Secret, Strength
from fgl_secure.typing import Ids

_SOURCE = "So et al. (MLSys 2022), theorem 1"


def _honest(colluding: int) -> Guarantee:
    return Guarantee(
        Secret.SUMMAND,
        {Role.SERVER: 1, Role.SILO: colluding},
        Strength.COMPUTATIONAL,
        f"the aggregator with up to {colluding} senders learns of the others' vectors no more than the sum that the "
        "receiver is entitled to, and not that where it is not the receiver; perfectly so but for the seals of coded "
        "masks and the expansion of masks from seeds",
        _SOURCE,
    )


def _lying(lying: int) -> Guarantee:
    return Guarantee(
        Secret.SUMMAND,
        {Role.SERVER: 1, Role.SILO: lying},
        Strength.COMPUTATIONAL,
        f"an aggregator that lies about who dropped out learns, with up to {lying} senders (T, and 2U - N - 1), no "
        "more than one sum over at least `threshold` vectors, because senders open no roster before U of them said "
        "that they were told it; with 2U - N of them it opens two. Without that agreement T + 1 - c honest answers "
        "for each of two rosters, with c senders that collude, would tell a combination of the U - T parts of each of "
        "two sums",
        "So et al. (MLSys 2022) with the consistency check of Bonawitz et al. (CCS 2017), figure 4, round 3",
    )


_ASSUMPTIONS = (
    "public keys are authentic: the aggregator forwards them as they are, as a register of keys or signatures ensure",
    "the aggregator and the receiver learn who took part in which sum and the length of the vectors; senders learn who "
    "dropped out",
    "a sender may spoil a sum with a wrong vector or wrong coded masks, unseen; it learns nothing by that. Wrong sums "
    "of coded masks are corrected, one for every two answers beyond U, and noticed where there are fewer",
)


_BELOW = (1, 3, 1, 3, 1, 5, 3, 3, 9, 3, 1, 3, 19, 15, 1, 5, 1, 3, 9, 3, 15, 3, 39, 5, 39, 57, 3, 35, 1)
PRIMES = tuple(2**bits - below for bits, below in enumerate(_BELOW, start=3))
"""The largest primes below 2^3, 2^4, ..., 2^31: of a key stream's words few are rejected."""


def _colluding_of(clients: int, threshold: int, colluding: int | None) -> int:
    """T among so many clients: as given, or a third of them, at least 1 and below U.

    Raises:
        InputError: T is not in 1 .. U - 1.
    """
    chosen = max(1, min(clients // 3, threshold - 1)) if colluding is None else colluding
    if not 1 <= chosen < threshold:
        raise InputError(
            f"colluding must lie in 1..{threshold - 1} at threshold = {threshold}: coded masks have threshold - "
            f"colluding parts, and without noise one sender would open another's mask; found {chosen}"
        )
    return chosen


@dataclass(frozen=True, slots=True)
class LightSecAgg(MaskedScheme):
    """The scheme. Its default threshold U withstands an aggregator that lies together with T senders.

    Attributes:
        colluding: T, most senders that may collude, 1 .. U - 1; None takes a third of them.
        precision: bits at which real numbers of means are written, 8, 16 or 32; None takes all that the field has
            room for. Vectors and coded masks are then in the least prime field of `PRIMES` that holds their sum, and as
            many bits of an element travel as its modulus has.
        clients: the machine of senders; another one only in tests of what its checks are for.
    """

    label: ClassVar[str] = "lightsecagg"
    summary: ClassVar[str] = "one sum over clients under coded masks, opened in one go (So et al., MLSys 2022)"
    parameters: ClassVar[tuple[str, ...]] = ("threshold", "colluding", "modulus", "keys", "precision", "rounding")

    colluding: int | None = None
    clients: type[LightSecAggClients] = field(default=LightSecAggClients, repr=False)

    def __post_init__(self) -> None:
        MaskedScheme.__post_init__(self)
        if self.colluding is not None and self.colluding < 1:
            raise InputError(
                f"colluding must be at least 1, or one sender would open another's mask; found {self.colluding}"
            )
        if self.threshold is not None and self.colluding is not None:
            _colluding_of(self.threshold, self.threshold, self.colluding)

    def claim_among(self, clients: int) -> Claim:
        """What holds for so many senders."""
        threshold, colluding = self.threshold_for(clients), self.colluding_for(clients)
        # Most clients that may side with an aggregator that lies: min(T, 2U - N - 1).
        lying = min(colluding, 2 * threshold - clients - 1)
        # The claim of a session.
        return self._with_feedback(
            Claim((_honest(colluding), _lying(lying)), SUM_LEAKS, (*_ASSUMPTIONS, primitives(self.keys)))
        )

    def ring_of(self, topology: Topology) -> ModularRing:
        """See `Scheme.ring_of`: the field, or at a precision and with a bound the least one that holds the sums.

        It has a point for each part of a mask and each client.
        """
        if self.precision is None or topology.bound is None:
            return ModularRing(self.modulus)
        clients = len(topology.senders)
        least = max(2 * topology.terms * topology.bound + 1, clients + self.threshold_for(clients))
        return ModularRing(next((prime for prime in PRIMES if prime >= least), self.modulus), packed=True)

    def colluding_for(self, clients: int) -> int:
        """T among so many senders.

        Raises:
            InputError: as `threshold_for`, or T is not below U.
        """
        return _colluding_of(clients, self.threshold_for(clients), self.colluding)

    def plan_for(self, topology: Topology, session: bytes) -> LightSecAggPlan:
        """What all parties know; see `machines`."""
        terms = self.terms_for(topology, session)
        colluding = self.colluding_for(terms.n)
        code = MaskCode(PrimeField(self.ring_of(topology).modulus), terms.n, terms.threshold, colluding, terms.length)
        code.check()
        return LightSecAggPlan(terms, code, self.keys)

    def machines(
        self, topology: Topology, session: bytes, draws: Draws, hosted: Ids | None = None, *, names: Names | None = None
    ) -> tuple[SumMachine, ...]:
        """See `OneSumScheme.machines`: server, clients, and receiver where it is neither.

        Raises:
            InputError: the scheme refuses the topology, a threshold or T that privacy forbids, or a session that is
                too short.
            FieldRangeError: the field cannot hold the sums, or has fewer than N + U elements.
        """
        plan, ring = self.plan_for(topology, session), self.ring_of(topology)
        crypto = self.cryptography(draws, ring.modulus, self.keys, ring)
        return self._roles(
            plan.terms,
            hosted,
            lambda: LightSecAggServer(plan, crypto, draws),
            lambda here: self.clients(here, plan, crypto, draws, names),
            (lambda: SumReceiver(plan, crypto, draws, names)) if plan.terms.split else None,
        )
