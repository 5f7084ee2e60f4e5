"""Senders of LightSecAgg that vanish: at every stage, in every small pattern, down to the threshold and one below."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import ProtocolError
from fgl_secure.protocols.lightsecagg import LightSecAgg
from fgl_secure.protocols.masking.rules import MaskOrigin
from fgl_secure.runtime import Channel, Phase, Step
from tests.protocols.lightsecagg_cases import STAGES, summed
from tests.protocols.masking_cases import IN_THE_SUM, NOW, rows_of, silent
from tests.protocols.vector_conformance import circle, total_of

Ints = NDArray[np.int64]

THREE = LightSecAgg(3)
"""Three of five must be left."""
IDEAL = LightSecAgg(3, masks=MaskOrigin.DRAWN)
SENDERS = circle(5, split=False)[1].senders


def left_out(stages: dict[int, int]) -> tuple[int, ...]:
    """Whose vectors are not in the sum."""
    return tuple(u for u, stage in stages.items() if stage < IN_THE_SUM)


@pytest.mark.parametrize(
    ("scheme", "deaf", "split", "most"),
    [
        (THREE, False, False, 1), (IDEAL, False, False, 2), (IDEAL, True, False, 1), (IDEAL, False, True, 1),
        (THREE, True, False, 1), (THREE, False, True, 1), (THREE, True, True, 1),
    ],
    ids=[
        "sealed, silent", "ideal, silent", "ideal, deaf", "ideal, forwarded", "sealed, deaf", "sealed, forwarded",
        "sealed, deaf, forwarded",
    ],
)  # fmt: skip
def test_any_two_of_five_may_vanish_at_any_stages(scheme: LightSecAgg, deaf: bool, split: bool, most: int) -> None:
    """Whichever one or two fall silent, or hear nothing more, at whichever stages: the sum of the others is exact."""
    rows = rows_of(5, 3)
    for who in [some for size in range(1, most + 1) for some in itertools.combinations(range(5), size)]:
        for when in itertools.product(STAGES, repeat=len(who)):
            stages = dict(zip(who, when, strict=True))
            total, _ = summed(scheme, 5, split=split, loss=silent(SENDERS, stages, deaf))
            # who is deaf to the roster has sent its vector, and who hears no coded masks sends none
            expected = left_out({u: stage + (deaf and stage == 3) for u, stage in stages.items()})
            assert total == total_of(rows, expected), stages


WORDS = {
    0: "exchange keys for the session",
    2: "share their coded masks",
    3: "send their vectors",
    4: "vote for the roster",
    5: "hand in their sums of coded masks",
}


@pytest.mark.parametrize("stage", STAGES)
def test_three_of_five_may_not(stage: int) -> None:
    """One below the threshold the step stops at that stage, and the message has the numbers: 3 needed, 2 found."""
    message = f"at least threshold = 3 of 5 senders must {WORDS[stage]}; found 2 in round 1"
    for who in itertools.combinations(range(5), 3):
        with pytest.raises(ProtocolError, match=message):
            summed(IDEAL if stage not in (0, 4) else THREE, 5, loss=silent(SENDERS, dict.fromkeys(who, stage)))


def test_a_sender_that_was_gone_may_come_back() -> None:
    """Masks are fresh in every step, so who dropped out of one takes part in the next, and the session goes on."""
    directory, group = circle(5, split=True)

    def arrives(phase: Phase, step: Step, senders: Ints, _: Ints) -> NDArray[np.bool_]:
        return np.asarray((step.round != 2) | (phase is not Phase.MASKED_VECTORS) | (senders != group.senders[1]))

    session = THREE.open(Channel(directory, SimulationCoins(0), loss=arrives), group, 2, 50)
    rows = rows_of(5)
    expected = [total_of(rows), total_of(rows, (1,)), total_of(rows)]
    assert [session.sum(rows, Step(r)).tolist() for r in (1, 2, 3)] == expected


def test_a_step_that_stopped_is_used_up() -> None:
    """After too few were left the step is refused, for its masks were used; another step goes on."""
    directory, group = circle(5, split=False)

    def arrives(phase: Phase, step: Step, senders: Ints, _: Ints) -> NDArray[np.bool_]:
        return np.asarray((step != NOW) | (phase is not Phase.UNMASKING) | (senders > group.senders[2]))

    session = THREE.open(Channel(directory, SimulationCoins(0), loss=arrives), group, 2, 50)
    for message in ("must hand in their sums", "a step must be summed once"):
        with pytest.raises(ProtocolError, match=message):
            session.sum(rows_of(5), NOW)
    assert session.sum(rows_of(5), Step(2)).tolist() == total_of(rows_of(5))


def test_a_failed_set_up_is_tried_again() -> None:
    """When too few keys arrive no mask was used: the same step may be summed once they do."""
    directory, group = circle(5, split=False)
    lossy = [True]

    def arrives(_: Phase, step: Step, senders: Ints, __: Ints) -> NDArray[np.bool_]:
        return np.asarray((senders < group.senders[2]) | (not lossy[0] or step != Step(0)))

    session = THREE.open(Channel(directory, SimulationCoins(0), loss=arrives), group, 2, 50)
    with pytest.raises(ProtocolError, match="exchange keys for the session; found"):
        session.sum(rows_of(5), NOW)
    lossy[0] = False
    assert session.sum(rows_of(5), NOW).tolist() == total_of(rows_of(5))


@given(st.data())
@settings(max_examples=4)
def test_a_third_of_fifty_may_vanish_at_any_stages(data: st.DataObject) -> None:
    """Of fifty senders sixteen fall silent, each at a stage of its own: the sum of the others is exact."""
    stages = {u: data.draw(st.sampled_from(STAGES)) for u in data.draw(st.permutations(range(50)))[:16]}
    ids = circle(50, split=False)[1].senders
    total, _ = summed(LightSecAgg(masks=MaskOrigin.DRAWN), 50, loss=silent(ids, stages))
    assert total == total_of(rows_of(50, 3), left_out(stages))


def test_seventeen_of_fifty_may_not() -> None:
    """One more, whatever the stages, stops the step with the numbers."""
    ids, stages = circle(50, split=False)[1].senders, {3 * k: STAGES[k % 5] for k in range(17)}
    with pytest.raises(ProtocolError, match=r"at least threshold = 34 of 50 senders must .*; found 33"):
        summed(LightSecAgg(masks=MaskOrigin.DRAWN), 50, loss=silent(ids, stages))


@pytest.mark.parametrize("phase", [Phase.KEYS, Phase.ROSTERS, Phase.MASKED_SUMS])
def test_a_receiver_that_is_cut_off_is_named(phase: Phase) -> None:
    """Without its keys, the roster or the masked sum the receiver cannot go on, and the message says who it is."""
    receiver = circle(5, split=True)[1].receiver

    def arrives(now: Phase, _: Step, __: Ints, receivers: Ints) -> NDArray[np.bool_]:
        return np.asarray((receivers != receiver) | (now is not phase))

    with pytest.raises(ProtocolError, match="silo 5"):
        summed(THREE, 5, split=True, loss=arrives)
