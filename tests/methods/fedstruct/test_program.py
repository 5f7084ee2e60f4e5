"""FedStruct: one copy stands for all clients, gradients add up, and what is said in a run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fedstruct.gradients import (
    AtOwners,
    ClearSum,
    ClientSums,
    OwnerAddressed,
    ServerBroadcast,
    StructureDelivery,
)
from fgl_secure.methods.fedstruct.presets import FeatureModelKind, FedStructPreset, Stepping, Weighting
from fgl_secure.methods.fedstruct.program import FedStruct, Structure
from fgl_secure.methods.fedstruct.shares import ClientGradients, loss_weights
from fgl_secure.methods.fedstruct.traffic import FedStructTraffic
from fgl_secure.methods.fedstruct.training import shared_rows, train_fedstruct
from fgl_secure.runtime import Channel, Phase, Recording, Role, Step
from fgl_secure.training.loop import TrainingResult
from fgl_secure.training.parties import hierarchy_of
from fgl_secure.training.presets import Selection
from tests.graphs import two_communities

GRAPH = two_communities(silos=3)
QUICK = FedStructPreset(
    "quick", 4, 0.02, 0.03, 1e-3, 0.3, (6,), 2, (6, 5), (7,), 3, structure_width=8, kept=None, selection=None
)
KINDS = {
    "hop2vec": (QUICK, None),
    "identity": (replace(QUICK, structure_hidden=None), None),
    "fixed": (QUICK, np.eye(40, 8, dtype=np.float32)),
    "sage": (replace(QUICK, feature_model=FeatureModelKind.SAGE), None),
    "mlp": (replace(QUICK, feature_model=FeatureModelKind.MLP, weighting=Weighting.NODES), None),
    "double softmax": (replace(QUICK, double_softmax=True, stepping=Stepping.DESCENT), None),
}


def structure(preset: FedStructPreset, features: NDArray[np.float32] | None = None) -> Structure:
    return Structure(shared_rows(GRAPH.graph, preset.hops, preset.kept), features)


def in_the_clear(*, at_owners: bool = False) -> ClientSums:
    return ClientSums(ClearSum(), AtOwners() if at_owners else ServerBroadcast(), structure_at_owners=at_owners)


def train(preset: FedStructPreset = QUICK, sums: ClientSums | None = None, seed: int = 0) -> TrainingResult:
    return train_fedstruct(GRAPH, preset, structure(preset), seed=seed, sums=sums)


@pytest.mark.parametrize("at_owners", [False, True], ids=["by loss", "by owner"])
@pytest.mark.parametrize("kind", KINDS)
def test_clients_gradients_add_up_to_the_joint_one(kind: str, at_owners: bool) -> None:
    """Separate backward passes, through losses or through owners' embeddings, sum to one backward pass of all."""
    preset, features = KINDS[kind]
    made = structure(preset, features)
    joint = FedStruct(GRAPH, preset, made, seed=3)
    apart = FedStruct(GRAPH, preset, made, seed=3, sums=in_the_clear(at_owners=at_owners))
    shares = list(apart.client_gradients(Step(0)))
    joint.round(0)
    assert len(shares) == GRAPH.num_silos
    expected = torch.cat([parameter.grad.reshape(-1) for parameter in joint.theta if parameter.grad is not None])
    assert np.allclose(sum(share.theta for share in shares), expected.numpy(), atol=1e-6)
    if features is None:
        total = sum_of_structure(shares)
        assert np.abs(total).max() > 0
        assert joint.structure_gradient is not None
        assert np.allclose(total, joint.structure_gradient, atol=1e-6)
    else:
        assert all(share.structure is None for share in shares)


def sum_of_structure(shares: list[ClientGradients]) -> NDArray[np.float32]:
    rows = [share.structure for share in shares if share.structure is not None]
    assert len(rows) == len(shares)
    total: NDArray[np.float32] = np.sum(rows, axis=0)
    return total


def test_owners_gradients_stay_within_their_rows() -> None:
    """Where gradients arise at owners, a client has none for the structure features of another's nodes."""
    method = FedStruct(GRAPH, QUICK, structure(QUICK), sums=in_the_clear(at_owners=True))
    for client, share in enumerate(method.client_gradients(Step(0))):
        assert share.structure is not None
        touched = np.flatnonzero(np.abs(share.structure).sum(axis=1))
        assert set(GRAPH.silo_of[touched]) == {client}


