"""Generators learn what their equations say, and mend graphs with what they learnt."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fgl_reproduction.methods.fedsage.generator import GeneratorPreset, HiddenNodes, NeighGen, generate
from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph
from fgl_secure.training.parameters import flat, unflatten
from fgl_secure.training.silo import Silo
from tests.methods.fed2gnn.oracles import graph_of, graphs, random_graph
from tests.methods.fed2gnn.small import some_digits

SMALL = GeneratorPreset(most=3, encoder=4, latent=6, width=8, alone=3)
CPU = torch.device("cpu")


def make_generator(graph: FederatedGraph, silo: int = 0, preset: GeneratorPreset = SMALL, seed: int = 0) -> NeighGen:
    return NeighGen(Silo.of(graph.restricted_to_silos(), silo), preset, seed, CPU)


@given(graph=graphs(), share=st.floats(0.01, 0.99), most=st.integers(0, 4), seed=st.integers(0, 2**32))
def test_hidden_neighbours_are_those_of_the_nodes_that_stay(
    graph: FederatedGraph, share: float, most: int, seed: int
) -> None:
    """One by one: so many are hidden, counts are capped, and a row may be near each hidden neighbour of its node."""
    nodes, edges = graph.num_devices, graph.edges
    found = HiddenNodes.of(edges, nodes, share, most, np.random.default_rng(seed))
    assert len(found.kept) == max(nodes - round(share * nodes), 1)
    stays = set(found.kept.tolist())
    lost = [{int(u) for u in edges[0, edges[1] == v] if int(u) not in stays} for v in found.kept]
    assert found.missing.tolist() == [min(len(each), most) for each in lost]
    assert found.node.tolist() == [at for at, each in enumerate(lost) for _ in range(min(len(each), most))]
    near = [set(found.pairs[1, found.pairs[0] == row].tolist()) for row in range(len(found.node))]
    assert near == [lost[at] for at in found.node.tolist()]
    assert found.pairs.shape[1] == sum(map(len, near))


def greedy(rows: NDArray[np.float64], allowed: list[NDArray[np.float64]]) -> float:
    """The mean over rows of the least mean square to one of those allowed."""
    return float(
        np.mean([min(np.square(row - one).mean() for one in some) for row, some in zip(rows, allowed, strict=True)])
    )


def outputs(neighgen: NeighGen, inputs: NDArray[np.float32]) -> NDArray[np.float64]:
    with torch.no_grad():
        return np.asarray(generate(neighgen.theta, torch.from_numpy(inputs)).numpy(), dtype=np.float64)


def test_the_own_loss_is_to_the_nearest_hidden_neighbour() -> None:
    """Eq. 4, over all hidden neighbours of a row's node; its gradient is that of finite differences."""
    graph = some_digits(80, 3)
    neighgen = make_generator(graph)
    inputs = neighgen.inputs(0)
    assert inputs.shape == (neighgen.rows, SMALL.latent)
    hidden, features = neighgen._hidden, graph.features[graph.devices_of(0)].astype(np.float64)
    allowed = [features[hidden.pairs[1, hidden.pairs[0] == row]] for row in range(neighgen.rows)]
    loss, gradient = neighgen.own_gradient(inputs)
    assert loss == pytest.approx(greedy(outputs(neighgen, inputs), allowed), rel=1e-5)
    assert gradient == pytest.approx(differences(neighgen, inputs, allowed), rel=1e-2, abs=1e-4)


def test_another_clients_loss_is_to_its_nearest_node() -> None:
    """Eq. 5: over all nodes of the client that answers, whichever of them it hides; weighted by alpha."""
    graph = some_digits(80, 3)
    one, other = make_generator(graph), make_generator(graph, 1, replace(SMALL, cross=2.0))
    inputs, features = one.inputs(0), graph.features[graph.devices_of(1)].astype(np.float64)
    expected = 2 * differences(one, inputs, [features] * one.rows)
    assert other.gradient_for(flat(one.theta), inputs) == pytest.approx(expected, rel=1e-2, abs=2e-4)


