"""The encoder against Eqs. 1, 5 and 6 written out."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fgl_secure.methods.fedvn.batches import GraphStore, graph_sums, pad, to_nodes, to_virtual
from fgl_secure.methods.fedvn.models import (
    BatchNorm,
    GraphEncoder,
    GraphModel,
    collecting,
    contrast_loss,
    decoupling_loss,
    penalties,
    task_loss,
)
from fgl_secure.methods.fedvn.preset import FedVNPreset, Injection, Statistics
from tests.methods.fedvn.sets import bonded, doubled, random_set
from tests.methods.fedvn.slow import Reals, Virtual, slow_contrast, slow_decoupling, slow_embeddings

SMALL = FedVNPreset("small", hidden=4, virtual_nodes=3, statistics=Statistics.BATCH)
SETS = {constant: random_set(constant=constant) for constant in (True, False)}
STORES = {constant: GraphStore(sets) for constant, sets in SETS.items()}
IDS = st.lists(st.integers(0, 29), min_size=1, max_size=5, unique=True)


def _encoder(preset: FedVNPreset, constant: bool, seed: int) -> GraphEncoder:
    draws = torch.Generator().manual_seed(seed)
    encoder = GraphEncoder(STORES[constant].width, preset, virtual=True, draws=draws)
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=draws) / 4)
    return encoder.double()


@settings(max_examples=12, deadline=None)
@given(IDS, st.booleans(), st.integers(1, 4), st.integers(0, 99))
def test_without_virtual_nodes_it_is_a_gin(ids: list[int], constant: bool, layers: int, seed: int) -> None:
    """Embeddings are those of a graph isomorphism network computed node by node."""
    encoder = _encoder(replace(SMALL, layers=layers), constant, seed)
    found = encoder(doubled(STORES[constant].batch(np.array(ids))))
    np.testing.assert_allclose(found.detach(), slow_embeddings(encoder, SETS[constant], ids), atol=1e-8)


@settings(max_examples=12, deadline=None)
@given(IDS, st.booleans(), st.sampled_from(Injection), st.integers(1, 4), st.integers(0, 99))
def test_virtual_nodes_are_those_of_the_paper(
    ids: list[int], constant: bool, injection: Injection, layers: int, seed: int
) -> None:
    """Embeddings are those of Eqs. 5 and 6 node by node and graph by graph, wherever virtual nodes enter."""
    encoder = _encoder(replace(SMALL, layers=layers, injection=injection), constant, seed)
    batch, draws = doubled(STORES[constant].batch(np.array(ids))), np.random.default_rng(seed)
    scores, virtual = draws.random((len(batch.features), 3)), draws.normal(size=(3, 4))
    found = encoder.embed_nodes(batch, torch.from_numpy(virtual), torch.from_numpy(scores))
    slow = slow_embeddings(encoder, SETS[constant], ids, Virtual(virtual, scores, injection))
    np.testing.assert_allclose(found.detach(), slow, atol=1e-8)


@settings(max_examples=12, deadline=None)
@given(IDS, st.booleans(), st.sampled_from([None, *Injection]), st.integers(1, 4), st.integers(0, 99))
def test_messages_over_bonds_are_those_of_gine(
    ids: list[int], constant: bool, injection: Injection | None, layers: int, seed: int
) -> None:
    """relu(h_j + e_ij) of each neighbour, node by node, with and without virtual nodes."""
    sets, draws = bonded(SETS[constant]), torch.Generator().manual_seed(seed)
    preset = replace(SMALL, layers=layers, injection=injection or Injection.INPUT)
    encoder = GraphEncoder(STORES[constant].width, preset, virtual=True, draws=draws, bonds=3).double()
    batch = doubled(GraphStore(sets).batch(np.array(ids)))
    if injection is None:
        np.testing.assert_allclose(encoder(batch).detach(), slow_embeddings(encoder, sets, ids), atol=1e-8)
        return
    scores = torch.rand(len(batch.features), 3, generator=draws).double()
    virtual = torch.randn(3, 4, generator=draws).double()
    found = encoder.embed_nodes(batch, virtual, scores)
    slow = slow_embeddings(encoder, sets, ids, Virtual(virtual.numpy(), scores.numpy(), injection))
    np.testing.assert_allclose(found.detach(), slow, atol=1e-8)


@pytest.mark.parametrize("injection", Injection)
@pytest.mark.parametrize("constant", [True, False])
def test_unconnected_virtual_nodes_change_nothing(injection: Injection, constant: bool) -> None:
    """With all scores 0, outputs are the plain GIN's, whatever Q is; with other scores they are not."""
    preset = replace(SMALL, injection=injection)
    draws = torch.Generator().manual_seed(3)
    encoder = GraphEncoder(STORES[constant].width, preset, virtual=True, draws=draws)
    model = GraphModel(encoder, 3, preset.hidden, draws).double()
    batch = doubled(STORES[constant].batch(np.arange(12)))
    virtual = torch.randn(3, 4, dtype=torch.float64, generator=draws)
    unconnected = torch.zeros(len(batch.features), 3, dtype=torch.float64)
    torch.testing.assert_close(model(batch, None, (virtual, unconnected)), model(batch))
    assert not torch.allclose(model(batch, None, (virtual, unconnected + 0.5)), model(batch))


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("ids", [[0], [3, 1, 2], [29, 0, 4, 4]])
def test_a_batch_is_the_set_s_own_batch_as_matrices(constant: bool, ids: list[int]) -> None:
    """Features, I + A, means and targets are those of the graphs asked for, in the order asked for."""
    sets = random_set(constant=constant)
    batch, plain = GraphStore(sets).batch(np.array(ids)), sets.batch(ids)
    count = len(plain.features)
    reach = np.eye(count)
    reach[plain.edges[1], plain.edges[0]] = 1
    member = plain.graph_of[None] == np.arange(len(ids))[:, None]
    ones = np.concatenate([plain.features, np.ones((count, 1))], axis=1)
    assert np.array_equal(batch.features, ones)
    assert np.array_equal(batch.reach.to_dense(), reach)
    np.testing.assert_allclose(batch.mean.to_dense(), member / member.sum(axis=1, keepdims=True), rtol=1e-6)
    assert torch.equal(batch.spread.to_dense(), batch.mean.to_dense().T)
    assert np.array_equal(batch.graph_of, plain.graph_of)
    assert np.array_equal(batch.targets, plain.targets)
    heard = batch.summed_rows if batch.kind_of is None else batch.kind_of @ batch.summed_rows
    np.testing.assert_allclose(heard, reach @ ones, atol=1e-5)
    by_hand = batch.mean.to_dense().bool().float() @ batch.features
    torch.testing.assert_close(graph_sums(batch.features, batch), by_hand)


