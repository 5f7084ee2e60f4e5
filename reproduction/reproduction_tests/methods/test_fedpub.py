"""FED-PUB computes the paper's averages, in the clear and secured alike, and masks stay with their clients."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch.nn import functional

from fgl_reproduction.methods import FedPub
from fgl_reproduction.methods.fedpub import program
from fgl_reproduction.methods.fedpub.models import BLOCK, BLOCKS, public_graph
from fgl_reproduction.methods.fedpub.program import HONEST, FedPubPreset, clients_of, fedpub_preset, similar
from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import FglSecureError, InputError, ProtocolError
from fgl_secure.graph import FederatedGraph, SplitMasks
from fgl_secure.protocols.ckks import Ckks
from fgl_secure.protocols.lightsecagg import LightSecAgg
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.runtime import Phase, Recording, Role
from fgl_secure.training.dropout import CoinDropout
from fgl_secure.training.one_process import OneProcess
from fgl_secure.training.parameters import unflatten
from tests.error_codes import about
from tests.graphs import two_communities
from tests.training.processes.runs import agree, apart, in_lockstep

Floats = NDArray[np.float64]
SMALL = replace(HONEST, hidden=8, epochs=3)
GRAPH = two_communities(devices=48, silos=4)


def open_rounds(
    rounds: int, graph: FederatedGraph = GRAPH, preset: FedPubPreset = SMALL, **schemes: Scheme
) -> tuple[list[program.FedPubClient], OneProcess]:
    """All clients after so many rounds, with everything recorded."""
    job = clients_of(graph, schemes, preset)
    process = job.open(job.channel(SimulationCoins(0), Recording.everything()))
    for number in range(rounds):
        process.round(number)
    return [each for each in process.programs if isinstance(each, program.FedPubClient)], process


def shared_vector(client: program.FedPubClient) -> Floats:
    return np.concatenate([each.detach().numpy().ravel() for each in client.model.shared_parameters]).astype(np.float64)


def dense(client: program.FedPubClient, graph: FederatedGraph) -> Floats:
    """The scores of the client's nodes, from the formula."""
    own = graph.devices_of(client.silo.silo)
    inside = np.eye(len(own))
    edges = graph.restricted_to_silos().edges
    edges = np.searchsorted(own, edges[:, np.isin(edges[1], own)])
    inside[edges[1], edges[0]] += 1
    root = np.sqrt(inside.sum(axis=1))
    step = inside / root[:, None] / root[None, :]
    weights, biases, masks = (
        [each.detach().numpy().astype(np.float64) for each in parts]
        for parts in (client.model.weights, client.model.biases, client.model.masks)
    )
    masks = [np.where(np.abs(mask) < SMALL.pruned, 0, mask) for mask in masks]
    one, two, three = (weight * mask for weight, mask in zip(weights, masks, strict=True))
    hidden = np.maximum(step @ graph.features[own].astype(np.float64) @ one + biases[0], 0)
    return np.asarray(np.maximum(step @ hidden @ two + biases[1], 0) @ three + biases[2])


def test_scores_are_those_of_masked_convolutions() -> None:
    """With small entries of masks cut, which in training they are not."""
    clients, _ = open_rounds(2)
    for client in clients:
        with torch.no_grad():
            client.model.masks[0][0] = 5e-4
            found = client.model.eval()(client._own, client._dropout)
            bare = client.model.train()(client._own, CoinDropout(0.0, 0))
        assert found.numpy() == pytest.approx(dense(client, GRAPH), abs=1e-5)
        assert not torch.allclose(found, bare)
        assert client.model.sparsity > 0


def test_weights_are_the_soft_max_of_cosines() -> None:
    """Rows sum to 1, more for the likest; all alike at temperature 0, and where embeddings are zero."""
    rows = np.random.default_rng(0).normal(size=(5, 7))
    cosines = np.array([[a @ b / np.linalg.norm(a) / np.linalg.norm(b) for b in rows] for a in rows])
    powers = np.exp(5 * cosines)
    assert similar(rows, 5.0) == pytest.approx(powers / powers.sum(axis=1, keepdims=True))
    assert similar(rows, 0.0) == pytest.approx(np.full((5, 5), 0.2))
    assert similar(np.zeros((3, 2)), 5.0) == pytest.approx(np.full((3, 3), 1 / 3))


@pytest.mark.parametrize("averaging", [Plaintext(), PairwiseMasking(), LightSecAgg()])
def test_every_client_gets_its_own_average_of_all_models(averaging: Scheme) -> None:
    """The sum over all clients of weight times model, by the embeddings of what these models do."""
    clients, _ = open_rounds(1, clients=averaging)
    before, _ = open_rounds(0)
    embeddings = []
    for client, model in zip(clients, before, strict=True):
        model._learn()
        embeddings.append(model._embedding())
        assert np.array_equal(shared_vector(model), client.sent)
    weights = similar(np.stack(embeddings), SMALL.temperature)
    expected = weights @ np.stack([client.sent for client in clients])
    found = np.stack([shared_vector(client) for client in clients])
    assert found == pytest.approx(expected, abs=1e-6)
    assert np.abs(found[0] - found[1]).max() > 0


