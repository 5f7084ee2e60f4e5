"""Mappings of arrays at few bits a number: weighted, rounded at random, and in a range that leaves no bit unused."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.aggregation.arguments import number_of
from fgl_secure.aggregation.encoding import (
    REMEDY,
    IntegerRule,
    cast_error,
    checked_integers,
    mean_of_integers,
    named,
    positive,
)
from fgl_secure.aggregation.layout import Entry, Layout, Tree, entries_of, reals_of
from fgl_secure.algebra.low_precision import LowPrecision
from fgl_secure.algebra.quantization import Integers, Weighing, check_finite, largest_magnitude
from fgl_secure.coins import Coins
from fgl_secure.errors import FieldRangeError, InputError, MalformedMessageError, ProtocolError
from fgl_secure.runtime.packing import packed, unpacked

Reals = NDArray[np.float64]


@dataclass(slots=True, eq=False)
class KeptErrors:
    """What one client's numbers were rounded by in the round before, which it adds to those of the next: secret.

    It never leaves the client but in sums. An error counts only once the round it comes from has gone through
    (`settle`), so that a round that is begun again begins from the same numbers.

    Attributes:
        of: digest of the layout that they are of; empty before the first round.
        errors: float64, of all floats in the order of their layout, times weights.
    """

    of: bytes = b""
    errors: Reals = field(default_factory=lambda: np.zeros(0), repr=False)
    _next: tuple[bytes, Reals] | None = field(default=None, repr=False)

    def added(self, layout: Layout) -> Reals:
        """What is added to the floats of a layout: zeros where nothing is kept of such a one."""
        size = sum(entry.size for entry in layout.floats)
        return self.errors if self.of == layout.digest else np.zeros(size)

    def note(self, layout: Layout, errors: Reals) -> None:
        """Takes down the errors of a round that is under way."""
        self._next = layout.digest, errors

    def to_bytes(self) -> bytes:
        """All of it, for `from_bytes`; secret."""
        digest, errors = self._next or (b"", np.zeros(0))
        return packed([self.of, self.errors.astype("<f8").tobytes(), digest, errors.astype("<f8").tobytes()])

    @classmethod
    def from_bytes(cls, data: bytes) -> KeptErrors:
        """What was written.

        Raises:
            MalformedMessageError: it is nothing that a client keeps.
        """
        of, errors, digest, following = unpacked(data, 4)
        if len(errors) % 8 or len(following) % 8:
            raise MalformedMessageError("kept errors must be numbers of 8 bytes; they are not")
        made = cls(of, np.frombuffer(errors, dtype="<f8"))
        made._next = (digest, np.frombuffer(following, dtype="<f8")) if digest else None
        return made

    def settle(self) -> None:
        """The round has gone through, as far as this client can tell."""
        if self._next is not None:
            (self.of, self.errors), self._next = self._next, None


@dataclass(frozen=True, slots=True)
class RoundedEncoding:
    """Numbers times weights at few bits, and integers in digits.

    A client with weight w hands in the multiple of its tensor's unit that w x is rounded to, for every float x; and
    digits of w n for every integer n, and of w itself. A number is rounded to one of the two multiples beside it, at
    random and right on average (`rounded_stochastically`).

    The error of the mean over k clients with weights that add up to W. Every number is less than a unit off, so a mean
    is less than k unit / W off from that of the numbers, and on average it is right. With weight fraction bits g, W is
    off by up to k 2^-(g + 1), and the mean by as large a part of it. Then come the division and the tensor's type, as
    in `Encoding`. Where errors are fed back, the mean is that of the numbers with what was kept of the round before.

    Attributes:
        layout: of the mappings.
        numbers: how floats and integers are written: a part for each float tensor; whole are all integers in the
            layout's order, and the weight.
        integer_bound: largest magnitude of an integer.
        weighing: what weights there may be.
        integers: what the mean of integers is.
        largest: of a float before it is weighted; None where ranges were found.
        clip: whether floats beyond that count as it; else they are an error.
        coins: of the client, for rounding; None where vectors are only decoded.
        kept: what the client keeps of its errors; None where they are not fed back.
    """

    layout: Layout
    numbers: LowPrecision
    integer_bound: int
    weighing: Weighing
    integers: IntegerRule = IntegerRule.ROUND
    largest: float | None = None
    clip: bool = False
    coins: Coins | None = field(default=None, repr=False)
    kept: KeptErrors | None = field(default=None, repr=False)

    @classmethod
    def for_sums(
        cls,
        layout: Layout,
        bounds: Mapping[str, float],
        bits: int,
        *,
        limit: int,
        clients: int,
        weighing: Weighing,
        feedback: bool = False,
        **rest: Any,
    ) -> RoundedEncoding:
        """The encoding at so many bits.

        Args:
            layout: of the mappings.
            bounds: largest magnitude of a float times its client's weight, by name.
            bits: of a number.
            limit: the largest sum of integers.
            clients: how many vectors are added up at most.
            weighing: what weights there may be.
            feedback: whether errors are fed back.
            rest: see the class.

        Raises:
            FieldRangeError: the limit has no room for the weights.
            InputError: a bound is missing or no positive number.
        """
        room = limit // clients // weighing.most
        if room < 1:
            raise FieldRangeError(
                f"clients * weight_bound * 2^weight_fraction_bits must stay within the limit {limit:,}; found "
                f"{clients} * {weighing.most:,}"
            )
        floats, others = layout.floats, [entry for entry in layout.entries if not entry.is_float]
        lengths = tuple(entry.size for entry in floats)
        parts = tuple(bounds.get(entry.name, math.nan) for entry in floats)
        whole, most = sum(entry.size for entry in others) + 1, (room if others else 1) * weighing.most
        return cls(layout, LowPrecision(bits, lengths, parts, whole, most, feedback), room, weighing, **rest)

    @property
    def bounds(self) -> Mapping[str, float]:
        """Largest magnitude of a float times its weight, by name."""
        return {entry.name: bound for entry, bound in zip(self.layout.floats, self.numbers.bounds, strict=True)}

    @property
    def units(self) -> Mapping[str, float]:
        """What a difference of 1 stands for in a number times its weight, by float tensor."""
        return dict(zip(self.bounds, self.numbers.units.tolist(), strict=True))

    @property
    def bound(self) -> int:
        """2^(bits - 1) - 1."""
        return self.numbers.largest

    @property
    def width(self) -> int:
        """Of a vector."""
        return self.numbers.width

    def brought(self, mapping: Tree, weight: float) -> dict[str, Reals]:
        """What a client brings of each float tensor before it is rounded: float64 [size], times its weight.

        Raises:
            InputError: another layout, NaN or infinity (names the key), or no such weight.
            FieldRangeError: a number beyond a bound that was given (names the key and the bound, not the number).
        """
        return brought(self.layout, mapping, self.weighing, weight, self.kept, self.largest, clip=self.clip)

    def encode(self, mapping: Tree, weight: float = 1) -> Integers:
        """The vector of a mapping, int64 [width]; rounded anew each time.

        Raises:
            InputError, FieldRangeError: see `brought`; or an integer beyond its bound.
        """
        if self.coins is None:
            raise InputError("coins must be given where numbers are rounded; found none")
        reals, units = self.brought(mapping, weight), self.weighing.units(number_of(weight, "weight"))
        arrays = self.layout.arrays(mapping)
        integers = [
            checked_integers(entry, entries_of(arrays[entry.name]), self.integer_bound) * units
            for entry in self.layout.entries
            if not entry.is_float
        ]
        whole = np.concatenate([*integers, np.array([units])]).astype(np.int64)
        vector, errors = self.numbers.encode(np.concatenate([np.zeros(0), *reals.values()]), whole, self.coins)
        if self.kept is not None:
            self.kept.note(self.layout, errors)
        return vector

    def decode(self, total: Integers) -> Any:
        """The weighted mean, in the kinds, types and on the devices of the layout.

        Raises:
            InputError: all weights are 0, or a mean of integers is none (names the key).
            ProtocolError: a sum is none that clients have that follow the protocol.
        """
        reals, integers = self._decoded(total)
        weight, parts, at, floats = positive(int(integers[-1])), dict[str, NDArray[Any]](), 0, 0
        for entry in self.layout.entries:
            if entry.is_float:
                parts[entry.name] = reals[floats : floats + entry.size] / self._weight(weight)
                floats += entry.size
            else:
                own = integers[at : at + entry.size]
                if largest_magnitude(own) > weight * self.integer_bound:
                    raise ProtocolError(
                        f"mean under {entry.name!r} must lie within the bound of the numbers; it does not, so that a "
                        f"client must have handed in something else"
                    )
                parts[entry.name] = mean_of_integers(own, weight, entry, self.integers)
                at += entry.size
        return self.layout.built(parts)

    def weight(self, total: Integers) -> int:
        """The sum of the weights."""
        return int(self._decoded(total)[1][-1])

    def errors(self, total: Integers, clients: int) -> dict[str, float]:
        """The stated bound of the error, by tensor, for this sum of so many vectors; see the class."""
        reals, integers = self._decoded(total)
        weight, found, floats, g = positive(int(integers[-1])), {}, 0, self.weighing.fraction_bits
        for entry in self.layout.entries:
            if not entry.is_float:
                found[entry.name] = 0.5 if self.integers is IntegerRule.ROUND else 0.0
                continue
            magnitude = largest_magnitude(reals[floats : floats + entry.size]) / self._weight(weight)
            off = magnitude * clients / (2 * weight) if g else 0.0
            rounding = clients * self.units[entry.name] / self._weight(weight)
            found[entry.name] = rounding + off + cast_error(entry.dtype, magnitude)
            floats += entry.size
        return found

    def _weight(self, units: int) -> float:
        return units * 2.0**-self.weighing.fraction_bits

    def _decoded(self, total: Integers) -> tuple[Reals, Integers]:
        if total.dtype != np.int64 or total.shape != (self.width,):
            raise InputError(f"total must be int64 [{self.width}]; found {total.dtype} {list(total.shape)}")
        return self.numbers.decode(total)


def brought(
    layout: Layout,
    mapping: Tree,
    weighing: Weighing,
    weight: float,
    kept: KeptErrors | None = None,
    largest: float | None = None,
    *,
    clip: bool = False,
) -> dict[str, Reals]:
    """See `RoundedEncoding.brought`."""
    arrays, found, at = layout.arrays(mapping), dict[str, Reals](), 0
    weighing.units(number_of(weight, "weight"))
    added = np.zeros(0) if kept is None else kept.added(layout)
    for entry in layout.floats:
        reals = _within(entry, reals_of(arrays[entry.name]), largest, clip=clip) * float(weight)
        if kept is not None:
            reals = reals + added[at : at + entry.size]
            at += entry.size
        found[entry.name] = reals
    return found


def _within(entry: Entry, reals: Reals, largest: float | None, *, clip: bool) -> Reals:
    """Raises unless numbers are within a bound, or are clipped to it."""
    found = check_finite(reals, named(entry), REMEDY)
    if largest is None or found <= largest:
        return reals
    if not clip:
        raise FieldRangeError(f"{named(entry)} must not exceed the bound {largest:g}; at least one does: {REMEDY}")
    return np.asarray(reals.clip(-largest, largest))
