"""A SuperNode's side: the program of the silo or the relay that it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flwr.app import Context

from fgl_secure.flower.silos import load_identities, silo_app

if TYPE_CHECKING:
    from fgl_secure.training.processes.process import SealedParty


def number_of(context: Context) -> int:
    """Silos come first, then relays."""
    return int(context.node_config["partition-id"])


def party_of(context: Context, session: bytes) -> SealedParty:
    """The party as it is before the first turn; a file keeps what becomes of it."""
    from silos_app import task  # noqa: PLC0415  # torch takes seconds

    run, number = task.run_of(context.run_config), number_of(context)
    share = str(context.node_config.get("share", ""))
    return run.party(number, session, lambda: task.load_silo(number, run.silos, share), *load_identities(context))


app = silo_app(number_of, party_of, silos=lambda context: int(context.run_config["silos"]))
