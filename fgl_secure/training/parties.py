"""Who takes part in training on a federated graph, and whose rows are summed for whom."""

from __future__ import annotations

from collections.abc import Mapping

from fgl_secure.graph import FederatedGraph
from fgl_secure.protocols.scheme import NO_HELPERS
from fgl_secure.protocols.topology import Grouping
from fgl_secure.runtime import Directory, Role


def hierarchy_of(graph: FederatedGraph, helpers: Mapping[Role, int] = NO_HELPERS) -> Directory:
    """The parties of a federated graph: one server, its silos, a device for every node, and the helpers of a scheme."""
    return Directory.hierarchy(graph.num_silos, graph.num_devices, helpers.get(Role.RELAY, 0))


def neighbour_sums(graph: FederatedGraph) -> Grouping:
    """The grouped sums of message passing: every device sums over the devices with an edge to it."""
    parties = hierarchy_of(graph)
    devices, silos = parties.ids(Role.DEVICE), parties.ids(Role.SILO)[graph.silo_of]
    return Grouping(devices, devices, graph.edges[0], graph.edges[1], silos, silos)
