"""Programs on Flower's messages, without processes: nodes that remember their contexts alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from flwr.app import Context

from fgl_secure.flower.programs import ProgramRun, number_of
from fgl_secure.flower.silos import SiloMailbox, fresh_session, silo_app
from fgl_secure.runtime.packing import Array
from fgl_secure.training.processes.sealing import SealedParty
from fgl_secure.training.silo import Silo
from tests.flower.fake_federation import FakeGrid


def grid_of(run: ProgramRun, silos: Sequence[Silo]) -> FakeGrid:
    """A node for each party of a run."""

    def party(context: Context, session: bytes) -> SealedParty:
        number = number_of(context)
        return run.party(number, session, lambda: silos[number])

    grid = FakeGrid([silo_app(number_of, party, silos=lambda _: run.silos) for _ in range(run.parties)])
    for number, context in enumerate(grid.contexts.values()):
        context.node_config["partition-id"] = number
    return grid


def reports_of(run: ProgramRun, silos: Sequence[Silo]) -> Mapping[int, Mapping[str, Array]]:
    """What the server is told in the end, by silo."""
    return SiloMailbox(grid_of(run, silos), run.server(fresh_session()), run.parties, timeout=0.5).run()