def differences(
    neighgen: NeighGen, inputs: NDArray[np.float32], allowed: list[NDArray[np.float64]]
) -> NDArray[np.float64]:
    """The gradient of the greedy loss by central differences, in double precision."""
    theta, shapes = flat(neighgen.theta).astype(np.float64), [each.double() for each in neighgen.theta]
    given_rows = torch.from_numpy(inputs).double()

    def loss(values: NDArray[np.float64]) -> float:
        return greedy(generate(unflatten(values, shapes), given_rows).detach().numpy(), allowed)

    steps = 1e-6 * np.eye(len(theta))
    return np.array([(loss(theta + step) - loss(theta - step)) / 2e-6 for step in steps])


def test_learning_alone_lowers_what_is_learnt() -> None:
    """Numbers of hidden neighbours and their features are told better than before, and the seed repeats it."""
    graph = some_digits(200, 2)
    before, after, again = (
        make_generator(graph, preset=replace(SMALL, alone=60, learning_rate=0.01)) for _ in range(3)
    )
    after.learn_alone()
    again.learn_alone()
    assert after.own_gradient(after.inputs(0))[0] < before.own_gradient(before.inputs(0))[0]
    assert np.array_equal(flat(after.theta), flat(again.theta))


def test_generated_neighbours_hang_on_own_nodes() -> None:
    """Behind the own rows, each on one node by an edge both ways, at most as many as may be; own edges stay."""
    graph = some_digits(120, 2)
    neighgen, own = make_generator(graph), graph.devices_of(0)
    neighgen.learn_alone()
    rows, (source, target) = neighgen.mend_graph()
    assert np.array_equal(rows[: len(own)], graph.features[own])
    inside = (source < len(own)) & (target < len(own))
    assert inside.sum() == Silo.of(graph.restricted_to_silos(), 0).edges.shape[1]
    new = np.arange(len(own), len(rows))
    assert np.array_equal(np.sort(source[source >= len(own)]), new)
    assert np.array_equal(np.sort(target[target >= len(own)]), new)
    assert len(new) > 0
    assert np.bincount(target[source >= len(own)]).max() <= SMALL.most
    assert np.array_equal(rows, neighgen.mend_graph()[0])


def test_noise_is_fresh_in_every_round_and_generated_neighbours_differ() -> None:
    """Two rounds share embeddings and no noise; two neighbours of one node are no copies."""
    neighgen = make_generator(random_graph(60, 120, 2, 0))
    first, second = neighgen.inputs(0), neighgen.inputs(1)
    assert np.array_equal(first, neighgen.inputs(0))
    assert not np.isclose(first, second).any()
    assert len(np.unique(first, axis=0)) == len(first)


@pytest.mark.parametrize(("pairs", "nodes"), [([], 5), ([], 1), ([[0, 1]], 2)])
def test_clients_with_next_to_nothing_generate_what_they_can(pairs: list[list[int]], nodes: int) -> None:
    """Isolated nodes, one node alone, one edge: no error, and where nothing is hidden others are asked nothing."""
    neighgen = make_generator(graph_of(pairs, nodes))
    neighgen.learn_alone()
    inputs = neighgen.inputs(0)
    loss, gradient = neighgen.own_gradient(inputs)
    answer = neighgen.gradient_for(flat(neighgen.theta), inputs)
    assert np.isfinite(loss)
    assert gradient.shape == answer.shape == flat(neighgen.theta).shape
    assert len(inputs) == (1 if pairs else 0)
    assert bool(answer.any()) == bool(pairs)
    assert np.isfinite(neighgen.mend_graph()[0]).all()


def test_a_state_is_gone_on_from() -> None:
    """Parameters and what Adam remembers, in another object."""
    graph = some_digits(80, 2)
    one, other = make_generator(graph), make_generator(graph)
    one.learn_alone()
    one.step(one.own_gradient(one.inputs(0))[1])
    other.restore(one.state())
    for each in (one, other):
        each.step(each.own_gradient(each.inputs(1))[1])
    assert np.array_equal(flat(one.theta), flat(other.theta))
    assert np.array_equal(one.mend_graph()[0], other.mend_graph()[0])


@pytest.mark.parametrize(
    ("choice", "rule"),
    [
        ({"hidden_share": 1.0}, r"hidden_share must lie inside \(0, 1\); found 1"),
        ({"most": -1}, "most must be at least 0; found -1"),
        ({"latent": 0}, "latent must be at least 1; found 0"),
    ],
)
def test_settings_out_of_range_are_refused(choice: dict[str, float], rule: str) -> None:
    with pytest.raises(InputError, match=rule):
        GeneratorPreset(**choice)  # type: ignore[arg-type]  # wrong on purpose
