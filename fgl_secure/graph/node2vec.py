"""Node2Vec (Grover and Leskovec, KDD 2016): vectors of nodes such that nodes met on the same random walk are alike.

The objective is that of PyTorch Geometric's Node2Vec, down to its float32 rounding. Its own class needs a compiled
library that can't be had as a package everywhere, and spends most of its time on copies; here the gradient is summed up
pair by pair.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgl_secure.errors import InputError
from fgl_secure.graph.attributed_graph import Graph
from fgl_secure.graph.split import seeded_generator
from fgl_secure.threads import njit


def out_edges(graph: Graph) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where each node's edges lead: int64 [n + 1], where its targets start; int64 [m], targets, sorted for each."""
    source, target = graph.edges
    order = np.lexsort((target, source))
    counts = np.bincount(source, minlength=graph.num_nodes)
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), target[order]


@njit()
def random_walks(
    row_starts: NDArray[np.int64],
    targets: NDArray[np.int64],
    starts: NDArray[np.int64],
    steps: int,
    p: float,
    q: float,
    generator: np.random.Generator,
) -> NDArray[np.int64]:
    """Walk from each start, an edge at a time; where no edge leads away, stay.

    From the second step on, the weight of an edge is 1/p where it leads back to the node before, 1 where that node has
    an edge to its target, and 1/q otherwise.

    Args:
        row_starts: int64 [n + 1], see `out_edges`.
        targets: int64 [m].
        starts: int64 [w], the first nodes.
        steps: The edges on a walk.
        p: Above 0.
        q: Above 0.
        generator: Draws the walks.

    Returns:
        int64 [w, steps + 1].
    """
    back, away = 1 / p, 1 / q
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


_EPSILON = np.float32(1e-15)


@dataclass(frozen=True, slots=True)
class Node2VecSettings:
    """How the vectors are learned; the defaults are those of FedStruct's experiments.

    Attributes:
        width: The length of a vector.
        epochs: Passes over all nodes.
        walk_nodes: The nodes on a walk, the first one included.
        context: The nodes in a window that slides over a walk; its first node is paired with each of the others.
        walks_per_node: The walks that start at a node in each epoch.
        batch: The nodes whose walks make one step of the optimiser.
        learning_rate: Adam's.
        p: The larger, the less a walk goes back where it came from.
        q: The larger, the more a walk stays near where it came from.
        negatives: Walks over random nodes for each true one.
    """

    width: int = 256
    epochs: int = 50
    walk_nodes: int = 20
    context: int = 10
    walks_per_node: int = 10
    batch: int = 128
    learning_rate: float = 0.01
    p: float = 1.0
    q: float = 1.0
    negatives: int = 1

    def __post_init__(self) -> None:
        for name in ("width", "epochs", "walks_per_node", "batch", "negatives"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1; found {getattr(self, name)}")
        if not 2 <= self.context <= self.walk_nodes:
            raise InputError(f"context must be in 2..{self.walk_nodes}, the nodes on a walk; found {self.context}")
        for name in ("learning_rate", "p", "q"):
            if not getattr(self, name) > 0:
                raise InputError(f"{name} must be above 0; found {getattr(self, name)}")


def node2vec(graph: Graph, settings: Node2VecSettings, seed: int) -> NDArray[np.float32]:
    """Learn a vector for each node from random walks, with negative sampling and sparse Adam.

    Args:
        graph: The graph, n nodes; walks follow the direction of edges, and stay where no edge leads away.
        settings: Lengths and rates.
        seed: Repeats the result under one version of numpy and torch.

    Returns:
        float32 [n, width].

    Raises:
        InputError: `seed` is negative.
    """
    import torch  # noqa: PLC0415 (seconds that only this feature needs)

    generator = seeded_generator(seed)
    n = graph.num_nodes
    vectors = generator.standard_normal((n, settings.width), dtype=np.float32)
    parameter = torch.nn.Parameter(torch.from_numpy(vectors))
    optimiser = torch.optim.SparseAdam([parameter], lr=settings.learning_rate)
    edges = out_edges(graph)
    for _ in range(settings.epochs):
        order = generator.permutation(n)
        for start in range(0, n, settings.batch):
            nodes = order[start : start + settings.batch]
            gradient, touched = _batch_gradient(vectors, edges, nodes, settings, generator)
            rows = torch.from_numpy(np.flatnonzero(touched))
            parameter.grad = torch.sparse_coo_tensor(
                rows[None],
                torch.from_numpy(gradient[touched]),
                (n, settings.width),
                is_coalesced=True,
                check_invariants=False,
            )
            optimiser.step()  # type: ignore[no-untyped-call]
    return vectors


def _batch_gradient(
    vectors: NDArray[np.float32],
    edges: tuple[NDArray[np.int64], NDArray[np.int64]],
    nodes: NDArray[np.int64],
    settings: Node2VecSettings,
    generator: np.random.Generator,
) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """The gradient of one batch's loss, float32 [n, width], and the nodes that the batch met, bool [n]."""
    starts = np.tile(nodes, settings.walks_per_node)
    walks = random_walks(*edges, starts, settings.walk_nodes - 1, settings.p, settings.q, generator)
    noise = generator.integers(len(vectors), size=(len(starts) * settings.negatives, settings.walk_nodes))
    noise[:, 0] = np.tile(starts, settings.negatives)
    gradient = np.zeros_like(vectors)
    touched = np.zeros(len(vectors), dtype=np.bool_)
    add_loss_gradient(vectors, walks, settings.context, True, gradient, touched)
    add_loss_gradient(vectors, noise, settings.context, False, gradient, touched)
    return gradient, touched


@njit(fastmath={"reassoc", "contract"})
def add_loss_gradient(
    vectors: NDArray[np.float32],
    walks: NDArray[np.int64],
    context: int,
    positive: bool,
    gradient: NDArray[np.float32],
    touched: NDArray[np.bool_],
) -> float:
    """Add the gradient of the mean loss over all pairs of a window's first node with its others.

    The loss of a pair with product x is -log(sigmoid(x) + 1e-15) for true walks and -log(1 - sigmoid(x) + 1e-15) for
    random ones, in float32: where the sigmoid rounds to 1, a random pair no longer has a gradient.

    Args:
        vectors: float32 [n, d].
        walks: int64 [w, nodes].
        context: The nodes in a window.
        positive: Whether the walks are true ones.
        gradient: float32 [n, d], added to in place.
        touched: bool [n], set in place where a node is in a window.

    Returns:
        The mean loss.
    """
    windows = walks.shape[1] - context + 1
    scale = np.float32(1.0 / (len(walks) * windows * (context - 1)))
    sign = np.float32(-1) if positive else np.float32(1)
    width = vectors.shape[1]
    loss = 0.0
    for w in range(len(walks)):
        for j in range(windows):
            u = walks[w, j]
            first, slope_of_first = vectors[u], gradient[u]
            touched[u] = True
            for i in range(j + 1, j + context):
                v = walks[w, i]
                other, slope_of_other = vectors[v], gradient[v]
                touched[v] = True
                product = np.float32(0)
                for k in range(width):
                    product += first[k] * other[k]
                chance = np.float32(1) / (np.float32(1) + np.exp(-product))
                likely = chance if positive else np.float32(1) - chance
                loss -= np.log(likely + _EPSILON)
                slope = sign * scale * (chance * (np.float32(1) - chance) / (likely + _EPSILON))
                if slope != 0:  # most random pairs, once they are told apart
                    for k in range(width):
                        slope_of_first[k] += slope * other[k]
                    for k in range(width):
                        slope_of_other[k] += slope * first[k]
    return float(loss * scale)
