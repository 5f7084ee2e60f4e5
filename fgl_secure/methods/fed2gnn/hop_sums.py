"""Protocol 1 of Fed2GNN (Appendix F): the sums of features in every layer of every node's rooted tree.

In hop k every passive client sends, for each node of another client, the sum of mu^(k-1) over its own neighbours of
that node. The node's client gets the sum of what all passive clients sent, under any scheme for grouped sums; what
follows from it is local (`fgl_secure.methods.fed2gnn.hop_sums`). A network that loses rows spoils the sums, as walks
are then taken out that were never in.

With N_i the neighbours of node i, mu_i^0 = x_i, and over all walks of k steps from i that never turn round at once

    mu_i^k sums the rows x of their ends,
    f_i^k those of the walks whose first step leaves the client, eta_i^k = mu_i^k - f_i^k those of the others.

Let q sum mu_m^(k-1) over the neighbours m of i at other clients. Walks from m may start by stepping back to i, and go
on from there to anywhere but m. So f_i^k = q - N mu_i^(k-2) + f_i^(k-2), with N the number of these m and f^0 = 0:
lines 18 and 22 of Protocol 1. The same holds for eta and the neighbours at the own client, and line 23 is their sum.

This needs that every m hears of i in turn. Where a scheme refuses small sums, or each client samples for itself, some
do not. Nothing of i comes back from these, so N counts the others alone; and f^(k-2) has walks through them that are
not in q, so whoever sends q subtracts their mu^(k-3) from it (`PairMap.one_sided`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fed2gnn.grouping import client_pairs, send_requests
from fgl_secure.protocols.collective import Collective
from fgl_secure.protocols.scheme import Scheme, least_group
from fgl_secure.protocols.topology import NEIGHBOURS, Ids, Topology
from fgl_secure.runtime import Channel, Role, Step

Reals = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class RowRange:
    """How large rows may get, which everybody knows: hop k is sent in units of first * growth^(k-1).

    Sums grow with every hop as numbers of neighbours do, and a scheme's bound does not. What clips rows or adds noise
    does so in the units that are sent.

    Attributes:
        first: largest magnitude of a coordinate in the first hop, positive.
        growth: by how much it may grow a hop, at least 1.
    """

    first: float
    growth: float = 1.0

    def __post_init__(self) -> None:
        if not (np.isfinite(self.first) and self.first > 0):
            raise InputError(f"first must be a positive number; found {self.first}")
        if not (np.isfinite(self.growth) and self.growth >= 1):
            raise InputError(f"growth must be a number of at least 1; found {self.growth}")

    def of(self, hop: int) -> float:
        """The largest magnitude in a hop, counted from 1."""
        return self.first * self.growth ** (hop - 1)

    def check(self, rows: Reals, hop: int) -> None:
        """Raises unless rows are in range; nothing is clipped."""
        found = float(np.abs(rows).max(initial=0.0))
        if found > self.of(hop):
            raise InputError(
                f"rows of hop {hop} must be of magnitude up to first * growth^{hop - 1} = {self.of(hop):g}; found "
                f"{found:.3g}"
            )


class Walks:
    """What clients hold after each hop; every client extends the rows of its own nodes.

    Args:
        graph: who has what.
        values: float64 [n, d], x.
        mutual: int64 [n], how many of the neighbours at other clients that each node hears of hear of it in turn.

    Attributes:
        mu: float64 [n, d] a hop, from hop 0.
        f: the same.
        eta: the same.
    """

    def __init__(self, graph: FederatedGraph, values: Reals, mutual: Ids) -> None:
        source, target = graph.edges[:, ~graph.crosses_silos]
        n = graph.num_devices
        self._inside = sparse.csr_array((np.ones(len(source)), (target, source)), shape=(n, n))
        degrees = np.bincount(target, minlength=n).astype(np.float64)
        self._inside_degree, self._mutual = degrees[:, None], mutual.astype(np.float64)[:, None]
        nothing = np.zeros_like(values)
        self.mu, self.f, self.eta = [values], [nothing], [nothing]

    def extend(self, heard: Reals) -> None:
        """Takes the sums [n, d] that arrived in the next hop, and takes steps back out of them."""
        self.f.append(self._forward(heard, self._mutual, self.f))
        self.eta.append(self._forward(self._inside @ self.mu[-1], self._inside_degree, self.eta))
        self.mu.append(self.f[-1] + self.eta[-1])

    def _forward(self, total: Reals, returning: Reals, before: list[Reals]) -> Reals:
        if len(before) < 2:
            return total
        return total - returning * self.mu[-2] + before[-2]


__all__ = ["HOP_SUMS", "HopExchange", "HopSums", "RowRange", "hop_sums"]


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
