"""Noise under any scheme: the plumbing is exact, the noise is all there, and nothing is sent beyond the budget."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fgl_secure.attacks.truth import MessageTruth
from fgl_secure.coins import Coins, SimulationCoins
from fgl_secure.dp import (
    Account,
    BudgetExhaustedError,
    GaussianAccount,
    IntegerNoise,
    Perturbation,
    PrivacyTarget,
    Relation,
    Unit,
    grid_rows,
)
from fgl_secure.errors import FieldRangeError, InputError
from fgl_secure.methods.hifgl.program import exchange
from fgl_secure.protocols.collective import Collective
from fgl_secure.protocols.perturbed import PerturbedScheme
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.relay_coded import Profile, RelayCoded
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.secmp import SecretMessagePassing
from fgl_secure.protocols.topology import MEMBERS, NEIGHBOURS, Grouping, Topology
from fgl_secure.runtime import (
    Channel,
    Claim,
    Direction,
    Directory,
    Guarantee,
    Party,
    Phase,
    Private,
    Recording,
    Role,
    Secret,
    Step,
    Strength,
)
from fgl_secure.training.parties import neighbour_sums
from fgl_secure.typing import Ids
from tests.error_codes import about
from tests.graphs import two_communities
from tests.protocols.conformance import (
    BACKWARD,
    BOUND,
    FORWARD,
    SchemeConformance,
    Traffic,
    along,
    channel_of,
    ideal,
    opened,
    triangle,
)
from tests.protocols.processes import Processes
from tests.strategies import Parties, grouping_over, groupings, reals

BITS = 16
TARGET = PrivacyTarget(8.0, 1e-5, Relation(Unit.MESSAGE), 20)


@dataclass(frozen=True, slots=True)
class Silent(IntegerNoise):
    """Accounted as plenty and drawn as zero: the scheme around the noise alone; the broken twin of every mechanism."""

    sigma: float = 2.0**40
    largest: int = 0
    total_variation: float = 0.0
    source: str = "none"

    def sample(self, coins: Coins, shape: tuple[int, ...]) -> NDArray[np.int64]:  # noqa: ARG002  # draws nothing
        return np.zeros(shape, dtype=np.int64)

    def account(self, shares: int, l2: float, l1: float) -> Account:  # noqa: ARG002  # like any Gaussian
        return GaussianAccount(self.sigma * shares**0.5 / l2)


def silent(width: int = 3) -> Perturbation:
    """Settings that change nothing but the last bits."""
    return Perturbation(TARGET, 2.0 * BOUND, width, BITS, 1, Silent())


def noisy(**changes: object) -> Perturbation:
    """Calibrated settings with real noise."""
    settings = {"clip": 2.0, "width": 3, "honest": 1} | changes
    return Perturbation.calibrate(TARGET, **settings)  # type: ignore[arg-type]


class TestOverPlaintext(SchemeConformance):
    """Without noise the wrapper is the inner scheme, but for the grid."""

    scheme: ClassVar[Scheme] = PerturbedScheme(Plaintext(), silent())
    lossy_phase = Phase.VALUES

    def allowed_error(self, grouping: Grouping) -> float:
        return max(grouping.largest_group, grouping.reverse().largest_group, 1) * 2.0**-BITS

    def expected_traffic(self, grouping: Grouping, width: int) -> Traffic:
        m = len(grouping.source)
        return {(Phase.VALUES, Role.DEVICE, Role.DEVICE): (m, m * width * 8)}


INNER = [Plaintext(), SecretMessagePassing(bound=64.0)]


@pytest.mark.parametrize("inner", INNER)
@given(st.data(), groupings(), st.sampled_from(Direction))
def test_sums_hold_one_fresh_share_a_message(
    inner: Scheme, data: st.DataObject, case: Parties, direction: Direction
) -> None:
    """Decoded sums are, bit for bit, the sums of the grid rows and of the recorded shares of their messages."""
    settings, channel = noisy(), channel_of(case.directory)
    way = along(case.grouping, direction)
    values = np.array(data.draw(st.lists(st.floats(-3, 3), min_size=len(way.row_owner), max_size=len(way.row_owner))))
    sums = opened(PerturbedScheme(inner, settings), channel, case.grouping, 1).sum(
        values[:, None], Step(0, 0, direction)
    )
    (drawn,) = (batch for batch in channel.transcript.private if batch.kind is Private.COINS and batch.name == "noise")
    assert np.array_equal(drawn.owners, way.row_owner[way.source])
    exact = np.zeros((len(way.group_owner), 1), dtype=np.int64)
    rows = grid_rows(values[:, None], settings.clip, settings.fraction_bits).rows
    np.add.at(exact, way.target, rows[way.source] + drawn.values)
    assert np.array_equal(sums, exact * 2.0**-settings.fraction_bits)


@pytest.mark.parametrize("profile", Profile)
def test_relays_sum_noisy_rows_in_both_passes(profile: Profile) -> None:
    """Over relays that answer groups of 3 and more, both passes are exact and single neighbours stay unanswered."""
    settings = noisy(honest=3)
    scheme = PerturbedScheme(RelayCoded(bound=settings.largest, profile=profile), settings)
    directory, everyone = Directory.hierarchy(1, 7, scheme.helpers[Role.RELAY]), np.arange(7)
    ring = np.concatenate([everyone[:5]] * 4)
    around = (ring + np.repeat([1, 2, 3, 4], 5)) % 5  # five devices that all know each other, and a pair
    edges = np.stack([np.append(ring, [5, 6]), np.append(around, [6, 5])])
    grouping = grouping_over(directory, np.zeros(7, dtype=np.int64), everyone, everyone, edges)
    channel = channel_of(directory)
    session = opened(scheme, channel, grouping, 3)
    for step in (FORWARD, BACKWARD):
        sums = session.sum(np.ones((7, 3)) / 2, step)
        drawn = [batch.values for batch in channel.transcript.private if batch.name == "noise"][-1]
        noise = np.zeros((7, 3))
        np.add.at(noise, along(grouping, step.direction).target, drawn * 2.0**-settings.fraction_bits)
        assert np.array_equal(sums[:5], 2 + noise[:5])
        assert (sums[5:] == 0).all()
    assert scheme.shares == 3


@pytest.mark.parametrize("step", [FORWARD, BACKWARD])
def test_groups_below_the_inner_minimum_stay_unanswered(step: Step) -> None:
    """The inner scheme's rule on small groups holds for noisy rows: device 2 has two neighbours, device 0 one."""
    case = triangle()
    inner = Plaintext(minimum_group=2)
    plain, wrapped = (
        opened(scheme, channel_of(case.directory), case.grouping, 1).sum(np.ones((4, 1)), step)
        for scheme in (inner, PerturbedScheme(inner, silent()))
    )
    assert np.array_equal(plain, wrapped)
    assert plain[:, 0].tolist() == ([0, 0, 2, 0] if step is FORWARD else [0, 0, 0, 0])


