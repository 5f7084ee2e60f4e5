"""Schemes whose sums one party adds up, and those of them that mask vectors."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

from fgl_secure.algebra import MERSENNE_61, PrimeField
from fgl_secure.config_fields import name_members
from fgl_secure.crypto.cryptography import Cryptography
from fgl_secure.crypto.keys import KeyAgreement
from fgl_secure.crypto.streams import ModularRing
from fgl_secure.errors import InputError
from fgl_secure.protocols.scheme import Rounding, Scheme, SumMachine, UniformField, select_hosted
from fgl_secure.protocols.secagg.terms import SUM_FOR_RECEIVER, AggregationTerms
from fgl_secure.protocols.topology import Topology
from fgl_secure.runtime import Circumstance, Claim, Draws, Leak, Phase, PublicParameters, Role, Secret
from fgl_secure.typing import Ids

FEWEST = 2
_PRECISIONS = (8, 16, 32)
"""Bits of a number, its sign among them."""


def threshold_of(chosen: int | None, clients: int, least: int) -> int:
    """The chosen threshold, or floor(2 n / 3) + 1 of n clients.

    Args:
        chosen: None for the default.
        clients: n.
        least: the smallest that the scheme allows among so many.

    Raises:
        InputError: fewer than two clients, or a threshold out of range.
    """
    if clients < FEWEST:
        raise InputError(f"senders must number at least {FEWEST}, or the sum is one term; found {clients}")
    threshold = 2 * clients // 3 + 1 if chosen is None else chosen
    if not least <= threshold <= clients:
        raise InputError(
            f"threshold must lie in {least}..{clients} for {clients} senders: above half of them, or an aggregator "
            f"that lies could unmask any client; found {threshold}"
        )
    return threshold


class AggregationScheme(Scheme):
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
        # Why a topology is none with one sum that one party adds up; None where it is.
        if not topology.is_one_sum:
            return (
                "it adds up one vector of each client for one receiver, and this has several sums or nobody to add up"
            )
        if topology.aggregator in topology.senders or topology.receiver in topology.senders:
            return "aggregator and receiver must not be among the clients, whose vectors they know"
        return None

    def terms_for(self, topology: Topology, session: bytes) -> AggregationTerms:
        """The terms of sums of a topology.

        Raises:
            InputError: the scheme refuses it, or that senders may veto the sum, or the threshold does not fit it.
            FieldRangeError: sums could be beyond the limit.
        """
        self.check_serves(topology)
        terms = AggregationTerms.of(topology, session, self.threshold_for(len(topology.senders)))
        terms.check_range(self.limit(terms.n), self.name, self.modulus)
        return terms

    @staticmethod
    def _roles(
        terms: AggregationTerms,
        hosted: Ids | None,
        server: Callable[[], SumMachine],
        clients: Callable[[Ids], SumMachine],
        receiver: Callable[[], SumMachine] | None = None,
    ) -> tuple[SumMachine, ...]:
        """The machines of hosted parties, each made where a party of its role is hosted."""
        members, out = select_hosted(hosted, terms.clients), list[SumMachine]()
        if hosted is None or terms.server in hosted:
            out.append(server())
        if len(members):
            out.append(clients(members))
        if receiver is not None and (hosted is None or terms.receiver in hosted):
            out.append(receiver())
        return tuple(out)


@dataclass(frozen=True, slots=True)
class MaskedScheme(AggregationScheme):
    """A scheme of one sum under masks.

    Attributes:
        threshold: least senders that must be left at every stage, more than half of them; None takes
            floor(2m/3) + 1 of m.
        modulus: of the field, a prime; 2^61 - 1 holds sums of large terms.
        keys: how clients agree on keys; all parties must take the same one.
        precision: bits at which real numbers of means are written, 8, 16 or 32; None takes all that the field has
            room for.
        rounding: whether a client keeps the error that its numbers are rounded by, and adds it in the next round.
        cryptography: from coins, modulus, keys and ring; `IdealCryptography` for proofs over every coin.
    """

    threshold: int | None = None
    modulus: int = MERSENNE_61
    keys: KeyAgreement = field(default_factory=KeyAgreement.best)
    precision: int | None = None
    rounding: Rounding = Rounding.FRESH
    cryptography: Callable[[Draws, int, KeyAgreement, ModularRing], Cryptography] = field(
        default=Cryptography, repr=False
    )

    reads_one_by_one: ClassVar[bool] = True

    def __post_init__(self) -> None:
        name_members(self)
        PrimeField(self.modulus)
        if self.modulus < 3:
            raise InputError(f"modulus must be odd, or a term and its negative are one; found {self.modulus}")
        if self.threshold is not None and self.threshold < FEWEST:
            raise InputError(f"threshold must be at least {FEWEST}, or a sum is one term; found {self.threshold}")
        self.keys.check_available()
        if self.precision is not None and self.precision not in _PRECISIONS:
            known = ", ".join(map(str, _PRECISIONS))
            raise InputError(f"precision must be one of {known} bits; found {self.precision}")
        if self.precision is None and self.rounding is not Rounding.FRESH:
            raise InputError("precision must be given where rounding errors are fed back; found None")

    @property
    def public(self) -> PublicParameters:
        """The field."""
        return PublicParameters(self.modulus)

    def at_precision(self, bits: int, rounding: Rounding = Rounding.FRESH) -> Self:
        """See `Scheme.at_precision`."""
        self.check_full_precision()
        return replace(self, precision=bits, rounding=rounding)

    def limit(self, terms: int) -> int:  # noqa: ARG002  # whatever their number
        """(p - 1) / 2: larger magnitudes would wrap around."""
        return (self.modulus - 1) // 2

    def threshold_for(self, clients: int) -> int:
        """The threshold among so many senders.

        Raises:
            InputError: there are fewer than two senders, or the threshold is not above half of them, so that a lying
                aggregator could have the two halves open two different things.
        """
        return threshold_of(self.threshold, clients, clients // 2 + 1)

    def uniform_fields(self, topology: Topology) -> tuple[UniformField, ...]:  # noqa: ARG002  # the same for all
        """Vectors under masks, and their sum under the mask of a receiver who is a client, also at who adds up."""
        modulus = self.modulus if self.precision is None else 0
        fields = ((Phase.MASKED_VECTORS, "vector"), (Phase.MASKED_SUMS, "sum"), (SUM_FOR_RECEIVER, ""))
        return tuple(UniformField(phase, name, modulus) for phase, name in fields)

    def _with_feedback(self, claim: Claim) -> Claim:
        """A claim, with what a sum tells of the rounds before where errors are fed back."""
        if self.rounding is not Rounding.ERROR_FEEDBACK:
            return claim
        text = (
            "what clients' numbers were rounded by, less than a unit each, is in the sum of the round after: a "
            "client's numbers are so in the sums of later rounds, too, whatever it hands in there"
        )
        roles = (Role.SERVER, Role.SILO)
        leaks = (Leak(Secret.SUMMAND, role, Circumstance.REPEATED_SUM, text) for role in roles)
        return replace(claim, leaks_by_design=(*claim.leaks_by_design, *leaks))
