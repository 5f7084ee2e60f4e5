"""The decoder keeps sums, learns what sets look like, and never looks at what it was not given."""

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fed2gnn.decoder import (
    MOST_LISTED,
    Decoder,
    Neighbourhoods,
    best_matching,
    match_elements,
    own_neighbourhoods,
    walk_sums,
)
from fgl_secure.methods.fed2gnn.hop_sums import hop_sums
from fgl_secure.methods.fed2gnn.preset import DecoderPreset
from fgl_secure.protocols.plaintext import Plaintext
from tests.error_codes import about
from tests.methods.fed2gnn.oracles import graphs, neighbours_of, random_graph, walks
from tests.methods.fed2gnn.small import channel_of

MOST = 4
PRESET = DecoderPreset(epochs=60, width=32, blocks=2, batch=64, separator_rate=1e-2)


def sets(number: int, seed: int, width: int = 6, *, related: bool = True) -> Neighbourhoods:
    """Sets whose elements lie on both sides of their mean, along a direction that the mean tells, unless unrelated.

    A node has as many other neighbours as the first entry of its sum says.
    """
    rng = np.random.default_rng(seed)
    size = rng.integers(1, MOST + 1, number)
    kind = rng.integers(0, 2, number)
    directions = np.random.default_rng(0).normal(size=(2, 2 * width))
    along = np.concatenate([np.linspace(-1, 1, each) if each > 1 else np.zeros(1) for each in size])
    of_set = np.repeat(np.arange(number), size)
    sign = kind if related else rng.integers(0, 2, number)
    centre = 3 * np.eye(2, 2 * width)[kind]
    elements = (
        centre[of_set] + along[:, None] * directions[sign[of_set]] + 0.05 * rng.normal(size=(len(of_set), 2 * width))
    )
    others = rng.integers(0, 6, len(of_set))
    elements[:, width] = np.log1p(others)
    order = rng.permutation(len(of_set))
    order = order[np.argsort(of_set[order], kind="stable")]
    return Neighbourhoods(elements.reshape(-1, 2, width)[order], others[order], np.cumsum(size) - size, size)


def variance_within(data: Neighbourhoods, decoder: Decoder) -> float:
    """The loss of taking every element to be the mean of its set, in the decoder's units."""
    apart = data.deviations() / decoder._space.unit.numpy()
    several = np.repeat(data.size > 1, data.size)
    return float((apart[several] ** 2).sum() / several.sum())


@pytest.fixture(scope="module")
def trained() -> Decoder:
    return Decoder(sets(300, 1), MOST, PRESET, seed=0)


def test_elements_sum_to_what_was_given(trained: Decoder) -> None:
    """The constraint of Eq. 5, for sums that look like nothing it was trained on."""
    rng = np.random.default_rng(0)
    sums, counts = 100 * rng.normal(size=(50, 2, 6)), rng.integers(1, MOST + 1, 50)
    found = trained.decode(sums, counts)
    assert found.shape == (counts.sum(), 2, 6)
    np.testing.assert_allclose(np.add.reduceat(found, np.cumsum(counts) - counts, axis=0), sums, atol=1e-9)
    assert np.abs(found[np.repeat(counts, counts) == 1] - sums[counts == 1]).max() == 0


def test_held_out_sets_are_decoded_better_than_by_their_means(trained: Decoder) -> None:
    """What it learnt holds for sets that it has not seen; before training it is no better than the mean."""
    held_out = sets(100, 2)
    untrained = Decoder(sets(300, 1), MOST, replace(PRESET, epochs=0), seed=0)
    assert trained.loss(held_out) < 0.3 * variance_within(held_out, trained)
    assert untrained.loss(held_out) > 0.7 * variance_within(held_out, untrained)


def test_nothing_is_learnt_where_the_sum_tells_nothing() -> None:
    """With directions drawn anew, the loss on held-out sets stays near that of the mean: the null control."""
    decoder = Decoder(sets(300, 1, related=False), MOST, PRESET, seed=0)
    held_out = sets(100, 2, related=False)
    assert decoder.loss(held_out) > 0.6 * variance_within(held_out, decoder)


def test_degrees_are_predicted(trained: Decoder) -> None:
    """phi_d finds the number of other neighbours of held-out nodes better than their mean does."""
    held_out = sets(100, 3)
    found = trained.degrees(held_out.elements, 1000)
    error = np.abs(found - held_out.others).mean()
    assert error < 0.5 * np.abs(held_out.others - held_out.others.mean()).mean()
    assert (found >= 0).all()


def test_a_predicted_degree_is_at_most_the_largest_possible(trained: Decoder) -> None:
    """However far elements are from those of training, up to where an exponential overflows."""
    far = 1e6 * np.random.default_rng(0).normal(size=(50, 2, 6))
    found = trained.degrees(far, 20)
    assert found.max() == pytest.approx(20)
    assert found.min() >= 0


def test_missing_parts_are_those_of_the_mean_element(trained: Decoder) -> None:
    """One decoder serves levels with fewer parts (4.3): rows alone decode as with the mean element's sums beside."""
    data, held_out = sets(300, 1), sets(30, 2)
    rows, counts = held_out.sums()[:, :1], held_out.size
    beside = data.elements.mean(axis=0)[1] * counts[:, None]
    found = trained.decode(rows, counts)
    whole = trained.decode(np.stack([rows[:, 0], beside], axis=1), counts)
    np.testing.assert_allclose(found, whole[:, :1], atol=1e-5)
    np.testing.assert_allclose(np.add.reduceat(found, held_out.first, axis=0), rows, atol=1e-9)


