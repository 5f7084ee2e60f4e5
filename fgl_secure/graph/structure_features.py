"""What is known of a node from the edges around it alone: the structure features of FedStruct (ICLR 2025, appendix A).

With the powers of the normalised adjacency that they rest on, as a party with the whole graph computes them.

All of them are functions of a graph's edges, its features and labels are not looked at.

The objective of Node2Vec (Grover and Leskovec, KDD 2016) is that of PyTorch Geometric's class, down to its float32
rounding. That class needs a compiled library that can't be had as a package everywhere, and spends most of its time on
copies; here the gradient is summed up pair by pair.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fgl_secure.errors import InputError, UnknownNameError
from fgl_secure.graph.attributed_graph import Graph
from fgl_secure.graph.graphlets import graphlet_degrees
from fgl_secure.graph.partition import seeded_generator
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
        node = starts[w]
        before = -1
        walks[w, 0] = node
        for step in range(steps):
            row = targets[row_starts[node] : row_starts[node + 1]]
            chosen = node
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
            before = node
            node = chosen
            walks[w, step + 1] = node
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


_BLOCK = 32
"""Columns that are multiplied at once: n times this many float64 are in memory, and never n times n."""


def looped_adjacency(graph: Graph) -> sparse.csr_array:
    """A + I: row v has a 1 at v and at every u with an edge from v to u (FedStruct, ICLR 2025, section 3).

    Returns:
        float64 CSR [n, n]; a self-loop of the graph counts once.
    """
    n = graph.num_nodes
    source, target = graph.edges
    nodes = np.arange(n)
    rows, columns = np.concatenate([source, nodes]), np.concatenate([target, nodes])
    looped = sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=(n, n))
    looped.data[:] = 1.0  # a self-loop and the one that is added are one
    return looped


def normalised_adjacency(graph: Graph) -> sparse.csr_array:
    """D^-1 (A + I) with D the row sums of A + I: float64 CSR [n, n] whose rows sum to 1."""
    looped = looped_adjacency(graph)
    return sparse.csr_array(sparse.diags_array(1 / looped.sum(axis=1)) @ looped)


def adjacency_powers(graph: Graph, hops: int, row_entries: int | None = None) -> list[sparse.csr_array]:
    """The powers 1 to `hops` of the normalised adjacency.

    Args:
        graph: the whole graph, n nodes.
        hops: the highest power L_s, at least 1.
        row_entries: entries p kept per node, by keeping the n p largest of the whole matrix after every multiplication
            and none of the others, without normalising anew (section 5.3); None keeps all.

    Returns:
        `hops` float64 CSR matrices [n, n].

    Raises:
        InputError: `hops` or `row_entries` is below 1.
    """
    if hops < 1:
        raise InputError(f"hops must be at least 1; found {hops}")
    if row_entries is not None and row_entries < 1:
        raise InputError(f"kept must be at least 1 entry a node; found {row_entries}")
    first = normalised_adjacency(graph)
    powers = [first]
    for _ in range(hops - 1):
        power = sparse.csr_array(first @ powers[-1])
        powers.append(power if row_entries is None else largest_entries(power, row_entries * graph.num_nodes))
    return powers


def combined_adjacency(powers: Sequence[sparse.csr_array], weights: Sequence[float] | None = None) -> sparse.csr_array:
    """The weighted sum of powers (Eq. 2), as the filter of section 5.2 has it from power 0 on: float64 CSR [n, n].

    Args:
        powers: powers 1 to L_s.
        weights: beta_0 to beta_{L_s}; None takes the last power alone, as the experiments of the paper do.
    """
    if weights is None:
        return powers[-1]
    if len(weights) != len(powers) + 1:
        raise InputError(f"weights must be {len(powers) + 1}, for the powers 0 to {len(powers)}; found {len(weights)}")
    total = sparse.csr_array(weights[0] * sparse.eye_array(powers[0].shape[0]))
    for weight, power in zip(weights[1:], powers, strict=True):
        total = sparse.csr_array(total + weight * power)
    return total


def largest_entries(matrix: sparse.csr_array, count: int) -> sparse.csr_array:
    """The `count` largest entries of a sparse matrix, all others left out; ties go to the earlier row and column."""
    if matrix.nnz <= count:
        return matrix
    matrix.sort_indices()
    order = np.argsort(-matrix.data, kind="stable")[:count]
    mask = np.zeros(matrix.nnz, dtype=np.bool_)
    mask[order] = True
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    return sparse.csr_array((matrix.data[mask], (rows[mask], matrix.indices[mask])), shape=matrix.shape)


def return_probabilities(graph: Graph, steps: int) -> NDArray[np.float64]:
    """The diagonals of the powers 1 to `steps` of A^ = D^-1 (A + I) (FedStruct, ICLR 2025, appendix A).

    Args:
        graph: The graph, n nodes; the walk follows the direction of edges.
        steps: The highest power, at least 1.

    Returns:
        float64 [n, steps] in [0, 1].

    Raises:
        InputError: `steps` is below 1.
    """
    if steps < 1:
        raise InputError(f"steps must be at least 1; found {steps}")
    matrix = _symmetric_matrix(graph) if graph.is_symmetric else normalised_adjacency(graph)
    return walk_returns(matrix, steps, symmetric=graph.is_symmetric)


def walk_returns(matrix: sparse.csr_array, steps: int, *, symmetric: bool) -> NDArray[np.float64]:
    """The diagonals of the powers 1 to `steps` of a matrix [n, n], float64 [n, steps].

    Args:
        matrix: of a step of the walk, or one with the same diagonals.
        steps: the highest power, at least 1.
        symmetric: whether it equals its transpose, which saves half the products.
    """
    diagonals, count = _symmetric_diagonals if symmetric else _diagonals, matrix.shape[0]
    returns = np.empty((count, steps))
    for start in range(0, count, _BLOCK):
        nodes = np.arange(start, min(start + _BLOCK, count))
        returns[nodes] = diagonals(matrix, nodes, steps)
    return returns


def _symmetric_matrix(graph: Graph) -> sparse.csr_array:
    """D^-1/2 (A + I) D^-1/2, whose powers have the same diagonals as those of D^-1 (A + I)."""
    looped = looped_adjacency(graph)
    root = sparse.diags_array(1 / np.sqrt(looped.sum(axis=1)))
    return sparse.csr_array(root @ looped @ root)


def _unit_columns(nodes: NDArray[np.int64], n: int) -> NDArray[np.float64]:
    columns = np.zeros((n, len(nodes)))
    columns[nodes, np.arange(len(nodes))] = 1
    return columns


def _diagonals(matrix: sparse.csr_array, nodes: NDArray[np.int64], steps: int) -> NDArray[np.float64]:
    """Entries (v, v) of the powers for the given nodes, float64 [nodes, steps]."""
    columns = _unit_columns(nodes, matrix.shape[0])
    diagonals = np.empty((len(nodes), steps))
    for step in range(steps):
        columns = matrix @ columns
        diagonals[:, step] = columns[nodes, np.arange(len(nodes))]
    return diagonals


def _symmetric_diagonals(matrix: sparse.csr_array, nodes: NDArray[np.int64], steps: int) -> NDArray[np.float64]:
    """The same for a symmetric N, with half the multiplications: entry (v, v) of N^(s+t) is N^s e_v times N^t e_v."""
    before = _unit_columns(nodes, matrix.shape[0])
    diagonals = np.empty((len(nodes), steps))
    for step in range(0, steps, 2):
        columns = matrix @ before
        diagonals[:, step] = np.einsum("ij,ij->j", before, columns)
        if step + 1 < steps:
            diagonals[:, step + 1] = np.einsum("ij,ij->j", columns, columns)
        before = columns
    return diagonals


_FEDSTAR_STEPS = 50
"""The random walk's share of FedStar features, in steps, as in FedStruct's public code."""

_HOP2VEC_DEVIATION = 0.05

LEARNT = "hop2vec"
"""Name of the features that training changes; the others are fixed."""


def hop2vec_start(n: int, d: int, seed: int) -> NDArray[np.float32]:
    """Draw the features that Hop2Vec starts from and then learns: float32 [n, d] from N(0, 0.05^2).

    Raises:
        InputError: `n` or `d` is below 1, or `seed` is negative.
    """
    if min(n, d) < 1:
        raise InputError(f"n and d must be at least 1; found {n} and {d}")
    return seeded_generator(seed).normal(0.0, _HOP2VEC_DEVIATION, size=(n, d)).astype(np.float32)


def _one_hot_degree(graph: Graph, width: int) -> NDArray[np.float32]:
    """A single 1 at the degree of each node; all degrees from width - 1 on share the last column.

    A node that is joined to others in one direction only counts those half, and halves are rounded to the even number,
    as in FedStruct's public code; in an undirected graph that is the degree.
    """
    if width < 2:
        raise InputError(f"width must be at least 2; found {width}")
    out_degree = np.bincount(graph.edges[0], minlength=graph.num_nodes)
    degree = np.rint((out_degree + graph.in_degree) / 2).astype(np.int64)
    encoded = np.zeros((graph.num_nodes, width), dtype=np.float32)
    encoded[np.arange(graph.num_nodes), np.minimum(degree, width - 1)] = 1
    return encoded


def _fedstar(graph: Graph, width: int) -> NDArray[np.float32]:
    """Return probabilities of 50 steps beside the one-hot degree: the features of FedStar (AAAI 2023).

    The walk is the one of FedStruct, by D^-1 (A + I) and so with a loop at every node, in place of FedStar's own.
    """
    if width < _FEDSTAR_STEPS + 2:
        raise InputError(f"width must be at least {_FEDSTAR_STEPS + 2} for fedstar; found {width}")
    walk = return_probabilities(graph, _FEDSTAR_STEPS).astype(np.float32)
    return np.concatenate([walk, _one_hot_degree(graph, width - _FEDSTAR_STEPS)], axis=1)


def _standardised_graphlets(graph: Graph) -> NDArray[np.float32]:
    """Graphlet degrees, each column shifted and scaled to mean 0 and variance 1; a constant column becomes 0."""
    counts = graphlet_degrees(graph)
    centred = counts.astype(np.float64) - counts.mean(axis=0, dtype=np.float64)
    deviation = centred.std(axis=0)
    scaled: NDArray[np.float32] = (centred / np.where(deviation > 0, deviation, 1.0)).astype(np.float32)
    return scaled


STRUCTURE_FEATURES: Mapping[str, Callable[[Graph, int, int], NDArray[np.float32]]] = MappingProxyType(
    {
        LEARNT: lambda graph, width, seed: hop2vec_start(graph.num_nodes, width, seed),
        "degree": lambda graph, width, _seed: _one_hot_degree(graph, width),
        "graphlet": lambda graph, _width, _seed: _standardised_graphlets(graph),
        "fedstar": lambda graph, width, _seed: _fedstar(graph, width),
        "node2vec": lambda graph, width, seed: node2vec(graph, Node2VecSettings(width=width), seed),
    }
)
"""By name, as FedStruct's experiments set them: a graph, the width d_s and a seed give float32 [n, d_s].

Graphlet features have 73 columns whatever the width; only `hop2vec` and `node2vec` draw anything.
"""


def structure_features(name: str, graph: Graph, width: int, seed: int) -> NDArray[np.float32]:
    """Compute the structure features of that name, as `STRUCTURE_FEATURES` says.

    Raises:
        UnknownNameError: There are no structure features of that name.
        InputError: `width` is too small for them, or `seed` is negative.
    """
    if name not in STRUCTURE_FEATURES:
        raise UnknownNameError("structure features", name, tuple(STRUCTURE_FEATURES))
    return STRUCTURE_FEATURES[name](graph, width, seed)
