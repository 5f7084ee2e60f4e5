"""Dealing groups of nodes to silos of about equal size, as FedStruct (ICLR 2025, appendix F) and FedSage+ do it."""

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


def pack_in_turn(groups: Iterable[Collection[int]], silos: int, delta: int) -> NDArray[np.int64]:
    """Cut what is too large, and fill one silo after the other, as FedSage+ (NeurIPS 2021) does.

    With n nodes and M silos, a group above n // M - delta nodes is cut into pieces of that size. Pieces are dealt by
    falling size. A silo takes pieces until one would bring it to n // M + delta nodes or more, or until it has n // M;
    then the next silo that may takes over. A piece that fits nowhere goes to the smallest silo. The last pieces go to
    silos that would stay empty otherwise.

    Args:
        groups: Sets of nodes; together each of 0..n-1 once.
        silos: The number of silos M, 1..n.
        delta: 0 .. n // M - 1.

    Returns:
        The silo of each node, int64 [n] in 0..M-1; every silo has a node.
    """
    ordered = [sorted(group) for group in groups]
    n = sum(len(group) for group in ordered)
    size = n // silos - delta
    pieces = [group[start : start + size] for group in ordered for start in range(0, len(group), size)]
    pieces.sort(key=lambda piece: (-len(piece), piece[0]))
    silo_of = np.empty(n, dtype=np.int64)
    sizes = np.zeros(silos, dtype=np.int64)
    silo = 0
    for place, piece in enumerate(pieces):
        if len(pieces) - place == np.count_nonzero(sizes == 0):
            silo = int(np.argmin(sizes))
        else:
            silo = _next_with_room(sizes, silo, len(piece), n // silos, delta)
        silo_of[piece] = silo
        sizes[silo] += len(piece)
    return silo_of


def _next_with_room(sizes: NDArray[np.int64], silo: int, added: int, share: int, delta: int) -> int:
    # An empty silo has room even where delta is 0 and the piece is a whole share.
    fits = (sizes < share) & ((sizes + added < share + delta) | (sizes == 0))
    turn = (silo + np.arange(len(sizes))) % len(sizes)
    return int(turn[np.argmax(fits[turn])] if fits.any() else np.argmin(sizes))


def _first_with_room(sizes: NDArray[np.int64], added: int, room: int) -> int:
    fits = sizes + added <= room
    return int(np.argmax(fits) if fits.any() else np.argmin(sizes))
