from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
import torch

from fgl_secure.attacks.gradients.inversion import (
    Effort,
)
from fgl_secure.attacks.gradients.knowledge import GradientKnowledge
from fgl_secure.attacks.gradients.matching import (
    MOST_ENTRIES,
    GradientMatching,
    class_means,
    exhibits,
)
from fgl_secure.attacks.gradients.model import Activation, Convolution
from fgl_secure.attacks.registry import attack as named
from fgl_secure.attacks.truth import GradientTruth
from fgl_secure.errors import InputError
from fgl_secure.methods.fedavg.audit_runs import fresh_model, full_batches, recorded_round, small_trees
from fgl_secure.methods.fedavg.program import GradientNoise
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.runtime import Role
from tests.attacks.gradients.gradient_matching_conformance import (
    MatchingConformance,
    figures,
    guesses_once,
    matching_references,
    shaped,
)
from tests.attacks.gradients.gradient_runs import Setting, clusters
from tests.error_codes import about

__all__ = ["guesses_once", "matching_references"]


ROWS = "rows recovered"


def with_effort(name: str, steps: int) -> GradientMatching:
    """An attack that tries for so many steps, once."""
    return replace(cast(GradientMatching, named(name)), effort=Effort(steps))


class TestDeepLeakage(MatchingConformance):
    attack: Any = named("gradient-dlg")


class TestImprovedDeepLeakage(MatchingConformance):
    attack: Any = named("gradient-idlg")


class TestInvertingGradients(MatchingConformance):
    attack: Any = named("gradient-inverting")


class TestFeaturesAndEdges(MatchingConformance):
    attack: Any = named("gradient-joint")


@pytest.mark.parametrize("activation", [Activation.SOFTPLUS, Activation.SIGMOID])
def test_single_nodes_are_read_under_any_smooth_activation(activation: Activation) -> None:
    """One node of GraphSAGE is recovered in every entry, whatever smooth function is between the layers."""
    graph = small_trees(1)
    model = fresh_model(graph, Convolution.SAGE, activation)
    run = recorded_round(graph, model, full_batches(graph, 1, 0))
    assert figures(with_effort("gradient-dlg", 60), run)[ROWS] == 1


def test_a_sum_is_attacked_as_one_batch() -> None:
    """Under a sum there is one gradient, of all batches side by side, and their rows are recovered all the same."""
    graph = small_trees(1)
    model = fresh_model(graph, Convolution.SAGE)
    run = recorded_round(graph, model, full_batches(graph, 1, 0), scheme=PairwiseMasking())
    (shown,) = exhibits(run.transcript.views(Role.SERVER), run.public, run.knows(GradientKnowledge))
    assert shown.clients.tolist() == [0, 1, 2, 3]
    assert shown.seen.field.batch == 4
    assert figures(with_effort("gradient-dlg", 200), run)[ROWS] >= 0.75


def test_prior_is_no_worse_than_chance() -> None:
    """Where the prior names no edge at all, joining pairs at random does better, and is the prior then."""
    graph = small_trees(1)
    run = recorded_round(
        graph, fresh_model(graph, Convolution.SAGE), full_batches(graph, 2, 0), scheme=PairwiseMasking()
    )
    each = with_effort("gradient-joint", 1)
    guess = each.infer_with(run.transcript.views(Role.SERVER), run.public, run.knows(GradientKnowledge))
    assert guess is not None
    found = each.score(guess, run.truth(GradientTruth))
    assert [figure.metric for figure in found] == ["nodes told by their rows", "edges found"]
    assert all(figure.prior >= figure.random > 0 for figure in found)


def test_noise_stops_what_matches_gradients() -> None:
    """With noise as large as the gradient no row is recovered; the same attack recovers all without."""
    graph = small_trees(1)
    model, batches = fresh_model(graph, Convolution.SAGE), full_batches(graph, 1, 0)
    each = with_effort("gradient-dlg", 60)
    assert figures(each, recorded_round(graph, model, batches))[ROWS] == 1
    assert figures(each, recorded_round(graph, model, batches, noise=GradientNoise(1.0)))[ROWS] == 0


def test_clipping_alone_stops_nothing() -> None:
    """Attackers know the norm that gradients are cut down to, and cut their own down too."""
    graph = small_trees(1)
    model, batches = fresh_model(graph, Convolution.SAGE), full_batches(graph, 1, 0)
    run = recorded_round(graph, model, batches, noise=GradientNoise(1e-4, clip=0.1))
    for shown in exhibits(run.transcript.views(Role.SERVER), run.public, run.knows(GradientKnowledge)):
        assert np.linalg.norm(shown.seen.gradient) == pytest.approx(0.1, rel=1e-3)
        members = run.truth(GradientTruth).fields[int(shown.clients[0])]
        x, labels = torch.tensor(graph.features[members], dtype=torch.float64), torch.from_numpy(shown.seen.labels)
        again = shown.seen.of(x, torch.from_numpy(shown.seen.field.counted), labels)
        assert np.allclose(again.detach().numpy(), shown.seen.gradient, atol=1e-4)


def test_without_shapes_there_is_nothing_to_match() -> None:
    """An attacker who does not know what is behind a gradient makes no guess, and one who does makes one for each."""
    setting = Setting(batch=1, hidden=8)
    run = shaped(clusters(nodes=24, words=8), setting)
    view = run.transcript.views(Role.SERVER)
    assert len(exhibits(view, run.public, run.knows(GradientKnowledge))) == 4
    shapeless = GradientKnowledge(run.knows(GradientKnowledge).model)
    assert exhibits(view, run.public, shapeless) == ()


def test_large_fields_are_left_alone() -> None:
    """A gradient with more unknown entries than can be tried is not attacked."""
    graph = small_trees(1)
    model = fresh_model(graph, Convolution.SAGE)
    run = recorded_round(graph, model, full_batches(graph, 1, 0))
    (first, *_) = exhibits(run.transcript.views(Role.SERVER), run.public, run.knows(GradientKnowledge))
    assert first.seen.field.nodes * model.widths[0] < MOST_ENTRIES


@pytest.mark.parametrize(("steps", "restarts", "seed"), [(0, 1, 0), (1, 0, 0), (1, 1, -1)])
def test_effort_is_checked(steps: int, restarts: int, seed: int) -> None:
    """No step, no try or a negative seed is refused with the values found."""
    with pytest.raises(InputError, check=about("steps and restarts")):
        Effort(steps, restarts, seed)


def test_more_tries_never_end_further_away() -> None:
    """The first try is among several, and the nearest is kept."""
    graph = small_trees(1)
    run = recorded_round(graph, fresh_model(graph, Convolution.GCN), full_batches(graph, 2, 0))
    each = with_effort("gradient-idlg", 1)
    shown = exhibits(run.transcript.views(Role.SERVER), run.public, run.knows(GradientKnowledge))[0]
    one, three = (each.invert(shown.seen, Effort(10, tries)).distance for tries in (1, 3))
    assert three <= one


RNG = np.random.default_rng(0)
PATH = np.array([[0.0, 1, 0], [1, 0, 1], [0, 1, 0]])


def test_the_prior_is_the_mean_of_the_class() -> None:
    """Each label gets its class's mean row, and a class that nobody shows gets the mean of all."""
    public, labels = np.array([[0.0], [2.0], [7.0]]), np.array([0, 0, 1])
    assert class_means(public, labels, np.array([0, 1, 2])).ravel().tolist() == [1.0, 7.0, 3.0]