ROWS = torch.tensor([[1.0, 5.0], [2.0, 5.0], [4.0, 7.0]])
COUNTS = torch.tensor([3.0, 1.0, 2.0])
REPEATED = ROWS.repeat_interleave(COUNTS.long(), dim=0)


def test_a_row_that_counts_several_times_is_that_row_several_times() -> None:
    """Outputs and collected statistics are those of the repeated rows."""
    counted, repeated = BatchNorm(2, tracked=True), BatchNorm(2, tracked=True)
    with collecting(counted, repeated):
        once = counted(ROWS, COUNTS).repeat_interleave(COUNTS.long(), dim=0)
        torch.testing.assert_close(once, repeated(REPEATED))
    for mine, wanted in zip(counted.buffers(), repeated.buffers(), strict=True):
        torch.testing.assert_close(mine, wanted)
    assert not torch.equal(next(counted.buffers()), torch.zeros(2))


def test_collected_statistics_are_pytorch_s_cumulative_ones() -> None:
    """Batches that are collected count the same each, and a second collection starts anew."""
    ours, theirs = BatchNorm(2, tracked=True), torch.nn.BatchNorm1d(2, momentum=None)
    with collecting(ours):
        ours(ROWS * 7)
    with collecting(ours):
        for rows in (ROWS, REPEATED, ROWS + 1):
            torch.testing.assert_close(ours(rows), theirs(rows))
    ours.eval()
    theirs.eval()
    torch.testing.assert_close(ours(REPEATED), theirs(REPEATED))


