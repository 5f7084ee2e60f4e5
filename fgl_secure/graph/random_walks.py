"""Random walks on a graph that may turn back, stay near or move on with unequal chance (Grover and Leskovec 2016)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from fgl_secure.graph.attributed_graph import Graph


@dataclass(frozen=True, slots=True, eq=False)
class OutEdges:
    """Where each node's edges lead.

    Attributes:
        starts: int64 [n + 1], where each node's targets start.
        targets: int64 [m], sorted within each node.
    """

    starts: NDArray[np.int64]
    targets: NDArray[np.int64]

    @classmethod
    def of_graph(cls, graph: Graph) -> OutEdges:
        """The edges of a graph, by source."""
        source, target = graph.edges
        order = np.lexsort((target, source))
        counts = np.bincount(source, minlength=graph.num_nodes)
        return cls(np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), target[order])


def random_walks(
    edges: OutEdges, starts: NDArray[np.int64], steps: int, p: float, q: float, generator: np.random.Generator
) -> NDArray[np.int64]:
    """Walk from each start, an edge at a time; where no edge leads away, stay.

    From the second step on, the weight of an edge is 1/p where it leads back to the node before, 1 where that node has
    an edge to its target, and 1/q otherwise.

    Args:
        edges: The graph.
        starts: int64 [w], the first nodes.
        steps: The edges on a walk.
        p: Above 0.
        q: Above 0.
        generator: Draws the walks.

    Returns:
        int64 [w, steps + 1].
    """
    walks: NDArray[np.int64] = _walk(edges.starts, edges.targets, starts, steps, 1 / p, 1 / q, generator)
    return walks


@njit(cache=True)  # type: ignore[untyped-decorator]
def _walk(
    row_starts: NDArray[np.int64],
    targets: NDArray[np.int64],
    starts: NDArray[np.int64],
    steps: int,
    back: float,
    away: float,
    generator: np.random.Generator,
) -> NDArray[np.int64]:
    walks = np.empty((len(starts), steps + 1), np.int64)
    most = max(back, 1.0, away)
    for w in range(len(starts)):
        here = starts[w]
        before = -1
        walks[w, 0] = here
        for step in range(steps):
            row = targets[row_starts[here] : row_starts[here + 1]]
            chosen = here
            while len(row) > 0:  # until a draw is kept, with a chance in proportion to its weight
                chosen = row[int(generator.random() * len(row))]
                if before < 0 or (back == 1.0 and away == 1.0):
                    break
                known = targets[row_starts[before] : row_starts[before + 1]]
                place = np.searchsorted(known, chosen)
                if chosen == before:
                    weight = back
                elif place < len(known) and known[place] == chosen:
                    weight = 1.0
                else:
                    weight = away
                if generator.random() * most < weight:
                    break
            before = here
            here = chosen
            walks[w, step + 1] = here
    return walks
