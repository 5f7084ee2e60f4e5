"""What clients of FedVN's baselines send, and what they make of what comes back."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from fgl_reproduction.tables.fedvn_baselines import (
    DITTO,
    FEDAVG,
    FEDVN,
    PROGRAMS,
    WITHOUT_GENERATORS,
    FedVNAveraging,
    WithoutGenerators,
    add_proximal,
)
from fgl_secure.coins import SimulationCoins
from fgl_secure.methods.fedvn.models import BatchNorm, descend
from fgl_secure.methods.fedvn.preset import FedVNPreset, fedvn_preset
from fgl_secure.methods.fedvn.program import FedVNClient, clients_of
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.runtime import Channel, Phase, Recording
from fgl_secure.training.parameters import flat
from fgl_secure.training.parties import hierarchy_of
from fgl_secure.training.server_sums import FRACTION_BITS
from tests.methods.fedvn.sets import random_set
from tests.training.processes.runs import agree, apart, in_lockstep

SETS = random_set()
SMALL = replace(fedvn_preset("honest", "random"), hidden=6, virtual_nodes=3, batch=4, learning_rate=0.1)
PAPER = replace(fedvn_preset("paper", "random"), hidden=6, virtual_nodes=3, batch=4, floor=0.01)
OFF = 2.0**-FRACTION_BITS * 30
BASELINES = tuple(name for name in PROGRAMS if name != FEDVN)


def one_round(
    kind: Callable[..., FedVNClient] | str, preset: FedVNPreset = SMALL
) -> tuple[list[FedVNClient], NDArray[np.float64], NDArray[Any]]:
    """Clients after a round, what each came to in it, and the rows that say so."""
    channel = Channel(hierarchy_of(SETS.union()), SimulationCoins(0), Recording.everything())
    made = PROGRAMS[kind] if isinstance(kind, str) else kind
    process = clients_of(SETS, Plaintext(), preset, kind=made, seed=5).open(channel)
    process.begin()
    process.round(0)
    _, rows, *_ = (batch.payload for batch in channel.transcript.messages if batch.phase is Phase.VECTORS)
    assert rows is not None
    clients = [each for each in process.programs if isinstance(each, FedVNClient)]
    return clients, rows[:, : len(flat(clients[0].shared))] / rows[:, -1:], rows


@pytest.mark.parametrize("name", [each for each in BASELINES if each != "GCFL+"])
def test_all_take_over_the_mean_weighted_by_graphs(name: str) -> None:
    """Shared parameters afterwards are the clients' means with weights by training graphs."""
    clients, came_to, _ = one_round(name)
    for client in clients:
        np.testing.assert_allclose(flat(client.shared), came_to.mean(axis=0), atol=OFF)
    assert not came_to.size or not np.array_equal(came_to[0], came_to[1])


@pytest.mark.parametrize("name", BASELINES)
def test_every_line_runs_under_both_presets(name: str) -> None:
    """Each gives an accuracy of every client, at a round within the run."""
    for preset in (SMALL, PAPER):
        outcome = clients_of(random_set(constant=False), Plaintext(), replace(preset, epochs=2), kind=PROGRAMS[name])
        found = outcome.train()
        assert 0 <= found.selected_round <= 2
        assert found.accuracy.test == pytest.approx(np.mean([each or 0.0 for each in found.accuracy.per_silo]))


@pytest.mark.parametrize(
    ("name", "values"), [("FedBN", False), (DITTO, True), ("FedProx", True), (WITHOUT_GENERATORS, False)]
)
def test_training_is_that_of_one_process(name: str, values: bool) -> None:
    """With a process for each client, put down after each turn; of labels and of values."""
    preset = replace(SMALL, epochs=2, dropout=0.3)
    job = clients_of(random_set(values=values), Plaintext(), preset, kind=PROGRAMS[name])
    agree(apart(job, put_down=True), in_lockstep(job.open(job.channel(SimulationCoins(0)))))


def test_without_edge_generators_virtual_nodes_do_the_same() -> None:
    """Every tie is 1, there is no score vector in a row, and Q's rows stay equal."""
    clients, came_to, rows = one_round(WITHOUT_GENERATORS, replace(SMALL, decoupling=0.0))
    for client in clients:
        virtual = client.virtual.detach()
        assert virtual.abs().max() > 0
        np.testing.assert_allclose(virtual, virtual[:1].expand(3, -1), atol=1e-6)
    assert rows.shape[1] == came_to.shape[1] + 2
    (client, *_) = clients
    assert isinstance(client, WithoutGenerators)
    batch = client.store.batch(np.array([0, 2]))
    ones = torch.ones(len(batch.features), 3)
    assert torch.equal(client.outputs(batch), client.model(batch, None, (client.virtual, ones)))
    assert not torch.allclose(client.outputs(batch), client.model(batch))


