"""What senders refuse, and what becomes of messages that are forged, swapped, replayed or malformed."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fgl_secure.algebra import PrimeField
from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import FglSecureError, ProtocolError
from fgl_secure.protocols.masking.shares import Sharing, seed_of, words_of
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.pairwise_masking.requests import NO_SHARE, Ask, check_request, request_of, shares_for, signed
from fgl_secure.runtime import Channel, Phase, Recording, Step, Tampered
from tests.hostile import Parts as Tamper
from tests.hostile import by_parts
from tests.protocols.masking_cases import NOW, incidents, rewritten, rows_of, silent, summed
from tests.protocols.vector_conformance import circle, total_of

Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]

FIVE = PairwiseMasking(4)
SENDERS = circle(5, split=False)[1].senders
SERVER = 0

ALL = np.ones(5, dtype=np.bool_)


def asking(**others: int) -> Bytes:
    """A request for all self masks, but for `s3=2` and the like."""
    asked = np.full(5, Ask.SELF_MASK, dtype=np.uint8)
    for name, value in others.items():
        asked[int(name[1:])] = value
    return asked


def check(asked: Bytes, own: int = 0, told: NDArray[np.bool_] = ALL, earlier: Bytes | None = None) -> None:
    """A sender among five, all of them neighbours."""
    adjacent = np.arange(5) != own
    check_request(asked, own, told, adjacent, 4, earlier)


def test_an_honest_request_is_answered() -> None:
    """All vectors there, or one sender dropped out: every survivor accepts."""
    for own in range(5):
        check(asking(), own)
    for own in range(4):
        check(asking(s4=Ask.MASK_KEY), own)
        check(asking(s4=Ask.NOTHING), own)


@pytest.mark.parametrize("target", range(5))
def test_a_request_for_both_secrets_of_one_sender_is_refused_by_everybody(target: int) -> None:
    """A server that asks for both secrets of one client is refused by every honest client, that client included."""
    for own in range(5):
        with pytest.raises(ProtocolError, match=f"one secret of each sender; found one for both of sender {target}"):
            check(asking(**{f"s{target}": Ask.SELF_MASK + Ask.MASK_KEY}), own)
    held = np.zeros((5, 2, 3), dtype=np.int64)
    with pytest.raises(ProtocolError, match="found one for both at position"):
        shares_for(asking(**{f"s{target}": 3}), held)


def test_a_second_request_is_refused() -> None:
    """Asked first for one secret of a sender and then for the other, in two requests, every client refuses."""
    for own in range(4):
        check(asking(), own, earlier=asking())
        with pytest.raises(ProtocolError, match="a step must be unmasked once"):
            check(asking(s4=Ask.MASK_KEY), own, earlier=asking())


@pytest.mark.parametrize(
    ("asked", "told", "message"),
    [
        (asking(s0=Ask.MASK_KEY), ALL, "sender 0 must be on the roster"),
        (asking(s0=Ask.NOTHING), ALL, "sender 0 must be on the roster"),
        (asking(), np.arange(5) != 2, "those only that shared their secrets; found sender 2"),
        (asking(s2=Ask.MASK_KEY), np.arange(5) != 2, "those only that shared their secrets; found sender 2"),
        (asking(s1=2, s2=2), ALL, "at least threshold = 4 senders; found 3"),
        (asking(s1=0, s2=0), ALL, "at least threshold = 4 senders; found 3"),
        (asking(s1=200), ALL, "found one for both of sender 1"),
    ],
)
def test_a_request_that_lies_is_refused(asked: Bytes, told: NDArray[np.bool_], message: str) -> None:
    """About the sender itself, about one that shared nothing, or for too small a sum."""
    with pytest.raises(ProtocolError, match=message):
        check(asked, told=told)


def test_the_aggregator_asks_for_one_secret_of_each() -> None:
    """The self mask where the vector came, the mask key where only the shares did, and nothing of the others."""
    shared, survived = np.array([1, 1, 0], dtype=np.bool_), np.array([1, 0, 0], dtype=np.bool_)
    assert request_of(shared, survived).tolist() == [Ask.SELF_MASK, Ask.MASK_KEY, Ask.NOTHING]


def test_one_share_at_most_is_handed_out() -> None:
    """Of each sender the share that is asked for, and no share where nothing is asked."""
    held = np.arange(3 * 2 * 2).reshape(3, 2, 2)
    given_out = shares_for(np.array([1, 2, 0], dtype=np.uint8), held)
    assert given_out.tolist() == [[0, 1], [6, 7], [NO_SHARE, NO_SHARE]]


@given(st.binary(min_size=32, max_size=32), st.sampled_from([3, 11, 101, 2**31 - 1, 2**61 - 1]))
def test_seeds_survive_the_field(seed: bytes, modulus: int) -> None:
    """All 256 bits of a seed come back from the elements that hold it."""
    field = PrimeField(modulus)
    words = words_of(field, np.frombuffer(seed, dtype=np.uint8)[None])
    assert seed_of(field, words[0]) == seed
    assert field.elements(words).shape == words.shape


def test_what_is_no_seed_is_refused() -> None:
    """Elements beyond the words of a seed raise, and the message shows none of them."""
    with pytest.raises(ProtocolError, match="hold a seed of 256 bits; they hold none"):
        seed_of(PrimeField(2**61 - 1), np.full(5, 2**61 - 2))


def test_shares_open_at_the_threshold_with_wrong_ones_corrected() -> None:
    """Any three of seven shares open a secret, and of seven two may be wrong."""
    sharing, secret = Sharing(PrimeField(), 7, 3), np.array([[5, 6]])
    coins = SimulationCoins(0)
    shares = sharing.share(secret, coins.uniform(PrimeField().modulus, (1, 2, 2)))[0]
    for holders in itertools.combinations(range(7), 3):
        assert sharing.open(shares[list(holders)], holders, coins).tolist() == [5, 6]
    shares[[1, 4]] = 9
    assert sharing.open(shares, range(7), coins).tolist() == [5, 6]


def test_elements_become_signed_integers() -> None:
    """The upper half of the field stands for negative numbers."""
    assert signed(np.array([0, 5, 6, 10]), 11).tolist() == [0, 5, -5, -1]


def roster_from_server(change: Callable[[Bytes, Ints], Bytes]) -> Tamper:
    """A server that tells senders other rosters; change(requests [n, m], receivers)."""

    def rewrite(payload: Bytes, senders: Ints, receivers: Ints) -> Bytes:
        return change(payload, receivers) if payload.ndim == 2 and (senders == SERVER).all() else payload

    return rewritten(Phase.ROSTERS, rewrite)


def test_a_server_that_asks_for_both_secrets_gets_nothing() -> None:
    """In the run itself: every sender refuses, no share is handed in, and the record says why."""

    def both(asked: Bytes, _: Ints) -> Bytes:
        asked[:, 2] = 3
        return asked

    directory, group = circle(5, split=False)
    channel = Channel(directory, SimulationCoins(0), Recording.everything(), tamper=by_parts(roster_from_server(both)))
    with pytest.raises(ProtocolError, match="must vote for the roster; found 0"):
        FIVE.open(channel, group, 2, 50).sum(rows_of(5), NOW)
    assert incidents(channel).count("found one for both of sender 2") == 5
    assert not any(batch.phase is Phase.UNMASKING for batch in channel.transcript.messages)


def dropped_for(some: list[int]) -> Tamper:
    """A server that tells some senders that the last one dropped out, and the others that it did not."""

    def change(asked: Bytes, receivers: Ints) -> Bytes:
        asked[np.isin(receivers, SENDERS[some]), 4] = Ask.MASK_KEY
        return asked

    return roster_from_server(change)


def test_two_rosters_are_found_out() -> None:
    """Told two rosters, two and three of five find no four votes for theirs, and nobody hands in a share."""
    with pytest.raises(ProtocolError, match="at least threshold = 4 of 5 senders must agree on one roster; found 0"):
        summed(FIVE, 5, tamper=dropped_for([0, 1]))


def test_a_majority_with_one_roster_goes_on() -> None:
    """Told another roster than the four others, one sender refuses: the sum is right and the lie is on record."""
    total, channel = summed(FIVE, 5, tamper=dropped_for([1]))
    assert total == total_of(rows_of(5))
    assert "refuses shares: 1 votes for its roster, 4 needed" in incidents(channel)
    given_in = [b for b in channel.transcript.messages if b.phase is Phase.UNMASKING]
    assert sum(len(b.senders) for b in given_in) == 4


def forged(which: list[int]) -> Tamper:
    """Some senders' votes, changed."""

    def rewrite(payload: Bytes, senders: Ints, _: Ints) -> Bytes:
        payload[np.isin(senders, SENDERS[which]), ..., -1] ^= payload.ndim == 3
        return payload

    return rewritten(Phase.ROSTERS, rewrite)


