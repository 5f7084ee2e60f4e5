"""A server that sends one silo other results than the rest, and what it reads of the sums that follow."""

from collections.abc import Callable
from functools import partial

from fgl_secure.coins import SystemCoins
from fgl_secure.errors import ProtocolError
from fgl_secure.training.job import Job
from fgl_secure.training.processes.process import Inbox, Outbox, Parcel
from fgl_secure.training.processes.program_run import ProgramRun
from fgl_secure.training.processes.sums import DONE, Company, SumServer
from fgl_secure.typing import Array
from tests.training.processes.runs import SESSION, run_together

Lie = Callable[[Array], Array | None]
"""The false result for a true one; None where the server tells the truth."""
VICTIM = 0


class LyingServer(SumServer):
    """It sends the victim what is true, and the others what it likes.

    Args:
        company: who adds up, and how.
        lie: is given every result in order.
        believers: who is sent the false results; all silos but the victim unless given.

    Attributes:
        lied: whether it has.
        read: the results that were opened after the first lie.
    """

    def __init__(self, company: Company, lie: Lie, believers: set[int] | None = None) -> None:
        super().__init__(company, SystemCoins())
        self._lie, self.lied, self.read = lie, False, list[Array]()
        self._believers = set(range(company.silos)) - {VICTIM} if believers is None else believers

    def turn(self, inbox: Inbox) -> Outbox:
        """As the honest server's, but for results."""
        out = {receiver: list(parcels) for receiver, parcels in super().turn(inbox).items()}
        for parcel in [each for each in out.get(VICTIM, ()) if each.phase is DONE]:
            number, total = parcel.arrays
            self.read += [total] * self.lied
            false = self._lie(total)
            if false is not None:
                self.lied = True
                for silo in self._believers:
                    out[silo] = [
                        Parcel(DONE, each.step, (number, false)) if _is_result_of(number, each) else each
                        for each in out[silo]
                    ]
        return out


def _is_result_of(number: Array, parcel: Parcel) -> bool:
    return parcel.phase is DONE and int(parcel.arrays[0]) == int(number)


def run_under(job: Job, server: LyingServer) -> ProtocolError | None:
    """What ends a run under such a server."""
    run = ProgramRun(job.complete_task, job.graph.num_silos)
    shares = [job.share(silo) for silo in range(run.silos)]
    processes = {n: run.process(n, SESSION, partial(shares.__getitem__, n)) for n in range(run.parties)}
    try:
        run_together(processes, server)
    except ProtocolError as error:
        return error
    finally:
        for process in processes.values():
            process.close()
    return None


def server_of(job: Job, lie: Lie, believers: set[int] | None = None) -> LyingServer:
    """The lying server of a job's run."""
    return LyingServer(ProgramRun(job.complete_task, job.graph.num_silos).company(SESSION), lie, believers)
