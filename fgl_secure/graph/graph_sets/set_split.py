"""Which graphs of each client train, choose and test a model."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fgl_secure.errors import InputError
from fgl_secure.graph.split import SplitMasks

TEST_SHARE = 0.2
"""FedVN (AAAI 2025, appendix E.1) trains on 80 % of a client's graphs and tests on the rest."""


def client_split(client_of: NDArray[np.int64], draw: np.random.Generator, validation: float) -> SplitMasks:
    """Split the graphs of every client at random: 20 % test, `validation` choose, the rest train.

    The published code has no validation graphs: that is `validation` 0. Which graphs test does not depend on it.

    Args:
        client_of: int64 [g], the client of each graph.
        draw: The source of the split.
        validation: Share of a client's graphs, 0 to 0.7.

    Raises:
        InputError: `validation` is out of range.
    """
    if not 0 <= validation <= 0.7:
        raise InputError(f"validation must be in 0..0.7, a share of a client's graphs; found {validation}")
    share = np.empty(len(client_of))
    for client in range(int(client_of.max()) + 1):
        own = np.flatnonzero(client_of == client)
        share[own[draw.permutation(len(own))]] = np.arange(len(own)) / len(own)
    test = share < TEST_SHARE
    chooses = ~test & (share < TEST_SHARE + validation - 1e-9)
    return SplitMasks(train=~test & ~chooses, validation=chooses, test=test)
