"""Protocol 1 of Fed2GNN (Appendix F): the sums of features in every layer of every node's rooted tree.

In hop k every passive client sends, for each node of another client, the sum of mu^(k-1) over its own neighbours of
that node. The node's client gets the sum of what all passive clients sent, under any scheme for grouped sums; what
follows from it is local (`fgl_secure.methods.fed2gnn.walks`). A network that loses rows spoils the sums, as walks
are then taken out that were never in.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fed2gnn.grouping import client_pairs, send_requests
from fgl_secure.methods.fed2gnn.row_range import RowRange
from fgl_secure.methods.fed2gnn.walks import Walks
from fgl_secure.protocols.collective import Collective
from fgl_secure.protocols.scheme import Scheme, least_group
from fgl_secure.protocols.topology import NEIGHBOURS, Ids, Topology
from fgl_secure.runtime import Channel, Role, Step

__all__ = ["HOP_SUMS", "HopExchange", "HopSums", "RowRange", "hop_sums"]

Reals = NDArray[np.float64]

HOP_SUMS = "hop sums"
"""What a client gets in a hop, noted as input of the client: (own node, the sum as it arrived), one row a node."""


@dataclass(frozen=True, slots=True, eq=False)
class HopSums:
    """Sums over the layers of rooted trees; index k - 1 is hop k.

    Attributes:
        f: float64 [K, n, d], over walks whose first step leaves the client: the missing branches.
        mu: float64 [K, n, d], over all walks.
        eta: float64 [K, n, d], over walks whose first step stays.
    """

    f: Reals
    mu: Reals
    eta: Reals


class HopExchange:
    """A scheme opened on the pairs of passive clients and nodes; the requests are sent.

    Args:
        graph: who has what; every edge in both directions.
        scheme: computes the sums. It is asked for none that it would refuse.
        channel: between the parties of `hierarchy_of(graph, scheme.helpers)`.
        width: d, columns of the values.
        neighbours: int64 [2, m], nodes above the neighbours that are asked for; None for all.
        rows: how large rows may get; None sends them as they are, up to the scheme's own bound.
        round: of all messages.

    Attributes:
        grouping: rows and groups.
        pairs: which nodes are in which row.
    """

    def __init__(
        self,
        graph: FederatedGraph,
        scheme: Scheme,
        channel: Channel,
        width: int,
        *,
        neighbours: Ids | None = None,
        rows: RowRange | None = None,
        round: int = 0,  # noqa: A002  # as in Step
    ) -> None:
        if width < 1:
            raise InputError(f"width must be at least 1 column; found {width}")
        self.grouping, self.pairs = client_pairs(graph, channel, neighbours, least_group(scheme))
        send_requests(graph, channel, self.pairs, Step(round))
        self._session = Collective(scheme, Topology(NEIGHBOURS, self.grouping, width), channel)
        self._graph, self._channel, self._round, self._range = graph, channel, round, rows
        fixed = scheme.fixed_point(1)
        self._bound = None if fixed is None or rows is None else fixed.bound
        self._done = False

    @property
    def heard(self) -> Ids:
        """int64 [n], how many neighbours each node hears of, at its own client and at others: GCN's degree less 1."""
        inside = self._graph.edges[1, ~self._graph.crosses_silos]
        return np.bincount(inside, minlength=self._graph.num_devices) + self.pairs.neighbours

    def __call__(self, values: NDArray[np.floating[Any]], hops: int) -> HopSums:
        """Runs all hops; an exchange serves once.

        Args:
            values: [n, d], x of every node as its own client has it.
            hops: K, at least 1.

        Raises:
            InputError: hops, values or the rows of a hop are out of range, or the exchange has served.
        """
        self._check(values, hops)
        walks = Walks(self._graph, np.asarray(values, dtype=np.float64), self.pairs.mutual)
        sums, one_sided = self.pairs.sums, self.pairs.one_sided
        for hop in range(1, hops + 1):
            rows = sums @ walks.mu[hop - 1]
            if hop > 2:
                rows = rows - one_sided @ walks.mu[hop - 3]
            walks.extend(self._summed(rows, hop))
        return HopSums(*(np.stack(layers[1:]) for layers in (walks.f, walks.mu, walks.eta)))

    def _summed(self, rows: Reals, hop: int) -> Reals:
        step, unit = Step(self._round, hop - 1), 1.0
        if self._range is not None:
            self._range.check(rows, hop)
            unit = 1.0 if self._bound is None else self._range.of(hop) / self._bound
        total = self._session.sum(rows / unit, step) * unit
        heard = np.flatnonzero(self.pairs.neighbours)
        owners = self._channel.parties.ids(Role.SILO)[self._graph.silo_of[heard]]
        self._channel.note_inputs(HOP_SUMS, step, owners, np.column_stack([heard, total[heard]]))
        return total

    def _check(self, values: NDArray[np.floating[Any]], hops: int) -> None:
        if hops < 1:
            raise InputError(f"hops must be at least 1; found {hops}")
        if values.ndim != 2 or len(values) != self._graph.num_devices:
            raise InputError(f"values must be [{self._graph.num_devices}, d]; found {list(values.shape)}")
        if not np.isfinite(values).all():
            raise InputError("values must be finite; found NaN or infinity")
        if self._done:
            raise InputError("an exchange must serve once; found a second call")
        self._done = True


def hop_sums(
    graph: FederatedGraph,
    values: NDArray[np.floating[Any]],
    hops: int,
    scheme: Scheme,
    channel: Channel,
    *,
    neighbours: Ids | None = None,
    rows: RowRange | None = None,
) -> HopSums:
    """Protocol 1 from the requests to the last hop; see `HopExchange` for the arguments.

    Returns:
        The sums of every node, as its own client holds them.
    """
    if hops < 1:
        raise InputError(f"hops must be at least 1; found {hops}")
    if values.ndim != 2:
        raise InputError(f"values must be [{graph.num_devices}, d]; found {list(values.shape)}")
    exchange = HopExchange(graph, scheme, channel, values.shape[1], neighbours=neighbours, rows=rows)
    return exchange(values, hops)
