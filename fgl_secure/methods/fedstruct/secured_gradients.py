"""Gradients of FedStruct's clients added up under a scheme for sums over clients, in fixed point."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra import Quantizer
from fgl_secure.methods.fedstruct.gradients import GradientSum, StructureDelivery
from fgl_secure.methods.fedstruct.traffic import FedStructTraffic
from fgl_secure.protocols.vector_sum import Ids, VectorGroup, VectorScheme, VectorSession
from fgl_secure.runtime import Channel, Phase, Role, Step

FRACTION_BITS = 40
"""Bits behind the binary point: gradients are of the order of 1e-6 and more where they matter."""

BOUND = 2.0**10
"""Largest magnitude of one entry of a gradient; more is refused."""

REMEDY = "lower the learning rate, or scale the features"

FLOAT_BYTES = 4


def grid_for(limit: int, terms: int) -> Quantizer:
    """What makes integers of gradients, for sums of so many up to a limit."""
    return Quantizer.for_sums(
        bound=BOUND, limit=limit, terms=terms, most_bits=FRACTION_BITS, what="gradients", remedy=REMEDY
    )


class FixedPointSum:
    """Sums of real vectors of one group of clients, rounded to multiples of 2^-40.

    Args:
        scheme: adds the integers up.
        channel: between server and clients.
        group: who sends to whom.
    """

    def __init__(self, scheme: VectorScheme, channel: Channel, group: VectorGroup) -> None:
        terms = len(group.senders)
        self.grid = grid_for(scheme.limit(terms), terms)
        self._scheme, self._channel, self._group = scheme, channel, group
        self._session: VectorSession | None = None

    def __call__(self, rows: NDArray[np.floating[Any]], step: Step) -> NDArray[np.float64]:
        """The sum of the clients' vectors [m, d] in the order of the group's senders, float64 [d]."""
        units = self.grid.encode(rows)
        if self._session is None:
            self._session = self._scheme.open(self._channel, self._group, rows.shape[1], self.grid.largest)
        return self.grid.decode(self._session.sum(units, step))


def server_group(channel: Channel) -> VectorGroup:
    """All clients send, the server adds up and learns the sum."""
    server = int(channel.parties.ids(Role.SERVER)[0])
    return VectorGroup(channel.parties.ids(Role.SILO), server, server)


class SecuredSum(GradientSum):
    """The server learns the sum of the clients' gradients of theta, and no single one.

    Args:
        scheme: adds the vectors up.
        channel: between server and clients.
    """

    def __init__(self, scheme: VectorScheme, channel: Channel) -> None:
        self._sum = FixedPointSum(scheme, channel, server_group(channel))

    def __call__(self, rows: NDArray[np.float32], step: Step) -> NDArray[np.float64]:
        """The sum in fixed point, float64 [d]."""
        return self._sum(rows, step)


class SecuredBroadcast(StructureDelivery):
    """The server learns the sum of the clients' gradients of S, and sends it to all of them (Algorithm 2).

    Args:
        scheme: adds the vectors up.
        traffic: records what the server learns and sends.
    """

    def __init__(self, scheme: VectorScheme, traffic: FedStructTraffic) -> None:
        self._traffic = traffic
        self._sum = FixedPointSum(scheme, traffic.channel, server_group(traffic.channel))

    def __call__(self, rows: Sequence[NDArray[np.float32]], step: Step) -> NDArray[np.float64]:
        """The sum in fixed point, float64 [n, d_s]."""
        total = self._sum(np.stack([part.reshape(-1) for part in rows]), step).reshape(rows[0].shape)
        self._traffic.structure_gradient_sum(total, step)
        channel = self._traffic.channel
        clients, server = channel.parties.ids(Role.SILO), channel.parties.ids(Role.SERVER)
        size = total.size * FLOAT_BYTES
        channel.send_sizes(Phase.STRUCTURE_GRADIENT, step, np.repeat(server, len(clients)), clients, size)
        return total


class SecuredOwners(StructureDelivery):
    """The owner of a node learns the sum of the other clients' gradients of its row; the server learns sizes.

    Rows are sent for all nodes of the owner, zero or not, so that their number tells nothing.

    Args:
        scheme: adds the vectors up.
        traffic: records what owners share.
        client_of: int64 [n], the client of each node.
        shares: whether owners send the rows that they updated to all other clients, as Algorithm 2 has it.
    """

    def __init__(self, scheme: VectorScheme, traffic: FedStructTraffic, client_of: Ids, *, shares: bool) -> None:
        self._traffic, self._client_of, self._shares = traffic, client_of, shares
        channel = traffic.channel
        clients, server = channel.parties.ids(Role.SILO), int(channel.parties.ids(Role.SERVER)[0])
        self._sums = [
            FixedPointSum(scheme, channel, VectorGroup(np.delete(clients, owner), int(clients[owner]), server))
            for owner in range(len(clients))
        ]

    def __call__(self, rows: Sequence[NDArray[np.float32]], step: Step) -> NDArray[np.float64]:
        """The sum in fixed point, float64 [n, d_s]; an owner's own rows are added as they are."""
        total = np.zeros(rows[0].shape)
        for owner, add in enumerate(self._sums):
            own = np.flatnonzero(self._client_of == owner)
            others = np.stack([part[own].reshape(-1) for k, part in enumerate(rows) if k != owner])
            total[own] = add(others, step).reshape(len(own), -1) + rows[owner][own]
        return total

    def updated(self, values: NDArray[np.float32], step: Step) -> None:
        """Owners share what they have updated."""
        if self._shares:
            self._traffic.features_shared(values, step)
