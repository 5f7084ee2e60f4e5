"""FedStar: the structure encoder is common, and what is learnt on features stays where it is."""

from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from fgl_reproduction.methods import FedStar
from fgl_reproduction.methods.fedstar.program import HONEST, FedStarModel, StructuredGraph, clients_of, fedstar_preset
from fgl_reproduction.methods.fedstar.program import FedStarClient as Client
from fgl_reproduction.methods.fedstar.structure import structure_rows
from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import FglSecureError, InputError
from fgl_secure.graph import FederatedGraph, SplitMasks
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.runtime import Phase, Recording
from fgl_secure.training.dropout import CoinDropout
from fgl_secure.training.one_process import OneProcess
from fgl_secure.training.parameters import flat
from tests.error_codes import about
from tests.graphs import two_communities
from tests.training.processes.runs import agree, apart, in_lockstep

SMALL = replace(HONEST, hidden=8, epochs=2, layers=2, walks=4, degrees=6)
GRAPH = two_communities(devices=48, silos=3)


def both_ways(network: nx.Graph) -> NDArray[np.int64]:
    """Int64 [2, m]."""
    edges = np.array(network.edges, dtype=np.int64).reshape(-1, 2).T
    return np.concatenate([edges, edges[::-1]], axis=1)


def open_process(graph: FederatedGraph = GRAPH, scheme: Scheme | None = None) -> OneProcess:
    """All clients before the first round, with everything recorded."""
    job = clients_of(graph, scheme or Plaintext(), SMALL)
    return job.open(job.channel(SimulationCoins(0), Recording.everything()))


def models(process: OneProcess) -> list[FedStarModel]:
    """Every client's."""
    found = [each.learner.model for each in process.programs if isinstance(each, Client)]
    return [each for each in found if isinstance(each, FedStarModel)]


@pytest.mark.parametrize("directed", [False, True])
def test_walks_and_degrees_are_those_of_the_paper(directed: bool) -> None:
    """Diagonals of powers of D^-1 A, and degrees of which the last column is for larger ones; nodes may have none."""
    network = nx.gnp_random_graph(20, 0.15, seed=3, directed=directed)
    network.add_node(20)
    edges = np.array(network.edges, dtype=np.int64).T if directed else both_ways(network)
    found = structure_rows(21, edges, 5, 3)
    adjacency = nx.to_numpy_array(network, nodelist=range(21))
    degree = adjacency.sum(axis=1)
    step = np.divide(adjacency, degree[:, None], out=np.zeros_like(adjacency), where=degree[:, None] > 0)
    for power in range(1, 6):
        assert found[:, power - 1] == pytest.approx(np.diag(np.linalg.matrix_power(step, power)), abs=1e-6)
    assert np.array_equal(found[:, 5:].argmax(axis=1) + 1, np.clip(degree, 1, 3))
    assert np.array_equal(found[:, 5:].sum(axis=1), np.ones(21))
    assert not found[20, :5].any()


def test_a_triangle_and_a_square_are_told_apart_without_any_feature() -> None:
    """A walk is back after three steps in one, and never in the other."""
    edges = np.concatenate([both_ways(nx.cycle_graph(3)), both_ways(nx.cycle_graph(4)) + 3], axis=1)
    found = structure_rows(7, edges, 3, 2)
    assert np.array_equal(found[:, 2] > 0, np.arange(7) < 3)


def test_the_model_is_that_of_the_equations() -> None:
    """Layer by layer, in dense matrices."""
    edges = both_ways(nx.gnp_random_graph(9, 0.4, seed=1))
    features = np.random.default_rng(0).normal(size=(9, 5)).astype(np.float32)
    model = FedStarModel(5, 3, SMALL, torch.Generator().manual_seed(1), torch.Generator().manual_seed(2)).eval()
    graph = StructuredGraph.of(features, edges, SMALL, torch.device("cpu"))
    looped = np.eye(9)
    looped[edges[1], edges[0]] = 1
    scale = np.diag(1 / np.sqrt(looped.sum(axis=1)))
    sums, mean = (torch.from_numpy(each.astype(np.float32)) for each in (looped, scale @ looped @ scale))
    s = model.structure.embedding(torch.from_numpy(structure_rows(9, edges, SMALL.walks, SMALL.degrees)))
    x = torch.from_numpy(features) @ model.first.weight + model.first.bias
    for inner, outer, convolution in zip(model.inner, model.outer, model.structure.convolutions, strict=True):
        x = torch.relu(outer(torch.relu(inner(sums @ torch.cat([x, s], dim=1)))))
        s = torch.tanh(mean @ s @ convolution.weight + convolution.bias)
    expected = model.scores(torch.relu(model.last(model.joint(torch.cat([x, s], dim=1)))))
    found = model(graph, CoinDropout(0.5, 0))
    assert torch.allclose(found, expected, atol=1e-5)