def test_a_seed_repeats_a_decoder() -> None:
    data, short = sets(60, 1), replace(PRESET, epochs=2)
    sums, counts = data.sums(), data.size
    one, same, other = (Decoder(data, MOST, short, seed).decode(sums, counts) for seed in (0, 0, 1))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)


def test_choices_out_of_range_are_refused(trained: Decoder) -> None:
    """d = 0, sets larger than d, and sets without sums."""
    with pytest.raises(InputError, check=about("most")):
        Decoder(sets(5, 1), 0, PRESET, seed=0)
    with pytest.raises(InputError, check=about("counts")):
        trained.decode(np.zeros((1, 2, 6)), np.array([5]))
    alone = sets(5, 1)
    with pytest.raises(InputError, check=about("elements")):
        Decoder(replace(alone, elements=alone.elements[:, :1]), MOST, PRESET, seed=0)


SIZES = st.integers(1, MOST_LISTED + 2)


def pair(size: int, width: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    coins = torch.Generator().manual_seed(seed)
    return torch.randn(3, size, width, generator=coins), torch.randn(3, size, width, generator=coins)


def set_loss(truth: torch.Tensor, decoded: torch.Tensor) -> torch.Tensor:
    """Eq. 8 of each pair of sets, float [b]."""
    return ((truth - match_elements(truth, decoded)) ** 2).sum(dim=(1, 2))


@settings(max_examples=40, deadline=None)
@given(SIZES, st.integers(1, 4), st.integers(0, 2**31))
def test_the_loss_is_the_least_over_all_bijections(size: int, width: int, seed: int) -> None:
    """Eq. 8 by trying every bijection, for sets on both sides of the size at which the search changes."""
    truth, decoded = pair(size, width, seed)
    listed = [((truth - decoded[:, list(order)]) ** 2).sum(dim=(1, 2)) for order in permutations(range(size))]
    torch.testing.assert_close(set_loss(truth, decoded), torch.stack(listed).min(dim=0).values, rtol=1e-4, atol=1e-4)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 12), st.integers(0, 2**31))
def test_the_matching_is_a_bijection(size: int, seed: int) -> None:
    costs = np.random.default_rng(seed).normal(size=(5, size, size))
    assert (np.sort(best_matching(costs), axis=1) == np.arange(size)).all()


def test_the_order_of_a_set_makes_no_difference() -> None:
    """A set that is decoded in another order has no loss; the plain distance has."""
    truth, _ = pair(6, 4, 0)
    turned = truth[:, [3, 1, 5, 0, 2, 4]]
    assert float(set_loss(truth, turned).max()) < 1e-9
    assert float(((truth - turned) ** 2).sum()) > 1
    assert torch.equal(match_elements(truth, turned), truth)


def mu_of(graph: FederatedGraph, hops: int) -> np.ndarray:
    values = graph.features.astype(np.float64)
    return hop_sums(graph, values, hops, Plaintext(), channel_of(graph)).mu


def sets_of(graph: FederatedGraph, most: int, client: int = 0, poison: float = 0.0) -> Neighbourhoods:
    foreign = graph.silo_of != client
    values, mu = graph.features.astype(np.float64), mu_of(graph, 2)
    degree = graph.in_degree.astype(np.float64)
    values[foreign] += poison
    mu[:, foreign] += poison
    degree[foreign] += poison
    return own_neighbourhoods(graph, client, values, mu, degree, most, seed=0)


@settings(max_examples=15, deadline=None)
@given(graphs())
def test_sums_behind_an_edge_are_those_over_walks_that_leave_the_father_behind(graph: FederatedGraph) -> None:
    source, target = graph.edges[:, :40]
    hops = 2
    found = walk_sums(graph.edges[::-1], graph.features.astype(np.float64), mu_of(graph, hops))
    heard = neighbours_of(graph.graph)
    for edge, (child, father) in enumerate(zip(source, target, strict=True)):
        assert np.array_equal(found[edge, 0], graph.features[child].astype(np.float64))
        for hop in range(1, hops + 1):
            onward = [node for node in heard[child] if node != father]
            ends = list(walks(heard, hop, int(child), onward))
            truth = graph.features[ends].sum(axis=0, dtype=np.float64) if ends else np.zeros(3)
            np.testing.assert_allclose(found[edge, hop], truth, atol=1e-8)


@settings(max_examples=10, deadline=None)
@given(st.integers(1, 5), st.integers(0, 1000))
def test_sets_are_the_clients_own_neighbours_and_no_more_than_asked_for(most: int, seed: int) -> None:
    graph = random_graph(40, 60, 3, seed)
    found = sets_of(graph, most)
    inside = graph.edges[1, (graph.silo_of[graph.edges] == 0).all(axis=0)]
    counts = np.bincount(inside, minlength=graph.num_devices)
    assert sorted(found.size) == sorted(np.minimum(counts[counts > 0], most))
    assert len(found.elements) == found.size.sum() == len(found.others)


def test_a_client_needs_nothing_of_other_clients_nodes() -> None:
    """Changing what is known of foreign nodes changes no set: only sums that came to own nodes are used."""
    graph = random_graph(40, 80, 3, 5)
    plain, poisoned = sets_of(graph, 10), sets_of(graph, 10, poison=1e6)
    assert np.array_equal(plain.elements, poisoned.elements)
    assert np.array_equal(plain.others, poisoned.others)
    assert len(plain.elements)
