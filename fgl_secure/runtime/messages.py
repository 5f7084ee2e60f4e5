"""Batches of typed messages: the vocabulary of their kinds, and the one codec that turns them into bytes and back."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum, StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.errors import InputError, MalformedMessageError, StaleMessageError
from fgl_secure.typing import Array, Ids

_KNOWN: dict[str, MessageKind] = {}


class MessageKind(Enum):
    """A kind of message. The name goes into messages, `content` into the table of who saw what.

    Those of this package are members of `Phase`. A package that says something else subclasses this class, too.

    Raises:
        InputError: a kind of that name is there.

    Examples:
        >>> class Greeting(MessageKind):
        ...     HELLO = ("hello", "which silos are there")
        >>> MessageKind.find("HELLO").content
        'which silos are there'
    """

    def __init__(self, label: str, content: str) -> None:
        if self.name in _KNOWN:
            raise InputError(f"kind of message must have a name of its own; found {self.name} twice")
        self.label, self.content = label, content
        _KNOWN[self.name] = self

    @classmethod
    def find(cls, name: str) -> MessageKind | None:
        """Return the kind of a name, of whatever package; None if there is none."""
        return _KNOWN.get(name)


class Phase(MessageKind):
    """The kinds of messages of this package.

    Examples:
        >>> Phase.CODES.content
        'T + 1 Lagrange codes of one embedding or gradient'
    """

    VALUES = ("values", "unprotected embeddings or gradients")
    ADDRESSES = ("addresses", "which device an unprotected value is for")
    SUMS = ("sums", "unprotected sums")
    PARAMETER_REQUEST = ("parameter request", "a device asks a silo for its coding parameters")
    PARAMETERS = ("coding parameters", "mu: the points alpha and beta and the masks z of a silo")
    CODES = ("codes", "T + 1 Lagrange codes of one embedding or gradient")
    AGGREGATE = ("aggregate", "T + 1 sums of codes, to be decoded")
    DECODED = ("decoded", "the decoded sum of the neighbours' embeddings or gradients")
    KEYS = ("public keys", "public keys, and secrets wrapped for them")
    WANTED = ("wanted messages", "which messages enter an answered sum, from the silo of its receivers")
    PARTNERS = ("partner choices", "proposals and answers of neighbours that choose exchange partners")
    REQUESTS = ("partner requests", "a device with few partners asks for more, forwarded by its partners")
    TAGS = ("pseudonyms", "the pseudonym of a group, to its senders, once before circuits are opened")
    CIRCUITS = ("circuits", "a circuit is opened: its group's pseudonym and a key, sealed for a relay")
    REOPENING = ("reopenings", "a silo asks its devices to open circuits again")
    SHARE_HEADERS = ("share headers", "the width of the vectors whose shares the relay expands by itself")
    SHARES = ("shares", "one Shamir share of one embedding or gradient, on its circuit")
    ROSTERS = ("rosters", "lists of the messages received, so that all use the same participants")
    SHARE_SUMS = ("share sums", "the sum of the shares of one group and their number, or a refusal")
    SEALED = ("sealed", "a ciphertext on its way between a device and a relay")
    MIXED = ("mixed", "a ciphertext on its way between a device and a relay, from one silo to another")
    HOP_ENTRIES = ("hop entries", "unprotected entries of a client's share of a power of the adjacency")
    VECTORS = ("vectors", "one unprotected term of a sum")
    VECTOR_SUMS = ("vector sums", "the unprotected sum of clients' vectors")
    ENCRYPTION_KEY = ("encryption keys", "public CKKS parameters and key of the receiver of a sum")
    CIPHERTEXTS = ("ciphertexts", "a client's vector, encrypted for the receiver of the sum")
    CIPHERTEXT_SUMS = ("ciphertext sums", "the sum of clients' vectors, encrypted for its receiver")
    DRAW = ("draws", "commitments to the randomness of the client graph, then their openings")
    SECRET_SHARES = ("secret shares", "shares of a client's mask secrets, encrypted for another client")
    MASKED_VECTORS = ("masked vectors", "a client's vector under masks that cancel in the sum")
    UNMASKING = ("unmasking shares", "shares that open the sum: of masks, of keys of dropped clients, or a decryption")
    VETOES = ("vetoes", "shares of the sum of vetoes, each zero or random")
    MASKED_SUMS = ("masked sums", "the sum of clients' vectors under the mask of its receiver")
    OPENED = ("opened entries", "which entries of a sum enough clients contribute to")
    NODES = ("nodes", "which nodes of the graph are a client's")
    CAPACITIES = ("capacities", "length of the next vector for a receiver")
    THRESHOLDS = ("thresholds", "bounds of the smallest entry that is sent")
    STRUCTURE_FEATURES = ("structure features", "the structure features of a client's nodes, by node")
    QUERY_WEIGHTS = ("query weights", "rows of the combined adjacency that a client asks another to apply")
    QUERY_ANSWERS = ("query answers", "weighted sums of structure embeddings of one client's nodes")
    MODEL = ("model", "model parameters")
    ZERO_KEYS = ("keys of zero", "a key from which a set of relays derives shares of zero")
    FACTOR_SHARES = ("shares of factors", "shares of the factors of a device's gradients, or a header for them")
    PRODUCT_SHARES = ("shares of products", "the sum of products of a silo's devices' shares, plus a share of zero")
    GRADIENT = ("parameter gradient", "one device's unprotected gradient of the model parameters")
    CORRECT = ("correct predictions", "whether, or how often, a validation or test prediction was right")


class Direction(StrEnum):
    """Which way embeddings or gradients travel along the edges."""

    FORWARD = "forward"
    BACKWARD = "backward"


@dataclass(frozen=True, slots=True)
class Step:
    """When a message was sent.

    Attributes:
        round: training round, from 0.
        layer: layer of the model, from 0; -1 for what belongs to no layer.
        direction: forward or backward pass.
        evaluation: whether a forward pass serves to score the model and not to train it.
        part: which slice of rows that are too wide for one step, from 0.
        final: whether it is what parties are left with after the last round.

    Examples:
        >>> Step(round=3, layer=1).direction
        <Direction.FORWARD: 'forward'>
    """

    round: int
    layer: int = -1
    direction: Direction = Direction.FORWARD
    evaluation: bool = False
    part: int = 0
    final: bool = False


PAYLOAD = "payload"
"""The name of the field of messages that have one alone."""

KINDS = ("<f4", "<f8", "<i4", "<i8", "|u1", "<u2", "<u4", "<u8", "|b1", "|i1", "<i2")
"""Types of entries that travel, as numpy spells them."""
MOST_AXES = 4
MOST_FIELDS = 16
MOST_NAME_BYTES = 32
MOST_MESSAGES = 2**31
MOST_ENTRIES = 2**40
"""With empty axes taken as 1: numpy refuses shapes that it cannot count, also where there is nothing to count."""
SESSION_BYTES = 16

_MAGIC = b"FGLM\x01"
_HEAD = struct.Struct(f">5s{SESSION_BYTES}sBIIiBBiBQB")
_FIELD = struct.Struct(">BBB")


class LazyArray:
    """A field that is not laid out: rows [m, d] are made when a party reads them, a few at a time.

    For what is large and goes by once, between parties of one process that keeps sizes alone. A party that wants all of
    it, as a recording or a network does, gets an array.

    Args:
        make: rows [k, d] at some places, int64 [k], at least one; the same ones whenever it is asked. Or all of them
            as an array, in which case it is put in order once, however often it is handed on.
        shape: [m, d].
        dtype: of a row.
        indices: int64 [m], the places of the rows; all, as they stand, unless given.
    """

    __slots__ = ("_make", "_which", "dtype", "shape")

    def __init__(
        self,
        make: Callable[[Ids], Array] | Array,
        shape: tuple[int, int],
        dtype: np.dtype[Any],
        indices: Ids | None = None,
    ) -> None:
        self._make, self.shape, self.dtype, self._which = make, shape, dtype, indices

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def ndim(self) -> int:
        """2."""
        return len(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes of a number."""
        return self.dtype.itemsize

    def take(self, places: Ids) -> LazyArray:
        """Some of the rows, not laid out either."""
        indices = places if self._which is None else self._which[places]
        return LazyArray(self._make, (len(places), self.shape[1]), self.dtype, indices)

    def columns(self, start: int, stop: int) -> LazyArray:
        """Some of the columns, not laid out either."""
        made = self._make
        shape = len(self), stop - start
        if isinstance(made, np.ndarray):
            return LazyArray(made[:, start:stop], shape, self.dtype, self._which)
        return LazyArray(lambda places: made(places)[:, start:stop], shape, self.dtype, self._which)

    def rows(self, places: Ids) -> Array:
        """Some of the rows: [k, d]."""
        if not len(places):
            return np.empty((0, self.shape[1]), dtype=self.dtype)
        indices = places if self._which is None else self._which[places]
        return self._make[indices] if isinstance(self._make, np.ndarray) else self._make(indices)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError("copy must not be False: rows are made anew each time")
        return self.rows(np.arange(len(self))).astype(dtype or self.dtype, copy=False)