def test_forged_votes_do_not_count() -> None:
    """With one forger of five all others still find four votes; with two nobody does."""
    total, channel = summed(FIVE, 5, tamper=forged([3]))
    assert total == total_of(rows_of(5))
    assert incidents(channel).count("silo 3: its vote for a roster is not what") == 4
    with pytest.raises(ProtocolError, match="must agree on one roster; found 2 in round 1"):
        summed(FIVE, 5, tamper=forged([0, 3]))


def replaying(phase: Phase, first: Step, second: Step) -> Tamper:
    """Senders put into a step what they said in an earlier one."""
    kept: list[NDArray[Any]] = []

    def tamper(now: Phase, step: Step, senders: Ints, _: Ints, payload: NDArray[Any]) -> Tampered | None:
        if now is not phase or not payload.size:
            return None
        if step == first:
            kept.append(payload.copy())
        old = kept.pop(0) if step == second else payload
        return Tampered.of_payload(np.arange(len(senders)), old)

    return tamper


@pytest.mark.parametrize(
    ("phase", "message"),
    [
        (Phase.ROSTERS, "must agree on one roster; found 0"),
        (Phase.SECRET_SHARES, "shares are needed to unmask|must"),
        (Phase.UNMASKING, "opened shares must hold a seed|shares must be wrong for at most"),
    ],
)
def test_replays_from_another_step_are_refused(phase: Phase, message: str) -> None:
    """Votes, sealed shares and opened shares of step 1 are worth nothing in step 2."""
    directory, group = circle(5, split=False)
    tamper = replaying(phase, Step(1), Step(2))
    session = FIVE.open(Channel(directory, SimulationCoins(0), tamper=by_parts(tamper)), group, 2, 50)
    rows = rows_of(5)
    assert session.sum(rows, Step(1)).tolist() == total_of(rows)
    if phase is Phase.UNMASKING:  # well-formed seeds of another step: another mask, which is no right sum
        assert session.sum(rows, Step(2)).tolist() != total_of(rows)
        return
    with pytest.raises(ProtocolError, match=message):
        session.sum(rows, Step(2))


