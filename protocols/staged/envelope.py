"""What every message of a staged sum starts with, and how fields are laid out in it: no pickle, no surprises."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from fgl_secure.errors import MalformedMessageError, StaleMessageError
from fgl_secure.protocols.staged.interface import SESSION_BYTES, Stage, SumTerms

MAGIC = b"FGLS"
VERSION = 1
SERVER = 2**32 - 1
"""Stands for the server among senders and receivers, who otherwise go by client numbers."""

_HEAD = struct.Struct(f">4sBB4s{SESSION_BYTES}sQII")  # magic, version, stage, scheme, session, sum, sender, receiver
_LENGTH = struct.Struct(">Q")


@dataclass(frozen=True, slots=True)
class Envelope:
    """Where a message belongs.

    Attributes:
        scheme: 4 bytes that name the scheme.
        terms: of the sum.
        stage: of the sum.
        sender: a client's number, or SERVER.
        receiver: the same.
    """

    scheme: bytes
    terms: SumTerms
    stage: Stage
    sender: int
    receiver: int

    def sealed(self, fields: Sequence[bytes]) -> bytes:
        """The message: the head, then each field with its length before it."""
        head = _HEAD.pack(
            MAGIC, VERSION, self.stage, self.scheme, self.terms.session, self.terms.number, self.sender, self.receiver
        )
        return head + packed(fields)

    def opened(self, message: bytes, count: int) -> list[bytes]:
        """The fields of a message that must belong here.

        Args:
            message: as it arrived.
            count: fields that it must have.

        Raises:
            MalformedMessageError: it is cut, too long, of another protocol, version or scheme, or misaddressed.
            StaleMessageError: it is of another session, sum or stage.
        """
        if len(message) < _HEAD.size or message[: len(MAGIC)] != MAGIC:
            raise MalformedMessageError(
                f"message must start with {MAGIC!r} and a head of {_HEAD.size} bytes; it does not"
            )
        _, version, stage, scheme, session, number, sender, receiver = _HEAD.unpack_from(message)
        if version != VERSION or scheme != self.scheme:
            raise MalformedMessageError(
                f"message must be of version {VERSION} and scheme {self.scheme!r}; found {version} and {scheme!r}"
            )
        if session != self.terms.session:
            raise StaleMessageError("message must be of this session; found one of another")
        if number != self.terms.number:
            raise StaleMessageError(f"message must be of sum {self.terms.number}; found {number}")
        if stage != self.stage:
            raise StaleMessageError(f"message must be of stage {self.stage.name} ({self.stage:d}); found {stage}")
        if (sender, receiver) != (self.sender, self.receiver):
            raise MalformedMessageError(
                f"message must run from {self.sender} to {self.receiver}; found {sender} to {receiver}"
            )
        fields = unpacked(message[_HEAD.size :])
        if len(fields) != count:
            raise MalformedMessageError(f"message must have {count} fields; found {len(fields)}")
        return fields


def stage_of(message: bytes) -> Stage:
    """The stage that a message says it is of.

    Raises:
        MalformedMessageError: it says nothing of the kind.
    """
    if len(message) < _HEAD.size or message[: len(MAGIC)] != MAGIC or message[5] not in set(Stage):
        raise MalformedMessageError("message must start with the head of a staged sum; it does not")
    return Stage(message[5])


def packed(fields: Sequence[bytes]) -> bytes:
    """Fields one after another, each behind its length in 8 bytes."""
    return b"".join(part for field in fields for part in (_LENGTH.pack(len(field)), field))


def unpacked(data: bytes) -> list[bytes]:
    """What was packed.

    Raises:
        MalformedMessageError: lengths do not add up.
    """
    fields, at = [], 0
    while at < len(data):
        if len(data) - at < _LENGTH.size:
            raise MalformedMessageError("message must end with its last field; it is cut")
        (length,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size
        if length > len(data) - at:
            raise MalformedMessageError(f"field must have the {length:,} bytes it says; found {len(data) - at:,}")
        fields.append(data[at : at + length])
        at += length
    return fields