def take_rows(value: Any, places: Ids, axis: int = 0) -> Any:
    """Some rows of a field, an array [*tapes, m, ...] or one that is not laid out, as that is."""
    return value.take(places) if isinstance(value, LazyArray) else np.take(value, places, axis=axis)


class Fields(Mapping[str, Array]):
    """Arrays by name, none of which can be replaced; arrays of a pickle or copy are read-only.

    Args:
        arrays: by name.
    """

    __slots__ = ("_arrays",)

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        self._arrays = dict(arrays)

    def __getitem__(self, name: str) -> Array:
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def __reduce__(self) -> tuple[Callable[[dict[str, Array]], Fields], tuple[dict[str, Array]]]:
        return _read_only_fields, ({name: np.asarray(value) for name, value in self.items()},)


def _read_only_fields(arrays: dict[str, Array]) -> Fields:
    for array in arrays.values():
        array.flags.writeable = False
    return Fields(arrays)


class _LazyRows(Mapping[str, Array]):
    """Some rows of other fields, which are laid out when they are read: what is handed on twice is copied once."""

    __slots__ = ("_axis", "_laid_out", "base", "which")

    def __init__(self, fields: Mapping[str, Array], indices: Ids, axis: int) -> None:
        self.base: Mapping[str, Array] = fields
        self.which: Ids = indices
        if isinstance(fields, _LazyRows):
            self.base, self.which = fields.base, fields.which[indices]
        self._axis = axis
        self._laid_out: dict[str, Array] = {}

    def __getitem__(self, name: str) -> Array:
        if name not in self._laid_out:
            value = take_rows(self.base[name], self.which, self._axis)
            if isinstance(value, np.ndarray):
                value.flags.writeable = False
            self._laid_out[name] = value
        return self._laid_out[name]

    def __contains__(self, name: object) -> bool:  # that of Mapping would lay the field out
        return name in self.base

    def __iter__(self) -> Iterator[str]:
        return iter(self.base)

    def __len__(self) -> int:
        return len(self.base)

    def __reduce__(self) -> tuple[Callable[[dict[str, Array]], Fields], tuple[dict[str, Array]]]:
        return _read_only_fields, ({name: np.asarray(value) for name, value in self.items()},)


