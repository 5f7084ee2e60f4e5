"""What one relay holds of the messages of one step, whatever the network did to them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra import Elements, PrimeField, Segments
from fgl_secure.errors import MalformedMessageError, ProtocolError
from fgl_secure.protocols.relay_coded import wire
from fgl_secure.protocols.relay_coded.code import grouped_by_tag
from fgl_secure.protocols.relay_coded.silos import as_array, numbered, within
from fgl_secure.protocols.relay_coded.wire import Wire, found_among, names_of
from fgl_secure.runtime import LazyArray, Messages, Phase
from fgl_secure.runtime.messages import take_rows
from fgl_secure.typing import Array, Ids

Remark = Callable[[int, str], None]


@dataclass(slots=True, eq=False)
class Held:
    """Messages in ascending order of their names; each is there whole, and once.

    Attributes:
        names: int64 [m], see `wire.names_of`.
        tags: int64 [m, 2].
        numbers: int64 [m], of messages of unnamed senders; as many as there are, or none.
        attempts: uint8 [m].
        seeds: int64 [m, 4], or none.
        shares: elements [*batch, m, d], or not laid out [m, d]; None where the relay expands its shares.
        width: coordinates of a share.
    """

    names: Ids
    tags: Ids
    numbers: Ids
    attempts: NDArray[np.uint8]
    seeds: Ids
    shares: Elements | LazyArray | None
    width: int
    _digest: Ids | None = None

    def __len__(self) -> int:
        return len(self.names)

    def some(self, which: Ids) -> Held:
        """Some of them, in their order."""
        if len(which) == len(self.names):
            return self
        return self.at(which)

    def at(self, places: Ids) -> Held:
        """Those at some places, in that order."""
        numbers = self.numbers[places] if len(self.numbers) else self.numbers
        seeds = self.seeds[places] if len(self.seeds) else self.seeds
        shares = None if self.shares is None else take_rows(self.shares, places, -2)
        return Held(self.names[places], self.tags[places], numbers, self.attempts[places], seeds, shares, self.width)

    def digest(self, *, tags: bool = True) -> Ids:
        """SHA-256 over names and headers, int64 [4]: relays that hold the same say the same.

        Seeds and shares differ between relays and stay out.

        Args:
            tags: whether messages have the same tags at all relays; labels differ, and are told nobody.
        """
        if self._digest is None:
            hashed = hashlib.sha256()
            for part in (self.names, *([self.tags] if tags else []), self.numbers, self.attempts):
                hashed.update(np.ascontiguousarray(part).data)
            self._digest = np.frombuffer(hashed.digest(), dtype=np.int64)
        return self._digest

    def by_tag(self) -> tuple[Ids, Segments]:
        """The distinct tags, int64 [t, 2] in ascending order, and the messages of each."""
        return grouped_by_tag(self.tags)

    def state(self) -> dict[str, Array]:
        """All of it as arrays by name."""
        arrays = {name: getattr(self, name) for name in _COLUMNS} | {"width": np.asarray(self.width, dtype=np.int64)}
        return arrays if self.shares is None else {**arrays, "shares": np.asarray(self.shares)}

    @classmethod
    def of_state(cls, state: Mapping[str, Array]) -> Held:
        """Reads such arrays."""
        names, tags, numbers, attempts, seeds = (state[name] for name in _COLUMNS)
        return cls(names, tags, numbers, attempts, seeds, state.get("shares"), int(state["width"]))


_COLUMNS = ("names", "tags", "numbers", "attempts", "seeds")


_OPTIONAL = (wire.NUMBER, wire.SEED)


class Arrivals:
    """Headers and shares at one relay, as they arrive.

    Args:
        wire_: reads messages.
        field: of the shares.
        expands: whether the relay expands its shares itself.
    """

    def __init__(self, wire_: Wire, field: PrimeField, *, expands: bool) -> None:
        self._wire, self._field, self._expands = wire_, field, expands
        self._headers: list[Messages] = []
        self._shares: list[Messages] = []

    @property
    def any(self) -> bool:
        """Whether anything has arrived."""
        return bool(self._headers or self._shares)

    def check(self, messages: Messages) -> None:
        """Raises unless headers or shares are such as senders send.

        Raises:
            MalformedMessageError: they are not.
        """
        self._slots(messages)
        if messages.phase is Phase.SHARES:
            self._wire.elements(messages, wire.SHARE, self._field.dtype, self._field.modulus)
            return
        self._wire.read(messages, wire.TAG, "<i8", 2)
        self._wire.read(messages, wire.ATTEMPT, "|u1")
        if wire.NUMBER in messages.fields:
            self._wire.read(messages, wire.NUMBER, "<i8")
        if wire.SEED in messages.fields:
            self._wire.read(messages, wire.SEED, "<i8", 4)
        if self._expands:
            widths = self._wire.read(messages, wire.WIDTH, "<u4")
            if len(widths) and not 1 <= int(widths.min()) <= int(widths.max()) <= wire.MOST_COORDINATES:
                raise MalformedMessageError(
                    f"rows must have 1 to {wire.MOST_COORDINATES:,} coordinates; at least one has not"
                )
        if self._headers and any((name in messages.fields) != (name in self._headers[0].fields) for name in _OPTIONAL):
            raise MalformedMessageError("headers of one step must all have numbers and seeds, or none; they do not")

    def forget(self) -> None:
        """Forgets all that arrived: what counts has been added up."""
        self._headers, self._shares = [], []

    def take(self, messages: Messages) -> None:
        """Takes headers or shares that were checked."""
        (self._shares if messages.phase is Phase.SHARES else self._headers).append(messages)

    def _slots(self, messages: Messages) -> Array:
        kind = "<u2" if messages[wire.SLOT].dtype == np.uint16 else "<u4"
        return self._wire.read(messages, wire.SLOT, kind)

    def held(self, name_of: Callable[[int], str], relay: int, remark: Remark) -> Held:
        """The messages that are there whole.

        Args:
            name_of: what parties are called.
            relay: party identifier.
            remark: where to note what came twice.

        Raises:
            ProtocolError: one arrived twice with different contents, or rows have different widths.
        """
        listed = [self._header(messages) for messages in self._headers]
        held = _joined(listed) if listed else _nothing()
        if not _ascending(held.names):
            order, repeated = _in_order(held.names)
            self._check_repeats(held, order, repeated, name_of, relay, remark)
            held = held.at(order)
        return held if self._expands else self._with_shares(held, name_of, relay, remark)

    def _header(self, messages: Messages) -> Held:
        read = self._wire.read
        none: Ids = np.empty(0, dtype=np.int64)
        names = names_of(messages.senders, self._slots(messages))
        numbers = read(messages, wire.NUMBER, "<i8") if wire.NUMBER in messages.fields else none
        seeds = read(messages, wire.SEED, "<i8", 4) if wire.SEED in messages.fields else none
        width = 0
        if self._expands and len(messages):
            widths = read(messages, wire.WIDTH, "<u4")
            width = int(widths[0]) if (widths == widths[0]).all() else -1
        tags, attempts = read(messages, wire.TAG, "<i8", 2), read(messages, wire.ATTEMPT, "|u1")
        return Held(names, tags, numbers, attempts, seeds, None, width)

    def _with_shares(self, held: Held, name_of: Callable[[int], str], relay: int, remark: Remark) -> Held:
        parts = [messages[wire.SHARE] for messages in self._shares]
        names = [names_of(messages.senders, self._slots(messages)) for messages in self._shares]
        if len({part.shape[-1] for part in parts}) > 1:
            raise ProtocolError(f"senders must share rows of one width with {name_of(relay)}; they do not")
        if not parts:
            return replace(held.some(np.empty(0, dtype=np.int64)), shares=None)
        known, shares = (names[0], parts[0]) if len(parts) == 1 else (np.concatenate(names), np.concatenate(parts, -2))
        if np.array_equal(known, held.names):
            return replace(held, shares=shares, width=shares.shape[-1])
        order, repeated = _in_order(known)
        for copy in repeated.tolist():
            original = order[found_among(known[copy : copy + 1], known[order])[0]]
            pair = np.asarray(take_rows(shares, np.array([original, copy]), -2))
            alike = np.array_equal(pair[..., 0, :], pair[..., 1, :])
            _twice(int(known[copy]), relay, name_of, remark, alike=alike)
        at = found_among(held.names, known[order])
        there = np.flatnonzero(at >= 0)
        shares = take_rows(shares, order[at[there]], -2)
        return replace(held.some(there), shares=shares, width=shares.shape[-1])

    def _check_repeats(
        self, held: Held, order: Ids, repeated: Ids, name_of: Callable[[int], str], relay: int, remark: Remark
    ) -> None:
        for copy in repeated.tolist():
            original = order[found_among(held.names[copy : copy + 1], held.names[order])[0]]
            pair = np.array([original, copy])
            one, other = (held.at(pair[n : n + 1]) for n in range(2))
            columns = ((one.tags, other.tags), (one.numbers, other.numbers), (one.seeds, other.seeds))
            alike = all(np.array_equal(a, b) for a, b in columns)
            _twice(int(held.names[copy]), relay, name_of, remark, alike=alike)

    def state(self) -> dict[str, Array]:
        """All that arrived; not behind a tape axis."""
        arrays = {f"header{n}": as_array(m) for n, m in enumerate(self._headers)}
        return arrays | {f"share{n}": as_array(m) for n, m in enumerate(self._shares)}

    def restore(self, state: Mapping[str, Array]) -> None:
        """Goes on where a state was taken."""
        self._headers, self._shares = numbered("header", state), numbered("share", state)


class At(IntEnum):
    """How far a relay is with a step."""

    GATHERING = 0
    DIGESTS = 1
    NAMES = 2
    RESENDS = 3
    RESENT = 4
    CONFIRMING = 5
    AGREED = 6
    OUT = 7


class Standing:
    """What one relay knows of one step.

    Attributes:
        party: identifier.
        at: how far it is.
        arrivals: headers and shares.
        held: those that are there whole, once relays compare; in the end those that count.
        told: whether any other relay has said what it holds.
        rosters: what other relays have said since the last turn.
        live: int64, the relays that are heard of.
        attempts: how often messages were asked for again.
        fetches: that wait for an answer.
        answered: int64 [k, 2], tags that were answered.
        sums: elements [*batch, t, d] by tag, once one was asked for.
    """

    def __init__(self, party: int, arrivals: Arrivals) -> None:
        self.party, self.arrivals = party, arrivals
        self.at, self.attempts = At.GATHERING, 0
        self.held: Held | None = None
        self.rosters: list[Messages] = []
        self.live: Ids = np.array([party], dtype=np.int64)
        self.fetches: list[Messages] = []
        self.answered: Ids = np.empty((0, 2), dtype=np.int64)
        self.sums: Elements | None = None
        self.table: tuple[Ids, Segments] | None = None
        self.told = False

    def state(self) -> dict[str, Array]:
        """All of it as arrays; of what is held once there are sums, what they are looked up by."""
        numbers = [self.at, self.attempts, self.told]
        arrays = {"numbers": np.array(numbers, dtype=np.int64), "live": self.live, "answered": self.answered}
        for name, kept in (("roster", self.rosters), ("fetch", self.fetches)):
            arrays |= {f"{name}{n}": as_array(m) for n, m in enumerate(kept)}
        if self.held is not None:
            held = self.held if self.sums is None else replace(self.held, shares=None)
            arrays |= {f"held/{name}": value for name, value in held.state().items()}
        if self.sums is not None:
            return {**arrays, "sums": self.sums}
        return arrays | {f"arrivals/{name}": value for name, value in self.arrivals.state().items()}

    def restore(self, state: Mapping[str, Array]) -> None:
        """Goes on where a state was taken."""
        at, self.attempts, told = state["numbers"].tolist()
        self.at, self.told = At(at), bool(told)
        self.live, self.answered, self.sums = state["live"], state["answered"], state.get("sums")
        self.rosters, self.fetches = numbered("roster", state), numbered("fetch", state)
        held = within("held", state)
        self.held = Held.of_state(held) if held else None
        self.arrivals.restore(within("arrivals", state))


def _twice(name: int, relay: int, name_of: Callable[[int], str], remark: Remark, *, alike: bool) -> None:
    sender = name >> 32
    if not alike:
        raise ProtocolError(
            f"{name_of(sender)} must resend the same bytes or make a new attempt; two different messages under one "
            f"slot reached {name_of(relay)}"
        )
    remark(sender, "a message arrived twice and counts once")


def _ascending(names: Ids) -> bool:
    return bool((names[1:] > names[:-1]).all())


def _in_order(names: Ids) -> tuple[Ids, Ids]:
    """Positions of names in ascending order, each at its first appearance, and the positions of repeated ones."""
    if _ascending(names):
        return np.arange(len(names)), np.empty(0, dtype=np.int64)
    _, first = np.unique(names, return_index=True)
    return first, np.setdiff1d(np.arange(len(names)), first)


def _nothing() -> Held:
    none: Ids = np.empty(0, dtype=np.int64)
    return Held(none, none.reshape(0, 2), none, none.astype(np.uint8), none.reshape(0, 4), None, 0)


def _joined(parts: list[Held]) -> Held:
    if len(parts) == 1:
        return parts[0]
    widths = {part.width for part in parts if len(part)}
    if len(widths) > 1:
        raise ProtocolError("senders must share rows of one width; they do not")
    columns = [np.concatenate([getattr(part, name) for part in parts]) for name in ("names", "tags")]
    numbers, attempts, seeds = (_stacked([getattr(part, name) for part in parts]) for name in _COLUMNS[2:])
    return Held(columns[0], columns[1], numbers, attempts, seeds, None, max(widths, default=0))


def _stacked(parts: list[Array]) -> Array:
    kept = [part for part in parts if len(part)]
    return np.concatenate(kept) if kept else parts[0]
