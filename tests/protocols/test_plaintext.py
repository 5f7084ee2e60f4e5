"""The plaintext scheme: exact sums, one message an edge or a client, nothing promised."""

from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fgl_secure.algebra import MERSENNE_61
from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import FieldRangeError, InputError, TooFewClientsError
from fgl_secure.protocols.collective import Collective
from fgl_secure.protocols.plaintext import Path, Plaintext
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.secmp import MuDelivery, SecretMessagePassing
from fgl_secure.protocols.topology import MEMBERS, NEIGHBOURS, SERVER, Grouping, Topology
from fgl_secure.runtime import Direction, Directory, Messages, OwnDraws, Party, Phase, Role, Step
from fgl_secure.runtime.channel import Loss
from tests.error_codes import about
from tests.protocols.conformance import FORWARD, SchemeConformance, Traffic, along, channel_of, opened, triangle
from tests.protocols.processes import SESSION, Processes
from tests.strategies import Ints, Parties, groupings, reals

FLOAT64_BYTES = 8
ADDRESS_BYTES = 4


class TestDirect(SchemeConformance):
    """Values sent straight to the owner of the sum."""

    scheme: ClassVar[Scheme] = Plaintext()
    lossy_phase = Phase.VALUES

    def allowed_error(self, grouping: Grouping) -> float:  # noqa: ARG002  # exact for all
        return 0.0

    def expected_traffic(self, grouping: Grouping, width: int) -> Traffic:
        m = len(grouping.source)
        return {(Phase.VALUES, Role.DEVICE, Role.DEVICE): (m, m * width * FLOAT64_BYTES)}

    def test_nothing_is_promised(self) -> None:
        """The claim is empty: no guarantee, no leak, no assumption, no public parameter."""
        claim = self.scheme.claim_for(Topology(NEIGHBOURS, triangle().grouping, 1))
        assert not claim.guarantees
        assert not claim.leaks_by_design
        assert self.scheme.public.modulus is self.scheme.public.T is None

    def test_receiver_sees_the_values(self) -> None:
        """The owner of a sum sees each value bit for bit: the positive control of every attack."""
        case, values = triangle(), np.array([[0.1], [0.2], [0.3], [0.4]])
        channel = channel_of(case.directory)
        opened(self.scheme, channel, case.grouping, 1).sum(values, FORWARD)
        (seen,) = channel.transcript.view([Party(Role.DEVICE, 2)]).messages(Phase.VALUES)
        assert np.asarray(seen.payload).tolist() == [[0.1], [0.2]]


class TestThroughSilos(SchemeConformance):
    """Values sent to the silo of the owner, which adds up and answers."""

    scheme: ClassVar[Scheme] = Plaintext(Path.SILO)
    lossy_phase = Phase.VALUES

    def allowed_error(self, grouping: Grouping) -> float:  # noqa: ARG002  # exact for all
        return 0.0

    def expected_traffic(self, grouping: Grouping, width: int) -> Traffic:
        m, groups = len(grouping.source), len(grouping.group_owner)
        return {
            (Phase.ADDRESSES, Role.DEVICE, Role.SILO): (m, m * ADDRESS_BYTES),
            (Phase.VALUES, Role.DEVICE, Role.SILO): (m, m * width * FLOAT64_BYTES),
            (Phase.SUMS, Role.SILO, Role.DEVICE): (groups, groups * width * FLOAT64_BYTES),
        }

    def test_silo_sees_who_sends_what_to_whom(self) -> None:
        """The silo reads values, senders and addresses of all messages to its devices."""
        case, values = triangle(), np.array([[0.1], [0.2], [0.3], [0.4]])
        channel = channel_of(case.directory)
        opened(self.scheme, channel, case.grouping, 1).sum(values, FORWARD)
        view = channel.transcript.view([Party(Role.SILO, 1)])
        (seen,), (addresses,) = view.messages(Phase.VALUES), view.messages(Phase.ADDRESSES)
        devices = case.directory.ids(Role.DEVICE)
        assert seen.senders.tolist() == devices[:2].tolist()
        assert np.asarray(seen.payload).tolist() == [[0.1], [0.2]]
        assert np.asarray(addresses.payload).tolist() == [[devices[2]], [devices[2]]]

    def test_a_lost_answer_leaves_zero(self) -> None:
        """A device that is not told its sum has zero; the others have theirs."""
        case = triangle()
        channel = channel_of(case.directory, lambda p, _, senders, __: np.arange(len(senders)) >= (p is Phase.SUMS))
        sums = opened(self.scheme, channel, case.grouping, 1).sum(np.ones((4, 1)), FORWARD)
        assert sums[:, 0].tolist() == [0, 0, 2, 0]


