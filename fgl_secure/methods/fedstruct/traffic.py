"""What the parties of FedStruct say and know, message by message, for runs that are recorded."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fgl_secure.graph import FederatedGraph
from fgl_secure.runtime import Channel, Phase, Role, Step
from fgl_secure.training.server_sums import FLOAT_BYTES

COUNT_BYTES = 8
"""Two 32-bit numbers: correct predictions, and predictions."""


class FedStructTraffic:
    """The messages of one training run. A client is a silo; its nodes are the devices of that silo.

    What clients know before, and how they came by their rows of A-bar, is said where they come by them.

    Args:
        channel: between the parties of `hierarchy_of(graph)`.
        graph: who has what.
    """

    def __init__(self, channel: Channel, graph: FederatedGraph) -> None:
        self._channel, self._graph = channel, graph
        self._clients = channel.parties.ids(Role.SILO)
        self._server = np.full(graph.num_silos, channel.parties.ids(Role.SERVER)[0])

    @property
    def channel(self) -> Channel:
        """Where the messages go."""
        return self._channel

    def features_shared(self, values: NDArray[np.float32], step: Step) -> None:
        """Every client sends the structure features [n, d_s] of its nodes to every other client."""
        nodes, receivers = self._everyone_elses()
        owners = self._clients[self._graph.silo_of[nodes]]
        self._send(Phase.STRUCTURE_FEATURES, step, owners, receivers, nodes, values)

    def features_held(self, values: NDArray[np.float32], rounds: int) -> None:
        """Notes the structure features [n, d_s] of its own and of others' nodes as every client holds them at the end.

        Args:
            values: float32 [n, d_s].
            rounds: rounds of training; 0 where the features are fixed.
        """
        step = Step(rounds, final=True)
        if self._channel.recording.keeps(step):
            nodes, holders = self._everyone_elses()
            self._channel.note_inputs("shared features", step, holders, _by_node(nodes, values[nodes]))
            everyone = np.arange(self._graph.num_devices)
            owners = self._clients[self._graph.silo_of]
            self._channel.note_inputs("own features", step, owners, _by_node(everyone, values))

    def _everyone_elses(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """All pairs of a node and a client that does not own it: nodes [n (K - 1)], party identifiers."""
        clients, n = self._graph.num_silos, self._graph.num_devices
        nodes, others = np.tile(np.arange(n), clients), np.repeat(np.arange(clients), n)
        foreign = self._graph.silo_of[nodes] != others
        return nodes[foreign], self._clients[others[foreign]]

    def structure_gradients_to_server(self, rows: Sequence[NDArray[np.float32]], step: Step) -> None:
        """Every client's gradient of S [n, d_s], zero rows too, to the server; the sum back, as sizes."""
        n = self._graph.num_devices
        nodes, senders = np.tile(np.arange(n), len(rows)), np.repeat(self._clients, n)
        self._send_rows(step, senders, np.repeat(self._server, n), nodes, rows)
        sizes = n * (1 + rows[0].shape[1]) * FLOAT_BYTES
        self._channel.send_sizes(Phase.STRUCTURE_GRADIENT, step, self._server, self._clients, sizes)

    def structure_gradients_to_owners(self, rows: Sequence[NDArray[np.float32]], step: Step) -> None:
        """Every client's gradient of s_u, zero or not, to the owner of u."""
        n = self._graph.num_devices
        nodes, senders = np.tile(np.arange(n), len(rows)), np.repeat(self._clients, n)
        owners = self._clients[self._graph.silo_of[nodes]]
        self._send_rows(step, senders, owners, nodes, rows, sent=owners != senders)

    def _send_rows(
        self,
        step: Step,
        senders: NDArray[np.int64],
        receivers: NDArray[np.int64],
        nodes: NDArray[np.int64],
        rows: Sequence[NDArray[np.float32]],
        sent: NDArray[np.bool_] | None = None,
    ) -> None:
        """Messages of all clients' rows, one after the other; `sent` leaves some out."""
        chosen = np.flatnonzero(sent) if sent is not None else np.arange(len(nodes))
        ends = senders[chosen], receivers[chosen]
        if not self._channel.recording.keeps(step, Phase.STRUCTURE_GRADIENT):
            size = (1 + rows[0].shape[1]) * FLOAT_BYTES
            self._channel.send_sizes(Phase.STRUCTURE_GRADIENT, step, *ends, size)
            return
        payload = _by_node(nodes[chosen], np.concatenate(rows)[chosen])
        self._channel.send(Phase.STRUCTURE_GRADIENT, step, *ends, payload)

    def _send(
        self,
        phase: Phase,
        step: Step,
        senders: NDArray[np.int64],
        receivers: NDArray[np.int64],
        nodes: NDArray[np.int64],
        values: NDArray[np.float32],
    ) -> None:
        """Messages (node, values of the node); laid out only where they are kept."""
        if self._channel.recording.keeps(step, phase):
            self._channel.send(phase, step, senders, receivers, _by_node(nodes, values[nodes]))
        else:
            self._channel.send_sizes(phase, step, senders, receivers, (1 + values.shape[1]) * FLOAT_BYTES)

    def gradients_up(self, rows: NDArray[np.float32], step: Step) -> None:
        """Every client's gradient of theta, float32 [K, |theta|], to the server in the clear."""
        self._channel.send(Phase.GRADIENT, step, self._clients, self._server, rows)

    def models_down(self, parameters: int, step: Step) -> None:
        """The server's model of so many parameters to every client; its size alone."""
        self._channel.send_sizes(Phase.MODEL, step, self._server, self._clients, parameters * FLOAT_BYTES)

    def counts_up(self, step: Step) -> None:
        """Two counts of every client to the server; their size alone."""
        self._channel.send_sizes(Phase.CORRECT, step, self._clients, self._server, COUNT_BYTES)


def _by_node(nodes: NDArray[np.int64], values: NDArray[np.floating]) -> NDArray[np.float32]:
    """Rows (node, values) as float32 [m, 1 + d]; node numbers below 2^24 are exact."""
    return np.concatenate([nodes[:, None].astype(np.float32), values.astype(np.float32)], axis=1)
