"""Runs of processes for the tests, in one process."""

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from fgl_secure.coins import SimulationCoins, SystemCoins
from fgl_secure.graph import FederatedGraph
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.relay_coded import RelayCoded
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.runtime import Channel
from fgl_secure.runtime.packing import Arrays, named_from_bytes, named_to_bytes
from fgl_secure.training.collectives import Collectives
from fgl_secure.training.job import Job
from fgl_secure.training.one_process import OneProcess
from fgl_secure.training.processes.neighbours import RelayProcess, hosted_sums
from fgl_secure.training.processes.process import Inbox, Outbox, Process
from fgl_secure.training.processes.program_run import ProgramRun, SiloProcess
from fgl_secure.training.processes.sums import Company, SumServer
from fgl_secure.training.program import Program
from fgl_secure.training.silo import Silo
from fgl_secure.typing import Array
from tests.training.processes.mailbox import Mailbox

SESSION = bytes(range(16))
WIDEST = 1000

Make = Callable[[], Process]
Reports = dict[int, dict[str, Array]]
"""What the programs of silos found, by silo."""


class PutDown(Process):
    """A process that is put down after every turn, and taken up by a new object from nothing but bytes."""

    def __init__(self, make: Make) -> None:
        self._make, self._kept = make, named_to_bytes(make().state())
        self._report: dict[str, Array] | None = None

    def step(self, inbox: Inbox) -> Outbox:
        process = self._make()
        process.restore(named_from_bytes(self._kept))
        out = process.step(inbox)
        self._kept, self._report = named_to_bytes(process.state()), process.report
        process.close()
        return out

    @property
    def report(self) -> dict[str, Array] | None:
        return self._report

    def state(self) -> dict[str, Array]:
        return named_from_bytes(self._kept)

    def restore(self, state: Arrays) -> None:
        self._kept = named_to_bytes(state)


def company(graph: FederatedGraph, scheme: Scheme, for_silos: Scheme | None = None) -> Company:
    return Company(graph.num_silos, scheme, SESSION, for_silos)


def silo_makes(
    graph: FederatedGraph,
    make: Callable[[Collectives], Program],
    schemes: Mapping[str, Scheme],
    *,
    between: bool = False,
    crossing: bool = False,
) -> dict[int, Make]:
    """What makes each silo's process, and each relay's where there are any; what a silo holds is cut out once.

    Without a scheme for neighbours silos sum nothing over them; they may add up beforehand what goes to one node, or
    send rows to each other alone.
    """
    rows, server, for_silos = schemes.get("neighbours"), schemes.get("server", Plaintext()), schemes.get("clients")

    def silo_make(number: int) -> Make:
        silo, coins = Silo.of(graph, number), SystemCoins()

        def made() -> Process:
            sums = (
                None
                if rows is None
                else hosted_sums(silo, rows, SESSION, coins, WIDEST, between=between, crossing=crossing)
            )
            members = schemes.get("members", rows)
            return SiloProcess(silo, make, company(graph, server, for_silos), coins, sums, members)

        return made

    def relay_make(index: int, scheme: RelayCoded) -> Make:
        coins = SystemCoins()
        return lambda: RelayProcess(index, graph.num_silos, scheme, SESSION, coins)

    makes = {silo: silo_make(silo) for silo in range(graph.num_silos)}
    if isinstance(rows, RelayCoded):
        makes |= {graph.num_silos + j: relay_make(j, rows) for j in range(rows.R)}
    return makes


def run_together(
    processes: Mapping[int, Process], server: SumServer, channel: Channel | None = None
) -> dict[int, dict[str, Array]]:
    """The reports of all silos, from processes of silos 0 .. K - 1 and of relays from K on."""
    mailbox = Mailbox(server.silos, channel)
    inboxes: dict[int, Inbox] = {}
    for _ in range(10**6):
        outboxes = {party: process.step(inboxes.get(party, {})) for party, process in processes.items()}
        reports = {party: processes[party].report for party in range(server.silos)}
        if None not in reports.values():
            return {silo: report for silo, report in reports.items() if report is not None}
        inboxes = mailbox.served(outboxes, server)
    raise AssertionError("processes must end; they did not")


def together(
    makes: Mapping[int, Make],
    graph: FederatedGraph,
    scheme: Scheme,
    channel: Channel | None = None,
    *,
    put_down: bool = False,
    for_silos: Scheme | None = None,
) -> dict[int, dict[str, Array]]:
    """The reports of all silos, in one process."""
    return _run(makes, SumServer(company(graph, scheme, for_silos), SystemCoins()), channel, put_down=put_down)


def _run(
    makes: Mapping[int, Make], server: SumServer, channel: Channel | None, *, put_down: bool
) -> dict[int, dict[str, Array]]:
    processes = {party: PutDown(make) if put_down else make() for party, make in makes.items()}
    try:
        return run_together(processes, server, channel)
    finally:
        for process in processes.values():
            process.close()


def same_everywhere(reports: Mapping[int, Mapping[str, Array]]) -> bool:
    """Whether all silos report the same, NaN and all."""
    first = reports[0]
    return all(np.array_equal(each[name], first[name], equal_nan=True) for each in reports.values() for name in first)


def agree(found: Reports, expected: Reports) -> None:
    """All silos report what is expected of them, to the last bit, NaN and all."""
    assert found.keys() == expected.keys()
    for silo, report in expected.items():
        assert found[silo].keys() == report.keys()
        for name, value in report.items():
            assert np.array_equal(found[silo][name], value, equal_nan=True), name


def in_lockstep(process: OneProcess) -> Reports:
    """The reports of all silos, with one process for all."""
    process.begin()
    number = 0
    while process.round(number):
        number += 1
    return {silo: program.report for silo, program in enumerate(process.programs)}


def apart(job: Job, channel: Channel | None = None, *, put_down: bool = False) -> Reports:
    """The reports of all silos of a job, with a process for each, all run here."""
    run = ProgramRun(job.complete_task, job.graph.num_silos)
    shares = [job.share(silo) for silo in range(run.silos)]
    makes = {n: partial(run.process, n, SESSION, partial(shares.__getitem__, n)) for n in range(run.parties)}
    return _run(makes, run.server(SESSION), channel, put_down=put_down)


def agree_with_one_process(job: Job, *, put_down: bool = False) -> Reports:
    """The reports of a job with a process for each party, which are those of one process for all."""
    found = apart(job, put_down=put_down)
    agree(found, in_lockstep(job.open(job.channel(SimulationCoins(0)))))
    return found
