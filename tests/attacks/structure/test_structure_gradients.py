from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fgl_secure.attacks.base import guess_of
from fgl_secure.attacks.structure.scope import EmbeddingModel, NodeClaims
from fgl_secure.attacks.structure.structure_gradients import (
    StructureGradientLabels,
    StructureGradientMembership,
    StructureGradientNeighbours,
    logit_gradients,
)
from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph
from fgl_secure.runtime import Phase, Recording, Role
from fgl_secure.runtime.channel import Loss
from tests.attacks.conformance import Claims
from tests.attacks.recorded import Run
from tests.attacks.structure.structure_conformance import StructureConformance, claimed, structure_references
from tests.attacks.structure.structure_runs import communities, hop2vec, record_gradients, record_hop2vec

__all__ = ["structure_references"]


class Gradients(StructureConformance):
    """What attacks on gradients at the server keep."""

    rests_on = (frozenset({Phase.VECTORS}),)
    needs_edges = False

    def recorded(self, graph: FederatedGraph, loss: Loss | None, recording: Recording | None) -> Run:
        return record_hop2vec(graph, loss=loss, recording=recording)

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
    attack = StructureGradientLabels()

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

    def test_refuses_a_jacobian_of_another_shape(self) -> None:
        """A Jacobian that does not lead to the rows' columns is refused."""
        run = self.run()
        known = EmbeddingModel(jacobian=lambda nodes: np.ones((len(nodes), 4, 3)))
        with pytest.raises(InputError, match=r"must give \[nodes, classes, 4\]"):
            guess_of(self.attack, run.transcript.views(Role.SERVER), run.public, [known])


class TestStructureGradientMembership(Gradients):
    attack = StructureGradientMembership()

    def test_a_sum_over_clients_hides_no_members(self) -> None:
        """Lengths of rows of the sum tell who is labelled about as well."""
        assert self.figure(record_hop2vec(communities(), summed=True)) > 0.5


class TestStructureGradientNeighbours(Gradients):
    attack = StructureGradientNeighbours()

    def test_needs_rows_of_single_clients(self) -> None:
        """A sum does not say whose labelled nodes a foreign node is next to."""
        run = record_hop2vec(communities(3, nodes=60), summed=True)
        assert self.attack.infer(run.transcript.views(Role.SERVER), run.public) is None


def test_the_identity_needs_no_jacobian() -> None:
    """Where the embedding is the identity, gradients in the logits are the rows, and an identity Jacobian agrees."""
    rows = NodeClaims(np.zeros(3, dtype=np.int64), np.arange(3), np.random.default_rng(0).normal(size=(3, 4)))
    known = EmbeddingModel(jacobian=lambda nodes: np.broadcast_to(np.eye(4), (len(nodes), 4, 4)))
    assert logit_gradients(rows, EmbeddingModel()) is rows.values
    assert logit_gradients(rows, known) == pytest.approx(rows.values)


def test_training_nodes_without_a_row_count_as_wrong() -> None:
    """A server that gets half of the rows can be right about half of the training nodes at most."""
    graph = communities()
    kept = np.random.default_rng(0).random((graph.num_devices, 1)) < 0.5
    run = record_gradients(graph, tuple(each * kept for each in hop2vec(graph).gradients))
    attack = StructureGradientLabels()
    guess = attack.infer_with(run.transcript.views(Role.SERVER), run.public, EmbeddingModel())
    assert guess is not None
    (found,) = attack.score(guess, run.truth)
    assert found.n == int(graph.train_mask.sum())
    assert found.value <= kept[graph.train_mask].mean()