def star(senders: int, count: int) -> Parties:
    """`count` targets with `senders` neighbours each, all of one silo."""
    directory = Directory.hierarchy(1, count * (senders + 1))
    devices, silo = directory.ids(Role.DEVICE), directory.ids(Role.SILO)
    target = np.repeat(np.arange(count), senders)
    custodians = np.repeat(silo, len(devices))
    rows = np.arange(count, len(devices))
    grouping = Grouping(devices, devices[:count], rows, target, custodians, custodians[:count])
    return Parties(directory, grouping)


@pytest.mark.parametrize("honest", [1, 4])
def test_noise_of_a_sum_has_the_calibrated_variance(honest: int) -> None:
    """Sums of as many messages as shares have the variance sigma^2, within 5 standard errors."""
    case, settings = star(honest, 2000), noisy(honest=honest)
    values = np.zeros((len(case.grouping.row_owner), 3))
    sums = opened(PerturbedScheme(Plaintext(), settings), channel_of(case.directory), case.grouping, 3).sum(
        values, FORWARD
    )
    assert sums.var() / settings.sigma**2 == pytest.approx(1, abs=5 * (2 / sums.size) ** 0.5)
    assert np.abs(np.corrcoef(sums.T) - np.eye(3)).max() < 0.12


@pytest.mark.parametrize(("profile", "clique"), [(Profile.SHOWN, 5), (Profile.HIDDEN, 4)])
def test_drop_outs_leave_no_sum_with_too_little_noise(profile: Profile, clique: int) -> None:
    """Over relays what is opened has the stated sigma or more, whoever drops out: never 1 / sqrt(3) of it.

    Cliques lose nobody, one or two of them; 600 numbers and more a figure tell a third of a variance from all of it.
    """
    settings, cliques = noisy(honest=3), 300
    scheme = PerturbedScheme(RelayCoded(bound=settings.largest, profile=profile), settings)
    n, everyone = cliques * clique, np.arange(cliques * clique)
    offsets = np.repeat(np.arange(1, clique), n)
    source = np.tile(everyone, clique - 1)
    edges = np.stack([source, source - source % clique + (source % clique + offsets) % clique])
    directory = Directory.hierarchy(1, n, 2)
    grouping = grouping_over(directory, np.zeros(n, dtype=np.int64), everyone, everyone, edges)
    gone = everyone[everyone % clique < (everyone // clique) % 3]  # nobody, one or two of each clique
    absent, shares = directory.ids(Role.DEVICE)[gone], [2]

    def arrives(phase: Phase, _: Step, senders: Ids, __: Ids) -> NDArray[np.bool_]:
        shared = phase is Phase.SHARE_HEADERS and profile is Profile.SHOWN
        if phase is Phase.SEALED and profile is Profile.HIDDEN and shares[0] and senders[0] > 1:  # fetches follow
            shares[0], shared = shares[0] - 1, True
        return ~np.isin(senders, absent) if shared else np.ones(len(senders), dtype=np.bool_)

    sums = opened(scheme, channel_of(directory, arrives), grouping, 3).sum(np.zeros((n, 3)), FORWARD)
    heard = np.bincount(edges[1][~np.isin(edges[0], gone)], minlength=n)
    answered = (sums != 0).any(axis=1)
    assert answered[heard == clique - 1].all()
    for count in np.unique(heard[answered]).tolist():
        found = sums[answered & (heard == count)]
        assert count >= 3, f"a sum of {count} has sigma {found.std():.3g} and not {settings.sigma:.3g}"
        assert found.size >= 600
        assert found.var() / settings.sigma**2 == pytest.approx(count / 3, abs=5 * count / 3 * (2 / found.size) ** 0.5)


def test_every_message_of_one_row_has_noise_of_its_own() -> None:
    """Two neighbours of one sender see different noise, and so do two rounds: nothing cancels."""
    case = triangle()
    two = replace(case.grouping, source=np.array([0, 0]), target=np.array([1, 2]))
    session = opened(PerturbedScheme(Plaintext(), noisy()), channel_of(case.directory), two, 3)
    first, second = (session.sum(np.zeros((4, 3)), Step(number)) for number in (0, 1))
    noise = np.concatenate([first[1:3], second[1:3]])
    assert len(np.unique(noise, axis=0)) == 4
    assert (first[[0, 3]] == 0).all()


def test_noise_comes_from_the_coins_of_whoever_adds_it() -> None:
    """Equal coins give equal noise, and others other noise, in every coordinate: nothing public is in it."""
    case, width = triangle(), 40
    sums = []
    for seed in (0, 0, 1):
        channel = Channel(case.directory, SimulationCoins(seed), Recording.everything())
        session = opened(PerturbedScheme(Plaintext(), noisy(width=width)), channel, case.grouping, width)
        sums.append(session.sum(np.zeros((4, width)), Step(0)))
    assert np.array_equal(sums[0], sums[1])
    reached = np.bincount(case.grouping.target, minlength=4) > 0
    assert (sums[0] != sums[2])[reached].mean() > 0.9


def test_nothing_is_sent_beyond_the_budget() -> None:
    """The release after the last raises before a message, a coin or a note, and so does every later one."""
    case, channel = triangle(), channel_of(triangle().directory)
    session = opened(PerturbedScheme(Plaintext(), noisy()), channel, case.grouping, 1)
    for number in range(TARGET.releases):
        session.sum(np.ones((4, 1)), Step(number, 0, list(Direction)[number % 2]))
    before = len(channel.transcript.messages), len(channel.transcript.private)
    for _ in range(2):
        with pytest.raises(BudgetExhaustedError, check=about("releases")):
            session.sum(np.ones((4, 1)), Step(99))
    assert before == (len(channel.transcript.messages), len(channel.transcript.private))


def test_refused_values_cost_nothing() -> None:
    """Values that are not finite or too wide raise without a release being counted."""
    case = triangle()
    session = opened(PerturbedScheme(Plaintext(), noisy(width=1)), channel_of(case.directory), case.grouping, 1)
    for bad in (np.full((4, 1), np.nan), np.ones((4, 2))):
        for number in range(TARGET.releases + 1):
            with pytest.raises(InputError, check=about("values")):
                session.sum(bad, Step(number))
    assert session.sum(np.ones((4, 1)), FORWARD).shape == (4, 1)


def test_senders_beyond_the_cap_are_refused_in_both_passes() -> None:
    """A device with three messages in either pass is refused under a cap of two, before anything is sent."""
    case = star(3, 1)
    target = replace(TARGET, relation=Relation(Unit.NODE, 2))
    scheme = PerturbedScheme(Plaintext(), Perturbation.calibrate(target, clip=1.0, width=1, honest=1))
    for grouping in (case.grouping, case.grouping.reverse()):
        with pytest.raises(InputError, check=about("messages of one device in one pass")):
            opened(scheme, channel_of(case.directory), grouping, 1)


def test_inner_schemes_must_hold_noisy_rows_as_they_are() -> None:
    """Too few fraction bits, a bound below the largest noise or wider rows raise when the scheme is opened."""
    case, settings = triangle(), noisy()
    too_coarse = SecretMessagePassing(bound=64.0, fraction_bits=settings.fraction_bits - 1)
    with pytest.raises(InputError, check=about("fraction_bits of the inner scheme")):
        opened(PerturbedScheme(too_coarse, settings), channel_of(case.directory), case.grouping, 1)
    too_small = SecretMessagePassing(bound=settings.largest * 0.99)
    with pytest.raises(FieldRangeError, check=about("bound of the inner scheme")):
        opened(PerturbedScheme(too_small, settings), channel_of(case.directory), case.grouping, 1)
    exactly = SecretMessagePassing(bound=settings.largest)
    opened(PerturbedScheme(exactly, settings), channel_of(case.directory), case.grouping, 1)
    with pytest.raises(InputError, check=about("width")):
        opened(PerturbedScheme(Plaintext(), settings), channel_of(case.directory), case.grouping, 4)


@pytest.mark.parametrize("inner", INNER)
def test_truth_is_the_rows_without_noise(inner: Scheme) -> None:
    """Attacks are scored on what devices wanted to hide, in the encoding of the scheme, not on their noisy rows."""
    graph = two_communities()
    settings = noisy(width=8)
    scheme = PerturbedScheme(inner, settings)
    channel = channel_of(Directory.hierarchy(graph.num_silos, graph.num_devices))
    values = np.random.default_rng(0).normal(size=(graph.num_devices, 8)) / 4
    exchange(graph, scheme, channel, values, both_ways=True)
    truth = MessageTruth.of(channel.transcript, graph)
    rows = grid_rows(values, settings.clip, settings.fraction_bits).rows * 2.0**-settings.fraction_bits
    sums = neighbour_sums(graph)
    fixed = inner.fixed_point(max(sums.largest_group, sums.reverse().largest_group))
    expected = rows if fixed is None else fixed.encode(rows)
    for direction in Direction:
        found = truth.embeddings[Step(0, 0, direction)]
        assert found.dtype == expected.dtype
        assert np.array_equal(found, expected)


def test_views_show_their_owners_noise_and_no_secret() -> None:
    """A device knows the noise that it drew and no one else's; side by side no rows are shown, noisy ones neither."""
    case = triangle()
    channel = channel_of(case.directory)
    opened(PerturbedScheme(Plaintext(), noisy()), channel, case.grouping, 1).sum(np.ones((4, 1)), FORWARD)
    (own,) = channel.transcript.view([Party(Role.DEVICE, 0)]).own("noise")
    assert (own.owners == case.directory.id_of(Party(Role.DEVICE, 0))).all()
    assert channel.transcript.views(Role.DEVICE).own("values") == ()
    assert channel.transcript.view([Party(Role.SILO, 0)]).private == ()


@dataclass(frozen=True, slots=True)
class Hiding(Plaintext):
    """An ideal scheme: sums of at least `minimum_group` rows, and a promise that hides each from all but one relay."""

    minimum_group: int = 6

    def claim_for(self, topology: Topology) -> Claim:  # noqa: ARG002  # whatever it is
        everyone = {Role.DEVICE: 1000, Role.SILO: 1000, Role.RELAY: 1}
        promise = Guarantee(Secret.EMBEDDING, everyone, Strength.PERFECT, "rows are hidden", "by definition")
        return Claim((promise,), (), ())


def claimed(scheme: Scheme) -> Claim:
    """What a scheme promises of neighbours' rows."""
    return scheme.claim_for(Topology.example(NEIGHBOURS))


def test_claim_over_a_scheme_that_hides_messages() -> None:
    """All shares count, and of a sum's senders those beyond the honest ones may collude with its target."""
    promise = claimed(PerturbedScheme(Hiding(), noisy(honest=4))).guarantees[-1]
    assert "4 of 4 shares" in promise.statement
    assert promise.covers({Role.DEVICE: 3, Role.SILO: 5, Role.RELAY: 1})
    for too_many in ({Role.DEVICE: 4}, {Role.RELAY: 2}, {Role.SERVER: 1}):
        assert not promise.covers(too_many)
    short = PerturbedScheme(Hiding(minimum_group=3), noisy(honest=4))
    assert short.shares == 3
    assert not claimed(short).guarantees[-1].covers({Role.DEVICE: 2})


def test_claim_states_what_is_really_seen() -> None:
    """Over a scheme that shows single messages only one share of four counts, and the stated epsilon is larger."""
    settings = noisy(honest=4)
    local = PerturbedScheme(Plaintext(minimum_group=4), settings)
    (promise,) = claimed(local).guarantees
    assert local.shares == 1
    assert promise.strength is Strength.DIFFERENTIAL_PRIVACY
    assert promise.secret is Secret.EMBEDDING
    assert f"({settings.epsilon(1):.3g}, 1e-05)" in promise.statement
    assert "1 of 4 shares" in promise.statement
    assert settings.epsilon(1) > 1.5 * TARGET.epsilon >= settings.epsilon(4)
    assert promise.covers({Role.DEVICE: 7, Role.SILO: 2, Role.SERVER: 1})


def test_other_rows_pass_without_noise() -> None:
    """What is not a neighbour's row goes to the inner scheme as it is, and costs nothing."""
    scheme, topology = PerturbedScheme(Plaintext(), noisy()), Topology.example(MEMBERS)
    channel = channel_of(Directory.hierarchy(3, 3))
    collective = Collective(scheme, topology, channel)
    for number in range(TARGET.releases + 2):
        sums = collective.sum(np.array([[1.5], [2.0], [0.0]]), Step(number))
    assert sums[:, 0].tolist() == [0, 0, 3.5]
    assert claimed(scheme) != scheme.claim_for(topology) == Plaintext().claim_for(topology)


@given(st.data(), groupings())
def test_the_budget_is_part_of_the_state(data: st.DataObject, case: Parties) -> None:
    """Each party in a process of its own, with coins of its own: sums hold one share of noise a message, and a state
    that is written and read spends nothing twice.
    """
    width, settings = 2, silent()
    topology, scheme = Topology(NEIGHBOURS, case.grouping, width), PerturbedScheme(Plaintext(), settings)
    apart = Processes(scheme, topology, case.directory)
    encoding = scheme.encoding(topology)
    assert encoding is not None
    rows = encoding.encode(data.draw(reals(1.0, (len(case.grouping.row_owner), width))))
    for number in range(TARGET.releases):
        assert np.array_equal(apart.sum(rows, Step(number)), ideal(case.grouping, rows))
    with pytest.raises(BudgetExhaustedError):
        apart.sum(rows, Step(99))
