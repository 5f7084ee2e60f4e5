"""Sums over clients under CKKS: exact, without the senders that dropped out, and closed to the one who adds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tenseal import sealapi

from fgl_secure.coins import SimulationCoins, TapeCoins
from fgl_secure.crypto.ckks import Adder, PublicKey, ReceiverKey
from fgl_secure.crypto.ckks_parameters import Parameters
from fgl_secure.crypto.ckks_seal import load, ring
from fgl_secure.errors import FieldRangeError, InputError, ProtocolError
from fgl_secure.protocols.ckks_roles import FRAME_BYTES, framed, unframe
from fgl_secure.protocols.ckks_vectors import CkksVectors
from fgl_secure.protocols.plain_vectors import PlainVectors
from fgl_secure.protocols.vector_sum import Integers, VectorGroup, VectorScheme
from fgl_secure.runtime import (
    Channel,
    Directory,
    Phase,
    Recording,
    Role,
    Secret,
    Step,
    Strength,
    Tampered,
)
from fgl_secure.runtime.channel import Loss
from tests.hostile import Parts as Tamper
from tests.hostile import by_parts

SILOS = 5
PARTIES = Directory.hierarchy(SILOS, 2)
SERVER = int(PARTIES.ids(Role.SERVER)[0])
CLIENTS = PARTIES.ids(Role.SILO)
STEP = Step(1, 2)
Ids = NDArray[np.int64]


def channel_of(loss: Loss | None = None, tamper: Tamper | None = None) -> Channel:
    """A channel that records everything."""
    return Channel(PARTIES, SimulationCoins(0), Recording.everything(), loss, by_parts(tamper))


def group_of(senders: int = SILOS - 1) -> VectorGroup:
    """Clients 1, 2, ... send, client 0 receives, the server adds."""
    return VectorGroup(CLIENTS[1 : senders + 1], int(CLIENTS[0]), SERVER)


def rows_of(senders: int, length: int, bound: int, seed: int = 0) -> Integers:
    """Values of both signs with the bound among them."""
    rows = np.random.default_rng(seed).integers(-bound, bound + 1, (senders, length))
    rows[:, 0], rows[:, -1] = bound, -bound
    return rows


def losing(phase: Phase, sender: int, first: int = 0) -> Loss:
    """A network that loses a client's messages of a phase, from its first-th in each batch on."""

    def arrives(found: Phase, _: Step, senders: Ids, receivers: Ids) -> NDArray[np.bool_]:
        concerned = (senders if phase is Phase.CIPHERTEXTS else receivers) == sender
        lost: NDArray[np.bool_] = concerned & (np.cumsum(concerned) > first) & (found is phase)
        return ~lost

    return arrives


@settings(max_examples=12)
@given(
    st.integers(1, SILOS - 1),
    st.sampled_from([1, 3000, 9000]),
    st.sampled_from([1, 2**20, 0]),
    st.sampled_from([1, 2**18, 2**28]),
    st.integers(0, 2**32),
)
def test_sums_are_exact(senders: int, length: int, bound: int, batch_bytes: int, seed: int) -> None:
    """The receiver gets the sum of integers, up to the limit (0 here), in one batch of messages or in many."""
    scheme = CkksVectors(batch_bytes)
    bound = bound or scheme.limit(senders) // senders
    rows = rows_of(senders, length, bound, seed)
    session = scheme.open(channel_of(), group_of(senders), length, bound)
    found = session.sum(rows, STEP)
    assert found.dtype == np.int64
    assert (found == rows.sum(axis=0)).all()


def test_messages_are_those_that_are_stated() -> None:
    """One key a party, each sender's ciphertexts, one vector of sums; all ciphertexts of one size."""
    channel, group = channel_of(), group_of()
    rows = rows_of(4, 10_000, 2**25)
    CkksVectors().open(channel, group, 10_000, 2**25).sum(rows, STEP)
    keys, ciphertexts, sums = channel.transcript.messages
    assert [(m.phase, m.messages) for m in (keys, ciphertexts, sums)] == [
        (Phase.ENCRYPTION_KEY, 5),
        (Phase.CIPHERTEXTS, 4 * 5),
        (Phase.CIPHERTEXT_SUMS, 5),
    ]
    assert set(keys.receivers.tolist()) == {SERVER, *group.senders.tolist()}
    assert set(ciphertexts.receivers.tolist()) == {SERVER} == set(sums.senders.tolist())
    assert set(sums.receivers.tolist()) == {group.receiver} == set(keys.senders.tolist())
    assert ciphertexts.item_bytes == sums.item_bytes < 16.2 * 2048
    assert ciphertexts.step == sums.step == STEP