def test_gradients_of_theta_are_of_each_clients_own_loss() -> None:
    """A client's gradient is that of a run in which nobody else has a labelled node, but for the weight."""
    labelled = GRAPH.train_mask & (GRAPH.silo_of == 1)
    method = FedStruct(GRAPH, QUICK, structure(QUICK), seed=1)
    own = list(method.client_gradients(Step(0)))[1].theta
    alone = FedStruct(_labelled(GRAPH, labelled), QUICK, structure(QUICK), seed=1)
    expected = sum(share.theta for share in alone.client_gradients(Step(0)))
    assert np.allclose(own * GRAPH.train_mask.sum(), expected * labelled.sum(), atol=1e-5)


def _labelled(graph: FederatedGraph, mask: NDArray[np.bool_]) -> FederatedGraph:
    return replace(graph, train_mask=mask)


@pytest.mark.parametrize("weighting", Weighting)
def test_weights_of_losses(weighting: Weighting) -> None:
    """Alike for all labelled nodes (Eq. 5), or a client's share of all nodes spread over its labelled ones."""
    silo_of = np.where(np.arange(40) < 10, 0, 1)
    graph = replace(GRAPH, silo_of=silo_of, train_mask=np.arange(40) % 5 == 0)
    weights = loss_weights(graph, weighting)
    assert weights.sum() == pytest.approx(1)
    uneven = replace(graph, train_mask=np.arange(40) < 15)
    expected = np.full(15, 1 / 15) if weighting is Weighting.LABELLED else np.repeat([0.25 / 10, 0.75 / 5], [10, 5])
    assert np.allclose(loss_weights(uneven, weighting), expected)


@pytest.mark.parametrize("stepping", Stepping)
@pytest.mark.parametrize("sums", ["broadcast", "owner", "at owners"])
def test_every_way_of_adding_up_trains_the_same_model(sums: str, stepping: Stepping) -> None:
    """With equal seeds the losses agree with those of one joint backward pass to 1e-5, and the accuracies are equal."""
    preset = replace(QUICK, stepping=stepping)
    deliveries: dict[str, StructureDelivery] = {
        "broadcast": ServerBroadcast(), "owner": OwnerAddressed(), "at owners": AtOwners(),
    }  # fmt: skip
    apart = train(preset, ClientSums(ClearSum(), deliveries[sums], structure_at_owners=sums == "at owners"))
    joint = train(preset)
    assert np.allclose(apart.losses, joint.losses, atol=1e-5)
    assert apart.accuracy == joint.accuracy


def test_a_seed_repeats_a_run_and_another_does_not() -> None:
    """Initial weights, structure features and dropout come from the seed alone."""
    assert train().losses == train().losses
    assert train().losses != train(seed=1).losses


def test_training_learns() -> None:
    """The loss falls, and the communities are told apart."""
    result = train(replace(QUICK, epochs=60, selection=Selection.VALIDATION))
    assert result.losses[-1] < result.losses[0] / 2
    assert result.accuracy.test is not None
    assert result.accuracy.test >= 0.8


def test_fixed_features_do_not_move_and_learnt_ones_do() -> None:
    """Only Hop2Vec's structure features are stepped on, also those of nodes without a label."""
    learnt = FedStruct(GRAPH, QUICK, structure(QUICK))
    before = learnt.structure_features
    learnt.round(0)
    after = learnt.structure_features
    assert before is not None
    assert after is not None
    assert (before != after).any(axis=1).all()
    assert FedStruct(GRAPH, QUICK, structure(QUICK, np.eye(40, 8, dtype=np.float32))).structure_features is None


def test_the_identity_is_the_papers_gradient() -> None:
    """With z = A-bar S the gradient of S is A-bar^T (y^ - y) over the labelled nodes (Proposition 2)."""
    preset = replace(QUICK, structure_hidden=None, dropout=0.0)
    made = structure(preset)
    method = FedStruct(GRAPH, preset, made)
    probabilities = torch.softmax(method.predict(Step(0)), dim=1).numpy()
    total = sum_of_structure(list(method.client_gradients(Step(0))))
    errors = (probabilities - np.eye(2)[GRAPH.labels]) * GRAPH.train_mask[:, None] / GRAPH.train_mask.sum()
    rows = made.combine(torch.eye(40), Step(0)).numpy()
    assert np.allclose(total, rows.T @ errors, atol=1e-6)