def test_a_single_row_comes_out_as_the_shift() -> None:
    """One graph in a batch, or one node, has no variance; it neither fails nor moves collected statistics."""
    norm = BatchNorm(2, tracked=True)
    with collecting(norm):
        assert torch.equal(norm(ROWS[:1]), torch.zeros(1, 2))
    assert torch.equal(next(norm.buffers()), torch.zeros(2))


STORE = GraphStore(random_set())


@given(st.lists(st.integers(0, 29), min_size=1, max_size=6), st.integers(1, 4), st.integers(0, 99))
def test_both_directions_are_the_sums_written_out(ids: list[int], number: int, seed: int) -> None:
    """Virtual nodes hear their graph's nodes alone, and nodes hear their own graph's virtual nodes alone."""
    batch, draws = STORE.batch(np.array(ids)), torch.Generator().manual_seed(seed)
    count = len(batch.features)
    scores, values = torch.rand(count, number, generator=draws), torch.randn(count, 5, generator=draws)
    virtual = torch.randn(len(ids), number, 5, generator=draws)
    heard, told = torch.zeros(len(ids), number, 5), torch.zeros(count, 5)
    for v in range(count):
        graph = int(batch.graph_of[v])
        for m in range(number):
            heard[graph, m] += scores[v, m] * values[v]
            told[v] += scores[v, m] * virtual[graph, m]
    padded = pad(scores, batch)
    torch.testing.assert_close(to_virtual(padded, values, batch), heard, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(to_nodes(padded, virtual, batch), told, atol=1e-5, rtol=1e-4)


ENTRIES = st.integers(-64, 64).map(lambda value: value / 16)  # exact sums: equal entries have no variance
SCORES = st.floats(0.05, 0.95)


@given(arrays(np.float64, st.tuples(st.integers(1, 5), st.integers(2, 6)), elements=ENTRIES))
def test_decoupling_is_the_mean_squared_correlation(virtual: Reals) -> None:
    """Eq. 7, where a virtual node with equal entries correlates with nothing."""
    assert float(decoupling_loss(torch.from_numpy(virtual))) == pytest.approx(slow_decoupling(virtual), abs=1e-9)


def test_decoupling_is_zero_at_the_start_and_pulls_nowhere() -> None:
    """At Q = 0, where the correlation matrix is undefined, loss and gradient are 0 and not NaN."""
    virtual = torch.zeros(4, 6, requires_grad=True)
    loss = decoupling_loss(virtual)
    (gradient,) = torch.autograd.grad(loss, virtual)
    assert float(loss.detach()) == 0
    assert torch.equal(gradient, torch.zeros(4, 6))


@given(st.data(), st.integers(1, 4), st.sampled_from([0.1, 0.5, 1.0]))
def test_contrast_is_the_formula_written_out(data: st.DataObject, number: int, tau: float) -> None:
    """Eq. 8, graph by graph."""
    graphs = data.draw(
        st.lists(arrays(np.float64, st.tuples(st.integers(1, 5), st.just(number)), elements=SCORES), min_size=1)
    )
    local, everywhere = (data.draw(arrays(np.float64, number, elements=SCORES)) for _ in range(2))
    sums = torch.from_numpy(np.stack([each.sum(axis=0) for each in graphs]))
    found = contrast_loss(sums, torch.from_numpy(local), torch.from_numpy(everywhere), tau)
    assert float(found) == pytest.approx(slow_contrast(graphs, local, everywhere, tau), abs=1e-9)


def test_a_value_is_scored_by_its_error_and_a_label_by_being_right() -> None:
    """Squared error trains and absolute error scores values; cross-entropy trains labels."""
    outputs, values = torch.tensor([[1.0], [4.0]]), torch.tensor([2.0, 2.0])
    assert float(task_loss(outputs, values)) == pytest.approx(2.5)
    assert penalties(outputs, values).tolist() == [1, 2]
    scores, labels = torch.tensor([[0.0, 1.0], [1.0, 0.0]]), torch.tensor([1, 1])
    assert float(task_loss(scores, labels)) == pytest.approx(np.log(1 + np.exp(-1)) / 2 + np.log(1 + np.exp(1)) / 2)
    assert penalties(scores, labels).tolist() == [1, 0]
