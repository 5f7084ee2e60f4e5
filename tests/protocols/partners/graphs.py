"""Undirected graphs of devices, and agreements on them."""

from __future__ import annotations

import networkx as nx
import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from fgl_secure.coins import SimulationCoins
from fgl_secure.protocols.partnering import Partnering
from fgl_secure.protocols.partners.machine import PartnerDevices
from fgl_secure.protocols.topology import Grouping
from fgl_secure.runtime import Channel, Directory, OwnDraws, Recording, Role, decode, encode

Ids = NDArray[np.int64]
Pairs = set[tuple[int, int]]


def grouping_of(pairs: Pairs, nodes: int, silos: int = 1) -> tuple[Directory, Grouping]:
    """A row and a sum for each of some devices, dealt to silos in turn, and messages both ways along pairs."""
    parties = Directory.hierarchy(silos, nodes, 2)
    devices, owners = parties.ids(Role.DEVICE), parties.ids(Role.SILO)[np.arange(nodes) % silos]
    both = sorted({(b, a) for a, b in pairs} | {(a, b) for a, b in pairs})
    edges = np.array(both, dtype=np.int64).reshape(-1, 2).T
    return parties, Grouping(devices, devices, edges[0], edges[1], owners, owners)


def channel_of(parties: Directory, seed: int = 0) -> Channel:
    """Records everything, under repeatable coins."""
    return Channel(parties, SimulationCoins(seed), Recording.everything())


@st.composite
def graphs(draw: st.DrawFn, most: int = 24) -> tuple[Pairs, int]:
    """Pairs of places, and how many places there are: random, trees, stars with leaves, and several pieces."""
    nodes = draw(st.integers(2, most))
    kind, seed = draw(st.sampled_from(["random", "tree", "star", "pieces"])), draw(st.integers(0, 2**32 - 1))
    made = {
        "random": lambda: nx.gnp_random_graph(nodes, 3 / nodes, seed=seed),
        "tree": lambda: nx.barabasi_albert_graph(nodes, 1, seed=seed),
        "star": lambda: nx.star_graph(nodes - 1),
        "pieces": lambda: nx.disjoint_union(nx.path_graph(nodes // 2), nx.cycle_graph(nodes - nodes // 2)),
    }[kind]()
    return {(min(e), max(e)) for e in made.edges if e[0] != e[1]}, nodes


class OneEach:
    """Every device in a process of its own, that is put down after each turn: bytes between them.

    Args:
        grouping: who has whom as neighbour.
        rules: the same for all.
        devices: the machine.
    """

    def __init__(self, grouping: Grouping, rules: Partnering, devices: type[PartnerDevices] = PartnerDevices) -> None:
        self._grouping, self._rules, self._devices = grouping, rules, devices
        self.parties: list[int] = grouping.owners.tolist()
        self._draws = {party: OwnDraws(SimulationCoins(party)) for party in self.parties}
        self.machines = {party: self._made(party) for party in self.parties}

    def _made(self, party: int) -> PartnerDevices:
        return self._devices(np.array([party]), self._grouping, self._rules, self._draws[party])

    def run(self) -> None:
        """All turns."""
        while True:
            said = [encode(each) for machine in self.machines.values() for each in machine.turn()]
            for party in self.parties:
                machine = self._made(party)
                machine.restore(self.machines[party].state())
                self.machines[party] = machine
            for data in said:
                messages = decode(data)
                for party in np.unique(messages.receivers).tolist():
                    self.machines[party].take(messages.rows(messages.receivers == party))
            waiting = [machine.settle() for machine in self.machines.values()]
            if not said and not any(waiting):
                return
