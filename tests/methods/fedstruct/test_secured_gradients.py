"""Gradients that are added up under a scheme are the plain sums, in fixed point."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fedstruct.gradients import SecuredBroadcast, SecuredOwners, SecuredSum
from fgl_secure.methods.fedstruct.traffic import FedStructTraffic
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.runtime import Channel, Phase, Recording, Role, Step
from fgl_secure.training.parties import hierarchy_of
from fgl_secure.training.server_sums import GRADIENT_BITS
from tests.graphs import two_communities

SCHEMES = {"plaintext": Plaintext, "pairwise-masking": PairwiseMasking}
TOLERANCE = 4 * 2.0 ** -(GRADIENT_BITS + 1)


@pytest.fixture
def graph() -> FederatedGraph:
    return two_communities(devices=24, silos=4)


def traffic(graph: FederatedGraph) -> FedStructTraffic:
    channel = Channel(hierarchy_of(graph), SimulationCoins(0), Recording.everything())
    return FedStructTraffic(channel, graph)


def rows(graph: FederatedGraph, width: int = 3) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.normal(size=(graph.num_devices, width)).astype(np.float32) for _ in range(graph.num_silos)]


@pytest.mark.parametrize("make", SCHEMES.values(), ids=SCHEMES)
def test_the_server_gets_the_sum_of_all_gradients(graph: FederatedGraph, make: Callable[[], Scheme]) -> None:
    """Every round's sum is the plain one, to the precision of the fixed point."""
    add = SecuredSum(make(), traffic(graph).channel)
    for number in range(2):
        vectors = np.stack([part.reshape(-1) for part in rows(graph)]) * (number + 1)
        assert np.abs(add(vectors, Step(number)) - vectors.astype(np.float64).sum(axis=0)).max() <= TOLERANCE


@pytest.mark.parametrize("make", SCHEMES.values(), ids=SCHEMES)
def test_broadcast_and_owners_get_the_same_sum(graph: FederatedGraph, make: Callable[[], Scheme]) -> None:
    """By way of the server or straight to the owners, the gradient of S is the same."""
    parts, expected = rows(graph), np.sum(rows(graph), axis=0, dtype=np.float64)
    through = SecuredBroadcast(make(), traffic(graph))(parts, Step(0))
    owned = SecuredOwners(make(), traffic(graph), graph.silo_of, shares=True)(parts, Step(0))
    assert np.abs(through - expected).max() <= TOLERANCE
    assert np.abs(owned - expected).max() <= TOLERANCE


def test_the_server_sees_a_sum_or_nothing(graph: FederatedGraph) -> None:
    """Under masks the server learns the sum where it sends it on, and not even that where owners get it."""
    broadcast, owners = traffic(graph), traffic(graph)
    SecuredBroadcast(PairwiseMasking(), broadcast)(rows(graph), Step(0))
    SecuredOwners(PairwiseMasking(), owners, graph.silo_of, shares=False)(rows(graph), Step(0))
    (known,) = broadcast.channel.transcript.views(Role.SERVER).own("structure gradient sum")
    assert np.allclose(known.values[0], np.sum(rows(graph), axis=0).reshape(-1), atol=1e-5)
    assert not owners.channel.transcript.views(Role.SERVER).own("structure gradient sum")
    for run in (broadcast, owners):
        assert not run.channel.transcript.views(Role.SERVER).messages(Phase.STRUCTURE_GRADIENT)


def test_owners_share_what_they_updated_where_all_hold_it(graph: FederatedGraph) -> None:
    """With S held by all, owners send new rows to the other clients; with queries nobody does."""
    for shares in (True, False):
        run = traffic(graph)
        SecuredOwners(Plaintext(), run, graph.silo_of, shares=shares).updated(rows(graph)[0], Step(1))
        sent = [batch for batch in run.channel.transcript.messages if batch.phase is Phase.STRUCTURE_FEATURES]
        assert bool(sent) == shares


@pytest.mark.parametrize("bad", [np.nan, np.inf, 2000.0])
def test_gradients_that_do_not_fit_are_refused(graph: FederatedGraph, bad: float) -> None:
    """NaN, infinity and entries beyond the bound are refused before anything is sent."""
    run = traffic(graph)
    vectors = np.zeros((graph.num_silos, 5), dtype=np.float32)
    vectors[1, 2] = bad
    with pytest.raises(InputError, match=r"gradients .*(finite|bound 1024).*: scale the features"):
        SecuredSum(PairwiseMasking(), run.channel)(vectors, Step(0))
    assert not run.channel.transcript.messages
