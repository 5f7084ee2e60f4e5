"""A silo's edges as the matrices that FedStruct's exchange multiplies with."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fgl_secure.training.silo import Silo


class EdgeBlocks:
    """The part of A + I that one silo knows.

    Args:
        share: what it holds.

    Attributes:
        degrees: float64 [m], row sums of its own rows.
    """

    def __init__(self, share: Silo) -> None:
        self._share = share
        self._source_inside, self._target_inside = share.inside
        loops = np.arange(len(share.nodes))
        source = share.local(share.edges[0, self._source_inside])
        self._rows = np.concatenate([source, loops])
        self.degrees: NDArray[np.float64] = np.bincount(self._rows).astype(np.float64)

    def first_power(self) -> sparse.csr_array:
        """Its own rows of D^-1 (A + I), CSR [m, n]."""
        share = self._share
        columns = np.concatenate([share.edges[1, self._source_inside], share.nodes])
        shape = (len(share.nodes), share.facts.nodes)
        looped = sparse.csr_array((np.ones(len(columns)), (self._rows, columns)), shape=shape)
        return sparse.csr_array(sparse.diags_array(1 / self.degrees) @ looped)

    def to(self, receiver: int) -> sparse.csr_array:
        """The edges from a silo's nodes to its own: A~_k^[i], CSR [n_i, m]; with loops where both are the same."""
        share = self._share
        source, target = share.edges[:, self._target_inside]
        silos, places = share.owners(source)
        rows, columns = places[silos == receiver], share.local(target[silos == receiver])
        if receiver == share.silo:
            loops = np.arange(len(share.nodes))
            rows, columns = np.concatenate([rows, loops]), np.concatenate([columns, loops])
        shape = (share.facts.sizes[receiver], len(share.nodes))
        return sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=shape)