def test_steps_are_along_the_gradient_of_the_objective() -> None:
    """The loss, lambda_1 times the masks' magnitudes, and lambda_2 times the squared distance to the average."""
    preset = replace(SMALL, dropout=0.0, sparsity=0.01, proximal=0.5, weight_decay=0.0, local_steps=2)
    (client, *_), _ = open_rounds(1, preset=preset)
    average = shared_vector(client)
    client.model.train()
    client._one_step()
    moved = shared_vector(client)
    assert np.abs(moved - average).max() > 0
    scores = client.model(client._own, client._dropout)[client._labelled]
    parameters = list(client.model.parameters())
    plain = torch.autograd.grad(functional.cross_entropy(scores, client._labels), parameters)
    pulls = unflatten(2 * 0.5 * (moved - average), client.model.shared_parameters)
    pull = {id(each): part for each, part in zip(client.model.shared_parameters, pulls, strict=True)}
    expected = [
        gradient + pull.get(id(parameter), 0.01 * torch.sign(parameter.detach()))
        for parameter, gradient in zip(parameters, plain, strict=True)
    ]
    client._one_step()
    for parameter, gradient in zip(parameters, expected, strict=True):
        assert parameter.grad is not None
        assert torch.allclose(parameter.grad, gradient, atol=1e-6)


def test_the_published_code_penalises_nothing() -> None:
    """Its penalties carry no gradient."""
    published = fedpub_preset("paper")
    assert (published.sparsity, published.proximal) == (0.0, 0.0)


def sent_models(process: OneProcess) -> list[tuple[int, Floats]]:
    """What went from client to client of models: the sender, and the row."""
    channel = process._channel
    silos = channel.parties.ids(Role.SILO)
    return [
        (int(sender), np.asarray(row))
        for batch in channel.transcript.messages
        if batch.phase is Phase.VECTORS and batch.payload is not None
        for sender, receiver, row in zip(batch.senders, batch.receivers, batch.payload, strict=True)
        if receiver in silos
    ]


def test_masks_stay_with_their_clients() -> None:
    """Terms are as wide as weights and biases, and the same whatever the masks' later steps are."""
    clients, process = open_rounds(2)
    wide = sum(each.numel() for each in [*clients[0].model.weights, *clients[0].model.biases])
    rows = [row for _, row in sent_models(process)]
    assert len(rows) == 2 * 4 * 3
    assert {len(row) for row in rows} == {wide}
    masks = [torch.cat([mask.detach().reshape(-1) for mask in each.model.masks]) for each in clients]
    assert not torch.equal(masks[0], masks[1])


def test_under_encryption_averages_are_the_same_to_rounding() -> None:
    """CKKS is exact for integers, but has fewer bits for them."""
    clear, sealed = (open_rounds(1, clients=each)[0] for each in (Plaintext(), Ckks()))
    for one, other in zip(clear, sealed, strict=True):
        assert shared_vector(one) == pytest.approx(shared_vector(other), abs=1e-4)


def test_masked_training_apart_is_that_in_the_clear_together() -> None:
    """Reports to the bit, with a process for each client, put down after each turn."""
    masked, clear = (
        clients_of(GRAPH, {"clients": each, "server": each}, SMALL) for each in (PairwiseMasking(), Plaintext())
    )
    agree(apart(masked, put_down=True), in_lockstep(clear.open(clear.channel(SimulationCoins(0)))))


def test_two_clients_that_pool_solve_for_two_models() -> None:
    """As the claims say: as many averages as models are left, with weights that everybody knows."""
    clients, _ = open_rounds(1, clients=PairwiseMasking(), server=PairwiseMasking())
    weights = similar(np.stack([each._embedding() for each in _learnt()]), SMALL.temperature)
    pooled, others = clients[:2], clients[2:]
    known = np.stack([each.sent for each in pooled])
    rest = np.stack([shared_vector(each) for each in pooled]) - weights[:2, :2] @ known
    solved = np.linalg.solve(weights[:2, 2:], rest)
    start = shared_vector(open_rounds(0)[0][0])
    for found, client in zip(solved, others, strict=True):
        assert np.linalg.norm(found - client.sent) < 0.02 * np.linalg.norm(client.sent - start)
    alone = rest[0] / weights[0, 2:].sum()
    assert np.linalg.norm(alone - others[0].sent) > 0.2 * np.linalg.norm(others[0].sent - start)


def _learnt() -> list[program.FedPubClient]:
    clients, _ = open_rounds(0)
    for client in clients:
        client._learn()
    return clients


