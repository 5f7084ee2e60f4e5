"""A task with a process for each silo, and one for each relay where neighbours' sums go over relays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fgl_secure.coins import SystemCoins
from fgl_secure.errors import InputError
from fgl_secure.protocols.identity import Identities, Identity, Names
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.topology import CLIENTS, MEMBERS, NEIGHBOURS, SERVER
from fgl_secure.runtime import Role
from fgl_secure.training.job import Task
from fgl_secure.training.processes.neighbour_sums import NeighbourSums
from fgl_secure.training.processes.partner_sums import check_hosted, hosted_sums
from fgl_secure.training.processes.process import Process
from fgl_secure.training.processes.relay import RelayProcess
from fgl_secure.training.processes.sealing import SealedParty
from fgl_secure.training.processes.silo_process import SiloProcess
from fgl_secure.training.processes.silo_rows import SiloRowSums
from fgl_secure.training.processes.sum_server import SumServer
from fgl_secure.training.processes.sums import Company
from fgl_secure.training.silo import Silo

LEAST_SILOS = 3
"""Of two silos each knows the other by their sum."""


@dataclass(frozen=True, slots=True, eq=False)
class ProgramRun:
    """What every process of a run is told.

    Attributes:
        task: what silos do.
        silos: how many.

    Raises:
        InputError: there are too few silos, or a scheme cannot be had with a process for each of them, or was made for
            sums that some of them are missing from: then a server could open the sum of all and that of all but one.
    """

    task: Task
    silos: int

    def __post_init__(self) -> None:
        if self.silos < LEAST_SILOS:
            raise InputError(
                f"silos must be at least {LEAST_SILOS}, or two know each other by their sum; found {self.silos}"
            )
        schemes = self.task.schemes
        if NEIGHBOURS in schemes:
            check_hosted(schemes[NEIGHBOURS], devices=not (self.task.between or self.task.crossing))
        for topology, senders in ((SERVER, self.silos), (CLIENTS, self.silos - 1)):
            if topology in schemes:
                schemes[topology].require_all(senders)

    @property
    def parties(self) -> int:
        """Silos, and the relays of neighbours' sums after them."""
        rows = self.task.schemes.get(NEIGHBOURS)
        return self.silos + (0 if rows is None else rows.helpers.get(Role.RELAY, 0))

    def company(self, session: bytes) -> Company:
        """How silos add up."""
        schemes = self.task.schemes
        return Company(self.silos, schemes.get(SERVER, Plaintext()), session, schemes.get(CLIENTS))

    def server(self, session: bytes) -> SumServer:
        """The server's part."""
        return SumServer(self.company(session), SystemCoins())

    def process(
        self,
        number: int,
        session: bytes,
        silo: Callable[[], Silo],
        identity: Identity | None = None,
        identities: Identities | None = None,
    ) -> Process:
        """What a party does, before its first turn.

        Args:
            number: of the party: silos come first.
            session: of the run.
            silo: gives what a silo holds.
            identity: signs the party's keys; None sends them unsigned.
            identities: public ones of all parties, known from elsewhere than the server; given with `identity`.

        Raises:
            InputError: only one of identity and identities is given, or the identity is not that of the party.
        """
        if (identity is None) != (identities is None):
            raise InputError("identity and identities must be given together; only one is")
        if identity is not None and identities is not None:
            Names({number: identity}, identities)
        task, coins = self.task, SystemCoins()
        rows, members = task.schemes.get(NEIGHBOURS), task.schemes.get(MEMBERS)
        if number >= self.silos:
            assert rows is not None, "without sums over neighbours there are no relays"
            return RelayProcess(number - self.silos, self.silos, rows, session, coins)
        held = silo()
        sums: NeighbourSums | None = None
        if rows is not None:
            if task.between:
                sums = SiloRowSums(held, rows, session, coins, task.width)
            else:
                sums = hosted_sums(held, rows, session, coins, task.width, crossing=task.crossing)
        company = self.company(session)
        return SiloProcess(
            held, lambda talk: task.make(talk, coins), company, coins, sums, members, identity, identities
        )

    def party(
        self,
        number: int,
        session: bytes,
        silo: Callable[[], Silo],
        identity: Identity | None = None,
        identities: Identities | None = None,
    ) -> SealedParty:
        """The same behind a mailbox that reads nothing; arguments as for `process`.

        Without identities the server must be trusted to pass on keys: one that sends keys of its own instead reads all
        that silos and relays send each other.
        """
        program = self.process(number, session, silo, identity, identities)
        return SealedParty(number, self.parties, program, session, SystemCoins(), identity, identities)
