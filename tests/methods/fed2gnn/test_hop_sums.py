"""Protocol 1's sums are those over walks that never step back, whatever scheme computes them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fgl_secure.coins import SimulationCoins
from fgl_secure.dp import Perturbation, PrivacyTarget, Relation, Unit
from fgl_secure.errors import FieldRangeError, InputError, ProtocolError
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fed2gnn.grouping import OwnPairs, agreed_neighbours, sampled_neighbours
from fgl_secure.methods.fed2gnn.hop_sums import HopSums, RowRange, hop_sums
from fgl_secure.protocols.perturbed import PerturbedScheme
from fgl_secure.protocols.plaintext import Path, Plaintext
from fgl_secure.protocols.relay_coded import Profile, RelayCoded
from fgl_secure.protocols.scheme import Scheme, least_group
from fgl_secure.protocols.secmp import MuDelivery, SecretMessagePassing
from fgl_secure.runtime import Channel, Recording, Step
from fgl_secure.training.parties import hierarchy_of
from tests.error_codes import about
from tests.methods.fed2gnn.oracles import graph_of, graphs, neighbours_of, random_graph, walks

Reals = NDArray[np.float64]
Ids = NDArray[np.int64]
ROWS = RowRange(first=64.0, growth=8.0)

SCHEMES: list[Scheme] = [
    Plaintext(),
    RelayCoded(k_min=1, profile=Profile.SHOWN),
    Plaintext(Path.SILO),
    RelayCoded(T=2, R=4, k_min=2, profile=Profile.SHOWN),
    SecretMessagePassing(T=2, delivery=MuDelivery.TARGET),
]


def channel(graph: FederatedGraph, scheme: Scheme, recording: Recording | None = None) -> Channel:
    return Channel(hierarchy_of(graph, scheme.helpers), SimulationCoins(0), recording)


def run(graph: FederatedGraph, hops: int, scheme: Scheme | None = None, neighbours: Ids | None = None) -> HopSums:
    scheme = scheme or Plaintext()
    values = graph.features.astype(np.float64)
    return hop_sums(graph, values, hops, scheme, channel(graph, scheme), neighbours=neighbours, rows=ROWS)


@dataclass(frozen=True, slots=True)
class Heard:
    """Whom each node hears of: inside its client, and at others."""

    inside: list[list[int]]
    abroad: list[list[int]]

    @classmethod
    def of(cls, graph: FederatedGraph, minimum: int = 1, neighbours: Ids | None = None) -> Heard:
        """All neighbours, or those asked for; of too few other clients, none."""
        asked = None if neighbours is None else set(map(tuple, neighbours.T.tolist()))
        inside: list[list[int]] = []
        abroad: list[list[int]] = []
        for node, near in enumerate(neighbours_of(graph.graph)):
            away = [m for m in near if graph.silo_of[m] != graph.silo_of[node]]
            kept = [m for m in away if asked is None or (node, m) in asked]
            enough = len({int(graph.silo_of[m]) for m in kept}) >= minimum
            inside.append([m for m in near if graph.silo_of[m] == graph.silo_of[node]])
            abroad.append(kept if enough else [])
        return cls(inside, abroad)

    def sums(self, values: Reals, hops: int) -> HopSums:
        """One walk after the other."""
        everyone = [one + other for one, other in zip(self.inside, self.abroad, strict=True)]
        f, mu, eta = (
            np.array([
                [values[list(walks(everyone, k, node, first[node]))].sum(axis=0) for node in range(len(values))]
                for k in range(1, hops + 1)
            ])
            for first in (self.abroad, everyone, self.inside)
        )  # fmt: skip
        return HopSums(f, mu, eta)


def same(found: HopSums, expected: HopSums, atol: float = 1e-6) -> None:
    """All three agree to that precision, and to 1e-6 of their size."""
    for one, other in ((found.f, expected.f), (found.mu, expected.mu), (found.eta, expected.eta)):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=atol)


def asked_at_random(graph: FederatedGraph, seed: int) -> Ids:
    """Every client asks for some neighbours of its nodes, whoever asks for its own."""
    edges = graph.edges[:, graph.crosses_silos]
    return edges[:, np.random.default_rng(seed).random(edges.shape[1]) < 0.5]


@given(graphs(), st.integers(1, 4))
@settings(max_examples=15)
def test_sums_are_those_over_walks(graph: FederatedGraph, hops: int) -> None:
    same(run(graph, hops), Heard.of(graph).sums(graph.features.astype(np.float64), hops))


@given(graphs(), st.integers(1, 4), st.integers(0, 2**32 - 1))
@settings(max_examples=15)
def test_requests_need_not_be_mutual(graph: FederatedGraph, hops: int, seed: int) -> None:
    """Where clients sample each for itself, walks follow who hears of whom, and nobody's own rows are left in."""
    neighbours = asked_at_random(graph, seed)
    expected = Heard.of(graph, neighbours=neighbours).sums(graph.features.astype(np.float64), hops)
    same(run(graph, hops, neighbours=neighbours), expected)


