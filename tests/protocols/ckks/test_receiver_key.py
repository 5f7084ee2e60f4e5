"""Sums over clients under CKKS: exact, without the senders that dropped out, and closed to the one who adds."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fgl_secure.coins import SimulationCoins, TapeCoins
from fgl_secure.crypto.ckks import PublicKey
from fgl_secure.errors import FieldRangeError, InputError, ProtocolError, TooFewClientsError
from fgl_secure.protocols.ckks import Ckks
from fgl_secure.protocols.collective import Collective
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.topology import Topology
from fgl_secure.runtime import Channel, Directory, MessageKind, Phase, Recording, Role, Secret, Step, Strength
from fgl_secure.runtime.channel import Loss, Tamper
from tests.error_codes import about

SILOS = 5
PARTIES = Directory.hierarchy(SILOS, 2)
SERVER = int(PARTIES.ids(Role.SERVER)[0])
CLIENTS = PARTIES.ids(Role.SILO)
STEP = Step(1, 2)
Ids = NDArray[np.int64]
Integers = NDArray[np.int64]


def channel_of(loss: Loss | None = None, tamper: Tamper | None = None) -> Channel:
    """A channel that records everything."""
    return Channel(PARTIES, SimulationCoins(0), Recording.everything(), loss, tamper)


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Some clients that send, one that receives, and who adds."""

    senders: Ids
    receiver: int
    aggregator: int = SERVER

    def topology(self, length: int, bound: int) -> Topology:
        """Of its sums."""
        return Topology.to_one("clients", self.senders, self.receiver, self.aggregator, length, bound)


def group_of(senders: int = SILOS - 1) -> Group:
    """Clients 1, 2, ... send, client 0 receives, the server adds."""
    return Group(CLIENTS[1 : senders + 1], int(CLIENTS[0]))


def opened(scheme: Scheme, channel: Channel, group: Group, length: int, bound: int) -> Collective:
    """A group's sums."""
    return Collective(scheme, group.topology(length, bound), channel)


def rows_of(senders: int, length: int, bound: int, seed: int = 0) -> Integers:
    """Values of both signs with the bound among them."""
    rows = np.random.default_rng(seed).integers(-bound, bound + 1, (senders, length))
    rows[:, 0], rows[:, -1] = bound, -bound
    return rows


def losing(phase: Phase, party: int) -> Loss:
    """A network that loses the messages of a phase from a client that sends, or to another."""

    def arrives(found: Phase, _: Step, senders: Ids, receivers: Ids) -> NDArray[np.bool_]:
        concerned = (senders if phase is Phase.CIPHERTEXTS else receivers) == party
        kept: NDArray[np.bool_] = ~(concerned & (found is phase))
        return kept

    return arrives


@settings(max_examples=12)
@given(
    st.integers(1, SILOS - 1),
    st.sampled_from([1, 3000, 9000]),
    st.sampled_from([1, 2**20, 0]),
    st.sampled_from([1, 2**17, 2**28]),
    st.integers(0, 2**32),
)
def test_sums_are_exact(senders: int, length: int, bound: int, batch_bytes: int, seed: int) -> None:
    """The receiver gets the sum of integers, up to the limit (0 here), in one batch of messages or in many."""
    scheme = Ckks(batch_bytes=batch_bytes)
    bound = bound or scheme.limit(senders) // senders
    rows = rows_of(senders, length, bound, seed)
    session = opened(scheme, channel_of(), group_of(senders), length, bound)
    found = session.sum(rows, STEP)
    assert found.dtype == np.int64
    assert (found == rows.sum(axis=0)).all()


def test_messages_are_those_that_are_stated() -> None:
    """One key a party, one vector of ciphertexts a sender, one of sums; later the key's name alone."""
    channel, group = channel_of(), group_of()
    rows = rows_of(4, 10_000, 2**25)
    session = opened(Ckks(), channel, group, 10_000, 2**25)
    session.sum(rows, STEP)
    keys, ciphertexts, sums = channel.transcript.messages
    assert [(m.phase, m.messages) for m in (keys, ciphertexts, sums)] == [
        (Phase.ENCRYPTION_KEY, 5),
        (Phase.CIPHERTEXTS, 4),
        (Phase.CIPHERTEXT_SUMS, 1),
    ]
    assert set(keys.receivers.tolist()) == {SERVER, *group.senders.tolist()}
    assert set(ciphertexts.receivers.tolist()) == {SERVER} == set(sums.senders.tolist())
    assert set(sums.receivers.tolist()) == {group.receiver} == set(keys.senders.tolist())
    assert ciphertexts.item_bytes == sums.item_bytes - 4 < 5 * 16.2 * 2048
    assert {batch.step for batch in channel.transcript.messages} == {STEP}
    session.sum(rows, Step(2))
    assert [batch.item_bytes for batch in channel.transcript.messages[3:]] == [
        16,
        *(m.item_bytes for m in (ciphertexts, sums)),
    ]


