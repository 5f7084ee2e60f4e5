"""Secret Message Passing: a faithful replica, from its formulas to its messages."""

import itertools
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgl_secure.algebra import Overflow, PrimeField, Segments
from fgl_secure.coins import TapeCoins
from fgl_secure.errors import FieldRangeError, InputError, ProtocolError
from fgl_secure.protocols.collective import Collective
from fgl_secure.protocols.secmp import (
    Mu,
    MuDelivery,
    Points,
    SecretMessagePassing,
    silo_decode,
    source_encode,
    target_aggregate,
)
from fgl_secure.protocols.topology import CLIENTS, MEMBERS, NEIGHBOURS, Grouping, Topology
from fgl_secure.runtime import Channel, Direction, Directory, Party, Phase, Recording, Role, Step
from tests.enumeration import Secret, View, largest_distance, smallest_distance
from tests.error_codes import about
from tests.protocols.conformance import (
    BACKWARD,
    BOUND,
    FORWARD,
    SchemeConformance,
    Traffic,
    channel_of,
    opened,
    triangle,
)
from tests.strategies import Ints, elements, grouping_over, prime_fields


class SecmpConformance(SchemeConformance):
    """What the paper says about messages, for any T and either delivery of mu."""

    scheme: ClassVar[SecretMessagePassing]
    lossy_phase = Phase.CODES
    refused: ClassVar[tuple[float, ...]] = (*SchemeConformance.refused, 1.001 * BOUND, -1.001 * BOUND)

    def allowed_error(self, grouping: Grouping) -> float:
        """Half a resolution a term."""
        terms = max(grouping.largest_group, grouping.reverse().largest_group, 1)
        return terms * 2.0 ** -self.scheme.fixed_point(terms).fraction_bits / 2

    def codes_and_answers(self, grouping: Grouping, width: int) -> Traffic:
        """T + 1 codes a message; T + 1 sums and one answer a device that has neighbours (4.2.3)."""
        m, asking, size = len(grouping.source), len(set(grouping.target.tolist())), self.scheme.field.dtype.itemsize
        codes = (self.scheme.T + 1) * width * size
        return {
            (Phase.CODES, Role.DEVICE, Role.DEVICE): (m, m * codes),
            (Phase.AGGREGATE, Role.DEVICE, Role.SILO): (asking, asking * codes),
            (Phase.DECODED, Role.SILO, Role.DEVICE): (asking, asking * width * size),
        }

    def mu_bytes(self, width: int) -> int:
        """T + 1 alphas, T + 1 betas and T masks as wide as the widest layer."""
        return (2 * (self.scheme.T + 1) + self.scheme.T * width) * self.scheme.field.dtype.itemsize


class TestSiloDelivery(SecmpConformance):
    """The default: sources ask the target's silo for mu."""

    scheme = SecretMessagePassing(bound=BOUND)

    def expected_traffic(self, grouping: Grouping, width: int) -> Traffic:
        m = len(grouping.source)
        return {
            (Phase.PARAMETER_REQUEST, Role.DEVICE, Role.SILO): (m, 0),
            (Phase.PARAMETERS, Role.SILO, Role.DEVICE): (m, m * self.mu_bytes(width)),
            **self.codes_and_answers(grouping, width),
        }


class TestTargetDelivery(SecmpConformance):
    """Target devices pass mu on; two masks, elements of 16 bits."""

    scheme = SecretMessagePassing(PrimeField(32749), T=2, bound=BOUND, delivery=MuDelivery.TARGET)

    def expected_traffic(self, grouping: Grouping, width: int) -> Traffic:
        m, asking = len(grouping.source), len(set(grouping.target.tolist()))
        return {
            (Phase.PARAMETERS, Role.SILO, Role.DEVICE): (asking, asking * self.mu_bytes(width)),
            (Phase.PARAMETERS, Role.DEVICE, Role.DEVICE): (m, m * self.mu_bytes(width)),
            **self.codes_and_answers(grouping, width),
        }


