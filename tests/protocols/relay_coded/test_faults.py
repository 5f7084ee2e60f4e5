"""What the relay-coded scheme does when parties fail and messages are lost, repeated, reordered, cut or changed.

Two kinds of hostile networks act on every phase: one that only authentication catches, and relays that lie in what
they sum. Whatever happens, a sum is right for the messages that count, or a ProtocolError says who is at fault.
"""

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import ProtocolError
from fgl_secure.protocols.collective import Collective
from fgl_secure.protocols.relay_coded import Profile, RelayCoded
from fgl_secure.protocols.relay_coded.devices import Devices
from fgl_secure.protocols.relay_coded.relays import Relays
from fgl_secure.protocols.topology import MEMBERS, Grouping, Topology
from fgl_secure.runtime import (
    PAYLOAD,
    Channel,
    Direction,
    Directory,
    Messages,
    Party,
    Phase,
    Recording,
    Role,
    Step,
    TamperedBatch,
    Transcript,
)
from fgl_secure.runtime.channel import Loss, Tamper
from tests.error_codes import about
from tests.protocols.conformance import ideal, opened
from tests.protocols.relay_coded import twins
from tests.strategies import Parties, grouping_over

Ids = NDArray[np.int64]
DEVICES, SILOS = 6, 2
EARLIER, STEP, LATER = (Step(number, 0) for number in range(3))
VALUES = np.array([[1.0, -1.0], [2.0, 0.5], [3.0, 0.25], [5.0, -2.0], [7.0, 0.125], [11.0, 4.0]])
PHASES = (Phase.SHARE_HEADERS, Phase.SEALED, Phase.MIXED, Phase.SHARES, Phase.ROSTERS, Phase.SHARE_SUMS)


def meshed(relays: int, silos: int = SILOS) -> Parties:
    """Six devices in two silos, each a neighbour of all others but one."""
    directory, everyone = Directory.hierarchy(silos, DEVICES, relays), np.arange(DEVICES)
    pairs = [(v, u) for v, u in itertools.permutations(range(DEVICES), 2) if v + u != DEVICES - 1]
    silo_of = everyone % silos
    return Parties(directory, grouping_over(directory, silo_of, everyone, everyone, np.array(pairs).T))


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """How a run ended.

    Attributes:
        sums: of the tampered step; None where it raised.
        error: what it raised.
        transcript: all of it.
    """

    sums: NDArray[np.float64] | None
    error: ProtocolError | None
    transcript: Transcript

    @property
    def incidents(self) -> str:
        """All that was noted, a line each."""
        return "\n".join(f"{i.party}: {i.what}" for i in self.transcript.incidents)


def run(scheme: RelayCoded, loss: Loss | None = None, tamper: Tamper | None = None) -> Outcome:
    """Two rounds; only the second is interfered with."""
    case = meshed(scheme.R)
    channel = Channel(case.directory, SimulationCoins(3), Recording.everything(), loss, tamper)
    session = opened(scheme, channel, case.grouping, 2)
    try:
        session.sum(VALUES[::-1], EARLIER)
        sums = session.sum(VALUES, STEP)
    except ProtocolError as error:
        return Outcome(None, error, channel.transcript)
    return Outcome(sums, None, channel.transcript)


IDEAL = ideal(meshed(2).grouping, VALUES)
ROWS = [VALUES[meshed(2).grouping.source[meshed(2).grouping.target == u]] for u in range(DEVICES)]


def is_of_some(sums: NDArray[np.float64]) -> bool:
    """Whether every sum is that of some of its target's messages, and of none other."""
    for rows, found in zip(ROWS, sums, strict=True):
        subsets = itertools.chain.from_iterable(itertools.combinations(rows, k) for k in range(len(rows) + 1))
        if not any(np.allclose(np.sum(chosen, axis=0) if chosen else 0, found, atol=1e-4) for chosen in subsets):
            return False
    return True


Fields = Mapping[str, NDArray[Any]]
Act = Callable[[Messages, Fields | None], TamperedBatch]

CONTENT = ("whole", "width", "share", "sum", "held", "agreed", PAYLOAD)
"""What a message is about, where it has it; the first of them is what is changed."""


def content_of(messages: Messages) -> str:
    """The field that is changed."""
    return next(name for name in reversed(CONTENT) if name in messages.fields)


