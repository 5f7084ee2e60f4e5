"""What every scheme has to do, whatever it is: one suite that each inherits.

A subclass names its scheme and states, from the scheme's source, its error and its messages.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import InputError
from fgl_secure.protocols.collective import Collective
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.topology import NEIGHBOURS, Grouping, Reals, Topology
from fgl_secure.runtime import (
    PAYLOAD,
    Channel,
    Direction,
    Directory,
    MessageKind,
    Messages,
    Party,
    Phase,
    ReceivedRows,
    Recording,
    Role,
    Step,
    Strength,
    TamperedBatch,
    Transcript,
)
from fgl_secure.runtime.channel import Loss, Tamper
from tests.protocols.partners.graphs import keys_of
from tests.strategies import Parties, grouping_over, groupings, reals

Traffic = Mapping[tuple[MessageKind, Role, Role], tuple[int, int]]
"""Messages and bytes by phase, sending and receiving role; nothing for those without a message."""

BOUND = 4.0
FORWARD, BACKWARD = Step(0), Step(0, direction=Direction.BACKWARD)


def ideal(grouping: Grouping, values: Reals) -> NDArray[np.float64]:
    """The functionality of every scheme: add row source[e] to group target[e]."""
    sums = np.zeros((len(grouping.group_owner), values.shape[1]))
    np.add.at(sums, grouping.target, values[grouping.source])
    return sums


def along(grouping: Grouping, direction: Direction) -> Grouping:
    """The grouping in the direction of a pass."""
    return grouping if direction is Direction.FORWARD else grouping.reverse()


def channel_of(parties: Directory, loss: Loss | None = None) -> Channel:
    """A channel that records everything."""
    return Channel(parties, SimulationCoins(0), Recording.everything(), loss)


def counted(transcript: Transcript) -> Traffic:
    """Traffic as the transcript counts it."""
    return {(t.phase, t.sender_role, t.receiver_role): (t.messages, t.bytes) for t in transcript.traffic()}


def opened(scheme: Scheme, channel: Channel, grouping: Grouping, width: int) -> Collective:
    """Sums of neighbours' rows under a scheme."""
    return Collective(scheme, Topology(NEIGHBOURS, grouping, width, keys=keys_of(grouping)), channel)


def helpers_of(scheme: Scheme) -> int:
    """Relays that a scheme needs."""
    return scheme.helpers.get(Role.RELAY, 0)


def triangle() -> Parties:
    """Four devices in two silos: 0 and 1 both send to 2, and 2 sends to 0; device 3 is alone."""
    directory, everyone = Directory.hierarchy(2, 4), np.arange(4)
    edges = np.array([[0, 1, 2], [2, 2, 0]])
    return Parties(directory, grouping_over(directory, np.array([0, 0, 1, 1]), everyone, everyone, edges))


def carried_values(rows: ReceivedRows) -> list[NDArray[Any]]:
    """What of messages is, or may be made of, somebody's row: all but names."""
    assert rows.fields is not None
    return [value for name, value in rows.fields.items() if name in (PAYLOAD, "share", "sum", "count", "seed")]


