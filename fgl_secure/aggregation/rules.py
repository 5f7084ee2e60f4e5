"""What all parties know of an aggregation before its first round, and what follows from it."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import astuple, dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np

from fgl_secure.aggregation.encoding import (
    IntegerRule,
    RoundedEncoding,
    RoundingErrors,
    TensorEncoding,
    bound_for,
    weigh_tensors,
)
from fgl_secure.aggregation.layout import TensorLayout, Tree
from fgl_secure.aggregation.privacy import DistributedNoise, NoisyEncoding, perturbation_for
from fgl_secure.aggregation.sums import HEADROOM_BITS, STEP, Opening, RangeLevels, SumKind, only_opened, opened_entries
from fgl_secure.algebra import UNWEIGHTED, Weighing
from fgl_secure.coins import Coins
from fgl_secure.crypto.streams import ModularRing
from fgl_secure.dp import Perturbation
from fgl_secure.errors import InputError
from fgl_secure.protocols.scheme import Rounding, Scheme, check_range, needed_marks
from fgl_secure.protocols.topology import Topology
from fgl_secure.runtime import Circumstance, CircumstanceKind, Claim, Directory, Leak, Role, Secret, Step
from fgl_secure.runtime.messages import SESSION_BYTES
from fgl_secure.typing import Integers


class RangeCircumstance(CircumstanceKind):
    """When finding ranges may expose a secret."""

    FOUND_RANGE = "no bound is given, so that ranges are found"


_MOST_ROUNDS = 2**32
_MOST_CLIENTS = 2**24
_MOST_BITS = 1000
"""Most bits behind the binary point, or before it: units are floats then."""


_FINE_STEP = 1
"""Levels go by factors of 2 where numbers have few bits."""
_LARGEST_SUM = 2**62
"""Of a scheme that names no limit."""
Code = TensorEncoding | RoundedEncoding | NoisyEncoding
"""How mappings are written as vectors that are added up."""


def _counts_of(vector: Integers) -> Integers:
    """1 where a vector int64 [P + 1] is not 0, and 0 elsewhere: int64 [P], without its weight."""
    marks: Integers = (vector[:-1] != 0).astype(np.int64)
    return marks


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
        k_min: fewest clients that an entry of a mean is opened for; see `withheld`. 1 opens all.
        watched: whether each round tells whether numbers have exceeded the ranges that were found, and finds new ones
            where they have; else such numbers are an error. A scheme with vetoes tells it with the sum of the values,
            another one with a sum before it.
        clip: whether numbers beyond `bound` count as the bound; else they are an error.
        agreed: bytes for whatever else all parties must have been told alike; no sum comes about where they differ.
    """

    scheme: Scheme
    clients: int
    threshold: int = field(init=False)
    bound: float | None = None
    fraction_bits: int | None = None
    weighing: Weighing = UNWEIGHTED
    integers: IntegerRule = IntegerRule.ROUND
    privacy: DistributedNoise | None = None
    k_min: int = 1
    watched: bool = False
    clip: bool = False
    agreed: bytes = b""

    def __post_init__(self) -> None:
        if self.clients < 2:
            raise InputError(f"clients must number at least 2, or the mean is one client's own; found {self.clients}")
        if self.clients > _MOST_CLIENTS:
            raise InputError(f"clients must number at most {_MOST_CLIENTS:,}; found {self.clients:,}")
        why = self.scheme.refuses(self._sum_of(1, 1))
        if why is not None:
            raise InputError(f"scheme must sum vectors of clients for a server; {self.scheme.name} does not: {why}")
        object.__setattr__(self, "threshold", self.scheme.threshold_for(self.clients))
        if self.bound is not None and not (math.isfinite(self.bound) and self.bound > 0):
            raise InputError(f"bound must be a positive number; found {self.bound}")
        if self.fraction_bits is not None and not -_MOST_BITS <= self.fraction_bits <= _MOST_BITS:
            raise InputError(f"fraction_bits must lie in -{_MOST_BITS}..{_MOST_BITS}; found {self.fraction_bits}")
        needed_marks(self.scheme, self.clients, self.k_min)
        if self.clip and self.bound is None:
            raise InputError("bound must be given where numbers beyond it are clipped; found None")
        if self.scheme.precision is not None:
            _check_rounded(self)
        if self.privacy is not None:
            _check_private(self)
        elif self.bound is None and self.scheme.modulus is None:
            raise InputError(
                f"bound must be given under {self.scheme.name}, which cannot find it: it has no sums modulo a field; "
                f"found None"
            )

    def finds_ranges(self, layout: TensorLayout) -> bool:
        """Whether a sum must find how large the numbers are."""
        return self.bound is None and self.privacy is None and bool(layout.floats)

    @property
    def is_random(self) -> bool:
        """Whether a client's vector differs each time it is made: noise is added, or numbers are rounded at random."""
        return self.privacy is not None or self.scheme.precision is not None

    @property
    def feeds_back(self) -> bool:
        """Whether clients keep the errors that their numbers are rounded by."""
        return self.scheme.rounding is Rounding.ERROR_FEEDBACK

    def first(self, opening: Opening) -> SumKind:
        """The first sum of a round: none of ranges where they follow from the rules, or are found and not watched."""
        layout, has_bounds = opening.layout, opening.bounds is not None
        finds = self.finds_ranges(layout) and (not has_bounds or self.watched)
        if not finds or not self.levels(opening).length:
            return self.after(SumKind.RANGES, layout)
        return SumKind.WATCHED if has_bounds and self.has_vetoes(layout) else SumKind.RANGES

    def has_vetoes(self, layout: TensorLayout) -> bool:
        """Whether clients whose numbers have exceeded known ranges veto the sum of the values."""
        finds = self.finds_ranges(layout) and self.watched and not self.closes_entries(layout)
        return finds and self.scheme.precision is None and self.scheme.vetoes(self._sum_of(1, 1))

    def after(self, purpose: SumKind, layout: TensorLayout) -> SumKind:
        """The sum that comes after that of the ranges, or of the marks, or after a mean that was vetoed."""
        if purpose is SumKind.WATCHED:
            return SumKind.RANGES
        return (
            SumKind.CONTRIBUTOR_COUNT if purpose is SumKind.RANGES and self.closes_entries(layout) else SumKind.VALUES
        )

    def closes_entries(self, layout: TensorLayout) -> bool:
        """Whether marks say which entries are opened: not where all are, nor where there are none."""
        return self.k_min > 1 and layout.size > 0

    def next_opening(self, purpose: SumKind, opening: Opening, total: Integers) -> Opening:
        """What later sums are opened with, after a sum of ranges, or of marks.

        Args:
            purpose: of the sum.
            opening: of the sum.
            total: int64 [length], the sum.

        Raises:
            ProtocolError: no clients that follow the protocol have such a sum.
        """
        if purpose is SumKind.RANGES:
            return Opening(opening.layout, self.levels(opening).bounds(total))
        least = needed_marks(self.scheme, self.clients, self.k_min)
        return replace(opening, opened=opened_entries(total, self.clients, least))

    def exceeds_range(self, purpose: SumKind, opening: Opening, mapping: Tree) -> bool:
        """Whether a client vetoes a sum, since a number of its mapping is beyond the range that was found.

        Raises:
            InputError, FieldRangeError: see `RangeLevels.encode`.
        """
        return purpose is SumKind.WATCHED and self.levels(opening).exceeds_range(mapping)

    def vector(
        self,
        purpose: SumKind,
        opening: Opening,
        mapping: Tree,
        weight: float,
        coins: Coins,
        errors: RoundingErrors | None = None,
    ) -> Integers:
        """What a client adds to a sum of a round: int64 [length].

        Args:
            purpose: of the sum.
            opening: of the sum.
            mapping: of the client, who does not veto the sum.
            weight: of the client.
            coins: of the client.
            errors: rounding errors of the client, where they are fed back.

        Raises:
            InputError, FieldRangeError: a mapping or weight that cannot be written; names the key.
        """
        if purpose is SumKind.RANGES:
            rounds = self.scheme.precision is not None
            weighed = weigh_tensors(opening.layout, mapping, self.weighing, weight, errors) if rounds else None
            return self.levels(opening).encode(mapping, coins, weighed)
        encoded = self.code(opening, coins, errors).encode(mapping, weight)
        return _counts_of(encoded) if purpose is SumKind.CONTRIBUTOR_COUNT else only_opened(encoded, opening.opened)

    def levels(self, opening: Opening) -> RangeLevels:
        """The levels of a sum that finds ranges, above those that are known.

        At a precision ranges of numbers times weights are found anew for each round, to within a factor of two and
        with nothing to spare, so that no bit of a number goes unused.
        """
        if self.scheme.modulus is None:
            raise InputError(f"ranges must be given under {self.scheme.name}; found none")
        layout, bounds = opening.layout, opening.bounds
        if self.scheme.precision is None:
            return _levels(layout, self.scheme.modulus, None if bounds is None else _items(bounds))
        spare = 0 if self.watched else HEADROOM_BITS
        weight_bits = max(math.ceil(math.log2(self.weighing.bound)), 0)
        return RangeLevels(layout, self.scheme.modulus, None, _FINE_STEP, spare, weight_bits)

    def code(self, opening: Opening, coins: Coins | None = None, errors: RoundingErrors | None = None) -> Code:
        """How mappings are written.

        Args:
            opening: of the sum.
            coins: of a client that adds noise, or rounds at random.
            errors: rounding errors of a client, where they are fed back.

        Raises:
            FieldRangeError: the scheme's sums have no room for such numbers.
            InputError: noise cannot be added to such mappings.
        """
        layout, bounds = opening.layout, opening.bounds
        if self.privacy is not None:
            return NoisyEncoding(layout, self.privacy, self.perturbation(layout), coins)
        result = bounds is not None
        if bounds is None:
            bounds = {entry.name: bound_for(entry, self.bound or math.nan) for entry in layout.floats}
        if self.scheme.precision is not None:
            heaviest = 1.0 if result else max(self.weighing.bound, 1.0)
            return RoundedEncoding.for_sums(
                layout,
                {name: bound * heaviest for name, bound in bounds.items()},
                self.scheme.precision,
                limit=self.scheme.limit(self.clients) or _LARGEST_SUM,
                clients=self.clients,
                weighing=self.weighing,
                feedback=self.feeds_back,
                integers=self.integers,
                largest=None if result else self.bound,
                clip=self.clip,
                coins=coins,
                kept=errors,
            )
        encoding = _encoding(
            layout,
            _items(bounds),
            limit=self.scheme.limit(self.clients) or _LARGEST_SUM,
            clients=self.clients,
            weighing=self.weighing,
            fraction_bits=self.fraction_bits,
            integers=self.integers,
            clip=self.clip,
        )
        return replace(encoding, layout=layout)  # that which was kept may be of other devices, and in another order

    def perturbation(self, layout: TensorLayout) -> Perturbation:
        """Clip, grid and noise for mappings of a layout, under privacy."""
        if self.privacy is None:
            raise InputError("privacy must be asked for where noise is calibrated; found None")
        return perturbation_for(self.privacy, layout.size, self.threshold)

    @property
    def parties(self) -> Directory:
        """The server, and clients as silos."""
        return _parties(self.clients)

    @property
    def claim(self) -> Claim:
        """What the scheme promises for so many clients, and what the mean tells all the same."""
        claim = self.scheme.claim_for(self._sum_of(1, 1))
        if not claim.guarantees:
            return claim
        tells = "an entry to which one client alone contributes is that client's"
        if self.k_min > 1:
            tells = (
                f"how many clients contribute to each entry; those with fewer than {self.k_min} are never opened "
                "as long as server and clients follow the protocol"
            )
        leaks = [Leak(Secret.SUMMAND, Role.SERVER, Circumstance.SPARSE_SUM, tells)]
        if self.bound is None and self.privacy is None:
            leaks.append(Leak(Secret.SUMMAND, Role.SERVER, RangeCircumstance.FOUND_RANGE, self._range_leaks))
        return replace(claim, leaks_by_design=(*claim.leaks_by_design, *leaks))

    @property
    def _range_leaks(self) -> str:
        """What finding ranges tells, in words."""
        if self.scheme.precision is not None:
            when = "in every round" if self.watched else "in the first round"
            return (
                f"how large the numbers of each tensor times its weight are at the client that has the largest, to "
                f"within a factor of {2**_FINE_STEP}, {when}; never whose they are, nor how many clients have such"
            )
        tells = (
            "how large the numbers of each tensor are at the client that has the largest, to within a factor of "
            f"{2**STEP}, in the first round"
        )
        again = (
            " and in every round in which they outgrow the range that was found, and in all others that they do not; "
            "never whose they are, nor how many clients have such"
        )
        return tells + (again if self.watched else "")

    def topology(self, purpose: SumKind, opening: Opening) -> Topology:
        """One sum of a round, as client and server work it out alike.

        Raises:
            InputError, FieldRangeError: such sums are not exact or not private.
        """
        if purpose is SumKind.RANGES:
            return self._sum_of(self.levels(opening).length, None)
        if purpose is SumKind.CONTRIBUTOR_COUNT:
            return self._sum_of(opening.layout.size, 1)
        code = self.code(opening)
        topology = self._sum_of(code.width, code.bound, veto=purpose is SumKind.WATCHED)
        check_range(self.scheme, topology)
        return topology

    def ring(self, opening: Opening) -> ModularRing | None:
        """What vectors of the mean are masked in; None where they are not."""
        return self.scheme.ring_of(self.topology(SumKind.VALUES, opening))

    def step(self, purpose: SumKind, number: int) -> Step:
        """The step of one sum of a round."""
        if not 0 <= number < _MOST_ROUNDS:
            raise InputError(f"number of a round must lie in 0..2^32 - 1; found {number}")
        return Step(number, part=int(purpose))

    def session(self, session: bytes, opening: Opening) -> bytes:
        """What keys of a sum are bound to: the session, and a digest of how vectors are written.

        A server that told one client a small bound and the others a huge one would have the others' numbers round to 0,
        and the sum would be that one client's update: bound to different digests they have no sum at all. The same
        holds for entries that it told one client to be open and the others to be closed.

        Args:
            session: 16 public bytes.
            opening: of the sum.
        """
        if len(session) != SESSION_BYTES:
            raise InputError(f"session must have {SESSION_BYTES} bytes; found {len(session)}")
        return session + self._context(opening)

    def _sum_of(self, width: int, bound: int | None, *, veto: bool = False) -> Topology:
        return _topology(self.clients, width, bound, veto)

    def _context(self, opening: Opening) -> bytes:
        """SHA-256 of all that a vector means, beyond the numbers that terms name."""
        bounds = None if opening.bounds is None else sorted(opening.bounds.items())
        entries_digest = self.k_min, None if opening.opened is None else hashlib.sha256(opening.opened).hexdigest()
        bound, weighing = None if self.bound is None else float(self.bound), self.weighing
        weights = float(weighing.bound), weighing.fraction_bits
        parameters = bound, self.fraction_bits, *weights, self.integers, self.watched, self.clip
        noise = None if self.privacy is None else astuple(self.privacy)
        rounded = () if self.scheme.precision is None else (self.scheme.precision, self.scheme.rounding)
        stated = json.dumps(
            [opening.layout.digest.hex(), bounds, parameters, noise, entries_digest, self.agreed.hex(), *rounded]
        )
        return hashlib.sha256(b"fgl-secure vectors/v3" + stated.encode()).digest()


