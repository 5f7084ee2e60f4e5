"""The messages of the relay-coded scheme: their fields, and what of them counts as bytes.

Some fields repeat what both ends know without being told: the slot of a share that follows its header, the tag of an
answer that comes in the order of the fetches. They are there so that messages that arrive alone, twice or in another
order find their place; on an orderly network sequence numbers do that, and so they are taken off the overhead.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from fgl_secure.errors import MalformedMessageError
from fgl_secure.runtime import LazyArray, Messages, Phase, Step
from fgl_secure.typing import Array, Ids

TAG_BYTES = 16
AUTHENTICATION_BYTES = 16
"""What authenticated encryption adds to a message."""
SEED_BYTES = 32
HEADER_BYTES = TAG_BYTES + 2 + 1 + AUTHENTICATION_BYTES
"""Tag, slot and attempt of a message from a sender that the relay knows."""
TICKET_BYTES = 8
COUNT_BYTES = 4 + AUTHENTICATION_BYTES
MOST_SLOTS = 2**16
MOST_COORDINATES = 2**22
"""Of a row: a few bytes must not make a relay expand more than it can hold."""

TAG, OPENING, SLOT, ATTEMPT, NUMBER, SEED = "tag", "opening", "slot", "attempt", "number", "seed"
SHARE, WIDTH, COUNT, SUM, PLACE, RELAY = "share", "width", "count", "sum", "place", "relay"
AGREED, TICKET = "agreed", "ticket"


class Wire:
    """Makes messages for one run, or for all tapes at once.

    Args:
        tapes: leading axes of every field.
        seal_bytes: what sealing for a public key adds to a message, see `KeyAgreement.seal_bytes`.
    """

    def __init__(self, tapes: tuple[int, ...], seal_bytes: int) -> None:
        self._tapes, self._seal = tapes, seal_bytes

    @property
    def sealed_header_bytes(self) -> int:
        """Tag, number and attempt of a message from an unnamed sender; a seed adds SEED_BYTES."""
        return TAG_BYTES + 8 + 1 + self._seal

    def fetch_bytes(self, relays: int) -> int:
        """Of a fetch: what opens the tag at one of so many relays, and what the others hold of it, sealed."""
        return relays * TAG_BYTES + self._seal

    @property
    def axes(self) -> int:
        """How many tape axes there are."""
        return len(self._tapes)

    def say(
        self,
        phase: Phase,
        step: Step,
        ends: tuple[Ids, Ids],
        size: int,
        fields: Mapping[str, Array],
        *,
        sealed: bool = False,
    ) -> Messages:
        """Messages of so many bytes each.

        Args:
            phase: what they carry.
            step: when.
            ends: int64 [m] senders and receivers.
            size: bytes that one message is counted as.
            fields: [m, ...], the same on all tapes, or [*tapes, m, ...].
            sealed: whether somebody behind the receivers alone can open them.
        """
        spread = fields
        if self._tapes:
            spread = {name: self._on_every_tape(value, len(ends[0])) for name, value in fields.items()}
        behind = self.axes + 1
        inside = sum(math.prod(value.shape[behind:]) * value.itemsize for value in spread.values())
        return Messages(phase, step, *ends, spread, self.axes, size - inside, sealed)

    def _on_every_tape(self, value: Array, m: int) -> Array:
        if value.ndim > 1 and value.shape[: self.axes + 1] == (*self._tapes, m):
            return value
        return np.broadcast_to(value, (*self._tapes, *value.shape))

    def read(self, messages: Messages, name: str, kind: str, *shape: int) -> Array:
        """A field that is the same on all tapes: [m, *shape].

        Args:
            messages: that arrived.
            name: of the field.
            kind: of its entries, as numpy spells it.
            shape: behind the first axis.

        Raises:
            MalformedMessageError: it is missing, or of another type or shape.
        """
        value: Array = messages[name][(0,) * self.axes]
        if value.dtype.str != kind or value.shape[1:] != shape:
            raise MalformedMessageError(
                f"field {name} of {messages.phase.label} must be {kind} {[len(messages), *shape]}; "
                f"found {value.dtype.str} {list(value.shape)}"
            )
        return value

    def elements(self, messages: Messages, name: str, kind: np.dtype[Any], modulus: int) -> Array:
        """A field of elements: [*tapes, m, d].

        Raises:
            MalformedMessageError: it is missing, or holds something else.
        """
        value = messages[name]
        if value.dtype != kind or value.ndim != self.axes + 2:
            raise MalformedMessageError(
                f"field {name} of {messages.phase.label} must hold rows of {kind}; found {value.dtype}"
            )
        if isinstance(value, LazyArray):  # made in this process, of elements; what comes from elsewhere is an array
            return value
        if value.size and int(value.view(f"u{kind.itemsize}").max()) >= modulus:  # negative ones are large there
            raise MalformedMessageError(f"{messages.phase.label} must hold elements of the field; at least one is not")
        return value


def names_of(senders: Ids, slots: Array) -> Ids:
    """int64 [m]: one number for a sender, or the silo that forwards for one, and a slot, or a place, below 2^32."""
    return (senders << 32) | slots.astype(np.int64)


def places_among(wanted: Ids, known: Ids) -> Ids:
    """int64 [k]: where wanted numbers stand, or would, among known ones in ascending order."""
    # In ascending order each search stays near the one before: a third of the time of 13,000 random numbers.
    order = np.argsort(wanted)
    places = np.empty(len(wanted), dtype=np.int64)
    places[order] = np.searchsorted(known, wanted[order])
    return places


def found_among(wanted: Ids, known: Ids) -> Ids:
    """int64 [k]: the position of each wanted number among known ones in ascending order, or -1."""
    if not len(known):
        return np.full(len(wanted), -1, dtype=np.int64)
    place = np.minimum(places_among(wanted, known), len(known) - 1)
    return np.where(known[place] == wanted, place, -1)


def ranks(values: Ids) -> Ids:
    """int64 [m]: how many equal values stand before each."""
    order = np.argsort(values, kind="stable")
    in_order = values[order]
    out = np.empty(len(values), dtype=np.int64)
    out[order] = np.arange(len(values)) - np.searchsorted(in_order, in_order)
    return out


def ordered(groups: Ids, numbers: Ids) -> tuple[Ids, Ids]:
    """Rows by group, then number, both in one sort.

    Args:
        groups: int64 [m], near each other.
        numbers: int64 [m], not negative, all different in a group; of numbers with so many bits that they don't fit
            beside those of groups the last ones don't count.

    Returns:
        int64 [m], the rows in order, and int64 [m], how many rows of its group stand before each.
    """
    if not len(groups):
        return groups, groups
    groups = groups - groups.min()
    bits = int(groups.max()).bit_length()
    shift = max(int(numbers.max()).bit_length() + bits - 63, 0)
    order = np.argsort(groups << (63 - bits) | numbers >> shift)
    counts = np.bincount(groups)
    places = np.empty(len(order), dtype=np.int64)
    places[order] = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
    return order, places


def by_value(values: Ids) -> Iterator[tuple[int, Ids | None]]:
    """Each value and the places where it stands; None for all."""
    if len(values) and bool((values == values[0]).all()):
        yield int(values[0]), None
        return
    for value in np.unique(values).tolist():
        yield value, np.flatnonzero(values == value)
