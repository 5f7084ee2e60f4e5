"""Rows that silos add up beforehand: who asks for which, and how many there are."""

import numpy as np
import pytest
import torch

from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import InputError
from fgl_secure.methods.fed2gnn.grouping import between_clients, client_pairs
from fgl_secure.runtime import Channel, Direction
from fgl_secure.training.collectives import Collectives
from fgl_secure.training.one_process import OneProcess
from fgl_secure.training.parties import hierarchy_of
from fgl_secure.training.processes.neighbours import SiloEdges
from fgl_secure.training.program import Program
from fgl_secure.training.silo import Silo
from fgl_secure.typing import Array
from tests.error_codes import about
from tests.graphs import two_communities

GRAPH = two_communities(devices=24, silos=3)


class Sending(Program):
    """Sends some rows too many, or none too many."""

    def __init__(self, comm: Collectives, more: int) -> None:
        super().__init__(comm)
        self._more = more

    def round(self, number: int) -> bool:  # noqa: ARG002  # there is one
        targets = self.silo.edges[1, self.comm.summed_edges & ~self.silo.inside[1]]
        self.comm.neighbours(torch.ones(len(np.unique(targets)) + self._more, 2))
        return False

    @property
    def report(self) -> dict[str, Array]:
        return {}


@pytest.mark.parametrize("minimum", [1, 2, 3])
def test_silos_agree_on_what_one_process_knows(minimum: int) -> None:
    """Each says what it wants of the others, of too few silos nothing, and then knows both: for every least group."""
    channel = Channel(hierarchy_of(GRAPH), SimulationCoins(0))
    between = between_clients(GRAPH, channel, None, minimum)
    shares = [Silo.of(GRAPH, silo) for silo in range(3)]
    parts = [SiloEdges(share, minimum) for share in shares]
    told = [part.send_edges(Direction.FORWARD) for part in parts]
    _, pairs = client_pairs(GRAPH, channel, None, minimum)
    for silo, (share, part) in enumerate(zip(shares, parts, strict=True)):
        part.receive_edges({other: told[other][silo] for other in share.others}, Direction.FORWARD)
        assert np.array_equal(part.forward, between.along(share.edges))
        nodes, senders = part.rows()
        mine = (pairs.client == silo) | (GRAPH.silo_of[pairs.node] == silo)
        assert np.array_equal(nodes, pairs.node[mine])
        assert np.array_equal(senders, pairs.client[mine])
    assert bool(len(between.edges[0])) is (minimum < 3)


def test_rows_must_be_as_many_as_are_wanted() -> None:
    """One for each node of another silo that is sent to: neither one more nor one a device."""
    channel = Channel(hierarchy_of(GRAPH), SimulationCoins(0))
    between = between_clients(GRAPH, channel)
    for more in (1, 0):
        process = OneProcess(GRAPH, {}, channel, lambda comm, m=more: Sending(comm, m), width=2, between=between)  # type: ignore[misc]
        if more:
            with pytest.raises(InputError, check=about("rows")):
                process.round(0)
        else:
            assert not process.round(0)
