"""One round of a sum over clients: the processor time that its parties take, and the bytes between them."""

from __future__ import annotations

import resource
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.coins import SystemCoins
from fgl_secure.protocols.scheme import Scheme, SumMachine
from fgl_secure.protocols.topology import Topology
from fgl_secure.runtime import Directory, LazyArray, Messages, OwnDraws, Phase, Role, Step
from fgl_secure.runtime.channel import SILENT_TURNS
from fgl_secure.schemes import server_scheme

Ids = NDArray[np.int64]

SESSION, STEP = bytes(16), Step(0)
EARLY = frozenset({Phase.KEYS, Phase.DRAW, Phase.SECRET_SHARES})
"""What passes before vectors are asked for."""
TENTHS = 10
FEWEST_CLIENTS = 10
"""Of a round that compiles what is compiled at the first call."""
KIB = 1024


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
        server: seconds of all these that the server takes.
        wall: seconds by the clock, in which clients' vectors are made as well.
        peak: bytes of memory that the process held at most; 0 where other work was done in it.
    """

    agreement: float
    agreed: int
    rest: float
    up: float
    down: float
    server: float = 0.0
    wall: float = 0.0
    peak: int = 0

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
        server, wall = along(self.server, other.server), along(self.wall, other.wall)
        return Round(agreement, agreed, rest, up, down, server, wall)


def timed_round(scheme: Scheme, clients: int, length: int, bound: int, gone: int = 0) -> Round:
    """Plays a round of clients with a vector of their own each, and checks its sum.

    Args:
        scheme: how.
        clients: how many take part.
        length: of the vectors.
        bound: of their entries.
        gone: tenths of the clients that fall silent when they are asked for their vectors.
    """
    parties = Directory({Role.SERVER: 1, Role.SILO: clients})
    silos, topology = parties.ids(Role.SILO), Topology.to_server(parties, length, bound)
    many = clients * gone // TENTHS
    silent = silos[[place * clients // many for place in range(many)]]
    groups = [(hosted, _Inputs(hosted, length, bound)) for hosted in (np.setdiff1d(silos, silent), silent)]
    began, clock = time.process_time(), time.perf_counter()
    draws = OwnDraws(SystemCoins())
    (leader,) = scheme.machines(topology, SESSION, draws, parties.ids(Role.SERVER))
    leader.begin(STEP)
    members: list[SumMachine] = []
    inputs = groups[0][1]
    for hosted, made in groups:
        if len(hosted):
            members += scheme.machines(topology, SESSION, draws, hosted)
            members[-1].begin(STEP, made.later if scheme.reads_one_by_one else np.asarray(made.later))
    spent = sum(made.seconds for _, made in groups)
    meter = _Meter(time.process_time() - began - spent, made=lambda: inputs.seconds)
    quiet = 0
    while quiet < SILENT_TURNS:  # as drivers do
        said = [meter.up(members, leader), meter.down(leader, members)]
        quiet = 0 if any(said) else quiet + 1
    wall = time.perf_counter() - clock
    total, stayed = leader.sums, leader.contributors
    group = groups[0][0]
    assert total is not None, "a round that is timed comes to its end"
    assert stayed is not None, "and says whose vectors are in it"
    assert np.array_equal(stayed, group), "those of all who did not fall silent"
    assert (total[0] == inputs.total).all(), "a round that is timed is exact"
    up, down = (sum(moved[u] for u in stayed.tolist()) / len(stayed) for moved in (meter.sent, meter.got))
    return Round(meter.seconds[True], meter.agreed, meter.seconds[False], up, down, meter.server, wall)


class _Inputs:
    """A uniform vector of each client, made when it is read, as each would hold its own.

    Args:
        clients: int64 [k].
        length: of a vector.
        bound: of its entries.

    Attributes:
        later: int64 [k, length].
        total: int64 [length], the sum of those that were read, each of them once.
        seconds: of processor time that making them took.
    """

    def __init__(self, clients: Ids, length: int, bound: int) -> None:
        self._clients, self._bound = clients, bound
        self.total, self.seconds = np.zeros(length, dtype=np.int64), 0.0
        self.later: Any = LazyArray(self._rows, (len(clients), length), self.total.dtype)

    def _rows(self, places: Ids) -> NDArray[np.int64]:
        began, shape = time.process_time(), (len(places), len(self.total))
        rows = np.empty(shape, dtype=np.int64)
        for row, client in zip(rows, self._clients[places].tolist(), strict=True):
            drawn = np.random.default_rng(client)
            row[:] = drawn.integers(-self._bound, self._bound, shape[1], dtype=np.int64, endpoint=True)
            self.total += row
        self.seconds += time.process_time() - began
        return rows


def round_alone(name: str, clients: int, length: int, bound: int) -> Round:
    """A round of a scheme, by its name, in a process of its own, whose memory is measured; compiled loops are warm."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_round_here, name, clients, length, bound).result()


