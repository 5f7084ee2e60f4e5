"""HiFGL's hierarchy of devices, silos and a server, made from a graph, and secure sums between its parties."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fgl_secure.algebra.checks import as_floats
from fgl_secure.coins import Coins, SystemCoins
from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.topology import NEIGHBOURS
from fgl_secure.runtime import Channel, Directory, Recording, Step, Transcript
from fgl_secure.schemes import parse
from fgl_secure.training.one_process import open_neighbours
from fgl_secure.training.parties import helpers_of, hierarchy_of, neighbour_sums
from fgl_secure.typing import Flags, Ids


@dataclass(frozen=True, slots=True, eq=False)
class NeighbourSum:
    """One sum per device over its neighbours.

    Attributes:
        sums: float64 [n, d]; zero where a sum is not computed.
        terms: int64 [n], how many rows are in each; 0 where a scheme refuses a sum over so few.
        exact: bool [n], whether the sum is over exactly the device's neighbours. A scheme that hides the graph
            bounds how many messages a device sends, and may fill small sums with rows of devices two hops away.
        sent: payload bytes of all messages.
        transcript: all messages, for attacks and tests.
    """

    sums: NDArray[np.float64] = field(repr=False)
    terms: Ids = field(repr=False)
    exact: Flags = field(repr=False)
    sent: int
    transcript: Transcript = field(repr=False)


class Hierarchy:
    """A server, its silos, and a device for every node of a graph (HiFGL, 3.1).

    Args:
        graph: the edges, and the silo of each node.

    Examples:
        >>> edges = [[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]]
        >>> there = Hierarchy.from_graph(edges, silos=[0, 0, 1, 1])
        >>> there
        Hierarchy(devices=4, silos=2, edges between silos=2)
        >>> there.sum_neighbours([[1.0], [2.0], [3.0], [4.0]], "secmp").sums.round(3).ravel().tolist()
        [2.0, 4.0, 6.0, 3.0]
    """

    def __init__(self, graph: FederatedGraph) -> None:
        self.graph = graph

    @classmethod
    def from_graph(cls, graph: Any, silos: ArrayLike | str | int, *, seed: int = 0) -> Hierarchy:
        """Assign the nodes of a graph to silos.

        Args:
            graph: PyTorch Geometric's `Data`, of which only edges are needed, or an edge_index [2, m] of nodes 0..n-1.
            silos: integers [n], the silo of each node; a number of silos; or "louvain:5".
            seed: repeats the partition.

        Raises:
            InputError: as `FederatedGraph.from_pyg`.
        """
        if not hasattr(graph, "edge_index"):
            graph = _edges_alone(graph, silos, None)
        elif getattr(graph, "x", None) is None or getattr(graph, "y", None) is None:
            graph = _edges_alone(graph.edge_index, silos, getattr(graph, "num_nodes", None))
        return cls(FederatedGraph.from_pyg(graph, silos, seed=seed, verbose=False))

    @property
    def parties(self) -> Directory:
        """Identifiers of the server, the silos and the devices."""
        return hierarchy_of(self.graph)

    @property
    def silo_of(self) -> Ids:
        """int64 [n], the silo of each device."""
        return self.graph.silo_of

    def devices_of(self, silo: int) -> Ids:
        """int64, the devices of a silo, ascending."""
        return self.graph.devices_of(silo)

    def sum_neighbours(
        self,
        rows: ArrayLike,
        scheme: Scheme | str = "relay-coded[small_groups=skip]",
        *,
        record: bool = False,
        coins: Coins | None = None,
    ) -> NeighbourSum:
        """Sum the rows of each device's neighbours (HiFGL, Eq. 2), with all parties simulated in this process.

        By default the scheme refuses sums over few neighbours, because such sums reveal single rows. See
        `NeighbourSum.exact` for sums over other devices than the neighbours.

        Args:
            rows: [n, d], one per device, of magnitude up to 16 over a field.
            scheme: computes the sums; see `fgl-secure list schemes`.
            record: whether the transcript keeps what messages say, for attacks; sizes alone otherwise.
            coins: of all parties; the operating system's unless given.

        Raises:
            InputError: rows do not fit, or the scheme can't compute such sums.
        """
        values = as_floats(rows, "rows")
        if values.ndim != 2 or len(values) != self.graph.num_devices:
            raise InputError(f"rows must be [{self.graph.num_devices}, d]; found {list(values.shape)}")
        chosen = parse(scheme, (NEIGHBOURS,))[1] if isinstance(scheme, str) else scheme
        parties = hierarchy_of(self.graph, helpers_of([chosen]))
        channel = Channel(parties, coins or SystemCoins(), Recording.everything() if record else Recording())
        grouping = neighbour_sums(self.graph)
        collective = open_neighbours(chosen, grouping, values.shape[1], channel)
        sums = collective.sum(values, Step(0))
        summed, size = chosen.answered_grouping(collective.topology.grouping), len(values)
        terms, wanted = (np.bincount(item.target, minlength=size) for item in (summed, grouping))
        computed, expected = (item.source * size + item.target for item in (summed, grouping))
        right = np.bincount(summed.target[np.isin(computed, expected)], minlength=size)
        exact = (right == terms) & (terms == wanted)
        return NeighbourSum(sums, terms, exact, channel.transcript.byte_count, channel.transcript)

    def __repr__(self) -> str:
        crossing = int(self.graph.crosses_silos.sum())
        return (
            f"Hierarchy(devices={self.graph.num_devices}, silos={self.graph.num_silos}, edges between silos={crossing})"
        )


def _edges_alone(edge_index: Any, silos: Any, known: int | None) -> Any:
    """A graph of edges alone, in the form of PyTorch Geometric's `Data`."""
    edges = np.asarray(edge_index)
    if edges.ndim != 2 or len(edges) != 2 or edges.dtype.kind not in "iu":
        raise InputError(
            f"graph must be PyTorch Geometric's Data or an edge_index, integers [2, m]; found {edges.dtype} "
            f"{list(edges.shape)}"
        )
    highest, different = int(edges.max(initial=-1)), len(np.unique(edges))
    if not isinstance(silos, str | int | np.integer) and np.ndim(silos) != 1:
        raise InputError(f"silos must be a number, PARTITION:K or one integer per node; found {silos!r}")
    nodes = known or (highest + 1 if isinstance(silos, str | int | np.integer) else np.size(silos))
    if known is None and highest > 10 * different + 1000:
        raise InputError(
            f"edge_index must be of nodes 0..n-1; found {different} different nodes up to {highest}: number them anew, "
            "or give Data with num_nodes"
        )
    mask = np.ones(nodes, dtype=np.bool_)
    return SimpleNamespace(x=np.zeros((nodes, 1)), y=np.zeros(nodes, np.int64), edge_index=edges, train_mask=mask)