@given(graphs(), st.integers(1, 4), st.integers(2, 3))
@settings(max_examples=15)
def test_nodes_of_refused_sums_have_no_neighbours_abroad(graph: FederatedGraph, hops: int, minimum: int) -> None:
    """Below the minimum nothing is asked for, and walks through such a node stay with its client."""
    found = run(graph, hops, Plaintext(minimum_group=minimum))
    same(found, Heard.of(graph, minimum).sums(graph.features.astype(np.float64), hops))


@pytest.mark.parametrize(("name", "first_wrong"), [("mutual", 2), ("one_sided", 3)])
def test_a_forgotten_correction_is_noticed(name: str, first_wrong: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Own rows that are left in spoil the sums from hop 2 on; a passive client that leaves walks in, from hop 3 on."""
    graph, hops = random_graph(60, 90, 3, 0), 4
    neighbours = asked_at_random(graph, 0)
    expected = Heard.of(graph, neighbours=neighbours).sums(graph.features.astype(np.float64), hops)
    right = getattr(OwnPairs, name)
    monkeypatch.setattr(OwnPairs, name, property(lambda pairs: 0 * right.fget(pairs)))
    found = run(graph, hops, neighbours=neighbours)
    agree = [np.allclose(found.f[k], expected.f[k], atol=1e-6) for k in range(hops)]
    assert agree == [hop < first_wrong for hop in range(1, hops + 1)]


@pytest.mark.parametrize("mine", [True, False])
def test_published_formulas_need_mutual_requests(mine: bool) -> None:
    """Lines 18, 22 and 23 as printed are right if all neighbours are asked for, and wrong if each client samples."""
    graph, hops = random_graph(60, 90, 3, 0), 4
    neighbours = asked_at_random(graph, 0) if mine else graph.edges[::-1, graph.crosses_silos]
    values, n = graph.features.astype(np.float64), graph.num_devices
    cross, inside = np.zeros((n, n)), np.zeros((n, n))
    cross[neighbours[0], neighbours[1]] = 1
    source, target = graph.edges[:, ~graph.crosses_silos]
    inside[target, source] = 1
    N_cp, N_p = cross.sum(axis=1, keepdims=True), inside.sum(axis=1, keepdims=True)
    f, mu = [values], [values]
    for k in range(1, hops + 1):
        q, own = cross @ mu[-1], inside @ mu[-1]
        if k == 1:
            f, mu = [*f, q], [*mu, q + own]
        elif k == 2:
            f, mu = [*f, q - N_cp * f[0]], [*mu, q + own - (N_cp + N_p) * mu[0]]
        else:
            eta = mu[k - 2] - f[k - 2]
            f = [*f, q - (N_cp - 1) * f[k - 2] - N_cp * eta]
            mu = [*mu, q + own - (N_cp + N_p - 1) * mu[k - 2]]
    expected = Heard.of(graph, neighbours=neighbours).sums(values, hops)
    assert np.allclose(f[1], expected.f[0])
    assert all(np.allclose(f[k + 1], expected.f[k]) for k in range(1, hops)) is not mine
    assert all(np.allclose(mu[k + 1], expected.mu[k]) for k in range(1, hops)) is not mine


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: scheme.name)
@pytest.mark.parametrize("sampled", [False, True], ids=["all asked", "some asked"])
def test_schemes_agree_with_plaintext(scheme: Scheme, sampled: bool) -> None:
    """Every scheme of the registry gives plaintext's sums, up to the error of its fixed point in each hop's unit."""
    graph, hops = random_graph(60, 90, 4, 1), 3
    neighbours = asked_at_random(graph, 0) if sampled else None
    found = run(graph, hops, scheme, neighbours)
    expected = run(graph, hops, Plaintext(minimum_group=least_group(scheme)), neighbours)
    assert np.abs(expected.f[2]).max() > 1
    for hop in range(1, hops + 1):
        error = np.abs(found.f[hop - 1] - expected.f[hop - 1]).max()
        fixed = scheme.fixed_point(graph.num_silos)
        if fixed is None:
            assert error < 1e-9
            continue
        unit = ROWS.of(hop) / fixed.bound * 2.0**-fixed.fraction_bits
        degree = float(graph.in_degree.max())
        assert error < graph.num_silos * unit * (1 + degree) ** (hop - 1)


def test_noise_goes_through_all_hops() -> None:
    """Under perturbation the first hop has the noise of one sum, and later hops have more, for they pass it on."""
    graph, hops = random_graph(40, 60, 3, 2), 2
    target = PrivacyTarget(10.0, 1e-5, Relation(Unit.MESSAGE), hops)
    scheme = PerturbedScheme(Plaintext(), Perturbation.calibrate(target, clip=256.0, width=3, honest=1))
    found = hop_sums(graph, graph.features, hops, scheme, channel(graph, scheme))
    errors = np.sqrt(np.square(found.f - run(graph, hops).f).mean(axis=(1, 2)))
    assert 0 < errors[0] < scheme.settings.sigma * graph.num_silos
    assert errors[0] < errors[1]


@pytest.mark.parametrize(
    "graph",
    [
        graph_of([], 3, [0, 1, 0]),
        graph_of([(0, 1)], 4, [0, 0, 1, 1]),
        graph_of([(0, 1), (1, 2)], 5, [0, 1, 0, 2, 2]),
        graph_of([(0, 1), (1, 2)], 3),
    ],
    ids=["without edges", "clients without cross edges", "a client without cross edges", "one client"],
)
@pytest.mark.parametrize("scheme", SCHEMES[:2], ids=lambda scheme: scheme.name)
def test_graphs_with_nothing_to_send_work(graph: FederatedGraph, scheme: Scheme) -> None:
    """Isolated nodes, no edges, no cross edges: sums are those over what there is, and 0 where there is nothing."""
    expected = Heard.of(graph).sums(graph.features.astype(np.float64), 3)
    same(run(graph, 3, scheme), expected, atol=1e-4)


def test_rows_out_of_range_are_refused() -> None:
    """A row beyond what everybody expects stops the exchange in its hop; without a range, the scheme's bound does."""
    graph = graph_of([(0, v) for v in range(1, 7)], 7, [0, *[1] * 6], np.full((7, 1), 4.0))
    scheme = SecretMessagePassing()
    with pytest.raises(InputError, check=about("rows of hop 1")):
        hop_sums(graph, graph.features, 1, scheme, channel(graph, scheme), rows=RowRange(16.0))
    with pytest.raises(FieldRangeError, check=about("values")):
        hop_sums(graph, graph.features, 1, scheme, channel(graph, scheme))
    assert hop_sums(graph, graph.features, 1, scheme, channel(graph, scheme), rows=RowRange(32.0)).f[0, 0] == 24
    for first, growth in ((0.0, 1.0), (1.0, 0.5)):
        with pytest.raises(InputError):
            RowRange(first, growth)


def test_lost_requests_stop_the_exchange() -> None:
    """Who asks and is not heard would subtract what it was never sent."""
    graph = graph_of([(0, 1), (1, 2)], 3, [0, 1, 0])
    wire = Channel(hierarchy_of(graph), SimulationCoins(0), loss=lambda *batch: np.arange(len(batch[2])) > 0)
    with pytest.raises(ProtocolError, check=about("requests")):
        hop_sums(graph, graph.features, 1, Plaintext(), wire)


def test_bad_input_is_refused() -> None:
    """K = 0, values that do not fit, directed graphs, and requests along no cross edge or twice."""
    graph = graph_of([(0, 1), (1, 2)], 3, [0, 1, 1])
    wire, x = channel(graph, Plaintext()), graph.features
    with pytest.raises(InputError, check=about("hops")):
        hop_sums(graph, x, 0, Plaintext(), wire)
    with pytest.raises(InputError, check=about("values")):
        hop_sums(graph, x[:2], 1, Plaintext(), wire)
    with pytest.raises(InputError, check=about("values")):
        hop_sums(graph, np.full((3, 1), np.nan), 1, Plaintext(), wire)
    with pytest.raises(InputError, check=about("neighbours")):
        hop_sums(graph, x, 1, Plaintext(), wire, neighbours=np.array([[0, 1], [1, 2]]))
    with pytest.raises(InputError, check=about("neighbours")):
        hop_sums(graph, x, 1, Plaintext(), wire, neighbours=np.array([[0, 0], [1, 1]]))
    with pytest.raises(InputError, check=about("most")):
        sampled_neighbours(graph, 0, 0)
    one_way = replace(graph, graph=replace(graph.graph, edges=np.array([[0], [1]])))
    with pytest.raises(InputError, check=about("graph")):
        hop_sums(one_way, x, 1, Plaintext(), wire)


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


def test_a_lost_pick_is_refused() -> None:
    graph = random_graph(20, 40, 3, 0)
    channel = Channel(hierarchy_of(graph), SimulationCoins(0), loss=lambda *batch: np.arange(len(batch[2])) > 0)
    with pytest.raises(ProtocolError, check=about("requests")):
        agreed_neighbours(graph, channel, 2, 0, Step(0))
