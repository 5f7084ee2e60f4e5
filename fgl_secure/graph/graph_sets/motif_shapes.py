"""The shapes that a motif graph is put together from: five base graphs of any size, and three motifs.

Spurious-Motif (Wu et al., ICLR 2022) has the bases tree, ladder and wheel and the motifs house, cycle and crane;
GOOD-Motif (Gui et al., NeurIPS 2022) adds star and path. The papers name and draw the shapes; the definitions are ours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

Edges = NDArray[np.int64]

SMALLEST_BASE = 6
"""Below this some bases are no longer what they are called, or are motifs themselves."""


def wheel(nodes: int) -> Edges:
    """A hub, node 0, joined to every node of a ring. Edges [2, 2(n-1)], one direction each."""
    ring = np.arange(1, nodes)
    return np.concatenate([np.stack([np.zeros_like(ring), ring]), np.stack([ring, np.roll(ring, -1)])], axis=1)


def tree(nodes: int) -> Edges:
    """The complete binary tree, whose lowest level fills from the left. Edges [2, n-1], from parent to child."""
    child = np.arange(1, nodes)
    return np.stack([(child - 1) // 2, child])


def ladder(nodes: int) -> Edges:
    """Two rails with a rung between any two opposite nodes; an odd node ends one rail. One direction each."""
    along = np.arange(nodes - 2)
    rung = np.arange(0, nodes - 1, 2)
    return np.concatenate([np.stack([along, along + 2]), np.stack([rung, rung + 1])], axis=1)


def star(nodes: int) -> Edges:
    """Node 0 joined to all others. Edges [2, n-1], one direction each."""
    leaf = np.arange(1, nodes)
    return np.stack([np.zeros_like(leaf), leaf])


def path(nodes: int) -> Edges:
    """A line. Edges [2, n-1], one direction each."""
    along = np.arange(nodes - 1)
    return np.stack([along, along + 1])


BASES: Mapping[str, Callable[[int], Edges]] = MappingProxyType(
    {"wheel": wheel, "tree": tree, "ladder": ladder, "star": star, "path": path}
)
"""By name; the first three are the bases of Spurious-Motif."""

MOTIFS: Mapping[str, Edges] = MappingProxyType(
    {
        # A square with a roof.
        "house": np.array([[0, 1, 2, 3, 0, 1], [1, 2, 3, 0, 4, 4]]),
        # A ring of six.
        "cycle": np.array([[0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 0]]),
        # A square with one diagonal, and a node that hangs from the other corner.
        "crane": np.array([[0, 1, 2, 3, 0, 1], [1, 2, 3, 0, 2, 4]]),
    }
)
"""By name, in the order of the labels 0, 1, 2. Each has six edges, so that the number of edges does not tell them."""
