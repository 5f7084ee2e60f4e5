"""How the gradients of FedStruct's clients are added up: of theta for the server, of S for whoever updates it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.methods.fedstruct.traffic import FedStructTraffic
from fgl_secure.protocols.collective import Collective
from fgl_secure.protocols.scheme import Scheme, needed_marks
from fgl_secure.protocols.topology import Topology
from fgl_secure.runtime import Channel, Phase, Role, Step
from fgl_secure.training.server_sums import FLOAT_BYTES, grid_for


class GradientSum(ABC):
    """The sum of one vector a client."""

    @abstractmethod
    def __call__(self, rows: NDArray[np.float32], step: Step) -> NDArray[np.floating[Any]]:
        """Adds up the clients' vectors.

        Args:
            rows: float32 [K, d], one a client.
            step: the round.

        Returns:
            float [d].
        """


class StructureDelivery(ABC):
    """How gradients of structure features reach whoever updates these, and updates reach whoever uses them."""

    @abstractmethod
    def __call__(self, rows: Sequence[NDArray[np.float32]], step: Step) -> NDArray[np.floating[Any]]:
        """Adds up the clients' gradients.

        Args:
            rows: K matrices float32 [n, d_s], one a client.
            step: the round.

        Returns:
            float [n, d_s], the gradient that each row of S is updated with.
        """

    def updated(self, values: NDArray[np.float32], step: Step) -> None:  # noqa: B027  # most have nothing to add
        """Told of the structure features float32 [n, d_s] after every step; `step` is of the round that uses them."""


@dataclass(frozen=True, slots=True, eq=False)
class ClientSums:
    """Both sums of a round.

    Attributes:
        theta: adds up gradients of the model parameters.
        structure: adds up gradients of learnt structure features.
        structure_at_owners: whether the gradient of z goes back to the owners of the nodes that it came from, who go on
            from their own g(s_u), as where nobody but its owner has s_u; otherwise every client holds all of S and
            differentiates its own loss through it.
    """

    theta: GradientSum
    structure: StructureDelivery
    structure_at_owners: bool = False


class ClearSum(GradientSum):
    """Every client sends its gradient to the server in the clear (Algorithms 1 and 2).

    Args:
        traffic: records the messages; None says nothing.
    """

    def __init__(self, traffic: FedStructTraffic | None = None) -> None:
        self._traffic = traffic

    def __call__(self, rows: NDArray[np.float32], step: Step) -> NDArray[np.floating[Any]]:
        """The plain sum."""
        if self._traffic is not None:
            self._traffic.gradients_up(rows, step)
        total: NDArray[np.floating[Any]] = rows.sum(axis=0)
        return total


class ServerBroadcast(StructureDelivery):
    """Clients send their gradients of S to the server, which sends the sum to all of them (Algorithm 2).

    Args:
        traffic: records the messages; None says nothing.
    """

    def __init__(self, traffic: FedStructTraffic | None = None) -> None:
        self._traffic = traffic

    def __call__(self, rows: Sequence[NDArray[np.float32]], step: Step) -> NDArray[np.floating[Any]]:
        """The plain sum."""
        if self._traffic is not None:
            self._traffic.structure_gradients_to_server(rows, step)
        return _sum(rows)


class OwnerAddressed(StructureDelivery):
    """Clients send the gradient of s_u to the owner of u, who updates s_u and sends it to the other clients.

    Args:
        traffic: records the messages; None says nothing.
    """

    def __init__(self, traffic: FedStructTraffic | None = None) -> None:
        self._traffic = traffic

    def __call__(self, rows: Sequence[NDArray[np.float32]], step: Step) -> NDArray[np.floating[Any]]:
        """The plain sum."""
        if self._traffic is not None:
            self._traffic.structure_gradients_to_owners(rows, step)
        return _sum(rows)

    def updated(self, values: NDArray[np.float32], step: Step) -> None:
        """Owners share what they have updated."""
        if self._traffic is not None:
            self._traffic.features_shared(values, step)


class AtOwners(StructureDelivery):
    """Gradients of s_u arise where s_u is: there is nothing to send."""

    def __call__(self, rows: Sequence[NDArray[np.float32]], step: Step) -> NDArray[np.floating[Any]]:  # noqa: ARG002
        """The rows of each client are zero outside its own nodes; together they are all rows."""
        return _sum(rows)


def _sum(rows: Sequence[NDArray[np.float32]]) -> NDArray[np.floating[Any]]:
    total: NDArray[np.floating[Any]] = np.sum(rows, axis=0)
    return total


Ids = NDArray[np.int64]

STRUCTURE_SUM = "structure gradient sum"
"""What the server is left with of the gradients of S: the sum float64 [1, n d_s], row after row."""

CONTRIBUTORS = "contributors"
"""What whoever is entitled to a sum of rows learns beside it: how many clients contribute to each, int64 [1, n]."""

MARKS = 1
"""Part of a step in which marks are added up."""


class FixedPointSum:
    """Sums of real vectors of some clients for one party, rounded to multiples of 2^-40.

    Args:
        scheme: adds the integers up.
        channel: between server and clients.
        senders: int64 [m], party identifiers.
        receiver: a client that is entitled to the sum; None for the server.
        output: what the sum is called in what its receiver is left with; see `Collective`.
    """

    def __init__(
        self, scheme: Scheme, channel: Channel, senders: Ids, receiver: int | None = None, output: str | None = None
    ) -> None:
        self.grid = grid_for(scheme, len(senders))
        self._scheme, self._channel, self._output = scheme, channel, output
        self._senders, self._receiver = senders, receiver
        self._sums: Collective | None = None

    def __call__(self, rows: NDArray[np.floating[Any]], step: Step) -> NDArray[np.float64]:
        """The sum of the clients' vectors [m, d] in the order of the senders, float64 [d]."""
        if self._sums is None:
            self._sums = Collective(self._scheme, self._topology(rows.shape[1]), self._channel, self.grid, self._output)
        total: NDArray[np.float64] = self._sums.sum(rows, step)[0]
        return total

    def _topology(self, width: int) -> Topology:
        return topology_of(self._channel, self._senders, self._receiver, width, self.grid.largest)


