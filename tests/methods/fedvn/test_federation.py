"""What clients of FedVN send, and what the server makes of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from fgl_secure.errors import InputError
from fgl_secure.methods.fedvn.client import descend, pulled, shared_parameters
from fgl_secure.methods.fedvn.federation import SCORE_UNIT, GraphFederation
from fgl_secure.methods.fedvn.models import BatchNorm, GraphModel
from fgl_secure.methods.fedvn.preset import (
    FEDAVG,
    FEDBN,
    FEDPROX,
    FEDVN,
    METHODS,
    SELF_TRAINING,
    FedVNPreset,
    GraphMethod,
    Shared,
    fedvn_preset,
)
from fgl_secure.runtime import Step
from fgl_secure.training.server_sums import ServerSums
from tests.methods.fedvn.sets import random_set

SETS = random_set()
SMALL = replace(fedvn_preset("honest", "random"), hidden=6, virtual_nodes=3, batch=4, learning_rate=0.1)


class Kept(ServerSums):
    """Adds up in the clear and keeps the rows."""

    def __init__(self) -> None:
        self.rows: list[NDArray[np.float64]] = []

    def __call__(self, rows: NDArray[np.float64], step: Step) -> NDArray[np.float64]:  # noqa: ARG002
        """The sum of the rows."""
        self.rows.append(rows)
        total: NDArray[np.float64] = rows.sum(axis=0)
        return total


def one_round(method: GraphMethod, preset: FedVNPreset = SMALL) -> tuple[GraphFederation, NDArray[np.float64]]:
    """A federation after a round, and the rows of that round."""
    sums = Kept()
    federation = GraphFederation(SETS, method, preset, sums, seed=5)
    federation.send_down()
    federation.round(federation.scores(), Step(0))
    return federation, sums.rows[0]


@pytest.mark.parametrize("method", METHODS, ids=lambda each: each.name)
def test_the_server_takes_the_mean_weighted_by_graphs(method: GraphMethod) -> None:
    """Shared parameters and virtual nodes afterwards are the clients' means with weights by training graphs."""
    federation, _ = one_round(method)
    shared = torch.stack([client.shared for client in federation.clients])
    virtual = torch.stack([client.virtual.detach() for client in federation.clients])
    federation.send_down()
    for client in federation.clients:
        torch.testing.assert_close(client.shared, shared.mean(dim=0))
        torch.testing.assert_close(client.virtual.detach(), virtual.mean(dim=0))
    assert method.shared is Shared.NOTHING or not torch.equal(shared[0], shared[1])


def test_unequal_clients_have_unequal_weights() -> None:
    """A client with twice the training graphs has twice the weight, over the public number of all graphs."""
    train = SETS.train.copy()
    train[3:6] = False
    sums = Kept()
    federation = GraphFederation(replace(SETS, train=train), FEDAVG, SMALL, sums, seed=5)
    federation.send_down()
    federation.round(federation.scores(), Step(0))
    assert sums.rows[0][:, federation.layout.weight].tolist() == pytest.approx([3 / 30, 6 / 30, 6 / 30])
    shared = torch.stack([client.shared for client in federation.clients])
    federation.send_down()
    torch.testing.assert_close(federation.clients[0].shared, (shared[0] + 2 * shared[1] + 2 * shared[2]) / 5)


def test_a_row_holds_what_the_layout_says_and_nothing_else() -> None:
    """Model, virtual nodes, weight, validation figures and, where it is learnt, the score vector; no generator."""
    federation, rows = one_round(FEDVN)
    layout = federation.layout
    assert rows.shape == (3, layout.entries)
    for client, row in zip(federation.clients, rows, strict=True):
        np.testing.assert_allclose(row[layout.model], 0.2 * client.shared)
        np.testing.assert_allclose(row[layout.nodes], 0.2 * client.virtual.detach().flatten())
        np.testing.assert_allclose(row[layout.score_vector], 0.2 * client.local_score / SCORE_UNIT)
        assert row[layout.weight] == pytest.approx(6 / 30)
        assert row[layout.scored] == pytest.approx(2 / 30)
        assert row[layout.right] in [0, pytest.approx(1 / 30), pytest.approx(2 / 30)]
    model = GraphModel(2, 3, SMALL, virtual=True, draws=torch.Generator())
    assert layout.parameters == sum(parameter.numel() for parameter in model.parameters())
    assert layout.entries == layout.parameters + 3 * 6 + 3 + 3


def test_a_fixed_global_score_leaves_the_score_vector_out() -> None:
    """As in the public code, where nothing about scores is sent."""
    federation, rows = one_round(FEDVN, replace(fedvn_preset("paper", "random"), hidden=6, virtual_nodes=3))
    assert federation.layout.scores == 0
    assert rows.shape[1] == federation.layout.parameters + 3 * 6 + 3
    assert not rows[:, federation.layout.scored].any()


def test_the_bias_of_the_last_layer_is_where_the_layout_says() -> None:
    """A jump of one bias moves that entry of the shared parameters alone, for every method that shares."""
    for method in (FEDVN, FEDAVG, FEDBN):
        federation, _ = one_round(method)
        model = GraphModel(2, 3, SMALL, virtual=method.virtual, draws=torch.Generator())
        shared = shared_parameters(model, method.shared)
        assert shared[-1] is model.output.bias
        assert federation.layout.head_bias == slice(federation.layout.parameters - 3, federation.layout.parameters)


