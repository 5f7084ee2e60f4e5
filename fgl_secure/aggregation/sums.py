"""The sums of a round: what they are for, how they are asked for, and what they find for each other.

Ranges are found by a sum that reveals nothing else, a secure maximum. Entries of a mean to which few clients contribute
are found by a sum of marks, and are not opened.

An entry of a sum to which one client alone contributed is that client's. So clients first add up marks, 1 for every
entry of their vector that is not 0, and then hand in 0 at the entries that too few have marked. Clients may vanish
between the two sums, `clients` - `threshold` of them at most, or there is no mean: an entry is opened if that many more
than k_min have marked it. The server learns how many clients contribute to each entry, and nothing at all of the values
of those that stay closed.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.aggregation.arguments import DEFAULT_LIMITS, Limits
from fgl_secure.aggregation.encoding import bound_for, field_name
from fgl_secure.aggregation.layout import LARGEST, SMALLEST, TensorEntry, TensorLayout, Tree
from fgl_secure.algebra.checks import finite, largest_magnitude
from fgl_secure.algebra.levels import Levels
from fgl_secure.coins import Coins
from fgl_secure.errors import FieldRangeError, InputError, MalformedMessageError, ProtocolError
from fgl_secure.runtime import Messages, decode, encode
from fgl_secure.runtime.messages import SESSION_BYTES
from fgl_secure.runtime.packing import pack, unpack
from fgl_secure.typing import Flags, Integers


class SumKind(IntEnum):
    """What a sum of a round is for."""

    RANGES = 0
    """How large the numbers are."""
    CONTRIBUTOR_COUNT = 1
    """How many clients contribute to each entry."""
    VALUES = 2
    """The mean."""
    WATCHED = 3
    """The mean, unless numbers have exceeded the ranges that were found: whose have vetoes it, see `Scheme.vetoes`."""

    @property
    def is_mean(self) -> bool:
        """Whether the mean is decoded from it."""
        return self in (SumKind.VALUES, SumKind.WATCHED)

    def may_follow(self, before: SumKind) -> bool:
        """Whether a sum for this comes, in one round, after one for `before`: after a mean only where it was vetoed."""
        return self is SumKind.RANGES if before is SumKind.WATCHED else before < self < SumKind.WATCHED


LOWEST = -40
"""Binary exponent of the first level above zero; smaller numbers count as this large."""
STEP = 2
"""Levels go by factors of 2^STEP: the maximum is told to within that, and not more closely."""
HEADROOM_BITS = 4
"""A range is 2^HEADROOM_BITS times what was found, for later rounds: parameters grow. Where they have exceeded one,
twice as many bits are left: what grows on costs two more sums whenever it does."""
ZERO_BOUND = 1.0
"""Taken for a tensor that is zero at all clients, which says nothing of its range: biases that are yet untrained."""


@dataclass(frozen=True, slots=True)
class RangeLevels:
    """The levels that clients tell they reach, for every float tensor; integers need no range.

    For each tensor there is a row of levels: the first is reached by a client that has a number other than zero there,
    the others by one with a magnitude above 2^e, for e = LOWEST, LOWEST + step, ... up to what the type holds; see
    `Levels` for how they are told, and what that tells.

    Where ranges are known already, levels within them are left out, and the lowest level of a tensor is reached by who
    has exceeded its range. So as long as no party has, the sum is 0 and tells nothing but that.

    Attributes:
        layout: of the mappings.
        modulus: p, of the scheme's field.
        known: ranges that were found before, by tensor; None where none were.
        step: levels go by factors of 2^step.
        headroom_bits: a range is 2^headroom_bits times what is found, and one that was exceeded 4^headroom_bits times.
        weight_bits: numbers are told times weights of up to 2^weight_bits.
    """

    layout: TensorLayout
    modulus: int
    known: Mapping[str, float] | None = None
    step: int = STEP
    headroom_bits: int = HEADROOM_BITS
    weight_bits: int = 0
    _exponents: Mapping[str, Sequence[int]] = field(init=False, repr=False, compare=False)
    _levels: Levels = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        exponents, levels = {}, []
        for entry in self.layout.floats:
            floor = self._floor(entry.name)
            above = [e for e in _exponents(entry, self.step, self.weight_bits) if 2.0**e > floor]
            exponents[entry.name] = above
            levels.append((floor, *(2.0**e for e in above))[: len(above)])
        object.__setattr__(self, "_exponents", exponents)
        object.__setattr__(self, "_levels", Levels(self.modulus, tuple(levels)))

    @property
    def length(self) -> int:
        """Entries of a vector; 0 where there are no floats."""
        return self._levels.length

    def encode(
        self, mapping: Tree, coins: Coins, weighed: Mapping[str, NDArray[np.floating[Any]]] | None = None
    ) -> Integers:
        """The vector of a mapping, int64 [length], fresh each time.

        Args:
            mapping: of this layout.
            coins: of the client.
            weighed: by tensor, float64, what is told of in place of the mapping's own numbers.

        Raises:
            InputError: another layout, NaN or infinity; names the key.
            FieldRangeError: a number beyond the last level.
        """
        if weighed is None:
            return self._levels.encode(list(self._magnitudes(mapping).values()), coins)
        magnitudes = [(entry, largest_magnitude(weighed[entry.name])) for entry in self.layout.floats]
        return self._levels.encode([self._check_bound(*item) for item in magnitudes], coins)

    def exceeds_range(self, mapping: Tree) -> bool:
        """Whether a mapping has a number beyond the range that is known.

        Raises:
            InputError, FieldRangeError: see `encode`.
        """
        return any(size > self._floor(name) for name, size in self._magnitudes(mapping).items())

    def bounds(self, total: Integers) -> dict[str, float]:
        """A bound for every float tensor, from the sum of the vectors modulo p: a power of two, with headroom.

        Where no level is reached, it is the known one.

        Raises:
            ProtocolError: a level is reached, and one below it is not: some vector was none of these.
        """
        if total.shape != (self.length,):
            raise InputError(f"total must be int64 [{self.length}]; found {list(total.shape)}")
        result, entries = {}, self.layout.floats
        for entry, count in zip(entries, self._levels.reached_levels(total, [e.name for e in entries]), strict=True):
            if self.known is not None and not count:
                result[entry.name] = self.known[entry.name]
                continue
            largest = ZERO_BOUND if not count else 2.0 ** self._exponents[entry.name][count - 1]
            spare = self.headroom_bits * (1 if self.known is None else 2)
            room = min(spare, 1024 - math.frexp(largest)[1])
            bound = math.ldexp(largest, room)
            result[entry.name] = bound if self.weight_bits else bound_for(entry, bound)
        return result

    def _floor(self, name: str) -> float:
        """What is known of a tensor's magnitude: who exceeds it reaches the lowest level."""
        return 0.0 if self.known is None else self.known[name]

    def _magnitudes(self, mapping: Tree) -> dict[str, float]:
        """The largest magnitude of every float tensor, by name."""
        arrays = self.layout.arrays(mapping)
        return {entry.name: self._check_bound(entry, arrays.largest(entry.name)) for entry in self.layout.floats}

    def _check_bound(self, entry: TensorEntry, largest: float) -> float:
        magnitude, most = finite(largest, field_name(entry)), _highest(entry, self.weight_bits)
        if magnitude > 2.0**most:
            raise FieldRangeError(f"numbers under {entry.name!r} must not exceed 2^{most}; at least one does")
        return magnitude


