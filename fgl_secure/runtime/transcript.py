"""What is recorded of a run, in little memory, and the views of it: what a coalition saw, all that an attack gets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.errors import InputError
from fgl_secure.runtime.machine import Directory, Party, Role
from fgl_secure.runtime.messages import PAYLOAD, Direction, Fields, MessageKind, Step
from fgl_secure.threads import njit
from fgl_secure.typing import Ids


class _BatchBase:
    """Messages whose fields may have been recorded."""

    __slots__ = ()
    phase: MessageKind
    fields: Mapping[str, NDArray[Any]] | None

    def __getitem__(self, name: str) -> NDArray[Any]:
        """A field.

        Raises:
            InputError: it was not recorded, or there is none of that name.
        """
        if self.fields is None or name not in self.fields:
            raise InputError(f"messages of {self.phase.label} must have the field {name} recorded; they have not")
        return self.fields[name]

    @property
    def payload(self) -> NDArray[Any] | None:
        """The field of messages that have one alone; None where only sizes were recorded."""
        return None if self.fields is None else self.fields[PAYLOAD]


@dataclass(frozen=True, slots=True, eq=False)
class ReceivedRows(_BatchBase):
    """Messages that reached the observers, one row a message.

    Attributes:
        phase: what they carry.
        step: when they were sent.
        observers: int64 [m], which observer received each; 0 throughout for one coalition.
        senders: int64 [m], party identifiers.
        receivers: int64 [m], party identifiers.
        item_bytes: payload size of one message in bytes.
        fields: by name, [*batch, m, ...], or None where only sizes were recorded.
    """

    phase: MessageKind
    step: Step
    observers: NDArray[np.int64]
    senders: NDArray[np.int64]
    receivers: NDArray[np.int64]
    item_bytes: int
    fields: Mapping[str, NDArray[Any]] | None


@dataclass(frozen=True, slots=True, eq=False)
class PrivateRows:
    """Inputs, coins or outputs of the observers themselves: values [*batch, m, ...] of owners [m]."""

    kind: str
    name: str
    step: Step
    observers: NDArray[np.int64]
    owners: NDArray[np.int64]
    values: NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """The rows of a transcript that a coalition may know.

    A view holds the observers' own rows, read-only, and no reference to the transcript, the graph or other parties'
    inputs.
    `Transcript.views` puts the views of many separate observers side by side: then a conclusion about observer i may
    rest on rows of observer i only, and an attack joins its tables on the `observers` column.

    Attributes:
        name: who observes, in words.
        parties: numbering of the parties (public).
        received: messages that reached the observers.
        private: inputs, coins and outputs of the observers.
    """

    name: str
    parties: Directory
    received: tuple[ReceivedRows, ...]
    private: tuple[PrivateRows, ...]

    def messages(
        self,
        phase: MessageKind,
        *,
        direction: Direction | None = None,
        round: int | None = None,  # noqa: A002  # the field's word for it
        layer: int | None = None,
    ) -> tuple[ReceivedRows, ...]:
        """Received rows of one phase whose payload was recorded, in order; None means any."""
        return tuple(
            rows
            for rows in self.received
            if rows.phase is phase
            and rows.fields is not None
            and direction in (None, rows.step.direction)
            and round in (None, rows.step.round)
            and layer in (None, rows.step.layer)
        )

    def own(self, name: str) -> tuple[PrivateRows, ...]:
        """Inputs, coins or outputs of a name, in order."""
        return tuple(rows for rows in self.private if rows.name == name)


Numbers = NDArray[np.signedinteger[Any]]
"""Integers of the kind that `kind_of` gives: what is kept, and counts places. What is computed with is int64."""


def kind_of(count: int) -> np.dtype[np.signedinteger[Any]]:
    """The narrowest of int32 and int64 that holds the numbers -1 .. count - 1."""
    return np.dtype(np.int32 if count <= 2**31 else np.int64)


def narrow(numbers: NDArray[np.int64], count: int | None = None) -> Numbers:
    """The same numbers as `kind_of` has it; themselves where that is what they are.

    Args:
        numbers: int64 [m].
        count: one more than the largest at most, where none is below -1; found among them unless given.
    """
    most = max(int(numbers.max(initial=0)) + 1, -int(numbers.min(initial=0))) if count is None else count
    return numbers.astype(kind_of(most), copy=False)


SHORT = 1024
"""Batches of fewer messages are kept as they are."""

_FIRST, _SECOND, _THIRD = (np.uint64(n) for n in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
_HALF = np.uint64(32)


@dataclass(frozen=True, slots=True, eq=False)
class Endpoints:
    """Senders and receivers of a batch of messages.

    Attributes:
        senders: [k], party identifiers: int64, or int32 where many are kept.
        receivers: [k], party identifiers, as senders.
        times: int64 [k], messages from each of these senders to its receiver; None for one.
    """

    senders: Numbers
    receivers: Numbers
    times: Ids | None = None

    def __len__(self) -> int:
        return len(self.senders) if self.times is None else int(self.times.sum())

    def laid_out(self) -> Endpoints:
        """One entry a message, int64."""
        senders, receivers = (ends.astype(np.int64, copy=False) for ends in (self.senders, self.receivers))
        if self.times is None:
            return self if senders is self.senders else Endpoints(senders, receivers)
        return Endpoints(np.repeat(senders, self.times), np.repeat(receivers, self.times))


class RepeatedEndpoints:
    """Keeps the ends of batches of which sizes alone are recorded: the same ones once, and few pairs as pairs.

    Schemes send between the same parties in every round, or by ways that they draw between few, and fifty rounds of a
    large graph would take gigabytes. In which order such a batch was sent is lost.

    Args:
        parties: how many there are.
    """

    def __init__(self, parties: int) -> None:
        self._parties = parties
        self._known: dict[tuple[int, int, int], Endpoints] = {}

    def reuse(self, senders: Ids, receivers: Ids) -> Endpoints:
        """Ends with as many messages between each two parties.

        Those that were seen before are known again by two sums of 64 bits over a hash of each message's ends: others
        are taken for them once in 2^128.

        Args:
            senders: int64 [m], party identifiers.
            receivers: int64 [m], party identifiers.
        """
        if len(senders) < SHORT:
            return Endpoints(senders, receivers)
        name = len(senders), *_hash_pairs(senders, receivers, self._parties)
        if name not in self._known:
            apart = _pairs(senders, receivers, len(senders) // 2)
            self._known[name] = (
                Endpoints(*(narrow(e, self._parties) for e in (senders, receivers))) if apart is None else apart
            )
        return self._known[name]


def _pairs(senders: Ids, receivers: Ids, most_pairs: int | None = None) -> Endpoints | None:
    """The pairs of ends that occur, by receiver, then sender, and how often each does; None where they are more."""
    first, lowest = int(senders.min()), int(receivers.min())
    width = int(senders.max()) - first + 1
    pairs, most = (receivers - lowest) * width + (senders - first), (int(receivers.max()) - lowest + 1) * width
    if most <= len(pairs):  # as between silos and relays: counted in a twentieth of the time that sorting takes
        counts = np.bincount(pairs)
        different = np.flatnonzero(counts)
        if most_pairs is not None and len(different) > most_pairs:
            return None
        times = counts[different]
    else:
        pairs.sort()
        new = np.append(True, pairs[1:] != pairs[:-1])
        if most_pairs is not None and np.count_nonzero(new) > most_pairs:
            return None
        starts = np.flatnonzero(new)
        different, times = pairs[starts], np.diff(starts, append=len(pairs))
    return Endpoints(different % width + first, different // width + lowest, times)


@njit(boundscheck=False)
def _hash_pairs(senders: Ids, receivers: Ids, parties: int) -> Any:
    """Two sums of 64 bits over a hash of each message's ends."""
    one, other = np.uint64(0), np.uint64(0)
    for i in range(len(senders)):
        mixed = np.uint64(receivers[i] * parties + senders[i]) * _FIRST
        mixed = (mixed ^ (mixed >> _HALF)) * _SECOND
        one += mixed
        mixed = (mixed ^ (mixed >> _HALF)) * _THIRD
        other += mixed
    return one, other


