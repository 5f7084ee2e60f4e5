"""A relay answers what it is asked for and refuses what the protocol does not allow."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pytest

from fgl_secure.coins import SystemCoins
from fgl_secure.errors import ProtocolError
from fgl_secure.graph import FederatedGraph
from fgl_secure.protocols.relay_coded import Profile, RelayCoded
from fgl_secure.runtime import Phase, Step, decode, encode
from fgl_secure.runtime.packing import named_from_bytes, named_to_bytes
from fgl_secure.training.processes.neighbours import HostedSums, RelayProcess
from fgl_secure.training.processes.process import NOTHING, Inbox, Outbox, Parcel
from fgl_secure.training.silo import Silo
from fgl_secure.typing import Array
from tests.error_codes import about
from tests.graphs import two_communities
from tests.training.processes.mailbox import Mailbox

SESSION = bytes(range(16))
SCHEME = RelayCoded(R=4, k_min=1, profile=Profile.SHOWN)
SILOS = 2
NOW = Step(0, 0)


@pytest.fixture(scope="module")
def graph() -> FederatedGraph:
    return two_communities(devices=16, silos=SILOS)


def changed(parcel: Parcel, name: str, change: Callable[[Array], Array]) -> Parcel:
    messages = decode(parcel.arrays[0].tobytes(), SESSION)
    fields = {**messages.fields, name: change(messages[name].copy())}
    data = encode(replace(messages, fields=fields), SESSION)
    return Parcel(parcel.phase, parcel.step, (np.frombuffer(data, dtype=np.uint8),))


class Run:
    """One sum over neighbours, turn by turn, with a hand in the mailbox."""

    def __init__(self, graph: FederatedGraph) -> None:
        self.shares = [Silo.of(graph, silo) for silo in range(SILOS)]
        self.silos = [HostedSums(share, SCHEME, SESSION, SystemCoins()) for share in self.shares]
        self.relays = [RelayProcess(j, SILOS, SCHEME, SESSION, SystemCoins()) for j in range(SCHEME.R)]
        self.inboxes: dict[int, Inbox] = {}
        self._box = Mailbox(SILOS)
        out = {silo: part.prepare() for silo, part in enumerate(self.silos)}
        self._deliver(out | {SILOS + j: relay.step({}) for j, relay in enumerate(self.relays)})
        self.turn()
        self.turn()
        self.values = [
            np.full((len(share.nodes), 2), 1 + silo, dtype=np.float32) for silo, share in enumerate(self.shares)
        ]
        self._deliver({silo: part.begin(self.values[silo], NOW) for silo, part in enumerate(self.silos)})

    def _deliver(self, outboxes: Mapping[int, Outbox]) -> None:
        self.inboxes = dict(self._box.sorted(outboxes))

    def turn(self) -> None:
        parties = dict(enumerate([part.take for part in self.silos] + [relay.step for relay in self.relays]))
        self._deliver({party: take(self.inboxes.get(party, {})) or NOTHING for party, take in parties.items()})

    def turns(self, count: int) -> None:
        for _ in range(count):
            self.turn()

    def change(self, receiver: int, sender: int, phase: Phase, name: str, change: Callable[[Array], Array]) -> None:
        """Changes a field of the messages of a phase on their way."""
        box = dict(self.inboxes[receiver])
        box[sender] = tuple(changed(p, name, change) if p.phase is phase else p for p in box[sender])
        self.inboxes[receiver] = box

    def expected(self, graph: FederatedGraph, silo: int) -> Array:
        sums = np.zeros((graph.num_devices, 2))
        np.add.at(sums, graph.edges[1], (1.0 + graph.silo_of[graph.edges[0]])[:, None])
        return sums[graph.devices_of(silo)]


TURNS = 8
"""Keys and theirs, tags, shares, rosters and fetches, answers, the same by way of the silos, and sums."""
SHARES, ANSWERS = 3, 5
"""Turns after which shares, and answers, are on their way."""


def test_sums_are_those_of_neighbours(graph: FederatedGraph) -> None:
    """Some turns after keys went out both silos have the sums of their devices."""
    run = Run(graph)
    run.turns(TURNS)
    for silo, part in enumerate(run.silos):
        assert np.allclose(part.result, run.expected(graph, silo), atol=1e-3)


def test_a_step_is_summed_once(graph: FederatedGraph) -> None:
    """Masks of a step are not used for a second message, not by a program that was put down either."""
    run = Run(graph)
    run.turns(TURNS)
    again = HostedSums(run.shares[0], SCHEME, SESSION, SystemCoins())
    again.restore(named_from_bytes(named_to_bytes(run.silos[0].state())))
    for part in (run.silos[0], again):
        with pytest.raises(ProtocolError, check=about("a step")):
            part.begin(run.values[0], NOW)


def test_no_sum_before_messages_are_agreed_on(graph: FederatedGraph) -> None:
    """Silos must have told each other which messages are wanted."""
    part = HostedSums(Silo.of(graph, 0), SCHEME, SESSION, SystemCoins())
    with pytest.raises(ProtocolError, check=about("silos")):
        part.begin(np.zeros((8, 2)), NOW)


def test_one_relay_that_lies_is_corrected(graph: FederatedGraph) -> None:
    """With R = T + 3 relays one may answer with wrong sums."""
    run = Run(graph)
    run.turns(ANSWERS)
    run.change(0, SILOS + 2, Phase.SEALED, "sum", lambda sums: (sums + 17) % SCHEME.field.modulus)
    run.turns(TURNS - ANSWERS)
    assert np.allclose(run.silos[0].result, run.expected(graph, 0), atol=1e-3)


def test_a_silo_sends_for_its_own_devices_alone(graph: FederatedGraph) -> None:
    """What one silo sends in the name of another's device is refused."""
    run = Run(graph)
    run.turns(SHARES)
    box = dict(run.inboxes[SILOS])
    box[0], box[1] = box[1], box[0]
    run.inboxes[SILOS] = box
    with pytest.raises(ProtocolError, check=about("party 0")):
        run.turn()
