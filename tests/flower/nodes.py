"""Programs on Flower's messages, without processes: nodes that remember their contexts alone."""

from collections.abc import Collection, Mapping
from typing import Any

from flwr.app import Context

from fgl_secure.coins import SystemCoins
from fgl_secure.flower.mailbox import SiloMailbox, fresh_session
from fgl_secure.flower.programs import number_of
from fgl_secure.flower.silos import TOLD, load_identities, silo_app
from fgl_secure.training.job import Job
from fgl_secure.training.processes.process import SealedParty
from fgl_secure.training.processes.program_run import ProgramRun
from fgl_secure.typing import Array
from tests.flower.fake_federation import FakeGrid


def grid_of(job: Job, told: Collection[str] = TOLD, parties: int | None = None, **app: Any) -> FakeGrid:
    """A node for each party of a run; of fewer parties only the first turn can be had."""
    run = ProgramRun(job.complete_task, job.graph.num_silos)
    shares = [job.share(silo) for silo in range(run.silos)]

    def party(context: Context, session: bytes) -> SealedParty:
        number = number_of(context)
        made = run.party(number, session, lambda: shares[number], *load_identities(context))
        return made if parties is None else SealedParty(number, parties, made.program, session, SystemCoins())

    given = {"silos": lambda _: run.silos, **app}
    grid = FakeGrid([silo_app(number_of, party, told, **given) for _ in range(parties or run.parties)])
    for number, context in enumerate(grid.contexts.values()):
        context.node_config["partition-id"] = number
    return grid


def mailbox_of(job: Job, grid: FakeGrid, timeout: float = 0.5, session: bytes | None = None) -> SiloMailbox:
    """The server's side."""
    run = ProgramRun(job.complete_task, job.graph.num_silos)
    return SiloMailbox(grid, run.server(session or fresh_session()), len(grid.apps), timeout)


def reports_of(job: Job) -> Mapping[int, Mapping[str, Array]]:
    """What the server is told in the end, by silo."""
    return mailbox_of(job, grid_of(job)).run()
