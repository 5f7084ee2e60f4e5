"""Small sets of random graphs, and their batches in double precision."""

from dataclasses import replace

import numpy as np
import torch

from fgl_secure.graph import SplitMasks
from fgl_secure.graph.datasets import load_set
from fgl_secure.graph.graph_sets import GraphSet
from fgl_secure.methods import FedVN
from fgl_secure.methods.fedvn.audit_target import TrainingSetting
from fgl_secure.methods.fedvn.batches import GraphBatch
from fgl_secure.methods.fedvn.preset import fedvn_preset

CLIENTS, EACH = 3, 10


def random_set(seed: int = 0, *, constant: bool = True, values: bool = False, classes: int = 3) -> GraphSet:
    """Ten graphs of 1 to 6 nodes at each of three clients: with isolated nodes, and some without any edge."""
    draws = np.random.default_rng(seed)
    count = CLIENTS * EACH
    sizes = draws.integers(1, 7, count)
    graph_of = np.repeat(np.arange(count), sizes)
    source, target = np.nonzero(graph_of[:, None] == graph_of[None])
    some = (source < target) & (graph_of[source] % 4 != 0) & (draws.random(len(source)) < 0.6)
    inside = np.stack([source[some], target[some]])
    features = np.ones((len(graph_of), 1)) if constant else draws.normal(size=(len(graph_of), 2))
    targets = draws.normal(size=count) if values else draws.integers(0, classes, count)
    place = np.tile(np.arange(EACH), CLIENTS)
    masks = SplitMasks(place < 6, (place >= 6) & (place < 8), place >= 8)
    edges = np.concatenate([inside, inside[::-1]], axis=1)
    client_of = np.repeat(np.arange(CLIENTS), EACH)
    return GraphSet.from_arrays("random", features, edges, graph_of, targets, client_of, masks, "none")


def bonded(sets: GraphSet, types: int = 3) -> GraphSet:
    """Return the same graphs with typed edges."""
    masks = SplitMasks(sets.train, sets.validation, sets.test)
    arrays = sets.features, sets.edges, sets.graph_of, sets.targets, sets.client_of, masks, sets.shift
    return GraphSet.from_arrays(sets.name, *arrays, edge_types=sets.edges.sum(axis=0) % types)


def doubled(batch: GraphBatch) -> GraphBatch:
    """The same in float64, where a comparison with a slow computation is sharp."""
    features, reach, bonds = batch.features.double(), batch.reach.to(torch.float64), batch.bonds
    if bonds is not None:
        ends = ("sources", "outgoing", "targets", "incoming")
        bonds = replace(bonds, **{end: getattr(bonds, end).to(torch.float64) for end in ends})
    return replace(
        batch,
        features=features,
        summed_rows=reach @ features if batch.kind_of is None else batch.summed_rows.double(),
        kind_of=None if batch.kind_of is None else batch.kind_of.double(),
        reach=reach,
        mean=batch.mean.to(torch.float64),
        spread=batch.spread.to(torch.float64),
        bonds=bonds,
    )


QUICK = FedVN(epochs=6, virtual_nodes=3)


def setting(graphs: GraphSet | None = None, **choice: float) -> TrainingSetting:
    """How a small model is trained on a set, for two rounds unless chosen otherwise."""
    held = load_set("Motif-mini") if graphs is None else graphs
    preset = replace(fedvn_preset("honest", held.name), hidden=8, virtual_nodes=3, epochs=2)
    return TrainingSetting(held, held.union(), replace(preset, **choice), 0, torch.device("cpu"))  # type: ignore[arg-type]


def values() -> GraphSet:
    """Two clients with eight graphs of two nodes each, whose targets are values."""
    graphs = 16
    edges = np.arange(2 * graphs).reshape(graphs, 2).T
    train = np.arange(graphs) % 4 < 2
    validation = np.arange(graphs) % 4 == 2
    return GraphSet.from_arrays(
        "values",
        np.random.default_rng(0).normal(size=(2 * graphs, 2)),
        np.concatenate([edges, edges[::-1]], axis=1),
        np.repeat(np.arange(graphs), 2),
        np.linspace(0.0, 1.0, graphs),
        np.arange(graphs) // 8,
        SplitMasks(train, validation, ~(train | validation)),
        "nothing",
    )