@pytest.mark.parametrize("batch_bytes", [1, 2**18, 2**28])
@pytest.mark.parametrize("first", [0, 1])
def test_senders_that_drop_out_are_left_out_whole(batch_bytes: int, first: int) -> None:
    """A sender of whom anything is missing isn't in the sum at all, and the run says so."""
    lost = CLIENTS[2]
    loss = losing(Phase.CIPHERTEXTS, int(lost), first if batch_bytes > 1 else 0)
    channel, rows = channel_of(loss), rows_of(4, 9000, 2**25)
    found = CkksVectors(batch_bytes).open(channel, group_of(), 9000, 2**25).sum(rows, STEP)
    assert (found == np.delete(rows, 1, axis=0).sum(axis=0)).all()
    (incident,) = channel.transcript.incidents
    assert (incident.party.index, incident.step) == (2, STEP)


def test_a_part_of_a_vector_would_be_seen() -> None:
    """The broken twin: the first ciphertext of the sender that dropped out, added all the same, spoils the sum."""
    key = ReceiverKey.generate(Parameters.for_sums(2, 5))
    whole, partial = key.public.encrypt(np.ones(9)), key.public.encrypt(np.full(9, 5))
    assert (key.decrypt([Adder(key.public).add([*whole, *partial])], 9) != 1).all()


def test_a_sender_without_the_key_has_dropped_out() -> None:
    """Where the key doesn't arrive nothing is sent, least of all in the clear."""
    channel, rows = channel_of(losing(Phase.ENCRYPTION_KEY, int(CLIENTS[3]))), rows_of(4, 50, 9)
    found = CkksVectors().open(channel, group_of(), 50, 9).sum(rows, STEP)
    assert (found == np.delete(rows, 2, axis=0).sum(axis=0)).all()
    assert CLIENTS[3] not in channel.transcript.messages[1].senders


def test_an_aggregator_without_the_key_ends_the_set_up() -> None:
    """Nobody could add."""
    with pytest.raises(ProtocolError, match=f"aggregator {SERVER} must have"):
        CkksVectors().open(channel_of(losing(Phase.ENCRYPTION_KEY, SERVER)), group_of(), 50, 9)


def test_a_sum_of_one_left_over_is_refused() -> None:
    """Where all senders but one dropped out the sum would be that one's term; one sender may be a group of its own."""
    loss = losing(Phase.CIPHERTEXTS, int(CLIENTS[1]))
    rows = rows_of(2, 50, 9)
    with pytest.raises(ProtocolError, match="at least 2 terms; found 1"):
        CkksVectors().open(channel_of(loss), group_of(2), 50, 9).sum(rows, STEP)
    assert (CkksVectors().open(channel_of(), group_of(1), 50, 9).sum(rows[:1], STEP) == rows[0]).all()
    with pytest.raises(ProtocolError, match="at least 1 terms; found 0"):
        CkksVectors().open(channel_of(loss), group_of(1), 50, 9).sum(rows[:1], STEP)


def test_a_lost_sum_is_an_error() -> None:
    """The receiver doesn't take a part of a vector for the whole."""
    channel = channel_of(losing(Phase.CIPHERTEXT_SUMS, int(CLIENTS[0]), 2))
    session = CkksVectors().open(channel, group_of(), 9000, 2**25)
    with pytest.raises(ProtocolError, match="all 5 sums of a batch must reach the receiver; found 2"):
        session.sum(rows_of(4, 9000, 2**25), STEP)


def test_a_key_serves_all_sums_of_equal_parameters() -> None:
    """A second session on a channel sends no key again; another receiver, bound or channel has its own."""
    scheme, channel = CkksVectors(), channel_of()
    for length in (9000, 10_000):
        scheme.open(channel, group_of(), length, 2**25).sum(rows_of(4, length, 2**25), Step(length))
    assert [m.phase for m in channel.transcript.messages].count(Phase.ENCRYPTION_KEY) == 1
    scheme.open(channel, group_of(), 9000, 2**35)
    scheme.open(channel, VectorGroup(CLIENTS[:4], int(CLIENTS[4]), SERVER), 9000, 2**25)
    assert [m.phase for m in channel.transcript.messages].count(Phase.ENCRYPTION_KEY) == 3
    other = channel_of()
    scheme.open(other, group_of(), 9000, 2**25)
    assert len(other.transcript.messages) == 1


