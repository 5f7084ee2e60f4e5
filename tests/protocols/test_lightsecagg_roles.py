"""What senders of LightSecAgg refuse, and what becomes of messages that are forged, swapped, replayed or malformed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import FglSecureError, ProtocolError
from fgl_secure.protocols.lightsecagg import LightSecAgg
from fgl_secure.protocols.masking.rules import MaskOrigin
from fgl_secure.runtime import Channel, Phase, Step
from fgl_secure.runtime.channel import Tamper
from tests.protocols.lightsecagg_cases import summed
from tests.protocols.masking_cases import NOW, incidents, rewritten, rows_of, silent
from tests.protocols.test_pairwise_masking_roles import forged, fuzzing, replaying
from tests.protocols.vector_conformance import circle, total_of

Ints = NDArray[np.int64]

FIVE = LightSecAgg()
"""U = 4 of five, T = 1."""
THREE = LightSecAgg(3)
SENDERS, SERVER = circle(5, split=False)[1].senders, 0
ROWS = rows_of(5, 3)


def last_out(some: list[int], said: int = 0) -> Tamper:
    """A server that tells some senders that the last one dropped out, or something else than 0 or 1."""

    def rewrite(payload: Ints, senders: Ints, receivers: Ints) -> Ints:
        if payload.ndim == 2 and (senders == SERVER).all():
            payload[np.isin(receivers, SENDERS[some]), 4] = said
        return payload

    return rewritten(Phase.ROSTERS, rewrite)


def test_two_rosters_are_found_out() -> None:
    """Told two rosters, two and three of five find no four votes for theirs, and nobody opens a sum."""
    with pytest.raises(ProtocolError, match="at least threshold = 4 of 5 senders must agree on one roster; found 0"):
        summed(FIVE, 5, tamper=last_out([0, 1]))


@pytest.mark.parametrize(
    ("said", "why"),
    [(0, "silo 1: opens nothing: 1 votes for its roster, 4 needed"), (2, "silo 1: a roster must say 0 or 1")],
)
def test_a_majority_with_one_roster_goes_on(said: int, why: str) -> None:
    """Told another roster than the four others, a sender opens nothing: the sum is right, the lie on record."""
    total, channel = summed(FIVE, 5, tamper=last_out([1], said))
    assert total == total_of(ROWS)
    assert why in incidents(channel)
    assert sum(len(b.senders) for b in channel.transcript.messages if b.phase is Phase.UNMASKING) == 4


def test_forged_votes_do_not_count() -> None:
    """With one forger of five all others still find four votes; with two nobody does."""
    total, channel = summed(FIVE, 5, tamper=forged([3]))
    assert total == total_of(ROWS)
    assert incidents(channel).count("silo 3: its vote for a roster is not what") == 4
    with pytest.raises(ProtocolError, match="must agree on one roster; found 2 in round 1"):
        summed(FIVE, 5, tamper=forged([0, 3]))


@pytest.mark.parametrize(
    ("phase", "message"),
    [(Phase.ROSTERS, "must agree on one roster; found 0"), (Phase.SECRET_SHARES, "must send their vectors; found 0")],
)
def test_replays_from_another_step_are_refused(phase: Phase, message: str) -> None:
    """Votes and sealed coded masks of step 1 are worth nothing in step 2."""
    directory, group = circle(5, split=False)
    channel = Channel(directory, SimulationCoins(0), tamper=replaying(phase, Step(1), Step(2)))
    session = FIVE.open(channel, group, 3, 50)
    assert session.sum(ROWS, Step(1)).tolist() == total_of(ROWS)
    with pytest.raises(ProtocolError, match=message):
        session.sum(ROWS, Step(2))


def changed_sums(which: list[int], by: int = 1) -> Tamper:
    """Some senders' sums of coded masks, changed in one entry."""

    def rewrite(payload: Ints, senders: Ints, _: Ints) -> Ints:
        payload[np.isin(senders, SENDERS[which]), 0] += by
        return payload

    return rewritten(Phase.UNMASKING, rewrite)


@pytest.mark.parametrize("origin", MaskOrigin)
def test_wrong_sums_of_coded_masks_are_corrected_where_there_are_enough(origin: MaskOrigin) -> None:
    """With three needed of five a wrong answer is corrected and named; with four needed it is noticed."""
    total, channel = summed(LightSecAgg(3, masks=origin), 5, tamper=changed_sums([2]))
    assert total == total_of(ROWS)
    assert incidents(channel) == "silo 2: its sum of coded masks is wrong: corrected"
    with pytest.raises(ProtocolError, match="shares must be wrong for at most max_errors = 0"):
        summed(LightSecAgg(masks=origin), 5, tamper=changed_sums([2]))


def test_sums_outside_the_field_are_left_out() -> None:
    """Values that are no elements drop their sender from the opening; below the threshold the step stops."""
    total, channel = summed(FIVE, 5, tamper=changed_sums([2], -(2**62)))
    assert total == total_of(ROWS)
    assert "silo 2: its sum of coded masks holds other values than elements: left out" in incidents(channel)
    with pytest.raises(ProtocolError, match="must hand in their sums of coded masks; found 3"):
        summed(FIVE, 5, tamper=changed_sums([2, 4], -(2**62)))


def test_a_vector_outside_the_field_is_left_out() -> None:
    """Values that are no elements drop their sender from the sum, and the record says why."""

    def rewrite(payload: Ints, senders: Ints, _: Ints) -> Ints:
        payload[senders == SENDERS[2]] = -1
        return payload

    total, channel = summed(FIVE, 5, tamper=rewritten(Phase.MASKED_VECTORS, rewrite))
    assert total == total_of(ROWS, (2,))
    assert "silo 2: its vector holds other values than elements" in incidents(channel)


