"""One round of a sum for a server: the processor time that its machines take, and the bytes between them."""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from fgl_secure.coins import SystemCoins
from fgl_secure.protocols.scheme import Scheme, SumMachine
from fgl_secure.protocols.topology import Topology
from fgl_secure.runtime import Directory, Messages, OwnDraws, Phase, Role, Step, decode, encode

SESSION = bytes(16)
TENTHS = 10
HANDED_IN = (Phase.VECTORS, Phase.MASKED_VECTORS, Phase.CIPHERTEXTS)
"""What clients hand in, after whatever they agree on."""


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


def timed_round(scheme: Scheme, clients: int, length: int, bound: int, gone: int = 0) -> Round:
    """Plays a round, with a machine for each party and every message as bytes, and checks its sum.

    Args:
        scheme: how.
        clients: how many take part.
        length: of the vectors.
        bound: of their entries.
        gone: tenths of the clients that fall silent when they are asked for their vectors.
    """
    parties = Directory({Role.SERVER: 1, Role.SILO: clients})
    topology, many = Topology.to_server(parties, length, bound), clients * gone // TENTHS
    silent = {place * clients // many for place in range(many)}
    vector = np.arange(length, dtype=np.int64) % (2 * bound + 1) - bound
    began = time.process_time()
    server = _hosted(scheme, topology, 0)
    server.begin(Step(0))
    parts: list[SumMachine | _Gone] = []
    for u in range(clients):
        part = _hosted(scheme, topology, 1 + u)
        part.begin(Step(0), vector[None])
        parts.append(part)
    meter = _Meter(time.process_time() - began)
    while server.sums is None:
        began = time.process_time()
        for u, each in enumerate(parts):
            for said in each.turn():
                if u in silent and said.phase in HANDED_IN:
                    parts[u] = _Gone()
                    break
                meter.up[u] += _carried(meter, encode(said, SESSION), said.phase, server)
        for said in server.turn():
            for u in said.receivers.tolist():
                data = encode(said.rows(said.receivers == u), SESSION)
                meter.down[u - 1] += _carried(meter, data, None, parts[u - 1])
        meter.spend(time.process_time() - began)
    assert server.included is not None
    assert (server.sums[0] == vector * len(server.included)).all(), "a round that is timed is exact"
    stayed = (server.included - 1).tolist()
    means = (sum(moved[u] for u in stayed) / len(stayed) for moved in (meter.up, meter.down))
    return Round(meter.agreement, meter.agreed, meter.rest, *means)


def _hosted(scheme: Scheme, topology: Topology, party: int) -> SumMachine:
    (machine,) = scheme.machines(topology, SESSION, OwnDraws(SystemCoins()), np.array([party], dtype=np.int64))
    return machine


def _carried(meter: _Meter, data: bytes, phase: Phase | None, to: SumMachine | _Gone) -> int:
    """Hands a message over as bytes, and says how many they are."""
    meter.handed_in |= phase in HANDED_IN
    meter.agreed += 0 if meter.handed_in else len(data)
    to.take(decode(data, SESSION))
    return len(data)


class _Gone:
    """A client that has vanished."""

    def take(self, messages: Messages) -> None:
        """Nothing reaches it."""

    def turn(self) -> tuple[Messages, ...]:
        """Nothing comes from it."""
        return ()


class _Meter:
    """Seconds and bytes until the first vector is handed in, and from then on."""

    def __init__(self, seconds: float) -> None:
        self.agreement, self.rest, self.agreed, self.handed_in = seconds, 0.0, 0, False
        self.up: dict[int, int] = defaultdict(int)
        self.down: dict[int, int] = defaultdict(int)

    def spend(self, seconds: float) -> None:
        """Counts seconds of a turn of all to what it belongs to."""
        if self.handed_in:
            self.rest += seconds
        else:
            self.agreement += seconds
