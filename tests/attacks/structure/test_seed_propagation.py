from __future__ import annotations

import numpy as np
from scipy import sparse

from fgl_secure.attacks.neighbourhoods import undirected
from fgl_secure.attacks.structure.nsf_identity import common_neighbours, eccentric_best


def test_counts_common_matched_neighbours() -> None:
    """A pair scores one for each matched neighbour that both have."""
    path = undirected(np.array([[0, 1, 2], [1, 2, 3]]), 4)
    scores = common_neighbours(path, path, np.array([-1, 1, -1, 3])).toarray()
    assert scores[2].tolist() == [1, 0, 2, 0]
    assert scores[1].tolist() == [0, 0, 0, 0]


def test_ties_are_no_best() -> None:
    """Where two columns share the best score there is no best; a clear lead is one."""
    table = np.zeros((3, 50))
    table[0, [3, 7]] = 2
    table[1, [3, 7]] = 2, 1
    assert eccentric_best(sparse.csr_array(table)).tolist() == [-1, 3, -1]
