"""What mod and strategy write into Flower's messages beside the app's own records."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict

from fgl_secure.errors import InputError, MalformedMessageError
from fgl_secure.runtime.packing import packed

KEY = "fgl-secure.secure-aggregation"
"""Name of the record; an app must not use it for one of its own."""
ARRAYS = "arrays"
METRICS = "metrics"
"""The two halves of the mapping that is averaged."""
_MESSAGE = "message"
_TERMS = "terms"
_IDENTITY = "identity"


@dataclass(frozen=True, slots=True)
class Request:
    """What the server asks a client for.

    Attributes:
        message: of a round; empty when the client is asked who it is.
        terms: of the round, as `RoundTerms.to_bytes` gives them, with its first message; empty later.
    """

    message: bytes
    terms: bytes = b""

    def added_to(self, content: RecordDict) -> RecordDict:
        """A copy of an app's records with the request among them."""
        return RecordDict({**content, KEY: ConfigRecord({_MESSAGE: self.message, _TERMS: self.terms})})

    @classmethod
    def of(cls, content: RecordDict) -> Request | None:
        """The request among a message's records; None where there is none.

        Raises:
            MalformedMessageError: the record is no request.
        """
        if KEY not in content:
            return None
        return cls(_bytes(content, _MESSAGE), _bytes(content, _TERMS))

    @property
    def asks_for_identity(self) -> bool:
        """Whether the client is asked who it is, before a round starts."""
        return not self.message


@dataclass(frozen=True, slots=True)
class Answer:
    """What a client says, and nothing else: none of the app's own records go with it.

    Attributes:
        message: of a round.
        identity: 32 public bytes, where the client was asked for them.
    """

    message: bytes = b""
    identity: bytes = b""

    def to(self, request: Message) -> Message:
        """The reply that carries it."""
        record = ConfigRecord({_MESSAGE: self.message, _IDENTITY: self.identity})
        return Message(RecordDict({KEY: record}), reply_to=request)

    @classmethod
    def of(cls, content: RecordDict) -> Answer:
        """The answer in a reply.

        Raises:
            MalformedMessageError: it has none.
        """
        return cls(_bytes(content, _MESSAGE), _bytes(content, _IDENTITY))


def without_request(content: RecordDict) -> RecordDict:
    """The app's own records."""
    return RecordDict({name: record for name, record in content.items() if name != KEY})


def only_arrays(content: RecordDict, whose: str) -> ArrayRecord:
    """The one record of arrays.

    Raises:
        InputError: there is none, or there are several.
    """
    records = list(content.array_records.values())
    if len(records) != 1:
        raise InputError(f"{whose} must have one ArrayRecord; found {len(records)}")
    return records[0]


def only_metrics(content: RecordDict, whose: str) -> MetricRecord:
    """The one record of metrics.

    Raises:
        InputError: there is none, or there are several.
    """
    records = list(content.metric_records.values())
    if len(records) != 1:
        raise InputError(f"{whose} must have one MetricRecord; found {len(records)}")
    return records[0]


def arrays_of(record: ArrayRecord) -> dict[str, Any]:
    """The numpy arrays of a record, by name."""
    return {name: array.numpy() for name, array in record.items()}


def record_of(arrays: Mapping[str, Any]) -> ArrayRecord:
    """The record of numpy arrays, by name."""
    return ArrayRecord({name: Array(value) for name, value in arrays.items()})


def _bytes(content: RecordDict, name: str) -> bytes:
    record = content.get(KEY)
    value = record.get(name) if isinstance(record, ConfigRecord) else None
    if not isinstance(value, bytes):
        raise MalformedMessageError(f"message must hold bytes under {KEY!r}, {name!r}; it does not")
    return value


LABEL = b"fgl-secure training/v1"


def digest_of(message: Message) -> str:
    """Hexadecimal digits of the SHA-256 of a message's type and of the app's own records in it.

    A server that sends one client another model than the rest, one that they do not learn from (Pasquini, Francati and
    Ateniese, CCS 2022), or another configuration, say a learning rate of 0, reads that client's update off the sum.
    With this digest among the terms of a round no sum comes about then.

    Raises:
        MalformedMessageError: a record holds a value that Flower's records cannot hold.
    """
    parts = [LABEL, message.metadata.message_type.encode(), *_records(without_request(message.content))]
    return hashlib.sha256(packed(parts)).hexdigest()


def _records(content: RecordDict) -> list[bytes]:
    """Names and contents of all records, whatever their order."""
    return [part for name in sorted(content) for part in (name.encode(), _record(content[name]))]


def _record(record: Any) -> bytes:
    entries = [part for name in sorted(record) for part in (name.encode(), _value(record[name], record))]
    return packed([type(record).__name__.encode(), *entries])


def _value(value: Any, record: Any) -> bytes:
    if isinstance(record, ArrayRecord):
        return packed([value.dtype.encode(), repr(tuple(map(int, value.shape))).encode(), value.stype.encode(),
                       value.data])  # fmt: skip
    if isinstance(value, list):
        return b"l" + packed([_scalar(each) for each in value])
    return _scalar(value)


def _scalar(value: Any) -> bytes:
    match value:
        case bool():
            return b"t" if value else b"f"
        case int():
            return b"i" + str(int(value)).encode()
        case float():
            return b"d" + struct.pack(">d", value)
        case str():
            return b"s" + value.encode()
        case bytes():
            return b"b" + value
    raise MalformedMessageError(f"records must hold numbers, texts and bytes; found {type(value).__name__}")