def test_fedbn_keeps_scale_and_shift_at_home() -> None:
    """Rows are shorter by the batch norms' parameters, which differ between clients after the server's mean."""
    model = GraphModel(2, 3, SMALL, virtual=False, draws=torch.Generator())
    norms = [part for part in model.modules() if isinstance(part, BatchNorm)]
    own = sum(parameter.numel() for part in norms for parameter in part.parameters())
    (all_shared, _), (federation, rows) = one_round(FEDAVG), one_round(FEDBN)
    assert own > 0
    assert federation.layout.parameters == all_shared.layout.parameters - own
    assert rows.shape[1] == federation.layout.entries
    federation.send_down()
    assert len({_norm_weights(federation, client) for client in range(3)}) == 3
    all_shared.send_down()
    assert len({_norm_weights(all_shared, client) for client in range(3)}) == 1


def _norm_weights(federation: GraphFederation, client: int) -> tuple[float, ...]:
    norms = [part for part in federation.clients[client].model.modules() if isinstance(part, BatchNorm)]
    return tuple(float(norm.weight.detach().sum()) for norm in norms)


def test_self_training_sends_no_parameter() -> None:
    """Its rows hold a weight and validation figures, and every client goes its own way."""
    federation, rows = one_round(SELF_TRAINING)
    assert rows.shape == (3, 3)
    before = [client.model.output.weight.clone() for client in federation.clients]
    federation.send_down()
    assert all(
        torch.equal(client.model.output.weight, kept) for client, kept in zip(federation.clients, before, strict=True)
    )
    assert not torch.equal(before[0], before[1])


def test_each_phase_changes_its_own_part_alone() -> None:
    """Generators start differently and learn in phase 1; with a zero contrast and task rate nothing else moves."""
    federation = GraphFederation(SETS, FEDVN, SMALL, Kept(), seed=5)
    client = federation.clients[0]
    generator = client.generator
    assert generator is not None
    model = [parameter.clone() for parameter in client.model.parameters()]
    started = [parameter.clone() for parameter in generator.parameters()]
    client.train_generator(torch.full((3,), 1 / 3))
    assert all(torch.equal(now, then) for now, then in zip(client.model.parameters(), model, strict=True))
    assert torch.equal(client.virtual, torch.zeros(3, 6))
    learnt = [parameter.clone() for parameter in generator.parameters()]
    assert any(not torch.equal(now, then) for now, then in zip(learnt, started, strict=True))
    client.train_model()
    assert all(torch.equal(now, then) for now, then in zip(generator.parameters(), learnt, strict=True))
    assert any(not torch.equal(now, then) for now, then in zip(client.model.parameters(), model, strict=True))
    assert float(client.virtual.detach().abs().max()) > 0
    other = federation.clients[1].generator
    assert other is not None
    assert not torch.equal(other.output.weight, started[-2])


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
    """mu = 0 gives FedAvg's rows bit for bit; a large mu ends nearer to where the server was."""
    start = GraphFederation(SETS, FEDAVG, SMALL, Kept(), seed=5).clients[0].shared
    (free, rows), (_, same), (held, _) = (
        one_round(FEDAVG),
        one_round(FEDPROX, replace(SMALL, proximal=0.0)),
        one_round(FEDPROX, replace(SMALL, proximal=5.0)),
    )
    assert np.array_equal(rows, same)
    assert (held.clients[0].shared - start).norm() < (free.clients[0].shared - start).norm()


def test_a_client_without_training_graphs_is_named() -> None:
    """There is nothing that it could send."""
    train = SETS.train & (SETS.client_of != 1)
    with pytest.raises(InputError, match="client 1 has none"):
        GraphFederation(replace(SETS, train=train), FEDVN, SMALL, Kept())


class Off(ServerSums):
    """Sums that are off by as much as fixed point allows, another way in every call."""

    def __init__(self) -> None:
        self._calls = 0

    def __call__(self, rows: NDArray[np.float64], step: Step) -> NDArray[np.float64]:  # noqa: ARG002
        """The sum, a little more of odd entries and less of even ones, or the reverse."""
        self._calls += 1
        total: NDArray[np.float64] = rows.sum(axis=0)
        total += len(rows) * 2.0**-33 * (-1.0) ** (np.arange(len(total)) + self._calls)
        return total


@pytest.mark.parametrize("values", [False, True])
def test_equally_good_rounds_stay_equal_in_fixed_point(values: bool) -> None:
    """Right predictions are counted, and what a sum rounds off does not tell two rounds apart; of values it may."""
    sets = random_set(values=values)
    federation = GraphFederation(sets, FEDVN, SMALL, Off(), seed=5)
    scores = federation.scores()
    shares = {federation.close(scores, Step(number)) for number in range(2)}
    assert len(shares) == (2 if values else 1)
    expected = np.concatenate([each.validation for each in scores]).mean()
    for share in shares:
        assert share == pytest.approx(expected, rel=1e-6)
        assert values or share == expected
