"""Parties, channel, transcript, views and claims."""

from __future__ import annotations

from fgl_secure.runtime.channel import Channel, Delivery, Level, Recording, Tampered
from fgl_secure.runtime.claim import Circumstance, Claim, Guarantee, Leak, PublicParameters, Secret, Strength
from fgl_secure.runtime.party import Directory, Party, Role
from fgl_secure.runtime.phase import Direction, Phase, Step
from fgl_secure.runtime.transcript import Incident, MessageBatch, Private, PrivateBatch, Traffic, Transcript
from fgl_secure.runtime.view import PrivateRows, ReceivedRows, View

__all__ = [
    "Channel",
    "Circumstance",
    "Claim",
    "Delivery",
    "Direction",
    "Directory",
    "Guarantee",
    "Incident",
    "Leak",
    "Level",
    "MessageBatch",
    "Party",
    "Phase",
    "Private",
    "PrivateBatch",
    "PrivateRows",
    "PublicParameters",
    "ReceivedRows",
    "Recording",
    "Role",
    "Secret",
    "Step",
    "Strength",
    "Tampered",
    "Traffic",
    "Transcript",
    "View",
]
