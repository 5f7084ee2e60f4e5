"""Sets of many small graphs, of which every client has some.

    from fgl_secure.graph.graph_sets import load_set

    sets = load_set("Motif-basis", seed=0)
    batch = sets.batch(sets.graphs_of(0)[:32])

Motif graphs are generated here. Coloured digits and molecules need raw files and an optional library each.
"""

from __future__ import annotations

from fgl_secure.graph.graph_sets.catalogue import GraphSetInfo, GraphSets, available_sets, describe_sets, load_set
from fgl_secure.graph.graph_sets.graph_set import Batch, GraphSet

__all__ = ["Batch", "GraphSet", "GraphSetInfo", "GraphSets", "available_sets", "describe_sets", "load_set"]
