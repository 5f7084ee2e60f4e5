"""The relay-coded scheme: its sums, its messages byte by byte, and what it refuses."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fgl_reproduction.known_flaws.ideal_relays import IdealCryptography
from fgl_secure.algebra import MERSENNE_61, PrimeField
from fgl_secure.coins import SimulationCoins
from fgl_secure.crypto.keys import KeyAgreement
from fgl_secure.errors import FglSecureError, FieldRangeError, InputError, ProtocolError
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.relay_coded import LARGEST_T, MOST_RELAYS, Profile, RelayCoded
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.topology import Grouping
from fgl_secure.runtime import Channel, Direction, Directory, Messages, Phase, Role, Step, TamperedBatch
from tests.error_codes import about
from tests.protocols.conformance import (
    BACKWARD,
    BOUND,
    FORWARD,
    SchemeConformance,
    Traffic,
    along,
    channel_of,
    counted,
    helpers_of,
    ideal,
    opened,
    triangle,
)
from tests.strategies import Parties, federated_graphs, grouping_over, groupings, reals

TAG, COUNT, KEY, DIGEST = 16, 4, 32, 64
AEAD = 16
"""What authenticated encryption adds."""
ENCAPSULATION_KEY, CIPHERTEXT = 1184, 1088
"""Of ML-KEM-768."""


def of_keys(scheme: RelayCoded) -> tuple[int, int, int]:
    """Bytes of what a sender publishes, of what a relay answers, and of what a seal adds."""
    if scheme.keys is KeyAgreement.X25519:
        return KEY, KEY, KEY + AEAD
    return KEY + ENCAPSULATION_KEY, KEY + CIPHERTEXT + KEY + AEAD, KEY + CIPHERTEXT + AEAD


class RelayConformance(SchemeConformance):
    """What the description says of messages, for any T and R."""

    scheme: ClassVar[RelayCoded]
    lossy_phase = Phase.SHARES
    refused: ClassVar[tuple[float, ...]] = (*SchemeConformance.refused, 1.001 * BOUND, -1.001 * BOUND)

    def allowed_error(self, grouping: Grouping) -> float:
        """Half a resolution a term."""
        terms = max(grouping.largest_group, grouping.reverse().largest_group, 1)
        return terms * 2.0 ** -self.scheme.fixed_point(terms).fraction_bits / 2

    def test_delivery_decides_the_sum(self) -> None:
        """Shares that are others than those sent, and elements of the field still, make another sum."""
        case = self.fit(triangle())

        def tamper(messages: Messages) -> TamperedBatch | None:
            if messages.phase is not self.lossy_phase:
                return None
            return TamperedBatch(np.arange(len(messages)), {**messages.fields, "share": messages["share"] // 2})

        session = opened(self.scheme, Channel(case.directory, SimulationCoins(0), tamper=tamper), case.grouping, 1)
        assert not np.allclose(session.sum(np.ones((4, 1)), FORWARD), ideal(case.grouping, np.ones((4, 1))), atol=1e-3)

    def fetched(self, g: Grouping, width: int) -> Traffic:
        """A circuit for every sum via two silos, over which each relay answers; relays' keys, and their digests."""
        R, n, K = (
            self.scheme.R,
            len(g.group_owner),
            len(np.unique(np.concatenate([g.row_custodian, g.group_custodian]))),
        )
        public, seal = public_and_seal(self.scheme)
        hosts = len(np.unique(g.group_custodian))
        circuit = R * (TAG * (1 + R) + self.key + seal)
        answer = self.answer(width)
        devices = len(np.unique(np.concatenate([g.row_owner, g.group_owner])))
        return (
            {
                (Phase.KEYS, Role.SILO, Role.RELAY): (R * K, 0),
                (Phase.KEYS, Role.RELAY, Role.SILO): (R * K, R * K * public),
                (Phase.KEYS, Role.SILO, Role.DEVICE): (devices, devices * R * public),
                (Phase.CIRCUITS, Role.DEVICE, Role.SILO): (n, n * circuit),
                (Phase.CIRCUITS, Role.SILO, Role.SILO): (n, n * circuit),
                (Phase.CIRCUITS, Role.SILO, Role.RELAY): (n * R, n * circuit),
                (Phase.SEALED, Role.RELAY, Role.SILO): (n * R, n * R * answer),
                (Phase.MIXED, Role.SILO, Role.SILO): (n * R, n * R * answer),
                (Phase.SHARE_SUMS, Role.RELAY, Role.DEVICE): (n * R, n * R * answer),
                (Phase.ROSTERS, Role.RELAY, Role.RELAY): (R * (R - 1), R * (R - 1) * DIGEST),
            }
            if hosts
            else {}
        )

    key = KEY

    def test_the_bystander_sees_nothing(self) -> None:
        """A device without neighbours gets sums of zero."""
        case = self.fit(triangle())
        session = opened(self.scheme, channel_of(case.directory), case.grouping, 1)
        for step in (FORWARD, BACKWARD):
            assert session.sum(np.ones((4, 1)), step)[3] == 0

    def answer(self, width: int) -> int:
        """Bytes of a sum, its count and what authenticates them."""
        return 16 + (1 + width) * self.scheme.field.dtype.itemsize

    def named_messages(self, grouping: Grouping, width: int, expanded: int) -> Traffic:
        """A pseudonym for who sends abroad; a circuit at every relay, a header of every owner, and shares."""
        m, R, size = len(grouping.source), self.scheme.R, width * self.scheme.field.dtype.itemsize
        abroad = int((grouping.row_owner[grouping.source] != grouping.group_owner[grouping.target]).sum())
        owners = len(grouping.owners) * R
        return {
            (Phase.TAGS, Role.DEVICE, Role.DEVICE): (abroad, abroad * TAG),
            (Phase.CIRCUITS, Role.DEVICE, Role.RELAY): (m * R, m * R * (TAG + AEAD)),
            (Phase.SHARE_HEADERS, Role.DEVICE, Role.RELAY): (owners, owners * (4 + AEAD)),
            (Phase.SHARES, Role.DEVICE, Role.RELAY): (m * (R - expanded), m * (R - expanded) * (size + AEAD)),
        }

    def expected_traffic(self, grouping: Grouping, width: int) -> Traffic:
        if not len(grouping.source):
            return {}
        ends = {*grouping.row_owner[grouping.source].tolist(), *grouping.group_owner[grouping.target].tolist()}
        keys = self.scheme.T * len(ends)  # whoever sends in either pass agrees on a key with the first T relays
        return {
            (Phase.KEYS, Role.RELAY, Role.DEVICE): (keys, keys * of_keys(self.scheme)[1]),
            (Phase.KEYS, Role.DEVICE, Role.RELAY): (keys, keys * of_keys(self.scheme)[0]),
            **self.named_messages(grouping, width, self.scheme.T),
            **self.fetched(grouping, width),
        }


