"""Graphs, their assignment to silos, and the data sets they come from.

    from fgl_secure.graph import FederatedGraph, load, partition, random_split

    graph = load("Cora")
    silo_of = partition("louvain", graph, silos=5, seed=0)
    federated = FederatedGraph.from_assignment(graph, silo_of, random_split(graph.num_nodes, seed=0), "louvain")

A `GraphSet` is many small graphs, of which every client has some: `load_set("Motif-basis")`.

The arrays are numpy's and read-only: a graph is checked once, when it is built. Nothing here is a protocol or a model.
"""

from __future__ import annotations

from fgl_secure.graph.attributed_graph import Graph
from fgl_secure.graph.data import Data, GraphSets
from fgl_secure.graph.datasets import GraphDataset, GraphSetDataset, available, describe, load, load_set
from fgl_secure.graph.federated_graph import FederatedGraph, boundary_nodes, degree_one_share, within_silos
from fgl_secure.graph.graph_sets import Batch, GraphSet
from fgl_secure.graph.own_files import read_assignment, read_graph
from fgl_secure.graph.partition import PARTITIONS, SplitMasks, partition, random_split

__all__ = [
    "PARTITIONS",
    "Batch",
    "Data",
    "FederatedGraph",
    "Graph",
    "GraphDataset",
    "GraphSet",
    "GraphSetDataset",
    "GraphSets",
    "SplitMasks",
    "available",
    "boundary_nodes",
    "degree_one_share",
    "describe",
    "load",
    "load_set",
    "partition",
    "random_split",
    "read_assignment",
    "read_graph",
    "within_silos",
]
