"""What was seen of a round: its transcript, what the mean is over, and how exact it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.aggregation.layout import Layout
from fgl_secure.aggregation.purposes import Purpose
from fgl_secure.aggregation.rules import Rules
from fgl_secure.crypto.ring import Ring
from fgl_secure.errors import InputError
from fgl_secure.runtime import MessageBatch, Recording, Role, Traffic, Transcript

KEPT_BYTES = 2**28
"""Messages' contents are kept where the clients' vectors together have at most so many bytes; else sizes alone."""


def is_kept(rules: Rules, layout: Layout) -> bool:
    """Whether contents of a round's messages are kept."""
    return 8 * rules.clients * (layout.size + 1) <= KEPT_BYTES


def recording_for(rules: Rules, layout: Layout) -> Recording:
    """What is kept of a round."""
    return Recording.everything() if is_kept(rules, layout) else Recording()


@dataclass(frozen=True, slots=True)
class RoundRecord:
    """A round, as the server saw it or, where all parties are in one process, as it was.

    Records are equal where all public figures are: transcripts and withheld entries are not compared. A pickle or a
    copy has all messages of the transcript, and no party's inputs or random draws.

    Attributes:
        scheme: its name.
        ring: that vectors of the mean were masked in; None where they were not.
        number: of the round.
        clients: how many there are.
        threshold: least clients that a mean is over.
        included: whose numbers are in the mean.
        dropped: the others.
        layout: of the mappings.
        total_weight: the sum of the included clients' weights.
        bounds: largest magnitude of a float, by tensor; empty under privacy, where the clip is the bound.
        units: what a difference of 1 in a vector stands for, by float tensor; under privacy all the same.
        error_bound: stated bound of the mean's error, by tensor; infinite under privacy.
        transcript: of all messages, of server 0 and of clients as silos; attacks read its views.
        width: entries of a client's vector in the sum of the values.
        seconds: that the round took.
        k_min: fewest clients that an entry of the mean was opened for.
        withheld: by tensor and in its shape, bool: the entries that fewer may have contributed to, which nobody opened
            and which are 0 in the mean; empty where k_min is 1.
    """

    scheme: str
    ring: Ring | None
    number: int
    clients: int
    threshold: int
    included: tuple[int, ...]
    dropped: tuple[int, ...]
    layout: Layout
    total_weight: float
    bounds: Mapping[str, float]
    units: Mapping[str, float]
    error_bound: Mapping[str, float]
    transcript: Transcript = field(repr=False, compare=False)
    width: int = 0
    seconds: float = 0.0
    k_min: int = 1
    withheld: Mapping[str, NDArray[np.bool_]] = field(default_factory=dict, repr=False, compare=False)

    @property
    def byte_count(self) -> int:
        """Bytes of all messages."""
        return self.transcript.byte_count

    @property
    def traffic(self) -> tuple[Traffic, ...]:
        """Messages and bytes by phase, sending and receiving role."""
        return self.transcript.traffic()

    @property
    def purposes(self) -> frozenset[Purpose]:
        """What sums there were."""
        return frozenset(Purpose(batch.step.part) for batch in self.transcript.messages)

    def arrived(self, client: int) -> NDArray[np.int64]:
        """The largest message of a client to the server in the sum of the values, as words of 8 bytes.

        A masked vector has a word for each element.

        Raises:
            InputError: contents were not kept.
        """
        party = int(self.transcript.parties.ids(Role.SILO)[client])
        of = next(purpose for purpose in (Purpose.VALUES, Purpose.WATCHED) if purpose in self.purposes)
        found = [value for batch in self.transcript.messages for value in _sent(batch, party, of)]
        if not found:
            raise InputError(f"contents of messages must be kept, and are up to {KEPT_BYTES:,} bytes; these were not")
        largest = max(found, key=lambda value: value.nbytes)
        if self.ring is None or not self.ring.packed:
            return _words(largest)
        masked = [each for each in found if each.shape == (self.ring.entries(self.width),)]
        return self.ring.read(masked[0], self.width) if masked else _words(largest)


def _sent(batch: MessageBatch, party: int, purpose: Purpose) -> list[NDArray[Any]]:
    """Fields of what a party sends in a sum."""
    rows = np.flatnonzero(batch.senders == party)
    if batch.fields is None or batch.step.part != purpose or not len(rows):
        return []
    return [value[rows[0]] for value in batch.fields.values()]


def _words(value: NDArray[Any]) -> NDArray[np.int64]:
    if value.dtype.kind in "iu" and value.dtype.itemsize > 1:
        return value.reshape(-1).astype(np.int64)
    data = value.tobytes()
    return np.frombuffer(data, dtype="<i8", count=len(data) // 8).astype(np.int64)
