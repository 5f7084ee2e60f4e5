"""What silos say to each other in the clear, marks of which the server tells no number, and what is taken down."""

import numpy as np
import pytest

from fgl_secure.coins import SimulationCoins, SystemCoins
from fgl_secure.errors import InputError, ProtocolError
from fgl_secure.protocols.ckks import Ckks
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.topology import CLIENTS, SERVER
from fgl_secure.runtime import Channel, Party, Phase, Recording, Role, Step
from fgl_secure.training.collectives import Collectives
from fgl_secure.training.one_process import OneProcess
from fgl_secure.training.parties import hierarchy_of
from fgl_secure.training.processes.process import SERVER as HUB
from fgl_secure.training.processes.process import Parcel
from fgl_secure.training.processes.sums import EVERYBODY, Company, SiloSums, SumServer
from fgl_secure.training.program import Program
from fgl_secure.typing import Array
from tests.error_codes import about
from tests.graphs import two_communities
from tests.training.processes.runs import silo_makes, together

GRAPH = two_communities(devices=12, silos=3)
MARKS = np.array([[1, 1, 0, 1], [1, 0, 0, 1], [0, 0, 0, 1]], dtype=np.bool_)


def rows_of(sender: int, receiver: int) -> Array:
    """As many rows as the receiver's number, which say who sent them."""
    return np.full((receiver, 2), 10.0 * sender + receiver)


class Saying(Program):
    """Two rounds of rows, marks, and a sum for silo 1 alone."""

    def round(self, number: int) -> bool:
        me = self.silo.silo
        heard = self.comm.exchange(Phase.NODES, {other: rows_of(me, other) for other in self.silo.others}, layer=number)
        only = self.comm.exchange(Phase.THRESHOLDS, {other: np.full((int(not me), 1), 7) for other in self.silo.others})
        enough = self.comm.enough(MARKS[me], 2, "marks")
        total = self.comm.clients({1: 2 if me == 1 else np.array([-5, me])}, 5)
        self.comm.note("heard", lambda: np.array([[me, number]]))
        self.comm.note("values", lambda: self.silo.nodes[:, None].astype(np.float64), devices=True)
        self.kept |= {f"{number} {what}": value for what, value in {
            "rows": np.concatenate(heard), "from": np.array([len(rows) for rows in heard]),
            "only": np.concatenate(only), "enough": enough, "total": total,
        }.items()}  # fmt: skip
        return number < 1

    @property
    def report(self) -> dict[str, Array]:
        return self.kept


def ran(scheme: Scheme, recording: Recording | None = None) -> tuple[OneProcess, Channel]:
    channel = Channel(hierarchy_of(GRAPH), SimulationCoins(0), recording or Recording.everything())
    clients = scheme if isinstance(scheme, Ckks) else Plaintext()
    server = PairwiseMasking() if isinstance(scheme, Ckks) else scheme
    process = OneProcess(GRAPH, {SERVER: server, CLIENTS: clients}, channel, Saying)
    process.round(0)
    process.round(1)
    return process, channel


@pytest.mark.parametrize("scheme", [Plaintext(), PairwiseMasking(), Ckks()], ids=lambda each: each.name)
def test_silos_get_what_is_for_them(scheme: Scheme) -> None:
    """Rows by sender, none of their own; which entries enough silos mark; a sum for one silo."""
    process, _ = ran(scheme)
    for silo, program in enumerate(process.programs):
        found = program.report
        others = [other for other in range(3) if other != silo]
        assert found["1 from"].tolist() == [silo if other in others else 0 for other in range(3)]
        assert np.array_equal(found["1 rows"], np.concatenate([rows_of(other, silo) for other in others]))
        assert found["1 only"].ravel().tolist() == ([] if silo == 0 else [7])
        assert found["1 enough"].tolist() == [True, False, False, True]
        assert found["1 total"].tolist() == ([-10, 2] if silo == 1 else [])


@pytest.mark.parametrize("scheme", [Plaintext(), PairwiseMasking(), Ckks()], ids=lambda each: each.name)
def test_a_process_for_each_silo_finds_the_same(scheme: Scheme) -> None:
    """Though each is put down after every turn; sums for one silo may have a scheme of their own."""
    clients = scheme if isinstance(scheme, Ckks) else Plaintext()
    server = PairwiseMasking() if isinstance(scheme, Ckks) else scheme
    makes = silo_makes(GRAPH, Saying, {SERVER: server, CLIENTS: clients})
    found = together(makes, GRAPH, server, put_down=True, for_silos=clients)
    for silo, program in enumerate(ran(scheme)[0].programs):
        assert all(np.array_equal(found[silo][name], value) for name, value in program.report.items())