def altered(messages: Messages, change: Callable[[NDArray[Any]], None], *, by_network: bool = False) -> TamperedBatch:
    """All messages, with a change to what they are about."""
    name = content_of(messages)
    value = messages[name].copy()
    change(value)
    return TamperedBatch(np.arange(len(messages)), {**messages.fields, name: value}, by_network=by_network)


def flipped(value: NDArray[Any]) -> None:
    value[0] ^= 1


def flipped_all(value: NDArray[Any]) -> None:
    value ^= 1


def changed(messages: Messages, earlier: Fields | None) -> TamperedBatch:  # noqa: ARG001
    """The first message carries other contents."""
    return altered(messages, flipped, by_network=True)


def changed_all(messages: Messages, earlier: Fields | None) -> TamperedBatch:  # noqa: ARG001
    """All messages carry other contents."""
    return altered(messages, flipped_all, by_network=True)


def swapped(messages: Messages, earlier: Fields | None) -> TamperedBatch:  # noqa: ARG001
    """Contents change places between messages."""
    fields = {name: value[::-1].copy() for name, value in messages.fields.items()}
    return TamperedBatch(np.arange(len(messages)), fields, by_network=True)


def reordered(messages: Messages, earlier: Fields | None) -> TamperedBatch:  # noqa: ARG001
    """Messages arrive last first."""
    fields = {name: value[::-1].copy() for name, value in messages.fields.items()}
    return TamperedBatch(np.arange(len(messages))[::-1].copy(), fields, by_network=True)


def duplicated(messages: Messages, earlier: Fields | None) -> TamperedBatch:  # noqa: ARG001
    """Every message arrives twice."""
    twice = np.tile(np.arange(len(messages)), 2)
    return TamperedBatch(twice, {name: value[twice] for name, value in messages.fields.items()}, by_network=True)


def truncated(messages: Messages, earlier: Fields | None) -> TamperedBatch:  # noqa: ARG001
    """The first message arrives without its last byte."""
    sizes = np.full(len(messages), messages.item_bytes)
    sizes[0] -= 1
    return TamperedBatch(np.arange(len(messages)), messages.fields, sizes, by_network=True)


def replayed(messages: Messages, earlier: Fields | None) -> TamperedBatch:
    """Messages carry what those of the earlier step carried."""
    assert earlier is not None
    return TamperedBatch(np.arange(len(messages)), earlier, by_network=True)


ACTS: tuple[Act, ...] = (changed, changed_all, swapped, reordered, duplicated, truncated, replayed)
REORDER_ONLY = (reordered, duplicated)


@dataclass(slots=True, eq=False)
class Hostile:
    """Does something to every batch of one phase in the second round, and remembers the first.

    Attributes:
        phase: whose messages.
        act: what is done.
        only: to the batches of which relay; None for all.
    """

    phase: Phase
    act: Act
    only: int | None = None
    acted: int = 0
    seen: dict[tuple[int, int], Fields] = field(default_factory=dict)

    def __call__(self, messages: Messages) -> TamperedBatch | None:
        if messages.phase is not self.phase or not len(messages):
            return None
        answers = messages.phase is Phase.SHARE_SUMS
        key = (int(messages.senders[0]), 0) if answers else (int(messages.receivers[0]), len(messages))
        if messages.step == EARLIER:
            self.seen.setdefault(key, {name: value.copy() for name, value in messages.fields.items()})
            return None
        if self.only is not None and key[0] != self.only:
            return None
        earlier = self.seen.get(key)
        self.acted += 1
        if self.act is replayed and (earlier is None or not same_shapes(earlier, messages.fields)):
            return None
        return self.act(messages, earlier)


def same_shapes(one: Fields, other: Fields) -> bool:
    """Whether messages have the same fields."""
    return {n: v.shape for n, v in one.items()} == {n: v.shape for n, v in other.items()}


SCHEMES = (
    RelayCoded(bound=16.0, k_min=1, profile=Profile.SHOWN),
    RelayCoded(bound=16.0, k_min=1, R=3, profile=Profile.SHOWN),
    RelayCoded(bound=16.0, k_min=2, T=2, R=5, profile=Profile.SHOWN),
    RelayCoded(bound=16.0, k_min=1, profile=Profile.HIDDEN),
)


