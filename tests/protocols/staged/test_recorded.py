"""Staged sums whose messages pass over a channel: what is recorded, lost and garbled."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import TooFewClientsError
from fgl_secure.protocols.staged.interface import SESSION_BYTES, SumTerms
from fgl_secure.protocols.staged.recorded import run_recorded
from fgl_secure.protocols.staged.registry import STAGED
from fgl_secure.runtime import Channel, Directory, Phase, Recording, Role, Step
from fgl_secure.runtime.channel import Loss, Tamper, Tampered
from tests.hostile import by_parts

Ints = NDArray[np.int64]

CLIENTS = 5
ROWS = np.arange(CLIENTS * 3, dtype=np.int64).reshape(CLIENTS, 3) - 4
TERMS = SumTerms(bytes(SESSION_BYTES), 0, CLIENTS, 4, 3, 20)
PARTIES = Directory.hierarchy(CLIENTS, 1)
SILOS, SERVER = PARTIES.ids(Role.SILO), int(PARTIES.ids(Role.SERVER)[0])


def summed(name: str, loss: Loss | None = None, tamper: Tamper | None = None) -> tuple[list[int], Channel]:
    """The sum of ROWS under a scheme, and the channel that it went over."""
    channel = Channel(PARTIES, SimulationCoins(0), Recording.everything(), loss, by_parts(tamper))
    total = run_recorded(STAGED[name](4), TERMS, ROWS, channel, SILOS, SERVER, Step(0))
    return total.tolist(), channel


@pytest.mark.parametrize("name", STAGED)
def test_the_sum_is_exact_and_every_message_recorded(name: str) -> None:
    """All vectors are in the sum, and clients hear and say as much as the record has."""
    total, channel = summed(name)
    assert total == ROWS.sum(axis=0).tolist()
    ends = [(int(batch.senders[0]), int(batch.receivers[0])) for batch in channel.transcript.messages]
    assert set(ends) == {(SERVER, silo) for silo in SILOS.tolist()} | {(silo, SERVER) for silo in SILOS.tolist()}


@pytest.mark.parametrize("name", STAGED)
def test_who_misses_a_message_or_garbles_one_drops_out(name: str) -> None:
    """A vector that is lost, or arrives with its last byte gone, is left out, and the sum of the others is exact."""
    gone = int(SILOS[2])

    def lost(phase: Phase, _: Step, senders: Ints, __: Ints) -> NDArray[np.bool_]:
        return np.asarray((senders != gone) | (phase is not Phase.MASKED_VECTORS))

    def cut(phase: Phase, _: Step, senders: Ints, __: Ints, payload: NDArray[np.uint8]) -> Tampered | None:
        if phase is not Phase.MASKED_VECTORS or int(senders[0]) != gone:
            return None
        return Tampered.of_payload(np.arange(len(senders)), payload[:, :-1].copy())

    expected = np.delete(ROWS, 2, axis=0).sum(axis=0).tolist()
    assert summed(name, lost)[0] == expected
    assert summed(name, tamper=cut)[0] == expected


def test_one_below_the_threshold_stops() -> None:
    """With two vectors lost three of the four that are needed are left, and the error says so."""

    def lost(phase: Phase, _: Step, senders: Ints, __: Ints) -> NDArray[np.bool_]:
        return ~np.isin(senders, SILOS[:2]) | (phase is not Phase.MASKED_VECTORS)

    with pytest.raises(TooFewClientsError, match="4"):
        summed("pairwise-masking", lost)