def lagrange_basis(betas: list[int], j: int, x: int, p: int) -> int:
    """L_j(x) of Eq. 4 on python integers: the product over l != j of (x - beta_l) / (beta_j - beta_l)."""
    value = 1
    for other, beta in enumerate(betas):
        if other != j:
            value = value * (x - beta) * pow(betas[j] - beta, -1, p) % p
    return value


@st.composite
def coded(draw: st.DrawFn) -> tuple[PrimeField, Mu, np.ndarray, np.ndarray, np.ndarray]:
    """A field, the mu of some silos, embeddings [n, d], and for each message its embedding and its target's silo."""
    field = draw(prime_fields(smallest=11))
    T, S, n, d = (draw(st.integers(1, 3)) for _ in range(4))
    point = st.integers(0, field.modulus - 1)
    points = [draw(st.lists(point, min_size=2 * T + 2, max_size=2 * T + 2, unique=True)) for _ in range(S)]
    z = draw(elements(field, (S, T, d + draw(st.integers(0, 2))))).astype(np.int64)
    mu = Mu(np.array(points)[:, : T + 1], np.array(points)[:, T + 1 :], z)
    messages = draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, S - 1)), max_size=5))
    pairs = np.array(messages, dtype=np.int64).reshape(-1, 2)
    return field, mu, draw(elements(field, (n, d))), pairs[:, 0], pairs[:, 1]


@given(coded())
def test_codes_are_those_of_equation_4(case: tuple[PrimeField, Mu, np.ndarray, np.ndarray, np.ndarray]) -> None:
    """Each code is h L_1(alpha_t) + sum of z_j L_j(alpha_t), coordinate by coordinate."""
    field, mu, h, row_of, silo_of = case
    codes = source_encode(field, h, mu, row_of, silo_of)
    assert codes.dtype == field.dtype
    p, betas = field.modulus, mu.betas.tolist()
    for message, (row, silo) in enumerate(zip(row_of.tolist(), silo_of.tolist(), strict=True)):
        for t, alpha in enumerate(mu.alphas[silo].tolist()):
            basis = [lagrange_basis(betas[silo], j, alpha, p) for j in range(len(betas[silo]))]
            for k in range(h.shape[1]):
                known = [int(h[row, k]), *mu.z[silo, :, k].tolist()]
                expected = sum(value * factor for value, factor in zip(known, basis, strict=True)) % p
                assert codes[message, t, k] == expected


@given(coded())
def test_decoding_an_aggregate_gives_the_sum(case: tuple[PrimeField, Mu, np.ndarray, np.ndarray, np.ndarray]) -> None:
    """Codes of one silo's mu, added up and interpolated at beta_1, are the sum of the embeddings modulo p."""
    field, mu, h, row_of, silo_of = case
    silos = len(mu.alphas)
    codes = source_encode(field, h, mu, row_of, silo_of)
    aggregates = target_aggregate(field, codes, Segments.by_group(silo_of, silos))
    decoded = silo_decode(field, aggregates, mu, np.arange(silos))
    expected = np.zeros((silos, h.shape[1]), dtype=object)
    np.add.at(expected, silo_of, h[row_of].astype(object))
    assert decoded.tolist() == (expected % field.modulus).tolist()


def messages_of(channel: Channel, phase: Phase) -> list[tuple[Step, int]]:
    """Step and number of messages of each batch of a phase."""
    return [(batch.step, batch.messages) for batch in channel.transcript.messages if batch.phase is phase]


def run_steps(grouping: Grouping, directory: Directory, steps: list[Step], delivery: MuDelivery) -> Channel:
    """Sums of ones at the given steps."""
    channel = channel_of(directory)
    session = opened(SecretMessagePassing(delivery=delivery), channel, grouping, 1)
    for step in steps:
        session.sum(np.ones((4, 1)), step)
    return channel


