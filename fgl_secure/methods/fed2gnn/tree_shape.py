"""Which positions of rooted trees are joined, whatever they stand for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fgl_secure.errors import InputError

Ids = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class TreeShape:
    """Which positions of a forest are joined; roots come first, and fathers before children.

    Attributes:
        hops: K, the number of the last layer.
        father: int64 [t], the position of each father; -1 for roots.
        layer: int64 [t], ascending from 0.
        links: int64 [2, l], positions of roots that are joined in the local graph, in both directions, sources above
            targets; [2, 0] where every tree stands alone.
    """

    hops: int
    father: Ids
    layer: Ids
    links: Ids

    def __post_init__(self) -> None:
        if self.hops < 1:
            raise InputError(f"hops must be at least 1; found {self.hops}")
        if self.father.shape != self.layer.shape or self.father.ndim != 1:
            raise InputError(
                f"father and layer must be vectors of one length; found {self.father.shape} and {self.layer.shape}"
            )
        below = self.father >= 0
        if (below != (self.layer > 0)).any() or (self.layer[self.father[below]] + 1 != self.layer[below]).any():
            raise InputError("father must be in the layer before, and -1 in layer 0; found one that is not")
        if (np.diff(self.layer) < 0).any() or int(self.layer.max(initial=0)) > self.hops:
            raise InputError(f"layer must ascend from 0 to at most hops={self.hops}; found {self.layer.tolist()[:20]}")

    @property
    def size(self) -> int:
        """Positions t."""
        return len(self.father)

    @property
    def roots(self) -> int:
        """How many roots: positions 0 to roots - 1."""
        return int(np.searchsorted(self.layer, 1))

    @property
    def leaves(self) -> NDArray[np.bool_]:
        """Bool [t], whether a position is in the last layer."""
        last: NDArray[np.bool_] = self.layer == self.hops
        return last

    @property
    def joined(self) -> Ids:
        """int64 [2, m], positions that are joined, in both directions, sources above targets."""
        child = np.flatnonzero(self.father >= 0)
        father = self.father[child]
        return np.concatenate([self.links, np.stack([child, father]), np.stack([father, child])], axis=1)

    @property
    def neighbours(self) -> Ids:
        """int64 [t], how many positions each is joined to."""
        return np.bincount(self.joined[1], minlength=self.size).astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class FoldedTrees:
    """Trees whose last layer has at most one leaf a father.

    Attributes:
        shape: who is joined to whom.
        holds: CSR [t, n], a 1 at the node that a position stands for, or at all those whose features a leaf adds up.
    """

    shape: TreeShape
    holds: sparse.csr_array

    def at(self, values: NDArray[np.int64]) -> Ids:
        """int64 [t], what `values` [n] say of the node that each position stands for; 0 for leaves."""
        found: Ids = (self.holds @ values).astype(np.int64)
        found[self.shape.leaves] = 0
        return found
