from __future__ import annotations

import numpy as np
import pytest

from fgl_secure.attacks.areas import area, area_within, mean_area


def test_one_group_is_the_plain_area() -> None:
    """With one group it is the area under the curve, inside an interval that narrows with the number of nodes."""
    rng = np.random.default_rng(0)
    widths = []
    for size in (100, 1000):
        positive = rng.random((1, size)) < 0.3
        scores = rng.normal(size=(1, size)) + positive
        found = area_within(scores, positive, np.ones((1, size), dtype=np.bool_))
        assert found is not None
        value, interval = found
        assert value == pytest.approx(area(scores[positive], scores[~positive]))
        assert interval.contains(value)
        widths.append(interval.high - interval.low)
    assert widths[1] < widths[0] / 2


def test_groups_that_differ_do_not_rank_each_other() -> None:
    """A group with more positives and higher scores makes a pooled area large, and this one none."""
    rng = np.random.default_rng(1)
    positive = rng.random((2, 2000)) < np.array([[0.6], [0.1]])
    scores = rng.normal(size=(2, 2000)) + np.array([[2.0], [0.0]])
    found = area_within(scores, positive, np.ones_like(positive))
    assert found is not None
    assert area(scores[positive], scores[~positive]) > 0.7
    assert found[0] == pytest.approx(0.5, abs=0.04)
    assert found[1].contains(0.5)


def test_nodes_nobody_asks_about_do_not_count() -> None:
    """Scores of nodes that are not asked about change nothing."""
    positive = np.array([[True, False, False, True]])
    asked = np.array([[True, True, False, False]])
    found = area_within(np.array([[1.0, 0.0, 9.0, -9.0]]), positive, asked)
    assert found is not None
    assert found[0] == 1
    assert found[1].low < 0.05  # one node of each kind says next to nothing


def test_one_kind_alone_has_no_area() -> None:
    """Without a group of both kinds there is nothing to compare."""
    everyone = np.ones((2, 3), dtype=np.bool_)
    assert area_within(np.zeros((2, 3)), everyone, everyone) is None
    assert mean_area(np.zeros((2, 3)), everyone, everyone) == 0.5