def garbling(phase: Phase, *, by_network: bool) -> Tamper:
    """Somebody changes the third message of a phase in the middle of its ciphertext."""

    def changed(found: Phase, _: Step, senders: Ids, __: Ids, payload: NDArray[np.uint8]) -> Tampered | None:
        if found is not phase:
            return None
        worse = payload.copy()
        worse[2, 200:20_000] ^= 85
        return Tampered.of_payload(np.arange(len(senders)), worse, by_network=by_network)

    return changed


def test_changes_on_the_way_are_losses_and_a_senders_own_are_errors() -> None:
    """Authenticated channels drop what the network changed; a sender that sends no ciphertext ends the sum."""
    rows = rows_of(4, 50, 9)
    session = CkksVectors().open(channel_of(tamper=garbling(Phase.CIPHERTEXTS, by_network=True)), group_of(), 50, 9)
    assert (session.sum(rows, STEP) == np.delete(rows, 2, axis=0).sum(axis=0)).all()
    session = CkksVectors().open(channel_of(tamper=garbling(Phase.CIPHERTEXTS, by_network=False)), group_of(), 50, 9)
    with pytest.raises(ProtocolError, match="ciphertext must be valid"):
        session.sum(rows, STEP)


def test_repeated_and_reordered_messages_change_nothing() -> None:
    """Positions travel with ciphertexts, and what arrives twice is counted once."""

    def shuffled(phase: Phase, _: Step, senders: Ids, __: Ids, payload: NDArray[np.uint8]) -> Tampered | None:
        order = np.concatenate([np.arange(len(senders))[::-1], [0]])
        return None if phase is Phase.ENCRYPTION_KEY else Tampered.of_payload(order, payload[order])

    rows = rows_of(4, 9000, 2**25)
    for batch_bytes in (1, 2**28):
        session = CkksVectors(batch_bytes).open(channel_of(tamper=shuffled), group_of(), 9000, 2**25)
        assert (session.sum(rows, STEP) == rows.sum(axis=0)).all()


def test_a_short_message_is_refused() -> None:
    """A message that was cut off is no frame, nor is one that claims more than it has."""
    message = framed(iter([(7, b"abc")]), 1, 20).tobytes()
    assert unframe(message, 20) == (7, b"abc")
    with pytest.raises(ProtocolError, match="message must have 20 bytes; found 19"):
        unframe(message[:-1], 20)
    with pytest.raises(ProtocolError, match=f"up to {20 - FRAME_BYTES} bytes of ciphertext; found 13"):
        unframe(bytes([0, 0, 0, 0, 0, 0, 0, 13]) + bytes(12), 20)


