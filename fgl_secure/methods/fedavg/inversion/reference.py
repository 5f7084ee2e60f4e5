"""The run that attacks by gradient matching must break: small batches on small trees, under a smooth activation."""

from __future__ import annotations

import networkx as nx
import numpy as np

from fgl_secure.attacks.gradient_model import Convolution
from fgl_secure.auditing.recorded_run import RecordedRun
from fgl_secure.graph import FederatedGraph, Graph, SplitMasks
from fgl_secure.methods.fedavg.inversion.rounds import drawn_batches, fresh_model, recorded_round

SILOS, NODES, ENTRIES, CLASSES = 4, 8, 32, 4
SEED = 3


def smooth_reference() -> RecordedRun:
    """A round of GraphSAGE with two layers and softplus between them, one node a batch, in the clear."""
    graph = small_trees(SEED)
    return recorded_round(graph, fresh_model(graph, Convolution.SAGE), drawn_batches(graph, 1, 0))


def small_trees(seed: int) -> FederatedGraph:
    """A random tree of eight nodes in each of four silos, rows of 32 numbers in [0, 1], all nodes labelled."""
    rng, total = np.random.default_rng(seed), SILOS * NODES
    trees = [nx.random_labeled_tree(NODES, seed=seed + silo) for silo in range(SILOS)]
    pairs = np.array(nx.disjoint_union_all(trees).edges, dtype=np.int64)
    edges = np.concatenate([pairs, pairs[:, ::-1]]).T
    graph = Graph.from_arrays("trees", rng.random((total, ENTRIES)), rng.integers(CLASSES, size=total), edges)
    everyone = np.ones(total, dtype=np.bool_)
    split = SplitMasks(everyone, ~everyone, ~everyone)
    return FederatedGraph.from_assignment(graph, np.arange(total) // NODES, split)