def both_ways() -> tuple[Directory, Grouping]:
    """Undirected edges 0 - 2 and 1 - 2 of four devices in two silos."""
    directory, everyone = Directory.hierarchy(2, 4), np.arange(4)
    edges = np.array([[0, 1, 2, 2], [2, 2, 0, 1]])
    return directory, grouping_over(directory, np.array([0, 0, 1, 1]), everyone, everyone, edges)


def one_round(number: int) -> list[Step]:
    """Two layers forward, then two layers backward."""
    forward = [Step(number, layer) for layer in (0, 1)]
    return forward + [Step(number, layer, Direction.BACKWARD) for layer in (1, 0)]


@pytest.mark.parametrize("delivery", MuDelivery)
def test_mu_is_sent_once_a_round(delivery: MuDelivery) -> None:
    """On undirected edges mu travels with the first layer of each round and serves all layers and both passes."""
    directory, grouping = both_ways()
    channel = run_steps(grouping, directory, one_round(0) + one_round(1), delivery)
    per_round = [4] if delivery is MuDelivery.SILO else [3, 4]
    assert messages_of(channel, Phase.PARAMETERS) == [(Step(r, 0), count) for r in range(2) for count in per_round]
    requests = [(Step(r, 0), 4) for r in range(2)] if delivery is MuDelivery.SILO else []
    assert messages_of(channel, Phase.PARAMETER_REQUEST) == requests


def test_backward_pass_of_directed_edges_fetches_its_own_mu() -> None:
    """Where messages run one way only, gradients run to other devices, whose silos' mu must be fetched as well."""
    case = triangle()
    channel = run_steps(case.grouping, case.directory, one_round(0), MuDelivery.SILO)
    assert messages_of(channel, Phase.PARAMETERS) == [(Step(0, 0), 3), (Step(0, 1, Direction.BACKWARD), 3)]
    backward = next(
        b for b in channel.transcript.messages
        if b.phase is Phase.PARAMETERS and b.step.direction is Direction.BACKWARD
    )  # fmt: skip
    silos = case.directory.ids(Role.SILO)
    assert backward.senders.tolist() == silos[[0, 0, 1]].tolist()
    assert backward.receivers.tolist() == case.directory.ids(Role.DEVICE)[[2, 2, 0]].tolist()


@pytest.mark.parametrize("delivery", MuDelivery)
def test_lost_parameters_stop_the_source(delivery: MuDelivery) -> None:
    """A source whose mu was lost cannot encode: the run stops with a message that names both parties and the round."""
    case = triangle()
    channel = channel_of(case.directory, lambda p, _, senders, __: np.arange(len(senders)) >= (p is Phase.PARAMETERS))
    session = opened(SecretMessagePassing(delivery=delivery), channel, case.grouping, 1)
    with pytest.raises(ProtocolError):
        session.sum(np.ones((4, 1)), FORWARD)
    assert messages_of(channel, Phase.CODES) == []


@pytest.mark.parametrize("phase", [Phase.AGGREGATE, Phase.DECODED])
def test_a_lost_answer_leaves_its_device_without_a_sum(phase: Phase) -> None:
    """A device whose aggregate or answer is lost has zero; the others have their sums."""
    case = triangle()
    channel = channel_of(case.directory, lambda p, _, senders, __: np.arange(len(senders)) >= (p is phase))
    sums = opened(SecretMessagePassing(), channel, case.grouping, 1).sum(np.ones((4, 1)), FORWARD)
    assert np.allclose(sums[:, 0], [0, 0, 2, 0])


@pytest.mark.parametrize(("p", "T", "most"), [(5, 2, 1), (11, 5, 4), (13, 10, 5)])
def test_too_many_masks_for_the_field_are_refused(p: int, T: int, most: int) -> None:
    """2 T + 2 points must fit: F_11 stops at T = 4, though the paper argues with T up to 10 (A.4)."""
    with pytest.raises(FieldRangeError):
        SecretMessagePassing(PrimeField(p), T)
    SecretMessagePassing(PrimeField(p), most)