def test_what_is_sent_is_the_structure_encoder_alone() -> None:
    """Times a weight, and the weight: in every round, and of no other width."""
    process = open_process()
    for number in range(SMALL.epochs):
        process.round(number)
    length = len(flat(models(process)[0].shared_parameters))
    assert length < len(flat(list(models(process)[0].parameters())))
    sent = [each for each in process._channel.transcript.messages if each.phase is Phase.VECTORS]
    trained = [each for each in sent if not each.step.evaluation]
    assert {each.step.round for each in trained} == set(range(SMALL.epochs))
    assert all(np.asarray(each.payload).shape[1] == length + 1 for each in trained)


def test_structure_is_common_and_features_are_personal() -> None:
    """After rounds all have one structure encoder, the mean of what they sent; nothing else is alike, nor ever was."""
    process = open_process()
    first = models(process)
    begun = [flat([each.first.weight]) for each in first]
    assert not np.array_equal(begun[0], begun[1])
    assert np.array_equal(flat(first[0].shared_parameters), flat(first[1].shared_parameters))
    process.round(0)
    one, other, _ = models(process)
    assert np.array_equal(flat(one.shared_parameters), flat(other.shared_parameters))
    assert not np.array_equal(flat([one.scores.weight]), flat([other.scores.weight]))
    (sent,) = (
        np.asarray(each.payload)
        for each in process._channel.transcript.messages
        if each.phase is Phase.VECTORS and not each.step.evaluation
    )
    mean = sent[:, :-1].sum(axis=0) / sent[:, -1].sum()
    assert flat(one.shared_parameters) == pytest.approx(mean.astype(np.float32), abs=1e-6)


def test_masked_training_apart_is_that_in_the_clear_together() -> None:
    """Reports to the bit, with a process for each client, put down after each turn."""
    masked, clear = (clients_of(GRAPH, each, SMALL) for each in (PairwiseMasking(), Plaintext()))
    agree(apart(masked, put_down=True), in_lockstep(clear.open(clear.channel(SimulationCoins(0)))))


def test_edges_between_clients_are_not_looked_at() -> None:
    """With none of them training is the same, to the bit."""
    found = [clients_of(each, Plaintext(), SMALL).train().losses for each in (GRAPH, GRAPH.restricted_to_silos())]
    assert found[0] == found[1]


@pytest.mark.parametrize("scheme", [Plaintext(), PairwiseMasking()])
def test_absent_classes_isolated_nodes_and_clients_without_labels_train(scheme: Scheme) -> None:
    first = GRAPH.silo_of == 0
    lonely = replace(GRAPH, graph=replace(GRAPH.graph, edges=GRAPH.edges[:, (GRAPH.silo_of[GRAPH.edges] != 0).all(0)]))
    single = np.where(np.arange(48) == np.flatnonzero(first)[0], 0, np.maximum(GRAPH.silo_of, 1))
    unlabelled = replace(GRAPH, train_mask=GRAPH.train_mask & ~first)
    lacking = replace(GRAPH, train_mask=GRAPH.train_mask & (~first | (GRAPH.labels == 0)))
    for each in (lonely, GRAPH.without_edges(), replace(GRAPH, silo_of=single), unlabelled, lacking):
        result = clients_of(each, scheme, SMALL).train()
        assert np.isfinite(result.losses).all()


def test_edges_of_one_direction_train() -> None:
    """Walks and degrees are of outgoing edges then."""
    directed = replace(GRAPH, graph=replace(GRAPH.graph, edges=GRAPH.edges[:, GRAPH.edges[0] < GRAPH.edges[1]]))
    assert np.isfinite(clients_of(directed, Plaintext(), SMALL).train().losses).all()


@pytest.mark.parametrize(
    ("choice", "rule"),
    [
        ({"walks": 0}, "walks must be at least 1; found 0"),
        ({"degrees": 0}, "degrees must be at least 1; found 0"),
        ({"local_steps": 0}, "local_steps must be at least 1; found 0"),
        ({"epochs": 0}, "epochs must be at least 1; found 0"),
        ({"preset": "none"}, "preset must be one of"),
    ],
)
def test_choices_out_of_range_are_refused(choice: dict[str, object], rule: str) -> None:
    """Before anything runs."""
    with pytest.raises(FglSecureError, match=rule):
        FedStar(**choice).plan(GRAPH)  # type: ignore[arg-type]  # wrong on purpose
    if set(choice) <= {"walks", "degrees"}:
        with pytest.raises(InputError, match=rule):
            replace(HONEST, **choice)  # type: ignore[arg-type]  # the same rule below


def test_graphs_that_do_not_fit_are_refused() -> None:
    """A client without nodes."""
    masks = SplitMasks(GRAPH.train_mask, GRAPH.validation_mask, GRAPH.test_mask)
    with pytest.raises(InputError, match="silo 1"):
        FederatedGraph.from_assignment(GRAPH.graph, np.where(GRAPH.silo_of == 1, 2, GRAPH.silo_of), masks)


def test_presets_are_chosen_by_name() -> None:
    """And choices replace what they say."""
    assert fedstar_preset("paper").learning_rate < fedstar_preset("honest").learning_rate
    (subject,) = FedStar(epochs=3, walks=2, degrees=5, local_steps=2).plan(GRAPH, "plaintext").subjects
    assert subject.job is not None
    assert subject.job.task.rounds == 3
    with pytest.raises(FglSecureError, check=about("preset")):
        fedstar_preset("none")
