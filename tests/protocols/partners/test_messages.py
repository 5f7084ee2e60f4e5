"""What devices refuse while they agree on partners, and that a refused message changes nothing."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import MalformedMessageError, ProtocolError
from fgl_secure.protocols.partners import agree
from fgl_secure.protocols.partners.machine import PartnerDevices
from fgl_secure.protocols.topology import REACH, ROUNDS, TRIES, Circuits, Partnering
from fgl_secure.runtime import Channel, Messages, OwnDraws, Phase, Step
from fgl_secure.runtime.machine import SETUP
from tests.error_codes import about
from tests.protocols.partners.graphs import channel_of, grouping_of

PAIRS = {(0, 1), (1, 2)}
ONE = np.ones(1, dtype=np.int64)
BYTE = ONE.astype(np.uint8)
FAR, NOBODYS = ({"ticket": ONE, "left": (REACH + n) * BYTE, "name": name} for n, name in ((1, ONE), (0, -ONE)))
CHOSEN = 2 + ROUNDS + TRIES * 2 * (REACH + 1)
"""Turns until partners are chosen."""
Flags = NDArray[np.bool_]
Ids = NDArray[np.int64]


def middle(turns: int) -> tuple[PartnerDevices, int]:
    """The device between two others after so many turns, alone in its process, and its identifier."""
    _, grouping = grouping_of(PAIRS, 3)
    own = int(grouping.row_owner[1])
    machine = PartnerDevices(np.array([own]), grouping, Partnering(3, 3), OwnDraws(SimulationCoins(0)))
    for _ in range(turns):
        list(machine.step())
    return machine, own


def numbers() -> dict[str, Any]:
    """What is told first."""
    return {"number": 5 * ONE, "name": 6 * ONE}


@pytest.mark.parametrize(
    ("turns", "phase", "sender", "step", "fields", "message"),
    [
        (1, Phase.PARTNERS, 1, Step(0), numbers(), "messages between devices"),
        (1, Phase.PARTNERS, -1, Step(1), numbers(), "partners"),
        (1, Phase.TAGS, -1, SETUP, numbers(), "messages"),
        (0, Phase.PARTNERS, -1, SETUP, numbers(), "numbers"),
        (1, Phase.PARTNERS, -1, SETUP, {"number": -ONE, "name": ONE}, "numbers"),
        (1, Phase.PARTNERS, -1, SETUP, {"number": ONE.astype(np.int32), "name": ONE}, "field number"),
        (1, Phase.PARTNERS, -1, SETUP, {"number": ONE}, "message of partner choices"),
        (1, Phase.PARTNERS, -1, SETUP, {"wish": BYTE}, "wishes"),
        (3, Phase.PARTNERS, -1, SETUP, {"wish": 3 * BYTE}, "wishes"),
        (3, Phase.PARTNERS, -1, SETUP, numbers(), "numbers"),
        (3, Phase.REQUESTS, -1, SETUP, {"ticket": ONE, "found": ONE}, "requests"),
        (ROUNDS + 2, Phase.REQUESTS, -1, SETUP, FAR, "requests"),
        (ROUNDS + 2, Phase.PARTNERS, -1, SETUP, {"enough": BYTE}, "partners"),
        (CHOSEN, Phase.PARTNERS, -1, SETUP, {"enough": 2 * BYTE}, "partners"),
        (CHOSEN, Phase.PARTNERS, -1, SETUP, {"enough": BYTE}, "devices"),
        (CHOSEN, Phase.REQUESTS, -1, SETUP, {"enough": BYTE}, "message of partner requests"),
        (ROUNDS + 2, Phase.REQUESTS, -1, SETUP, NOBODYS, "requests"),
    ],
)
def test_what_is_no_message_of_a_neighbour_is_refused(
    turns: int, phase: Phase, sender: int, step: Step, fields: Mapping[str, Any], message: str
) -> None:
    """Each is refused with a reason, and the device is as it was."""
    machine, own = middle(turns)
    before = machine.state()
    kept = {name: value.copy() for name, value in before.items()}
    sent = Messages(phase, step, np.array([own + (2 if sender == 1 else -1)]), np.array([own]), fields)
    with pytest.raises(ProtocolError, check=about(message)):
        machine.receive(sent)
    assert all(np.array_equal(kept[name], value) for name, value in machine.state().items())


def test_a_state_of_something_else_is_refused() -> None:
    """A state without its parts, or of other devices."""
    machine, _ = middle(3)
    with pytest.raises(MalformedMessageError, check=about("state")):
        machine.restore({})
    with pytest.raises(MalformedMessageError, check=about("state")):
        machine.restore({**machine.state(), "names": np.zeros(2, dtype=np.int64)})


def test_messages_that_are_lost_leave_no_partner_behind() -> None:
    """Whose numbers don't arrive is nobody's partner; answers that don't arrive fill no group."""
    pairs = {(n, n + 1) for n in range(9)}
    parties, grouping = grouping_of(pairs, 10)
    gone = int(grouping.row_owner[4])

    def without_one(_phase: Phase, _step: Step, senders: Ids, receivers: Ids) -> Flags:
        kept: Flags = (senders != gone) & (receivers != gone)
        return kept

    def without_requests(phase: Phase, _step: Step, senders: Ids, _receivers: Ids) -> Flags:
        return np.full(len(senders), phase is not Phase.REQUESTS)

    channel = Channel(parties, SimulationCoins(1), loss=without_one)
    partners = agree(grouping, Partnering(4, 3), channel)
    counts = np.bincount(partners.grouping.target, minlength=10)
    assert counts[4] == 0
    assert (counts[[0, 9]] > 0).all()
    assert gone not in partners.circuits.ends[:2]
    lost = Channel(parties, SimulationCoins(1), loss=without_requests)
    assert not len(agree(grouping, Partnering(4, 3), lost).circuits.table)


