"""One round of a staged sum: the processor time that its parties take, and the bytes between them."""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from fgl_secure.coins import SystemCoins
from fgl_secure.protocols.staged.interface import Integers, Stage, StagedScheme, SumTerms

SESSION = bytes(16)
TENTHS = 10


@dataclass(frozen=True, slots=True)
class Round:
    """What a round took.

    Attributes:
        agreement: seconds until clients are asked for vectors: keys, their agreement, and sharing. All seconds are of
            processor time, which another load of the machine does not lengthen much.
        agreed: bytes that pass until then, all together.
        rest: seconds from then on.
        up: bytes that a client sends, mean of those that stayed to the end.
        down: bytes that it gets.
    """

    agreement: float
    agreed: int
    rest: float
    up: float
    down: float

    @property
    def seconds(self) -> float:
        """Of the whole round, all parties one after the other."""
        return self.agreement + self.rest

    def at(self, length: int, other: Round, measured: tuple[int, int]) -> Round:
        """What a longer round would take, by the line through two.

        Args:
            length: of the vectors of the longer round.
            other: a shorter round, of the same parties.
            measured: lengths of the shorter and of this one.
        """
        short, long = measured
        factor = (length - long) / (long - short)

        def along(here: float, there: float) -> float:
            return here + factor * max(here - there, 0.0)

        grows = self.agreed != other.agreed  # where shares do not grow with vectors, time for them does not either
        agreement = along(self.agreement, other.agreement) if grows else self.agreement
        agreed = round(along(self.agreed, other.agreed))
        rest, up, down = along(self.rest, other.rest), along(self.up, other.up), along(self.down, other.down)
        return Round(agreement, agreed, rest, up, down)


def timed_round(scheme: StagedScheme, clients: int, length: int, bound: int, gone: int = 0) -> Round:
    """Plays a round and checks its sum.

    Args:
        scheme: how.
        clients: how many take part.
        length: of the vectors.
        bound: of their entries.
        gone: tenths of the clients that fall silent when they are asked for their vectors.
    """
    terms = SumTerms(SESSION, 0, clients, scheme.threshold_for(clients), length, bound)
    many = clients * gone // TENTHS
    silent = {place * clients // many for place in range(many)}
    vector = np.arange(length, dtype=np.int64) % (2 * bound + 1) - bound
    began = time.process_time()
    parts = [scheme.client(terms, u, SystemCoins()) for u in range(clients)]
    server = scheme.server(terms, SystemCoins())
    seconds = {True: time.process_time() - began, False: 0.0}
    agreed = 0
    up: dict[int, int] = defaultdict(int)
    down: dict[int, int] = defaultdict(int)
    while (stage := server.stage) is not None:
        began = time.process_time()
        for u, request in server.requests().items():
            if stage is Stage.VECTORS:
                if u in silent:
                    continue
                parts[u].provide(vector)
            reply = parts[u].reply(request)
            server.receive(u, reply)
            up[u], down[u] = up[u] + len(reply), down[u] + len(request)
            agreed += (stage < Stage.VECTORS) * (len(request) + len(reply))
        server.advance()
        seconds[stage < Stage.VECTORS] += time.process_time() - began
    _check(server.result(), vector * len(server.included))
    stayed = server.included
    means = (sum(moved[u] for u in stayed) / len(stayed) for moved in (up, down))
    return Round(seconds[True], agreed, seconds[False], *means)


def _check(found: Integers, expected: Integers) -> None:
    assert (found == expected).all(), "a round that is timed is exact"