def public_and_seal(scheme: RelayCoded) -> tuple[int, int]:
    """Bytes that a relay publishes, and that a seal adds; none under ideal cryptography."""
    real = scheme.cryptography is not IdealCryptography
    return (scheme.keys.public_bytes, scheme.keys.seal_bytes) if real else (0, 0)


class TestBase(RelayConformance):
    """As few relays as there can be: one expands its shares, the other gets them."""

    scheme = RelayCoded(k_min=1, bound=BOUND, profile=Profile.SHOWN)


class TestX25519(TestBase):
    """Keys agreed on without ML-KEM."""

    scheme = RelayCoded(k_min=1, bound=BOUND, keys=KeyAgreement.X25519, profile=Profile.SHOWN)


class TestSpareRelay(RelayConformance):
    """Two masks and one relay more than decoding needs, over the larger field."""

    scheme = RelayCoded(PrimeField(MERSENNE_61), T=2, R=4, k_min=1, bound=BOUND, profile=Profile.SHOWN)

    def test_delivery_decides_the_sum(self) -> None:
        """Shares that were changed no longer lie on a polynomial with the others, and no sum is given."""
        with pytest.raises(ProtocolError, check=about("the sums of relay 0, relay 1, relay 2, relay 3 in round 0")):
            super().test_delivery_decides_the_sum()