def _round_here(name: str, clients: int, length: int, bound: int) -> Round:
    scheme = server_scheme(name)
    timed_round(scheme, FEWEST_CLIENTS, length, bound)
    result = timed_round(scheme, clients, length, bound)
    return replace(result, peak=_peak())


def _peak() -> int:
    """Most bytes of memory that this process has held since it became what it is.

    Linux counts what a process was forked from in `ru_maxrss`, and so a large parent.
    """
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KIB
    (peak,) = (line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(peak) * KIB


@dataclass(slots=True)
class _Meter:
    """Hands messages on, and keeps the time and the bytes.

    Attributes:
        began: seconds that were spent before.
        made: seconds that clients' vectors have taken to make so far, which are none of the round's.
        seconds: of processor time, before vectors are asked for (True) and from then on.
        agreed: bytes that pass until then, all together.
        server: seconds of the server's.
        sent: bytes by client.
        got: bytes by client.
    """

    began: float
    made: Callable[[], float]
    seconds: dict[bool, float] = field(default_factory=dict)
    agreed: int = 0
    server: float = 0.0
    sent: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    got: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    _early: bool = True

    def __post_init__(self) -> None:
        self.seconds = {True: self.began, False: 0.0}

    def up(self, members: Sequence[SumMachine], leader: SumMachine) -> bool:
        """A turn of those who stay, and of those who do not until vectors are asked for; whether any party spoke."""
        text = False
        for place, member in enumerate(members):
            if place and not self._early:
                break
            start, made = time.process_time(), self.made()
            for messages in member.step():
                self._early = self._early and messages.phase in EARLY
                text = True
                self._count(messages, self.sent, messages.senders)
                received = time.process_time()
                leader.receive(messages)
                self.server += time.process_time() - received
            self._lap(start + self.made() - made)
        return text

    def down(self, leader: SumMachine, members: Sequence[SumMachine]) -> bool:
        """A turn of the server; whether it had anything to say."""
        said, asked, start, others = False, False, time.process_time(), 0.0
        for messages in leader.step():
            said, asked = True, asked or messages.phase is Phase.SECRET_SHARES
            self._count(messages, self.got, messages.receivers)
            told = time.process_time()
            for member in members:
                mine = np.isin(messages.receivers, member.parties)
                if mine.any():
                    member.receive(messages.rows(mine))
            others += time.process_time() - told
        self.server += time.process_time() - start - others
        self._lap(start)
        self._early = self._early and not asked  # what clients do next is to make their vectors
        return said

    def _lap(self, start: float) -> None:
        self.seconds[self._early] += time.process_time() - start

    def _count(self, messages: Messages, moved: dict[int, int], ends: Ids) -> None:
        for party in ends.tolist():
            moved[party] += messages.item_bytes
        self.agreed += self._early * len(messages) * messages.item_bytes
