"""HiFGL: one program under any scheme, and what its hierarchy sends."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given

from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph, Graph, SplitMasks
from fgl_secure.methods.hifgl.program import HiFGLSilo, exchange, silos_of
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.relay_coded import Profile, RelayCoded
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.secmp import MuDelivery, SecretMessagePassing
from fgl_secure.runtime import Channel, Phase, Role
from fgl_secure.training.loop import Figures, TrainingResult
from fgl_secure.training.one_process import OneProcess
from fgl_secure.training.parties import hierarchy_of
from fgl_secure.training.presets import HONEST, Federation, Preset
from tests.error_codes import about
from tests.graphs import lacking, two_communities
from tests.strategies import federated_graphs

QUICK = replace(HONEST, hidden=8, epochs=6)
GRAPH = two_communities()


def train(
    scheme: Scheme, preset: Preset = QUICK, graph: FederatedGraph = GRAPH, *, backbone: str = "gcn", coins: int = 0
) -> TrainingResult:
    channel = Channel(hierarchy_of(graph), SimulationCoins(coins))
    return silos_of(graph, scheme, preset, backbone=backbone).train(channel)


@pytest.mark.parametrize(
    ("backbone", "federation", "scheme"),
    [
        ("gcn", Federation.FEDAVG, SecretMessagePassing()),
        ("sage", Federation.SHARED, SecretMessagePassing(T=2, delivery=MuDelivery.TARGET)),
    ],
)
def test_every_scheme_trains_the_plaintext_model(backbone: str, federation: Federation, scheme: Scheme) -> None:
    """With equal seeds the losses agree with plaintext training to 1e-4, and the accuracies are the same."""
    preset = replace(QUICK, federation=federation)
    secured, plain = train(scheme, preset, backbone=backbone), train(Plaintext(), preset, backbone=backbone)
    assert np.allclose(secured.losses, plain.losses, atol=1e-4)
    assert secured.accuracy == plain.accuracy
    assert secured.selected_round == plain.selected_round
    assert secured.losses[-1] < secured.losses[0]


@pytest.mark.parametrize("silos", [1, 2])
def test_one_silo_makes_no_difference_between_federations(silos: int) -> None:
    """With a single silo one shared model and federated averaging are the same; with two not: Adam is not linear."""
    graph = two_communities(silos=silos)
    one, other = (train(Plaintext(), replace(QUICK, federation=f), graph).losses for f in Federation)
    assert one[0] == pytest.approx(other[0])
    assert np.allclose(one, other, atol=1e-6) is (silos == 1)


def test_gradients_are_those_of_the_whole_graph() -> None:
    """One silo's first step is that of plain Adam on the mean loss with the dense adjacency matrix."""
    graph = two_communities(silos=1)
    silos = silos_of(graph, Plaintext(), QUICK).open(Channel(hierarchy_of(graph), SimulationCoins(0)))
    (method,) = silos.programs
    assert isinstance(method, HiFGLSilo)
    flat = [p.detach().clone().requires_grad_() for p in method.layers.parameters()]
    dense = np.eye(graph.num_devices, dtype=np.float32)
    dense[graph.edges[1], graph.edges[0]] = 1.0
    adjacency = torch.from_numpy(dense)
    root = torch.sqrt(torch.tensor(graph.in_degree + 1.0, dtype=torch.float32))
    norm = adjacency / root[:, None] / root[None, :]
    h = torch.relu(norm @ torch.tensor(graph.features) @ flat[0] + flat[1])
    logits = norm @ h @ flat[2] + flat[3]
    train_mask, labels = torch.tensor(graph.train_mask), torch.tensor(graph.labels)
    loss = torch.nn.functional.cross_entropy(logits[train_mask], labels[train_mask])
    optimiser = torch.optim.Adam(flat, lr=QUICK.learning_rate)
    loss.backward()  # type: ignore[no-untyped-call]
    optimiser.step()
    silos.round(0)
    assert method.losses == pytest.approx([loss.item()], abs=1e-6)
    for mine, theirs in zip(method.layers.parameters(), flat, strict=True):
        assert torch.allclose(mine, theirs, atol=1e-5)


def test_hierarchy_sends_what_the_paper_says() -> None:
    """A round sends the model to devices, a gradient a device and parameter, and figures; a vector a silo, and back.

    With each silo's model go its loss and four counts. Scoring the last models sends figures once more, and no model.
    """
    result, silos, devices = train(Plaintext()), GRAPH.num_silos, GRAPH.num_devices
    entries, figures, last = 8 * 8 + 8 + 8 * 2 + 2, 5, 5
    hierarchical = {
        (t.phase, t.sender_role, t.receiver_role): (t.messages, t.bytes)
        for t in result.transcript.traffic()
        if t.phase is not Phase.VALUES
    }
    rounds, sums = QUICK.epochs, 4 * (QUICK.epochs * (entries + figures) + last)
    assert hierarchical == {
        (Phase.MODEL, Role.SILO, Role.DEVICE): ((rounds + 1) * devices, (rounds + 1) * devices * 4 * entries),
        (Phase.GRADIENT, Role.DEVICE, Role.SILO): (rounds * 4 * devices, rounds * devices * 4 * entries),
        (Phase.CORRECT, Role.DEVICE, Role.SILO): ((rounds + 1) * devices, (rounds + 1) * devices * 4 * figures),
        (Phase.VECTORS, Role.SILO, Role.SERVER): ((rounds + 1) * silos, 2 * silos * sums),
        (Phase.MODEL, Role.SERVER, Role.SILO): ((rounds + 1) * silos, silos * sums),
    }


