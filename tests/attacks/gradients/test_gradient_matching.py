from __future__ import annotations

import numpy as np
import pytest
import torch

from fgl_secure.attacks.gradients.inversion import (
    Effort,
    SeenGradient,
    cosine_distance,
    features_and_edges,
    likeliest_edges,
    smoothness,
    sparsity,
    squared_distance,
    total_variation,
)
from fgl_secure.attacks.gradients.knowledge import GradientKnowledge
from fgl_secure.attacks.gradients.matching import (
    MOST_ENTRIES,
    DeepLeakage,
    FeaturesAndEdges,
    GradientMatching,
    ImprovedDeepLeakage,
    InvertingGradients,
    class_means,
    cosines,
    edge_scores,
    exhibits,
    graph_scores,
    matched,
    recovered,
    row_scores,
)
from fgl_secure.attacks.gradients.model import Activation, Convolution
from fgl_secure.attacks.gradients.truth import GradientTruth
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

__all__ = ["guesses_once", "matching_references"]


ROWS = "rows recovered"


class TestDeepLeakage(MatchingConformance):
    attack = DeepLeakage()


class TestImprovedDeepLeakage(MatchingConformance):
    attack = ImprovedDeepLeakage()


class TestInvertingGradients(MatchingConformance):
    attack = InvertingGradients()


class TestFeaturesAndEdges(MatchingConformance):
    attack = FeaturesAndEdges()


@pytest.mark.parametrize("activation", [Activation.SOFTPLUS, Activation.SIGMOID])
def test_single_nodes_are_read_under_any_smooth_activation(activation: Activation) -> None:
    """One node of GraphSAGE is recovered in every entry, whatever smooth function is between the layers."""
    graph = small_trees(1)
    model = fresh_model(graph, Convolution.SAGE, activation)
    run = recorded_round(graph, model, full_batches(graph, 1, 0))
    assert figures(DeepLeakage(Effort(60)), run)[ROWS] == 1


def test_a_sum_is_attacked_as_one_batch() -> None:
    """Under a sum there is one gradient, of all batches side by side, and their rows are recovered all the same."""
    graph = small_trees(1)
    model = fresh_model(graph, Convolution.SAGE)
    run = recorded_round(graph, model, full_batches(graph, 1, 0), scheme=PairwiseMasking())
    (shown,) = exhibits(run.transcript.views(Role.SERVER), run.public, run.knows(GradientKnowledge))
    assert shown.clients.tolist() == [0, 1, 2, 3]
    assert shown.seen.field.batch == 4
    assert figures(DeepLeakage(Effort(200)), run)[ROWS] >= 0.75


def test_prior_is_no_worse_than_chance() -> None:
    """Where the prior names no edge at all, joining pairs at random does better, and is the prior then."""
    graph = small_trees(1)
    run = recorded_round(
        graph, fresh_model(graph, Convolution.SAGE), full_batches(graph, 2, 0), scheme=PairwiseMasking()
    )
    each = FeaturesAndEdges(Effort(1))
    guess = each.infer_with(run.transcript.views(Role.SERVER), run.public, run.knows(GradientKnowledge))
    assert guess is not None
    found = each.score(guess, run.truth(GradientTruth))
    assert [figure.metric for figure in found] == ["nodes told by their rows", "edges found"]
    assert all(figure.prior >= figure.random > 0 for figure in found)


def test_noise_stops_what_matches_gradients() -> None:
    """With noise as large as the gradient no row is recovered; the same attack recovers all without."""
    graph = small_trees(1)
    model, batches = fresh_model(graph, Convolution.SAGE), full_batches(graph, 1, 0)
    each = DeepLeakage(Effort(60))
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
    wide = small_field(first.seen, 65)
    with pytest.raises(InputError, match="64 nodes"):
        features_and_edges(wide, Effort(1))
    assert not FeaturesAndEdges().takes(wide)


def small_field(seen: SeenGradient, nodes: int) -> SeenGradient:
    """The same gradient, said to be of so many nodes."""
    field = type(seen.field)(nodes, 1, np.empty((2, 0), dtype=np.int64), np.zeros(nodes, dtype=np.int64))
    return SeenGradient(seen.model, seen.gradient, field, seen.labels)


def test_likeliest_edges_are_the_pairs_of_largest_weight() -> None:
    """A threshold at a known number of edges keeps exactly so many pairs, in both directions."""
    weights = np.array([[0, 0.9, 0.2], [0.9, 0, 0.8], [0.2, 0.8, 0]])
    assert likeliest_edges(weights, 2).tolist() == [
        [False, True, False], [True, False, True], [False, True, False]
    ]  # fmt: skip
    assert not likeliest_edges(weights, 0).any()


@pytest.mark.parametrize(("steps", "restarts", "seed"), [(0, 1, 0), (1, 0, 0), (1, 1, -1)])
def test_effort_is_checked(steps: int, restarts: int, seed: int) -> None:
    """No step, no try or a negative seed is refused with the values found."""
    with pytest.raises(InputError, match=f"found {steps}, {restarts}, {seed}"):
        Effort(steps, restarts, seed)