class _Deaf(PartnerDevices):
    """The first device does not hear in the end what its first partner says."""

    def _receive_reports(self, messages: Messages) -> None:
        (owner, *_), (other, *_) = self.tallies.owners, self.tallies.others
        super()._receive_reports(messages.rows((messages.receivers != owner) | (messages.senders != other)))


def test_whose_tally_is_lost_is_no_partner_and_counts_nowhere() -> None:
    """Of three that know one another and want two partners each, two have one left and no sum; the third has one."""
    parties, grouping = grouping_of({(0, 1), (1, 2), (0, 2)}, 3)
    whole, found = (agree(grouping, Partnering(2, 2), channel_of(parties), each) for each in (PartnerDevices, _Deaf))
    assert whole.grouping.forward.sum() == whole.grouping.backward.sum() == 6
    g = found.grouping
    assert sorted(zip(g.source.tolist(), g.target.tolist(), strict=True)) == [(0, 2), (1, 2), (2, 0), (2, 1)]
    assert g.target[g.forward].tolist() == [2, 2]
    assert not g.backward.any()


def test_what_is_handed_on_comes_along_a_known_way() -> None:
    """The next device on a way, from either end; nobody else may send on it."""
    paths = {70: [-1, 4, 5, 6, -1], 30: [-1, 6, 7, 8, 9, -1]}
    known = [
        [path[n], ticket, path[n - 1], path[n + 1], -1]
        for ticket, path in paths.items()
        for n in range(1, len(path) - 1)
    ]
    ways = Circuits(np.array(known), 2)
    tickets, senders, receivers = np.array([70, 70, 70, 30, 30]), np.array([4, 5, 6, 6, 8]), np.array([5, 6, 5, 7, 9])
    assert ways.onward(tickets, senders, receivers).tolist() == [6, -1, 4, 8, -1]
    for ticket, sender, receiver in ((71, 4, 5), (70, 4, 6), (30, 4, 5), (70, -1, 6), (70, 6, 4)):
        with pytest.raises(MalformedMessageError, check=about("what is handed on")):
            ways.onward(*(np.array([each]) for each in (ticket, sender, receiver)))
    nothing = np.empty(0, dtype=np.int64)
    assert Circuits().onward(nothing, nothing, nothing).tolist() == []
    with pytest.raises(MalformedMessageError, check=about("what is handed on")):
        Circuits().onward(*(np.array([each]) for each in (1, 2, 3)))


def test_nothing_secret_is_in_a_repr() -> None:
    """Numbers and names stay out of what is printed."""
    parties, grouping = grouping_of(PAIRS, 3)
    machine = PartnerDevices(grouping.owners, grouping, Partnering(3, 1), channel_of(parties))
    list(machine.step())
    shown = repr(machine) + repr(machine.links) + repr(machine.requests)
    assert not any(str(number) in shown for number in machine.links.own_numbers.tolist())
