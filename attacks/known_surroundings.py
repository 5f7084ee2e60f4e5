"""Edges of nodes whose whole surroundings an observer knows: what a sum over them is made of, and what is in reach."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.edge_claims import foreign_edges, linked_pairs
from fgl_secure.attacks.row_space import exposed, row_basis
from fgl_secure.attacks.truth import LinkedDevices

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]

MARGIN = 4
"""How many times its bound a rounding error may be."""


def explained_by(known: Floats, error: Floats, change: Floats, later: Floats, slack: float) -> Ids:
    """The one or two known rows that a change consists of; none where no, or more than one, explanation fits.

    Args:
        known: float64 [k, w], candidates.
        error: float64 [k], how far each may be off.
        change: float64 [w]; each row in it adds `later` to what must be explained, as it adds 1 to the degree.
        later: float64 [w].
        slack: how far the change may be off.

    Returns:
        int64, positions of the rows.
    """
    if np.abs(change).max() <= slack:
        return np.empty(0, dtype=np.int64)  # no foreign neighbour
    one = np.flatnonzero(np.abs(known - (change + later)).max(axis=1) <= slack + error)
    order = np.argsort(known[:, 0], kind="stable")
    first, wanted = known[order, 0], change + 2 * later
    reach = slack + 2 * float(error.max(initial=0.0))
    start, stop = (np.searchsorted(first, wanted[0] - known[:, 0] + d) for d in (-reach, reach))
    a = np.repeat(np.arange(len(known)), stop - start)
    offset = np.arange(len(a)) - np.repeat(np.cumsum(stop - start) - (stop - start), stop - start)
    b = order[np.repeat(start, stop - start) + offset]
    a, b = a[a < b], b[a < b]
    off = np.abs(known[a] + known[b] - wanted).max(axis=1, initial=0.0)
    fits = off <= slack + error[a] + error[b]
    if len(one) + int(fits.sum()) != 1:
        return np.empty(0, dtype=np.int64)
    return one.astype(np.int64) if len(one) else np.concatenate([a[fits], b[fits]])


def edges_of_known_surroundings(truth: LinkedDevices) -> NDArray[np.bool_]:
    """Bool [m] in the order of `foreign_edges`: whether an end and all its neighbours are read or the client's own."""
    client, lower, upper = foreign_edges(truth)
    edges, silo_of = linked_pairs(truth), truth.silo_of
    closed = np.zeros((int(silo_of.max()) + 1, len(silo_of)), dtype=np.bool_)
    for index in range(len(closed)):
        own = silo_of == index
        crossing = edges[np.flatnonzero(own)][:, np.flatnonzero(~own)]
        outside = np.flatnonzero(crossing.sum(axis=0))
        read = np.zeros(len(own), dtype=np.bool_)
        read[np.flatnonzero(~own)[outside]] = exposed(row_basis(crossing[:, outside].toarray()))
        closed[index] = read & ((edges @ (~(read | own)).astype(np.float64)) == 0)
    return np.asarray(closed[client, lower] | closed[client, upper])