class TestDrawn(RelayConformance):
    """Masks sent in full: no keys, and a share for every relay."""

    scheme = RelayCoded(k_min=1, bound=BOUND, cryptography=IdealCryptography, profile=Profile.SHOWN)
    key = 0

    def answer(self, width: int) -> int:
        return super().answer(width) - 16

    def expected_traffic(self, grouping: Grouping, width: int) -> Traffic:
        if not len(grouping.source):
            return {}
        return {**self.named_messages(grouping, width, 0), **self.fetched(grouping, width)}


class TestAnon(RelayConformance):
    """Unnamed senders on undirected graphs: everybody sends as many messages as the one that has most."""

    scheme = RelayCoded(k_min=1, bound=BOUND, profile=Profile.HIDDEN)

    def fit(self, case: Parties) -> Parties:
        """The drawn case, every edge both ways and between all devices once."""
        case, g = super().fit(case), case.grouping
        owners = case.directory.ids(Role.DEVICE)
        ends = np.stack([g.row_owner[g.source], g.group_owner[g.target]]) - owners[0]
        both = np.unique(np.concatenate([ends, ends[::-1]], axis=1), axis=1).astype(np.int64)
        silos = np.full(len(owners), case.directory.ids(Role.SILO)[0])
        for some, theirs in ((g.row_owner, g.row_custodian), (g.group_owner, g.group_custodian)):
            silos[some - owners[0]] = theirs
        return replace(case, grouping=Grouping(owners, owners, both[0], both[1], silos, silos))

    def expected_traffic(self, grouping: Grouping, width: int) -> Traffic:
        """D circuits of each device via two silos, one row over each for the last relay, and silos' rosters."""
        if not len(grouping.source):
            return {}
        T, R, n, size = self.scheme.T, self.scheme.R, len(grouping.row_owner), width * self.scheme.field.dtype.itemsize
        sent, K = n * grouping.largest_group, len(np.unique(grouping.row_custodian))
        circuit = R * (2 * TAG + KEY + public_and_seal(self.scheme)[1])
        row = (R - T) * (size + 16)
        abroad = int((grouping.source != grouping.target).sum())
        found = dict(self.fetched(grouping, width))
        ways: tuple[tuple[Role, Role], ...]
        ways = (Role.DEVICE, Role.SILO), (Role.SILO, Role.SILO), (Role.SILO, Role.RELAY)
        for ends in ways:
            times = R if ends[1] is Role.RELAY else 1
            count, size_of = found[Phase.CIRCUITS, *ends]
            found[Phase.CIRCUITS, *ends] = (count + times * sent, size_of + sent * circuit)
        mixed = found[Phase.MIXED, Role.SILO, Role.SILO]
        pairs = K * (K - 1)
        return {
            **found,
            (Phase.TAGS, Role.DEVICE, Role.DEVICE): (abroad, abroad * TAG),
            (Phase.SEALED, Role.DEVICE, Role.SILO): (sent, sent * row),
            (Phase.MIXED, Role.SILO, Role.SILO): (mixed[0] + sent, mixed[1] + sent * row),
            (Phase.ROSTERS, Role.SILO, Role.SILO): (2 * pairs, pairs * (13 + 5 + 2 * AEAD)),
            (Phase.SHARE_HEADERS, Role.SILO, Role.RELAY): (T * K, T * K * (8 + AEAD)),
            (Phase.SHARES, Role.SILO, Role.RELAY): ((R - T) * sent, sent * row),
        }

    @pytest.mark.parametrize("lost", range(8))
    def test_a_lost_value_changes_its_targets_sum_alone(self, lost: int) -> None:
        """Whichever of the shuffled rows is lost on its way to a relay, its target's sum stays zero and no other."""
        case, values = self.fit(triangle()), np.array([[1.0], [2.0], [4.0], [0.5]])

        def arrives(phase: Phase, _: Step, senders: NDArray[np.int64], __: NDArray[np.int64]) -> NDArray[np.bool_]:
            rows = np.arange(len(senders))
            return rows != lost if phase is self.lossy_phase else rows >= 0

        session = opened(self.scheme, channel_of(case.directory, arrives), case.grouping, 1)
        sums, whole = session.sum(values, FORWARD), ideal(case.grouping, values)
        gone = ~np.isclose(sums, whole, atol=1e-3)[:, 0]
        assert gone.sum() <= 1
        assert (sums[gone] == 0).all()
        noted = [i for i in session._channel.transcript.incidents if "too few messages are left" in i.what]
        assert len(noted) == gone.sum()

    def test_delivery_decides_the_sum(self) -> None:
        """Rows that silos change don't open at the relay, and no sum is given of their groups."""
        case = self.fit(triangle())

        def tamper(messages: Messages) -> TamperedBatch | None:
            if messages.phase is not self.lossy_phase:
                return None
            return TamperedBatch(np.arange(len(messages)), {**messages.fields, "share": messages["share"] ^ 1})

        session = opened(self.scheme, Channel(case.directory, SimulationCoins(0), tamper=tamper), case.grouping, 1)
        assert (session.sum(np.ones((4, 1)), FORWARD) == 0).all()

    def test_the_bystander_sees_nothing(self) -> None:
        """A device without neighbours has circuits to itself alone, and its sum is zero."""
        case = self.fit(triangle())
        channel = channel_of(case.directory)
        session = opened(self.scheme, channel, case.grouping, 1)
        for step in (FORWARD, BACKWARD):
            assert session.sum(np.ones((4, 1)), step)[3] == 0