APART: tuple[Scheme, ...] = (
    *map(Plaintext, Path),
    *(SecretMessagePassing(bound=4.0, delivery=delivery) for delivery in MuDelivery),
)


@given(st.data(), groupings(), st.sampled_from(APART))
def test_separate_processes_have_the_same_sums(data: st.DataObject, case: Parties, scheme: Scheme) -> None:
    """Each party in a process of its own, state written and read between turns: the bits of one process."""
    topology = Topology(NEIGHBOURS, case.grouping, 2)
    together = Collective(scheme, topology, channel_of(case.directory))
    apart, encoding = Processes(scheme, topology, case.directory), scheme.encoding(topology)
    order = data.draw(st.permutations(range(len(case.directory))))
    for step in (FORWARD, Step(0, 0, Direction.BACKWARD), Step(1)):
        values = data.draw(reals(4.0, (len(along(case.grouping, step.direction).row_owner), 2)))
        found = apart.sum(values if encoding is None else encoding.encode(values), step, order)
        assert np.array_equal(found if encoding is None else encoding.decode(found), together.sum(values, step))


@given(st.data(), groupings())
def test_integers_stay_integers(data: st.DataObject, case: Parties) -> None:
    """Rows of integers up to the bound are summed exactly, for neighbours and for members."""
    values = data.draw(hnp.arrays(np.int64, (len(case.grouping.row_owner), 2), elements=st.integers(-(2**50), 2**50)))
    for name in (NEIGHBOURS, MEMBERS):
        topology = Topology(name, case.grouping, 2, 2**50)
        sums = Collective(Plaintext(), topology, channel_of(case.directory)).sum(values, FORWARD)
        assert sums.dtype == np.int64
        exact = np.zeros_like(sums)
        np.add.at(exact, case.grouping.target, values[case.grouping.source])
        assert np.array_equal(sums, exact)


CLIENT_COUNT = 5


def clients(split: bool, width: int = 3, bound: int | None = 1000) -> tuple[Directory, Topology]:
    """Five silos whose vectors the server adds up for itself, or that send them to a sixth."""
    directory = Directory.hierarchy(CLIENT_COUNT + 1, 1)
    silos = directory.ids(Role.SILO)
    if split:
        return directory, Topology.to_client(directory, silos[:CLIENT_COUNT], int(silos[-1]), width, bound)
    server = int(directory.ids(Role.SERVER)[0])
    return directory, Topology.to_one(SERVER, silos[:CLIENT_COUNT], server, server, width, bound)


def vectors(width: int = 3) -> Ints:
    """One vector of each."""
    return np.arange(CLIENT_COUNT * width, dtype=np.int64).reshape(CLIENT_COUNT, width) ** 2 - 40


def losing(*gone: int) -> Loss:
    """A network on which some senders' vectors never arrive."""
    return lambda phase, _, senders, __: ~(np.isin(senders, gone) & (phase is Phase.VECTORS))


@pytest.mark.parametrize("split", [False, True])
def test_one_sum_of_all_clients(split: bool) -> None:
    """The receiver sees every vector, has the sum step after step, and says whose vectors are in it."""
    directory, topology = clients(split)
    channel = channel_of(directory)
    collective = Collective(Plaintext(), topology, channel)
    for step in (FORWARD, Step(1), Step(0, 0)):
        assert collective.sum(vectors(), step).tolist() == [vectors().sum(axis=0).tolist()]
        assert collective.contributors is not None
        assert collective.contributors.tolist() == topology.senders.tolist()
    assert topology.receiver is not None
    seen = channel.transcript.view([directory.party_of(topology.receiver)]).messages(Phase.VECTORS)
    assert [np.asarray(rows.payload).tolist() for rows in seen] == [vectors().tolist()] * 3


@pytest.mark.parametrize("lost", range(CLIENT_COUNT))
def test_a_client_that_drops_out_is_left_out(lost: int) -> None:
    """The sum is that of the others."""
    directory, topology = clients(split=False)
    collective = Collective(Plaintext(), topology, channel_of(directory, losing(int(topology.senders[lost]))))
    left = np.delete(np.arange(CLIENT_COUNT), lost)
    assert collective.sum(vectors(), FORWARD).tolist() == [vectors()[left].sum(axis=0).tolist()]
    assert collective.contributors is not None
    assert collective.contributors.tolist() == topology.senders[left].tolist()


