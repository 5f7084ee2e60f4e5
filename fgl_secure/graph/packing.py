"""Dealing groups of nodes to silos of about equal size, as FedStruct (ICLR 2025, appendix F) does it."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import numpy as np
from numpy.typing import NDArray


def pack_groups(groups: Iterable[Collection[int]], silos: int) -> NDArray[np.int64]:
    """Split what is too large, and pack the pieces into silos, the largest first.

    With n nodes and K silos, a silo has room for n // K nodes. A group above that is split in two, the first n // K of
    its nodes by number and the rest, until none is larger. The K largest pieces go to a silo each, and every further
    piece to the first silo that has room for it. The paper doesn't say what happens to a piece that fits nowhere; here,
    as in its public code, it goes to the smallest silo. So every silo has a node, and some are larger than n // K.

    Args:
        groups: Sets of nodes; together each of 0..n-1 once.
        silos: The number of silos K, 1..n.

    Returns:
        The silo of each node, int64 [n] in 0..K-1.
    """
    ordered = [sorted(group) for group in groups]
    n = sum(len(group) for group in ordered)
    pieces = [group[start : start + n // silos] for group in ordered for start in range(0, len(group), n // silos)]
    pieces.sort(key=lambda piece: (-len(piece), piece[0]))
    silo_of = np.empty(n, dtype=np.int64)
    sizes = np.zeros(silos, dtype=np.int64)
    for place, piece in enumerate(pieces):
        silo = place if place < silos else _first_with_room(sizes, len(piece), n // silos)
        silo_of[piece] = silo
        sizes[silo] += len(piece)
    return silo_of


def _first_with_room(sizes: NDArray[np.int64], added: int, room: int) -> int:
    fits = sizes + added <= room
    return int(np.argmax(fits) if fits.any() else np.argmin(sizes))
