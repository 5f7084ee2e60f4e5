"""What FedSpray is compared with: networks alone, and networks averaged."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fgl_secure.methods.fedspray.baselines import Baseline, PlainClient, plain_clients
from fgl_secure.methods.fedspray.networks import NETWORKS
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.runtime import Phase, Recording
from fgl_secure.training.one_process import OneProcess
from tests.methods.fedspray.runs import SMALL, channel_of, digits, sent, tiny

CLEAR = Plaintext(threshold=1)


@pytest.mark.parametrize("backbone", NETWORKS)
@pytest.mark.parametrize("baseline", Baseline)
def test_baselines_learn(baseline: Baseline, backbone: str) -> None:
    """Ten rounds reach half of the test nodes, and the scores are those of the result."""
    graph = digits()
    channel = channel_of(graph)
    preset = replace(SMALL, epochs=10, learning_rate=0.03, hidden=16)
    result = plain_clients(baseline, graph, CLEAR, preset, backbone=backbone).train(channel)
    assert result.accuracy.test is not None
    assert result.accuracy.test > 0.5
    assert result.report["minority"] >= 0
    assert len(result.losses) == result.rounds == 10


def test_fedavg_takes_the_mean_by_numbers_of_nodes() -> None:
    """The server's model is the clients' weighted by their nodes, and all clients start the next round from it."""
    graph = digits()
    channel = channel_of(graph, Recording.everything())
    process = OneProcess(graph, {}, channel, lambda talk: PlainClient(talk, SMALL, Baseline.FEDAVG))
    starts = [program.report["theta"] for program in process.programs]
    process.round(0)
    weights, (rows,) = np.bincount(graph.silo_of) / graph.num_devices, sent(channel)
    size = len(starts[0])
    models = rows[:, :size] / rows[:, size + 2 : size + 3]
    np.testing.assert_allclose(rows[:, size + 2], weights, atol=1e-9)
    for start, program in zip(starts, process.programs, strict=True):
        assert np.array_equal(start, starts[0])
        np.testing.assert_allclose(program.report["theta"], weights @ models, atol=1e-6)


def test_fedavg_under_masks_is_fedavg_in_the_clear() -> None:
    """Equal seeds give equal losses, and no summand arrives."""
    graph, losses = digits(), []
    for scheme in (Plaintext(), PairwiseMasking()):
        channel = channel_of(graph, Recording.everything())
        losses.append(plain_clients(Baseline.FEDAVG, graph, scheme, SMALL).train(channel).losses)
        summands = [batch for batch in channel.transcript.messages if batch.phase is Phase.VECTORS]
        assert len(summands) == (SMALL.epochs + 1 if scheme.takes_reals else 0)
    assert losses[0] == losses[1]


def test_alone_means_figures_and_no_model() -> None:
    """Local clients add validation figures, losses and counts, and are told quotients; their networks stay apart."""
    graph = tiny()
    channel = channel_of(graph, Recording.everything())
    plain_clients(Baseline.LOCAL, graph, CLEAR, SMALL).train(channel)
    assert {rows.shape for rows in sent(channel)} == {(2, 4 + 6)}
    down = [batch for batch in channel.transcript.messages if batch.phase is Phase.MODEL]
    assert {batch.item_bytes for batch in down} == {4 * (2 + 6)}
