"""Sets of many small graphs, of which every client has some.

    from fgl_secure.graph.graph_sets import load_set

    sets = load_set("Motif-basis", seed=0)
    batch = sets.batch(sets.graphs_of(0)[:32])

Motif graphs are generated here; other packages add sets by entry points of group `fgl_secure.datasets`.
"""

from __future__ import annotations

from fgl_secure.graph.graph_sets.catalogue import GraphSetDataset, GraphSets, available_sets, describe_sets, load_set
from fgl_secure.graph.graph_sets.graph_set import Batch, GraphSet

__all__ = ["Batch", "GraphSet", "GraphSetDataset", "GraphSets", "available_sets", "describe_sets", "load_set"]
