"""Machines of one scheme, each party in a process of its own: bytes between them, states written between turns."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.coins import Coins, SimulationCoins
from fgl_secure.protocols.scheme import Scheme, SumMachine
from fgl_secure.protocols.topology import Grouping, Topology
from fgl_secure.runtime import Direction, Directory, OwnDraws, Step, decode, encode

SESSION = bytes(16)


class Processes:
    """All parties, each in a process of its own.

    Args:
        scheme: how sums are computed.
        topology: who adds what for whom.
        parties: of the run.
        coins: of each party; seeded by its number unless given.
    """

    def __init__(
        self, scheme: Scheme, topology: Topology, parties: Directory, coins: dict[int, Coins] | None = None
    ) -> None:
        self.topology = topology
        self.hosts: list[list[SumMachine]] = []
        for party in range(len(parties)):
            draws = OwnDraws(SimulationCoins(party) if coins is None else coins[party])
            self.hosts.append([*scheme.machines(topology, SESSION, draws, np.array([party]))])

    @property
    def machines(self) -> list[SumMachine]:
        """Those of all processes."""
        return [machine for machines in self.hosts for machine in machines]

    def sum(self, rows: NDArray[Any], step: Step, order: list[int] | None = None) -> NDArray[Any]:
        """The sums of a step: [*tapes, g, d] where every group is one process's.

        Args:
            rows: as the machines take them.
            step: when.
            order: in which processes are heard; ascending unless given.
        """
        way = self._way(step)
        for machine in self.machines:
            own = np.isin(way.row_owner, machine.parties)
            machine.begin(step, rows[own] if own.any() else None)
        while self._turn(order or list(range(len(self.hosts)))):
            pass
        sums = np.zeros((len(way.group_owner), rows.shape[1]), dtype=np.float64)
        for machine in self.machines:
            held = np.isin(way.group_owner, machine.parties)
            if machine.sums is not None and held.any():
                sums = sums.astype(machine.sums.dtype)
                sums[held] = machine.sums[:, : rows.shape[1]]
        return sums

    def _turn(self, order: list[int]) -> bool:
        """One turn of all; whether anybody said anything."""
        said = [[encode(messages) for machine in machines for messages in machine.step()] for machines in self.hosts]
        for machine in self.machines:
            machine.restore({name: value.copy() for name, value in machine.state().items()})
        for data in (data for host in order for data in said[host]):
            messages = decode(data)
            for machine in self.machines:
                mine = np.isin(messages.receivers, machine.parties)
                if mine.any():
                    machine.receive(messages.rows(mine))
        return any(said)

    def _way(self, step: Step) -> Grouping:
        grouping = self.topology.grouping
        return grouping if step.direction is Direction.FORWARD else grouping.reverse()
