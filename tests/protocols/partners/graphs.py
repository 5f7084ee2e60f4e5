"""Undirected graphs of devices, and agreements on them."""

from collections.abc import Sequence
from typing import Any

import networkx as nx
import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from fgl_secure.coins import SimulationCoins
from fgl_secure.protocols.partners import Partners
from fgl_secure.protocols.partners.agreement import outcome
from fgl_secure.protocols.partners.machine import PartnerDevices
from fgl_secure.protocols.topology import Grouping, Partnering
from fgl_secure.runtime import Channel, Directory, OwnDraws, Recording, Role, Step, decode, encode
from fgl_secure.runtime.machine import SETUP

Array = NDArray[Any]
Ids = NDArray[np.int64]
Pairs = set[tuple[int, int]]


def grouping_of(pairs: Pairs, nodes: int, silos: int = 1, relays: int = 2) -> tuple[Directory, Grouping]:
    """A row and a sum for each of some devices, dealt to silos in turn, and messages both ways along pairs."""
    parties = Directory.hierarchy(silos, nodes, relays)
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


def part_of(grouping: Grouping, parties: Ids) -> Grouping:
    """What a process that hosts some devices knows of a grouping with a row and a group of each device."""
    g, own = grouping, np.isin(grouping.row_owner, parties)
    concerns = own[g.source] | own[g.target]
    known = np.flatnonzero(own | np.isin(np.arange(len(own)), [g.source[concerns], g.target[concerns]]))
    source, target = (np.searchsorted(known, each[concerns]) for each in (g.source, g.target))
    owners, silos = g.row_owner[known], g.row_custodian[known]
    return Grouping(owners, owners, source, target, silos, silos)


class OwnStreams(OwnDraws):
    """Coins that each device draws from a stream of its own, whoever hosts it.

    Args:
        seed: of all streams.
        swapped: two devices that have each other's streams.
    """

    def __init__(self, seed: int, swapped: tuple[int, int] = (0, 0)) -> None:
        super().__init__(SimulationCoins(seed))
        self._streams = {one: SimulationCoins(seed * 10**6 + other) for one, other in (swapped, swapped[::-1])}
        self._seed = seed

    def draw(
        self,
        name: str,  # noqa: ARG002  # for recordings
        owners: Ids,
        modulus: int,
        shape: tuple[int, ...],
        step: Step = SETUP,  # noqa: ARG002  # the same
    ) -> Array:
        """One after the other."""
        found = np.empty((len(owners), *shape), dtype=np.int64)
        for place, owner in enumerate(owners.tolist()):
            coins = self._streams.setdefault(owner, SimulationCoins(self._seed * 10**6 + owner))
            found[place] = coins.uniform(modulus, (1, *shape))[0]
        return found


class Apart:
    """Devices in several processes that know what concerns their own, and are put down after each turn.

    Args:
        grouping: who has whom as neighbour.
        rules: the same for all.
        hosted: the devices of each process; one each unless given.
        devices: the machine.
        seed: of the devices' coins.
        swapped: two devices that have each other's coins.

    Attributes:
        machines: one a process.
        heard: what has arrived at each process, as bytes.
    """

    def __init__(
        self,
        grouping: Grouping,
        rules: Partnering,
        hosted: Sequence[Ids] | None = None,
        devices: type[PartnerDevices] = PartnerDevices,
        seed: int = 0,
        swapped: tuple[int, int] = (0, 0),
    ) -> None:
        self._rules, self._devices = rules, devices
        self.hosted = list(grouping.owners[:, None]) if hosted is None else list(hosted)
        self.known = [part_of(grouping, here) for here in self.hosted]
        self._draws = [OwnStreams(seed, swapped) for _ in self.hosted]
        self.heard: list[list[bytes]] = [[] for _ in self.hosted]
        self.machines = [self._made(number) for number in range(len(self.hosted))]

    def _made(self, number: int) -> PartnerDevices:
        return self._devices(self.hosted[number], self.known[number], self._rules, self._draws[number])

    def run(self) -> None:
        """All turns."""
        while True:
            said = [encode(each) for machine in self.machines for each in machine.step()]
            for number, before in enumerate(self.machines):
                self.machines[number] = self._made(number)
                self.machines[number].restore(before.state())
            for messages in map(decode, said):
                for machine, heard in zip(self.machines, self.heard, strict=True):
                    mine = np.isin(messages.receivers, machine.parties)
                    if mine.any():
                        heard.append(encode(messages.rows(mine)))
                        machine.receive(messages.rows(mine))
            going_on = [machine.on_idle() for machine in self.machines]
            if not any(going_on):
                return

    @property
    def partners(self) -> list[Partners]:
        """What each process knows in the end."""
        return [outcome(known, machine) for known, machine in zip(self.known, self.machines, strict=True)]
