"""What clients of FedVN send, and what they make of what comes back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import InputError
from fgl_secure.graph import SplitMasks
from fgl_secure.graph.graph_sets.graph_set import GraphSet
from fgl_secure.methods.fedvn.losses import descend, pulled
from fgl_secure.methods.fedvn.models import BatchNorm, GraphModel
from fgl_secure.methods.fedvn.preset import (
    DITTO,
    FEDAVG,
    FEDBN,
    FEDPROX,
    FEDVN,
    METHODS,
    SELF_TRAINING,
    WITHOUT_GENERATORS,
    FedVNPreset,
    GraphMethod,
    Shared,
    fedvn_preset,
)
from fgl_secure.methods.fedvn.program import SCORED, UNIT, ClientGraphs, FedVN, shared_parameters
from fgl_secure.methods.fedvn.training import clients_of
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.runtime import Channel, Phase, Recording
from fgl_secure.training.parameters import flat
from fgl_secure.training.parties import hierarchy_of
from fgl_secure.training.server_sums import FRACTION_BITS
from tests.methods.fedvn.sets import random_set

SETS = random_set()
SMALL = replace(fedvn_preset("honest", "random"), hidden=6, virtual_nodes=3, batch=4, learning_rate=0.1)
OFF = 2.0**-FRACTION_BITS * 30


class Alone(FedVN):
    """A client that keeps what it comes to, and goes its own way."""

    came_to: NDArray[np.float32]

    def _federated(self, loss: float) -> float:
        self.came_to = flat(self.shared)
        return super()._federated(loss)


def one_round(
    method: GraphMethod, preset: FedVNPreset = SMALL, sets: GraphSet = SETS
) -> tuple[list[Alone], NDArray[Any], NDArray[Any]]:
    """Clients after a round, and the rows of counts and of models that they sent in it."""
    channel = Channel(hierarchy_of(sets.union()), SimulationCoins(0), Recording.everything())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fgl_secure.methods.fedvn.training.FedVN", Alone)
        process = clients_of(sets, Plaintext(), preset, method=method, seed=5).opened(channel)
    process.begin()
    process.round(0)
    counts, models = (b.payload for b in channel.transcript.messages if b.phase is Phase.VECTORS)
    assert counts is not None
    assert models is not None
    return [each for each in process.programs if isinstance(each, Alone)], counts, models


def shares(rows: NDArray[Any]) -> NDArray[np.float64]:
    """What rows of models hold, no longer weighted."""
    means: NDArray[np.float64] = rows[:, :-1] / rows[:, -1:]
    return means


@pytest.mark.parametrize("method", [*METHODS, WITHOUT_GENERATORS], ids=lambda each: each.name)
def test_all_take_over_the_mean_weighted_by_graphs(method: GraphMethod) -> None:
    """Shared parameters and virtual nodes afterwards are the clients' means with weights by training graphs."""
    clients, _, _ = one_round(method)
    came_to = np.stack([client.came_to for client in clients])
    for client in clients:
        np.testing.assert_allclose(flat(client.shared), came_to.mean(axis=0), atol=1e-6)
    assert method.shared is Shared.NOTHING or not np.array_equal(came_to[0], came_to[1])


def test_unequal_clients_have_unequal_weights() -> None:
    """A client with twice the training graphs has twice the weight."""
    train = SETS.train.copy()
    train[3:6] = False
    clients, _, rows = one_round(FEDAVG, sets=replace(SETS, train=train))
    assert rows[:, -1].tolist() == pytest.approx([3 / 30, 6 / 30, 6 / 30])
    first, second, third = (client.came_to for client in clients)
    np.testing.assert_allclose(flat(clients[0].shared), (first + 2 * second + 2 * third) / 5, atol=1e-6)


