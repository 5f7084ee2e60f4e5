from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fgl_secure.attacks.base import guess_of
from fgl_secure.attacks.structure.nsf_predictions import (
    NsfLabels,
    NsfMembership,
    NsfTrainingLabels,
)
from fgl_secure.attacks.structure.scope import EmbeddingModel, NodeClaims
from fgl_secure.graph import FederatedGraph
from fgl_secure.runtime import Phase, Recording, Role
from fgl_secure.runtime.channel import Loss
from tests.attacks.conformance import Claims
from tests.attacks.recorded import Run
from tests.attacks.structure.structure_conformance import StructureConformance, claimed, structure_references
from tests.attacks.structure.structure_runs import communities, record_hop2vec, record_rule

__all__ = ["structure_references"]


class Learnt(StructureConformance):
    """What attacks on learnt features keep."""

    rests_on = (frozenset({Phase.STRUCTURE_FEATURES}),)
    needs_edges = False

    def recorded(self, graph: FederatedGraph, loss: Loss | None, recording: Recording | None) -> Run:
        return record_hop2vec(graph, loss=loss, recording=recording)

    def figure(self, run: Run) -> float:
        """The figure of the attack on a run."""
        return float(self.attack.score(self.guess(run), run.truth)[0].value)

    def test_reads_the_end_of_training(self) -> None:
        """The features as sent at the start say nothing; what clients hold in the end does."""
        run = self.recorded(communities(), None, None)
        view = run.transcript.views(Role.SILO)
        start = replace(view, private=())
        guess = guess_of(self.attack, start, run.public, run.knowledge)
        assert abs(self.attack.score(guess, run.truth)[0].value) < 0.4 < self.figure(run)


class Labels(Learnt):
    """What both readings of labels keep."""

    def claims(self, guess: NodeClaims) -> Claims:
        return claimed(guess.nodes, guess.values)

    def test_goes_through_the_embedding_that_everybody_holds(self) -> None:
        """Logits that are permuted by the embedding are read in the embedding's order."""
        run = self.recorded(communities(), None, None)
        turned = run.told(EmbeddingModel(lambda features: features[:, ::-1]))
        assert self.figure(turned) < 0.1
        both = EmbeddingModel(lambda features: features[:, ::-1][:, ::-1])
        assert self.figure(run.told(both)) == self.figure(run)

    def test_task_agnostic_features_say_little(self) -> None:
        """Return probabilities have no labels in them: what is read is hardly better than a guess."""
        run = record_rule(communities())
        assert self.figure(run) < 0.5


class TestNsfLabels(Labels):
    attack = NsfLabels()


class TestNsfTrainingLabels(Labels):
    attack = NsfTrainingLabels()

    def test_counts_training_nodes_alone(self) -> None:
        """The figure rests on each training node once for each other client."""
        run = self.run()
        guess = self.guess(run)
        (found, *_) = self.attack.score(guess, run.truth)
        assert f"of {2 * int(run.truth.labelled.sum()):,} labels" in found.finding
        assert found.n <= run.truth.labelled.sum()


class TestNsfMembership(Learnt):
    attack = NsfMembership()

    def claims(self, guess: NodeClaims) -> Claims:
        return claimed(guess.nodes, guess.values)

    @pytest.mark.parametrize("labelled", [0.0, 1.0])
    def test_says_nothing_where_there_is_nothing_to_tell(self, labelled: float) -> None:
        """Where all nodes train, or none is said to, there is no figure."""
        run = self.run()
        guess = self.guess(run)
        everybody = replace(run.truth, labelled=np.full(60, bool(labelled)))
        assert self.attack.score(guess, everybody) == ()


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_what_a_client_mostly_has_is_no_finding(seed: int) -> None:
    """Where clients are communities, labels permuted within clients are read no better than the prior says."""
    run = record_hop2vec(communities(apart=True))
    for attack in (NsfLabels(), NsfTrainingLabels()):
        guess = guess_of(attack, run.transcript.views(Role.SILO), run.public, run.knowledge)
        assert guess is not None
        (found,) = attack.score(guess, run.truth)
        (null,) = attack.score(guess, run.truth.permuted(seed))
        assert null.interval.low <= null.prior + 0.05
        assert 1 / 4 < null.prior < found.value
