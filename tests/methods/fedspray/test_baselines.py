"""What FedSpray is compared with: networks alone, and networks averaged."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from fgl_secure.methods.fedspray.baselines import Baseline, PlainTraining, train_baseline
from fgl_secure.methods.fedspray.networks import NETWORKS
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.runtime import Phase, Recording
from fgl_secure.training.server_sums import CollectiveSums
from tests.methods.fedspray.runs import SMALL, channel_of, digits, tiny
from tests.sums import clear_sums


@pytest.mark.parametrize("backbone", NETWORKS)
@pytest.mark.parametrize("baseline", Baseline)
def test_baselines_learn(baseline: Baseline, backbone: str) -> None:
    """Ten rounds reach half of the test nodes, and the scores are those of the result."""
    graph = digits()
    channel = channel_of(graph)
    preset = replace(SMALL, epochs=10, learning_rate=0.03, hidden=16)
    result, scores = train_baseline(baseline, graph, channel, preset, clear_sums(channel), backbone=backbone)
    assert result.accuracy.test is not None
    assert result.accuracy.test > 0.5
    assert scores.accuracy == result.accuracy
    assert scores.minority is not None
    assert len(result.losses) == result.rounds == 10


def test_fedavg_takes_the_mean_by_numbers_of_nodes() -> None:
    """The server's model is the clients' weighted by their nodes, and all clients start the next round from it."""
    graph = digits()
    channel = channel_of(graph)
    method = PlainTraining(
        Baseline.FEDAVG,
        graph,
        SMALL,
        clear_sums(channel),
        backbone="gcn",
        seed=0,
        device=torch.device("cpu"),
    )
    method.round(0, last=False)
    weights = np.bincount(graph.silo_of) / graph.num_devices
    models = [
        np.concatenate([each.detach().numpy().reshape(-1) for each in client.network.parameters()])
        for client in method.clients
    ]
    np.testing.assert_allclose(method.model.numpy(), weights @ np.stack(models), atol=1e-6)
    _, _, predictions = method.round(1, last=True)
    flat = [torch.cat([each.reshape(-1) for each in client.network.parameters()]) for client in method.clients]
    assert torch.equal(flat[0], flat[1])
    assert len(predictions) == 3


def test_fedavg_under_masks_is_fedavg_in_the_clear() -> None:
    """Equal seeds give equal losses, and no summand arrives."""
    graph, losses = digits(), []
    for scheme in (Plaintext(), PairwiseMasking()):
        channel = channel_of(graph, Recording.everything())
        result, _ = train_baseline(Baseline.FEDAVG, graph, channel, SMALL, CollectiveSums(scheme, channel))
        losses.append(result.losses)
        summands = [batch for batch in channel.transcript.messages if batch.phase is Phase.VECTORS]
        assert len(summands) == (SMALL.epochs + 1 if scheme.takes_reals else 0)
    assert losses[0] == losses[1]


def test_alone_means_two_numbers_and_no_model() -> None:
    """Local clients send validation figures to choose a round and get nothing; two clients' networks stay apart."""
    graph = tiny()
    channel = channel_of(graph, Recording.everything())
    train_baseline(Baseline.LOCAL, graph, channel, SMALL, clear_sums(channel))
    sent = [batch.payload for batch in channel.transcript.messages if batch.phase is Phase.VECTORS]
    assert {payload.shape for payload in sent if payload is not None} == {(2, 2)}
    down = [batch for batch in channel.transcript.messages if batch.phase is Phase.MODEL]
    assert not any(batch.item_bytes for batch in down)
