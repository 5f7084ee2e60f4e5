"""Sums of programs at few bits: near the numbers', exact where bits are kept, and hidden as others are."""

from functools import partial

import numpy as np
import pytest

from fgl_secure.aggregation.privacy import DistributedNoise
from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import InputError
from fgl_secure.methods.fedavg.program import UpdateRule
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.topology import SERVER
from fgl_secure.runtime import Channel, Party, Phase, Role, Step, Transcript
from fgl_secure.runtime.transcript import SERVER_SUM
from fgl_secure.schemes import server_scheme
from fgl_secure.training.collectives import Collectives
from fgl_secure.training.one_process import OneProcess
from fgl_secure.training.parties import hierarchy_of
from fgl_secure.training.processes.process import SERVER as HUB
from fgl_secure.training.processes.process import Parcel
from fgl_secure.training.processes.sums import DONE, EVERYBODY, Company, SiloSums, SumServer
from fgl_secure.training.program import Program
from fgl_secure.training.ranges import Digits, StepCoins
from fgl_secure.training.server_sums import BOUND, RECEIVED
from fgl_secure.typing import Array
from tests.error_codes import about
from tests.training.processes.runs import silo_makes, together
from tests.training.test_collectives import COUNTS, GRAPH, ROWS, WEIGHTS, ran

PARTS = (20, 30)


class LowMeans(Program):
    """Rounds of a mean and of a sum, in parts; and of figures that keep all bits.

    Args:
        comm: the collectives of the run.
        rounds: how many.
        parts: of the mean.
    """

    def __init__(self, comm: Collectives, rounds: int = 2, parts: tuple[int, ...] = PARTS) -> None:
        super().__init__(comm)
        self._rounds, self._parts = rounds, parts

    def round(self, number: int) -> bool:
        silo = self.silo.silo
        row = ROWS[silo] * np.repeat([1.0, 1e-4], PARTS)
        mean = self.comm.mean(row, WEIGHTS[silo], 300, parts=self._parts)
        sums, counts = self.comm.server(np.append(row, 0.25), COUNTS[silo], grid=self.comm.grid(20), parts=PARTS)
        with self.comm.evaluation():
            fine, _ = self.comm.server(row[:2])
        self.kept[str(number)] = np.concatenate([mean, sums, counts, fine])
        return number < self._rounds - 1

    @property
    def report(self) -> dict[str, Array]:
        return self.kept


def check(report: dict[str, Array], bits: int, rounds: int = 2) -> None:
    """Within a unit of each silo, in a range of less than twice the largest number of a part."""
    assert len(report) == rounds
    rows = ROWS.astype(np.float64) * np.repeat([1.0, 1e-4], PARTS)
    mean, total = np.average(rows, axis=0, weights=WEIGHTS), rows.sum(axis=0)
    for found in report.values():
        for place in (slice(0, 20), slice(20, 50)):
            largest = np.abs(rows[:, place]).max() * 2 / (2 ** (bits - 1) - 1)
            heaviest = np.abs(rows[:, place] * np.array(WEIGHTS)[:, None]).max() * 2 / (2 ** (bits - 1) - 1)
            assert np.abs(found[:50] - mean)[place].max() <= 3 * heaviest / sum(WEIGHTS) * (1 + 1e-9)
            assert np.abs(found[50:100] - total)[place].max() <= 3 * largest * (1 + 1e-9)
        assert found[100] == 0.75
        assert np.array_equal(found[101:103], COUNTS.sum(axis=0))
        np.testing.assert_allclose(found[103:], total[:2], atol=1e-9)


@pytest.mark.parametrize(("name", "bits"), [("pairwise-masking", 8), ("lightsecagg", 16)])
def test_means_and_sums_are_near_those_of_the_numbers(name: str, bits: int) -> None:
    """Each part in a range of its own, what is behind the parts and counts exactly, figures with all bits."""
    process, _ = ran(server_scheme(f"{name}[precision={bits}]"), LowMeans)
    for program in process.programs:
        check(program.report, bits)


def test_a_process_for_each_silo_finds_the_same_within_its_units() -> None:
    """Though each is put down after every turn; what it rounds by follows from its own coins."""
    scheme, rounds = server_scheme("pairwise-masking[precision=8,error-feedback]"), 3
    make = partial(LowMeans, rounds=rounds)
    found = together(silo_makes(GRAPH, make, {"neighbours": Plaintext(), SERVER: scheme}), GRAPH, scheme, put_down=True)
    for report in found.values():
        assert all(np.array_equal(report[key], found[0][key]) for key in report)
    means = np.mean([found[0][str(number)][:20] for number in range(rounds)], axis=0)
    true = np.average(ROWS[:, :20].astype(np.float64), axis=0, weights=WEIGHTS)
    assert np.abs(means - true).max() < 0.05


