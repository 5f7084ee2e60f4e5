"""Sums between nodes and virtual nodes."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from fgl_secure.methods.fedvn.batches import GraphStore, pad, to_nodes, to_virtual, unpad
from tests.methods.fedvn.sets import random_set

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


def test_gradients_of_padding_are_right() -> None:
    """Padding and its reverse agree with finite differences."""
    batch = STORE.batch(np.array([1, 2, 5]))
    values = torch.randn(len(batch.features), 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda rows: unpad(pad(rows, batch) ** 2, batch), values)
    assert torch.equal(unpad(pad(values, batch), batch), values)
