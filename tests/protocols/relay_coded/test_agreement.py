"""Relays answer only together: one that hears too few others, or that would count otherwise than they, stays silent."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fgl_secure.protocols.relay_coded import Profile, RelayCoded
from fgl_secure.protocols.relay_coded.relays import AGREED_ROWS
from fgl_secure.runtime import PAYLOAD, Messages, Phase, Role, Step, Tampered
from fgl_secure.runtime.channel import Loss, Tamper
from tests.protocols.conformance import ideal
from tests.protocols.relay_coded.test_faults import IDEAL, STEP, VALUES, Ids, Outcome, meshed, run, without

SCHEME = RelayCoded(bound=16.0, k_min=1, T=1, R=3, profile=Profile.SHOWN)
DEVICES, RELAYS = (meshed(3).directory.ids(role).tolist() for role in (Role.DEVICE, Role.RELAY))


def unheard(field: str, receiver: int, senders: tuple[int, ...]) -> Tamper:
    """A network on which what some relays say of what they hold never reaches another one."""

    def tamper(messages: Messages) -> Tampered | None:
        if messages.phase is not Phase.ROSTERS or messages.step != STEP or field not in messages.fields:
            return None
        gone = np.isin(messages.senders, senders) & (messages.receivers == receiver)
        rows = np.flatnonzero(~gone)
        return Tampered(rows, {name: value[rows] for name, value in messages.fields.items()})

    return tamper


def never_arriving(sender: int, receiver: int) -> Loss:
    """A network on which no message of a device reaches a relay, however often it is sent."""

    def arrives(phase: Phase, step: Step, senders: Ids, receivers: Ids) -> NDArray[np.bool_]:
        carries = step == STEP and phase in (Phase.SHARE_HEADERS, Phase.SHARES)
        gone: NDArray[np.bool_] = (senders == sender) & (receivers == receiver)
        return ~gone | (not carries)

    return arrives


def answering(end: Outcome) -> set[int]:
    """The relays that answer anybody in the step that is interfered with."""
    answers = (Phase.COUNTS, Phase.SHARE_SUMS, Phase.SEALED)
    said = [b.senders for b in end.transcript.messages if b.step == STEP and b.phase in answers]
    return {party for senders in said for party in np.unique(senders).tolist()} & set(RELAYS)


def test_a_relay_that_hears_nobody_gives_no_answers() -> None:
    """Of three relays the last hears no other's digest: it can't know what they count. The other two serve all."""
    end = run(SCHEME, tamper=unheard(PAYLOAD, RELAYS[2], (RELAYS[0], RELAYS[1])))
    assert answering(end) == set(RELAYS[:2])
    assert end.sums is not None
    assert np.allclose(end.sums, IDEAL, atol=1e-4)
    assert "relay 2: the relay hears of too few others, and gives no answers in this step" in end.incidents


def test_a_relay_that_would_count_otherwise_gives_no_answers() -> None:
    """A device's messages never reach the last relay, and the second relay doesn't hear that: it would count them.

    With answers for two sets of messages the target of a sum could tell one sender's row by their difference.
    """
    end = run(SCHEME, never_arriving(DEVICES[0], RELAYS[2]), unheard(AGREED_ROWS, RELAYS[1], (RELAYS[2],)))
    assert answering(end) == {RELAYS[0], RELAYS[2]}
    assert end.sums is not None
    assert np.allclose(end.sums, ideal(meshed(3).grouping, without(VALUES, {0})), atol=1e-4)
    assert "relay 1: the relay does not agree with the others on what counts" in end.incidents
