"""Short runs of FedVN."""

from dataclasses import replace

import numpy as np
import torch

from fgl_secure.graph import SplitMasks
from fgl_secure.graph.datasets import load_set
from fgl_secure.graph.graph_sets import GraphSet
from fgl_secure.methods import FedVN
from fgl_secure.methods.fedvn.audit_runs import Setting
from fgl_secure.methods.fedvn.preset import fedvn_preset

QUICK = FedVN(epochs=6, virtual_nodes=3)


def setting(graphs: GraphSet | None = None, **choice: float) -> Setting:
    """How a small model is trained on a set, for two rounds unless chosen otherwise."""
    held = load_set("Motif-mini") if graphs is None else graphs
    preset = replace(fedvn_preset("honest", held.name), hidden=8, virtual_nodes=3, epochs=2)
    return Setting(held, held.union(), replace(preset, **choice), 0, torch.device("cpu"))  # type: ignore[arg-type]


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
