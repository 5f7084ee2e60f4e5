"""What clients of Fed2GNN exchange on small graphs, recorded as attacks read it."""

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.truth import TreeTruth
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fed2gnn.audit_runs import HopSetting, drawn_hops, drawn_rows
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.scheme import Scheme
from tests.attacks.recorded import Run
from tests.attacks.structure.hop_runs import Network

Floats = NDArray[np.float64]


def record_hops(
    graph: FederatedGraph,
    values: Floats | None = None,
    *,
    hops: int = 3,
    scheme: Scheme | None = None,
    neighbours: int | None = None,
    network: Network | None = None,
) -> Run:
    """Sums of all hops over normal rows; attackers know the whole graph."""
    network, scheme = network or Network(), scheme or Plaintext()
    rows = drawn_rows(graph.num_devices) if values is None else values
    setting = HopSetting(hops, scheme, neighbours)
    run = drawn_hops(graph, rows, setting, recording=network.recording, loss=network.loss)
    return Run(graph, run.public, run.transcript, run.truth(TreeTruth), run.knowledge)
