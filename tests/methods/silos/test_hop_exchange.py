"""Silos come to hold the very rows that the exchange in one process gives them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from fgl_secure.coins import SimulationCoins, SystemCoins
from fgl_secure.errors import InputError, ProtocolError, SketchOverfullError
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fedstruct.hop_exchange import exchanged_rows
from fgl_secure.methods.silos import rooms
from fgl_secure.methods.silos.hop_exchange import HopExchange
from fgl_secure.protocols.hop_adjacency import HopSettings, Pruning
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.runtime import Channel, Phase, Step
from fgl_secure.runtime.packing import Array, Arrays, under, within
from fgl_secure.training.parties import hierarchy_of
from fgl_secure.training.processes.parcels import Parcel
from fgl_secure.training.processes.process import NOTHING, Inbox, Outbox, Process
from fgl_secure.training.processes.sum_server import SumServer
from fgl_secure.training.processes.sums import SiloSums
from fgl_secure.training.silo import Silo
from tests.graphs import two_communities
from tests.training.processes.runs import PutDown, company, run_together


class Exchanging(Process):
    """Nothing but the exchange."""

    def __init__(self, share: Silo, settings: HopSettings, sums: SiloSums) -> None:
        self._sums, self.exchange = sums, HopExchange(share, settings, sums, SystemCoins())
        self._done = False

    def turn(self, inbox: Inbox) -> Outbox:
        out = self.exchange.take(inbox)
        self._done = out is None
        return NOTHING if out is None else out

    @property
    def report(self) -> dict[str, Array] | None:
        return {"rows": self.exchange.rows.toarray()} if self._done else None

    def state(self) -> dict[str, Array]:
        return {**under("sums", self._sums.state()), **under("exchange", self.exchange.state())}

    def restore(self, state: Arrays) -> None:
        self._sums.restore(within("sums", state))
        self.exchange.restore(within("exchange", state))


@pytest.fixture(scope="module")
def graph() -> FederatedGraph:
    return two_communities(devices=45, silos=3)


def program(graph: FederatedGraph, settings: HopSettings, silo: int) -> Exchanging:
    sums = SiloSums(company(graph, PairwiseMasking()), silo, SystemCoins())
    return Exchanging(Silo.of(graph, silo), settings, sums)


@pytest.mark.parametrize(("pruning", "kept"), [(Pruning.NONE, 30), (Pruning.MATRIX, 6)])
def test_rows_are_those_of_the_exchange_in_one_process(graph: FederatedGraph, pruning: Pruning, kept: int) -> None:
    """To the last bit: terms are rounded to the same fixed point, and the same largest entries are kept."""
    settings = HopSettings(4, pruning, kept)
    channel = Channel(hierarchy_of(graph), SimulationCoins(0))
    whole: sparse.csr_array = exchanged_rows(graph, channel, PairwiseMasking(), settings)
    programs = {s: PutDown(lambda s=s: program(graph, settings, s)) for s in range(3)}  # type: ignore[misc]
    reports = run_together(programs, SumServer(company(graph, PairwiseMasking()), SystemCoins()))
    for silo, report in reports.items():
        assert np.array_equal(report["rows"], whole[graph.devices_of(silo)].toarray())


@pytest.mark.parametrize(("growing", "room"), [("grows", 2), ("never", 0)])
def test_a_table_that_is_too_small_is_asked_for_again(
    graph: FederatedGraph, monkeypatch: pytest.MonkeyPatch, growing: str, room: int
) -> None:
    """With room for too few entries silos ask for twice as much until it fits; if that never helps they give up."""
    monkeypatch.setattr(rooms, "room_for", lambda *_: 2)
    if growing == "never":
        monkeypatch.setattr(rooms.Rooms, "double", lambda _: None)
    settings = HopSettings(2)
    silos = [SiloSums(company(graph, Plaintext()), silo, SystemCoins()) for silo in range(3)]
    programs = {s: Exchanging(Silo.of(graph, s), settings, sums) for s, sums in enumerate(silos)}
    server = SumServer(company(graph, Plaintext()), SystemCoins())
    if not room:
        with pytest.raises(SketchOverfullError, match="12 attempts"):
            run_together(programs, server)
        return
    reports = run_together(programs, server)
    assert int(programs[0].exchange.state()["where"][2]) > 1
    assert np.allclose(sum(report["rows"].sum() for report in reports.values()), 45, atol=1e-3)


def test_pruning_of_shares_is_refused(graph: FederatedGraph) -> None:
    """For the entries of each block a silo would have to know whose every node is."""
    with pytest.raises(InputError, match="pruning must be none or matrix"):
        program(graph, HopSettings(2, Pruning.SHARES), 0)


def test_a_silo_alone_is_refused(graph: FederatedGraph) -> None:
    """There is nobody to exchange with."""
    with pytest.raises(InputError, match="silos must be at least 2"):
        program(graph.in_one_silo(), HopSettings(2), 0)


@pytest.mark.parametrize("asked", [(-2, 0), (10**9, 0), (5, -1)])
def test_room_that_makes_no_sense_is_refused(graph: FederatedGraph, asked: tuple[int, int]) -> None:
    """Less than nothing, more than a dense matrix has, or a seed below 0."""
    silo = program(graph, HopSettings(2), 0)
    silo.turn({})
    parcel = Parcel(Phase.CAPACITIES, Step(0, 2), (np.array(asked),))
    with pytest.raises(ProtocolError, match="must ask for room"):
        silo.turn({1: [parcel], 2: [parcel]})