def test_fedbn_keeps_scale_and_shift_at_home() -> None:
    """Rows are shorter by the batch norms' parameters, which differ between clients after the mean."""
    (all_shared, _, long), (kept, _, short) = one_round(FEDAVG), one_round("FedBN")
    norms = [part for part in kept[0].model.modules() if isinstance(part, BatchNorm)]
    own = sum(parameter.numel() for part in norms for parameter in part.parameters())
    assert own > 0
    assert short.shape[1] == long.shape[1] - own
    assert len({_norm_weights(client) for client in kept}) == 3
    assert len({_norm_weights(client) for client in all_shared}) == 1


def _norm_weights(client: FedVNClient) -> tuple[float, ...]:
    norms = [part for part in client.model.modules() if isinstance(part, BatchNorm)]
    return tuple(float(norm.weight.detach().sum()) for norm in norms)


def own_models(preset: FedVNPreset, pull: float) -> list[NDArray[np.float32]]:
    """Those of Ditto's clients after a round."""
    clients = [
        each for each in one_round(partial(PROGRAMS[DITTO], pull=pull), preset)[0] if isinstance(each, FedVNAveraging)
    ]
    return [flat(list(each.personal.parameters())) for each in clients if each.personal is not None]


def test_ditto_sends_what_fedavg_sends_and_predicts_with_models_of_its_own() -> None:
    """To the bit; own models differ from the common one and from each other, and scores are theirs."""
    (_, _, sent), (clients, _, found) = one_round(FEDAVG), one_round(DITTO)
    assert np.array_equal(found, sent)
    own = own_models(SMALL, 0.1)
    assert len({each.tobytes() for each in (*own, flat(clients[0].shared))}) == len(clients) + 1
    clients[0].train_model()
    assert clients[0].scores() == one_round(DITTO)[0][0].scores()


def test_the_pull_of_ditto_leaves_models_near_the_common_one() -> None:
    """Of its own loss alone a model goes farther; with a strong pull it hardly moves."""
    long = replace(SMALL, local_epochs=5)
    start = flat(one_round(FEDAVG, replace(SMALL, learning_rate=1e-30))[0][0].shared)
    far, near = (float(np.linalg.norm(own_models(long, pull)[0] - start)) for pull in (0.0, 5.0))
    assert near < far


def test_self_training_sends_no_parameter() -> None:
    """Its rows hold a loss and a weight, and every client goes its own way."""
    clients, _, rows = one_round("Self-training")
    assert rows.shape == (3, 2)
    first, second = (client.model.output.weight for client in clients[:2])
    assert not torch.equal(first, second)


def test_fedprox_adds_the_gradient_of_its_term() -> None:
    """What is added is the gradient of (mu / 2) |w - w_server|^2, which a step sees from the second on."""
    weights = (torch.tensor([1.0, -2.0], requires_grad=True),)
    anchors = (torch.tensor([0.5, 1.0]),)
    term = 0.3 / 2 * (weights[0] - anchors[0]).square().sum()
    wanted = torch.autograd.grad(term, weights)
    found = add_proximal((torch.zeros(2),), weights, anchors, 0.3)
    torch.testing.assert_close(found[0], wanted[0])
    descend(weights, found, 1.0)
    torch.testing.assert_close(weights[0].detach(), torch.tensor([1.0, -2.0]) - wanted[0])


def test_fedprox_without_its_factor_is_fedavg_and_with_a_large_one_stays_near() -> None:
    """mu = 0 gives FedAvg's rows bit for bit; a large mu ends nearer to where all started."""
    start = flat(one_round(FEDAVG, replace(SMALL, learning_rate=1e-30))[0][0].shared)
    (_, free, rows), (_, _, same), (_, held, _) = (
        one_round(FEDAVG),
        one_round(partial(FedVNAveraging, proximal=0.0)),
        one_round(partial(FedVNAveraging, proximal=5.0)),
    )
    assert np.array_equal(rows, same)
    far, near = (float(np.linalg.norm(each[0] - start)) for each in (free, held))
    assert near < far
