"""Small runs of coded products: whose devices are whose, and the machines of one process or of several."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.coins import SimulationCoins
from fgl_secure.protocols.coded_products import CodedProducts, OuterProduct, ProductCollective, ProductLayout
from fgl_secure.protocols.topology import MEMBERS, Grouping, Topology
from fgl_secure.runtime import Channel, Directory, Recording, Role
from fgl_secure.runtime.channel import Loss

Ids = NDArray[np.int64]
Floats = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Members:
    """Devices of silos, and relays."""

    directory: Directory
    silo_of: Ids
    topology: Topology

    @classmethod
    def of(cls, silo_of: list[int], relays: int, silos: int = 2) -> Members:
        """The devices of these silos."""
        parties, where = Directory.hierarchy(silos, len(silo_of), relays), np.array(silo_of)
        devices, owners = parties.ids(Role.DEVICE), parties.ids(Role.SILO)
        grouping = Grouping(devices, owners, np.arange(len(where)), where, owners[where], owners)
        return cls(parties, where, Topology(MEMBERS, grouping, 1))

    def channel(self, loss: Loss | None = None, seed: int = 0) -> Channel:
        """One that records everything."""
        return Channel(self.directory, SimulationCoins(seed), Recording.everything(), loss)

    def collective(
        self, scheme: CodedProducts, layout: ProductLayout, channel: Channel | None = None
    ) -> ProductCollective:
        """Sums in one process."""
        return ProductCollective(scheme, self.topology, layout, channel or self.channel())

    def sums(self, left: Floats, right: Floats) -> list[Floats]:
        """What every silo is entitled to of a product, with all terms added up: [height, width] each."""
        return [
            sum(a[self.silo_of == s].T @ b[self.silo_of == s] for a, b in zip(left, right, strict=True))
            for s in range(len(self.topology.grouping.group_owner))
        ]


LAYOUT = ProductLayout((OuterProduct(1, 5, 3, static=True), OuterProduct(2, 4, 2)))
"""A first layer whose input rows stay, and a second one with two rows to a device."""


def factors(seed: int, devices: int, layout: ProductLayout = LAYOUT) -> tuple[list[Floats], list[Floats]]:
    """Real factors for every product of a layout; static ones are the same whatever the seed."""
    rng, still = np.random.default_rng(seed), np.random.default_rng(1000)
    lefts = [(still if p.static else rng).normal(size=(p.terms, devices, p.height)) for p in layout.products]
    return lefts, [rng.normal(size=(p.terms, devices, p.width)) for p in layout.products]
