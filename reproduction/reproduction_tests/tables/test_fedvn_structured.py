"""FedStar on sets of graphs: layers hear structure, and its encoder alone is averaged."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from fgl_reproduction.methods.fedstar.structure import structure_rows
from fgl_reproduction.tables.fedvn_baselines import (
    BLIND_FEDSTAR,
    DEGREES,
    FEDSTAR,
    PROGRAMS,
    WALKS,
    FedStarOnGraphs,
    StructuredEncoder,
    StructuredStore,
)
from fgl_secure.coins import SimulationCoins
from fgl_secure.graph.graph_sets import GraphSet
from fgl_secure.methods.fedvn.preset import fedvn_preset
from fgl_secure.methods.fedvn.program import clients_of
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.runtime import Phase, Recording
from fgl_secure.training.parameters import flat
from tests.methods.fedvn.sets import random_set
from tests.training.processes.runs import agree, apart, in_lockstep

SETS = random_set()
SMALL = replace(fedvn_preset("honest", "random"), hidden=6, epochs=2, batch=4, learning_rate=0.1)


def edges_of(sets: GraphSet, graph: int) -> NDArray[np.int64]:
    """Int64 [2, m], of one graph, its nodes from 0."""
    found: NDArray[np.int64] = sets.edges[:, sets.edge_starts[graph] : sets.edge_starts[graph + 1]]
    return found - int(sets.node_starts[graph])


@pytest.mark.parametrize("together", [1, 3, 100])
def test_a_batch_has_the_structure_of_its_graphs(together: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In its order, however many are computed together; and D^-1/2 (I + A) D^-1/2 beside it."""
    monkeypatch.setattr("fgl_reproduction.tables.fedvn_baselines.AT_ONCE", together)
    chosen = np.array([SETS.num_graphs - 1, 0, 2])
    batch = StructuredStore(SETS).batch(chosen)
    sizes = np.diff(SETS.node_starts)[chosen].tolist()
    rows = [structure_rows(n, edges_of(SETS, g), WALKS, DEGREES) for n, g in zip(sizes, chosen, strict=True)]
    assert batch.structure.numpy() == pytest.approx(np.concatenate(rows), abs=1e-6)
    reach = batch.reach.to_dense().numpy()
    root = np.diag(1 / np.sqrt(reach.sum(axis=1)))
    assert batch.convolution.to_dense().numpy() == pytest.approx(root @ reach @ root, abs=1e-6)


def test_a_blind_encoder_gets_zeros_and_the_same_edges() -> None:
    chosen = np.array([1, 0])
    seeing, blind = (StructuredStore(SETS, blind=blind).batch(chosen) for blind in (False, True))
    assert blind.structure.shape == seeing.structure.shape
    assert seeing.structure.any()
    assert not blind.structure.any()
    assert torch.equal(blind.convolution.to_dense(), seeing.convolution.to_dense())
    losses = [
        clients_of(SETS, Plaintext(), SMALL, kind=PROGRAMS[each]).train().losses for each in (FEDSTAR, BLIND_FEDSTAR)
    ]
    assert losses[0] != losses[1]


def test_the_structure_encoder_alone_is_sent_and_common() -> None:
    """A row has its entries, a loss and a weight; what is learnt on features differs in the end."""
    job = clients_of(SETS, Plaintext(), SMALL, kind=PROGRAMS[FEDSTAR])
    channel = job.channel(SimulationCoins(0), Recording.everything())
    process = job.open(channel)
    process.round(0)
    one, other, *_ = (each.model for each in process.programs if isinstance(each, FedStarOnGraphs))
    assert isinstance(one.encoder, StructuredEncoder)
    assert isinstance(other.encoder, StructuredEncoder)
    mine, others = (flat(list(each.structure.parameters())) for each in (one.encoder, other.encoder))
    assert np.array_equal(mine, others)
    assert not torch.equal(one.encoder.joint.weight, other.encoder.joint.weight)
    sent = [each for each in channel.transcript.messages if each.phase is Phase.VECTORS and not each.step.evaluation]
    assert {np.asarray(each.payload).shape[1] for each in sent} == {len(mine) + 2}


def test_masked_training_apart_is_that_in_the_clear_together() -> None:
    """Reports to the bit, with a process for each client, put down after each turn."""
    masked, clear = (clients_of(SETS, each, SMALL, kind=PROGRAMS[FEDSTAR]) for each in (PairwiseMasking(), Plaintext()))
    agree(apart(masked, put_down=True), in_lockstep(clear.open(clear.channel(SimulationCoins(0)))))


def test_layers_hear_structure() -> None:
    """With other structure features a model says something else."""
    job = clients_of(SETS, Plaintext(), SMALL, kind=PROGRAMS[FEDSTAR])
    (client, *_) = job.open(job.channel()).programs
    assert isinstance(client, FedStarOnGraphs)
    batch = StructuredStore(SETS.only(0)).batch(np.arange(3))
    assert not torch.allclose(client.model(batch), client.model(replace(batch, structure=batch.structure + 1)))