@dataclass(frozen=True, slots=True, eq=False)
class Messages:
    """Messages of one phase at one step, one row a message.

    Attributes:
        phase: what they carry.
        step: when they are sent.
        senders: int64 [m], party identifiers.
        receivers: int64 [m], party identifiers.
        fields: by name, [*tapes, m, ...]; large ones may be `LazyArray` while they stay in a process.
        tape_axes: leading axes of every field: 0, or 1 when all coin tapes run at once.
        overhead: bytes that a transport adds to each message beside its fields, such as authentication; below 0 where
            fields repeat what its sequence numbers tell.
        sealed: whether a party behind the receivers alone can open the fields: they are carried on, and not recorded.
    """

    phase: MessageKind
    step: Step
    senders: Ids
    receivers: Ids
    fields: Mapping[str, Array]
    tape_axes: int = 0
    overhead: int = 0
    sealed: bool = False

    def __post_init__(self) -> None:
        m = len(self.senders)
        if len(self.receivers) != m:
            raise InputError(f"receivers must be as many as senders; found {len(self.receivers)} and {m}")
        if isinstance(self.fields, _LazyRows) and len(self.fields.which) == m:
            return
        for name, value in self.fields.items():
            if value.ndim <= self.tape_axes or value.shape[self.tape_axes] != m:
                raise InputError(
                    f"field {name} must have one row for each of {m} messages behind {self.tape_axes} tape axes; "
                    f"found shape {list(value.shape)}"
                )

    def __len__(self) -> int:
        return len(self.senders)

    def __getitem__(self, name: str) -> Array:
        """A field.

        Raises:
            MalformedMessageError: there is none of that name.
        """
        if name not in self.fields:
            raise MalformedMessageError(
                f"message of {self.phase.label} must have the field {name}; found {', '.join(self.fields) or 'none'}"
            )
        return self.fields[name]

    @property
    def kinds(self) -> dict[str, tuple[np.dtype[Any], tuple[int, ...]]]:
        """Type and shape of the fields of one message, by name."""
        fields = self.fields.base if isinstance(self.fields, _LazyRows) else self.fields
        return {name: (value.dtype, value.shape[self.tape_axes + 1 :]) for name, value in fields.items()}

    @property
    def item_bytes(self) -> int:
        """Bytes of one message: its fields and the overhead."""
        return sum(kind.itemsize * math.prod(shape) for kind, shape in self.kinds.values()) + self.overhead

    def rows(self, index: Ids | NDArray[np.bool_]) -> Messages:
        """Some of the messages, by place or by flag; a place that is named twice comes twice.

        Fields are laid out when they are read: until then those of the messages that they are taken of must stay.
        """
        places: Ids = np.flatnonzero(index) if index.dtype == np.bool_ else index.astype(np.int64, copy=False)
        last = len(places) - 1
        ends = last + 1 == len(self) and (last < 0 or (places[0] == 0 and places[last] == last))
        if ends and bool((places == np.arange(len(places))).all()):
            return self
        fields = _LazyRows(self.fields, places, self.tape_axes)
        return replace(self, senders=self.senders[places], receivers=self.receivers[places], fields=fields)

    def laid_out(self) -> Messages:
        """The same with arrays alone."""
        fields = dict(self.fields)
        if not any(isinstance(value, LazyArray) for value in fields.values()):
            return self
        return replace(self, fields={name: np.asarray(value) for name, value in fields.items()})

    def read_only(self, *, own: bool) -> Messages:
        """The same with fields that no party can write to; copies of them if they must be a recording's own."""
        if isinstance(self.fields, _LazyRows) and not own:
            return self
        fields = {}
        for name, value in self.fields.items():
            if isinstance(value, LazyArray) and not own:
                fields[name] = value
                continue
            copy = _own_copy(value, self.tape_axes) if own else value.view()
            copy.flags.writeable = False
            fields[name] = copy
        ends = self.senders, self.receivers
        return Messages(self.phase, self.step, *ends, Fields(fields), self.tape_axes, self.overhead, self.sealed)