@pytest.mark.parametrize("act", ACTS, ids=lambda act: act.__name__)
@pytest.mark.parametrize("phase", PHASES, ids=lambda phase: phase.name)
@pytest.mark.parametrize("scheme", SCHEMES[2:], ids=lambda s: f"{s.name}-{s.R}")
def test_whatever_the_network_does_no_sum_is_wrong(scheme: RelayCoded, phase: Phase, act: Act) -> None:
    """Each phase under each act: all sums hold messages of their own target, once each, or an error names a party.

    Where a message is missing from a sum, an incident says whose.
    """
    hostile = Hostile(phase, act)
    end = run(scheme, tamper=hostile)
    assert hostile.acted
    if end.sums is None:
        assert any(f"{role} " in str(end.error) for role in Role)
        return
    assert is_of_some(end.sums)
    if not np.allclose(end.sums, IDEAL, atol=1e-4):
        assert end.transcript.incidents
        assert act not in REORDER_ONLY
    elif act not in (reordered, swapped):  # swapping equal contents changes nothing
        noted = bool(end.transcript.incidents)
        assert noted or phase in (Phase.ROSTERS, Phase.SHARE_SUMS, Phase.SEALED, Phase.MIXED, Phase.SHARE_HEADERS)


@pytest.mark.parametrize("phase", [Phase.SHARE_SUMS, Phase.SEALED], ids=lambda phase: phase.name)
@pytest.mark.parametrize("act", [changed_all, changed, truncated], ids=lambda act: act.__name__)
def test_one_relays_lost_answers_are_made_up_for(phase: Phase, act: Act) -> None:
    """With a relay to spare, what happens to the answers of one of them changes no sum, and it is noted."""
    relay = int(meshed(3).directory.ids(Role.RELAY)[1])
    hostile = Hostile(phase, act, relay)

    def of_relay(messages: Messages) -> TamperedBatch | None:
        return hostile(messages) if messages.senders[0] == relay else None

    hostile.only = None
    end = run(RelayCoded(bound=16.0, k_min=1, R=3, profile=Profile.SHOWN), tamper=of_relay)
    assert end.sums is not None
    assert np.allclose(end.sums, IDEAL, atol=1e-4)
    assert "arrived cut or changed" in end.incidents
    assert "relay 1: " in end.incidents


