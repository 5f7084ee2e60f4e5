"""Who takes part in training on a federated graph, and whose rows are summed for whom."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph
from fgl_secure.protocols.scheme import NO_HELPERS, Scheme
from fgl_secure.protocols.topology import Grouping
from fgl_secure.runtime import Channel, Directory, Role, Step


def hierarchy_of(graph: FederatedGraph, helpers: Mapping[Role, int] = NO_HELPERS) -> Directory:
    """The parties of a federated graph: one server, its silos, a device for every node, and the helpers of a scheme."""
    return Directory.hierarchy(graph.num_silos, graph.num_devices, helpers.get(Role.RELAY, 0))


def neighbour_sums(graph: FederatedGraph) -> Grouping:
    """The grouped sums of message passing: every device sums over the devices with an edge to it."""
    parties = hierarchy_of(graph)
    devices, silos = parties.ids(Role.DEVICE), parties.ids(Role.SILO)[graph.silo_of]
    return Grouping(devices, devices, graph.edges[0], graph.edges[1], silos, silos)


def helpers_of(schemes: Iterable[Scheme]) -> dict[Role, int]:
    """How many helpers the schemes of a run have together: each role as many as the scheme with the most."""
    found: dict[Role, int] = {}
    for scheme in schemes:
        for role, count in scheme.helpers.items():
            found[role] = max(count, found.get(role, 0))
    return found


def check_parties(graph: FederatedGraph, schemes: Mapping[str, Scheme], channel: Channel) -> None:
    """Raises unless a channel joins the parties of a graph and the helpers of the schemes."""
    parties = hierarchy_of(graph, helpers_of(schemes.values()))
    if channel.parties != parties:
        raise InputError(
            f"channel must join the parties of the graph and the schemes, {dict(parties.counts)}; "
            f"found {dict(channel.parties.counts)}"
        )


def note_membership(channel: Channel, silo_of: NDArray[np.int64]) -> None:
    """Records what every silo knows from the start: the identities of its own devices (HiFGL, 4.1.2).

    Args:
        channel: between the parties of the hierarchy.
        silo_of: int64 [n], the silo of each device.
    """
    owners = channel.parties.ids(Role.SILO)[silo_of]
    channel.note_inputs("own devices", Step(0), owners, channel.parties.ids(Role.DEVICE))