Payload = NDArray[Any]

SECRETS = "values"
"""Name of the inputs that a scheme sums: the embeddings and gradients of single devices."""
SERVER_SUM = "server sum"
"""Name of the server's row float64 [1, d], where it is entitled to a sum over clients: as the method lays it out."""
PARTICIPANTS = "participants"
"""Name of the rows int64 [k, 1] of a party that is entitled to a sum: indices, within their role, of who is in it."""


@dataclass(frozen=True, slots=True, eq=False)
class MessageBatch(_BatchBase):
    """Messages of one phase at one step, one row a message.

    Attributes:
        phase: what the messages carry.
        step: when they were sent.
        ends: who sent them to whom; in any order where only sizes were recorded.
        item_bytes: size of one message's payload on the wire, in bytes.
        fields: by name, [*batch, m, ...], or None where only sizes were recorded.
        repeats: how many such batches in a row this one stands for, where only sizes were recorded.
    """

    phase: MessageKind
    step: Step
    ends: Endpoints
    item_bytes: int
    fields: Mapping[str, Payload] | None
    repeats: int = 1

    @property
    def senders(self) -> NDArray[np.int64]:
        """Party identifiers, int64 [m], one a message."""
        return self.ends.laid_out().senders

    @property
    def receivers(self) -> NDArray[np.int64]:
        """Party identifiers, int64 [m], one a message."""
        return self.ends.laid_out().receivers

    @property
    def messages(self) -> int:
        """How many messages."""
        return len(self.ends) * self.repeats

    @property
    def bytes(self) -> int:
        """Payload bytes of all of them."""
        return self.messages * self.item_bytes