def test_a_row_is_a_message_under_its_phase() -> None:
    _, channel = ran(Plaintext())
    (first, second) = [batch for batch in channel.transcript.messages if batch.phase is Phase.NODES]
    assert (first.step, second.step) == (Step(0, 0), Step(1, 1))
    assert first.payload is not None
    silos = channel.parties.ids(Role.SILO)
    sent = zip(first.senders - silos[0], first.receivers - silos[0], first.payload[:, 0], strict=True)
    assert all(value == 10 * sender + receiver for sender, receiver, value in sent)
    assert len(first.senders) == sum(2 * receiver for receiver in range(3))


def test_the_server_tells_bits_and_no_count() -> None:
    """It learns how many silos mark each entry, and silos are told which are enough, in one process or in theirs."""
    _, channel = ran(PairwiseMasking())
    (counts, _) = channel.transcript.views(Role.SERVER).own("marks")
    assert counts.values[0].tolist() == MARKS.sum(axis=0).tolist()
    silo = channel.transcript.view([Party(Role.SILO, 0)])
    assert not silo.own("marks")
    (told, _) = silo.messages(Phase.OPENED)
    assert np.asarray(told.payload).tolist() == [[0b10010000]]
    apart = Channel(hierarchy_of(GRAPH), SystemCoins(), Recording.everything())
    together(silo_makes(GRAPH, Saying, {SERVER: PairwiseMasking()}), GRAPH, PairwiseMasking(), apart)
    server = apart.parties.ids(Role.SERVER)[0]
    done = [b for b in apart.transcript.messages if b.phase is Phase.VECTOR_SUMS and (b.senders == server).all()]
    kinds = {Parcel.from_bytes(b.payload[0].tobytes()).arrays[1].dtype.kind for b in done if b.payload is not None}
    assert kinds == {"b", "i"}


def test_what_silos_know_is_taken_down_in_one_place() -> None:
    """A batch a name and step, in the order of their owners; nothing where nothing is kept."""
    _, channel = ran(Plaintext(), Recording.everything(1))
    notes = {note.name: note for note in channel.transcript.private if note.name in ("heard", "values")}
    assert notes["heard"].values.tolist() == [[0, 0], [1, 0], [2, 0]]
    assert np.array_equal(notes["heard"].owners, channel.parties.ids(Role.SILO))
    assert np.array_equal(notes["values"].values[:, 0], np.arange(12))
    assert np.array_equal(notes["values"].owners, channel.parties.ids(Role.DEVICE))
    assert not [note for note in ran(Plaintext(), Recording())[1].transcript.private if note.name == "heard"]


class Uneven(Program):
    """Silo 2 sends rows of another width."""

    def round(self, number: int) -> bool:  # noqa: ARG002  # there is one
        rows = np.zeros((1, 2 + (self.silo.silo == 2)))
        self.comm.exchange(Phase.NODES, dict.fromkeys(self.silo.others, rows))
        return False

    @property
    def report(self) -> dict[str, Array]:
        return {}


def test_rows_of_another_width_are_refused() -> None:
    channel = Channel(hierarchy_of(GRAPH), SimulationCoins(0))
    with pytest.raises(ProtocolError, check=about("silos")):
        OneProcess(GRAPH, {}, channel, Uneven).round(0)
    with pytest.raises(ProtocolError, check=about("message of nodes")):
        together(silo_makes(GRAPH, Uneven, {}), GRAPH, Plaintext())


class Greedy(Program):
    """Asks for more marks than there are silos."""

    def round(self, number: int) -> bool:  # noqa: ARG002  # there is one
        self.comm.required_markers(CLIENTS, 3)
        return False

    @property
    def report(self) -> dict[str, Array]:
        return {}


def test_marks_that_nobody_can_reach_are_refused() -> None:
    process = OneProcess(GRAPH, {}, Channel(hierarchy_of(GRAPH), SimulationCoins(0)), Greedy)
    with pytest.raises(InputError, check=about("k_min")):
        process.round(0)
    comm: Collectives = process.programs[0].comm
    assert comm.required_markers(SERVER, 2) == 2 + 3 - Plaintext().threshold_for(3)


@pytest.mark.parametrize("least", [-1, 2])
def test_bits_that_silos_cannot_ask_for_are_refused(least: int) -> None:
    """Below 0, or of a sum for one silo."""
    receiver = EVERYBODY if least < 0 else 0
    sums = [SiloSums(Company(2, Plaintext(threshold=1), bytes(16)), k, SimulationCoins(k)) for k in (0, 1)]
    said = {
        k: each.begin({receiver: 3 if receiver == k else np.ones(3, dtype=np.int64)}, 9, Step(0), (), least)
        for k, each in enumerate(sums)
    }
    server = SumServer(Company(2, Plaintext(threshold=1), bytes(16)), SimulationCoins(0))
    with pytest.raises(ProtocolError, check=about("least")):
        server.turn({k: out[HUB] for k, out in said.items()})