def off_after(name: str, rounds: int) -> float:
    """How far the sum of all rounds' means is off, root mean square."""
    channel = Channel(hierarchy_of(GRAPH), SimulationCoins(0))
    process = OneProcess(GRAPH, {SERVER: server_scheme(name)}, channel, partial(LowMeans, rounds=rounds))
    for number in range(rounds):
        process.round(number)
    total = sum(process.programs[0].report[str(number)][:20] for number in range(rounds))
    true = np.average(ROWS[:, :20].astype(np.float64), axis=0, weights=WEIGHTS)
    return float(np.sqrt(((total - rounds * true) ** 2).mean()))


def test_errors_that_are_fed_back_do_not_add_up() -> None:
    """Over 6 rounds they are off by those of the last one alone."""
    plain, fed = (off_after(f"pairwise-masking[precision=8{more}]", 6) for more in ("", ",error-feedback"))
    assert fed < plain / 2


def test_the_server_learns_sums_and_silos_no_weight() -> None:
    """No row arrives in the clear; the server has the sum of the weights, and silos quotients, ranges and counts."""
    _, channel = ran(server_scheme("pairwise-masking[precision=8]"), LowMeans)
    transcript: Transcript = channel.transcript
    server, silo = (transcript.view([Party(role, 0)]) for role in (Role.SERVER, Role.SILO))
    assert not server.messages(Phase.VECTORS)
    sums = [rows.values for rows in server.own(SERVER_SUM) if rows.values.shape[-1] == 51]
    assert [float(each[0, -1]) for each in sums] == [sum(WEIGHTS)] * 2
    assert [rows.values.shape[1] for rows in silo.own(RECEIVED)][:3] == [50, 53, 2]
    sent = {batch["vector"].shape[-1] for batch in transcript.messages if batch.phase is Phase.MASKED_VECTORS}
    assert -(-(50 + 2) * 10 // 8) in sent, "8 bits of 3 silos take 10; the weight takes two digits"


def test_parts_that_do_not_fit_are_refused() -> None:
    """Lengths must add up, and numbers be finite and within the bound; nothing is sent before."""
    scheme = server_scheme("pairwise-masking[precision=8]")
    with pytest.raises(InputError, check=about("parts")):
        ran(scheme, partial(LowMeans, parts=(10,)))

    class TooLarge(LowMeans):
        def round(self, number: int) -> bool:  # noqa: ARG002  # there is one
            self.comm.mean(np.full(50, 1.01 * BOUND), 1, 300, parts=PARTS)
            return False

    with pytest.raises(InputError, check=about("summands")):
        ran(scheme, TooLarge)
    with pytest.raises(InputError, check=about("precision")):
        UpdateRule(scheme, DistributedNoise(1.0, 4.0, 1e-5, 10))


def test_digits_that_do_not_fit_are_refused() -> None:
    """By a server that is told of them: none negative, no more than there are entries, and of a sum for everybody."""
    company = Company(3, server_scheme("pairwise-masking[precision=8]"), bytes(16))
    for digits in (Digits(-1, 2, 8), Digits(3, 3, 8), Digits(1, 2, 99)):
        opened = {}
        for silo in range(3):
            part = SiloSums(company, silo, SimulationCoins(silo))
            out = part.begin({EVERYBODY: np.zeros(8, dtype=np.int64)}, 127, Step(0), digits=digits)
            opened[silo] = {HUB: out[HUB]}
        inbox = {silo: [each for each in parcels[HUB] if isinstance(each, Parcel)] for silo, parcels in opened.items()}
        with pytest.raises(Exception, match="digits must be those of the one sum"):
            SumServer(company, SimulationCoins(9)).turn(inbox)
    assert DONE is Phase.VECTOR_SUMS


def test_coins_of_a_step_are_secret_and_the_same_again() -> None:
    """Of one key and step; of another key or step they are others, so that nobody else can tell them."""
    drawn = [
        StepCoins(bytes([key]) * 32, Step(number)).uniform(2**53, (4,)).tolist()
        for key, number in ((1, 0), (1, 0), (2, 0), (1, 1))
    ]
    assert drawn[0] == drawn[1]
    assert len({tuple(each) for each in drawn}) == 3
    assert repr(StepCoins(bytes(32), Step(0))) == "StepCoins(<secret>)"
