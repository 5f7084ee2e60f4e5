"""What a relay holds of the messages of one step, whatever the network did to them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.errors import ProtocolError
from fgl_secure.runtime import Channel, Delivery, Phase, Step

Ids = NDArray[np.int64]

TAG_BYTES = 16
AUTHENTICATION_BYTES = 16
"""What authenticated encryption adds to a message."""
SEAL_BYTES = 48
"""What sealing for a public key adds: a fresh public key and the authentication."""
NAMING_WORDS = 4
"""Words of a header that name a message: two of its tag, slot and attempt."""


@dataclass(slots=True, eq=False)
class Held:
    """Headers and shares at one relay, in the order in which they were sent.

    Attributes:
        relay: party identifier.
        present: bool [m], which messages are there whole.
        headers: int64 [*batch, m, h]: two words of tag, slot and attempt first.
        shares: elements [*batch, m, d].
    """

    relay: int
    present: NDArray[np.bool_]
    headers: Ids
    shares: NDArray[Any]

    def take(self, part: str, delivery: Delivery, step: Step, channel: Channel, sent: Ids) -> None:
        """Puts what arrived in its place; a message that arrives twice counts once.

        Args:
            part: "headers" or "shares".
            delivery: what arrived.
            step: when.
            channel: where incidents are noted.
            sent: int64 [k], place among all m messages of each one that was sent.

        Raises:
            ProtocolError: a message arrived twice with different contents.
        """
        axis = len(channel.batch_shape)
        if delivery.rows is None and len(sent) == len(self.present) and bool((sent[1:] > sent[:-1]).all()):
            setattr(self, part, delivery.payload)  # all of them in their order
            return
        rows = sent if delivery.rows is None else sent[delivery.rows]
        first, repeated = _first_and_repeated(rows)
        if len(repeated):
            self._check_repeats(rows, delivery, step, channel, repeated)
        values = getattr(self, part)
        if not values.flags.writeable:
            values = values.copy()
        values[(slice(None),) * axis + (rows[first],)] = np.take(delivery.payload, first, axis=axis)
        setattr(self, part, values)

    def _check_repeats(self, rows: Ids, delivery: Delivery, step: Step, channel: Channel, repeated: Ids) -> None:
        axis = len(channel.batch_shape)
        for copy in repeated.tolist():
            original = int(np.flatnonzero(rows == rows[copy])[0])
            pair = np.take(delivery.payload, [original, copy], axis=axis)
            sender = int(delivery.senders[copy])
            if not np.array_equal(np.take(pair, 0, axis=axis), np.take(pair, 1, axis=axis)):
                raise ProtocolError(
                    f"{channel.parties.party_of(sender)} must resend the same bytes or make a new attempt; two "
                    f"different messages under one slot reached {channel.parties.party_of(self.relay)} in round "
                    f"{step.round}"
                )
            channel.note_incident(step, sender, "a message arrived twice and counts once")

    def digest(self) -> bytes:
        """SHA-256 over which messages are there and their headers: relays that hold the same say the same.

        Seeds, the rest of a header, differ between relays and stay out.
        """
        headers = self.headers[..., :NAMING_WORDS]
        headers = headers if bool(self.present.all()) else headers[..., self.present, :]
        return hashlib.sha256(np.packbits(self.present).tobytes() + np.ascontiguousarray(headers).tobytes()).digest()


def carried(
    channel: Channel,
    phase: Phase,
    step: Step,
    senders: Ids,
    receivers: Ids,
    payload: NDArray[Any],
    *,
    wire_bytes: int | None = None,
) -> Delivery:
    """Sends messages, and keeps those that arrive whole and as they were sent.

    A message that was cut short or changed on the way fails its authentication: it is as good as lost, and noted.
    """
    delivery = channel.send(phase, step, senders, receivers, payload, wire_bytes=wire_bytes)
    good = _good(delivery, len(channel.batch_shape))
    if good.all():
        return delivery
    bad, counts = np.unique(delivery.senders[~good], return_counts=True)
    for sender, count in zip(bad.tolist(), counts.tolist(), strict=True):
        channel.note_incident(step, sender, f"{count} of its messages ({phase.label}) arrived cut or changed: dropped")
    rows, kept = delivery.rows, np.flatnonzero(good)
    return Delivery(delivery.messages.rows(kept), kept if rows is None else rows[kept])


def _good(delivery: Delivery, axis: int) -> NDArray[np.bool_]:
    """Which messages are whole and genuine: bool [m]."""
    good = np.ones(len(delivery.senders), dtype=np.bool_) if delivery.genuine is None else delivery.genuine
    if delivery.sizes is None:
        return good
    whole = int(np.prod(delivery.payload.shape[axis + 1 :])) * delivery.payload.itemsize
    return good & (delivery.sizes >= whole)


def arrived(delivery: Delivery, sent: Ids, messages: int) -> NDArray[np.bool_]:
    """Bool [m]: which of all messages a delivery of some of them brought."""
    present = np.zeros(messages, dtype=np.bool_)
    present[sent if delivery.rows is None else sent[delivery.rows]] = True
    return present


def _first_and_repeated(rows: Ids) -> tuple[Ids, Ids]:
    """Positions at which a place is named for the first time, and the others."""
    _, first = np.unique(rows, return_index=True)
    return first, np.setdiff1d(np.arange(len(rows)), first)
