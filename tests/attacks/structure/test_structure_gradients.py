from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from fgl_secure.attacks.base import guess_of
from fgl_secure.attacks.registry import attack as named
from fgl_secure.attacks.structure.knowledge import EmbeddingModel, NodeClaims
from fgl_secure.attacks.truth import StructureTruth
from fgl_secure.coins import SimulationCoins
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fedstruct.structure import Hopwise
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.relay_coded import Profile, RelayCoded
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.runtime import Channel, Phase, PublicParameters, Recording, Role, Transcript
from fgl_secure.training.parties import hierarchy_of, note_own_graph
from fgl_secure.training.silo import Silo
from tests.attacks.conformance import Claims
from tests.attacks.recorded import Run
from tests.attacks.structure.structure_runs import (
    StructureConformance,
    claimed,
    communities,
    hop2vec,
    record_gradients,
    record_hop2vec,
    scale_free,
)
from tests.methods.fedstruct.passes import passed


class Gradients(StructureConformance):
    """What attacks on gradients at the server keep."""

    rests_on = (frozenset({Phase.VECTORS}),)
    needs_edges = False

    def recorded(self, graph: FederatedGraph, **network: Any) -> Run:
        return record_hop2vec(graph, **network)

    def claims(self, guess: NodeClaims) -> Claims:
        return claimed(guess.observers, guess.nodes, np.linalg.norm(guess.values, axis=1))

    def figure(self, run: Run) -> float:
        """The figure of the attack on a run."""
        guess = self.guess(run)
        return float(self.attack.score(guess, run.truth)[0].value)

    def test_sees_nothing_where_gradients_go_to_owners(self) -> None:
        """A server that receives no gradient and no sum has no guess."""
        run = self.run()
        view = replace(run.transcript.views(Role.SERVER), received=(), private=())
        assert guess_of(self.attack, view, run.public, run.knowledge) is None


class TestStructureGradientLabels(Gradients):
    attack = named("structure-gradient-labels")

    def claims(self, guess: NodeClaims) -> Claims:
        return claimed(guess.observers, guess.nodes, guess.values)

    def test_a_sum_over_clients_hides_no_labels(self) -> None:
        """Rows of different clients hardly collide: their sum tells nearly all training labels."""
        graph = communities()
        assert self.figure(record_hop2vec(graph)) > 0.95
        assert self.figure(record_hop2vec(graph, summed=True)) > 0.9

    def test_solves_for_the_logits_behind_an_embedding(self) -> None:
        """Gradients in features of 9 columns behind a linear embedding give the same labels, given its Jacobian."""
        graph = communities()
        matrix = np.random.default_rng(0).normal(size=(graph.num_classes, 9))
        behind = tuple(each @ matrix for each in hop2vec(graph).gradients)
        known = EmbeddingModel(jacobian=lambda nodes: np.broadcast_to(matrix, (len(nodes), *matrix.shape)))
        run = record_gradients(graph, behind)
        assert self.figure(run.told(known)) == self.figure(record_hop2vec(graph))


class TestStructureGradientMembership(Gradients):
    attack = named("structure-gradient-membership")

    def test_a_sum_over_clients_hides_no_members(self) -> None:
        """Lengths of rows of the sum tell who is labelled about as well."""
        assert self.figure(record_hop2vec(communities(), summed=True)) > 0.5


class TestStructureGradientNeighbours(Gradients):
    attack = named("structure-gradient-neighbours")


ATTACK = named("hop-gradient-labels")
CLASSES = 4


def labelled(graph: FederatedGraph, share: float = 0.5) -> FederatedGraph:
    """The graph with other labels, and with so many of its nodes in training."""
    rng = np.random.default_rng(1)
    labels, train = rng.integers(CLASSES, size=graph.num_devices), rng.random(graph.num_devices) < share
    return replace(graph, graph=replace(graph.graph, labels=labels), train_mask=train)


def recorded(graph: FederatedGraph, scheme: Scheme) -> Transcript:
    """One forward and backward pass of soft-max regression on structure embeddings."""
    channel = Channel(hierarchy_of(graph, scheme.helpers), SimulationCoins(0), Recording.everything())
    note_own_graph(channel, graph)
    start = np.random.default_rng(0).normal(size=(graph.num_devices, CLASSES)).astype(np.float32)

    def loss(logits: torch.Tensor, silo: Silo) -> torch.Tensor:
        train = torch.tensor(silo.train)
        return functional.cross_entropy(logits[train], torch.tensor(silo.labels)[train], reduction="sum")

    passed(graph, {"neighbours": scheme}, channel, start, lambda comm: Hopwise(comm, 3), loss, crossing=True)
    return channel.transcript


@pytest.mark.parametrize("scheme", [Plaintext(), RelayCoded(k_min=1, profile=Profile.SHOWN)], ids=str)
def test_every_label_that_it_names_is_right(scheme: Scheme) -> None:
    """Under any scheme that answers single neighbours the labels of labelled ones are read without a mistake."""
    graph = labelled(scale_free(120, 2, 1))
    run = recorded(graph, scheme)
    guess = ATTACK.infer(run.views(Role.SILO), PublicParameters())
    assert guess is not None
    assert len(guess.nodes) > 20
    assert graph.train_mask[guess.nodes].all()
    assert np.array_equal(guess.values, graph.labels[guess.nodes])


def test_sums_of_three_neighbours_leave_nothing_to_read() -> None:
    """With k_min 3 no gradient comes back by way of a single neighbour."""
    graph = labelled(scale_free(120, 2, 1))
    guess = ATTACK.infer(
        recorded(graph, RelayCoded(k_min=3, profile=Profile.SHOWN)).views(Role.SILO), PublicParameters()
    )
    assert guess is not None
    assert len(guess.nodes) == 0
    assert ATTACK.score(guess, StructureTruth.of(hierarchy_of(graph), graph)) == ()


def test_permuted_labels_are_read_as_often_as_by_chance() -> None:
    """The null control: against labels that are shuffled among a client's nodes it is not better than the prior."""
    graph = labelled(scale_free(240, 2, 1))
    run = recorded(graph, Plaintext())
    guess = ATTACK.infer(run.views(Role.SILO), PublicParameters())
    assert guess is not None
    (found,) = ATTACK.score(guess, StructureTruth.of(run.parties, graph))
    (null,) = ATTACK.score(guess, StructureTruth.of(run.parties, graph).permute(3))
    assert found.value == 1
    assert null.interval.low <= null.prior + 0.05