def topology_of(channel: Channel, senders: Ids, receiver: int | None, width: int, bound: int) -> Topology:
    """One vector of each of some clients, for one of them or for the server."""
    if receiver is None:
        return Topology.to_server(channel.parties, width, bound)
    return Topology.to_client(channel.parties, senders, receiver, width, bound)


class RowSums:
    """Sums of matrices of some clients, row by row, of which rows that few clients contribute to stay closed.

    A row belongs to a node, and a row of a sum to which one client alone contributes is that client's: it tells labels
    of its nodes. So clients first add up marks, 1 for every row that is not 0, and then hand in 0 where too few have
    marked. Clients may vanish between the two sums, so that a row that is opened needs as many marks more. Whoever is
    entitled to the sum learns how many clients contribute to each row, and tells them which are opened.

    Args:
        scheme: adds the integers up.
        channel: between server and clients.
        senders: int64 [m], party identifiers.
        k_min: fewest clients that a row is opened for; 1 opens all, without marks.
        receiver: a client that is entitled to the sum; None for the server.
        output: what the sum is called in what its receiver is left with; see `Collective`.

    Raises:
        InputError: no row can have so many marks.
    """

    def __init__(
        self,
        scheme: Scheme,
        channel: Channel,
        senders: Ids,
        k_min: int = 1,
        receiver: int | None = None,
        output: str | None = None,
    ) -> None:
        self._scheme, self._channel, self._senders, self._receiver = scheme, channel, senders, receiver
        self._values = FixedPointSum(scheme, channel, senders, receiver, output)
        self._marks: Collective | None = None
        self._needed = needed_marks(scheme, len(senders), k_min)

    def __call__(self, parts: NDArray[np.floating[Any]], step: Step) -> NDArray[np.float64]:
        """The sum of matrices [m, n, d] in the order of the senders, float64 [n, d]; rows that stay closed are 0."""
        if self._needed > 1:
            opened = self._opened(parts, step)
            parts = np.where(opened[None, :, None], parts, 0).astype(parts.dtype, copy=False)
        return self._values(parts.reshape(len(parts), -1), step).reshape(parts.shape[1:])

    def _opened(self, parts: NDArray[np.floating[Any]], step: Step) -> NDArray[np.bool_]:
        """Bool [n], as whoever is entitled to the sum tells all senders."""
        marks = (self._values.grid.encode(parts) != 0).any(axis=2)
        if self._marks is None:
            topology = topology_of(self._channel, self._senders, self._receiver, marks.shape[1], 1)
            self._marks = Collective(self._scheme, topology, self._channel, output=CONTRIBUTORS)
        counts: Ids = self._marks.sum(marks.astype(np.int64), replace(step, part=MARKS))[0]
        opened: NDArray[np.bool_] = counts >= self._needed
        entitled = self._channel.parties.ids(Role.SERVER)[0] if self._receiver is None else self._receiver
        bits = np.broadcast_to(np.packbits(opened), (len(self._senders), -(-len(opened) // 8)))
        told = np.broadcast_to(bits, (*self._channel.batch_shape, *bits.shape))
        self._channel.send(Phase.OPENED, step, np.full(len(self._senders), entitled), self._senders, told)
        return opened


class SecuredSum(GradientSum):
    """The server learns the sum of the clients' gradients of theta, and no single one.

    Args:
        scheme: adds the vectors up.
        channel: between server and clients.
    """

    def __init__(self, scheme: Scheme, channel: Channel) -> None:
        self._sum = FixedPointSum(scheme, channel, channel.parties.ids(Role.SILO))

    def __call__(self, rows: NDArray[np.float32], step: Step) -> NDArray[np.float64]:
        """The sum in fixed point, float64 [d]."""
        return self._sum(rows, step)


class SecuredBroadcast(StructureDelivery):
    """The server learns the sum of the clients' gradients of S, and sends it to all of them (Algorithm 2).

    Args:
        scheme: adds the vectors up.
        traffic: records what the server learns and sends.
        k_min: fewest clients that a row is opened for; see `RowSums`.
    """

    def __init__(self, scheme: Scheme, traffic: FedStructTraffic, k_min: int = 1) -> None:
        self._traffic = traffic
        clients = traffic.channel.parties.ids(Role.SILO)
        self._sum = RowSums(scheme, traffic.channel, clients, k_min, output=STRUCTURE_SUM)

    def __call__(self, rows: Sequence[NDArray[np.float32]], step: Step) -> NDArray[np.float64]:
        """The sum in fixed point, float64 [n, d_s]."""
        total = self._sum(np.stack(rows), step)
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
        k_min: fewest other clients that a row is opened for; see `RowSums`.
    """

    def __init__(
        self, scheme: Scheme, traffic: FedStructTraffic, client_of: Ids, *, shares: bool, k_min: int = 1
    ) -> None:
        self._traffic, self._client_of, self._shares = traffic, client_of, shares
        channel = traffic.channel
        clients = channel.parties.ids(Role.SILO)
        self._sums = [
            RowSums(scheme, channel, np.delete(clients, owner), k_min, int(clients[owner]))
            for owner in range(len(clients))
        ]

    def __call__(self, rows: Sequence[NDArray[np.float32]], step: Step) -> NDArray[np.float64]:
        """The sum in fixed point, float64 [n, d_s]; an owner's own rows are added as they are."""
        total = np.zeros(rows[0].shape)
        for owner, add in enumerate(self._sums):
            own = np.flatnonzero(self._client_of == owner)
            others = np.stack([part[own] for k, part in enumerate(rows) if k != owner])
            total[own] = add(others, step) + rows[owner][own]
        return total

    def updated(self, values: NDArray[np.float32], step: Step) -> None:
        """Owners share what they have updated."""
        if self._shares:
            self._traffic.features_shared(values, step)
