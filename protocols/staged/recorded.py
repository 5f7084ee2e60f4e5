"""A sum in stages in one process, every message recorded by a channel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from fgl_secure.errors import ProtocolError
from fgl_secure.protocols.staged.driver import run
from fgl_secure.protocols.staged.envelope import stage_of
from fgl_secure.protocols.staged.interface import Integers, Stage, StagedClient, StagedScheme, SumTerms
from fgl_secure.runtime import Channel, Phase, Step

Ids = NDArray[np.int64]

PHASES: Mapping[Stage, Phase] = MappingProxyType({
    Stage.KEYS: Phase.KEYS,
    Stage.SHARES: Phase.SECRET_SHARES,
    Stage.VECTORS: Phase.MASKED_VECTORS,
    Stage.AGREEMENT: Phase.ROSTERS,
    Stage.OPENING: Phase.UNMASKING,
})  # fmt: skip
"""What messages of a stage are called in transcripts."""


def run_recorded(
    scheme: StagedScheme, terms: SumTerms, vectors: Integers, channel: Channel, clients: Ids, server: int, step: Step
) -> Integers:
    """The sum of clients' vectors, with all messages on a channel; who misses a message, or refuses one, drops out.

    Args:
        scheme: how.
        terms: what everybody knows.
        vectors: int64 [n, length], by client.
        channel: carries the messages as bytes, and gives the coins.
        clients: int64 [n], party identifiers.
        server: party identifier.
        step: when; all stages go under it.

    Returns:
        int64 [length], the sum over the clients that did not drop out.
    """
    scheme.check(terms)
    parts: dict[int, StagedClient] = {}
    for index, vector in enumerate(vectors):
        part = scheme.client(terms, index, channel.coins)
        part.provide(vector)
        parts[index] = _Wired(part, _Wire(channel, step, int(clients[index]), server))
    leader = scheme.server(terms, channel.coins)
    run(leader, parts)
    return leader.result()


@dataclass(frozen=True, slots=True, eq=False)
class _Wire:
    """The way between a client and the server.

    Attributes:
        channel: carries the messages.
        step: when.
        client: party identifier.
        server: party identifier.
    """

    channel: Channel
    step: Step
    client: int
    server: int

    def down(self, message: bytes) -> bytes:
        """A request as it arrives."""
        return self._carried(self.server, self.client, message)

    def up(self, message: bytes) -> bytes:
        """An answer as it arrives."""
        return self._carried(self.client, self.server, message)

    def _carried(self, sender: int, receiver: int, message: bytes) -> bytes:
        phase = PHASES[stage_of(message)]
        payload = np.frombuffer(message, dtype=np.uint8)[None]
        delivery = self.channel.send(phase, self.step, np.array([sender]), np.array([receiver]), payload)
        if not len(delivery.payload):
            raise ProtocolError(f"a message from {sender} to {receiver} must arrive; it was lost")
        arrived: bytes = delivery.payload[0].tobytes()
        return arrived


class _Wired(StagedClient):
    """A client whose messages pass over a channel; one that is lost is as good as refused.

    Args:
        inner: the client itself.
        wire: between it and the server.
    """

    def __init__(self, inner: StagedClient, wire: _Wire) -> None:
        self._inner, self._wire = inner, wire

    def provide(self, vector: Integers) -> None:
        """As the client itself."""
        self._inner.provide(vector)

    def reply(self, message: bytes) -> bytes:
        """What of the client's answer arrives at the server."""
        return self._wire.up(self._inner.reply(self._wire.down(message)))

    def state(self) -> bytes:
        """As the client itself."""
        return self._inner.state()
