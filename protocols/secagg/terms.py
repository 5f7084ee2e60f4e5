"""One sum under terms on which all parties agree: its stages, states, checks of messages and fields as they travel."""

from __future__ import annotations

import hashlib
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fgl_secure.crypto.cryptography import Context
from fgl_secure.crypto.streams import ModularRing
from fgl_secure.errors import FieldRangeError, InputError, MalformedMessageError, ProtocolError, StaleMessageError
from fgl_secure.protocols.stepwise import CheckpointedMachine, check_arrays, step_bytes
from fgl_secure.protocols.topology import Topology
from fgl_secure.runtime import LazyArray, Machine, MessageKind, Messages, Step
from fgl_secure.runtime.messages import SESSION_BYTES
from fgl_secure.threads import njit
from fgl_secure.typing import Array, Bytes, Flags, Ids, Integers

_TERMS = struct.Struct(">QQQQQQ")


class Stage(IntEnum):
    """What a round trip between server and clients is for; a scheme has those that it needs, in this order."""

    KEYS = 0
    """Clients publish keys of this sum."""
    DRAW = 1
    """Clients that have all committed to it reveal what a graph is drawn from; where there is one to draw."""
    SHARES = 2
    """Clients hear each other's keys, and share what lets others finish without them."""
    VECTORS = 3
    """Clients hand in their vectors, protected."""
    AGREEMENT = 4
    """Clients tell each other what the server says of who is in the sum."""
    VETO = 5
    """Clients open whether any party in the sum vetoes it; where they may."""
    OPENING = 6
    """Clients open what protects the sum, and nothing else."""


USUAL = tuple(stage for stage in Stage if stage not in (Stage.DRAW, Stage.VETO))
"""Those of sums without a graph that is drawn, and without vetoes."""


SUM_FOR_RECEIVER = "sums for a client, as they are added up"
"""How a party that adds up for a receiver notes the sum, which is under the receiver's mask."""