SCHEMES = (
    RelayCoded(k_min=1, bound=BOUND, profile=Profile.SHOWN),
    RelayCoded(T=2, R=4, k_min=2, bound=BOUND, profile=Profile.SHOWN),
    RelayCoded(k_min=3, bound=BOUND, cryptography=IdealCryptography, profile=Profile.SHOWN),
)


def with_relays(case: Parties, scheme: Scheme) -> Parties:
    """A case with the relays of a scheme."""
    counts = case.directory.counts
    return replace(case, directory=Directory.hierarchy(counts[Role.SILO], counts[Role.DEVICE], helpers_of(scheme)))


@given(st.data(), groupings(), st.sampled_from(SCHEMES), st.sampled_from(Direction))
def test_small_groups_are_left_out_as_in_plaintext(
    data: st.DataObject, case: Parties, scheme: RelayCoded, direction: Direction
) -> None:
    """Groups below k_min get zero in both passes, and all sums are those of plaintext with that least group."""
    case = with_relays(case, scheme)
    way = along(case.grouping, direction)
    values = data.draw(reals(BOUND, (len(way.row_owner), 2)))
    sums, plain = (
        opened(each, channel_of(case.directory), case.grouping, 2).sum(values, Step(0, 0, direction))
        for each in (scheme, Plaintext(minimum_group=scheme.k_min))
    )
    assert np.allclose(sums, plain, atol=1e-3)
    small = np.bincount(way.target, minlength=len(sums)) < scheme.k_min
    assert (sums[small] == 0).all()


