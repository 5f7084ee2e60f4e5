"""The encoder against Eqs. 1, 5 and 6 written out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fgl_secure.methods.fedvn.batches import GraphStore
from fgl_secure.methods.fedvn.models import Dropout, EdgeGenerator, Encoder, GraphModel
from fgl_secure.methods.fedvn.preset import FedVNPreset, Injection, Statistics
from tests.methods.fedvn.sets import doubled, random_set
from tests.methods.fedvn.slow import Virtual, slow_embeddings

SMALL = FedVNPreset("small", hidden=4, virtual_nodes=3, statistics=Statistics.BATCH)
SETS = {constant: random_set(constant=constant) for constant in (True, False)}
STORES = {constant: GraphStore(sets) for constant, sets in SETS.items()}
IDS = st.lists(st.integers(0, 29), min_size=1, max_size=5, unique=True)


def _encoder(preset: FedVNPreset, constant: bool, seed: int) -> Encoder:
    draws = torch.Generator().manual_seed(seed)
    encoder = Encoder(STORES[constant].width, preset, virtual=True, draws=draws)
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=draws) / 4)
    return encoder.double()


@settings(max_examples=25, deadline=None)
@given(IDS, st.booleans(), st.integers(1, 4), st.integers(0, 99))
def test_without_virtual_nodes_it_is_a_gin(ids: list[int], constant: bool, layers: int, seed: int) -> None:
    """Embeddings are those of a graph isomorphism network computed node by node."""
    encoder = _encoder(replace(SMALL, layers=layers), constant, seed)
    found = encoder(doubled(STORES[constant].batch(np.array(ids))))
    np.testing.assert_allclose(found.detach(), slow_embeddings(encoder, SETS[constant], ids), atol=1e-8)


@settings(max_examples=30, deadline=None)
@given(IDS, st.booleans(), st.sampled_from(Injection), st.integers(1, 4), st.integers(0, 99))
def test_virtual_nodes_are_those_of_the_paper(
    ids: list[int], constant: bool, injection: Injection, layers: int, seed: int
) -> None:
    """Embeddings are those of Eqs. 5 and 6 node by node and graph by graph, wherever virtual nodes enter."""
    encoder = _encoder(replace(SMALL, layers=layers, injection=injection), constant, seed)
    batch, draws = doubled(STORES[constant].batch(np.array(ids))), np.random.default_rng(seed)
    scores, virtual = draws.random((len(batch.features), 3)), draws.normal(size=(3, 4))
    found = encoder.augmented(batch, torch.from_numpy(virtual), torch.from_numpy(scores))
    slow = slow_embeddings(encoder, SETS[constant], ids, Virtual(virtual, scores, injection))
    np.testing.assert_allclose(found.detach(), slow, atol=1e-8)


@pytest.mark.parametrize("injection", Injection)
@pytest.mark.parametrize("constant", [True, False])
def test_unconnected_virtual_nodes_change_nothing(injection: Injection, constant: bool) -> None:
    """With all scores 0, outputs are the plain GIN's, whatever Q is; with other scores they are not."""
    preset = replace(SMALL, injection=injection)
    draws = torch.Generator().manual_seed(3)
    encoder = Encoder(STORES[constant].width, preset, virtual=True, draws=draws)
    model = GraphModel(encoder, 3, preset.hidden, draws).double()
    batch = doubled(STORES[constant].batch(np.arange(12)))
    virtual = torch.randn(3, 4, dtype=torch.float64, generator=draws)
    unconnected = torch.zeros(len(batch.features), 3, dtype=torch.float64)
    torch.testing.assert_close(model(batch, None, (virtual, unconnected)), model(batch))
    assert not torch.allclose(model(batch, None, (virtual, unconnected + 0.5)), model(batch))


def test_scores_are_between_0_and_1_and_depend_on_structure() -> None:
    """A generator gives M scores a node, different ones to nodes of different degree."""
    generator = EdgeGenerator(STORES[True].width, replace(SMALL, hidden=16), torch.Generator().manual_seed(0))
    batch = STORES[True].batch(np.arange(8))
    scores = generator(batch).detach()
    assert scores.shape == (len(batch.features), 3)
    assert float(scores.min()) > 0
    assert float(scores.max()) < 1
    assert len(np.unique(scores.numpy().round(6), axis=0)) > 1


@pytest.mark.parametrize("probability", [0.5, 0.3])
def test_dropout_keeps_the_mean_and_repeats(probability: float) -> None:
    """About so many units are dropped, the rest is scaled up, and equal seeds drop the same."""
    ones = torch.ones(50, 40)
    first, second = (Dropout(probability, np.random.default_rng(1))(ones) for _ in range(2))
    assert torch.equal(first, second)
    assert sorted(set(first.flatten().tolist())) == pytest.approx([0.0, 1 / (1 - probability)])
    assert float((first == 0).float().mean()) == pytest.approx(probability, abs=0.05)
    assert Dropout(0.0, np.random.default_rng(1))(ones) is ones
