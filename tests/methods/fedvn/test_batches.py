"""Batches of graphs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from fgl_secure.methods.fedvn.batches import MOST_KINDS, GraphStore, graph_sums
from tests.methods.fedvn.sets import random_set


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
    heard = batch.heard if batch.kind_of is None else batch.kind_of @ batch.heard
    np.testing.assert_allclose(heard, reach @ ones, atol=1e-5)
    by_hand = batch.mean.to_dense().bool().float() @ batch.features
    torch.testing.assert_close(graph_sums(batch.features, batch), by_hand)


def test_few_kinds_of_nodes_are_shared_and_many_are_not() -> None:
    """Constant features leave a kind of node a degree; real ones leave too many to be worth sharing."""
    few, many = GraphStore(random_set()).batch(np.arange(9)), GraphStore(random_set(constant=False)).batch(np.arange(9))
    assert few.kind_of is not None
    assert len(few.heard) <= MOST_KINDS
    assert many.kind_of is None
    assert len(many.heard) == len(many.features)


def test_every_node_has_a_slot_of_its_own_in_its_graph() -> None:
    """Slots are different, ascending, and within the places of the node's graph."""
    batch = GraphStore(random_set()).batch(np.array([5, 7, 1]))
    assert (np.diff(batch.slot_of) > 0).all()
    assert torch.equal(batch.slot_of // batch.longest, batch.graph_of)


def test_types_of_nodes_become_a_column_each() -> None:
    """A type has no order: a node of type t has a one in column t, and a one behind."""
    sets = replace(random_set(), node_types=True, features=_types(len(random_set().features)))
    store = GraphStore(sets)
    batch = store.batch(np.array([2, 6]))
    types = sets.batch([2, 6]).features[:, 0]
    assert store.width == 5
    assert batch.features.argmax(dim=1).tolist() == types.tolist()
    assert (batch.features.sum(dim=1) == 2).all()


def _types(count: int) -> NDArray[np.float32]:
    return (np.arange(count)[:, None] % 4).astype(np.float32)
