"""LightSecAgg: sums of vectors under masks that are opened in one go (So et al., MLSys 2022).

Every sender adds a mask to its vector, and gives each of the others a coded piece of it: any U pieces determine the
mask, any T tell nothing. When it is known whose vectors came, every sender that is left adds up the pieces that it
holds of theirs, and U of these sums decode to the sum of the masks, however many dropped out. So a drop-out costs
nothing, where pairwise masking unmasks one after another; sharing costs N / (U - T) times the vector for each sender.

N senders may drop out down to U, T of them may collude with the aggregator, and U - T is what shortens the pieces:
more of one is paid for with the others.
"""

from __future__ import annotations

from dataclasses import dataclass

from fgl_secure.algebra import MERSENNE_61, PrimeField
from fgl_secure.errors import InputError
from fgl_secure.protocols.coded_masks.claim import claim_of
from fgl_secure.protocols.coded_masks.code import MaskCode
from fgl_secure.protocols.coded_masks.ideal import IdealLinks
from fgl_secure.protocols.coded_masks.roles import FEWEST, colluding_of, lying_of, threshold_of
from fgl_secure.protocols.coded_masks.sealed import SealedLinks
from fgl_secure.protocols.coded_masks.session import LightSecAggSession
from fgl_secure.protocols.masking.delivery import Circle
from fgl_secure.protocols.masking.rules import MaskOrigin, Rules
from fgl_secure.protocols.pairwise_masking.graph import Neighbours
from fgl_secure.protocols.vector_sum import VectorGroup, VectorScheme, VectorSession, check_range
from fgl_secure.runtime import Channel, Claim, PublicParameters


@dataclass(frozen=True, slots=True)
class LightSecAgg(VectorScheme):
    """The scheme.

    Attributes:
        threshold: U, least senders that must be left at every stage, more than half of them; None takes
            floor(2N/3) + 1 of N, which withstands an aggregator that lies together with T senders.
        colluding: T, most senders that may collude, 1 .. U - 1; None takes a third of them.
        modulus: of the field, a prime; 2^61 - 1 holds sums of large terms.
        masks: where masks come from.
    """

    threshold: int | None = None
    colluding: int | None = None
    modulus: int = MERSENNE_61
    masks: MaskOrigin = MaskOrigin.DERIVED

    def __post_init__(self) -> None:
        PrimeField(self.modulus)
        if self.modulus < 3:
            raise InputError(f"modulus must be odd, or a term and its negative are one; found {self.modulus}")
        if self.threshold is not None and self.threshold < FEWEST:
            raise InputError(f"threshold must be at least {FEWEST}, or a sum is one term; found {self.threshold}")
        if self.colluding is not None and self.colluding < 1:
            raise InputError(
                f"colluding must be at least 1, or one sender would open another's mask; found {self.colluding}"
            )
        if self.threshold is not None and self.colluding is not None:
            colluding_of(self.threshold, self.threshold, self.colluding)

    @property
    def name(self) -> str:
        """`lightsecagg`, with the parameters that differ from the default in brackets."""
        extras = [
            f"p={self.modulus}" if self.modulus != MERSENNE_61 else "",
            f"threshold={self.threshold}" if self.threshold is not None else "",
            f"colluding={self.colluding}" if self.colluding is not None else "",
        ]
        named = ",".join(extra for extra in extras if extra)
        return f"lightsecagg[{named}]" if named else "lightsecagg"

    @property
    def claim(self) -> Claim:
        """What holds for any number of senders; `claim_for` says more."""
        return claim_of(self.colluding or 1, 0)

    def claim_for(self, senders: int) -> Claim:
        """What holds for so many senders."""
        threshold, colluding = self.threshold_for(senders), self.colluding_for(senders)
        return claim_of(colluding, lying_of(senders, threshold, colluding))

    @property
    def public(self) -> PublicParameters:
        """The field."""
        return PublicParameters(self.modulus)

    def limit(self, terms: int) -> int:  # noqa: ARG002  # whatever their number
        """(p - 1) / 2: larger magnitudes would wrap around."""
        return (self.modulus - 1) // 2

    def threshold_for(self, senders: int) -> int:
        """U among so many senders.

        Raises:
            InputError: there are fewer than two, or the threshold is not above half of them.
        """
        return threshold_of(senders, self.threshold)

    def colluding_for(self, senders: int) -> int:
        """T among so many senders.

        Raises:
            InputError: as `threshold_for`, or T is not below U.
        """
        return colluding_of(senders, self.threshold_for(senders), self.colluding)

    def open(self, channel: Channel, group: VectorGroup, length: int, bound: int) -> VectorSession:
        """Chooses the numbers; keys are exchanged with the first sum.

        Raises:
            InputError: too few senders, a threshold or T that privacy forbids, or an aggregator among the senders.
            FieldRangeError: the field cannot hold the sums, or has fewer than N + U elements.
        """
        m = len(group.senders)
        check_range(self, m, length, bound)
        if group.aggregator in group.senders:
            raise InputError(f"aggregator must not be one of the senders; found {group.aggregator}")
        threshold, field = self.threshold_for(m), PrimeField(self.modulus)
        code = MaskCode(field, m, threshold, self.colluding_for(m), length)
        code.check()
        circle = Circle(channel, group.senders, group.aggregator, group.receiver, Neighbours.complete(m))
        make = SealedLinks if self.masks is MaskOrigin.DERIVED else IdealLinks
        return LightSecAggSession(circle, Rules(field, m, threshold, threshold, bound), code, make(circle, code))
