from __future__ import annotations

import numpy as np
import pytest
import torch

from fgl_secure.attacks.gradients.inversion import (
    cosine_distance,
    smoothness,
    sparsity,
    squared_distance,
    total_variation,
)
from fgl_secure.attacks.gradients.matching import (
    class_means,
    cosines,
    edge_scores,
    graph_scores,
    matched,
    recovered,
    row_scores,
)

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