class Private(StrEnum):
    """What a party has without receiving it: brings, draws, or works out from what it received."""

    INPUT = "input"
    COINS = "coins"
    OUTPUT = "output"


@dataclass(frozen=True, slots=True, eq=False)
class PrivateBatch:
    """Rows that their owners hold or drew themselves: values [*batch, m, ...] of owners [m]."""

    kind: Private
    name: str
    step: Step
    owners: NDArray[np.int64]
    values: Payload


@dataclass(frozen=True, slots=True)
class Traffic:
    """Messages and bytes of one phase between two roles."""

    phase: MessageKind
    sender_role: Role
    receiver_role: Role
    messages: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Incident:
    """Something that went wrong in a run and was dealt with.

    Attributes:
        step: when.
        party: who is at fault, as far as that can be told.
        what: what happened, in words and without any secret.
    """

    step: Step
    party: Party
    what: str


@dataclass(slots=True, eq=False)
class Transcript:
    """Everything that a channel recorded, in order.

    A pickle or a copy has all messages, and nothing private: no party's inputs, random draws and outputs.

    Attributes:
        parties: who took part.
        batch_axes: leading axes of every payload: 0, or 1 when all coin tapes ran at once.
        messages: all messages; sizes always, payloads where recorded.
        private: inputs, coins and outputs of the parties, where recorded.
        incidents: what went wrong and was dealt with.
    """

    parties: Directory
    batch_axes: int = 0
    messages: list[MessageBatch] = field(default_factory=list)
    private: list[PrivateBatch] = field(default_factory=list)
    incidents: list[Incident] = field(default_factory=list)

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what makes a copy without secrets."""
        return Transcript, (self.parties, self.batch_axes, self.messages, [], self.incidents)

    @property
    def message_count(self) -> int:
        """Messages sent."""
        return sum(batch.messages for batch in self.messages)

    @property
    def byte_count(self) -> int:
        """Payload bytes sent."""
        return sum(batch.bytes for batch in self.messages)

    def view(self, coalition: Iterable[Party]) -> View:
        """What a coalition saw together: its inputs, its coins and the messages that reached it."""
        members = tuple(sorted(set(coalition)))
        observer_of = np.full(len(self.parties), -1, dtype=np.int64)
        for party in members:
            observer_of[self.parties.id_of(party)] = 0
        return self._view(" and ".join(map(str, members)), observer_of)

    def views(self, role: Role) -> View:
        """What each party of a role saw alone, side by side: observer i is the party of index i.

        The parties' own embeddings and gradients are left out: side by side they are the very secrets that attacks
        are scored on. The view of one party alone has that party's own.
        """
        observer_of = np.full(len(self.parties), -1, dtype=np.int64)
        ids = self.parties.ids(role) if role in self.parties.roles else np.empty(0, dtype=np.int64)
        observer_of[ids] = np.arange(len(ids))
        return self._view(f"each {role} alone", observer_of, hidden=SECRETS)

    def until(self, rounds: int) -> Transcript:
        """What was said in the first rounds, and what parties were left with in the end.

        Args:
            rounds: how many.
        """
        messages = [batch for batch in self.messages if batch.step.round < rounds or batch.step.final]
        private = [batch for batch in self.private if batch.step.round < rounds or batch.step.final]
        return Transcript(self.parties, self.batch_axes, messages, private, list(self.incidents))

    def sizes(self) -> Transcript:
        """Who sent how much to whom, as a channel that records sizes alone keeps it."""
        known = RepeatedEndpoints(len(self.parties))
        messages = [
            replace(batch, fields=None, ends=known.reuse(batch.ends.senders, batch.ends.receivers))
            if batch.fields is not None
            else batch
            for batch in self.messages
        ]
        return Transcript(self.parties, self.batch_axes, messages, [], list(self.incidents))

    def secrets(self) -> tuple[PrivateBatch, ...]:
        """What all parties put into the sums: the truth that attacks are scored against, never part of a view."""
        return tuple(batch for batch in self.private if batch.kind is Private.INPUT and batch.name == SECRETS)

    def traffic(self) -> tuple[Traffic, ...]:
        """Messages and bytes by phase, sending role and receiving role, in order of first appearance."""
        totals: dict[tuple[MessageKind, Role, Role], list[int]] = {}
        roles = self.parties.roles
        counted: dict[int, list[tuple[int, int]]] = {}  # schemes send along the same ends every round
        for batch in self.messages:
            if id(batch.ends) not in counted:
                counted[id(batch.ends)] = self._counts_by_roles(batch.ends)
            for code, count in counted[id(batch.ends)]:
                key = (batch.phase, roles[code // len(roles)], roles[code % len(roles)])
                entry = totals.setdefault(key, [0, 0])
                entry[0] += count * batch.repeats
                entry[1] += count * batch.repeats * batch.item_bytes
        return tuple(Traffic(*key, *entry) for key, entry in totals.items())

    def _counts_by_roles(self, ends: Endpoints) -> list[tuple[int, int]]:
        pair = self.parties.role_of(ends.senders) * len(self.parties.roles) + self.parties.role_of(ends.receivers)
        counts = np.bincount(pair, weights=ends.times, minlength=len(self.parties.roles) ** 2)
        return [(int(code), int(counts[code])) for code in np.flatnonzero(counts)]

    def _view(self, name: str, observer_of: NDArray[np.int64], hidden: str | None = None) -> View:
        seen: dict[int, _ObserverView | None] = {}  # schemes send along the same ends every round
        received = []
        for batch in self.messages:
            if id(batch.ends) not in seen:
                seen[id(batch.ends)] = _ObserverView.of(batch.ends, observer_of)
            if (rows := seen[id(batch.ends)]) is not None:
                received.append(rows.received_rows(batch, self.batch_axes))
        shown = [batch for batch in self.private if batch.name != hidden]
        private = [_owned_rows(batch, observer_of, self.batch_axes) for batch in shown]
        return View(name, self.parties, tuple(received), tuple(rows for rows in private if len(rows.owners)))


@dataclass(frozen=True, slots=True, eq=False)
class _ObserverView:
    """Which rows of a batch observers have, int64 [k], and the columns of these."""

    rows: NDArray[np.int64]
    observers: NDArray[np.int64]
    senders: NDArray[np.int64]
    receivers: NDArray[np.int64]

    @classmethod
    def of(cls, ends: Endpoints, observer_of: NDArray[np.int64]) -> _ObserverView | None:
        if observer_of[ends.receivers].max(initial=-1) < 0:
            return None
        ends = ends.laid_out()
        observers = observer_of[ends.receivers]
        seen = np.flatnonzero(observers >= 0)
        # The order in which a scheme lays out its messages is nothing that any party receives, and may tell who sent
        # what for whom: a view is in an order that its own columns give.
        seen = seen[np.lexsort((ends.senders[seen], ends.receivers[seen]))]
        columns = observers[seen], ends.senders[seen], ends.receivers[seen]
        for column in columns:
            column.flags.writeable = False  # batches share them
        return cls(seen, *columns)

    def received_rows(self, batch: MessageBatch, batch_axes: int) -> ReceivedRows:
        """Of a batch with these ends."""
        fields = None
        if batch.fields is not None:
            taken = {name: _rows(value, self.rows, batch_axes) for name, value in batch.fields.items()}
            fields = Fields(taken)
        columns = self.observers, self.senders, self.receivers
        return ReceivedRows(batch.phase, batch.step, *columns, batch.item_bytes, fields)


def _owned_rows(batch: PrivateBatch, observer_of: NDArray[np.int64], batch_axes: int) -> PrivateRows:
    observers = observer_of[batch.owners]
    seen = np.flatnonzero(observers >= 0)
    return PrivateRows(
        batch.kind, batch.name, batch.step, observers[seen], batch.owners[seen], _rows(batch.values, seen, batch_axes)
    )


def _rows(values: Payload, seen: NDArray[np.int64], batch_axes: int) -> Payload:
    if len(seen) == values.shape[batch_axes] and (len(seen) == 1 or bool((np.diff(seen) == 1).all())):
        return values  # recorded arrays are read-only, so sharing them is safe
    return np.take(values, seen, axis=batch_axes)
