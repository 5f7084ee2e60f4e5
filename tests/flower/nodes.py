"""Programs on Flower's messages, without processes: nodes that remember their contexts alone."""

from collections.abc import Mapping

from flwr.app import Context

from fgl_secure.flower.mailbox import SiloMailbox, fresh_session
from fgl_secure.flower.programs import number_of
from fgl_secure.flower.silos import load_identities, silo_app
from fgl_secure.training.job import Job
from fgl_secure.training.processes.process import SealedParty
from fgl_secure.training.processes.program_run import ProgramRun
from fgl_secure.typing import Array
from tests.flower.fake_federation import FakeGrid


def grid_of(job: Job) -> FakeGrid:
    """A node for each party of a run."""
    run = ProgramRun(job.told, job.graph.num_silos)
    shares = [job.share(silo) for silo in range(run.silos)]

    def party(context: Context, session: bytes) -> SealedParty:
        number = number_of(context)
        return run.party(number, session, lambda: shares[number], *load_identities(context))

    grid = FakeGrid([silo_app(number_of, party, silos=lambda _: run.silos) for _ in range(run.parties)])
    for number, context in enumerate(grid.contexts.values()):
        context.node_config["partition-id"] = number
    return grid


def mailbox_of(job: Job, grid: FakeGrid, timeout: float = 0.5) -> SiloMailbox:
    """The server's side."""
    run = ProgramRun(job.told, job.graph.num_silos)
    return SiloMailbox(grid, run.server(fresh_session()), run.parties, timeout)


def reports_of(job: Job) -> Mapping[int, Mapping[str, Array]]:
    """What the server is told in the end, by silo."""
    return mailbox_of(job, grid_of(job)).run()
