"""A method's program on Flower: a SuperNode for each silo and each relay, and a server that reads nothing."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from flwr.app import Context
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from fgl_secure.auditing.program_method import ProgramMethod
from fgl_secure.coins import SystemCoins
from fgl_secure.errors import InputError, ProtocolError
from fgl_secure.flower.silos import LEAST_SILOS, SiloMailbox, fresh_session, silo_app
from fgl_secure.graph import FederatedGraph
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.topology import MEMBERS, NEIGHBOURS, SERVER
from fgl_secure.runtime import Role
from fgl_secure.runtime.packing import Array
from fgl_secure.training.processes.process import Process
from fgl_secure.training.processes.relay import RelayProcess, check_hosted, hosted_sums
from fgl_secure.training.processes.sealing import SealedParty
from fgl_secure.training.processes.silo_process import SiloProcess
from fgl_secure.training.processes.sum_server import SumServer
from fgl_secure.training.processes.sums import Company
from fgl_secure.training.silo import Silo

Reports = Mapping[int, Mapping[str, Array]]
"""What the server is told, by silo."""


@dataclass(frozen=True, slots=True, eq=False)
class ProgramRun:
    """What every process of a run is told.

    Attributes:
        method: its choices.
        schemes: by topology, all that the method has.
        silos: how many.
        seed: of the program.
        device: where model compute runs.
    """

    method: ProgramMethod
    schemes: Mapping[str, Scheme]
    silos: int
    seed: int = 0
    device: str = "cpu"

    def __post_init__(self) -> None:
        if self.silos < LEAST_SILOS:
            raise InputError(
                f"silos must be at least {LEAST_SILOS}, or two know each other by their sum; found {self.silos}"
            )
        check_hosted(self.schemes[NEIGHBOURS])

    @property
    def parties(self) -> int:
        """Silos, and the relays of neighbours' sums after them."""
        return self.silos + self.schemes[NEIGHBOURS].helpers.get(Role.RELAY, 0)

    def server(self, session: bytes) -> SumServer:
        """The server's part."""
        return SumServer(Company(self.silos, self.schemes[SERVER], session), SystemCoins())

    def party(self, number: int, session: bytes, silo: Callable[[], Silo]) -> SealedParty:
        """A party as it is before its first turn.

        Args:
            number: of the party: silos come first.
            session: of the run.
            silo: gives what a silo holds.

        Raises:
            InputError: a scheme cannot be served with a process for each silo.
        """
        coins = SystemCoins()
        process = self._relay(number, session) if number >= self.silos else self._silo(silo(), session)
        return SealedParty(number, self.parties, process, session, coins)

    def _relay(self, number: int, session: bytes) -> Process:
        rows = self.schemes[NEIGHBOURS]
        return RelayProcess(number - self.silos, self.silos, rows, session, SystemCoins())  # type: ignore[arg-type]

    def _silo(self, held: Silo, session: bytes) -> Process:
        coins, device = SystemCoins(), torch.device(self.device)
        rows = hosted_sums(held, self.schemes[NEIGHBOURS], session, coins, self.method.width(held.facts))
        company = Company(self.silos, self.schemes[SERVER], session)
        return SiloProcess(
            held,
            lambda talk: self.method.program(talk, seed=self.seed, device=device),
            company,
            coins,
            rows,
            self.schemes[MEMBERS],
        )


def number_of(context: Context) -> int:
    """Which party a node is: silos come first, then relays."""
    return int(context.node_config["partition-id"])


def app_of(run: ProgramRun, shares: Path) -> ClientApp:
    """The ClientApp of all nodes.

    Args:
        run: what they are told.
        shares: folder in which each silo finds the file of what it holds, and reads no other.
    """

    def party(context: Context, session: bytes) -> SealedParty:
        number = number_of(context)
        return run.party(number, session, lambda: Silo.load(shares / f"silo{number}"))

    return silo_app(number_of, party, silos=lambda _context: run.silos)


def save_shares(graph: FederatedGraph, folder: Path) -> None:
    """Cuts a graph into a file for each silo."""
    for silo in range(graph.num_silos):
        Silo.of(graph, silo).save(folder / f"silo{silo}")


def run_in_simulation(run: ProgramRun, graph: FederatedGraph, timeout: float | None = None) -> Reports:
    """Runs all turns in Flower's simulation engine.

    Args:
        run: what is run.
        graph: who has what.
        timeout: seconds that a turn may take; None waits for ever.

    Raises:
        ProtocolError: a party failed, or was silent.
    """
    from flwr.simulation import run_simulation  # noqa: PLC0415  # Ray comes with it

    found: dict[int, dict[str, Array]] = {}
    failed: list[Exception] = []
    server = ServerApp()

    @server.main()
    def serve(grid: Grid, _context: Context) -> None:
        try:
            found.update(SiloMailbox(grid, run.server(fresh_session()), run.parties, timeout).run())
        except Exception as error:  # the engine would swallow it
            failed.append(error)

    with tempfile.TemporaryDirectory() as folder:
        save_shares(graph, Path(folder))
        run_simulation(
            server,
            app_of(run, Path(folder)),
            run.parties,
            backend_config={
                "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
                "init_args": {"include_dashboard": False, "log_to_driver": False},
            },
        )
    if failed:
        raise failed[0]
    if not found:
        raise ProtocolError("the run must leave a report; it did not")
    return found