@pytest.mark.parametrize("batch_bytes", [1, 2**28])
def test_senders_that_drop_out_are_left_out(batch_bytes: int) -> None:
    """A sender whose vector does not arrive isn't in the sum at all, and the run says so."""
    lost = CLIENTS[2]
    channel, rows = channel_of(losing(Phase.CIPHERTEXTS, int(lost))), rows_of(4, 9000, 2**25)
    topology = Topology.to_client(PARTIES, CLIENTS[1:], int(CLIENTS[0]), 9000, 2**25)
    collective = Collective(Ckks(batch_bytes=batch_bytes), topology, channel)
    assert (collective.sum(rows, STEP) == np.delete(rows, 1, axis=0).sum(axis=0)).all()
    assert collective.contributors is not None
    assert collective.contributors.tolist() == np.delete(CLIENTS[1:], 1).tolist()
    (incident,) = channel.transcript.incidents
    assert (incident.party.index, incident.step) == (2, STEP)


def test_a_sender_without_the_key_has_dropped_out() -> None:
    """Where the key doesn't arrive nothing is sent, least of all in the clear."""
    channel, rows = channel_of(losing(Phase.ENCRYPTION_KEY, int(CLIENTS[3]))), rows_of(4, 50, 9)
    found = opened(Ckks(), channel, group_of(), 50, 9).sum(rows, STEP)
    assert (found == np.delete(rows, 2, axis=0).sum(axis=0)).all()
    assert CLIENTS[3] not in channel.transcript.messages[1].senders


def test_who_lacked_the_key_is_given_it_again() -> None:
    """The receiver hears who was in the sum; who was not may lack the key, and gets it in the next sum."""
    lossy = [True]

    def arrives(phase: Phase, _: Step, __: Ids, receivers: Ids) -> NDArray[np.bool_]:
        return np.asarray((phase is not Phase.ENCRYPTION_KEY) | (receivers != CLIENTS[3]) | (not lossy[0]))

    channel, rows = channel_of(arrives), rows_of(4, 50, 9)
    session = opened(Ckks(), channel, group_of(), 50, 9)
    assert (session.sum(rows, STEP) == np.delete(rows, 2, axis=0).sum(axis=0)).all()
    lossy[0] = False
    assert (session.sum(rows, Step(2)) == rows.sum(axis=0)).all()


def test_an_aggregator_without_the_key_ends_the_sum() -> None:
    """Nobody can add; when the key arrives the next sum goes on."""
    lossy = [True]

    def arrives(phase: Phase, _: Step, __: Ids, receivers: Ids) -> NDArray[np.bool_]:
        return np.asarray((phase is not Phase.ENCRYPTION_KEY) | (receivers != SERVER) | (not lossy[0]))

    session, rows = opened(Ckks(), channel_of(arrives), group_of(), 50, 9), rows_of(4, 50, 9)
    with pytest.raises(ProtocolError, check=about("machines")):
        session.sum(rows, STEP)
    lossy[0] = False
    assert (session.sum(rows, Step(2)) == rows.sum(axis=0)).all()


def test_a_sum_of_one_left_over_is_refused() -> None:
    """Where all senders but one dropped out the sum would be that one's term; one sender may be a group of its own."""
    loss = losing(Phase.CIPHERTEXTS, int(CLIENTS[1]))
    rows = rows_of(2, 50, 9)
    with pytest.raises(TooFewClientsError, check=about("at least threshold = 2 of 2 clients")):
        opened(Ckks(), channel_of(loss), group_of(2), 50, 9).sum(rows, STEP)
    assert (opened(Ckks(), channel_of(), group_of(1), 50, 9).sum(rows[:1], STEP) == rows[0]).all()
    with pytest.raises(TooFewClientsError, check=about("at least threshold = 1 of 1 clients")):
        opened(Ckks(), channel_of(loss), group_of(1), 50, 9).sum(rows[:1], STEP)


