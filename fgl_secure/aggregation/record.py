"""What the server saw of a round, for reports: messages, bytes, seconds, and what it holds of each client."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self

from fgl_secure.aggregation.layout import Layout
from fgl_secure.aggregation.rules import Purpose
from fgl_secure.protocols.staged.envelope import SERVER, Envelope
from fgl_secure.protocols.staged.interface import SESSION_BYTES, Stage, SumTerms

HELD_BYTES = 2**18
"""Of each client's vector as it arrived so many bytes are kept for the report."""
_NOWHERE = SumTerms(bytes(SESSION_BYTES), 0, 2, 2, 1, 1)
_BEFORE = len(Envelope(b"    ", _NOWHERE, Stage.VECTORS, 0, SERVER).sealed([b""]))
"""Bytes of a message before its first field."""


def held_of(message: bytes) -> bytes:
    """What is kept of a message with a vector: the start of its first field."""
    return message[_BEFORE : _BEFORE + HELD_BYTES]


@dataclass(frozen=True, slots=True)
class StageRecord:
    """One stage of one sum.

    Attributes:
        purpose: of the sum.
        stage: of the sum.
        requests: messages to clients.
        request_bytes: in all of them.
        answers: messages from clients.
        answer_bytes: in all of them.
        seconds: from the first request to the end of the stage, by the server's clock.
    """

    purpose: Purpose
    stage: Stage
    requests: int
    request_bytes: int
    answers: int
    answer_bytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class RoundRecord:
    """What the server saw of a round. Holds no client's numbers but those that reached the server.

    Attributes:
        scheme: its name.
        modulus: of its field; None where it has none.
        number: of the round.
        clients: how many there are.
        threshold: least clients that a mean is over.
        included: whose numbers are in the mean.
        dropped: the others.
        layout: of the mappings.
        stages: in order.
        total_weight: the sum of the included clients' weights.
        bounds: largest magnitude of a float, by tensor; empty under privacy, where the clip is the bound.
        fraction_bits: bits behind the binary point, by tensor; under privacy all the same.
        error_bound: stated bound of the mean's error, by tensor; infinite under privacy.
        held: the first bytes of each client's vector as it arrived.
    """

    scheme: str
    modulus: int | None
    number: int
    clients: int
    threshold: int
    included: tuple[int, ...]
    dropped: tuple[int, ...]
    layout: Layout
    stages: tuple[StageRecord, ...]
    total_weight: float
    bounds: Mapping[str, float]
    fraction_bits: Mapping[str, int]
    error_bound: Mapping[str, float]
    held: Mapping[int, bytes] = field(repr=False)

    @property
    def byte_count(self) -> int:
        """Bytes of all messages."""
        return sum(stage.request_bytes + stage.answer_bytes for stage in self.stages)

    @property
    def seconds(self) -> float:
        """Of all stages."""
        return sum(stage.seconds for stage in self.stages)


@dataclass(slots=True)
class StageMeter:
    """Counts what passes in one stage.

    Attributes:
        purpose: of the sum.
        stage: of the sum.
    """

    purpose: Purpose
    stage: Stage
    _sent: list[int] = field(default_factory=list)
    _got: list[int] = field(default_factory=list)
    _start: float = field(default_factory=time.perf_counter)

    def sent(self, messages: Iterable[bytes]) -> Self:
        """Counts requests."""
        self._sent = [len(message) for message in messages]
        return self

    def got(self, message: bytes) -> None:
        """Counts an answer."""
        self._got.append(len(message))

    def record(self) -> StageRecord:
        """What was counted until now."""
        seconds = time.perf_counter() - self._start
        sent, got = self._sent, self._got
        return StageRecord(self.purpose, self.stage, len(sent), sum(sent), len(got), sum(got), seconds)
