"""The rules that a set of graphs must keep, and what is said where it breaks one."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fgl_secure.errors import InputError
from fgl_secure.graph.assignment_checks import AssignmentRules
from fgl_secure.graph.attributed_graph import MOST_CLASSES, Graph, integers, read_only

CLIENTS = AssignmentRules("client_of", "graph", "client")


def checked_graph_of(values: ArrayLike, num_nodes: int) -> NDArray[np.int64]:
    """The graph of each node: ascending, none left out.

    Raises:
        InputError: It is not; the message names the node.
    """
    graph_of = integers("graph_of", values)
    if graph_of.shape != (num_nodes,):
        raise InputError(f"graph_of must have shape ({num_nodes},), one entry a node; found shape {graph_of.shape}")
    if graph_of[0] != 0:
        raise InputError(f"graph_of must begin with graph 0; node 0 has graph {graph_of[0]}")
    jumps = np.diff(graph_of)
    wrong = np.flatnonzero((jumps < 0) | (jumps > 1))
    if len(wrong):
        node = int(wrong[0]) + 1
        raise InputError(
            f"graph_of must ascend and leave out no graph; node {node} has graph {graph_of[node]} after "
            f"{graph_of[node - 1]}"
        )
    return graph_of


def check_edges_inside_graphs(graph: Graph, graph_of: NDArray[np.int64]) -> None:
    """Check that no edge joins two graphs, and that every edge goes both ways.

    Raises:
        InputError: One does; the message names its nodes.
    """
    between = graph_of[graph.edges[0]] != graph_of[graph.edges[1]]
    if between.any():
        source, target = graph.edges[:, int(np.argmax(between))]
        raise InputError(f"edges must stay inside one graph; {source} -> {target} joins two")
    if not graph.is_symmetric:
        source, target = graph.edges
        there, back = target * graph.num_nodes + source, source * graph.num_nodes + target
        lonely = int(np.argmax(~np.isin(back, there)))
        raise InputError(f"edges must be there in both directions; {source[lonely]} -> {target[lonely]} has no return")


def checked_node_types(features: NDArray[np.float32], node_types: bool) -> None:
    """Check that types of nodes, where features are that, are one column of integers from 0.

    Raises:
        InputError: They are not.
    """
    if not node_types:
        return
    if features.shape[1] != 1:
        raise InputError(f"features must be one column where node_types is set; found {features.shape[1]} columns")
    wrong = (features[:, 0] < 0) | (features[:, 0] != np.floor(features[:, 0]))
    if wrong.any():
        node = int(np.argmax(wrong))
        raise InputError(
            f"features must be integers from 0 where node_types is set; node {node} has {features[node, 0]}"
        )


def checked_targets(values: ArrayLike, num_graphs: int) -> NDArray[np.int64] | NDArray[np.float32]:
    """Labels as int64 or values as float32, one a graph.

    Raises:
        InputError: They are neither; the message names the graph.
    """
    raw = np.asarray(values)
    if raw.dtype.kind not in "iuf":
        raise InputError(f"targets must be integers (labels) or real numbers (values); found dtype {raw.dtype}")
    if raw.shape != (num_graphs,):
        raise InputError(f"targets must have shape ({num_graphs},), one a graph; found shape {raw.shape}")
    if raw.dtype.kind == "f":
        wrong = ~np.isfinite(raw.astype(np.float32))
        rule = "finite"
    else:
        wrong = (raw < 0) | (raw >= MOST_CLASSES)
        rule = f"in 0..{MOST_CLASSES - 1} where they are labels"
    if wrong.any():
        graph = int(np.argmax(wrong))
        raise InputError(f"targets must be {rule}; graph {graph} has {raw[graph]}")
    return read_only(raw.astype(np.float32)) if raw.dtype.kind == "f" else read_only(raw.astype(np.int64))
