"""Runs of programs of silos for the tests, and what they are held against."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from fgl_secure.coins import Coins, SystemCoins
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fedstruct.presets import FedStructPreset, fedstruct_preset
from fgl_secure.methods.silos.fedstruct import FedStructSilo, FedStructTask
from fgl_secure.methods.silos.hifgl import HiFGLSilo, HiFGLTask
from fgl_secure.methods.silos.mailbox import Mailbox
from fgl_secure.methods.silos.neighbour_sums import NeighbourSums
from fgl_secure.methods.silos.parcels import Array, Arrays
from fgl_secure.methods.silos.program import Inbox, Outbox, Program
from fgl_secure.methods.silos.relay import HostedSums, RelayProgram, RelaySums
from fgl_secure.methods.silos.share import SiloShare
from fgl_secure.methods.silos.sum_server import SumServer
from fgl_secure.methods.silos.sums import Company
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.relay_coded import RelayCoded
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.runtime import Channel
from fgl_secure.runtime.packing import named_from_bytes, named_to_bytes
from fgl_secure.training.presets import HONEST, Preset

SESSION = bytes(range(16))
WIDEST = 1000

Make = Callable[[], Program]

FEDSTRUCT: FedStructPreset = replace(
    fedstruct_preset("honest", "Cora"), epochs=3, hops=3, kept=None, structure_width=8, structure_hidden=(8,),
    feature_hidden=(8,), dropout=0.3, learning_rate=0.05, structure_rate=0.05,
)  # fmt: skip
HIFGL: Preset = replace(HONEST, epochs=3, hidden=8)


class PutDown(Program):
    """A program that is put down after every turn, and taken up by a new object from nothing but bytes."""

    def __init__(self, make: Make) -> None:
        self._make, self._kept = make, named_to_bytes(make().state())
        self._report: dict[str, Array] | None = None

    def turn(self, inbox: Inbox) -> Outbox:
        program = self._make()
        program.restore(named_from_bytes(self._kept))
        out = program.turn(inbox)
        self._kept, self._report = named_to_bytes(program.state()), program.report
        return out

    @property
    def report(self) -> dict[str, Array] | None:
        return self._report

    def state(self) -> dict[str, Array]:
        return named_from_bytes(self._kept)

    def restore(self, state: Arrays) -> None:
        self._kept = named_to_bytes(state)


def company(graph: FederatedGraph, scheme: Scheme) -> Company:
    return Company(graph.num_silos, scheme, SESSION)


def fedstruct_makes(graph: FederatedGraph, task: FedStructTask, scheme: Scheme) -> dict[int, Make]:
    """What makes each silo's program; what it holds is cut out once."""

    def make(silo: int) -> Make:
        share, coins = SiloShare.of(graph, silo), SystemCoins()
        return lambda: FedStructSilo(share, task, company(graph, scheme), coins)

    return {silo: make(silo) for silo in range(graph.num_silos)}


def clear_sums(share: SiloShare, coins: Coins, minimum: int = 1) -> NeighbourSums:
    """The machines that sum neighbours' rows in the clear, hosted by a silo."""
    return HostedSums(share, Plaintext(minimum_group=minimum), SESSION, coins, width=WIDEST)


def hifgl_makes(
    graph: FederatedGraph, task: HiFGLTask, scheme: Scheme, relays: RelayCoded | None = None, minimum: int = 1
) -> dict[int, Make]:
    """What makes each silo's program, and each relay's where there are any."""

    def neighbours(share: SiloShare, coins: Coins) -> NeighbourSums:
        return clear_sums(share, coins, minimum) if relays is None else RelaySums(share, relays, SESSION, coins)

    def silo_make(silo: int) -> Make:
        share, coins = SiloShare.of(graph, silo), SystemCoins()
        return lambda: HiFGLSilo(share, task, company(graph, scheme), neighbours(share, coins), coins)

    def relay_make(index: int, scheme: RelayCoded) -> Make:
        coins = SystemCoins()
        return lambda: RelayProgram(index, graph.num_silos, scheme, SESSION, coins)

    makes = {silo: silo_make(silo) for silo in range(graph.num_silos)}
    if relays is not None:
        makes |= {graph.num_silos + j: relay_make(j, relays) for j in range(relays.R)}
    return makes


def run_together(
    programs: Mapping[int, Program], server: SumServer, channel: Channel | None = None
) -> dict[int, dict[str, Array]]:
    """The reports of all silos, from programs of silos 0 .. K - 1 and of relays from K on, in one process."""
    mailbox = Mailbox(server.silos, channel)
    inboxes: dict[int, Inbox] = {}
    for _ in range(10**6):
        outboxes = {party: program.turn(inboxes.get(party, {})) for party, program in programs.items()}
        reports = {party: programs[party].report for party in range(server.silos)}
        if None not in reports.values():
            return {silo: report for silo, report in reports.items() if report is not None}
        inboxes = mailbox.served(outboxes, server)
    raise AssertionError("programs must end; they did not")


def together(
    makes: Mapping[int, Make],
    graph: FederatedGraph,
    scheme: Scheme,
    channel: Channel | None = None,
    *,
    put_down: bool = False,
) -> dict[int, dict[str, Array]]:
    """The reports of all silos, in one process."""
    programs = {party: PutDown(make) if put_down else make() for party, make in makes.items()}
    return run_together(programs, SumServer(company(graph, scheme), SystemCoins()), channel)


def same_everywhere(reports: Mapping[int, Mapping[str, Array]]) -> bool:
    """Whether all silos report the same, NaN and all."""
    first = reports[0]
    return all(np.array_equal(each[name], first[name], equal_nan=True) for each in reports.values() for name in first)