def test_coded_masks_for_somebody_else_do_not_open() -> None:
    """Boxes that the server gives to the wrong sender are refused, and both senders are lost to the sum."""

    def rewrite(payload: Ints, senders: Ints, _: Ints) -> Ints:
        if (senders == SERVER).all():
            payload[[0, 1]] = payload[[1, 0]]
        return payload

    total, channel = summed(THREE, 5, tamper=rewritten(Phase.SECRET_SHARES, rewrite))
    assert "must be sealed for" in incidents(channel)
    assert total in [total_of(ROWS), total_of(ROWS, (0, 1)), total_of(ROWS, (0,)), total_of(ROWS, (1,))]


def test_a_receiver_gets_sums_that_only_it_can_open() -> None:
    """Sealed for the receiver, a sum that the server swaps for another sender's is lost, and the record says so."""

    def rewrite(payload: Ints, senders: Ints, _: Ints) -> Ints:
        if (senders == SERVER).all():
            payload[[0, 1]] = payload[[1, 0]]
        return payload

    tamper = rewritten(Phase.UNMASKING, rewrite)
    total, channel = summed(THREE, 5, split=True, tamper=tamper)
    assert total == total_of(ROWS)
    assert incidents(channel).count("must be sealed for") == 2
    with pytest.raises(ProtocolError, match="must hand in their sums of coded masks; found 3"):
        summed(FIVE, 5, split=True, tamper=tamper)


@pytest.mark.parametrize("said", [0, 1])
def test_a_receiver_refuses_a_roster_below_the_threshold(said: int) -> None:
    """Told of fewer senders than the threshold, or of none, the receiver decodes nothing."""
    receiver = circle(5, split=True)[1].receiver

    def rewrite(payload: Ints, _: Ints, receivers: Ints) -> Ints:
        if (receivers == receiver).all():
            payload[..., said:] = 0
        return payload

    with pytest.raises(ProtocolError, match=f"at least threshold = 4 senders; silo 5 found {said}"):
        summed(FIVE, 5, split=True, tamper=rewritten(Phase.ROSTERS, rewrite))
    with pytest.raises(ProtocolError, match="a masked sum must hold elements of the field; silo 5 found others"):
        summed(FIVE, 5, split=True, tamper=rewritten(Phase.MASKED_SUMS, lambda payload, _, __: payload * 0 - 1))


@pytest.mark.parametrize("phase", [Phase.KEYS, Phase.SECRET_SHARES, Phase.ROSTERS, Phase.UNMASKING])
def test_messages_of_another_length_stop_the_step(phase: Phase) -> None:
    """Keys, boxes, votes and sums that are all one entry short are not there: the error says how few are left."""
    at = Step(0) if phase is Phase.KEYS else NOW
    with pytest.raises(ProtocolError, match=r"at least threshold = 4 of 5 senders must .*; found 0"):
        summed(FIVE, 5, tamper=rewritten(phase, lambda payload, _, __: payload[..., :-1], at))


def test_a_key_of_low_order_is_left_out() -> None:
    """A sender whose key everybody would share a secret with does not take part; the others do."""

    def rewrite(payload: Ints, senders: Ints, receivers: Ints) -> Ints:
        if payload.shape[1:] == (32,):
            payload[(senders == SENDERS[1]) & (receivers == SERVER)] = 0
        return payload

    total, channel = summed(FIVE, 5, tamper=rewritten(Phase.KEYS, rewrite, Step(0)))
    assert total == total_of(ROWS, (1,))
    assert "silo 1: its public key is a point of low order: left out" in incidents(channel)


def test_what_a_missing_box_costs() -> None:
    """A sender that lacks one coded mask sends its vector, cannot open a roster with its owner, and is in the sum."""

    def lost(phase: Phase, _: Step, senders: Ints, receivers: Ints) -> NDArray[np.bool_]:
        here = np.ones(len(senders), dtype=np.bool_)
        if phase is Phase.SECRET_SHARES and len(senders) == 4:  # the server forwards the boxes of one sender
            here[(receivers == SENDERS[0]) & (SENDERS[4] not in receivers)] = False
        return here

    total, channel = summed(FIVE, 5, loss=lost)
    assert total == total_of(ROWS)
    assert "silo 0: a roster must name those only whose coded masks arrived; found sender 4" in incidents(channel)


def test_garbled_messages_cause_typed_errors_only() -> None:
    """Whatever arrives, a sum is returned or an error of this package raised; some runs go on and some stop."""
    garbled = returned = raised = seed = 0
    while garbled < 600:
        tamper, count = fuzzing(seed)
        try:
            summed(THREE, 4, split=bool(seed % 2), tamper=tamper)
            returned += 1
        except FglSecureError:
            raised += 1
        seed, garbled = seed + 1, garbled + count[0]
    assert returned > 20
    assert raised > 20


def test_nobody_opens_a_step_twice() -> None:
    """A step whose opening failed cannot be opened again with another roster: its masks are used up."""
    directory, group = circle(5, split=False)
    session = FIVE.open(Channel(directory, SimulationCoins(0), loss=silent(group.senders, {0: 5, 1: 5})), group, 3, 50)
    with pytest.raises(ProtocolError, match="found 3"):
        session.sum(ROWS, NOW)
    with pytest.raises(ProtocolError, match="summed once"):
        session.sum(ROWS, NOW)


def test_secrets_do_not_show() -> None:
    """The links of a session print no key and no seed."""
    directory, group = circle(3, split=False)
    session: Any = FIVE.open(Channel(directory, SimulationCoins(0)), group, 1, 1)
    session.sum(np.ones((3, 1), dtype=np.int64), NOW)
    assert repr(session._links) == "SealedLinks(<secrets of 3 senders>)"