def test_more_tries_never_end_further_away() -> None:
    """The first try is among several, and the nearest is kept."""
    graph = small_trees(1)
    run = recorded_round(graph, fresh_model(graph, Convolution.GCN), full_batches(graph, 2, 0))
    each: GradientMatching = ImprovedDeepLeakage()
    shown = exhibits(run.transcript.views(Role.SERVER), run.public, run.knows(GradientKnowledge))[0]
    one, three = (each.invert(shown.seen, Effort(10, tries)).distance for tries in (1, 3))
    assert three <= one


RNG = np.random.default_rng(0)
PATH = np.array([[0.0, 1, 0], [1, 0, 1], [0, 1, 0]])


def test_matching_undoes_any_order() -> None:
    """Rows shuffled inside the batch and inside the rest are put back."""
    true = RNG.random((7, 5))
    shuffled = np.concatenate([RNG.permutation(3), 3 + RNG.permutation(4)])
    found = true[shuffled] + 0.001
    assert np.allclose(found[matched(found, true, 3)], true + 0.001)


def test_matching_never_crosses_the_batch() -> None:
    """A row of the batch is matched with a row of the batch, even where another is nearer."""
    true = np.array([[0.0], [1.0]])
    assert matched(true[::-1], true, 1).tolist() == [0, 1]


def test_rows_are_recovered_up_to_half_a_step() -> None:
    """A thirty-second off in one entry is too much, a little less is not."""
    true = np.zeros((2, 4))
    found = true + np.array([[0.0312], [0.0313]])
    assert recovered(found, true).tolist() == [True, False]
    scores = row_scores(found, true + 1)
    assert (scores.exact, scores.rows) == (0, 2)
    assert scores.rmse == np.sqrt(((found - 1) ** 2).mean())


def test_cosines_of_nothing_are_nothing() -> None:
    """A row of zeros has cosine 0 with everything."""
    assert np.allclose(cosines(np.array([[0.0, 0], [1, 1]]), np.array([[1.0, 0], [2, 2]])), [0, 1])


def test_the_prior_is_the_mean_of_the_class() -> None:
    """Each label gets its class's mean row, and a class that nobody shows gets the mean of all."""
    public, labels = np.array([[0.0], [2.0], [7.0]]), np.array([0, 0, 1])
    assert class_means(public, labels, np.array([0, 1, 2])).ravel().tolist() == [1.0, 7.0, 3.0]


def test_edges_are_scored_against_chance() -> None:
    """Weights that rank edges first have area and F1 of 1, even ones .5 and reversed ones 0."""
    assert (edge_scores(PATH, PATH).auc, edge_scores(PATH, PATH).f1) == (1, 1)
    assert edge_scores(1 - PATH, PATH).auc == 0
    assert edge_scores(np.ones((3, 3)), PATH).auc == 0.5
    assert edge_scores(PATH, PATH).density == 2 / 3


def test_equal_graphs_agree_in_all_figures() -> None:
    """GSM-0, -1, -2 and FULL are 1 for a graph and itself."""
    rows = RNG.random((3, 4))
    same = graph_scores(rows, PATH, rows, PATH)
    assert same.gsm == (1, 1, 1)
    assert same.full


def test_graphs_that_differ_in_edges_alone_differ_from_one_hop_on() -> None:
    """With the rows right and the edges wrong, GSM-0 is 1, the others are less, and it is not FULL."""
    rows = RNG.random((3, 4))
    other = graph_scores(rows, np.zeros((3, 3)), rows, PATH)
    assert other.gsm[0] == 1
    assert max(other.gsm[1:]) < 0.99
    assert not other.full


def test_wrong_rows_have_no_determination() -> None:
    """Rows far from the true ones score 0, and never less."""
    rows = RNG.random((3, 4))
    assert graph_scores(rows + 9, PATH, rows, PATH).gsm == (0, 0, 0)


def test_distances_are_zero_for_equal_gradients_alone() -> None:
    """The angle forgets lengths, the squared distance does not, and both see directions."""
    seen = torch.tensor([1.0, 2.0, 2.0])
    assert float(squared_distance(seen, seen)) == 0
    assert float(cosine_distance(3 * seen, seen)) < 1e-6
    assert float(squared_distance(3 * seen, seen)) == 4
    assert float(cosine_distance(-seen, seen)) > 1.99


def test_regularisers_prefer_what_they_should() -> None:
    """Flat pictures, alike neighbours and few edges cost less, down to nothing."""
    flat, noisy = torch.full((3, 4), 0.5), torch.rand((3, 4), generator=torch.Generator().manual_seed(0))
    path = torch.from_numpy(PATH).float()
    assert float(total_variation(flat, (2, 2))) == 0 < float(total_variation(noisy, (2, 2)))
    assert abs(float(smoothness(flat, path))) < 1e-6 < float(smoothness(noisy, path))
    pairs = sum(float(((noisy[a] - noisy[b]) ** 2).sum()) for a, b in ((0, 1), (1, 2)))
    assert abs(float(smoothness(noisy, path)) - pairs / noisy.numel()) < 1e-6
    assert float(sparsity(path)) == pytest.approx(4 / 3)
