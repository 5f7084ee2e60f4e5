"""Who takes part in training on a federated graph, and whose rows are summed for whom."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph
from fgl_secure.protocols.scheme import NO_HELPERS, Scheme
from fgl_secure.protocols.topology import Grouping
from fgl_secure.runtime import Channel, Directory, Role, Step


@dataclass(frozen=True, slots=True, eq=False)
class Between:
    """Sums over neighbours at other silos, each of which adds up what its own nodes send to one node.

    Attributes:
        grouping: of rows that silos own, for groups that silos own: a group a node of the graph, in their order.
        edges: int64 [2, m], sources above targets: what rows are sums along.
    """

    grouping: Grouping
    edges: NDArray[np.int64]

    def along(self, edges: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Bool [e]: which of the edges int64 [2, e] are among them."""
        most = int(max(self.edges.max(initial=0), edges.max(initial=0))) + 1
        return np.isin(edges[0] * most + edges[1], self.edges[0] * most + self.edges[1])


def hierarchy_of(graph: FederatedGraph, helpers: Mapping[Role, int] = NO_HELPERS) -> Directory:
    """The parties of a federated graph: one server, its silos, a device for every node, and the helpers of a scheme."""
    return Directory.hierarchy(graph.num_silos, graph.num_devices, helpers.get(Role.RELAY, 0))


def neighbour_sums(graph: FederatedGraph, *, crossing: bool = False) -> Grouping:
    """The grouped sums of message passing: every device sums over the devices with an edge to it.

    Args:
        graph: who has an edge to whom.
        crossing: whether over those of other silos alone.
    """
    parties = hierarchy_of(graph)
    devices, silos = parties.ids(Role.DEVICE), parties.ids(Role.SILO)[graph.silo_of]
    source, target = graph.edges[:, graph.crosses_silos] if crossing else graph.edges
    return Grouping(devices, devices, source, target, silos, silos)


def most_rows(silos: int) -> int:
    """Most rows of a sum that silos add up beforehand: one of each but its own."""
    return max(silos - 1, 1)


def helpers_of(schemes: Iterable[Scheme]) -> dict[Role, int]:
    """How many helpers the schemes of a run have together: each role as many as the scheme with the most."""
    result: dict[Role, int] = {}
    for scheme in schemes:
        for role, count in scheme.helpers.items():
            result[role] = max(count, result.get(role, 0))
    return result


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


OWN_EDGES, OWN_LABELS, OWN_NAMES = "own edges", "own labels", "own names"


def note_own_graph(channel: Channel, graph: FederatedGraph) -> None:
    """Records what every silo knows from the start: its nodes and their names, their edges, its labels.

    With each edge goes the silo of its other end. A name is what a public list calls a node; here that is its number.
    """
    note_membership(channel, graph.silo_of)
    silos, nodes = channel.parties.ids(Role.SILO), np.arange(graph.num_devices)
    channel.note_inputs(OWN_NAMES, Step(0), silos[graph.silo_of], np.stack([nodes, nodes], axis=1))
    node, neighbour = graph.edges
    ends = np.stack([node, neighbour, graph.silo_of[neighbour]], axis=1)
    channel.note_inputs(OWN_EDGES, Step(0), silos[graph.silo_of[node]], ends)
    labelled = np.flatnonzero(graph.train_mask)
    labels = np.stack([labelled, graph.labels[labelled]], axis=1)
    channel.note_inputs(OWN_LABELS, Step(0), silos[graph.silo_of[labelled]], labels)
