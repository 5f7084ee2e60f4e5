"""What FedSpray is compared with: networks alone, and networks averaged."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from fgl_reproduction.methods.gcfl.clusters import ClusterRule
from fgl_reproduction.tables.fedspray_baselines import (
    KNOWN,
    Baseline,
    ClusteredClient,
    PlainClient,
    StructuredNetwork,
    plain_clients,
)
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.runtime import Phase, Recording
from fgl_secure.training.one_process import OneProcess
from fgl_secure.training.parameters import flat
from tests.graphs import two_communities
from tests.methods.fedspray.runs import SMALL, channel_of, digits, sent, tiny
from tests.training.processes.runs import agree, apart, in_lockstep

CLEAR = Plaintext(threshold=1)


@pytest.mark.parametrize(
    ("baseline", "backbone"),
    [*((each, "gcn") for each in Baseline), *((Baseline.FEDAVG, each) for each in KNOWN if each != "gcn")],
)
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
    process = OneProcess(graph, {}, channel, lambda comm: PlainClient(comm, SMALL, Baseline.FEDAVG))
    starts = [program.report["theta"] for program in process.programs]
    process.round(0)
    weights, (rows,) = np.bincount(graph.silo_of) / graph.num_devices, sent(channel)
    size = len(starts[0])
    models = rows[:, :size] / rows[:, size + 2 : size + 3]
    np.testing.assert_allclose(rows[:, size + 2], weights, atol=1e-9)
    for start, program in zip(starts, process.programs, strict=True):
        assert np.array_equal(start, starts[0])
        np.testing.assert_allclose(program.report["theta"], weights @ models, atol=1e-6)


def test_alone_means_figures_and_no_model() -> None:
    """Local clients add validation figures, losses and counts, and are told quotients; their networks stay apart."""
    graph = tiny()
    channel = channel_of(graph, Recording.everything())
    plain_clients(Baseline.LOCAL, graph, CLEAR, SMALL).train(channel)
    assert {rows.shape for rows in sent(channel)} == {(2, 4 + 6)}
    down = [batch for batch in channel.transcript.messages if batch.phase is Phase.MODEL]
    assert {batch.item_bytes for batch in down} == {4 * (2 + 6)}


def test_clusters_have_the_mean_of_their_networks() -> None:
    """One cluster is FedAvg; clusters of one client have a network each, which nobody averages."""
    graph = digits()
    averaging = plain_clients(Baseline.FEDAVG, graph, CLEAR, SMALL).train()
    assert plain_clients(Baseline.GCFL, graph, CLEAR, SMALL).train().losses == averaging.losses
    channel = channel_of(graph, Recording.everything())
    splitting = partial(ClusteredClient, rule=ClusterRule(100.0, 0.0, 1, 1, 1))
    process = OneProcess(graph, {}, channel, lambda comm: splitting(comm, SMALL, Baseline.GCFL))
    for number in range(3):
        process.round(number)
    reports = [program.report for program in process.programs]
    models, of = np.stack([each["theta"] for each in reports]), reports[0]["clusters"]
    assert of.any()
    same = (models[:, None] == models[None, :]).all(axis=2)
    assert np.array_equal(same, of[:, None] == of[None, :])


@pytest.mark.parametrize("backbone", ["gcn", "sgc", "sage"])
def test_fedstar_averages_the_structure_encoder_alone(backbone: str) -> None:
    """It begins alike and is the mean; the networks beside it begin apart, and hear it."""
    graph = digits()
    channel = channel_of(graph, Recording.everything())
    process = OneProcess(graph, {}, channel, lambda comm: PlainClient(comm, SMALL, Baseline.FEDSTAR, backbone=backbone))
    clients = [each for each in process.programs if isinstance(each, PlainClient)]
    networks = [each.network for each in clients]
    assert all(isinstance(each, StructuredNetwork) for each in networks)
    starts = [flat(list(each.structure.parameters())) for each in networks if isinstance(each, StructuredNetwork)]
    assert all(np.array_equal(each, starts[0]) for each in starts)
    process.round(0)
    (rows,), size = sent(channel), len(starts[0])
    assert rows.shape[1] == size + 2 + 3 + 6
    mean = rows[:, :size].sum(axis=0)
    for network in networks:
        assert isinstance(network, StructuredNetwork)
        assert flat(list(network.structure.parameters())) == pytest.approx(mean.astype(np.float32), abs=1e-6)
    one, other, *_ = (flat(list(each.parameters())) for each in networks)
    assert not np.array_equal(one[size:], other[size:])
    network, subgraph = networks[0], clients[0].subgraph
    before = network.scores(subgraph)
    assert isinstance(network, StructuredNetwork)
    network.rows += 1
    assert not torch.allclose(network.scores(subgraph), before)


@pytest.mark.parametrize("baseline", Baseline)
def test_a_process_for_each_client_trains_the_same_bits(baseline: Baseline) -> None:
    graph = two_communities(devices=48, silos=3)
    job = plain_clients(baseline, graph, PairwiseMasking(), SMALL)
    agree(apart(job, put_down=baseline is Baseline.FEDAVG), in_lockstep(job.open(channel_of(graph))))