@given(federated_graphs(directed=False), st.integers(1, 4))
def test_small_groups_are_left_out_under_anon_too(graph: Any, k_min: int) -> None:
    """Unnamed senders send zero to whom they would not have summed; messages and sizes say nothing of it."""
    from fgl_secure.training.parties import hierarchy_of, neighbour_sums

    scheme, grouping = RelayCoded(k_min=k_min, profile=Profile.HIDDEN), neighbour_sums(graph)
    values = np.arange(1.0, graph.num_devices + 1)[:, None]
    parties, sums = hierarchy_of(graph, scheme.helpers), []
    for each in (scheme, Plaintext(minimum_group=k_min)):
        session = opened(each, channel_of(parties), grouping, 1)
        sums.append([session.sum(values, step) for step in (FORWARD, BACKWARD)])
    assert np.allclose(sums[0], sums[1], atol=1e-3)


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ({"T": 0}, InputError, "T"),
        ({"T": LARGEST_T + 1, "R": 70}, InputError, "T"),
        ({"R": MOST_RELAYS + 1}, InputError, "R"),
        ({"T": 2}, InputError, "R"),
        ({"field": PrimeField(5), "R": 5}, FieldRangeError, "R"),
        ({"k_min": 0}, InputError, "k_min"),
        ({"reopen_every": -1}, InputError, "reopen_every"),
        ({"max_degree": 3, "profile": Profile.SHOWN}, InputError, "max_degree"),
        ({"max_degree": 2}, InputError, "max_degree"),
    ],
)
def test_unfit_parameters_are_refused(wrong: Mapping[str, Any], error: type[FglSecureError], message: str) -> None:
    with pytest.raises(error, check=about(message)):
        RelayCoded(**wrong)


def test_fewer_relays_than_named_are_refused() -> None:
    """A run needs the R relays of the scheme."""
    case = triangle()
    with pytest.raises(InputError, check=about("parties")):
        opened(RelayCoded(profile=Profile.SHOWN), channel_of(case.directory), case.grouping, 1)


def test_names_and_public_parameters_say_what_differs() -> None:
    """The name has the parameters that are not the default, and everybody knows field, T and the binary point."""
    assert RelayCoded().name == "relay-coded"
    assert RelayCoded(profile=Profile.SHOWN).name == "relay-coded[graph-shown]"
    other = RelayCoded(PrimeField(101), T=2, R=5, k_min=1, profile=Profile.HIDDEN, fraction_bits=2)
    assert other.name == "relay-coded[p=101,T=2,R=5,k_min=1]"
    assert (other.public.modulus, other.public.T, other.public.fraction_bits) == (101, 2, 2)
    assert RelayCoded(T=2, R=3).name == "relay-coded[T=2]"


def test_a_step_is_summed_once() -> None:
    """The same step again would use its masks again: it raises before any message, and the next step is fine."""
    case = with_relays(triangle(), RelayCoded(profile=Profile.SHOWN))
    channel = channel_of(case.directory)
    session = opened(RelayCoded(k_min=1, profile=Profile.SHOWN), channel, case.grouping, 1)
    session.sum(np.ones((4, 1)), FORWARD)
    before = channel.transcript.message_count
    with pytest.raises(ProtocolError, check=about("a step")):
        session.sum(np.zeros((4, 1)), FORWARD)
    assert channel.transcript.message_count == before
    assert session.sum(np.ones((4, 1)), BACKWARD).sum() == 3


def test_a_step_that_failed_is_not_summed_again_either() -> None:
    """Masks that left with a failed sum are used up: the retry with another payload raises."""
    case = with_relays(triangle(), RelayCoded(profile=Profile.SHOWN))
    channel = channel_of(case.directory, lambda p, _, senders, __: np.full(len(senders), p is not Phase.SHARE_SUMS))
    session = opened(RelayCoded(k_min=1, profile=Profile.SHOWN), channel, case.grouping, 1)
    with pytest.raises(ProtocolError, check=about("T + 1 = 2 relays")):
        session.sum(np.ones((4, 1)), FORWARD)
    with pytest.raises(ProtocolError, check=about("a step")):
        session.sum(np.zeros((4, 1)), FORWARD)


def star_both_ways(leaves: int, relays: int = 2) -> Parties:
    """Undirected edges between device 0 and all others, in one silo."""
    directory, everyone = Directory.hierarchy(1, leaves + 1, relays), np.arange(leaves + 1)
    out = np.stack([everyone[1:], np.zeros(leaves, dtype=np.int64)])
    edges = np.concatenate([out, out[::-1]], axis=1)
    return Parties(directory, grouping_over(directory, np.zeros(leaves + 1, dtype=np.int64), everyone, everyone, edges))