@lru_cache(maxsize=4)
def _parties(clients: int) -> Directory:
    return Directory({Role.SERVER: 1, Role.SILO: clients})


@lru_cache(maxsize=8)
def _topology(clients: int, width: int, bound: int | None, veto: bool) -> Topology:
    """One sum over clients; a round asks for it many times."""
    return replace(Topology.to_server(_parties(clients), width, bound), veto=veto)


Ranges = tuple[tuple[str, float], ...]
"""Largest magnitudes of floats, by name."""


def _items(bounds: Mapping[str, float]) -> Ranges:
    return tuple(bounds.items())


@lru_cache(maxsize=4)
def _levels(layout: TensorLayout, modulus: int, bounds: Ranges | None) -> RangeLevels:
    """Each client of a round needs them, and the server does twice."""
    return RangeLevels(layout, modulus, None if bounds is None else dict(bounds))


@lru_cache(maxsize=4)
def _encoding(layout: TensorLayout, bounds: Ranges, **options: Any) -> TensorEncoding:
    """The same."""
    return TensorEncoding.for_sums(layout, dict(bounds), **options)


def _check_rounded(rules: Rules) -> None:
    name = f"precision={rules.scheme.precision}"
    if rules.privacy is not None:
        raise InputError(
            f"precision must not be given under privacy: the noise makes the grid that numbers are rounded to, and is "
            f"larger than so few bits hold; found {name}"
        )
    if rules.k_min > 1:
        raise InputError(
            f"k_min must be 1 at a precision: a number that is marked may be rounded to 0, so that fewer contribute "
            f"than have marked; found {rules.k_min} and {name}"
        )
    if rules.fraction_bits is not None:
        raise InputError(f"fraction_bits must not be given with a precision; found {rules.fraction_bits} and {name}")


def _check_private(rules: Rules) -> None:
    if rules.bound is not None or rules.fraction_bits is not None:
        raise InputError(
            "bound and fraction_bits must not be given under privacy: the clip is the bound, and the noise makes the "
            f"grid; found {rules.bound} and {rules.fraction_bits}"
        )
    if rules.k_min > 1:
        raise InputError(f"k_min must be 1 under privacy, which counts of contributors would undo; found {rules.k_min}")
    if rules.weighing.fraction_bits:
        raise InputError(f"weight_fraction_bits must be 0 under privacy; found {rules.weighing.fraction_bits}")
