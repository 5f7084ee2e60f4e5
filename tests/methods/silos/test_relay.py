"""A relay answers what it is asked for and refuses what the protocol does not allow."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest

from fgl_secure.coins import SystemCoins
from fgl_secure.errors import ProtocolError
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.silos.mailbox import Mailbox
from fgl_secure.methods.silos.parcels import Array, Parcel
from fgl_secure.methods.silos.program import NOTHING, Inbox, Outbox
from fgl_secure.methods.silos.relay import RelayProgram
from fgl_secure.methods.silos.relay_sums import RelaySums
from fgl_secure.methods.silos.share import SiloShare
from fgl_secure.protocols.relay_coded import RelayCoded
from fgl_secure.runtime import Phase, Step
from tests.graphs import two_communities
from tests.methods.silos.runs import SESSION

SCHEME = RelayCoded(R=4, k_min=1)
SILOS = 2
NOW = Step(0, 0)


@pytest.fixture(scope="module")
def graph() -> FederatedGraph:
    return two_communities(devices=16, silos=SILOS)


class Run:
    """One sum over neighbours, turn by turn, with a hand in the mailbox."""

    def __init__(self, graph: FederatedGraph) -> None:
        self.shares = [SiloShare.of(graph, silo) for silo in range(SILOS)]
        self.silos = [RelaySums(share, SCHEME, SESSION, SystemCoins()) for share in self.shares]
        self.relays = [RelayProgram(j, SILOS, SCHEME, SESSION, SystemCoins()) for j in range(SCHEME.R)]
        self.inboxes: dict[int, Inbox] = {}
        self._box = Mailbox(SILOS)
        out = {silo: part.prepare() for silo, part in enumerate(self.silos)}
        self._deliver(out | {SILOS + j: relay.turn({}) for j, relay in enumerate(self.relays)})
        self.turn()
        self.turn()
        self.values = [
            np.full((len(share.nodes), 2), 1 + silo, dtype=np.float32) for silo, share in enumerate(self.shares)
        ]
        self._deliver({silo: part.begin(self.values[silo], NOW) for silo, part in enumerate(self.silos)})

    def _deliver(self, outboxes: Mapping[int, Outbox]) -> None:
        self.inboxes = dict(self._box.sorted(outboxes))

    def turn(self) -> None:
        parties = dict(enumerate([part.take for part in self.silos] + [relay.turn for relay in self.relays]))
        self._deliver({party: take(self.inboxes.get(party, {})) or NOTHING for party, take in parties.items()})

    def turns(self, count: int) -> None:
        for _ in range(count):
            self.turn()

    def change(self, receiver: int, sender: int, phase: Phase, change: Callable[[Array], Array]) -> None:
        """Changes the first array of the parcels of a phase on their way."""
        box = dict(self.inboxes[receiver])
        box[sender] = tuple(
            Parcel(p.phase, p.step, (change(p.arrays[0].copy()), *p.arrays[1:])) if p.phase is phase else p
            for p in box[sender]
        )
        self.inboxes[receiver] = box

    def expected(self, graph: FederatedGraph, silo: int) -> Array:
        sums = np.zeros((graph.num_devices, 2))
        np.add.at(sums, graph.edges[1], (1.0 + graph.silo_of[graph.edges[0]])[:, None])
        return sums[graph.devices_of(silo)]


def test_sums_are_those_of_neighbours(graph: FederatedGraph) -> None:
    """Four turns after tags went out both silos have the sums of their devices."""
    run = Run(graph)
    run.turns(4)
    for silo, part in enumerate(run.silos):
        assert np.allclose(part.result, run.expected(graph, silo), atol=1e-3)


def test_one_relay_that_lies_is_corrected(graph: FederatedGraph) -> None:
    """With R = T + 3 relays one may answer with wrong sums."""
    run = Run(graph)
    run.turns(3)
    run.change(0, SILOS + 2, Phase.SHARE_SUMS, lambda sums: (sums + 17) % SCHEME.field.modulus)
    run.turn()
    assert np.allclose(run.silos[0].result, run.expected(graph, 0), atol=1e-3)


def first(change: Callable[[Array], None]) -> Callable[[Array], Array]:
    def changed(array: Array) -> Array:
        change(array[0])
        return array

    return changed


def foreign_sender(header: Array) -> None:
    header[0] = 10**6


def another_slot(header: Array) -> None:
    header[3] += 1


def another_tag(header: Array) -> None:
    header[1] ^= 1


@pytest.mark.parametrize(
    ("turns", "receiver", "sender", "phase", "change", "message"),
    [
        (1, SILOS, 0, Phase.SHARE_HEADERS, first(foreign_sender), "devices of its own"),
        (1, SILOS + 1, 0, Phase.SHARE_HEADERS, first(another_slot), "number its messages"),
        (1, SILOS + 1, 0, Phase.SHARES, lambda shares: shares - SCHEME.field.modulus, "elements of the field"),
        (1, SILOS + 1, 0, Phase.SHARES, lambda shares: shares[1:], "must hold arrays"),
        (1, SILOS + 1, 0, Phase.SHARE_HEADERS, first(another_tag), "hold the same messages"),
        (3, 0, SILOS, Phase.COUNTS, lambda counts: counts - 1, "sum all messages"),
        (3, 0, SILOS, Phase.SHARE_SUMS, lambda sums: sums - SCHEME.field.modulus, "elements of the field"),
        (0, 0, 1, Phase.TAGS, lambda tags: tags[1:], "must hold arrays"),
    ],
)
def test_what_is_changed_on_the_way_is_refused(
    graph: FederatedGraph, turns: int, receiver: int, sender: int, phase: Phase, change: object, message: str
) -> None:
    """A typed error at whoever notices, and no sum."""
    run = Run(graph)
    run.turns(turns)
    run.change(receiver, sender, phase, change)  # type: ignore[arg-type]
    with pytest.raises(ProtocolError, match=message):
        run.turns(3)


def test_too_many_lies_are_noticed(graph: FederatedGraph) -> None:
    """Two relays of four that lie cannot be told from the others."""
    run = Run(graph)
    run.turns(3)
    for relay in (SILOS, SILOS + 1):
        run.change(0, relay, Phase.SHARE_SUMS, lambda sums: (sums * 3 + 5) % SCHEME.field.modulus)
    with pytest.raises(ProtocolError):
        run.turn()
