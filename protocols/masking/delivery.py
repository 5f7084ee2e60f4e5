"""Messages of pairwise masking as their receivers find them: what is lost, cut or misshapen is not there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.protocols.masking.graph import Neighbours
from fgl_secure.runtime import Channel, Delivery, Phase, Step

Ids = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Circle:
    """The parties of one session.

    Attributes:
        channel: between them.
        senders: int64 [m], party identifiers; senders are numbered by their place here.
        aggregator: who adds up.
        receiver: who is entitled to the sum.
        neighbours: who masks with whom.
    """

    channel: Channel
    senders: Ids
    aggregator: int
    receiver: int
    neighbours: Neighbours

    @property
    def split(self) -> bool:
        """Whether the aggregator must not learn the sum."""
        return self.aggregator != self.receiver

    def ends(self, u: int, v: int) -> tuple[int, int]:
        """Party identifiers of two senders."""
        return int(self.senders[u]), int(self.senders[v])

    def up(
        self, phase: Phase, step: Step, who: Ids, payload: NDArray[Any], wire_bytes: int | None = None
    ) -> tuple[Flags, NDArray[Any]]:
        """Messages of senders to the aggregator; see `exchanged`."""
        to = np.full(len(who), self.aggregator)
        return exchanged(self.channel, phase, step, self.senders[who], to, payload, wire_bytes)

    def down(self, phase: Phase, step: Step, who: Ids, payload: NDArray[Any]) -> tuple[Flags, NDArray[Any]]:
        """Messages of the aggregator to senders, one each; see `exchanged`."""
        ends = np.full(len(who), self.aggregator), self.senders[who]
        return exchanged(self.channel, phase, step, *ends, payload, None)

    def flags(self, who: Ids) -> Flags:
        """Bool [m]: which senders are among some."""
        found = np.zeros(len(self.senders), dtype=np.bool_)
        found[who] = True
        return found

    def forwarded(self, rows: NDArray[Any], present: Flags) -> NDArray[Any]:
        """What the aggregator forwards to each sender from what its neighbours gave for it, a flag in front.

        Args:
            rows: uint8 [m, k, bytes], by sender and place of the neighbour that it is for.
            present: bool [m], whose are there.

        Returns:
            uint8 [m, k, 1 + bytes], by receiver and place of the neighbour that it is from; zeros where none is.
        """
        table = self.neighbours.table
        out = np.zeros((*rows.shape[:2], 1 + rows.shape[2]), dtype=np.uint8)
        out[..., 0] = present[table]
        out[..., 1:] = rows[table, self.neighbours.places] * out[..., :1]
        return out


def exchanged(
    channel: Channel,
    phase: Phase,
    step: Step,
    senders: Ids,
    receivers: Ids,
    payload: NDArray[Any],
    wire_bytes: int | None,
) -> tuple[Flags, NDArray[Any]]:
    """Sends messages and puts what arrives in their places.

    A message that arrives twice counts once, as it came first; one of another shape than it must have does not count.

    Returns:
        Bool [n], which messages are there, and their payload [*batch, n, ...], zeros where they are not.
    """
    axis, n = len(channel.batch_shape), len(senders)
    delivery = carried(channel, phase, step, senders, receivers, payload, wire_bytes=wire_bytes)
    if delivery.rows is None and delivery.payload.shape == payload.shape and delivery.payload.dtype == payload.dtype:
        return np.ones(n, dtype=np.bool_), delivery.payload
    here, out = np.zeros(n, dtype=np.bool_), np.zeros_like(payload)
    if delivery.payload.shape[axis + 1 :] != payload.shape[axis + 1 :] or delivery.payload.dtype != payload.dtype:
        for sender in np.unique(delivery.senders).tolist():
            channel.note_incident(
                step, sender, f"a message ({phase.label}) has another shape than it must have: dropped"
            )
        return here, out
    rows = np.arange(n) if delivery.rows is None else delivery.rows
    places, first = np.unique(rows, return_index=True)
    here[places] = True
    out[(slice(None),) * axis + (places,)] = np.take(delivery.payload, first, axis=axis)
    return here, out


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