def test_the_public_graph_is_of_blocks_and_the_same_for_all() -> None:
    """A seed repeats it; no edge joins two blocks."""
    one, two = (public_graph(6, seed) for seed in (3, 3))
    eye = torch.eye(BLOCK * BLOCKS)
    first = one.neighbours @ eye
    assert torch.equal(first, two.neighbours @ eye)
    block = np.arange(BLOCK * BLOCKS) // BLOCK
    assert not first[torch.from_numpy(block[:, None] != block[None, :])].any()
    assert (first != 0).sum() > BLOCK * BLOCKS


class Liar(program.FedPubClient):
    """Tells an embedding that is no number."""

    def _embedding(self) -> Floats:
        found = super()._embedding()
        return found * np.nan if self.silo.silo == 1 else found


def test_an_embedding_that_is_no_number_is_refused() -> None:
    """It would spoil everybody's average."""
    job = clients_of(GRAPH, {}, SMALL)
    lying = replace(job, task=replace(job.task, make=lambda comm, _: Liar(comm, SMALL)))
    with pytest.raises(ProtocolError, check=about("silo 1")):
        lying.open(lying.channel()).round(0)


def test_clients_without_labels_or_classes_train() -> None:
    """One has nothing to learn from, and hands its average on; another lacks a class."""
    first, second = GRAPH.silo_of == 0, GRAPH.silo_of == 1
    kept = GRAPH.train_mask & ~first & ((GRAPH.labels == 0) | ~second)
    result = clients_of(replace(GRAPH, train_mask=kept), {"clients": PairwiseMasking()}, SMALL).train()
    assert np.isfinite(result.losses).all()
    assert all(share is not None for share in result.accuracy.per_silo)


def test_graphs_without_edges_train() -> None:
    """None between clients, and none at all: isolated nodes are rows."""
    none = replace(GRAPH, graph=replace(GRAPH.graph, edges=GRAPH.edges[:, :0]))
    for graph in (GRAPH.restricted_to_silos(), none):
        result = clients_of(graph, {}, SMALL).train()
        assert np.isfinite(result.losses).all()
        assert result.accuracy.test is not None


def test_edges_between_clients_go_unused() -> None:
    one, two = (clients_of(each, {}, SMALL).train().losses for each in (GRAPH, GRAPH.restricted_to_silos()))
    assert one == two


def test_too_few_clients_are_refused() -> None:
    """Of two, the sum of the others is one model: in the clear alone. One has nobody to average with."""
    pair = two_communities(devices=48, silos=2)
    assert np.isfinite(clients_of(pair, {}, SMALL).train().losses).all()
    with pytest.raises(InputError, check=about("silos")):
        FedPub().plan(pair, "pairwise-masking")
    with pytest.raises(InputError, check=about("silos")):
        FedPub().plan(GRAPH.in_one_silo(), "plaintext")


def test_clients_without_nodes_are_no_clients() -> None:
    """A graph is dealt to clients that have some: others are refused where it is made."""
    masks = SplitMasks(GRAPH.train_mask, GRAPH.validation_mask, GRAPH.test_mask)
    lacking = np.where(GRAPH.silo_of == 1, 2, GRAPH.silo_of)
    with pytest.raises(FglSecureError, match="silo"):
        FederatedGraph.from_assignment(GRAPH.graph, lacking, masks)


@pytest.mark.parametrize(
    ("choice", "rule"),
    [
        ({"temperature": -1.0}, "temperature must be zero or positive; found -1.0"),
        ({"temperature": float("nan")}, "temperature must be zero or positive"),
        ({"sparsity": -0.1}, "sparsity must be zero or positive; found -0.1"),
        ({"preset": "none"}, "preset must be one of"),
        ({"local_steps": 0}, "local_steps must be at least 1"),
    ],
)
def test_choices_out_of_range_are_refused(choice: dict[str, object], rule: str) -> None:
    """Before anything runs."""
    with pytest.raises(FglSecureError, match=rule):
        FedPub(**choice)  # type: ignore[arg-type]  # wrong on purpose


@pytest.mark.parametrize("name", ["temperature", "sparsity", "proximal", "pruned"])
def test_presets_out_of_range_are_refused(name: str) -> None:
    with pytest.raises(InputError, match=f"{name} must be zero or positive; found -1"):
        replace(SMALL, **{name: -1.0})  # type: ignore[arg-type]  # of floats alone


def test_predictions_after_the_average_are_those_of_the_averaged_weights() -> None:
    """A client that is tested after a round predicts with the average, under masks of its own, which it has by then."""
    for averaged in (False, True):
        clients, _ = open_rounds(2, preset=replace(SMALL, tested_averaged=averaged, learning_rate=0.3))
        alike = [(client.kept["predicted"] == dense(client, GRAPH).argmax(axis=1)).all() for client in clients]
        assert all(alike) == averaged
