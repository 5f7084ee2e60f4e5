from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from fgl_secure.attacks.base import guess_of
from fgl_secure.attacks.gradients.inversion import Effort
from fgl_secure.attacks.gradients.knowledge import UPDATES, GradientKnowledge
from fgl_secure.attacks.gradients.matching import GradientMatching, InvertedGradients, class_means, exhibits
from fgl_secure.attacks.gradients.model import Activation, Convolution
from fgl_secure.attacks.registry import attack as named
from fgl_secure.attacks.truth import GradientTruth
from fgl_secure.auditing.recorded_run import RecordedRun
from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fedavg.audit_runs import fresh_model, full_batches, recorded_round, small_trees, with_fields
from fgl_secure.methods.fedavg.program import GradientNoise
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.runtime import Recording, Role, View
from fgl_secure.runtime.channel import Loss
from tests.attacks.conformance import Claims
from tests.attacks.gradients.gradient_runs import GradientConformance, Setting, clusters, drawn_batches, record_round
from tests.attacks.recorded import Run
from tests.error_codes import about

ROWS = "rows recovered"
SHORT = Effort(steps=2)


class MatchingConformance(GradientConformance):
    """Inherit as `Test...` and name the attack."""

    setting = Setting(batch=1, hidden=8)

    @property
    def attack(self) -> GradientMatching:
        """The attack under test."""
        raise NotImplementedError

    def read(self, run: Run, view: View | None = None) -> Claims:
        """The claims on a run after very few steps."""
        view = view or run.transcript.views(self.attack.card.observer)
        guess = guess_of(replace(self.attack, effort=SHORT), view, run.public, run.knowledge)
        return Counter() if guess is None else self.claims(guess)

    def claims(self, guess: InvertedGradients) -> Claims:
        """Whose gradient it was, and what it was taken over."""
        pairs = zip(guess.exhibits, guess.found, strict=True)
        return Counter((tuple(each.clients.tolist()), found.features.tobytes()) for each, found in pairs)

    def run(self, loss: Loss | None = None, recording: Recording | None = None) -> Run:
        """A round of four clients on small graphs."""
        return shaped(clusters(nodes=24, words=8), self.setting, loss, recording)

    def exchange(self, graph: FederatedGraph, values: NDArray[np.float64], **network: Any) -> Run:
        """A round on a graph with other features."""
        plain = super().exchange(graph, values, **network)
        return _with_shapes(plain, self.setting)


def shaped(
    graph: FederatedGraph, setting: Setting, loss: Loss | None = None, recording: Recording | None = None
) -> Run:
    """A round for attackers who know how the nodes behind gradients are joined."""
    return _with_shapes(record_round(graph, setting, loss=loss, recording=recording), setting)


def _with_shapes(run: Run, setting: Setting) -> Run:
    known = with_fields(run.recorded(UPDATES), run.graph.restricted_to_silos(), drawn_batches(run.graph, setting))
    return Run(run.graph, run.public, run.transcript, known.truth(GradientTruth), known.knowledge)


def figures(attack: GradientMatching, run: RecordedRun) -> Mapping[str, float]:
    """The figures of an attack on a run, by metric."""
    guess = run.guess(attack)
    assert guess is not None
    return {found.metric: found.value for found in run.score(attack, guess)}


def with_effort(name: str, steps: int) -> GradientMatching:
    """An attack that tries for so many steps, once."""
    return replace(cast(GradientMatching, named(name)), effort=Effort(steps))


class TestDeepLeakage(MatchingConformance):
    attack: Any = with_effort("gradient-dlg", 120)


class TestImprovedDeepLeakage(MatchingConformance):
    attack: Any = with_effort("gradient-idlg", 60)


class TestInvertingGradients(MatchingConformance):
    attack: Any = with_effort("gradient-inverting", 120)


class TestFeaturesAndEdges(MatchingConformance):
    attack: Any = with_effort("gradient-joint", 200)


GRAPH = small_trees(1)


def single_nodes(activation: Activation = Activation.SOFTPLUS, batch: int = 1, **more: Any) -> RecordedRun:
    """A round of GraphSAGE on batches of few nodes."""
    return recorded_round(
        GRAPH, fresh_model(GRAPH, Convolution.SAGE, activation), full_batches(GRAPH, batch, 0), **more
    )


def shown_in(run: RecordedRun) -> Any:
    return exhibits(run.transcript.views(Role.SERVER), run.public, run.knows(GradientKnowledge))


@pytest.mark.parametrize("activation", [Activation.SOFTPLUS, Activation.SIGMOID])
def test_single_nodes_are_read_under_any_smooth_activation(activation: Activation) -> None:
    """One node of GraphSAGE is recovered in every entry, whatever smooth function is between the layers."""
    assert figures(with_effort("gradient-dlg", 60), single_nodes(activation))[ROWS] == 1


def test_noise_stops_what_matches_gradients() -> None:
    assert figures(with_effort("gradient-dlg", 60), single_nodes(noise=GradientNoise(1.0)))[ROWS] == 0


def test_a_sum_is_attacked_as_one_batch() -> None:
    run = single_nodes(scheme=PairwiseMasking())
    (shown,) = shown_in(run)
    assert shown.clients.tolist() == [0, 1, 2, 3]
    assert shown.seen.field.batch == 4
    assert figures(with_effort("gradient-dlg", 200), run)[ROWS] >= 0.75


def test_prior_is_no_worse_than_chance() -> None:
    """Where the prior names no edge at all, joining pairs at random does better, and is the prior then."""
    run = single_nodes(batch=2, scheme=PairwiseMasking())
    attack = with_effort("gradient-joint", 1)
    guess = attack.infer_with(run.transcript.views(Role.SERVER), run.public, run.knows(GradientKnowledge))
    assert guess is not None
    found = attack.score(guess, run.truth(GradientTruth))
    assert [figure.metric for figure in found] == ["nodes told by their rows", "edges found"]
    assert all(figure.prior >= figure.random > 0 for figure in found)


def test_clipping_alone_stops_nothing() -> None:
    """Attackers know the norm that gradients are cut down to, and cut their own down too."""
    run = single_nodes(noise=GradientNoise(1e-4, clip=0.1))
    for shown in shown_in(run):
        assert np.linalg.norm(shown.seen.gradient) == pytest.approx(0.1, rel=1e-3)
        members = run.truth(GradientTruth).fields[int(shown.clients[0])]
        x, labels = torch.tensor(GRAPH.features[members], dtype=torch.float64), torch.from_numpy(shown.seen.labels)
        again = shown.seen.of(x, torch.from_numpy(shown.seen.field.edges_with_loops), labels)
        assert np.allclose(again.detach().numpy(), shown.seen.gradient, atol=1e-4)


@pytest.mark.parametrize(("steps", "restarts", "seed"), [(0, 1, 0), (1, 0, 0), (1, 1, -1)])
def test_effort_is_checked(steps: int, restarts: int, seed: int) -> None:
    """No step, no try or a negative seed is refused with the values found."""
    with pytest.raises(InputError, check=about("steps and restarts")):
        Effort(steps, restarts, seed)


def test_the_prior_is_the_mean_of_the_class() -> None:
    """Each label gets its class's mean row, and a class that nobody shows gets the mean of all."""
    public, labels = np.array([[0.0], [2.0], [7.0]]), np.array([0, 0, 1])
    assert class_means(public, labels, np.array([0, 1, 2])).ravel().tolist() == [1.0, 7.0, 3.0]
