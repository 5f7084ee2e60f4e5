from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from fgl_secure.attacks.gradients.model import Convolution, ReceptiveField, receptive_field, side_by_side
from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fedavg.small_rounds import fresh_model
from tests.attacks.gradients.gradient_runs import clusters

NONE = np.empty((2, 0), dtype=np.int64)


def gradients(graph: FederatedGraph, convolution: Convolution, *, stubs: bool = True) -> tuple[torch.Tensor, ...]:
    """The gradient of two nodes on the whole graph, and on their receptive field."""
    model, batch = fresh_model(graph, convolution), np.array([7, 3])
    field, members = receptive_field(graph.edges, batch, model.reach)
    labels, x = torch.from_numpy(graph.labels[batch]), torch.tensor(graph.features, dtype=torch.float64)
    edges = field.counted if stubs else field.edges
    whole = model.gradient(x, torch.tensor(graph.edges), labels, torch.from_numpy(batch))
    return whole, model.gradient(x[members], torch.from_numpy(edges), labels, torch.arange(2))


@pytest.mark.parametrize("convolution", Convolution)
def test_a_field_is_all_that_a_gradient_depends_on(convolution: Convolution) -> None:
    """The gradient on the receptive field is the gradient on the whole graph."""
    whole, local = gradients(clusters(nodes=80, silos=1, words=6), convolution)
    assert torch.allclose(whole, local, atol=1e-12)


def test_neighbours_outside_count() -> None:
    """Broken twin: without neighbours beyond the field degrees are wrong, and so is the gradient of a GCN."""
    whole, local = gradients(clusters(nodes=80, silos=1, words=6), Convolution.GCN, stubs=False)
    assert not torch.allclose(whole, local, atol=1e-6)


def test_fields_side_by_side_keep_their_edges() -> None:
    """The union has all batches first, and every edge between the rows that its ends have become."""
    path = np.array([[0, 1, 1, 2], [1, 0, 2, 1]])
    one, _ = receptive_field(path, np.array([1]), 1)
    other, _ = receptive_field(path, np.array([0]), 1)
    union, place = side_by_side([one, other])
    assert (union.nodes, union.batch) == (5, 2)
    assert sorted(place.tolist()) == [0, 1, 2, 3, 4]
    assert place[[0, 3]].tolist() == [0, 1]
    inside = np.zeros((5, 5))
    for field, start in ((one, 0), (other, 3)):
        inside[np.ix_(place[start : start + field.nodes], place[start : start + field.nodes])] = field.adjacency
    assert np.array_equal(union.adjacency, inside)
    assert union.outside.sum() == other.outside.sum() == 1


def test_averages_of_the_rim_do_not_count() -> None:
    """With two hops averages of the batch and its neighbours reach the batch, and those of the rim do not."""
    path = np.array([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
    field, members = receptive_field(path, np.array([0]), 3)
    assert members.tolist() == [0, 1, 2, 3]
    assert field.averaged(1)[1:, 1:].any() == np.False_
    assert field.averaged(2)[0].all()
    assert not field.averaged(2)[2:, 2:].any()


@pytest.mark.parametrize(
    ("changed", "told"),
    [({"batch": 0}, "batch must lie"), ({"batch": 4}, "batch must lie"), ({"edges": NONE.astype(np.float64)}, "int64"),
     ({"edges": np.array([[0], [3]])}, "join nodes 0..2"), ({"outside": np.zeros(2, dtype=np.int64)}, "outside"),
     ({"outside": np.full(3, -1)}, "outside")],
)  # fmt: skip
def test_fields_are_checked(changed: dict[str, Any], told: str) -> None:
    """A field whose parts do not fit is refused in words."""
    good = ReceptiveField(3, 1, NONE, np.zeros(3, dtype=np.int64))
    with pytest.raises(InputError, match=told):
        replace(good, **changed)


def test_nobody_is_twice_in_a_batch_and_a_union_is_of_something() -> None:
    """A batch with a node twice, and a union of nothing, are refused."""
    with pytest.raises(InputError, match="different nodes"):
        receptive_field(NONE, np.array([1, 1]), 1)
    with pytest.raises(InputError, match="at least one"):
        side_by_side([])