def test_rows_hold_what_the_method_says_and_nothing_else() -> None:
    """Model, virtual nodes, score vector, loss and weight in one row, counts in another; no generator."""
    clients, counts, rows = one_round(FEDVN)
    model = GraphModel(2, 3, SMALL, virtual=True, draws=torch.Generator())
    parameters = sum(parameter.numel() for parameter in model.parameters())
    assert rows.shape == (3, parameters + 3 * 6 + 3 + 1 + 1)
    found = shares(rows)
    for client, row, counted in zip(clients, found, counts, strict=True):
        np.testing.assert_allclose(row[: parameters + 18], client.came_to, atol=OFF)
        np.testing.assert_allclose(row[-4:-1], client.local_score.numpy() / UNIT, atol=OFF)
        assert counted[0] in [0, SCORED, 2 * SCORED]
        assert counted[1] == 2
        assert counted[2] in [0, SCORED // 2, SCORED]
        assert counted[3] == 1
    assert clients[0].losses == [pytest.approx(found[:, -1].mean() * UNIT)]


def test_without_edge_generators_virtual_nodes_do_the_same() -> None:
    """Every tie is 1, there is neither a generator nor a score vector in a row, and Q's rows stay equal."""
    clients, _, rows = one_round(WITHOUT_GENERATORS, replace(SMALL, decoupling=0.0))
    for client in clients:
        assert client.generator is None
        virtual = client.virtual.detach()
        assert virtual.abs().max() > 0
        np.testing.assert_allclose(virtual, virtual[:1].expand(3, -1), atol=1e-6)
    assert rows.shape[1] == len(clients[0].came_to) + 2
    batch = clients[0]._store.batch(np.array([0, 2]))
    ones = torch.ones(len(batch.features), 3)
    found = clients[0]._outputs(batch)
    assert torch.equal(found, clients[0].model.augmented(batch, clients[0].virtual, ones))
    assert not torch.allclose(found, clients[0].model(batch))


def test_a_fixed_global_score_leaves_the_score_vector_out() -> None:
    """As in the public code, where nothing about scores is sent; nor are there graphs to validate on."""
    clients, counts, rows = one_round(FEDVN, replace(fedvn_preset("paper", "random"), hidden=6, virtual_nodes=3))
    assert rows.shape[1] == len(clients[0].came_to) + 2
    assert not counts[:, :2].any()


def test_the_bias_of_the_last_layer_is_the_last_shared_parameter() -> None:
    """For every method that shares: there attacks on labels find it."""
    for method in (FEDVN, FEDAVG, FEDBN):
        model = GraphModel(2, 3, SMALL, virtual=method.virtual, draws=torch.Generator())
        assert shared_parameters(model, method.shared)[-1] is model.output.bias


def test_fedbn_keeps_scale_and_shift_at_home() -> None:
    """Rows are shorter by the batch norms' parameters, which differ between clients after the mean."""
    model = GraphModel(2, 3, SMALL, virtual=False, draws=torch.Generator())
    norms = [part for part in model.modules() if isinstance(part, BatchNorm)]
    own = sum(parameter.numel() for part in norms for parameter in part.parameters())
    (all_shared, _, long), (kept, _, short) = one_round(FEDAVG), one_round(FEDBN)
    assert own > 0
    assert short.shape[1] == long.shape[1] - own
    assert len({_norm_weights(client) for client in kept}) == 3
    assert len({_norm_weights(client) for client in all_shared}) == 1


def _norm_weights(client: FedVN) -> tuple[float, ...]:
    norms = [part for part in client.model.modules() if isinstance(part, BatchNorm)]
    return tuple(float(norm.weight.detach().sum()) for norm in norms)


def test_ditto_sends_what_fedavg_sends_and_predicts_with_models_of_its_own() -> None:
    """To the bit; own models differ from the common one and from each other, and scores are theirs."""
    (common, _, sent), (clients, _, found) = one_round(FEDAVG), one_round(DITTO)
    assert np.array_equal(found, sent)
    assert np.array_equal(clients[0].came_to, common[0].came_to)
    own = [flat(list(client.personal.parameters())) for client in clients if client.personal is not None]
    assert len({each.tobytes() for each in (*own, flat(clients[0].shared))}) == len(clients) + 1
    clients[0].train_model()
    assert clients[0].scores() == one_round(DITTO)[0][0].scores()


def test_the_pull_of_ditto_leaves_models_near_the_common_one() -> None:
    """Of its own loss alone a model goes farther; with a strong pull it hardly moves."""
    free, held = (one_round(DITTO, replace(SMALL, pull=pull, local_epochs=5))[0][0] for pull in (0.0, 5.0))
    start = flat(list(GraphModel(2, 3, SMALL, virtual=False, draws=torch.Generator().manual_seed(5)).parameters()))
    assert free.personal is not None
    assert held.personal is not None
    models = (free.personal, held.personal)
    far, near = (float(np.linalg.norm(flat(list(each.parameters())) - start)) for each in models)
    assert near < far


def test_self_training_sends_no_parameter() -> None:
    """Its rows hold a loss and a weight, and every client goes its own way."""
    clients, _, rows = one_round(SELF_TRAINING)
    assert rows.shape == (3, 2)
    first, second = (client.model.output.weight for client in clients[:2])
    assert not torch.equal(first, second)


def test_each_phase_changes_its_own_part_alone() -> None:
    """Generators start differently and learn in phase 1, model and virtual nodes in phase 2."""
    channel = Channel(hierarchy_of(SETS.union()), SimulationCoins(0))
    client, other = clients_of(SETS, Plaintext(), SMALL, seed=5).opened(channel).programs[:2]
    assert isinstance(client, FedVN)
    assert isinstance(other, FedVN)
    generator, theirs = client.generator, other.generator
    assert generator is not None
    assert theirs is not None
    assert not torch.equal(generator.output.weight, theirs.output.weight)
    model, started = flat(list(client.model.parameters())), flat(list(generator.parameters()))
    client.train_generator()
    assert np.array_equal(flat(list(client.model.parameters())), model)
    assert not flat([client.virtual]).any()
    learnt = flat(list(generator.parameters()))
    assert not np.array_equal(learnt, started)
    client.train_model()
    assert np.array_equal(flat(list(generator.parameters())), learnt)
    assert not np.array_equal(flat(list(client.model.parameters())), model)
    assert flat([client.virtual]).any()


def test_fedprox_adds_the_gradient_of_its_term() -> None:
    """What is added is the gradient of (mu / 2) |w - w_server|^2, which a step sees from the second on."""
    weights = (torch.tensor([1.0, -2.0], requires_grad=True),)
    anchors = (torch.tensor([0.5, 1.0]),)
    term = 0.3 / 2 * (weights[0] - anchors[0]).square().sum()
    wanted = torch.autograd.grad(term, weights)
    found = pulled((torch.zeros(2),), weights, anchors, 0.3)
    torch.testing.assert_close(found[0], wanted[0])
    descend(weights, found, 1.0)
    torch.testing.assert_close(weights[0].detach(), torch.tensor([1.0, -2.0]) - wanted[0])


def test_fedprox_without_its_factor_is_fedavg_and_with_a_large_one_stays_near() -> None:
    """mu = 0 gives FedAvg's rows bit for bit; a large mu ends nearer to where all started."""
    start = flat(one_round(FEDAVG, replace(SMALL, learning_rate=1e-30))[0][0].shared)
    (free, _, rows), (_, _, same), (held, _, _) = (
        one_round(FEDAVG),
        one_round(FEDPROX, replace(SMALL, proximal=0.0)),
        one_round(FEDPROX, replace(SMALL, proximal=5.0)),
    )
    assert np.array_equal(rows, same)
    far, near = (float(np.linalg.norm(each[0].came_to - start)) for each in (free, held))
    assert near < far


def test_a_client_without_training_graphs_is_named() -> None:
    """There is nothing that it could send."""
    train = SETS.train & (SETS.client_of != 1)
    with pytest.raises(InputError, match="silo 1 has no training node"):
        one_round(FEDVN, sets=replace(SETS, train=train))


def test_a_client_holds_its_own_graphs_alone() -> None:
    """What it is given of others is how many graphs there are, and what labels and types of nodes."""
    values = np.arange(len(SETS.features), dtype=np.float64)[:, None]
    typed = GraphSet.from_arrays(
        "typed",
        values,
        SETS.edges,
        SETS.graph_of,
        SETS.targets,
        SETS.client_of,
        SplitMasks(SETS.train, SETS.validation, SETS.test),
        "none",
        node_types=True,
    )
    held = ClientGraphs.held_by(ClientGraphs.share_of(typed, 1))
    own = np.flatnonzero(SETS.client_of[SETS.graph_of] == 1)
    assert (held.graphs, held.outputs, held.types) == (30, 3, len(values))
    assert held.own.features[:, 0].tolist() == own.tolist()
    assert held.own.num_clients == 1
    for number, graph in enumerate(typed.graphs_of(1).tolist()):
        mine, theirs = held.own.batch([number]), typed.batch([graph])
        for field in ("features", "edges", "graph_of", "targets"):
            assert np.array_equal(getattr(mine, field), getattr(theirs, field))