def test_padding_needs_an_undirected_graph() -> None:
    """Where somebody sends more than it gets, messages to itself would tell, and anon refuses."""
    case = with_relays(triangle(), RelayCoded(profile=Profile.SHOWN))
    with pytest.raises(InputError):
        opened(RelayCoded(profile=Profile.HIDDEN), channel_of(case.directory), case.grouping, 1)


def test_padding_is_not_left_out_where_some_targets_own_no_row() -> None:
    """A grouping in which a target sends nothing is no reason to send unpadded messages: it is refused."""
    directory = Directory.hierarchy(1, 3, 2)
    g = grouping_over(directory, np.zeros(3, dtype=np.int64), np.arange(2), np.arange(3), np.array([[0, 1], [2, 0]]))
    with pytest.raises(InputError):
        opened(RelayCoded(profile=Profile.HIDDEN), channel_of(directory), g, 1)


@pytest.mark.parametrize(("most", "fits"), [(3, False), (4, True), (9, True), (None, True)])
def test_max_degree_must_cover_the_largest_neighbourhood(most: int | None, fits: bool) -> None:
    """Fewer than the most messages of one sender are refused; from there on everybody sends that many."""
    case, scheme = star_both_ways(4), RelayCoded(profile=Profile.HIDDEN, max_degree=most, k_min=1)
    channel = channel_of(case.directory)
    if not fits:
        with pytest.raises(InputError, check=about("max_degree")):
            opened(scheme, channel, case.grouping, 1)
        return
    sums = opened(scheme, channel, case.grouping, 1).sum(np.ones((5, 1)), FORWARD)
    assert np.allclose(sums[:, 0], [4, 1, 1, 1, 1])
    sealed = [b for b in channel.transcript.messages if b.phase is Phase.SEALED]
    from_devices = next(np.bincount(b.senders)[case.directory.ids(Role.DEVICE)] for b in sealed)
    assert (from_devices == (most or 4)).all()


def test_a_message_is_as_long_as_its_row() -> None:
    """At T = 1 and 64 coordinates a message with its pseudonym costs at most .65 of HiFGL's T + 1 codes and its mu."""
    T, d, case = 1, 64, star_both_ways(8)
    channel = channel_of(case.directory)
    opened(RelayCoded(T=T, k_min=1, profile=Profile.SHOWN), channel, case.grouping, d).sum(np.ones((9, d)), FORWARD)
    carrying = {Phase.TAGS, Phase.SHARE_HEADERS, Phase.SHARES}
    sent = sum(size for (phase, *_), (_, size) in counted(channel.transcript).items() if phase in carrying)
    assert sent / len(case.grouping.source) <= 0.65 * (d * (T + 1) + 3 * T + 2) * 4


@given(st.integers(1, 3), st.integers(1, 3))
def test_masks_are_not_sent(T: int, spare: int) -> None:
    """R - T shares of each message travel, whatever T is: the first T relays expand theirs."""
    case = star_both_ways(3, T + spare)
    channel = channel_of(case.directory)
    opened(RelayCoded(T=T, R=T + spare, k_min=1, profile=Profile.SHOWN), channel, case.grouping, 2).sum(
        np.ones((4, 2)), FORWARD
    )
    shares = sum(b.messages for b in channel.transcript.messages if b.phase is Phase.SHARES)
    assert shares == spare * len(case.grouping.source)


def test_fraction_bits_are_as_many_as_fit_or_as_asked() -> None:
    """Without a number the binary point lies where the largest sum allows; with one it stays there or is refused."""
    assert RelayCoded(bound=1.0, profile=Profile.SHOWN).fixed_point(4).fraction_bits == 27
    assert RelayCoded(bound=1.0, fraction_bits=8, profile=Profile.SHOWN).fixed_point(4).fraction_bits == 8
    with pytest.raises(FieldRangeError):
        RelayCoded(bound=1.0, fraction_bits=30, profile=Profile.SHOWN).fixed_point(4)
