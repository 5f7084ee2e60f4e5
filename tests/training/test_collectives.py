"""Weighted means and sums of silos as programs call them: exact on their grid, alike everywhere, and hidden."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from fgl_secure.algebra import FixedPoint
from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import FieldRangeError, InputError, ProtocolError
from fgl_secure.graph import Graph
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.topology import SERVER
from fgl_secure.runtime import Channel, Party, Phase, Recording, Role, Step, View
from fgl_secure.runtime.transcript import SERVER_SUM
from fgl_secure.schemes import names, server_scheme
from fgl_secure.training.calls import Call, CollectiveSetting
from fgl_secure.training.collectives import Collectives
from fgl_secure.training.gradient_sums import DeviceFactors
from fgl_secure.training.one_process import OneProcess
from fgl_secure.training.parties import hierarchy_of
from fgl_secure.training.processes.process import SERVER as HUB
from fgl_secure.training.processes.process import Parcel
from fgl_secure.training.processes.sums import DONE, EVERYBODY, Company, SiloSums, SumServer
from fgl_secure.training.program import Program
from fgl_secure.training.server_sums import BOUND, RECEIVED
from fgl_secure.typing import Array
from tests.error_codes import about
from tests.graphs import two_communities
from tests.training.processes.runs import silo_makes, together

WHOLE = two_communities(devices=12, silos=3)
GRAPH = replace(WHOLE, graph=Graph.from_arrays("usual features", WHOLE.features / 2, WHOLE.labels, WHOLE.edges))
"""No feature is so large that ranges of sums are found."""
WEIGHTS = (1, 7, 300)
ROWS = np.random.default_rng(0).normal(size=(3, 50)).astype(np.float32)
COUNTS = np.array([[4, 0], [0, 2], [2**31, 1]])


class Means(Program):
    """Two rounds of a mean, and of figures beside it.

    Args:
        comm: the collectives of the run.
        rows: float [3, P], what each silo adds.
        weights: of the silos.
        heaviest: the largest one.
    """

    def __init__(
        self,
        comm: Collectives,
        rows: NDArray[np.floating] = ROWS,
        weights: tuple[int, ...] = WEIGHTS,
        heaviest: int = 300,
    ) -> None:
        super().__init__(comm)
        self._row, self._weight, self._heaviest = rows[comm.silo.silo], weights[comm.silo.silo], heaviest

    def round(self, number: int) -> bool:
        mean = self.comm.mean(self._row, self._weight, self._heaviest)
        with self.comm.evaluation():
            sums, counts = self.comm.server(self._row[:2], COUNTS[self.silo.silo])
        fine, _ = self.comm.server(self._row[:2], grid=self.comm.grid(20))
        parts, tallies = self.comm.ratios([self._row[:3], self._row[3:4]], np.array([0.0, 0.5]), COUNTS[self.silo.silo])
        self.kept[str(number)] = np.concatenate([mean, sums, counts, fine, *parts, tallies])
        return number < 1

    @property
    def report(self) -> dict[str, Array]:
        return self.kept


def ran(scheme: Scheme, make: Callable[[Collectives], Program] = Means) -> tuple[OneProcess, Channel]:
    """Both rounds in one process, with everything recorded."""
    channel = Channel(hierarchy_of(GRAPH), SimulationCoins(0), Recording.everything())
    process = OneProcess(GRAPH, {SERVER: scheme}, channel, make)
    assert process.round(0)
    assert not process.round(1)
    return process, channel


def server_of(channel: Channel) -> View:
    return channel.transcript.view([Party(Role.SERVER, 0)])


@pytest.mark.parametrize("name", names("server"))
def test_means_and_sums_are_those_of_the_numbers(name: str) -> None:
    """The mean within half a unit, sums within K half units, and counts exactly, under every scheme."""
    process, _ = ran(server_scheme(name))
    for program in process.programs:
        bits = program.comm.grid(heaviest=300).fraction_bits
        for found in program.report.values():
            mean = np.average(ROWS.astype(np.float64), axis=0, weights=WEIGHTS)
            assert np.abs(found[:50] - mean).max() <= 2.0 ** -(bits + 1) + 1e-15
            np.testing.assert_allclose(found[50:52], ROWS[:, :2].sum(axis=0), atol=1e-6)
            assert np.array_equal(found[52:54], COUNTS.sum(axis=0))
            assert np.abs(found[54:56] - ROWS[:, :2].sum(axis=0, dtype=np.float64)).max() <= 3 * 2.0**-21
            assert np.isnan(found[56:59]).all(), "no denominator"
            assert abs(found[59] - ROWS[:, 3].sum(dtype=np.float64) / 1.5) <= 2.0**-29
            assert np.array_equal(found[60:], COUNTS.sum(axis=0))


@pytest.mark.parametrize("scheme", [Plaintext(), PairwiseMasking()], ids=lambda scheme: str(scheme.name))
def test_a_process_for_each_silo_finds_the_same_bits(scheme: Scheme) -> None:
    """Though each is put down after every turn."""
    found = together(
        silo_makes(GRAPH, Means, {"neighbours": Plaintext(), SERVER: scheme}), GRAPH, scheme, put_down=True
    )
    for silo, program in enumerate(ran(scheme)[0].programs):
        assert {name: values.tobytes() for name, values in found[silo].items()} == {
            name: values.tobytes() for name, values in program.report.items()
        }


def test_the_server_learns_the_mean_and_no_weight() -> None:
    """In the clear it sees every row and weight, as reals; under masks it is left with sums alone."""
    clear, masked = (server_of(ran(scheme)[1]) for scheme in (Plaintext(), PairwiseMasking()))
    first = next(batch for batch in clear.messages(Phase.VECTORS) if not batch.step.evaluation)
    assert first.payload is not None
    assert np.array_equal(first.payload[:, -1], WEIGHTS)
    np.testing.assert_allclose(first.payload[:, :-1], ROWS * np.array(WEIGHTS)[:, None], atol=300 * 2.0**-31)
    assert not masked.messages(Phase.VECTORS)
    for view in (clear, masked):
        (sums, *_) = (rows for rows in view.own(SERVER_SUM) if not rows.step.evaluation)
        assert sums.values[0, -1] == sum(WEIGHTS)
        assert {rows.values.shape for rows in view.own(SERVER_SUM)} == {(1, 51), (1, 4), (1, 2), (1, 8)}


def test_silos_are_told_quotients_alone() -> None:
    """Of means and ratios no silo is told a numerator or a denominator, in one process or in its own."""
    _, channel = ran(PairwiseMasking())
    silo = channel.transcript.view([Party(Role.SILO, 0)])
    assert [rows.values.shape[1] for rows in silo.own(RECEIVED)][:4] == [50, 4, 2, 6]
    apart = Channel(hierarchy_of(GRAPH), SimulationCoins(0), Recording.everything())
    together(silo_makes(GRAPH, Means, {"neighbours": Plaintext()}), GRAPH, Plaintext(), apart)
    done = [
        b for b in apart.transcript.messages if b.phase is DONE and b.receivers[0] == apart.parties.ids(Role.SILO)[0]
    ]
    told = [Parcel.from_bytes(b.payload[0].tobytes()).arrays[1] for b in done if b.payload is not None]
    assert [len(total) for total in told[:4]] == [50, 4, 2, 6]


def test_parts_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InputError, check=about("denominators")):
        ran(Plaintext())[0].programs[0].comm.ratios([ROWS[0], ROWS[1]], np.ones(1))
    for parts in ((6,), (-1,), (3, 2)):
        company = Company(2, Plaintext(threshold=1), bytes(16))
        server, silos = (
            SumServer(company, SimulationCoins(0)),
            [SiloSums(company, k, SimulationCoins(k)) for k in (0, 1)],
        )
        said = {
            k: silo.begin({EVERYBODY: np.ones(6, dtype=np.int64)}, 9, Step(0), parts) for k, silo in enumerate(silos)
        }
        with pytest.raises(ProtocolError, check=about("parts")):
            server.turn({k: out[HUB] for k, out in said.items()})


def test_grids_have_the_bits_that_there_is_room_for() -> None:
    """Schemes with less room make the grid coarser, and never finer than what was asked for."""
    silo = ran(Plaintext())[0].programs[0].silo
    for largest, bits in ((2**62, 30), (2**30, 22), (2**20, 12)):
        setting = CollectiveSetting(np.zeros(4, dtype=np.int64), FixedPoint(None, 1.0, 1), lambda _: False, largest)
        assert Collectives(silo, setting).grid().fraction_bits == bits


@pytest.mark.parametrize("value", [np.nan, np.inf, BOUND * 1.01])
def test_values_beyond_the_bound_are_refused(value: float) -> None:
    """NaN, infinities and entries beyond the bound raise before a message is sent."""
    rows = ROWS.copy()
    rows[1, 2] = value
    channel = Channel(hierarchy_of(GRAPH), SimulationCoins(0), Recording.everything())
    process = OneProcess(GRAPH, {SERVER: PairwiseMasking()}, channel, lambda comm: Means(comm, rows))
    with pytest.raises(InputError, check=about("summands")):
        process.round(0)
    assert not channel.transcript.messages


@pytest.mark.parametrize("weights", [(1, 1, 0), (1, 1, 11), (-1, 1, 1)])
def test_weights_out_of_range_are_refused(weights: tuple[int, ...]) -> None:
    """None, a negative one and one beyond the stated largest raise before a message is sent, and are not shown."""
    channel = Channel(hierarchy_of(GRAPH), SimulationCoins(0), Recording.everything())
    process = OneProcess(GRAPH, {}, channel, lambda comm: Means(comm, ROWS, weights, 10))
    with pytest.raises(InputError, check=about("weight")):
        process.round(0)
    assert not channel.transcript.messages


def test_weights_without_room_are_refused() -> None:
    """Sums that double precision could not tell apart are refused before anything is sent."""
    with pytest.raises(FieldRangeError, check=about("terms * weight * bound * 2^1")):
        ran(PairwiseMasking(), lambda comm: Means(comm, ROWS, WEIGHTS, 2**60))


def test_what_a_silo_adds_is_in_no_message() -> None:
    """A call in a traceback or a log shows when and what kind, and none of its numbers."""
    secret = np.array([424242.0])
    factors = (DeviceFactors(0, secret[None, None].astype(np.float32), secret[None, None].astype(np.float32), False),)
    call = Call("server", Step(3), rows=secret, factors=factors, terms={1: secret}, sent={1: secret[:, None]})
    assert "424242" not in repr(call)
    assert "round=3" in repr(call)
