"""Which neighbours a node asks about, as both ends agree."""

import numpy as np
import pytest

from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import ProtocolError
from fgl_secure.methods.fed2gnn.grouping import agreed_neighbours, picked_neighbours, sampled_neighbours
from fgl_secure.runtime import Channel, Party, Phase, Recording, Role, Step
from fgl_secure.training.parties import hierarchy_of
from tests.error_codes import about
from tests.methods.fed2gnn.oracles import graph_of, random_graph


def test_sampling_leaves_at_most_so_many_and_both_ends_agree() -> None:
    """No node keeps more than `most`; the graph stays undirected, and edges within clients stay."""
    graph = random_graph(150, 400, 4, 0)
    for most in (1, 3, 1000):
        thinned = sampled_neighbours(graph, most, seed=5)
        cross = np.bincount(thinned.edges[1, thinned.crosses_silos], minlength=150)
        assert cross.max() <= most
        assert thinned.graph.is_symmetric
        assert (~thinned.crosses_silos).sum() == (~graph.crosses_silos).sum()
    assert np.array_equal(sampled_neighbours(graph, 1000, seed=5).edges, graph.edges)
    again, other = (sampled_neighbours(graph, 2, seed).edges for seed in (5, 6))
    assert np.array_equal(again, sampled_neighbours(graph, 2, 5).edges)
    assert not np.array_equal(again, other)


def test_a_node_loses_neighbours_only_where_one_end_has_too_many() -> None:
    """Neighbours of a hub keep each other: with d = 2, the hub keeps 2 of 6 and the ring around it is whole."""
    spokes, ring = [(0, v) for v in range(1, 7)], [(v, v % 6 + 1) for v in range(1, 7)]
    graph = graph_of([*spokes, *ring], 7, [0, 1, 1, 1, 1, 1, 1])
    thinned = sampled_neighbours(graph, 2, seed=0)
    assert np.bincount(thinned.edges[1], minlength=7)[0] == 2
    assert (~thinned.crosses_silos).sum() == 2 * len(ring)


def test_both_ends_can_tell_from_what_they_hear() -> None:
    """A client that has its own picks and those that it was sent knows which edges stay: nothing else is needed."""
    graph, most = random_graph(80, 240, 4, 0), 2
    channel = Channel(hierarchy_of(graph), SimulationCoins(0), Recording.everything())
    thinned = agreed_neighbours(graph, channel, most, 5, Step(0))
    own = {(int(node), int(other)) for node, other in picked_neighbours(graph, most, 5).T}
    for client in range(graph.num_silos):
        view = channel.transcript.view([Party(Role.SILO, client)])
        sent = [pair for batch in view.messages(Phase.WANTED) for pair in np.asarray(batch.payload).tolist()]
        heard = {(node, other) for node, other in sent if graph.silo_of[other] == client}
        mine = {(node, other) for node, other in own if graph.silo_of[node] == client}
        agreed = {(node, other) for node, other in mine if (other, node) in heard}
        at_client = thinned.crosses_silos & (graph.silo_of[thinned.edges[1]] == client)
        assert agreed == {(int(target), int(source)) for source, target in thinned.edges[:, at_client].T}
        assert agreed < mine


def test_a_lost_pick_is_refused() -> None:
    """Otherwise one end would keep an edge that the other dropped."""
    graph = random_graph(20, 40, 3, 0)
    channel = Channel(hierarchy_of(graph), SimulationCoins(0), loss=lambda *batch: np.arange(len(batch[2])) > 0)
    with pytest.raises(ProtocolError, check=about("requests")):
        agreed_neighbours(graph, channel, 2, 0, Step(0))
