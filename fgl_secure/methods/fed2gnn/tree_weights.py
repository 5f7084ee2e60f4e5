"""Weights of messages on rooted trees, such that a root has its node's own embedding (Fed2GNN, Proposition 1).

A layer is H <- sigma(P H W + b), and for GraphSAGE H <- sigma(H W_own + P H W + b). P[v, u] is the weight of the
message from u to v, and need not be that from v to u. With D the number of neighbours in the graph + 1, and h the
embeddings in the graph, GCN has h_v <- sigma(sum of h_u W / sqrt(D_v D_u) over u in N_v and v itself).

Any K. Let position v of a tree hold c_v h_v with c_v > 0, and the leaf below v hold c times the sum of
x_j / sqrt(D_j) over the children j that it stands for, which one client can add up without knowing D_v. Then

    P[v, u] = c_v / (c_u sqrt(D_v D_u)), u a father, a child, a linked root or v itself,
    P[v, leaf] = c_v / (c sqrt(D_v))

gives c_v h_v again in the next layer, for ReLU commutes with positive factors; a bias does not, and v needs c_v b.
With c_v = 1 everywhere, the default, any activation and any bias will do. Messages to leaves reach no root within K
layers and have no weight.

Appendix A has K = 2, c_v = sqrt(3 / D_m) for the neighbours m of the root i and c = sqrt(2), by the degrees 3 and 2,
self-loops included, that they have in the tree (`published_scale`, for any K). Its weights are the ones above but for
one: it prints sqrt(3) / (D_i sqrt(D_m)) for the message from i to m, also in its Eq. 10. That is right only where the
two degrees agree. It has to be sqrt(3) / (D_m sqrt(D_i)).

GraphSAGE's mean needs the numbers of neighbours and no factors: P[v, u] = 1 / |N_v|, the leaf holding a plain sum.

A leaf serves models whose first step is linear. DAGNN puts rows through a perceptron first: its leaves would have to
add up what comes out, or trees be one layer deeper, so that K layers have their nodes laid out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fgl_secure.errors import InputError
from fgl_secure.methods.fed2gnn.tree_shape import FoldedTrees, TreeShape

Reals = NDArray[np.float64]
Counts = NDArray[np.integer[Any]] | Reals


def gcn_weights(shape: TreeShape, neighbours: Counts, scale: Reals | None = None) -> sparse.csr_array:
    """The weights of GCN on trees, self-loops included.

    Args:
        shape: the trees, folded: whatever is in the last layer holds a sum.
        neighbours: [t], |N| of the node that each position stands for; not looked at in the last layer.
        scale: float64 [t], the factor c of each position; None for 1 everywhere.

    Returns:
        float64 CSR [t, t], rows are receivers.

    Raises:
        InputError: an argument has the wrong length, or an entry out of range.
    """
    c = _checked_scale(shape, scale)
    root = np.sqrt(_checked_counts(shape, neighbours) + 1.0)
    source_root = np.where(shape.leaves, 1.0, root)  # a leaf's rows are divided before they are added up
    inner = np.flatnonzero(~shape.leaves)
    source, target = np.concatenate([_messages(shape), np.stack([inner, inner])], axis=1)
    weights = c[target] / (c[source] * root[target] * source_root[source])
    return _csr(shape, source, target, weights)


def gcn_rows(trees: FoldedTrees, neighbours: Counts, scale: Reals | None = None) -> sparse.csr_array:
    """What the positions of trees hold, as weights of nodes' features: c_v x_v, and c sum of x_j / sqrt(D_j) in leaves.

    Args:
        trees: folded.
        neighbours: [n], |N| of the nodes of the graph.
        scale: float64 [t], as in `gcn_weights`.

    Returns:
        float64 CSR [t, n]; times X [n, d] it gives the input of the first layer.
    """
    c, leaves = _checked_scale(trees.shape, scale), trees.shape.leaves
    divided = trees.holds @ sparse.diags_array(1 / np.sqrt(np.asarray(neighbours, dtype=np.float64) + 1))
    kinds = [sparse.diags_array(c * kind) @ rows for kind, rows in ((leaves, divided), (~leaves, trees.holds))]
    return sparse.csr_array(kinds[0] + kinds[1])


def published_scale(shape: TreeShape, neighbours: Counts) -> Reals:
    """The factors of Appendix A: the root of the degree in the tree over that in the graph, self-loops included.

    Returns:
        float64 [t]: 1 for roots and wherever the tree has all neighbours.
    """
    in_tree = shape.neighbours + 1.0
    in_graph = np.where(shape.leaves, 1.0, _checked_counts(shape, neighbours) + 1.0)
    scale = np.sqrt(in_tree / in_graph)
    scale[: shape.roots] = 1.0
    return scale


def sage_weights(shape: TreeShape, neighbours: Counts) -> sparse.csr_array:
    """The weights of GraphSAGE's mean on trees; own rows are not in it.

    Args:
        shape: the trees, folded: whatever is in the last layer holds a sum.
        neighbours: [t], |N| of the node that each position stands for; not looked at in the last layer.

    Returns:
        float64 CSR [t, t], rows are receivers.
    """
    count = _checked_counts(shape, neighbours)
    source, target = _messages(shape)
    return _csr(shape, source, target, 1 / np.maximum(count[target], 1))


def _messages(shape: TreeShape) -> NDArray[np.int64]:
    """int64 [2, m], all messages but those to leaves."""
    joined = shape.joined
    return joined[:, ~shape.leaves[joined[1]]]


def _csr(shape: TreeShape, source: NDArray[np.int64], target: NDArray[np.int64], weights: Reals) -> sparse.csr_array:
    return sparse.csr_array((weights, (target, source)), shape=(shape.size, shape.size))


def _checked_scale(shape: TreeShape, scale: Reals | None) -> Reals:
    if scale is None:
        return np.ones(shape.size)
    if scale.shape != (shape.size,) or not (np.isfinite(scale) & (scale > 0)).all():
        raise InputError(f"scale must be {shape.size} positive numbers; found shape {list(scale.shape)}")
    return scale


def _checked_counts(shape: TreeShape, neighbours: Counts) -> Reals:
    counts = np.asarray(neighbours, dtype=np.float64)
    if counts.shape != (shape.size,):
        raise InputError(f"neighbours must be [{shape.size}], one a position; found {list(counts.shape)}")
    if (counts < 0).any():
        raise InputError(f"neighbours must be 0 or more; found {counts.min():g}")
    return counts