def test_split_restricted_messages_stay_within_a_split() -> None:
    """As in the public code, devices of different splits exchange nothing."""
    result = train(Plaintext(), replace(QUICK, epochs=1, split_restricted=True))
    split = GRAPH.train_mask * 1 + GRAPH.validation_mask * 2 + GRAPH.test_mask * 3
    parties = hierarchy_of(GRAPH)
    for batch in result.transcript.messages:
        if batch.phase is Phase.VALUES:
            ends = [split[parties.index_of(ids, Role.DEVICE)] for ids in (batch.senders, batch.receivers)]
            assert np.array_equal(*ends)
            assert 0 < batch.messages < GRAPH.edges.shape[1]


def test_dropout_repeats_with_its_seed_and_is_off_when_judging() -> None:
    """Two runs with dropout are equal, and accuracies come from a pass without it."""
    dropping = replace(QUICK, dropout=0.5)
    first, second = train(Plaintext(), dropping), train(Plaintext(), dropping)
    assert first.losses == second.losses != train(Plaintext()).losses
    never = replace(dropping, epochs=1, learning_rate=1e-30)
    dry = replace(never, dropout=0.0)
    assert train(Plaintext(), never).accuracy == train(Plaintext(), dry).accuracy


@pytest.mark.parametrize(("backbone", "minimum"), [("gcn", 3), ("sage", 1)])
def test_a_static_first_layer_is_the_same_model(backbone: str, minimum: int) -> None:
    """With one model for all silos, projecting the sum of features is summing projected features.

    With a model a silo the weights' gradient goes to the silo of the target instead of the sender's.
    """
    preset = replace(QUICK, federation=Federation.SHARED)
    runs = [
        train(Plaintext(minimum_group=minimum), replace(preset, static_first_layer=static), backbone=backbone)
        for static in (False, True)
    ]
    assert np.allclose(runs[0].losses, runs[1].losses, atol=1e-5)
    assert runs[0].accuracy == runs[1].accuracy


@pytest.mark.parametrize(
    ("scheme", "backbone"),
    [(RelayCoded(T=2, R=4, profile=Profile.SHOWN), "sage"), (RelayCoded(profile=Profile.HIDDEN), "gcn")],
)
def test_relays_train_the_plaintext_model_of_the_same_least_group(scheme: RelayCoded, backbone: str) -> None:
    """Over relays, with gradients summed as well, losses agree with plaintext to 1e-4 and accuracies are the same."""
    channel = Channel(hierarchy_of(GRAPH, scheme.helpers), SimulationCoins(0))
    secured = silos_of(GRAPH, scheme, QUICK, backbone=backbone).train(channel)
    plain = train(Plaintext(minimum_group=scheme.k_min), backbone=backbone)
    assert np.allclose(secured.losses, plain.losses, atol=1e-4)
    assert secured.accuracy == plain.accuracy
    sent = {batch.phase for batch in channel.transcript.messages}
    assert Phase.SHARE_SUMS in sent
    assert Phase.GRADIENT not in sent  # as published every device's gradient is a message to its silo


THREE = two_communities(devices=48, silos=3)
LACKING = {what: graph for what, graph in lacking(THREE).items() if what != "nodes to score in a silo"}


@pytest.mark.parametrize("rows", [SecretMessagePassing(), RelayCoded(k_min=1)], ids=["secmp", "graph-hidden"])
@pytest.mark.parametrize("what", LACKING)
def test_secured_training_gets_over_what_is_absent(what: str, rows: Scheme) -> None:
    """Rows, gradients and models secured, and the losses and accuracies are those in the clear, and finite."""
    preset, graph = replace(QUICK, epochs=2), LACKING[what]
    plain = silos_of(graph, Plaintext(), preset).train()
    secured = silos_of(graph, {"neighbours": rows, "server": PairwiseMasking()}, preset).train()
    assert np.isfinite(secured.losses).all()
    assert secured.losses == pytest.approx(plain.losses, abs=1e-4)
    assert secured.accuracy == plain.accuracy
    assert all(share is not None for share in secured.accuracy.per_silo)


