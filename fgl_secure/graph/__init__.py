"""Graphs, their assignment to silos, and the data sets they come from.

    from fgl_secure.graph import FederatedGraph, load, partition, random_split

    graph = load("Cora")
    silo_of = partition("louvain", graph, silos=5, seed=0)
    federated = FederatedGraph.from_assignment(graph, silo_of, random_split(graph.num_nodes, seed=0), "louvain")

The arrays are numpy's and read-only: a graph is checked once, when it is built. Nothing here is a protocol or a model.
"""

from __future__ import annotations

from fgl_secure.graph.attributed_graph import Graph
from fgl_secure.graph.data import Data
from fgl_secure.graph.datasets import GraphDataset, available, describe, load
from fgl_secure.graph.federated_graph import (
    FederatedGraph,
    boundary_nodes,
    boundary_share,
    degree_one_share,
    within_silos,
)
from fgl_secure.graph.own_files import read_assignment, read_graph
from fgl_secure.graph.partition import (
    PARTITIONS,
    binomial_partition,
    kmeans_partition,
    louvain_delta_partition,
    louvain_partition,
    packed_louvain_partition,
    partition,
    random_partition,
)
from fgl_secure.graph.split import SplitMasks, random_split

__all__ = [
    "PARTITIONS",
    "Data",
    "FederatedGraph",
    "Graph",
    "GraphDataset",
    "SplitMasks",
    "available",
    "binomial_partition",
    "boundary_nodes",
    "boundary_share",
    "degree_one_share",
    "describe",
    "kmeans_partition",
    "load",
    "louvain_delta_partition",
    "louvain_partition",
    "packed_louvain_partition",
    "partition",
    "random_partition",
    "random_split",
    "read_assignment",
    "read_graph",
    "within_silos",
]
