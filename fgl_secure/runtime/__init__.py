"""Parties, channel, transcript, views and claims."""

from __future__ import annotations

from fgl_secure.runtime.channel import Channel, Delivery, Level, Recording, Tampered, simulate
from fgl_secure.runtime.claim import (
    Circumstance,
    CircumstanceKind,
    Claim,
    Guarantee,
    Leak,
    PublicParameters,
    Secret,
    SecretKind,
    Strength,
    leaks,
)
from fgl_secure.runtime.machine import Directory, Draws, Machine, OwnDraws, Party, Remark, Role
from fgl_secure.runtime.messages import PAYLOAD, Direction, Later, MessageKind, Messages, Phase, Step, decode, encode
from fgl_secure.runtime.transcript import (
    Incident,
    MessageBatch,
    Private,
    PrivateBatch,
    PrivateRows,
    ReceivedRows,
    Traffic,
    Transcript,
    View,
)

__all__ = [
    "PAYLOAD",
    "Channel",
    "Circumstance",
    "CircumstanceKind",
    "Claim",
    "Delivery",
    "Direction",
    "Directory",
    "Draws",
    "Guarantee",
    "Incident",
    "Later",
    "Leak",
    "Level",
    "Machine",
    "MessageBatch",
    "MessageKind",
    "Messages",
    "OwnDraws",
    "Party",
    "Phase",
    "Private",
    "PrivateBatch",
    "PrivateRows",
    "PublicParameters",
    "ReceivedRows",
    "Recording",
    "Remark",
    "Role",
    "Secret",
    "SecretKind",
    "Step",
    "Strength",
    "Tampered",
    "Traffic",
    "Transcript",
    "View",
    "decode",
    "encode",
    "leaks",
    "simulate",
]