def test_a_key_serves_all_sums_of_equal_parameters() -> None:
    """A second session on a channel sends no key again; another receiver, bound or channel has its own."""
    scheme, channel = Ckks(), channel_of()

    def keys_sent(group: Group, length: int, bound: int, now: Channel = channel) -> int:
        before = len(now.transcript.messages)
        opened(scheme, now, group, length, bound).sum(rows_of(4, length, bound), Step(length))
        keys = [m for m in now.transcript.messages[before:] if m.phase is Phase.ENCRYPTION_KEY]
        return sum(batch.messages for batch in keys if batch.item_bytes > 16)

    assert [keys_sent(group_of(), length, 2**25) for length in (9000, 10_000)] == [5, 0]
    assert keys_sent(group_of(), 9000, 2**35) == 5
    assert keys_sent(Group(CLIENTS[:4], int(CLIENTS[4])), 9000, 2**25) == 5
    assert keys_sent(group_of(), 9000, 2**25, channel_of()) == 5


def test_what_cannot_be_summed_is_refused() -> None:
    """The receiver as aggregator, tapes of coins, a range beyond the limit, other shapes and repeated steps raise."""
    scheme, limit = Ckks(), Ckks().limit(4)
    with pytest.raises(InputError, check=about("scheme")):
        opened(scheme, channel_of(), Group(CLIENTS[1:], int(CLIENTS[0]), int(CLIENTS[0])), 5, 5)
    with pytest.raises(InputError, check=about("coins")):
        opened(scheme, Channel(PARTIES, TapeCoins(2, 2)), group_of(), 5, 5)
    with pytest.raises(FieldRangeError, check=about("bound")):
        opened(scheme, channel_of(), group_of(), 5, limit // 4 + 1)
    session = opened(scheme, channel_of(), group_of(), 5, 5)
    for bad in (np.zeros((3, 5), dtype=np.int64), np.zeros((4, 6), dtype=np.int64), np.full((4, 5), np.nan)):
        with pytest.raises(InputError):
            session.sum(bad, STEP)
    with pytest.raises(InputError, check=about("rows")):
        session.sum(np.full((4, 5), 6), STEP)
    session.sum(np.zeros((4, 5), dtype=np.int64), STEP)
    with pytest.raises(ProtocolError, check=about("a step")):
        session.sum(np.zeros((4, 5), dtype=np.int64), STEP)


def seen_by(party: int, scheme: Scheme, rows: Integers) -> list[tuple[MessageKind, NDArray[np.uint8] | Integers]]:
    """Phase and payload of every batch that a party gets in one sum."""
    channel = channel_of()
    opened(scheme, channel, group_of(), rows.shape[1], 2**25).sum(rows, STEP)
    batches = channel.transcript.messages
    return [(m.phase, next(iter(m.fields.values()))[m.receivers == party]) for m in batches if m.fields is not None]


def test_the_server_holds_no_secret_key() -> None:
    """What it gets at set-up is a public key, and its messages don't contain the receiver's secret."""
    scheme, channel = Ckks(), channel_of()
    session = opened(scheme, channel, group_of(), 9000, 2**25)
    session.sum(rows_of(4, 9000, 2**25), STEP)
    ring_of_run = scheme._rings[channel]
    (pair,) = ring_of_run.pairs.values()
    heard = b"".join(
        value[m.receivers != CLIENTS[0]].tobytes()
        for m in channel.transcript.messages
        for value in (m.fields or {}).values()
    )
    assert pair.public_context() in heard
    assert pair._secret[100:140] in pair.secret_file()
    assert pair._secret[100:140] not in heard
    assert {type(key) for key in ring_of_run.held.values()} == {PublicKey}


def test_the_receiver_gets_one_vector_and_no_term() -> None:
    """Beside ciphertexts of one sum nothing reaches it; in the clear (the broken twin) every term does."""
    rows = rows_of(4, 9000, 2**25)
    receiver = int(CLIENTS[0])
    got = [(phase, len(payload)) for phase, payload in seen_by(receiver, Ckks(), rows) if len(payload)]
    assert got == [(Phase.CIPHERTEXT_SUMS, 1)]
    assert [(phase, len(payload)) for phase, payload in seen_by(receiver, Plaintext(), rows)] == [(Phase.VECTORS, 4)]


def test_the_claim_names_what_it_covers() -> None:
    """Server alone and one client alone are covered; the server together with a client isn't."""
    claim = Ckks().claim_among(2)
    assert {guarantee.strength for guarantee in claim.guarantees} == {Strength.COMPUTATIONAL}
    for coalition, covered in (
        ({Role.SERVER: 1}, True),
        ({Role.SILO: 1}, True),
        ({Role.SERVER: 1, Role.SILO: 1}, False),
        ({Role.SILO: 2}, False),
    ):
        assert any(g.covers(coalition) for g in claim.guarantees if g.secret is Secret.SUMMAND) is covered