@pytest.mark.parametrize("points", [Points((3, 4), (1, 3)), Points((3,), (1, 2)), Points((3, 11), (1, 2))])
def test_unfit_points_are_refused(points: Points) -> None:
    """Given points are checked as those of any Lagrange code: distinct, of the right number, in the field."""
    with pytest.raises(InputError):
        SecretMessagePassing(PrimeField(11), points=points)


def star(neighbours: int) -> tuple[Directory, Grouping]:
    """Devices 1 .. neighbours all send to device 0, in one silo."""
    directory, everyone = Directory.hierarchy(1, neighbours + 1), np.arange(neighbours + 1)
    edges = np.stack([everyone[1:], np.zeros(neighbours, dtype=np.int64)])
    return directory, grouping_over(directory, np.zeros_like(everyone), everyone, everyone, edges)


def test_eleven_elements_wrap_only_when_asked_to() -> None:
    """Six ones do not fit the paper's field: the set-up refuses, and as published, on demand, they sum to -5."""
    directory, grouping = star(6)
    small = PrimeField(11)
    for refusing in (SecretMessagePassing(small, bound=1.0), SecretMessagePassing(small, bound=1.0, fraction_bits=0)):
        with pytest.raises(FieldRangeError, check=about("terms * bound * 2^fraction_bits")):
            opened(refusing, channel_of(directory), grouping, 1)
    wrapping = SecretMessagePassing(small, bound=1.0, fraction_bits=0, overflow=Overflow.WRAP)
    assert opened(wrapping, channel_of(directory), grouping, 1).sum(np.ones((7, 1)), FORWARD)[0, 0] == -5
    five = star(5)
    refusing = SecretMessagePassing(small, bound=1.0)
    assert opened(refusing, channel_of(five[0]), five[1], 1).sum(np.ones((6, 1)), FORWARD)[0, 0] == 5


def test_other_topologies_are_refused() -> None:
    """The paper sums embeddings of neighbours, reals, and nothing else; gradients it sends in the clear."""
    case, scheme = triangle(), SecretMessagePassing()
    assert scheme.refuses(Topology(NEIGHBOURS, case.grouping, 1)) is None
    for topology in (
        Topology(MEMBERS, case.grouping, 1),
        Topology(CLIENTS, case.grouping, 1),
        Topology(NEIGHBOURS, case.grouping, 1, 5),
    ):
        with pytest.raises(InputError, check=about("scheme")):
            Collective(scheme, topology, channel_of(case.directory))


@pytest.mark.parametrize("delivery", MuDelivery)
def test_silos_may_be_their_own_devices(delivery: MuDelivery) -> None:
    """Clients that own rows and decode as well ask themselves for mu: the sums are right."""
    case, values = triangle(), np.array([[1.0], [2.0], [3.0], [4.0]])
    g = case.grouping
    own = Grouping(g.row_custodian, g.group_custodian, g.source, g.target, g.row_custodian, g.group_custodian)
    session = opened(SecretMessagePassing(delivery=delivery), channel_of(case.directory), own, 1)
    assert np.allclose(session.sum(values, FORWARD)[:, 0], [3, 0, 3, 0])
    assert np.allclose(session.sum(values, BACKWARD)[:, 0], [3, 3, 1, 0])


PRIMES = (5, 7, 11)
POINTS = Points(alphas=(3, 4), betas=(1, 2))
SENT = (-1, 0, 1)  # what one coordinate can be at bound 1 without fraction bits


def codes_on_all_tapes(p: int, sent: Secret, targets: Ints, silo_of: Ints, rounds: int = 1) -> list[View]:
    """Sender i sends its value to its target in every round; the codes [tapes, senders, T + 1] of each round."""
    senders, devices = len(sent), len(silo_of)
    directory = Directory.hierarchy(int(silo_of.max()) + 1, devices)
    edges = np.stack([np.arange(senders), targets])
    everyone = np.arange(devices)
    grouping = grouping_over(directory, silo_of, everyone, everyone, edges)
    scheme = SecretMessagePassing(PrimeField(p), bound=1.0, fraction_bits=0, overflow=Overflow.WRAP, points=POINTS)
    channel = Channel(directory, TapeCoins(p, directory.counts[Role.SILO]), Recording.everything())
    session = opened(scheme, channel, grouping, 1)
    values = np.zeros((devices, 1))
    values[:senders, 0] = sent
    for number in range(rounds):
        session.sum(values, Step(number))
    watching = [Party(Role.DEVICE, int(target)) for target in sorted(set(targets.tolist()))]
    seen = channel.transcript.view(watching).messages(Phase.CODES)
    return [np.asarray(rows.payload)[..., 0] for rows in seen]


