"""Sums over neighbours at other silos between processes, where silos add up beforehand what goes to one node."""

from __future__ import annotations

import numpy as np

from fgl_secure.algebra.quantization import FixedPoint
from fgl_secure.coins import Coins
from fgl_secure.protocols.scheme import Scheme, SumMachine, least_group
from fgl_secure.protocols.topology import NEIGHBOURS, AgreedGrouping, Topology
from fgl_secure.runtime import Direction
from fgl_secure.training.parties import most_rows
from fgl_secure.training.processes.hosting import Hosting
from fgl_secure.training.processes.process import Inbox, Outbox
from fgl_secure.training.processes.relay import HostedSums
from fgl_secure.training.processes.ways import Neighbours
from fgl_secure.training.silo import Silo
from fgl_secure.typing import Flags, Ids


class SiloNeighbours(Neighbours):
    """Which edges between silos rows are sums along; a silo asks for no sum over fewer other silos than the minimum."""

    def __init__(self, share: Silo, minimum: int) -> None:
        super().__init__(share, 1)
        crossing = self._to_here & ~self._from_here
        asking = share.local(share.edges[1, crossing])
        pairs = np.unique(asking * share.facts.silos + self._source_silo[crossing]) // share.facts.silos
        enough = np.bincount(pairs, minlength=len(share.nodes)) >= minimum
        self._forward = np.zeros(share.edges.shape[1], dtype=np.bool_)
        self._forward[np.flatnonzero(crossing)[enough[asking]]] = True

    @property
    def wanted(self) -> Flags:
        """Bool [e], once the others have been heard."""
        return self._forward

    def rows(self) -> tuple[Ids, Ids]:
        """Of rows to and from other silos: the node that each is for, and the silo that adds it up."""
        nodes, silos = self._share.edges[1, self._forward], self._source_silo[self._forward]
        node, silo = np.unique(np.stack([nodes, silos]), axis=1)
        return node, silo


class SiloRowSums(HostedSums):
    """One silo's part in such sums; there is no way back. Arguments as for `HostedSums`."""

    def __init__(self, share: Silo, scheme: Scheme, session: bytes, coins: Coins, width: int = 1) -> None:
        super().__init__(share, scheme, session, coins, width)
        self._between = SiloNeighbours(share, least_group(scheme))
        self._neighbours = self._between
        self._fixed: FixedPoint | None = scheme.fixed_point(most_rows(share.facts.silos))

    def between(self) -> tuple[int, Flags]:
        """The rows that the silo adds, and along which of its edges."""
        return int((self._between.rows()[1] == self._share.silo).sum()), self._between.wanted

    def take(self, inbox: Inbox) -> Outbox | None:
        """One turn; see `HostedSums.take`."""
        if self.agreed:
            return super().take(inbox)
        self._between.hear(inbox, Direction.FORWARD)
        self._agree()
        return None

    def _hosted(self) -> Hosting[SumMachine]:
        share, numbering = self._share, self._numbering
        nodes, senders = self._between.rows()
        ends = np.union1d(share.nodes, nodes)
        silos = share.owners(ends)[0]
        owners = [numbering.silo(each) for each in (senders, silos)]
        there, back = np.ones(len(nodes), dtype=np.bool_), np.zeros(len(nodes), dtype=np.bool_)
        order, target = np.arange(len(nodes)), np.searchsorted(ends, nodes)
        grouping = AgreedGrouping(owners[0], owners[1], order, target, owners[0], owners[1], there, back)
        topology = Topology(NEIGHBOURS, grouping, self._width, helpers=numbering.all_relays)
        here = numbering.silo(np.array([share.silo]))
        machines = self._scheme.machines(topology, self._session, self._draws, here)
        return Hosting(machines, share.silo, self._process_of, self._session)
