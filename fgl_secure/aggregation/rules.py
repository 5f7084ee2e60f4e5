"""What all parties know of an aggregation before its first round, and what follows from it."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import astuple, dataclass, field
from enum import IntEnum
from functools import lru_cache

from fgl_secure.aggregation.encoding import Code, Encoding, IntegerRule, bound_for
from fgl_secure.aggregation.layout import Layout
from fgl_secure.aggregation.privacy import DistributedNoise, NoisyEncoding
from fgl_secure.aggregation.ranges import RangeLevels
from fgl_secure.algebra import UNWEIGHTED, Weighing
from fgl_secure.coins import Coins
from fgl_secure.dp import Perturbation
from fgl_secure.errors import InputError
from fgl_secure.protocols.staged.interface import SESSION_BYTES, StagedScheme, SumTerms

MOST_BITS = 1000
"""Most bits behind the binary point, or before it: units are floats then."""


class Purpose(IntEnum):
    """What a sum of a round is for."""

    RANGES = 0
    """How large the numbers are."""
    VALUES = 1
    """The mean."""


@dataclass(frozen=True, slots=True)
class Rules:
    """An aggregation as all parties agreed on it.

    Attributes:
        scheme: adds vectors up; its threshold is set.
        clients: n; they go by 0 .. n - 1.
        threshold: least clients that a mean is over.
        bound: largest magnitude of a float in any tensor; None has it found in the first round.
        fraction_bits: of every float; None takes the most that fit.
        weighing: what weights there may be.
        integers: what the mean of integers is.
        privacy: what the means may cost; None adds no noise.
        agreed: bytes for whatever else all parties must have been told alike; no sum comes about where they differ.
    """

    scheme: StagedScheme
    clients: int
    threshold: int = field(init=False)
    bound: float | None = None
    fraction_bits: int | None = None
    weighing: Weighing = UNWEIGHTED
    integers: IntegerRule = IntegerRule.EXACT
    privacy: DistributedNoise | None = None
    agreed: bytes = b""

    def __post_init__(self) -> None:
        if self.clients < 2:
            raise InputError(f"clients must number at least 2, or the mean is one client's own; found {self.clients}")
        object.__setattr__(self, "threshold", self.scheme.threshold_for(self.clients))
        if self.bound is not None and not (math.isfinite(self.bound) and self.bound > 0):
            raise InputError(f"bound must be a positive number; found {self.bound}")
        if self.fraction_bits is not None and not -MOST_BITS <= self.fraction_bits <= MOST_BITS:
            raise InputError(f"fraction_bits must lie in -{MOST_BITS}..{MOST_BITS}; found {self.fraction_bits}")
        if self.privacy is not None:
            _check_private(self)
        elif self.bound is None and self.scheme.modulus is None:
            raise InputError(
                f"bound must be given under {self.scheme.name}, which cannot find it: it has no sums modulo a field; "
                f"found None"
            )

    def finds_ranges(self, layout: Layout) -> bool:
        """Whether a first sum must find how large the numbers are."""
        return self.bound is None and self.privacy is None and bool(layout.floats)

    def levels(self, layout: Layout) -> RangeLevels:
        """The levels of that sum."""
        if self.scheme.modulus is None:
            raise InputError(f"ranges must be given under {self.scheme.name}; found none")
        return RangeLevels(layout, self.scheme.modulus)

    def code(self, layout: Layout, bounds: Mapping[str, float] | None, coins: Coins | None = None) -> Code:
        """How mappings are written.

        Args:
            layout: of the mappings.
            bounds: as found, by name; None where they follow from the rules.
            coins: of a client that adds noise.

        Raises:
            FieldRangeError: the scheme's sums have no room for such numbers.
            InputError: noise cannot be added to such mappings.
        """
        if self.privacy is not None:
            return NoisyEncoding(layout, self.privacy, self.perturbation(layout), coins)
        if bounds is None:
            bounds = {entry.name: bound_for(entry, self.bound or math.nan) for entry in layout.floats}
        return Encoding.for_sums(
            layout,
            bounds,
            limit=self.scheme.limit(self.clients),
            clients=self.clients,
            weighing=self.weighing,
            fraction_bits=self.fraction_bits,
            integers=self.integers,
        )

    def perturbation(self, layout: Layout) -> Perturbation:
        """Clip, grid and noise for mappings of a layout, under privacy."""
        if self.privacy is None:
            raise InputError("privacy must be asked for where noise is calibrated; found None")
        return _perturbation(self.privacy, layout.size, self.threshold)

    def terms(
        self, purpose: Purpose, session: bytes, number: int, layout: Layout, bounds: Mapping[str, float] | None
    ) -> SumTerms:
        """Those of one sum of a round, as client and server work them out alike.

        Their context is a digest of how vectors are written. A server that told one client a small bound and the others
        a huge one would have the others' numbers round to 0, and the sum would be that one client's update: with
        different contexts they have no sum at all.

        Args:
            purpose: of the sum.
            session: 16 public bytes.
            number: of the round, from 0.
            layout: of the mappings.
            bounds: as found, by name; None where they follow from the rules, or are to be found.

        Raises:
            InputError, FieldRangeError: such sums are not exact or not private.
        """
        if len(session) != SESSION_BYTES or not 0 <= number < 2**32:
            raise InputError(
                f"session must have {SESSION_BYTES} bytes and number lie in 0..2^32 - 1; found {len(session)} and "
                f"{number}"
            )
        if purpose is Purpose.RANGES:
            length, bound = self.levels(layout).length, None
        else:
            length, bound = layout.size + 1, self.code(layout, bounds).bound
        context = self._context(layout, bounds)
        terms = SumTerms(session, 2 * number + purpose, self.clients, self.threshold, length, bound, context)
        self.scheme.check(terms)
        return terms

    def _context(self, layout: Layout, bounds: Mapping[str, float] | None) -> bytes:
        """SHA-256 of all that a vector means, beyond the numbers that terms name."""
        found = None if bounds is None else sorted(bounds.items())
        bound, weighing = None if self.bound is None else float(self.bound), self.weighing
        written = bound, self.fraction_bits, float(weighing.bound), weighing.fraction_bits, self.integers
        noise = None if self.privacy is None else astuple(self.privacy)
        stated = json.dumps([layout.digest.hex(), found, written, noise, self.agreed.hex()])
        return hashlib.sha256(b"fgl-secure vectors/v1" + stated.encode()).digest()


@lru_cache(maxsize=16)
def _perturbation(privacy: DistributedNoise, width: int, threshold: int) -> Perturbation:
    return privacy.perturbation(width, threshold)


def _check_private(rules: Rules) -> None:
    if rules.bound is not None or rules.fraction_bits is not None:
        raise InputError(
            "bound and fraction_bits must not be given under privacy: the clip is the bound, and the noise makes the "
            f"grid; found {rules.bound} and {rules.fraction_bits}"
        )
    if rules.weighing.fraction_bits:
        raise InputError(f"weight_fraction_bits must be 0 under privacy; found {rules.weighing.fraction_bits}")