def test_too_few_clients_have_no_sum() -> None:
    """Below the threshold, floor(2 n / 3) + 1 where none is given, there is no sum; one may be enough."""
    directory, topology = clients(split=False)
    gone = losing(*topology.senders[:2].tolist())
    with pytest.raises(TooFewClientsError, check=about("threshold = 4 of 5 clients")):
        Collective(Plaintext(), topology, channel_of(directory, gone)).sum(vectors(), FORWARD)
    alone = losing(*topology.senders[1:].tolist())
    lone = Collective(Plaintext(threshold=1), topology, channel_of(directory, alone))
    assert lone.sum(vectors(), FORWARD).tolist() == vectors()[:1].tolist()
    nobody = losing(*topology.senders.tolist())
    with pytest.raises(TooFewClientsError, check=about("at least threshold = 1 of 5 clients")):
        Collective(Plaintext(threshold=1), topology, channel_of(directory, nobody)).sum(vectors(), FORWARD)
    with pytest.raises(InputError, check=about("threshold")):
        Collective(Plaintext(threshold=6), topology, channel_of(directory))


def test_sums_without_a_bound_are_residues() -> None:
    """Elements 0 .. p - 1 add up modulo p = 2^61 - 1, whether they come together or one by one."""
    directory, topology = clients(split=False, bound=None)
    rows = np.full((CLIENT_COUNT, 3), MERSENNE_61 - 1, dtype=np.int64)
    assert Collective(Plaintext(), topology, channel_of(directory)).sum(rows, FORWARD).tolist() == [
        [MERSENNE_61 - 5] * 3
    ]
    adder, messages = taking(topology)
    for row in range(CLIENT_COUNT):
        adder.receive(messages(row, np.full((1, 3), MERSENNE_61 - 1, dtype=np.int64)))
    assert list(adder.step()) == []
    assert adder.sums is not None
    assert adder.sums.tolist() == [[MERSENNE_61 - 5] * 3]


def test_sums_that_do_not_fit_are_refused() -> None:
    """Beyond 2^62 nothing is opened; a value beyond the bound, or of another kind, raises before a message."""
    directory, topology = clients(split=False, bound=2**62 // CLIENT_COUNT + 1)
    with pytest.raises(FieldRangeError, check=about("bound")):
        Collective(Plaintext(), topology, channel_of(directory))
    directory, topology = clients(split=False)
    channel = channel_of(directory)
    collective = Collective(Plaintext(), topology, channel)
    for rows in (vectors() * 20, vectors().astype(np.int32), vectors(4), vectors()[:4]):
        with pytest.raises(InputError) as error:
            collective.sum(rows, FORWARD)
        assert "3120" not in str(error.value)
        assert channel.transcript.messages == []
    assert collective.sum(vectors(), FORWARD).tolist() == [vectors().sum(axis=0).tolist()]


def taking(topology: Topology):  # type: ignore[no-untyped-def]  # a machine, and what makes messages
    """The adder at its first step, and what makes the message of a client."""
    draws = OwnDraws(SimulationCoins(0))
    (adder,) = Plaintext().machines(topology, SESSION, draws, topology.grouping.group_owner)
    adder.begin(FORWARD)

    def messages(row: int, said: Ints, phase: Phase = Phase.VECTORS, step: Step = FORWARD) -> Messages:
        ends = topology.senders[row : row + 1], topology.grouping.group_owner
        return Messages(phase, step, *ends, {"payload": said})

    return adder, messages


def test_messages_that_nobody_can_tell_apart_are_dropped() -> None:
    """Of two messages between the same two parties one is lost: neither counts, and their sender is named."""
    directory = Directory.hierarchy(1, 2)
    devices, silo = directory.ids(Role.DEVICE), np.repeat(directory.ids(Role.SILO), 2)
    grouping = Grouping(devices, devices[[1, 1]], np.array([0, 0]), np.array([0, 1]), silo, silo)
    channel = channel_of(directory, lambda _, __, senders, ___: np.arange(len(senders)) > 0)
    collective = Collective(Plaintext(), Topology(NEIGHBOURS, grouping, 1), channel)
    assert collective.sum(np.ones((2, 1)), FORWARD).tolist() == [[0], [0]]
    (incident,) = channel.transcript.incidents
    assert incident.party == Party(Role.DEVICE, 0)