def is_frozen(value: Array) -> bool:
    """Whether an array is one that no party can write to, not even via its base."""
    base = value.base
    owned = base is None or isinstance(base, bytes) or (isinstance(base, np.ndarray) and is_frozen(base))
    return owned and not value.flags.writeable


def _own_copy(value: Array, tape_axes: int) -> Array:
    """A copy, unless it needs none; of what is the same on all tapes, one that serves them all."""
    if isinstance(value, LazyArray):
        return np.asarray(value)
    if is_frozen(value):
        return value
    same = tape_axes and len(value) and not value.strides[0]
    return np.broadcast_to(value[:1].copy(), value.shape) if same else value.copy()


def encode(messages: Messages, session: bytes = bytes(SESSION_BYTES)) -> bytes:
    """A batch as bytes: no pickle, nothing that could run.

    Args:
        messages: of one run (no tape axis), with fields of the types in `KINDS`.
        session: 16 public bytes that the receiver checks.
    """
    if messages.tape_axes:
        raise InputError(f"messages must be those of one run to become bytes; found {messages.tape_axes} tape axes")
    step = messages.step
    head = _HEAD.pack(
        _MAGIC,
        session,
        len(messages.phase.name),
        step.round,
        step.part,
        step.layer,
        2 * (step.direction is Direction.BACKWARD) + step.evaluation,
        step.final,
        messages.overhead,
        messages.sealed,
        len(messages),
        len(messages.fields),
    )
    parts = [head, messages.phase.name.encode()]
    parts += [ends.astype("<i8").tobytes() for ends in (messages.senders, messages.receivers)]
    for name, value in messages.fields.items():
        kind = value.dtype.newbyteorder("<").str
        if kind not in KINDS or not 1 <= value.ndim <= MOST_AXES:
            raise InputError(f"field {name} must be of a type that travels and 1 to {MOST_AXES} axes; found {kind}")
        title = name.encode("ascii")
        parts += [_FIELD.pack(len(title), KINDS.index(kind), value.ndim), title]
        parts += [struct.pack(f">{value.ndim}Q", *value.shape), np.ascontiguousarray(value, dtype=kind).tobytes()]
    return b"".join(parts)


