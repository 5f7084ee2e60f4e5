"""One sum over clients as its callers open it: a collective in the place of a session."""

from __future__ import annotations

from fgl_secure.errors import InputError
from fgl_secure.protocols.collective import Collective
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.topology import CLIENTS, SERVER, Topology
from fgl_secure.protocols.vector_sum import Integers, VectorGroup, VectorSession, check_rows
from fgl_secure.runtime import Channel, Step


def topology_of(group: VectorGroup, length: int, bound: int) -> Topology:
    """The topology of a group's sums.

    Raises:
        InputError: length or bound is below 1, or the aggregator is one of the senders.
    """
    if length < 1 or bound < 1:
        raise InputError(f"length and bound must be at least 1; found {length} and {bound}")
    if group.aggregator in group.senders:
        raise InputError(f"aggregator must not be one of the senders; found {group.aggregator}")
    name = SERVER if group.aggregator == group.receiver else CLIENTS
    return Topology.to_one(name, group.senders, group.receiver, group.aggregator, length, bound)


class OpenedCollective(VectorSession):
    """Sums of vectors by a collective.

    Args:
        scheme: how.
        topology: of one sum.
        channel: between its parties.
    """

    def __init__(self, scheme: Scheme, topology: Topology, channel: Channel) -> None:
        self._collective, self._topology = Collective(scheme, topology, channel), topology

    def sum(self, rows: Integers, step: Step) -> Integers:
        """See `VectorSession.sum`."""
        topology = self._topology
        assert topology.bound is not None, "sums of vectors have a bound"
        check_rows(rows, len(topology.senders), topology.width, topology.bound)
        total: Integers = self._collective.sum(rows, step)[0]
        return total
