"""One round of message passing without a model: the smallest run of a scheme on a graph."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.hifgl.hierarchy import note_membership
from fgl_secure.methods.hifgl.program import neighbour_sums
from fgl_secure.protocols.collective import Collective
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.topology import NEIGHBOURS, Topology
from fgl_secure.runtime import Channel, Direction, Step


def exchange(
    graph: FederatedGraph,
    scheme: Scheme,
    channel: Channel,
    values: NDArray[np.floating[Any]],
    *,
    both_ways: bool = False,
) -> NDArray[np.float64]:
    """Every device sends one row to each of its neighbours and gets the sum of what it was sent.

    Args:
        graph: who is whose neighbour, and in which silo.
        scheme: how the sums are computed.
        channel: between the parties of `hierarchy_of(graph, scheme.helpers)`.
        values: [n, d], the row of each device.
        both_ways: whether the rows also travel along the reversed edges, as gradients do.

    Returns:
        float64 [n, d], the sums of the forward pass.
    """
    if values.ndim != 2 or len(values) != graph.num_devices:
        raise InputError(f"values must be [{graph.num_devices}, d]; found {list(values.shape)}")
    note_membership(channel, graph.silo_of)
    session = Collective(scheme, Topology(NEIGHBOURS, neighbour_sums(graph), values.shape[1]), channel)
    sums = session.sum(values, Step(0, 0))
    if both_ways:
        session.sum(values, Step(0, 0, Direction.BACKWARD))
    return sums