def _exponents(entry: TensorEntry, step: int, weight_bits: int) -> list[int]:
    """For each level the exponent that magnitudes stay within when it is the highest one reached."""
    lowest, highest = max(LOWEST, SMALLEST[entry.dtype]), _highest(entry, weight_bits)
    return [*range(lowest, highest, step), highest]


def _highest(entry: TensorEntry, weight_bits: int) -> int:
    """The last of them."""
    return min(LARGEST[entry.dtype] + weight_bits, 1023)


def opened_entries(total: Integers, clients: int, least: int) -> bytes:
    """Which entries are opened, a bit for each of P, from the sum of the marks int64 [P].

    Args:
        total: of the marks.
        clients: who may have marked an entry.
        least: fewest marks of an entry that is opened.

    Raises:
        ProtocolError: an entry has more marks than there are clients, or fewer than none.
    """
    if total.size and not 0 <= int(total.min()) <= int(total.max()) <= clients:
        raise ProtocolError(
            f"entries must be marked by at most {clients} clients; one is not, so that a client must have handed in "
            "something else"
        )
    return np.packbits(total >= least).tobytes()


def read_entries(data: bytes, size: int) -> Flags:
    """Such bits, bool [size].

    Raises:
        MalformedMessageError: they are of another number of entries.
    """
    if len(data) != -(-size // 8):
        raise MalformedMessageError(f"opened entries must be a bit for each of {size}; found {len(data)} bytes")
    return np.unpackbits(np.frombuffer(data, dtype=np.uint8), count=size).astype(np.bool_)


def only_opened(vector: Integers, bits: bytes | None) -> Integers:
    """A vector int64 [P + 1] with 0 at the entries that stay closed; None opens all."""
    if bits is None:
        return vector
    out: Integers = vector.copy()
    out[:-1][~read_entries(bits, len(vector) - 1)] = 0
    return out


_HEAD = struct.Struct(f">{SESSION_BYTES}sIB")


@dataclass(frozen=True, slots=True)
class Opening:
    """What a sum of a round is opened with: the server says it with the first request.

    Attributes:
        layout: of the mappings.
        bounds: largest magnitude of a float, by name; None where the rules give them, or they are to be found.
        opened: which entries are opened, a bit for each; None where all are, or where that is to be found.
    """

    layout: TensorLayout
    bounds: Mapping[str, float] | None = None
    opened: bytes | None = None

    def to_bytes(self) -> bytes:
        """Return all of it, for `from_bytes`."""
        bounds = b"" if self.bounds is None else json.dumps(dict(self.bounds)).encode()
        return pack([self.layout.to_bytes(), bounds, self.opened or b""])

    @classmethod
    def from_bytes(cls, data: bytes, limits: Limits = DEFAULT_LIMITS) -> Opening:
        """Read what was written.

        Args:
            data: as it arrived.
            limits: of the party that reads it.

        Raises:
            MalformedMessageError: it is no opening, is beyond a limit, its bounds are not one positive number for
                each float tensor, or it opens other entries than there are.
        """
        layout_bytes, bounds, entry_bits = unpack(data, 3)
        limits.check_layout(bounds)
        layout, result = TensorLayout.from_bytes(layout_bytes, limits), _bounds(bounds) if bounds else None
        if result is not None and set(result) != {entry.name for entry in layout.floats}:
            raise MalformedMessageError("bounds must be given for all float tensors and for nothing else; they are not")
        if entry_bits:
            read_entries(entry_bits, layout.size)
        return cls(layout, result, entry_bits or None)


@dataclass(frozen=True, slots=True)
class SumRequest:
    """A message of the server to a client.

    Attributes:
        session: 16 public bytes.
        number: of the round in the session.
        purpose: of the sum that it belongs to.
        opening: with the first request of a sum.
        batches: messages of the machines, as bytes; none in a first request.
    """

    session: bytes
    number: int
    purpose: SumKind
    opening: Opening | None
    batches: tuple[bytes, ...] = ()

    def to_bytes(self) -> bytes:
        """For `from_bytes`."""
        opening = b"" if self.opening is None else self.opening.to_bytes()
        head = _HEAD.pack(self.session, self.number, self.purpose)
        return pack([head, opening, pack(self.batches)])

    @classmethod
    def from_bytes(cls, data: bytes, limits: Limits = DEFAULT_LIMITS) -> SumRequest:
        """What was written.

        Args:
            data: as it arrived.
            limits: of the party that reads it.

        Raises:
            MalformedMessageError: it is no request, or beyond a limit.
        """
        limits.check_message(data)
        head, opening, batches = unpack(data, 3)
        if len(head) != _HEAD.size or head[-1] not in set(SumKind):
            raise MalformedMessageError("request must say of which round its sum is, and what it is for; it does not")
        session, number, purpose = _HEAD.unpack(head)
        parsed_opening = Opening.from_bytes(opening, limits) if opening else None
        return cls(session, number, SumKind(purpose), parsed_opening, tuple(unpack(batches, most=limits.batches)))


def batches_to_bytes(batches: Iterable[Messages], session: bytes) -> tuple[bytes, ...]:
    """Messages of a machine, a string for each batch."""
    return tuple(encode(messages, session) for messages in batches)


def batches_from_bytes(data: Iterable[bytes], session: bytes, sender: int, receiver: int) -> list[Messages]:
    """The messages that one party sent another.

    Raises:
        MalformedMessageError: they are none, or from or for another party.
        StaleMessageError: they are of another session.
    """
    result = [decode(item, session) for item in data]
    for messages in result:
        if not ((messages.senders == sender).all() and (messages.receivers == receiver).all()):
            raise MalformedMessageError("messages must be from who sent them, for who gets them; at least one is not")
    return result


def _bounds(data: bytes) -> dict[str, float]:
    try:
        bounds = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise MalformedMessageError("bounds must be numbers by name; they are not") from error
    if not isinstance(bounds, dict) or not all(
        type(b) is float and math.isfinite(b) and b > 0 for b in bounds.values()
    ):
        raise MalformedMessageError("bounds must be positive numbers by name; they are not")
    return bounds