@dataclass(frozen=True, slots=True, eq=False)
class AggregationTerms:
    """The terms of the sums of one topology, one after another.

    Attributes:
        session: 16 public bytes or more, different in every session; what else all parties must have been told alike
            may follow them: clients with different ones have no keys in common, and no sum.
        clients: int64 [n], party identifiers, n >= 2; clients are numbered by their place here.
        server: party identifier of who adds up.
        receiver: party identifier of who is entitled to the sum; it may be the server.
        threshold: least clients that must be left at every stage.
        length: entries of every vector.
        bound: largest magnitude of an entry; None for sums modulo the scheme's field, whose entries are any elements.
        veto: whether a client may veto the sum.
    """

    session: bytes
    clients: Ids
    server: int
    receiver: int
    threshold: int
    length: int
    bound: int | None
    veto: bool = False
    _places: Mapping[int, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_places", {party: place for place, party in enumerate(self.clients.tolist())})

    @classmethod
    def of(cls, topology: Topology, session: bytes, threshold: int) -> AggregationTerms:
        """The terms for a topology that `refusal` has nothing against.

        Raises:
            InputError: the session is too short.
        """
        if len(session) < SESSION_BYTES:
            raise InputError(f"session must have at least {SESSION_BYTES} bytes; found {len(session)}")
        server, receiver = topology.aggregator, topology.receiver
        assert server is not None
        assert receiver is not None
        width, bound = topology.width, topology.bound
        return cls(session, topology.senders, server, receiver, threshold, width, bound, topology.veto)

    @property
    def n(self) -> int:
        """How many clients."""
        return len(self.clients)

    @property
    def split(self) -> bool:
        """Whether who adds up must not learn the sum."""
        return self.server != self.receiver

    @property
    def digest(self) -> bytes:
        """SHA-256 of all of it."""
        numbers = (self.n, self.server, self.receiver, self.threshold, self.length, self.bound or 0)
        content = self.session + _TERMS.pack(*numbers) + self.clients.astype("<i8").tobytes()
        return hashlib.sha256(content + b"veto" * self.veto).digest()

    def place_of(self, party: int) -> int:
        """The number of a client.

        Raises:
            ProtocolError: the party is none.
        """
        if party not in self._places:
            raise ProtocolError(f"sender must be one of {self.n} clients; found party {party}")
        return self._places[party]

    def check_range(self, limit: int | None, name: str, modulus: int | None) -> None:
        """Raises unless sums are exact under a scheme.

        Args:
            limit: the scheme's; None for reals.
            name: the scheme's.
            modulus: of sums without a bound; None where the scheme has none.

        Raises:
            InputError: there is no bound, and sums have no modulus.
            FieldRangeError: sums could be beyond the limit.
        """
        if self.bound is None:
            if modulus is None and limit is not None:
                raise InputError(f"bound must be given under {name}, whose sums have no modulus; found None")
            return
        if limit is not None and self.n * self.bound > limit:
            raise FieldRangeError(
                f"bound must satisfy clients * bound <= {limit:,} under {name}; found {self.n:,} * {self.bound:,}"
            )

    def check_rows(self, rows: NDArray[Any] | LazyArray, count: int, modulus: int | None) -> None:
        """Raises unless rows are vectors of so many clients; says nothing of their values.

        The entries of rows that are not laid out are not looked at: a party that reads one of them checks it.

        Raises:
            InputError: another shape or type, or an entry beyond the bound.
        """
        if rows.dtype != np.int64 or rows.shape != (count, self.length):
            raise InputError(f"rows must be int64 [{count}, {self.length}]; found {rows.dtype} {list(rows.shape)}")
        if isinstance(rows, LazyArray):
            return
        least, most = (0, (modulus or 1) - 1) if self.bound is None else (-self.bound, self.bound)
        if rows.size and (int(rows.min()) < least or int(rows.max()) > most):
            range_text = f"elements, 0..{most}" if self.bound is None else f"of magnitude up to bound = {most:,}"
            raise InputError(f"rows must be {range_text}; at least one entry is beyond")

    def decode_total(self, total: Integers, terms: int, modulus: int) -> Integers:
        """Elements [*tapes, length] as the integers that a sum of so many vectors stands for; residues without a bound.

        Raises:
            ProtocolError: it is beyond what so many vectors can reach: masks were left in it.
        """
        if self.bound is None:
            return total
        total, most = total - ((modulus // 2 - total) >> 63 & modulus), terms * self.bound
        if int(total.max()) > most or int(total.min()) < -most:
            raise ProtocolError(
                f"sum of {terms} vectors must have magnitude up to {most:,}; a client's masks are not what it shared"
            )
        return total


@dataclass(frozen=True, slots=True, eq=False)
class SumPlan(ABC):
    """The public side of all sums of one topology.

    Attributes:
        terms: of the sums.
        label: names the scheme and its version in all that is derived.
    """

    label: ClassVar[bytes]

    terms: AggregationTerms

    @property
    @abstractmethod
    def agreed_bytes(self) -> bytes:
        """What parties must agree on beside the terms."""

    @property
    def digest(self) -> bytes:
        """SHA-256 of all that parties must agree on before a sum starts, except for the step."""
        return hashlib.sha256(self.label + b"terms" + self.terms.digest + self.agreed_bytes).digest()

    def context(self, step: Step) -> Context:
        """What keys of one sum are bound to."""
        return Context(self.label, self.terms.session, step_bytes(step), step)

    def statement(self, step: Step, place: int, *keys: bytes) -> bytes:
        """What a party's identity signs: that these are its keys in a sum under these terms."""
        return self.label + b"keys" + self.digest + step_bytes(step) + struct.pack(">I", place) + b"".join(keys)


def as_elements(row: Integers, modulus: int) -> Integers:
    """A vector of magnitudes below the modulus, or of elements, as elements: a new array."""
    elements = np.empty(row.shape, dtype=np.int64)
    _wrap(row, modulus, elements)
    return elements


@njit(boundscheck=False)
def _wrap(row: Integers, modulus: int, out: Integers) -> None:
    """out[i] = row[i], plus the modulus where that is negative."""
    for i in range(len(row)):
        out[i] = row[i] + (modulus & (row[i] >> 63))


def bytes_of(messages: Messages, name: str, *shape: int) -> Bytes:
    """A field of bytes, which are the same on all tapes: uint8 [m, *shape].

    Raises:
        MalformedMessageError: it has another type or shape.
    """
    return _public(messages, name, np.dtype(np.uint8), shape)


def flags_of(messages: Messages, name: str, *shape: int) -> Flags:
    """A field of yes and no, the same on all tapes: bool [m, *shape].

    Raises:
        MalformedMessageError: it has another type or shape.
    """
    return _public(messages, name, np.dtype(np.bool_), shape)


def elements_of(messages: Messages, name: str, ring: ModularRing, *shape: int) -> Integers:
    """A field of elements: int64 [*tapes, m, *shape].

    Raises:
        MalformedMessageError: it has another type or shape, or a value is no element.
    """
    value = _check_field(messages, name, ring.dtype, (*shape[:-1], ring.entries(shape[-1])))
    try:
        return ring.read(value, shape[-1])
    except MalformedMessageError as error:
        raise MalformedMessageError(f"{name} must be elements of its ring or field; {error}") from error


def laid_out(
    fields: Mapping[str, Array], elements: Mapping[str, Array], tapes: tuple[int, ...], ring: ModularRing
) -> dict[str, Array]:
    """Fields on all tapes: those that are the same on them, and elements of a ring as they travel."""
    public = {name: np.broadcast_to(value, (*tapes, *value.shape)) for name, value in fields.items()}
    return {**public, **{name: ring.write(value) for name, value in elements.items()}}


def each_row(machine: Machine, messages: Messages, take: Callable[[int], None]) -> None:
    """Takes messages one by one: a bad one does not stop the others.

    Args:
        machine: which takes them, and gets a remark for each that is refused beside good ones.
        messages: a batch.
        take: takes the message at a place, or raises a `ProtocolError` and leaves the machine as it was.

    Raises:
        ProtocolError: there is no good one among them; what the first was refused for.
    """
    refused: list[tuple[int, ProtocolError]] = []
    for row in range(len(messages)):
        try:
            take(row)
        except ProtocolError as error:
            refused.append((row, error))
    if refused and len(refused) == len(messages):
        for row, why in refused[1:]:
            _remark(machine, messages, row, why)
        raise refused[0][1]
    for row, why in refused:
        _remark(machine, messages, row, why)


def _remark(machine: Machine, messages: Messages, row: int, error: ProtocolError) -> None:
    sender, to = int(messages.senders[row]), int(messages.receivers[row])
    machine.remark(messages.step, sender, f"a message ({messages.phase.label}) to party {to} is refused: {error}")


def _public(messages: Messages, name: str, kind: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    value = _check_field(messages, name, kind, shape)
    return np.asarray(value[(0,) * messages.tape_axes])


def _check_field(messages: Messages, name: str, kind: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    value = messages[name]
    expected = (len(messages), *shape)
    if value.dtype != kind or value.shape[messages.tape_axes :] != expected:
        raise MalformedMessageError(
            f"{name} must be {kind} {list(expected)}; found {value.dtype} {list(value.shape[messages.tape_axes :])}"
        )
    return value


class AggregationMachine(CheckpointedMachine, ABC):
    """A role in sums of one topology.

    Attributes:
        saved: names of arrays that last from step to step, each an attribute behind an underscore; a class adds
            its own to those of its bases.

    Args:
        parties: int64 [k], ascending identifiers of those hosted.
        terms: of the sums.
        owner: what names the scheme, its parameters and the role, in states.
        tape_axes: of all fields.
    """

    saved: ClassVar[tuple[str, ...]] = ()

    def __init__(self, parties: Ids, terms: AggregationTerms, owner: bytes, tape_axes: int) -> None:
        super().__init__(parties, terms, tape_axes, owner)
        self.terms = terms
        self._sums: Array | None = None

    @property
    def sums(self) -> Array | None:
        """See `SumMachine.sums`."""
        return None if self._sums is None else self._sums.copy()

    def _start_step(self, step: Step) -> None:
        """Goes to a step; see `_check_new`."""
        self._check_new(step)
        self._step, self._sums = step, None

    def _unexpected_rows(self, rows: Array | None) -> None:
        if rows is not None:
            raise InputError("rows must be those of hosted clients, of whom there are none; found some")

    def _check_head(self, messages: Messages, phases: Mapping[MessageKind, Any], due: MessageKind | None) -> None:
        """Raises unless messages are of the step and phase that is due, for parties hosted here.

        Args:
            messages: as they arrived.
            phases: that this role hears at all.
            due: which of them; None where none is.
        """
        self._check_ends(messages)
        if messages.phase not in phases:
            known = ", ".join(phase.label for phase in phases)
            raise MalformedMessageError(f"messages must be {known}; found {messages.phase.label}")
        if messages.step != self.now:
            raise StaleMessageError(f"messages must be of {self.now}; found some of {messages.step}")
        if messages.phase is not due:
            name = "nothing" if due is None else due.label
            raise StaleMessageError(f"messages must be of the stage that is due, {name}; found {messages.phase.label}")

    def _check_from(self, messages: Messages, sender: int) -> None:
        if not (messages.senders == sender).all():
            raise MalformedMessageError(f"messages must be from party {sender}; at least one is not")

    def _arrays(self) -> dict[str, Array]:
        """All that changes beside the steps: the sum, and what a role keeps."""
        empty = np.zeros((1,) * self._tape_axes + (0, 0), dtype=np.int64)
        return {
            "sums": empty if self._sums is None else self._sums,
            **{n: getattr(self, f"_{n}") for n in self._state_names},
        }

    @property
    def _state_names(self) -> list[str]:
        return [name for kind in type(self).__mro__ for name in kind.__dict__.get("saved", ())]

    def _take_arrays(self, arrays: dict[str, Array]) -> None:
        check_arrays(arrays, self._arrays())
        self._sums = arrays["sums"] if arrays["sums"].size else None
        for name in self._state_names:
            setattr(self, f"_{name}", arrays[name])
