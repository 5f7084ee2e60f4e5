"""What all clients must be sent alike: a digest of the message that their apps train on."""

from __future__ import annotations

import hashlib
import struct
from typing import Any

from flwr.app import ArrayRecord, Message, RecordDict

from fgl_secure.errors import MalformedMessageError
from fgl_secure.flower.records import without_request
from fgl_secure.runtime.packing import packed

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
