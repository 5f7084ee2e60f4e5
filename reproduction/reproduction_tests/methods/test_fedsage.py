"""FedSage+ trains as its name says, secured as in the clear, and takes what graphs there are."""

from collections.abc import Mapping
from dataclasses import fields, replace

import numpy as np
import pytest
from numpy.typing import NDArray

from fgl_reproduction.methods import FedSage
from fgl_reproduction.methods.fedsage import program
from fgl_reproduction.methods.fedsage.generator import GeneratorPreset, NeighGen
from fgl_reproduction.methods.fedsage.program import HONEST, FedSagePreset, clients_of, fedsage_preset
from fgl_reproduction.tables.fed2gnn_baselines import Fed2GNNBaseline, baseline_of
from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import FglSecureError, InputError, ProtocolError
from fgl_secure.graph import FederatedGraph, SplitMasks
from fgl_secure.methods.fed2gnn.preset import Fed2GNNPreset
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.runtime import MessageKind, Phase, Recording, Role
from fgl_secure.training.loop import Figures
from fgl_secure.training.one_process import OneProcess
from fgl_secure.training.parameters import flat
from fgl_secure.training.presets import AveragedPreset
from tests.error_codes import about
from tests.methods.fed2gnn.small import some_digits
from tests.training.processes.runs import agree, apart, in_lockstep

GENERATOR = GeneratorPreset(most=3, encoder=4, latent=8, width=16, alone=4, rounds=2)
SHORT = replace(HONEST, epochs=3, hidden=16, generator=GENERATOR)
MASKS: Mapping[str, Scheme] = {"clients": PairwiseMasking(), "server": PairwiseMasking()}


def open_process(graph: FederatedGraph, schemes: Mapping[str, Scheme], preset: FedSagePreset = SHORT) -> OneProcess:
    """All clients before the first round, with everything recorded."""
    job = clients_of(graph, schemes, preset)
    process = job.open(job.channel(SimulationCoins(0), Recording.everything()))
    process.begin()
    return process


def generators(process: OneProcess) -> list[NeighGen]:
    return [each.neighgen for each in process.programs if isinstance(each, program.FedSageClient)]


def test_a_round_steps_along_the_own_gradient_and_all_others() -> None:
    """Every generator: against the gradients that each client works out, added up outside of the run."""
    graph = some_digits(120, 4)
    process, twin = open_process(graph, {}), open_process(graph, {})
    mine = generators(twin)
    process.round(0)
    inputs, thetas = [each.inputs(0) for each in mine], [flat(each.theta) for each in mine]
    for at, neighgen in enumerate(mine):
        others = [each.gradient_for(thetas[at], inputs[at]) for place, each in enumerate(mine) if place != at]
        assert all(each.any() for each in others)
        neighgen.step(neighgen.own_gradient(inputs[at])[1] + np.sum(others, axis=0))
    for found, expected in zip(generators(process), mine, strict=True):
        assert flat(found.theta) == pytest.approx(flat(expected.theta), abs=1e-6)
        assert not np.array_equal(flat(found.theta), thetas[0])


def test_without_generated_neighbours_it_is_federated_averaging() -> None:
    """FedSage without plus, round by round: nobody says anything but models and figures."""
    graph = some_digits(150, 3)
    settings = {each.name: getattr(SHORT, each.name) for each in fields(AveragedPreset)}
    plain = Fed2GNNPreset(**settings, latent=None)
    averaged = baseline_of(graph, Fed2GNNBaseline.FEDAVG, plain, backbone="sage").train()
    job = clients_of(graph, {}, SHORT.with_generator(None, 0))
    channel = job.channel(SimulationCoins(0))
    assert job.train(channel).losses == averaged.losses
    assert not {program.SageMessage.EMBEDDINGS, program.SageMessage.GENERATOR} & {
        batch.phase for batch in channel.transcript.messages
    }
    assert clients_of(graph, {}, SHORT).train().losses[-3:] != averaged.losses


@pytest.mark.parametrize("preset", ["honest", "paper"])
def test_secured_training_is_that_in_the_clear(preset: str) -> None:
    """To the bit: sums are of integers under every scheme."""
    chosen = replace(fedsage_preset(preset), epochs=2, generator=GENERATOR)
    graph = some_digits(150, 4)
    clear, secured = (clients_of(graph, schemes, chosen).train() for schemes in ({}, MASKS))
    assert secured.losses == clear.losses
    assert secured.accuracy == clear.accuracy


def test_the_reported_round_is_one_of_averaging() -> None:
    """In rounds for generators no model is scored."""
    result = clients_of(some_digits(150, 3), {}, SHORT).train()
    assert len(result.losses) == GENERATOR.rounds + SHORT.epochs
    assert result.selected_round >= GENERATOR.rounds


def first_round_messages(process: OneProcess, phase: MessageKind) -> dict[tuple[int, int], NDArray[np.float32]]:
    """By sender and receiver, what silos were sent in the first round; nobody else was sent any."""
    parties, found = process._channel.parties, {}
    for batch in process._channel.transcript.messages:
        if batch.phase is phase and batch.step.round == 0:
            ends = np.stack([parties.index_of(each, Role.SILO) for each in (batch.senders, batch.receivers)])
            assert batch.payload is not None
            for pair in {tuple(each) for each in ends.T.tolist()}:
                found[pair] = batch.payload[(ends[0] == pair[0]) & (ends[1] == pair[1])]
    return found


