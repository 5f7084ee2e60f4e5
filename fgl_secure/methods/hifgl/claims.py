"""What HiFGL promises under the schemes of a run: those of neighbours' rows, and of silos' models."""

from __future__ import annotations

from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.topology import Topology
from fgl_secure.runtime import Claim
from fgl_secure.training.server_sums import server_topology


def claim_of(rows: Scheme, sums: Topology, server: Scheme, silos: int) -> Claim:
    """The claim of a run.

    Args:
        rows: sums neighbours' rows, and what devices hand to their silo where it can.
        sums: of neighbours' rows.
        server: sums silos' models.
        silos: how many there are.
    """
    claim = rows.claim_for(sums)
    models = server.claim_for(server_topology(silos))
    if not models.guarantees:
        return claim
    return Claim(
        (*claim.guarantees, *models.guarantees),
        (*claim.leaks_by_design, *models.leaks_by_design),
        tuple(dict.fromkeys((*claim.assumptions, *models.assumptions))),
    )
