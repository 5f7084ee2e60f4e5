"""What mod and strategy write into Flower's messages beside the app's own records."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict
from numpy.typing import NDArray

from fgl_secure.errors import InputError, MalformedMessageError
from fgl_secure.runtime.packing import pack

KEY = "fgl-secure.secure-aggregation"
"""Name of the record; an app must not use it for one of its own."""
ARRAYS = "arrays"
METRICS = "metrics"
"""The two halves of the mapping that is averaged."""
_MESSAGE = "message"
_TERMS = "terms"
_IDENTITY = "identity"
_CONFIGURATION = "configuration"
_HALF = 0.5


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """What the server asks a client for.

    Attributes:
        message: of a round; empty when the client is asked to introduce itself.
        terms: of the round, as `RoundTerms.to_bytes` gives them, with its first message; empty later.
    """

    message: bytes
    terms: bytes = b""

    def added_to(self, content: RecordDict) -> RecordDict:
        """A copy of an app's records with the request among them."""
        return RecordDict({**content, KEY: ConfigRecord({_MESSAGE: self.message, _TERMS: self.terms})})

    @classmethod
    def of(cls, content: RecordDict) -> RequestRecord | None:
        """The request among a message's records; None where there is none.

        Raises:
            MalformedMessageError: the record is no request.
        """
        if KEY not in content:
            return None
        return cls(_bytes(content, _MESSAGE), _bytes(content, _TERMS))

    @property
    def asks_for_introduction(self) -> bool:
        """Whether the client is asked, before a round starts, who it is and how its run is configured."""
        return not self.message


@dataclass(frozen=True, slots=True)
class AnswerRecord:
    """What a client says, and nothing else: none of the app's own records go with it.

    Attributes:
        message: of a round; empty in an introduction.
        identity: 32 public bytes in the introduction of a client that has an identity; else empty.
        configuration: the `digest_of_configuration` in an introduction; else empty.
    """

    message: bytes = b""
    identity: bytes = b""
    configuration: bytes = b""

    def to(self, request: Message) -> Message:
        """The reply that carries it."""
        record = ConfigRecord({_MESSAGE: self.message, _IDENTITY: self.identity})
        record[_CONFIGURATION] = self.configuration
        return Message(RecordDict({KEY: record}), reply_to=request)

    @classmethod
    def of(cls, content: RecordDict) -> AnswerRecord:
        """The answer in a reply.

        Raises:
            MalformedMessageError: it has none.
        """
        return cls(_bytes(content, _MESSAGE), _bytes(content, _IDENTITY), _bytes(content, _CONFIGURATION))


def without_request(content: RecordDict) -> RecordDict:
    """The app's own records."""
    return RecordDict({name: record for name, record in content.items() if name != KEY})


def only_arrays(content: RecordDict, owner: str) -> ArrayRecord:
    """The one record of arrays.

    Raises:
        InputError: there is none, or there are several.
    """
    records = list(content.array_records.values())
    if len(records) != 1:
        raise InputError(f"{owner} must have one ArrayRecord; found {len(records)}")
    return records[0]


def arrays_of(record: ArrayRecord) -> dict[str, Any]:
    """The numpy arrays of a record, by name."""
    return {name: array.numpy() for name, array in record.items()}


def entries_of(content: RecordDict) -> dict[str, bytes]:
    """Return the type of each record by its name, and each value by the names of record and value, as bytes.

    Raises:
        MalformedMessageError: a record holds a value that Flower's records cannot hold.
    """
    result = {name: type(record).__name__.encode() for name, record in content.items()}
    for name, record in content.items():
        result |= {f"{name}/{key}": _value(value, record) for key, value in record.items()}
    return result


def typed_record(arrays: Mapping[str, Any], types: Mapping[str, np.dtype[Any]]) -> ArrayRecord:
    """Return the record of numpy arrays, cast to the types that some of the names have.

    What becomes an integer is rounded to the nearest, halves up; a truth value is true from one half on.

    Raises:
        InputError: a number does not fit into the integers of its type.
    """
    return ArrayRecord(
        {name: Array(_cast(name, value, types.get(name, value.dtype))) for name, value in arrays.items()}
    )


def types_of(record: ArrayRecord) -> dict[str, np.dtype[Any]]:
    """Return the types of a record's arrays, by name."""
    return {name: array.dtype for name, array in arrays_of(record).items()}


def _cast(name: str, value: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    if value.dtype.kind == "f" and dtype.kind == "b":
        value = np.asarray(value >= _HALF)
    elif value.dtype.kind == "f" and dtype.kind in "iu":
        limits, value = np.iinfo(dtype), np.floor(value + _HALF)
        end = 2.0 ** (limits.bits - (dtype.kind == "i"))  # one more than the largest, which is no float
        if not ((value >= limits.min) & (value < end)).all():
            raise InputError(
                f"{name} must fit into {dtype}, as it came; a mean or step of the strategy does not: send floats"
            )
    return np.asarray(value, dtype=dtype)


def _bytes(content: RecordDict, name: str) -> bytes:
    record = content.get(KEY)
    value = record.get(name) if isinstance(record, ConfigRecord) else None
    if not isinstance(value, bytes):
        raise MalformedMessageError(f"message must hold bytes under {KEY!r}, {name!r}; it does not")
    return value


_LABEL = b"fgl-secure training/v2"


def digest_of(message: Message, configuration: bytes = b"") -> str:
    """Hexadecimal digits of the SHA-256 of all that an app trains on, as it is handed to it.

    That is the message's type and group, the app's own records in it, and the configuration of the run. A server that
    sends one client another model than the rest, one that they do not learn from (Pasquini, Francati and Ateniese,
    CCS 2022), or another configuration, say a learning rate of 0, reads that client's update off the sum. Two arrays
    of one shape that change places are another model to an app that takes them by position, and Flower's messages keep
    the order of records and of what is in them: so the order counts. With this digest among the terms of a round no sum
    comes about where it differs.

    Args:
        message: for training.
        configuration: the `digest_of_configuration` of the run.

    Raises:
        MalformedMessageError: a record holds a value that Flower's records cannot hold.
    """
    content = without_request(message.content)
    records = [part for name, record in content.items() for part in (name.encode(), _record(record))]
    head = [_LABEL, message.metadata.message_type.encode(), message.metadata.group_id.encode(), configuration]
    return hashlib.sha256(pack([*head, *records])).hexdigest()


def digest_of_configuration(run_config: Mapping[str, Any]) -> bytes:
    """SHA-256, 32 bytes, of names and values of a run's configuration, whose order Flower does not keep.

    Raises:
        MalformedMessageError: it holds a value that Flower's configurations cannot hold.
    """
    parts = [part for name in sorted(run_config) for part in (name.encode(), _scalar(run_config[name]))]
    return hashlib.sha256(pack([b"fgl-secure configuration/v1", *parts])).digest()


def _record(record: Any) -> bytes:
    entries = [part for name, value in record.items() for part in (name.encode(), _value(value, record))]
    return pack([type(record).__name__.encode(), *entries])


def _value(value: Any, record: Any) -> bytes:
    if isinstance(record, ArrayRecord):
        return pack([value.dtype.encode(), repr(tuple(map(int, value.shape))).encode(), value.stype.encode(),
                       value.data])  # fmt: skip
    if isinstance(value, list):
        return b"l" + pack([_scalar(item) for item in value])
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