def one_sender(p: int, sent: Secret) -> View:
    """Device 0 sends to device 1: both codes, [tapes, 2]."""
    (codes,) = codes_on_all_tapes(p, sent, np.array([1]), np.array([0, 0]))
    return codes[:, 0]


def two_senders(p: int, sent: Secret, *, silos: int = 1) -> View:
    """Devices 0 and 1 send to devices 2 and 3: the first code of each, [tapes, 2]."""
    silo_of = np.array([0, 0, 0, silos - 1])
    (codes,) = codes_on_all_tapes(p, sent, np.array([2, 3]), silo_of)
    return codes[:, :, 0]


@pytest.mark.parametrize("p", PRIMES)
@pytest.mark.parametrize("code", [0, 1])
def test_one_code_under_a_fresh_mask_hides_the_embedding(p: int, code: int) -> None:
    """One code of one message has the same counts for every embedding: Lemma 5.1, under its premises."""
    assert largest_distance(lambda sent: one_sender(p, sent)[:, [code]], [(h,) for h in SENT]) == 0


@pytest.mark.parametrize("p", PRIMES)
def test_both_codes_tell_the_embedding(p: int) -> None:
    """The target receives T + 1 codes, and together they are never the same for two embeddings."""
    assert smallest_distance(lambda sent: one_sender(p, sent), [(h,) for h in SENT]) == 1


@pytest.mark.parametrize("p", PRIMES)
def test_published_sharing_of_z_is_rejected(p: int) -> None:
    """Two senders under one silo's z: one code of each tells their difference, even between equal sums."""
    equal_sums = [(0, 0), (1, -1), (-1, 1)]
    assert smallest_distance(lambda sent: two_senders(p, sent), equal_sums) == 1


@pytest.mark.parametrize("p", PRIMES)
def test_a_z_for_each_message_passes_the_same_judge(p: int) -> None:
    """The repaired twin, targets in silos with a z each: one code of each sender tells nothing about either."""
    secrets = list(itertools.product(SENT, repeat=2))
    assert largest_distance(lambda sent: two_senders(p, sent, silos=2), secrets) == 0


@pytest.mark.parametrize("p", PRIMES)
def test_z_kept_over_rounds_is_rejected(p: int) -> None:
    """The same embedding gives the same code in every round: a pseudonym of its sender, on every tape."""
    first, second = codes_on_all_tapes(p, (1,), np.array([1]), np.array([0, 0]), rounds=2)
    assert len(first) == p
    assert np.array_equal(first, second)


@pytest.mark.parametrize("p", PRIMES)
def test_all_tapes_give_the_sum(p: int) -> None:
    """Whatever the coins, the target's sum is right: the enumeration runs the scheme and not a model of it."""
    directory, everyone = Directory.hierarchy(1, 3), np.arange(3)
    grouping = grouping_over(directory, np.zeros(3, dtype=np.int64), everyone, everyone, np.array([[0, 1], [2, 2]]))
    scheme = SecretMessagePassing(PrimeField(p), bound=1.0, fraction_bits=0, overflow=Overflow.WRAP, points=POINTS)
    session = opened(scheme, Channel(directory, TapeCoins(p, 1)), grouping, 1)
    sums = session.sum(np.ones((3, 1)), Step(0))
    assert sums.shape == (p, 3, 1)
    assert (sums[:, :, 0] == [0, 0, 2]).all()