LOW_ORDER = (bytes(32), bytes([1, *bytes(31)]), bytes([0xEC, *[0xFF] * 30, 0x7F]))


@pytest.mark.parametrize("point", LOW_ORDER, ids=["zero", "one", "p - 1"])
@pytest.mark.parametrize("at", [Step(0), NOW], ids=["session", "step"])
def test_a_key_of_low_order_is_left_out(point: bytes, at: Step) -> None:
    """A sender whose key everybody would share a secret with does not take part; the others do."""

    def rewrite(payload: Bytes, senders: Ints, receivers: Ints) -> Bytes:
        if payload.shape[1:] == (32,):
            payload[(senders == SENDERS[1]) & (receivers == SERVER)] = np.frombuffer(point, dtype=np.uint8)
        return payload

    total, channel = summed(FIVE, 5, tamper=rewritten(Phase.KEYS, rewrite, at))
    assert total == total_of(rows_of(5), (1,))
    assert "silo 1: its public key is a point of low order: left out" in incidents(channel)


@pytest.mark.parametrize("at", [Step(0), NOW], ids=["session", "step"])
def test_a_server_that_swaps_in_a_key_of_low_order_is_noticed(at: Step) -> None:
    """A sender that is told such a key for a neighbour takes no part, and says so; with too many of them all stops."""

    def swapped(which: list[int]) -> Tamper:
        def rewrite(payload: Bytes, _: Ints, receivers: Ints) -> Bytes:
            if payload.ndim == 3:
                payload[np.isin(receivers, SENDERS[which]), 1, 1:] = 0
            return payload

        return rewritten(Phase.KEYS, rewrite, at)

    total, channel = summed(FIVE, 5, tamper=swapped([3]))
    assert total == total_of(rows_of(5), (3,))
    assert "silo 3: takes no part: other must not be a public key of low order" in incidents(channel)
    with pytest.raises(ProtocolError, match="at least threshold = 4 of 5 senders must"):
        summed(FIVE, 5, tamper=swapped([0, 3]))


