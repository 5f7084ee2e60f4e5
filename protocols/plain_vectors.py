"""Sums over clients in the clear: the oracle of correctness, and the unprotected run that attacks must break."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fgl_secure.protocols.vector_sum import Integers, VectorGroup, VectorScheme, VectorSession, check_range, check_rows
from fgl_secure.runtime import Channel, Claim, Phase, PublicParameters, Step

LARGEST = 2**62


@dataclass(frozen=True, slots=True)
class PlainVectors(VectorScheme):
    """Every sender hands its vector to the receiver, who adds up."""

    @property
    def name(self) -> str:
        """`plaintext`."""
        return "plaintext"

    @property
    def claim(self) -> Claim:
        """No promise."""
        return Claim(guarantees=(), leaks_by_design=(), assumptions=())

    @property
    def public(self) -> PublicParameters:
        """Nothing to know."""
        return PublicParameters()

    def limit(self, terms: int) -> int:  # noqa: ARG002  # whatever their number
        """What int64 holds with a bit to spare."""
        return LARGEST

    def open(self, channel: Channel, group: VectorGroup, length: int, bound: int) -> VectorSession:
        """Needs no set-up."""
        check_range(self, len(group.senders), length, bound)
        return _PlainSession(channel, group, length, bound)


class _PlainSession(VectorSession):
    def __init__(self, channel: Channel, group: VectorGroup, length: int, bound: int) -> None:
        self._channel, self._group, self._length, self._bound = channel, group, length, bound

    def sum(self, rows: Integers, step: Step) -> Integers:
        senders = self._group.senders
        check_rows(rows, len(senders), self._length, self._bound)
        to = np.full(len(senders), self._group.receiver, dtype=np.int64)
        on_every_tape = np.broadcast_to(rows, self._channel.batch_shape + rows.shape)
        arrived = self._channel.send(Phase.VECTORS, step, senders, to, on_every_tape)
        tape = (0,) * len(self._channel.batch_shape)
        total: Integers = arrived.payload[tape].sum(axis=0, dtype=np.int64)
        return total
