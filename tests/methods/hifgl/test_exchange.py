"""One round of message passing without a model."""

import numpy as np
import pytest
from hypothesis import given

from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.hifgl.program import exchange
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.secmp import SecretMessagePassing
from fgl_secure.runtime import Channel, Party, Recording, Role
from fgl_secure.training.parties import hierarchy_of
from tests.error_codes import about
from tests.strategies import federated_graphs


@pytest.mark.parametrize("scheme", [Plaintext(), SecretMessagePassing()], ids=lambda scheme: scheme.name)
@given(graph=federated_graphs())
def test_every_device_gets_the_sum_of_its_neighbours(scheme: Scheme, graph: FederatedGraph) -> None:
    """The sums are those of the adjacency matrix with the rows, under either scheme."""
    adjacency = np.zeros((graph.num_devices, graph.num_devices))
    adjacency[graph.edges[1], graph.edges[0]] = 1
    sums = exchange(graph, scheme, Channel(hierarchy_of(graph), SimulationCoins(0)), graph.features)
    assert np.allclose(sums, adjacency @ graph.features.astype(np.float64), atol=1e-5)


@given(graph=federated_graphs())
def test_every_silo_knows_its_own_devices(graph: FederatedGraph) -> None:
    """The view of a silo has the identities of its devices and of no others."""
    channel = Channel(hierarchy_of(graph), SimulationCoins(0), Recording.everything())
    exchange(graph, Plaintext(), channel, graph.features)
    for silo in range(graph.num_silos):
        (own,) = channel.transcript.view([Party(Role.SILO, silo)]).own("own devices")
        indices = channel.parties.index_of(own.values, Role.DEVICE)
        assert indices.tolist() == graph.devices_of(silo).tolist()


@pytest.mark.parametrize("shape", [(6, 1), (8, 1), (7,)])
@given(graph=federated_graphs().filter(lambda graph: graph.num_devices == 7))
def test_values_of_another_shape_are_refused(shape: tuple[int, ...], graph: FederatedGraph) -> None:
    """Every device has one row."""
    with pytest.raises(InputError, check=about("values")):
        exchange(graph, Plaintext(), Channel(hierarchy_of(graph), SimulationCoins(0)), np.ones(shape))