def test_what_cannot_be_summed_is_refused() -> None:
    """The receiver as aggregator, tapes of coins, a range beyond the limit, other shapes and repeated steps raise."""
    scheme, limit = CkksVectors(), CkksVectors().limit(4)
    with pytest.raises(InputError, match="aggregator must not be the receiver"):
        scheme.open(channel_of(), VectorGroup(CLIENTS[1:], int(CLIENTS[0]), int(CLIENTS[0])), 5, 5)
    with pytest.raises(InputError, match="coins of the channel"):
        scheme.open(Channel(PARTIES, TapeCoins(2, 2)), group_of(), 5, 5)
    with pytest.raises(FieldRangeError, match=f"<= {limit:,} under ckks"):
        scheme.open(channel_of(), group_of(), 5, limit // 4 + 1)
    session = scheme.open(channel_of(), group_of(), 5, 5)
    for bad in (np.zeros((3, 5), dtype=np.int64), np.zeros((4, 6), dtype=np.int64), np.full((4, 5), np.nan)):
        with pytest.raises(InputError, match="rows must be int64"):
            session.sum(bad, STEP)
    with pytest.raises(InputError, match="at least one entry is beyond it"):
        session.sum(np.full((4, 5), 6), STEP)
    session.sum(np.zeros((4, 5), dtype=np.int64), STEP)
    with pytest.raises(InputError, match="a step must have one sum"):
        session.sum(np.zeros((4, 5), dtype=np.int64), STEP)


def seen_by(party: int, scheme: VectorScheme, rows: Integers) -> list[tuple[Phase, NDArray[np.uint8] | Integers]]:
    """Phase and payload of every batch that a party gets in one sum."""
    channel = channel_of()
    scheme.open(channel, group_of(), rows.shape[1], 2**25).sum(rows, STEP)
    batches = channel.transcript.messages
    return [(m.phase, m.payload[m.receivers == party]) for m in batches if m.payload is not None]


def test_the_server_sees_as_many_bytes_whatever_is_summed() -> None:
    """Zeros and largest values make equal numbers of messages of equal sizes, and no two ciphertexts are equal."""
    views = [seen_by(SERVER, CkksVectors(), np.full((4, 9000), value)) for value in (0, 2**25)]
    assert [(phase, payload.shape) for phase, payload in views[0][1:]] == [
        (phase, payload.shape) for phase, payload in views[1][1:]
    ]
    ciphertexts = np.concatenate([payload for view in views for phase, payload in view if phase is Phase.CIPHERTEXTS])
    assert len({row.tobytes()[FRAME_BYTES:] for row in ciphertexts}) == len(ciphertexts) == 2 * 4 * 5


def test_the_server_holds_no_secret_key() -> None:
    """What it gets at set-up is a public key, and its messages don't contain the receiver's secret."""
    scheme, channel = CkksVectors(), channel_of()
    session = scheme.open(channel, group_of(), 9000, 2**25)
    session.sum(rows_of(4, 9000, 2**25), STEP)
    (keys,) = scheme._keys[channel].values()
    heard = b"".join(m.payload[m.receivers != CLIENTS[0]].tobytes() for m in channel.transcript.messages)  # type: ignore[index]
    assert keys.pair.public_context() in heard
    assert keys.pair._secret[100:140] in keys.pair.secret_file()
    assert keys.pair._secret[100:140] not in heard
    assert isinstance(keys.held[SERVER], PublicKey)


def distance_from_uniform(words: NDArray[np.uint64], modulus: int) -> float:
    """How far the mean of residues, as fractions of q, is from that of uniform ones, in standard errors."""
    mean = float((words / modulus).mean())
    return float(abs(mean - 0.5) * np.sqrt(12 * words.size))


@pytest.mark.parametrize("value", [0, 2**25])
def test_ciphertexts_look_uniform_to_the_server(value: int) -> None:
    """Residues of ciphertexts of equal entries are no further from uniform ones than chance goes."""
    rows = np.full((4, 9000), value)
    (ciphertexts,) = (p for phase, p in seen_by(SERVER, CkksVectors(), rows) if phase is Phase.CIPHERTEXTS)
    here = ring(Parameters.for_sums(4, 2**25, length=9000).chain)
    words = []
    for row in ciphertexts:
        cipher = load(sealapi.Ciphertext(), here.context, unframe(row.tobytes(), len(row))[1][20:])
        words.append([cipher[i] for i in range(2 * here.chain.degree)])
    assert distance_from_uniform(np.array(words, dtype=np.uint64), here.modulus) < 5
    in_the_clear = here.residues(np.full(4096, value * Parameters.for_sums(4, 2**25, length=9000).scale))
    assert distance_from_uniform(in_the_clear, here.modulus) > 5  # the broken twin: encoded and not encrypted


def test_the_receiver_gets_one_vector_and_no_term() -> None:
    """Beside ciphertexts of one sum nothing reaches it; in the clear (the broken twin) every term does."""
    rows = rows_of(4, 9000, 2**25)
    receiver = int(CLIENTS[0])
    got = [(phase, len(payload)) for phase, payload in seen_by(receiver, CkksVectors(), rows) if len(payload)]
    assert got == [(Phase.CIPHERTEXT_SUMS, 5)]
    assert [(phase, len(payload)) for phase, payload in seen_by(receiver, PlainVectors(), rows)] == [(Phase.VECTORS, 4)]


def test_the_claim_names_what_it_covers() -> None:
    """Server alone and one client alone are covered; the server together with a client isn't."""
    claim = CkksVectors().claim
    assert {guarantee.strength for guarantee in claim.guarantees} == {Strength.COMPUTATIONAL}
    for coalition, covered in (
        ({Role.SERVER: 1}, True),
        ({Role.SILO: 1}, True),
        ({Role.SERVER: 1, Role.SILO: 1}, False),
        ({Role.SILO: 2}, False),
    ):
        assert any(g.covers(coalition) for g in claim.guarantees if g.secret is Secret.SUMMAND) is covered