@pytest.mark.parametrize("profile", Profile)
def test_where_every_sum_is_too_small_devices_learn_by_themselves(profile: Profile) -> None:
    """With fewer neighbours than k_min everywhere, training is that of the graph without edges."""
    preset = replace(QUICK, epochs=3)
    near = (THREE.edges[0] // 4 == THREE.edges[1] // 4) & (np.abs(THREE.edges[0] - THREE.edges[1]) == 2)
    pairs = replace(THREE, graph=replace(THREE.graph, edges=THREE.edges[:, near]))
    assert (pairs.graph.in_degree == 1).all()
    found = silos_of(pairs, RelayCoded(k_min=2, profile=profile), preset).train()
    none = silos_of(THREE.without_edges(), Plaintext(), preset).train()
    assert found.losses == pytest.approx(none.losses, abs=1e-4)


@pytest.mark.parametrize("scheme", [Plaintext(), SecretMessagePassing()], ids=lambda scheme: scheme.name)
@given(graph=federated_graphs())
def test_every_device_gets_the_sum_of_its_neighbours(scheme: Scheme, graph: FederatedGraph) -> None:
    """The sums are those of the adjacency matrix with the rows, under either scheme."""
    adjacency = np.zeros((graph.num_devices, graph.num_devices))
    adjacency[graph.edges[1], graph.edges[0]] = 1
    sums = exchange(graph, scheme, Channel(hierarchy_of(graph), SimulationCoins(0)), graph.features)
    assert np.allclose(sums, adjacency @ graph.features.astype(np.float64), atol=1e-5)


@pytest.mark.parametrize("shape", [(6, 1), (8, 1), (7,)])
@given(graph=federated_graphs().filter(lambda graph: graph.num_devices == 7))
def test_values_of_another_shape_are_refused(shape: tuple[int, ...], graph: FederatedGraph) -> None:
    with pytest.raises(InputError, check=about("values")):
        exchange(graph, Plaintext(), Channel(hierarchy_of(graph), SimulationCoins(0)), np.ones(shape))


RATE = HONEST.learning_rate


class Given(HiFGLSilo):
    """A silo whose gradients are given."""

    gradient = 0.0

    def train(self, number: int) -> Figures:  # noqa: ARG002  # the same in every round
        for parameter in self.layers.parameters():
            parameter.grad = torch.full_like(parameter, self.gradient)
        nothing = torch.zeros(len(self.silo.nodes), 1)
        return self._step(nothing, nothing[:, 0])


def trained(
    federation: Federation,
    gradients: list[float],
    devices: list[int],
    layers: int,
    steps: int = 1,
    kind: Callable[..., Given] = Given,
) -> list[Given]:
    """Silos of so many training devices each, after so many steps on these gradients of all parameters."""
    silo_of = np.repeat(np.arange(len(devices)), devices)
    everyone, nobody = np.ones(len(silo_of), dtype=np.bool_), np.zeros(len(silo_of), dtype=np.bool_)
    features = np.ones((len(silo_of), 2), dtype=np.float32)
    graph = Graph.from_arrays("devices", features, silo_of * 0, np.empty((2, 0), dtype=np.int64))
    federated = FederatedGraph.from_assignment(graph, silo_of, SplitMasks(everyone, nobody, nobody))
    preset = replace(HONEST, federation=federation, hidden=2, layers=layers)
    silos = OneProcess(federated, {}, Channel(hierarchy_of(federated), SimulationCoins(0)), lambda t: kind(t, preset))
    programs = [program for program in silos.programs if isinstance(program, Given)]
    for program, gradient in zip(programs, gradients, strict=True):
        program.gradient = gradient
    for number in range(steps):
        silos.round(number)
    return programs


def stepped(federation: Federation, gradients: list[float], devices: list[int]) -> tuple[float, list[float]]:
    """One step on these gradients: where a bias was, and where each silo's is."""
    found = [silo.layers.get_parameter("0.bias")[0].item() for silo in trained(federation, gradients, devices, 1)]
    return 0.0, found


def test_gradients_are_means_over_the_silos_own_devices() -> None:
    """A gradient of -2 over four devices weighs less than one of 1 over one device (4.1.2, item 2)."""
    before, after = stepped(Federation.SHARED, [1.0, -2.0], [1, 4])
    assert after == pytest.approx([before - RATE] * 2)
    before, after = stepped(Federation.SHARED, [1.0, -2.0], [1, 1])
    assert after == pytest.approx([before + RATE] * 2)


def test_averaging_models_takes_one_step_a_silo() -> None:
    """Steps of opposite sign and equal size cancel in the plain mean, whatever the gradients' sizes (4.3)."""
    before, after = stepped(Federation.FEDAVG, [1.0, -20.0], [1, 1])
    assert after == pytest.approx([before] * 2, abs=1e-6)
    assert stepped(Federation.FEDAVG, [1.0, 20.0], [1, 1])[1] == pytest.approx([before - RATE] * 2)