def test_a_server_that_swaps_keys_spoils_the_sum() -> None:
    """Senders use the keys that they are told: told others than are published, their masks do not cancel."""

    def rewrite(payload: Bytes, _: Ints, receivers: Ints) -> Bytes:
        if payload.ndim == 3:
            payload[receivers == SENDERS[3], 1, 1] ^= 1
        return payload

    assert summed(FIVE, 5, tamper=rewritten(Phase.KEYS, rewrite))[0] != total_of(rows_of(5))


def test_a_vector_outside_the_field_is_left_out() -> None:
    """Values that are no elements drop their sender from the sum, and the record says why."""

    def rewrite(payload: Ints, senders: Ints, _: Ints) -> Ints:
        payload[senders == SENDERS[2]] = -1
        return payload

    total, channel = summed(FIVE, 5, tamper=rewritten(Phase.MASKED_VECTORS, rewrite))
    assert total == total_of(rows_of(5), (2,))
    assert "silo 2: its vector holds other values than elements" in incidents(channel)


def test_a_vector_of_another_length_is_left_out() -> None:
    """Somebody who sends one coordinate too few is dropped; the sum is that of the others."""

    def rewrite(payload: Ints, senders: Ints, _: Ints) -> Ints:
        return payload[:, :1] if senders[0] == SENDERS[2] else payload

    total, channel = summed(FIVE, 5, tamper=rewritten(Phase.MASKED_VECTORS, rewrite))
    assert total == total_of(rows_of(5), (2,))
    assert "silo 2: a message (masked vectors) has another shape" in incidents(channel)


@pytest.mark.parametrize("phase", [Phase.KEYS, Phase.SECRET_SHARES, Phase.ROSTERS, Phase.UNMASKING])
def test_messages_of_another_length_stop_the_step(phase: Phase) -> None:
    """Keys, shares and votes that are all one entry short are not there: too few are left, and the error says so."""
    with pytest.raises(ProtocolError, match=r"at least threshold = 4 of 5 senders must .*; found 0"):
        summed(FIVE, 5, tamper=rewritten(phase, lambda payload, _, __: payload[..., :-1]))


def test_a_wrong_share_is_corrected_where_there_are_enough() -> None:
    """With three needed of five, one wrong answer is corrected; with four needed it is noticed."""

    def rewrite(payload: Ints, senders: Ints, _: Ints) -> Ints:
        payload[senders == SENDERS[0]] ^= 1
        return payload

    tamper = rewritten(Phase.UNMASKING, rewrite)
    assert summed(PairwiseMasking(3), 5, tamper=tamper)[0] == total_of(rows_of(5))
    with pytest.raises(ProtocolError, match="shares must be wrong for at most"):
        summed(FIVE, 5, tamper=tamper)


def test_shares_for_somebody_else_do_not_open() -> None:
    """Sealed shares that the server gives to the wrong sender are refused, and so is a sum that needs them."""

    def rewrite(payload: Bytes, senders: Ints, _: Ints) -> Bytes:
        if (senders == SERVER).all():
            payload[[0, 1]] = payload[[1, 0]]
        return payload

    total, channel = summed(PairwiseMasking(3), 5, tamper=rewritten(Phase.SECRET_SHARES, rewrite))
    assert total == total_of(rows_of(5))
    assert incidents(channel).count("must be sealed for") == 8


