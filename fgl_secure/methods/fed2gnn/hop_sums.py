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
not in q, so a party that sends q subtracts their mu^(k-3) from it (`OwnPairs.one_sided`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fed2gnn.grouping import OwnPairs, between_clients
from fgl_secure.protocols.scheme import LARGEST_ROW_BOUND, Scheme, least_group
from fgl_secure.protocols.topology import NEIGHBOURS
from fgl_secure.runtime import Channel, Role, Step
from fgl_secure.runtime.packing import Arrays
from fgl_secure.training.collectives import Collectives
from fgl_secure.training.one_process import OneProcess
from fgl_secure.training.program import Program
from fgl_secure.typing import Array, Floats, Ids


@dataclass(frozen=True, slots=True)
class RowRange:
    """How large rows may get, which every party knows: hop k is sent in units of first * growth^(k-1).

    Sums grow with every hop as numbers of neighbours do, and a scheme's bound does not. What clips rows or adds noise
    does so in the units that are sent.

    Attributes:
        first: largest magnitude of a coordinate in the first hop, positive.
        growth: by how much it may grow a hop, at least 1.
        bound: the largest magnitude that a scheme takes; None where it takes any.
    """

    first: float
    growth: float = 1.0
    bound: float | None = None

    def __post_init__(self) -> None:
        if not (np.isfinite(self.first) and self.first > 0):
            raise InputError(f"first must be a positive number; found {self.first}")
        if not (np.isfinite(self.growth) and self.growth >= 1):
            raise InputError(f"growth must be a number of at least 1; found {self.growth}")

    def of(self, hop: int) -> float:
        """The largest magnitude in a hop, counted from 1."""
        return self.first * self.growth ** (hop - 1)

    def under(self, scheme: Scheme) -> RowRange:
        """The same with the bound of a scheme."""
        fixed = scheme.fixed_point(1)
        return replace(self, bound=None if fixed is None else fixed.bound)

    def check(self, rows: Floats, hop: int) -> None:
        """Raises InputError where the rows of a hop are out of range; nothing is clipped."""
        result = float(np.abs(rows).max(initial=0.0))
        if result > self.of(hop):
            raise InputError(
                f"rows of hop {hop} must be of magnitude up to first * growth^{hop - 1} = {self.of(hop):g}; found "
                f"{result:.3g}: scale the features, or give a larger bound, as in "
                f"relay-coded[bound={2 * LARGEST_ROW_BOUND:.0f}]"
            )

    def unit(self, hop: int) -> float:
        """The unit in which the rows of a hop are sent."""
        return 1.0 if self.bound is None else self.of(hop) / self.bound


class _Walks:
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

    def __init__(self, graph: FederatedGraph, values: Floats, mutual: Ids) -> None:
        source, target = graph.edges[:, ~graph.crosses_silos]
        n = graph.num_devices
        self._inside = sparse.csr_array((np.ones(len(source)), (target, source)), shape=(n, n))
        degrees = np.bincount(target, minlength=n).astype(np.float64)
        self._inside_degree, self._mutual = degrees[:, None], mutual.astype(np.float64)[:, None]
        nothing = np.zeros_like(values)
        self.mu, self.f, self.eta = [values], [nothing], [nothing]

    def extend(self, received: Floats) -> None:
        """Takes the sums [n, d] that arrived in the next hop, and takes steps back out of them."""
        self.f.append(self._forward(received, self._mutual, self.f))
        self.eta.append(self._forward(self._inside @ self.mu[-1], self._inside_degree, self.eta))
        self.mu.append(self.f[-1] + self.eta[-1])

    def _forward(self, total: Floats, returning: Floats, before: list[Floats]) -> Floats:
        if len(before) < 2:
            return total
        return total - returning * self.mu[-2] + before[-2]


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

    f: Floats
    mu: Floats
    eta: Floats


@dataclass(frozen=True, slots=True, eq=False)
class ReceivedSums:
    """What one client has after the exchange.

    Attributes:
        graph: its own nodes and the edges between them, numbered from 0.
        values: float64 [m, w], rows as they were summed.
        sums: of Protocol 1.
        foreign: int64 [m], neighbours at other clients over which each node heard sums.
    """

    graph: FederatedGraph
    values: Floats
    sums: HopSums
    foreign: Ids

    @property
    def neighbours(self) -> Floats:
        """float64 [m], numbers of neighbours whose rows the client has or heard of."""
        return (self.graph.in_degree + self.foreign).astype(np.float64)

    @property
    def usual(self) -> float:
        """How many other neighbours the end of an edge has on average, among the own nodes; at least 1."""
        degree = self.neighbours
        return max(float((degree**2).sum() / max(degree.sum(), 1) - 1), 1.0)

    def state(self) -> dict[str, Array]:
        """All but the graph, as arrays."""
        sums = self.sums
        return {"values": self.values, "f": sums.f, "mu": sums.mu, "eta": sums.eta, "foreign": self.foreign}

    @classmethod
    def restore(cls, graph: FederatedGraph, state: Arrays) -> ReceivedSums:
        """What a state was taken of, with the graph."""
        return cls(graph, state["values"], HopSums(state["f"], state["mu"], state["eta"]), state["foreign"])


def exchange_hops(
    comm: Collectives, graph: FederatedGraph, values: Floats, hops: int, rows: RowRange | None
) -> tuple[HopSums, Floats]:
    """All hops, as one client runs them.

    Args:
        comm: sums over neighbours, which clients add up beforehand.
        graph: of its own nodes; `Silo.alone`.
        values: float64 [m, d], x of its nodes.
        hops: K, at least 1.
        rows: how large rows may get; None sends them as they are, up to the scheme's own bound.

    Returns:
        The sums, and what it heard, float64 [K, m, d].

    Raises:
        InputError: the rows of a hop are out of range.
    """
    pairs, received = OwnPairs.of(comm.silo, comm.summed_edges), []
    walks, sums, one_sided = _Walks(graph, values, pairs.mutual), pairs.sums, pairs.one_sided
    for hop in range(1, hops + 1):
        sent = sums @ walks.mu[hop - 1]
        if hop > 2:
            sent = sent - one_sided @ walks.mu[hop - 3]
        unit = 1.0 if rows is None else rows.unit(hop)
        if rows is not None and not comm.finds_row_ranges:
            rows.check(sent, hop)
        received.append(comm.neighbours(torch.from_numpy(sent / unit), layer=hop - 1)[1].numpy() * unit)
        walks.extend(received[-1])
    return HopSums(*(np.stack(layers[1:]) for layers in (walks.f, walks.mu, walks.eta))), np.stack(received)


class _Exchange(Program):
    """Protocol 1 alone, on given rows.

    Args:
        comm: see `exchange_hops`.
        values: float64 [m, d].
        hops: K.
        rows: how large rows may get.
    """

    def __init__(self, comm: Collectives, values: Floats, hops: int, rows: RowRange | None) -> None:
        super().__init__(comm)
        self._values, self._hops, self._rows = values, hops, rows

    def round(self, number: int) -> bool:  # noqa: ARG002  # there is one
        """All hops."""
        result, received = exchange_hops(self.comm, self.silo.alone, self._values, self._hops, self._rows)
        self.kept = {"f": result.f, "mu": result.mu, "eta": result.eta, "heard": received}
        return False

    @property
    def report(self) -> dict[str, Array]:
        """The sums, and what was heard."""
        return self.kept


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
    """Protocol 1 from the requests to the last hop, for all clients in one process.

    Args:
        graph: who has what; every edge in both directions.
        values: [n, d], x of every node as its own client has it.
        hops: K, at least 1.
        scheme: computes the sums. It is asked for none that it would refuse.
        channel: between the parties of `hierarchy_of(graph, scheme.helpers)`.
        neighbours: int64 [2, m], nodes above the neighbours that are asked for; None for all.
        rows: how large rows may get; None sends them as they are, up to the scheme's own bound.

    Returns:
        The sums of every node, as its own client holds them.

    Raises:
        InputError: hops, values, requests or the rows of a hop are out of range.
    """
    if hops < 1:
        raise InputError(f"hops must be at least 1; found {hops}")
    if values.ndim != 2 or len(values) != graph.num_devices or not values.shape[1]:
        raise InputError(f"values must be [{graph.num_devices}, d]; found {list(values.shape)}")
    if not np.isfinite(values).all():
        raise InputError("values must be finite; found NaN or infinity")
    x, limits = np.asarray(values, dtype=np.float64), None if rows is None else rows.under(scheme)
    between = between_clients(graph, channel, neighbours, least_group(scheme))

    def make(comm: Collectives) -> Program:
        return _Exchange(comm, x[comm.silo.nodes], hops, limits)

    process = OneProcess(graph, {NEIGHBOURS: scheme}, channel, make, width=x.shape[1], between=between)
    process.round(0)
    reports = [program.report for program in process.programs]
    note_received(channel, graph, between.edges[1], [report["heard"] for report in reports])
    return HopSums(*(_of_all(graph, [report[name] for report in reports]) for name in ("f", "mu", "eta")))


def note_received(channel: Channel, graph: FederatedGraph, asking: Ids, received: list[Floats]) -> None:
    """Notes the sums that clients got for nodes that ask in each hop, float64 [K, m, d] of each, as own knowledge."""
    requesters = np.unique(asking)
    owners = channel.parties.ids(Role.SILO)[graph.silo_of[requesters]]
    for hop, total in enumerate(_of_all(graph, received)):
        channel.note_inputs(HOP_SUMS, Step(0, hop), owners, np.column_stack([requesters, total[requesters]]))


def _of_all(graph: FederatedGraph, parts: list[Floats]) -> Floats:
    """Layers of all nodes, float64 [K, n, d], from those of each client."""
    rows = np.empty((len(parts[0]), graph.num_devices, parts[0].shape[2]))
    for client, part in enumerate(parts):
        rows[:, graph.devices_of(client)] = part
    return rows