def recorded(delivery: str, recording: Recording | None = None) -> tuple[Channel, TrainingResult]:
    channel = Channel(hierarchy_of(GRAPH), SimulationCoins(0), recording or Recording.everything())
    traffic = FedStructTraffic(channel, GRAPH)
    made: StructureDelivery = OwnerAddressed(traffic) if delivery == "owner" else ServerBroadcast(traffic)
    sums = ClientSums(ClearSum(traffic), made)
    return channel, train_fedstruct(GRAPH, QUICK, structure(QUICK), sums=sums, traffic=traffic)


def test_a_recorded_run_trains_the_same_model() -> None:
    """Messages change nothing."""
    assert np.allclose(recorded("server")[1].losses, train().losses, atol=1e-5)


@pytest.mark.parametrize("delivery", ["server", "owner"])
def test_structure_gradients_travel_as_stated(delivery: str) -> None:
    """The server sees a row a node from every client, or none where they go to owners, who get all but theirs."""
    channel, _ = recorded(delivery)
    server = channel.parties.ids(Role.SERVER)[0]
    sent = [
        batch
        for batch in channel.transcript.messages
        if batch.phase is Phase.STRUCTURE_GRADIENT and batch.step.round == 0 and batch.payload is not None
    ]
    assert len(sent) == 1
    assert sent[0].payload is not None
    n, clients = GRAPH.num_devices, GRAPH.num_silos
    assert sent[0].payload.shape == (n * (clients - (delivery == "owner")), 1 + QUICK.structure_width)
    if delivery == "server":
        assert (sent[0].receivers == server).all()
    else:
        owners = channel.parties.ids(Role.SILO)[GRAPH.silo_of[sent[0].payload[:, 0].astype(np.int64)]]
        assert (sent[0].receivers == owners).all()
        assert (sent[0].senders != owners).all()


def test_structure_features_go_to_everybody_else() -> None:
    """Owners send the first structure features of their nodes to the other clients, who note the last they hold."""
    channel, result = recorded("owner")
    sent = [batch for batch in channel.transcript.messages if batch.phase is Phase.STRUCTURE_FEATURES]
    assert [batch.step.round for batch in sent] == list(range(result.rounds + 1))
    assert all(len(batch.senders) == GRAPH.num_devices * (GRAPH.num_silos - 1) for batch in sent)
    assert all((batch.senders != batch.receivers).all() for batch in sent)
    held = [note for note in channel.transcript.private if note.name == "shared features"]
    assert [note.step for note in held] == [Step(result.rounds, final=True)]
    assert sent[-1].payload is not None
    assert sorted(map(tuple, held[0].values)) == sorted(map(tuple, sent[-1].payload))


def test_gradients_of_theta_go_to_the_server() -> None:
    """One row a client and round; models and counts leave their sizes."""
    channel, result = recorded("server")
    gradients = [batch for batch in channel.transcript.messages if batch.phase is Phase.GRADIENT]
    assert len(gradients) == result.rounds
    assert all(batch.payload is not None and len(batch.payload) == GRAPH.num_silos for batch in gradients)
    models = [batch.step.round for batch in channel.transcript.messages if batch.phase is Phase.MODEL]
    assert models == list(range(result.rounds + 1))
    counts = [batch for batch in channel.transcript.messages if batch.phase is Phase.CORRECT]
    assert [batch.step for batch in counts] == [Step(result.rounds, evaluation=True)]


def test_sizes_are_the_same_whether_payloads_are_kept_or_not() -> None:
    """Bytes by kind of message do not depend on the recording."""
    assert _bytes(recorded("owner")[0]) == _bytes(recorded("owner", Recording())[0])


def _bytes(channel: Channel) -> dict[Phase, int]:
    total: dict[Phase, int] = {}
    for batch in channel.transcript.messages:
        total[batch.phase] = total.get(batch.phase, 0) + batch.item_bytes * len(batch.senders)
    return total


def test_bad_input_is_refused() -> None:
    """Features of another number of nodes, fixed features without g, and owners' gradients without structure."""
    with pytest.raises(InputError, match="features must have 40 rows"):
        FedStruct(GRAPH, QUICK, structure(QUICK, np.eye(3, 8, dtype=np.float32)))
    with pytest.raises(InputError, match="structure_hidden must name"):
        FedStruct(GRAPH, replace(QUICK, structure_hidden=None), structure(QUICK, np.eye(40, 8, dtype=np.float32)))
    with pytest.raises(InputError, match="structure_at_owners must be false"):
        FedStruct(GRAPH, QUICK, None, sums=in_the_clear(at_owners=True)).round(0)