def test_a_mask_key_that_is_not_the_published_one_is_refused() -> None:
    """A sender that publishes another key than it shares, and drops out, is named."""
    other = np.frombuffer(bytes([9, *bytes(31)]), dtype=np.uint8)

    def rewrite(payload: Bytes, senders: Ints, _: Ints) -> Bytes:
        if payload.ndim == 2:
            payload[senders == SENDERS[4]] = other
        return payload

    with pytest.raises(ProtocolError, match="sender 5 must share the mask key that it published"):
        summed(FIVE, 5, tamper=rewritten(Phase.KEYS, rewrite), loss=silent(SENDERS, {4: 3}))


@pytest.mark.parametrize("said", [0, 1])
def test_a_receiver_refuses_a_roster_below_the_threshold(said: int) -> None:
    """Told of fewer senders than the threshold, or of none, the receiver decodes nothing."""
    receiver = circle(5, split=True)[1].receiver

    def rewrite(payload: Bytes, _: Ints, receivers: Ints) -> Bytes:
        if (receivers == receiver).all():
            payload[..., said:] = 0
        return payload

    with pytest.raises(ProtocolError, match=f"at least threshold = 4 senders; silo 5 found {said}"):
        summed(FIVE, 5, split=True, tamper=rewritten(Phase.ROSTERS, rewrite))


def test_a_receiver_refuses_what_is_no_sum() -> None:
    """A masked sum with values outside the field raises."""
    with pytest.raises(ProtocolError, match="a masked sum must hold elements of the field; silo 5 found others"):
        summed(FIVE, 5, split=True, tamper=rewritten(Phase.MASKED_SUMS, lambda payload, _, __: payload * 0 - 1))


def fuzzing(seed: int) -> tuple[Tamper, list[int]]:
    """One kind of message of one step comes garbled: cut, repeated, swapped, of another type, or with wrong bytes."""
    random, count = np.random.default_rng(seed), [0]
    phases = [Phase.KEYS, Phase.SECRET_SHARES, Phase.MASKED_VECTORS, Phase.ROSTERS, Phase.UNMASKING, Phase.MASKED_SUMS]
    target, way = phases[seed % 6], int(random.integers(6))
    who = random.integers(2, size=8)

    def tamper(phase: Phase, _: Step, senders: Ints, __: Ints, payload: NDArray[Any]) -> Tampered | None:
        if phase is not target or not len(senders) or not payload.size:
            return None
        rows, said = np.arange(len(senders)), payload.copy()
        count[0] += len(senders)
        if way == 0:
            noise = random.integers(0, 256, said.nbytes, dtype=np.uint8).view(said.dtype).reshape(said.shape)
            said = np.where(who[rows % 8].reshape(-1, *[1] * (said.ndim - 1)) > 0, noise, said)
        elif way == 1:
            said.view(np.uint8).reshape(-1)[random.integers(said.nbytes)] ^= 1 << random.integers(8)
        elif way == 2:
            rows = random.integers(0, len(senders), 2 * len(senders))
            said = said[rows]
        elif way == 3:
            said = said[random.permutation(len(senders))]
        elif way == 4:
            said = said.astype(np.float64) if random.integers(2) else said[..., :-1]
        else:
            return Tampered.of_payload(rows, said, random.integers(0, 100, len(rows)), by_network=True)
        return Tampered.of_payload(rows, said)

    return tamper, count


GARBLED = 2_000


def test_garbled_messages_cause_typed_errors_only() -> None:
    """Whatever arrives, a sum is returned or an error of this package raised; some runs go on and some stop."""
    garbled = returned = raised = seed = 0
    while garbled < GARBLED:
        tamper, count = fuzzing(seed)
        try:
            summed(PairwiseMasking(3), 4, split=bool(seed % 2), tamper=tamper)
            returned += 1
        except FglSecureError:
            raised += 1
        seed, garbled = seed + 1, garbled + count[0]
    assert returned > 20
    assert raised > 20
