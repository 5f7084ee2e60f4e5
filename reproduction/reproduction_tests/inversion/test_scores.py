from __future__ import annotations

import numpy as np

from fgl_reproduction.inversion.scores import cosines, edge_scores, graph_scores, row_scores

RNG = np.random.default_rng(0)
PATH = np.array([[0.0, 1, 0], [1, 0, 1], [0, 1, 0]])


def test_rows_are_scored_by_error_and_exactness() -> None:
    """A row counts as exact up to half a step, and the error is the root of the mean square."""
    found = np.zeros((2, 4)) + np.array([[0.0312], [0.0313]])
    scores = row_scores(found, np.ones((2, 4)))
    assert (scores.exact, scores.rows) == (0, 2)
    assert scores.rmse == np.sqrt(((found - 1) ** 2).mean())
    assert row_scores(found, np.zeros((2, 4))).exact == 0.5


def test_cosines_of_nothing_are_nothing() -> None:
    """A row of zeros has cosine 0 with everything."""
    assert np.allclose(cosines(np.array([[0.0, 0], [1, 1]]), np.array([[1.0, 0], [2, 2]])), [0, 1])


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