class SchemeConformance(ABC):
    """Tests that hold for every scheme.

    Attributes:
        scheme: under test; it must take values up to BOUND in magnitude, in groups of up to 14.
        lossy_phase: the phase in which each message carries one value on its way into a sum.
        refused: values that the scheme must not take.
    """

    scheme: ClassVar[Scheme]
    lossy_phase: ClassVar[Phase]
    refused: ClassVar[tuple[float, ...]] = (math.nan, math.inf, -math.inf)

    @abstractmethod
    def allowed_error(self, grouping: Grouping) -> float:
        """Largest error of one coordinate of a sum."""

    @abstractmethod
    def expected_traffic(self, grouping: Grouping, width: int) -> Traffic:
        """What the first forward sum of float64 values [n, width] sends, opened at that width."""

    def fit(self, case: Parties) -> Parties:
        """The drawn case with the relays that the scheme needs."""
        counts = case.directory.counts
        directory = Directory.hierarchy(counts[Role.SILO], counts[Role.DEVICE], helpers_of(self.scheme))
        return replace(case, directory=directory)

    @given(st.data(), groupings(), st.sampled_from(Direction))
    def test_outputs_are_the_ideal_sums(self, data: st.DataObject, case: Parties, direction: Direction) -> None:
        """Both passes give the ideal sums, up to the scheme's stated error."""
        case = self.fit(case)
        way, width = along(case.grouping, direction), data.draw(st.integers(1, 3))
        values = data.draw(reals(BOUND, (len(way.row_owner), width)))
        session = opened(self.scheme, channel_of(case.directory), case.grouping, width)
        sums = session.sum(values, Step(0, 0, direction))
        assert sums.dtype == np.float64
        assert sums.shape == (len(way.group_owner), width)
        slack = 1e-12 * BOUND * max(way.largest_group, 1)
        assert np.abs(sums - ideal(way, values)).max() <= self.allowed_error(case.grouping) + slack

    @given(groupings(), st.sampled_from(Direction))
    def test_empty_groups_sum_to_zero(self, case: Parties, direction: Direction) -> None:
        """A group that nothing is sent to gets exactly zero."""
        case = self.fit(case)
        way = along(case.grouping, direction)
        session = opened(self.scheme, channel_of(case.directory), case.grouping, 2)
        sums = session.sum(np.ones((len(way.row_owner), 2)), Step(0, 0, direction))
        assert (sums[np.bincount(way.target, minlength=len(sums)) == 0] == 0).all()

    @given(st.data(), groupings())
    def test_steps_do_not_disturb_each_other(self, data: st.DataObject, case: Parties) -> None:
        """A session gives the ideal sums in any order of rounds, layers, widths and passes."""
        case = self.fit(case)
        session = opened(self.scheme, channel_of(case.directory), case.grouping, 3)
        step = st.builds(Step, st.integers(0, 2), st.integers(0, 1), st.sampled_from(Direction))
        for now in data.draw(st.lists(step, min_size=1, max_size=4, unique=True)):
            way = along(case.grouping, now.direction)
            values = np.full((len(way.row_owner), data.draw(st.integers(1, 3))), 0.5) * (1 + now.round)
            assert np.allclose(session.sum(values, now), ideal(way, values), atol=1e-3)

    @given(groupings(), st.integers(1, 3))
    def test_messages_and_bytes_are_as_claimed(self, case: Parties, width: int) -> None:
        """The first sum sends exactly the messages and bytes that follow from the scheme's description."""
        case = self.fit(case)
        channel = channel_of(case.directory)
        opened(self.scheme, channel, case.grouping, width).sum(np.zeros((len(case.grouping.row_owner), width)), FORWARD)
        sent = {key: entry for key, entry in counted(channel.transcript).items() if entry[0]}
        claimed = self.expected_traffic(case.grouping, width)
        assert sent == {key: entry for key, entry in claimed.items() if entry[0]}

    @given(groupings())
    def test_every_party_takes_part_in_its_role_only(self, case: Parties) -> None:
        """Messages run between owners and custodians of rows and groups, and relays; nobody else takes part."""
        case = self.fit(case)
        channel, g = channel_of(case.directory), case.grouping
        session = opened(self.scheme, channel, g, 1)
        for step, way in ((FORWARD, g), (BACKWARD, g.reverse())):
            session.sum(np.zeros((len(way.row_owner), 1)), step)
        involved = {*g.row_owner.tolist(), *g.group_owner.tolist()}
        involved |= {*g.row_custodian.tolist(), *g.group_custodian.tolist()}
        involved |= {*case.directory.ids(Role.RELAY).tolist()} if helpers_of(self.scheme) else set()
        for batch in channel.transcript.messages:
            assert {*batch.senders.tolist(), *batch.receivers.tolist()} <= involved

    def test_bad_input_is_refused_before_any_message(self) -> None:
        """Values that it cannot take, and other shapes, raise, no message was sent, and the session works on."""
        case = self.fit(triangle())
        channel = channel_of(case.directory)
        session = opened(self.scheme, channel, case.grouping, 1)
        for value in self.refused:
            for position in range(4):
                values = np.ones((4, 1))
                values[position] = value
                with pytest.raises(InputError):
                    session.sum(values, FORWARD)
        for shape in ((3, 1), (5, 1), (4,)):
            with pytest.raises(InputError):
                session.sum(np.ones(shape), FORWARD)
        assert channel.transcript.message_count == 0
        assert np.allclose(session.sum(np.ones((4, 1)), FORWARD), ideal(case.grouping, np.ones((4, 1))), atol=1e-3)

    @pytest.mark.parametrize("lost", [0, 1, 2])
    def test_a_lost_value_changes_its_targets_sum_alone(self, lost: int) -> None:
        """Without one message its target's sum lacks that value, and all other sums stay as they are."""
        case, values = self.fit(triangle()), np.array([[1.0], [2.0], [3.0], [4.0]])

        def arrives(phase: Phase, _: Step, senders: NDArray[np.int64], __: NDArray[np.int64]) -> NDArray[np.bool_]:
            rows = np.arange(len(senders))
            return rows != lost if phase is self.lossy_phase else rows >= 0

        expected = ideal(case.grouping, values)
        expected[case.grouping.target[lost]] -= values[case.grouping.source[lost]]
        session = opened(self.scheme, channel_of(case.directory, arrives), case.grouping, 1)
        assert np.allclose(session.sum(values, FORWARD), expected, atol=1e-3)

    def test_the_bystander_sees_nothing(self) -> None:
        """A device without neighbours receives no value of anybody in either pass."""
        case = self.fit(triangle())
        channel = channel_of(case.directory)
        session = opened(self.scheme, channel, case.grouping, 1)
        for step in (FORWARD, BACKWARD):
            session.sum(np.ones((4, 1)), step)
        received = channel.transcript.view([Party(Role.DEVICE, 3)]).received
        assert all((value == 0).all() for rows in received for value in carried_values(rows))

    def test_claim_and_names_are_stated(self) -> None:
        """A guarantee names its source, a coalition and a statement, and the name has the label."""
        claim = self.scheme.claim_for(Topology(NEIGHBOURS, triangle().grouping, 1))
        for guarantee in claim.guarantees:
            assert guarantee.source
            assert guarantee.statement
            assert any(guarantee.coalition.values())
            assert guarantee.strength in Strength
        assert self.scheme.label in self.scheme.name

    def test_delivery_decides_the_sum(self) -> None:
        """The sums come from what the channel delivered, not from what was handed in: tampering shows."""
        case = self.fit(triangle())
        channel = Channel(
            case.directory, SimulationCoins(0), tamper=doubling(self.lossy_phase, self.scheme.public.modulus)
        )
        session = opened(self.scheme, channel, case.grouping, 1)
        assert not np.allclose(session.sum(np.ones((4, 1)), FORWARD), ideal(case.grouping, np.ones((4, 1))), atol=1e-3)


def doubling(phase: Phase, modulus: int | None) -> Tamper:
    """A network that doubles what messages of one phase carry, as their senders might: reals, or elements."""

    def twice(value: NDArray[Any]) -> NDArray[Any]:
        return value * 2 if modulus is None else (value.astype(np.int64) * 2 % modulus).astype(value.dtype)

    def tamper(messages: Messages) -> TamperedBatch | None:
        if messages.phase is not phase:
            return None
        carried = (PAYLOAD, "share")
        fields = {name: twice(value) if name in carried else value for name, value in messages.fields.items()}
        return TamperedBatch(np.arange(len(messages)), fields)

    return tamper
