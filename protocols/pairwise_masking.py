"""Pairwise masking: sums of vectors under masks that cancel (Bonawitz et al., CCS 2017).

Every sender adds to its vector one mask for each neighbour, with opposite signs at both ends, and a mask of its own.
It shares the secrets of these masks among its neighbours, so that the others can take away what a sender that drops
out has left behind: its pairwise masks if its vector is not in the sum, its own mask if it is, and never both. Where
the receiver is not the one who adds up, a further mask agreed with the receiver keeps the sum from the aggregator.
Few senders are all each other's neighbours; many mask along a sparse graph (Bell et al., CCS 2020).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from fgl_secure.algebra import MERSENNE_61, PrimeField
from fgl_secure.errors import InputError
from fgl_secure.protocols.masking.claim import claim_of
from fgl_secure.protocols.masking.delivery import Circle
from fgl_secure.protocols.masking.derived import DerivedMasks
from fgl_secure.protocols.masking.drawn import DrawnMasks
from fgl_secure.protocols.masking.graph import COMPLETE_UP_TO, Neighbours, colluding_for, degree_for, local_threshold
from fgl_secure.protocols.masking.rules import Rules
from fgl_secure.protocols.masking.session import MaskingSession
from fgl_secure.protocols.vector_sum import VectorGroup, VectorScheme, VectorSession, check_range
from fgl_secure.runtime import Channel, Claim, PublicParameters

FEWEST = 2


class MaskOrigin(StrEnum):
    """Where masks come from."""

    DERIVED = "derived"
    """Expanded by a stream cipher from keys that senders agree on."""
    DRAWN = "drawn"
    """Drawn as they are, agreed on and sealed by ideal means: for enumeration and simulators."""


@dataclass(frozen=True, slots=True)
class PairwiseMasking(VectorScheme):
    """The scheme.

    Attributes:
        threshold: least senders that must be left at every stage, more than half of them; None takes
            floor(2m/3) + 1 of m, which withstands an aggregator that lies together with fewer than a third of them.
        modulus: of the field, a prime; 2^61 - 1 holds sums of large terms.
        degree: neighbours of each sender, even, for those who state their own bounds; None takes everybody for up to
            64 senders, and beyond that what `degree_for` finds.
        masks: where masks come from.
    """

    threshold: int | None = None
    modulus: int = MERSENNE_61
    degree: int | None = None
    masks: MaskOrigin = MaskOrigin.DERIVED

    def __post_init__(self) -> None:
        PrimeField(self.modulus)
        if self.modulus < 3:
            raise InputError(f"modulus must be odd, or a term and its negative are one; found {self.modulus}")
        if self.threshold is not None and self.threshold < FEWEST:
            raise InputError(f"threshold must be at least {FEWEST}, or a sum is one term; found {self.threshold}")
        if self.degree is not None and (self.degree < 2 or self.degree % 2):
            raise InputError(f"degree must be even and at least 2; found {self.degree}")

    @property
    def name(self) -> str:
        """`pairwise-masking`, with the parameters that differ from the default in brackets."""
        extras = [
            f"p={self.modulus}" if self.modulus != MERSENNE_61 else "",
            f"threshold={self.threshold}" if self.threshold is not None else "",
            f"degree={self.degree}" if self.degree is not None else "",
        ]
        named = ",".join(extra for extra in extras if extra)
        return f"pairwise-masking[{named}]" if named else "pairwise-masking"

    @property
    def claim(self) -> Claim:
        """What holds for any number of senders; `claim_for` says more.

        With a degree of one's own nothing does, for it may be too small for their number.
        """
        if self.degree is not None:
            return claim_of(-1, -1, sparse=True)
        complete = self.threshold is not None and 2 * self.threshold - 1 <= COMPLETE_UP_TO
        return claim_of(self.threshold - 1 if complete and self.threshold else 1, 0, sparse=False)

    def claim_for(self, senders: int) -> Claim:
        """What holds for so many senders."""
        threshold, degree = self.threshold_for(senders), self.degree_for(senders)
        colluding = colluding_for(senders, degree, threshold)
        return claim_of(colluding, 2 * threshold - senders - 1, sparse=degree < senders - 1)

    @property
    def public(self) -> PublicParameters:
        """The field."""
        return PublicParameters(self.modulus)

    def limit(self, terms: int) -> int:  # noqa: ARG002  # whatever their number
        """(p - 1) / 2: larger magnitudes would wrap around."""
        return (self.modulus - 1) // 2

    def threshold_for(self, senders: int) -> int:
        """The threshold among so many senders.

        Raises:
            InputError: there are fewer than two senders, or the threshold is not above half of them, so that a lying
                aggregator could have one half open one secret of a sender and the other half the other.
        """
        if senders < FEWEST:
            raise InputError(f"senders must number at least {FEWEST}, or the sum is one term; found {senders}")
        threshold = 2 * senders // 3 + 1 if self.threshold is None else self.threshold
        if not senders < 2 * threshold <= 2 * senders:
            raise InputError(
                f"threshold must lie in {senders // 2 + 1}..{senders} for {senders} senders: above half of them, or an "
                f"aggregator that lies could unmask anybody; found {threshold}"
            )
        return threshold

    def degree_for(self, senders: int) -> int:
        """Neighbours of each of so many senders."""
        if self.degree is None:
            return degree_for(senders, self.threshold_for(senders))
        return min(self.degree, senders - 1)

    def open(self, channel: Channel, group: VectorGroup, length: int, bound: int) -> VectorSession:
        """Chooses the graph; keys are exchanged with the first sum.

        Raises:
            InputError: too few senders, a threshold that privacy forbids, or an aggregator among the senders.
            FieldRangeError: the field cannot hold the sums; one that does has points enough for the shares, 2m.
        """
        m = len(group.senders)
        check_range(self, m, length, bound)
        if group.aggregator in group.senders:
            raise InputError(f"aggregator must not be one of the senders; found {group.aggregator}")
        threshold, degree = self.threshold_for(m), self.degree_for(m)
        circle = Circle(channel, group.senders, group.aggregator, group.receiver, self._graph(channel, m, degree))
        rules = Rules(PrimeField(self.modulus), m, threshold, local_threshold(m, degree, threshold), bound)
        make = DerivedMasks if self.masks is MaskOrigin.DERIVED else DrawnMasks
        return MaskingSession(circle, rules, make(circle, rules.field, length))

    def _graph(self, channel: Channel, senders: int, degree: int) -> Neighbours:
        """Public, and drawn at random where it is sparse; in order where coins are those of many tapes."""
        if degree == senders - 1:
            return Neighbours.complete(senders)
        drawn = self.masks is MaskOrigin.DRAWN
        order = np.arange(senders) if drawn else np.argsort(channel.coins.uniform(2**63, (senders,)))
        return Neighbours.ring(order.astype(np.int64), degree)