def decode(data: bytes, session: bytes = bytes(SESSION_BYTES)) -> Messages:
    """Reads a batch; every length is checked before anything of it is used, and nothing is copied.

    Raises:
        MalformedMessageError: it is none, is cut or is too long.
        StaleMessageError: it is of another session.
    """
    reader = Reader(data)
    magic, where, phase_bytes, number, part, layer, kind, final, overhead, sealed, count, fields = reader.unpack(_HEAD)
    if magic != _MAGIC:
        raise MalformedMessageError(f"messages must start with {_MAGIC!r}; they do not")
    if where != session:
        raise StaleMessageError("messages must be of this session; found some of another")
    name = reader.take(phase_bytes).decode("ascii", errors="replace")
    phase = MessageKind.find(name)
    if phase is None:
        raise MalformedMessageError("messages must name a phase that is known; they do not")
    if kind > 3 or final > 1 or sealed > 1:
        raise MalformedMessageError("messages must say yes or no of their step and seal as 0 or 1; they do not")
    if count > MOST_MESSAGES or fields > MOST_FIELDS:
        raise MalformedMessageError(f"messages must be at most {MOST_MESSAGES} with {MOST_FIELDS} fields; found more")
    direction = Direction.BACKWARD if kind & 2 else Direction.FORWARD
    step = Step(number, layer, direction, bool(kind & 1), part, bool(final))
    senders, receivers = (reader.array("<i8", (count,)).astype(np.int64, copy=False) for _ in range(2))
    result: dict[str, Array] = {}
    for _ in range(fields):
        title, value = _field(reader, count)
        if title in result:
            raise MalformedMessageError("fields must each have a name of their own; at least one has not")
        result[title] = value
    reader.end()
    return Messages(phase, step, senders, receivers, Fields(result), 0, overhead, bool(sealed))


def _field(reader: Reader, count: int) -> tuple[str, Array]:
    length, kind, axes = reader.unpack(_FIELD)
    if not 1 <= length <= MOST_NAME_BYTES or kind >= len(KINDS) or not 1 <= axes <= MOST_AXES:
        raise MalformedMessageError("field must have a name, a known type and its number of axes; it has not")
    name = reader.take(length)
    if not name.isascii():
        raise MalformedMessageError("field must have a name of ASCII characters; it has another")
    title = name.decode("ascii")
    shape = reader.shape(axes)
    if shape[0] != count:
        raise MalformedMessageError(f"field must have a row for each of {count} messages; found {shape[0]}")
    return title, reader.array(KINDS[kind], shape)


class Reader:
    """Goes through bytes from the front, and takes no more than there are; raises MalformedMessageError for more."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def take(self, size: int) -> bytes:
        """The next bytes."""
        left = len(self._data) - self._at
        if size > left:
            raise MalformedMessageError(f"messages must have the {size:,} bytes that they say; found {left:,}")
        self._at += size
        return self._data[self._at - size : self._at]

    def unpack(self, form: struct.Struct) -> tuple[Any, ...]:
        """Numbers of a form."""
        return form.unpack(self.take(form.size))

    def shape(self, axes: int) -> tuple[int, ...]:
        """Lengths of so many axes."""
        return struct.unpack(f">{axes}Q", self.take(8 * axes))

    def array(self, kind: str, shape: tuple[int, ...]) -> Array:
        """An array of a kind and shape; it cannot be written to."""
        dtype, left = np.dtype(kind), len(self._data) - self._at
        if math.prod(max(length, 1) for length in shape) > MOST_ENTRIES:
            raise MalformedMessageError(f"field must have at most {MOST_ENTRIES:,} entries; it has more")
        size = dtype.itemsize * math.prod(shape)
        if size > left:
            raise MalformedMessageError(f"field must have the {size:,} bytes of its shape; found {left:,}")
        value = np.frombuffer(self._data, dtype=dtype, count=math.prod(shape), offset=self._at).reshape(shape)
        self._at += size
        if kind == "|b1" and value.size and int(value.view(np.uint8).max()) > 1:
            raise MalformedMessageError("field of yes and no must hold 0 and 1 alone; it does not")
        return value

    def end(self) -> None:
        """Nothing more."""
        if self._at != len(self._data):
            raise MalformedMessageError(f"messages must end with their last field; found {len(self._data) - self._at}")