def test_authentication_is_what_catches_a_changed_share() -> None:
    """The same change made by the sender itself gives another sum: the tests above see what a twin without would do."""

    def by_sender(messages: Messages, _: Fields | None) -> TamperedBatch:
        return TamperedBatch(np.arange(len(messages)), {**messages.fields, "share": messages["share"] // 2})

    end = run(RelayCoded(bound=16.0, k_min=1, profile=Profile.SHOWN), tamper=Hostile(Phase.SHARES, by_sender))
    assert end.sums is not None
    assert not is_of_some(end.sums)


@settings(deadline=None, max_examples=25)
@given(
    st.sets(st.integers(0, DEVICES - 1), max_size=DEVICES // 2),
    st.dictionaries(st.integers(0, DEVICES - 1), st.integers(0, 3)),
    st.sampled_from(SCHEMES),
)
def test_devices_that_drop_out_take_their_messages_with_them(
    dropped: set[int], reached: dict[int, int], scheme: RelayCoded
) -> None:
    """Half of the devices drop out, before or after sending to some relays: sums are those of messages that count.

    A message counts when every relay has it, or one has it and its sender answers when it is asked again.
    """
    case = meshed(scheme.R)
    devices, relays = case.directory.ids(Role.DEVICE), case.directory.ids(Role.RELAY)

    def arrives(phase: Phase, step: Step, senders: Ids, receivers: Ids) -> NDArray[np.bool_]:
        there = np.ones(len(senders), dtype=np.bool_)
        if step == STEP and phase in (Phase.SHARE_HEADERS, Phase.SHARES):
            for v in dropped:
                there &= (senders != devices[v]) | (receivers < relays[0] + reached.get(v, 0))
        return there

    end = run(scheme, loss=arrives)
    if scheme.profile is Profile.HIDDEN:  # silos forward for their devices, which drop out of nothing here
        assert end.sums is not None
        assert np.allclose(end.sums, IDEAL, atol=1e-4)
        return
    if end.sums is None:
        assert "relay" in str(end.error)
        return
    counted = VALUES.copy()
    for v in dropped:
        if reached.get(v, 0) < scheme.R:
            counted[v] = 0
    expected = ideal(case.grouping, counted)
    present = (counted != 0).any(axis=1)
    left = np.bincount(case.grouping.target[present[case.grouping.source]], minlength=DEVICES)
    expected[left < scheme.k_min] = 0
    assert np.allclose(end.sums, expected, atol=1e-4)
    lost = {v for v in dropped if reached.get(v, 0) < scheme.R}
    seen = {v for v in lost if reached.get(v, 0)}  # relays cannot miss what none of them has heard of
    assert {i.party.index for i in end.transcript.incidents if "are left out" in i.what} == seen
    lacking = set(np.flatnonzero((left >= scheme.k_min) & (left < np.bincount(case.grouping.target))).tolist())
    assert {i.party.index for i in end.transcript.incidents if "its sum lacks" in i.what} == lacking
    assert (end.incidents.count("too few messages are left") > 0) == bool((left < scheme.k_min).any())


@pytest.mark.parametrize("direction", Direction)
def test_no_relay_answers_for_too_few(direction: Direction) -> None:
    """Sums of rows and of gradients stay zero where fewer than k_min messages are left after devices drop out."""
    scheme, case, step = RelayCoded(bound=16.0, k_min=3, profile=Profile.SHOWN), meshed(2), Step(0, 0, direction)
    way = case.grouping if direction is Direction.FORWARD else case.grouping.reverse()
    dropped = case.directory.ids(Role.DEVICE)[:2]

    def arrives(phase: Phase, _step: Step, senders: Ids, _receivers: Ids) -> NDArray[np.bool_]:
        return ~np.isin(senders, dropped) | (phase not in (Phase.SHARE_HEADERS, Phase.SHARES))

    channel = Channel(case.directory, SimulationCoins(3), loss=arrives)
    sums = opened(scheme, channel, case.grouping, 2).sum(VALUES, step)
    lost = np.isin(way.row_owner[way.source], dropped)
    left = np.bincount(way.target[~lost], minlength=DEVICES)
    assert ((left > 0) & (left < scheme.k_min)).any()
    assert (left >= scheme.k_min).any()
    assert not sums[left < scheme.k_min].any()
    assert sums[left >= scheme.k_min].any(axis=1).all()


DEAD_FROM = (Phase.SHARE_HEADERS, Phase.SHARES, Phase.ROSTERS, Phase.SEALED)


def without_relay(relay: int, since: Phase) -> Loss:
    """A relay that hears and says nothing from a phase of the second round on."""
    order = [*DEAD_FROM, Phase.SHARE_SUMS]

    def arrives(phase: Phase, step: Step, senders: Ids, receivers: Ids) -> NDArray[np.bool_]:
        gone = step == STEP and phase in order and order.index(phase) >= order.index(since)
        there: NDArray[np.bool_] = (senders != relay) & (receivers != relay)
        return there | (not gone)

    return arrives


@pytest.mark.parametrize("profile", Profile)
@pytest.mark.parametrize("since", DEAD_FROM, ids=lambda phase: phase.name)
@pytest.mark.parametrize("which", [0, 3])
def test_a_relay_to_spare_may_die_at_any_time(profile: Profile, since: Phase, which: int) -> None:
    """With R = T + 2 any relay, expanding or not, may die at any time: sums are whole, and it is named."""
    scheme = RelayCoded(bound=16.0, k_min=1, T=2, R=4, profile=profile)
    relay = int(meshed(4).directory.ids(Role.RELAY)[which])
    end = run(scheme, loss=without_relay(relay, since))
    assert end.sums is not None
    assert np.allclose(end.sums, IDEAL, atol=1e-4)
    assert f"relay {which}: " in end.incidents


@pytest.mark.parametrize("since", DEAD_FROM, ids=lambda phase: phase.name)
def test_without_a_relay_to_spare_the_run_stops(since: Phase) -> None:
    """With R = T + 1 the death of a relay stops the run, and the message says which relays are missing."""
    relay = int(meshed(2).directory.ids(Role.RELAY)[1])
    end = run(RelayCoded(bound=16.0, k_min=1, profile=Profile.SHOWN), loss=without_relay(relay, since))
    assert end.sums is None
    assert "without relay" in str(end.error)
    assert "relay 1" in str(end.error)
    assert "relay 1: " in end.incidents


def lying(scheme: RelayCoded, which: int, *, counts: bool = False) -> RelayCoded:
    """The scheme with a relay that says something else than it summed, or counted."""

    class Lying(Relays):
        def sums_of(self, relay: Any, groups: Ids) -> tuple[Ids, Any]:
            found, sums = super().sums_of(relay, groups)
            if relay.party != self._all_relays[which] or self.now != STEP:
                return found, sums
            return (found + 1, sums) if counts else (found, (sums + np.eye(1, sums.shape[-1], dtype=sums.dtype)))

    return twins.with_relays(Lying)(scheme)


@pytest.mark.parametrize("profile", Profile)
@pytest.mark.parametrize("counts", [False, True])
@pytest.mark.parametrize("which", [0, 3])
def test_a_relay_that_lies_is_named_and_corrected(profile: Profile, which: int, *, counts: bool) -> None:
    """With R = T + 3 one relay with wrong sums or counts is located and named, and the sums are right."""
    end = run(lying(RelayCoded(bound=16.0, k_min=1, R=4, profile=profile), which, counts=counts))
    assert end.sums is not None
    assert np.allclose(end.sums, IDEAL, atol=1e-4)
    assert {i.party for i in end.transcript.incidents} == {Party(Role.RELAY, which)}


@pytest.mark.parametrize("profile", Profile)
@pytest.mark.parametrize(("counts", "knows"), [
    (False, "the sums of relay 0, relay 1, relay 2 in round 1"),
    (True, "relays"),
])  # fmt: skip
def test_a_lie_that_cannot_be_located_stops_the_run(profile: Profile, knows: str, *, counts: bool) -> None:
    """With R = T + 2 a wrong sum or count is noticed and cannot be located: the run stops and says what it knows."""
    end = run(lying(RelayCoded(bound=16.0, k_min=1, R=3, profile=profile), 2, counts=counts))
    assert end.sums is None
    with pytest.raises(ProtocolError, check=about(knows)):
        raise end.error or AssertionError


def test_a_wrong_digest_leads_to_full_rosters_and_no_harm() -> None:
    """A relay that says another digest than its own makes relays compare message by message; the sums are whole."""

    def tamper(messages: Messages) -> TamperedBatch | None:
        wrong = messages.phase is Phase.ROSTERS and messages.step == STEP and PAYLOAD in messages.fields
        return TamperedBatch.of_payload(np.arange(len(messages)), messages[PAYLOAD] ^ 1) if wrong else None

    end = run(RelayCoded(bound=16.0, k_min=1, profile=Profile.SHOWN), tamper=tamper)
    assert end.sums is not None
    assert np.allclose(end.sums, IDEAL, atol=1e-4)
    assert len([b for b in end.transcript.messages if b.phase is Phase.ROSTERS and b.step == STEP]) > 1


def test_a_sender_with_two_groups_for_one_circuit_is_named() -> None:
    """Circuits that differ between relays stop the run, which names their sender."""
    second = meshed(2).directory.ids(Role.RELAY)[1]

    def tamper(messages: Messages) -> TamperedBatch | None:
        if (
            messages.phase is not Phase.CIRCUITS
            or "pseudonym" not in messages.fields
            or messages.receivers[0] != second
        ):
            return None
        fields = {**messages.fields, "pseudonym": messages["pseudonym"] ^ 1}
        return TamperedBatch(np.arange(len(messages)), fields)

    end = run(RelayCoded(bound=16.0, k_min=1, profile=Profile.SHOWN), tamper=tamper)
    assert end.sums is None
    assert "device 0 must open the same circuits at every relay" in str(end.error)


def test_two_contents_under_one_slot_are_named() -> None:
    """A sender that sends a message twice with different contents stops the run and is named."""

    def tamper(messages: Messages) -> TamperedBatch | None:
        if messages.phase is not Phase.SHARES or messages.step != STEP:
            return None
        rows = np.array([*range(len(messages)), 0])
        again = {name: value[rows].copy() for name, value in messages.fields.items()}
        again["share"][-1] ^= 1
        return TamperedBatch(rows, again)

    end = run(RelayCoded(bound=16.0, k_min=1, profile=Profile.SHOWN), tamper=tamper)
    assert "device 0 must send one row a circuit" in str(end.error)


@pytest.mark.parametrize("act", [changed, truncated, None], ids=["changed", "truncated", "lost"])
def test_a_device_without_keys_is_left_out(act: Act | None) -> None:
    """Public keys that are lost or changed on the way leave out those who miss one, and nobody else.

    Of both directions the first message is gone: that of device 0, and the answer to device 1.
    """
    case = meshed(2)

    silos = case.directory.ids(Role.SILO)

    def tamper(messages: Messages) -> TamperedBatch | None:
        of_silos = np.isin([messages.senders[0], messages.receivers[0]], silos).any() if len(messages) else True
        return act(messages, None) if act and messages.phase is Phase.KEYS and not of_silos else None

    def loss(phase: Phase, _: Step, senders: Ids, receivers: Ids) -> NDArray[np.bool_]:
        lost = phase is Phase.KEYS and act is None and not np.isin([senders[0], receivers[0]], silos).any()
        return np.arange(len(senders)) >= lost

    channel = Channel(case.directory, SimulationCoins(0), Recording.everything(), loss, tamper)
    session = opened(RelayCoded(bound=16.0, k_min=1, profile=Profile.SHOWN), channel, case.grouping, 2)
    for step in (EARLIER, STEP):
        assert np.allclose(session.sum(VALUES, step), ideal(case.grouping, without(VALUES, {0, 1})), atol=1e-4)
    noted = {i.party for i in channel.transcript.incidents if "did not agree on keys" in i.what}
    assert noted == {Party(Role.DEVICE, 0), Party(Role.DEVICE, 1)}


def test_a_relay_takes_nothing_from_a_sender_without_keys() -> None:
    """A sender that sends although its key never came: the relay that can't expand its share drops it, nothing else."""
    case = meshed(2)
    first = int(case.directory.ids(Role.DEVICE)[0])

    def loss(phase: Phase, _: Step, senders: Ids, __: Ids) -> NDArray[np.bool_]:
        return np.asarray((senders != first) | (phase is not Phase.KEYS))

    channel = Channel(case.directory, SimulationCoins(0), Recording.everything(), loss)
    scheme = twins.with_devices(twins.SendsWithoutKeys)(RelayCoded(bound=16.0, k_min=1, profile=Profile.SHOWN))
    sums = opened(scheme, channel, case.grouping, 2).sum(VALUES, STEP)
    assert np.allclose(sums, ideal(case.grouping, without(VALUES, {0})), atol=1e-4)
    assert "device 0: 4 messages did not reach every relay and are left out" in "\n".join(
        f"{i.party}: {i.what}" for i in channel.transcript.incidents
    )


def test_a_relay_that_tells_nobody_its_key_stops_the_set_up() -> None:
    """That is not one device's fault: the run stops before any message, and the relay is named."""
    case = meshed(2)

    def loss(phase: Phase, _: Step, senders: Ids, __: Ids) -> NDArray[np.bool_]:
        return np.full(len(senders), phase is not Phase.KEYS or senders[0] not in case.directory.ids(Role.RELAY))

    channel = Channel(case.directory, SimulationCoins(0), Recording.everything(), loss)
    session = opened(RelayCoded(bound=16.0, k_min=1, profile=Profile.SHOWN), channel, case.grouping, 2)
    with pytest.raises(ProtocolError, check=about("public keys")):
        session.sum(VALUES, STEP)
    assert {b.phase for b in channel.transcript.messages} == {Phase.KEYS}


def test_a_sender_without_a_pseudonym_sends_nothing() -> None:
    """Where one is lost its sender opens no circuit to the group: the message is left out and noted, others count."""

    def arrives(phase: Phase, step: Step, senders: Ids, __: Ids) -> NDArray[np.bool_]:
        return np.arange(len(senders)) >= (phase is Phase.TAGS and step == EARLIER)

    end = run(RelayCoded(bound=16.0, k_min=1, profile=Profile.SHOWN), loss=arrives)
    assert end.sums is not None
    wrong = np.abs(end.sums - IDEAL).max(axis=1) > 1e-4
    assert wrong.sum() == 1
    assert is_of_some(end.sums)
    owner = int(np.flatnonzero(wrong)[0])
    assert f"device {owner}: 1 messages to it are not sent: its pseudonym did not reach their senders" in end.incidents


def without(values: NDArray[np.float64], gone: set[int]) -> NDArray[np.float64]:
    """The rows of those that are left, and zeros."""
    return np.where(np.isin(np.arange(len(values)), list(gone))[:, None], 0.0, values)


SHOWN = (
    RelayCoded(bound=16.0, k_min=2, profile=Profile.SHOWN),
    RelayCoded(bound=16.0, k_min=2, T=2, R=4, profile=Profile.SHOWN),
)
STAGES = (Phase.SHARE_HEADERS, Phase.SHARES, Phase.SHARE_SUMS)


@pytest.mark.parametrize("off", [3])
@pytest.mark.parametrize("since", STAGES, ids=lambda phase: phase.name)
@pytest.mark.parametrize("scheme", SHOWN, ids=lambda s: f"{s.name}-{s.R}")
def test_a_device_that_is_off_stops_no_other(scheme: RelayCoded, since: Phase, off: int) -> None:
    """Where relays see who sends: a device that is off from a stage on lacks its sum, others at most its row."""
    case = meshed(scheme.R)
    device, gone = int(case.directory.ids(Role.DEVICE)[off]), STAGES[STAGES.index(since) :]

    def arrives(phase: Phase, step: Step, senders: Ids, receivers: Ids) -> NDArray[np.bool_]:
        there: NDArray[np.bool_] = (senders != device) & (receivers != device)
        return there | (phase not in gone) | (step == EARLIER)

    end = run(scheme, loss=arrives)
    assert end.sums is not None, end.error
    assert f"device {off}: " in end.incidents
    assert "relay" not in {str(i.party.role) for i in end.transcript.incidents}
    others, lacking = np.arange(DEVICES) != off, ideal(case.grouping, without(VALUES, {off}))
    is_whole, lacks = (np.abs(end.sums - sums).max(axis=1) < 1e-4 for sums in (IDEAL, lacking))
    assert (is_whole | lacks)[others].all()
    assert (end.sums[off] == 0).all()
    assert is_whole[others].all() == (since is Phase.SHARE_SUMS)


def without_messages_of(dropped: set[int], scheme: RelayCoded) -> Loss:
    """What some devices share in the second round is lost, and nothing else."""
    devices = meshed(scheme.R).directory.ids(Role.DEVICE)

    def arrives(phase: Phase, step: Step, senders: Ids, __: Ids) -> NDArray[np.bool_]:
        if step != STEP or phase not in (Phase.SHARE_HEADERS, Phase.SHARES, Phase.SEALED):
            return np.ones(len(senders), dtype=np.bool_)
        return ~np.isin(senders, devices[sorted(dropped)])

    return arrives


ANSWERS_WHAT_COUNTS = RelayCoded(bound=16.0, k_min=3, profile=Profile.HIDDEN)


@pytest.mark.parametrize(
    "scheme", [ANSWERS_WHAT_COUNTS, RelayCoded(bound=16.0, k_min=3, profile=Profile.SHOWN)], ids=lambda s: s.name
)
@pytest.mark.parametrize("dropped", [{1, 2, 3}, {0, 4, 5}, {2, 3}, {1}, set()], ids=str)
def test_drop_outs_open_no_sum_below_k_min(scheme: RelayCoded, dropped: set[int]) -> None:
    """Whoever drops out, each sum that is opened has k_min rows that arrived, padding not counted."""
    end, case = run(scheme, loss=without_messages_of(dropped, scheme)), meshed(scheme.R)
    assert end.sums is not None
    arrived = ~np.isin(case.grouping.source, list(dropped))
    left = np.bincount(case.grouping.target[arrived], minlength=DEVICES)
    assert (end.sums[left < scheme.k_min] == 0).all()
    if not dropped:
        assert np.allclose(end.sums, IDEAL, atol=1e-4)


class _NeverTooFew(Devices):
    """Devices say that their sums are over enough, whoever is left."""

    def _check_enough(self, pass_index: int) -> list[Any]:
        return [np.ones_like(each) for each in super()._check_enough(pass_index)]


def test_devices_that_never_have_too_few_partners_see_single_rows() -> None:
    """The broken twin of the test above: circuits are opened anew among those left, whatever their number."""
    scheme = twins.with_devices(_NeverTooFew)(ANSWERS_WHAT_COUNTS)
    end = run(scheme, loss=without_messages_of({1, 2, 3}, scheme))
    assert end.sums is not None
    alone = {tuple(row) for row in VALUES.tolist()}
    assert any(tuple(np.round(row, 3)) in alone for row in end.sums.tolist())


@pytest.mark.parametrize("binds", [True, False])
def test_no_relay_opens_a_circuit_with_what_it_was_shown(*, binds: bool) -> None:
    """A relay that opens circuits for others' groups gets nothing; where one opening does for all, it gets sums.

    Silos own the groups, so that they open circuits for answers in their own names, here too late at the second relay.
    """
    scheme = twins.with_relays(twins.Prying)(RelayCoded(bound=16.0, k_min=3, profile=Profile.SHOWN))
    scheme = scheme if binds else twins.under(twins.OneOpeningForAll)(scheme)
    case = meshed(2)
    devices, silos, (first, second) = (case.directory.ids(role) for role in (Role.DEVICE, Role.SILO, Role.RELAY))
    silo_of = np.arange(DEVICES) % SILOS
    members = Grouping(devices, silos, np.arange(DEVICES), silo_of, silos[silo_of], silos)

    def arrives(phase: Phase, _: Step, senders: Ids, receivers: Ids) -> NDArray[np.bool_]:
        from_silos = np.isin(senders, silos) & (receivers == second)
        return np.asarray((phase is not Phase.CIRCUITS) | ~from_silos)

    channel = Channel(case.directory, SimulationCoins(3), Recording.everything(), arrives)
    session = Collective(scheme, Topology(MEMBERS, members, 2), channel)
    with pytest.raises(ProtocolError, check=about("T + 1 = 2 relays")):
        session.sum(VALUES, STEP)
    (relays,) = (machine for machine in session._machines if isinstance(machine, twins.Prying))
    told = [messages for messages in relays.told if messages.receivers[0] == first]
    counts = np.concatenate([messages["count"] for messages in told]) if told else np.zeros(0)
    assert (counts > 0).any() != binds


def off_from(party: int, since: Phase, steps: tuple[Step, ...]) -> Loss:
    """A party that hears and says nothing in some steps, from the first message of a phase on."""
    begun: set[Step] = set()

    def arrives(phase: Phase, step: Step, senders: Ids, receivers: Ids) -> NDArray[np.bool_]:
        if step not in steps or phase in (Phase.KEYS, Phase.PARTNERS):
            return np.ones(len(senders), dtype=np.bool_)
        if phase is since:
            begun.add(step)
        there: NDArray[np.bool_] = (senders != party) & (receivers != party)
        return there if step in begun else np.ones(len(senders), dtype=np.bool_)

    return arrives


OFF = (Phase.TAGS, Phase.CIRCUITS, Phase.SEALED, Phase.MIXED, Phase.ROSTERS, Phase.SHARES, Phase.SHARE_SUMS)


@pytest.mark.parametrize("opening", [True, False], ids=["set-up", "step"])
@pytest.mark.parametrize("since", OFF, ids=lambda phase: phase.name)
@pytest.mark.parametrize("role", [Role.DEVICE, Role.SILO, Role.RELAY])
def test_a_party_that_is_off_in_any_turn_stops_no_other(role: Role, since: Phase, *, opening: bool) -> None:
    """Whoever is off, in the set-up or in a step: sums are whole, lack the rows of those who are silent, or are zero.

    In the next step, and with one party back, the same holds.
    """
    scheme = RelayCoded(bound=16.0, k_min=1, R=3, max_degree=5)
    case = meshed(scheme.R, silos=3)
    party = int(case.directory.ids(role)[1])
    lost = off_from(party, since, (EARLIER if opening else STEP,))
    channel = Channel(case.directory, SimulationCoins(3), Recording.everything(), lost)
    session = opened(scheme, channel, case.grouping, 2)
    for step in (EARLIER, STEP, LATER):
        sums = session.sum(VALUES, step)
        assert is_of_some(sums)
        gone = {1} if role is Role.DEVICE else {1, 4} if role is Role.SILO else set()
        others = ~np.isin(np.arange(DEVICES), list(gone))
        whole, lacking = IDEAL, ideal(case.grouping, without(VALUES, gone))
        alike = [(np.abs(sums - each).max(axis=1) < 1e-4)[others].all() for each in (whole, lacking)]
        assert any(alike) or (since is Phase.SHARES and role is Role.SILO)
