"""What clients of Fed2GNN exchange on small graphs, recorded as attacks read it."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.truth import TreeTruth
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fed2gnn.audit_runs import HopSetting, drawn_hops, drawn_rows
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.scheme import Scheme
from tests.attacks.recorded import Run

Floats = NDArray[np.float64]


def record_hops(
    graph: FederatedGraph,
    values: Floats | None = None,
    *,
    hops: int = 3,
    scheme: Scheme | None = None,
    neighbours: int | None = None,
    **network: Any,
) -> Run:
    """Sums of all hops over normal rows; attackers know the whole graph."""
    scheme = scheme or Plaintext()
    rows = drawn_rows(graph.num_devices) if values is None else values
    setting = HopSetting(hops, scheme, neighbours)
    run = drawn_hops(graph, rows, setting, **network)
    return Run(graph, run.public, run.transcript, run.truth(TreeTruth), run.knowledge)
