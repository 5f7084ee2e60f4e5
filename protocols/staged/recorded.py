"""A sum in stages in one process, every message recorded by a channel."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from fgl_secure.protocols.staged.interface import Integers, Stage, StagedScheme, SumTerms
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
    """The sum of clients' vectors, with all messages on a channel; one that the channel loses does not arrive.

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
    parts = [scheme.client(terms, index, channel.coins) for index in range(terms.clients)]
    for part, vector in zip(parts, vectors, strict=True):
        part.provide(vector)
    leader = scheme.server(terms, channel.coins)
    while leader.stage is not None:
        phase = PHASES[leader.stage]
        for index, request in leader.requests().items():
            heard = _carried(channel, phase, step, server, int(clients[index]), request)
            if heard is None:
                continue
            answer = _carried(channel, phase, step, int(clients[index]), server, parts[index].reply(heard))
            if answer is not None:
                leader.receive(index, answer)
        leader.advance()
    return leader.result()


def _carried(channel: Channel, phase: Phase, step: Step, sender: int, receiver: int, message: bytes) -> bytes | None:
    """One message as it arrives; None where it is lost."""
    payload = np.frombuffer(message, dtype=np.uint8)[None]
    delivery = channel.send(phase, step, np.array([sender]), np.array([receiver]), payload)
    return delivery.payload[0].tobytes() if len(delivery.payload) else None