def test_clients_are_told_generators_and_noisy_embeddings_and_no_single_gradient() -> None:
    """What goes in the clear under masks is what the page says, to each other client alike; gradients do not."""
    process = open_process(some_digits(120, 4), MASKS)
    expected = generators(open_process(some_digits(120, 4), MASKS))
    process.round(0)
    rows, thetas = (
        first_round_messages(process, program.SageMessage.EMBEDDINGS),
        first_round_messages(process, program.SageMessage.GENERATOR),
    )
    pairs = {(one, other) for one in range(4) for other in range(4) if one != other}
    assert set(rows) == set(thetas) == pairs
    for sender, receiver in pairs:
        assert np.array_equal(rows[sender, receiver], expected[sender].inputs(0))
        assert np.array_equal(thetas[sender, receiver][0], flat(expected[sender].theta))
    vectors = [each for each in process._channel.transcript.messages if each.phase is Phase.VECTORS]
    assert not vectors
    clear = open_process(some_digits(120, 4), {})
    clear.round(0)
    assert any(each.phase is Phase.VECTORS for each in clear._channel.transcript.messages)


class Liar(program.FedSageClient):
    """Sends a generator that is not finite."""

    def train(self, number: int) -> Figures:
        self.neighgen.theta[1].data.fill_(float("nan"))
        return super().train(number)


def test_a_generator_that_is_not_finite_is_refused() -> None:
    graph = some_digits(80, 3)
    job = clients_of(graph, {}, SHORT)
    kinds = [program.FedSageClient, Liar, program.FedSageClient]
    lying = replace(job, task=replace(job.task, make=lambda comm, _: kinds[comm.silo.silo](comm, SHORT)))
    process = lying.open(lying.channel())
    process.begin()
    with pytest.raises(ProtocolError, check=about("generator of client 1")):
        process.round(0)


RUNS: Mapping[str, tuple[Mapping[str, Scheme], bool]] = {"masked, put down": (MASKS, True)}


@pytest.mark.parametrize("name", RUNS)
def test_training_is_that_of_one_process(name: str) -> None:
    """With a process for each client, to the last bit."""
    schemes, put_down = RUNS[name]
    job = clients_of(some_digits(80, 3), schemes, SHORT)
    agree(apart(job, put_down=put_down), in_lockstep(job.open(job.channel(SimulationCoins(0)))))


def test_clients_without_labels_or_with_a_class_of_their_own_train() -> None:
    """One has nothing to learn from and no weight; in another a class is alone. All are scored."""
    graph = some_digits(150, 3)
    first = graph.silo_of == 0
    lacking = replace(graph, train_mask=graph.train_mask & ~first & ((graph.labels != 0) | (graph.silo_of == 1)))
    result = clients_of(lacking, MASKS, SHORT).train()
    assert np.isfinite(result.losses).all()
    assert all(share is not None for share in result.accuracy.per_silo)


def test_edges_between_clients_are_not_looked_at() -> None:
    """With none of them training is the same, to the bit."""
    graph = some_digits(150, 3)
    found = [clients_of(each, {}, SHORT).train().losses for each in (graph, graph.restricted_to_silos())]
    assert found[0] == found[1]


@pytest.mark.parametrize("schemes", [{}, MASKS])
def test_clients_without_edges_and_of_one_node_train(schemes: Mapping[str, Scheme]) -> None:
    """Nothing can be hidden from an isolated node; the others go on, and so do all where nobody has an edge."""
    graph = some_digits(150, 3)
    lonely = replace(graph, graph=replace(graph.graph, edges=graph.edges[:, (graph.silo_of[graph.edges] != 0).all(0)]))
    small = np.where(np.arange(150) == np.flatnonzero(graph.silo_of == 0)[0], 0, np.maximum(graph.silo_of, 1))
    for each in (lonely, graph.without_edges(), replace(graph, silo_of=small)):
        assert np.isfinite(clients_of(each, schemes, SHORT).train().losses).all()


def test_edges_of_one_direction_train() -> None:
    """A node then misses those that point to it."""
    graph = some_digits(150, 3)
    directed = replace(graph, graph=replace(graph.graph, edges=graph.edges[:, graph.edges[0] < graph.edges[1]]))
    assert np.isfinite(clients_of(directed, {}, SHORT).train().losses).all()


def test_empty_clients_are_refused_by_the_graph() -> None:
    """A client without nodes is none; the error names it."""
    graph = some_digits(80, 3)
    masks = SplitMasks(graph.train_mask, graph.validation_mask, graph.test_mask)
    with pytest.raises(InputError, match="silo 1"):
        FederatedGraph.from_assignment(graph.graph, np.where(graph.silo_of == 1, 2, graph.silo_of), masks)


@pytest.mark.parametrize(
    ("choice", "rule"),
    [
        ({"generator_rounds": -1}, "generator_rounds must be at least 0; found -1"),
        ({"generated": -1}, "generated must be at least 0; found -1"),
        ({"preset": "none"}, "preset must be one of"),
    ],
)
def test_choices_out_of_range_are_refused(choice: dict[str, object], rule: str) -> None:
    """Before anything runs."""
    with pytest.raises(FglSecureError, match=rule):
        FedSage(**choice).plan(some_digits(80, 3))  # type: ignore[arg-type]  # wrong on purpose


def test_graphs_that_do_not_fit_are_refused() -> None:
    """One client; two, whose hidden sum would be one gradient."""
    graph = some_digits(80, 3)
    with pytest.raises(InputError, check=about("silos")):
        FedSage().plan(graph.in_one_silo(), "plaintext")
    pair = replace(graph, silo_of=np.minimum(graph.silo_of, 1))
    with pytest.raises(InputError, check=about("silos")):
        FedSage().plan(pair, "pairwise-masking")
    assert FedSage().plan(pair, "plaintext").subjects
