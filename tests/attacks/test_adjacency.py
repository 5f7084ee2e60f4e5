from __future__ import annotations

import numpy as np
import pytest

from fgl_secure.attacks.neighbourhoods import clients_of
from fgl_secure.runtime import Party, Role
from tests.attacks.recorded import Run, both_ways, federated
from tests.attacks.structure.hop_runs import record_exchange


@pytest.fixture(scope="module")
def run() -> Run:
    """An exchange on a path 0 - 1 - 2 - 3 - 4 over three clients."""
    return record_exchange(federated(both_ways([(0, 1), (1, 2), (2, 3), (3, 4)]), [0, 1, 1, 2, 2]))


def test_clients_know_their_edges_and_whose_their_neighbours_are(run: Run) -> None:
    """Client 1 of the path owns 1 and 2, sees 0 and 3 and their owners, and nothing of 4."""
    client = clients_of(run.transcript.views(Role.SILO))[1]
    assert client.index == 1
    assert np.flatnonzero(client.owned).tolist() == [1, 2]
    assert client.client_of.tolist() == [0, 1, 1, 2, -1]
    assert client.outside.tolist() == [0, 3]
    assert np.stack(client.crossing.nonzero()).T.tolist() == [[1, 0], [2, 3]]


def test_a_client_alone_is_the_client_side_by_side(run: Run) -> None:
    """The view of one client gives its index and edges as the view of all does."""
    (alone,) = clients_of(run.transcript.view([Party(Role.SILO, 1)]))
    together = clients_of(run.transcript.views(Role.SILO))[1]
    assert alone.index == together.index == 1
    assert (alone.client_of == together.client_of).all()


def test_a_coalition_is_one_client(run: Run) -> None:
    """Two clients that pool what they know own the nodes of both."""
    (both,) = clients_of(run.transcript.view([Party(Role.SILO, 0), Party(Role.SILO, 2)]))
    assert np.flatnonzero(both.owned).tolist() == [0, 3, 4]
    assert both.outside.tolist() == [1, 2]
