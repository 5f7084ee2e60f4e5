"""What every sum of vectors has to do, whatever the scheme: one suite that each inherits.

A subclass names its scheme and the phase in which a sender's vector leaves it. Where the scheme cannot do something
that another can, an attribute says so.
"""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import FglSecureError, FieldRangeError, InputError, ProtocolError
from fgl_secure.protocols.vector_sum import VectorGroup, VectorScheme, VectorSession
from fgl_secure.runtime import Channel, Delivery, Direction, Directory, Phase, Recording, Role, Step, Strength
from fgl_secure.runtime.channel import Loss

Ints = NDArray[np.int64]

FIRST = Step(0)
BYSTANDERS = 1


def circle(senders: int, *, split: bool) -> tuple[Directory, VectorGroup]:
    """Silos that send to one more silo by way of the server (split), or to the server itself; one silo looks on."""
    directory = Directory.hierarchy(senders + 1 + BYSTANDERS, 1)
    silos, server = directory.ids(Role.SILO), int(directory.ids(Role.SERVER)[0])
    return directory, VectorGroup(silos[:senders], int(silos[senders]) if split else server, server)


def channel_of(directory: Directory, loss: Loss | None = None, seed: int = 0) -> Channel:
    """A channel that records everything."""
    return Channel(directory, SimulationCoins(seed), Recording.everything(), loss)


def total_of(rows: Ints, left_out: tuple[int, ...] = ()) -> list[int]:
    """The ideal sum, in python integers."""
    kept = [row for number, row in enumerate(rows.tolist()) if number not in left_out]
    return [sum(column) for column in zip(*kept, strict=True)]


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """A drawn sum: who, and what each sends."""

    directory: Directory
    group: VectorGroup
    rows: Ints
    bound: int


class VectorConformance(ABC):
    """Tests that hold for every scheme.

    Attributes:
        scheme: under test; it must take two to six senders and magnitudes of 2^20.
        vector_phase: the phase in which a sender's vector leaves it, one message a sender.
        aggregator_receives: whether the aggregator may be the receiver.
        aggregator_forwards: whether it may be another party.
        refuses_repeats: whether a second sum of one step is an error, which it must be where masks are used once.
        most_lost: how many of five senders may drop out as their vectors leave.
    """

    scheme: ClassVar[VectorScheme]
    vector_phase: ClassVar[Phase]
    aggregator_receives: ClassVar[bool] = True
    aggregator_forwards: ClassVar[bool] = True
    refuses_repeats: ClassVar[bool] = True
    most_lost: ClassVar[int] = 1

    @property
    def ways(self) -> list[bool]:
        """Whether aggregator and receiver are two: what the scheme can do of both."""
        return [split for split in (False, True) if (self.aggregator_forwards if split else self.aggregator_receives)]

    def opened(self, case: Case, channel: Channel) -> VectorSession:
        """A session for a case."""
        return self.scheme.open(channel, case.group, case.rows.shape[1], case.bound)

    def five(self, *, split: bool, length: int = 3) -> Case:
        """Five senders with vectors of small numbers."""
        rows = np.arange(5 * length, dtype=np.int64).reshape(5, length) ** 2 - 40
        return Case(*circle(5, split=split), rows, 1000)

    @given(st.data())
    def test_the_sum_is_exact(self, data: st.DataObject) -> None:
        """The receiver gets the sum of the vectors, integer for integer, whoever adds up."""
        senders, length = data.draw(st.integers(2, 6)), data.draw(st.integers(1, 5))
        bound = data.draw(st.sampled_from([1, 7, 2**20]))
        rows = data.draw(hnp.arrays(np.int64, (senders, length), elements=st.integers(-bound, bound)))
        case = Case(*circle(senders, split=data.draw(st.sampled_from(self.ways))), rows, bound)
        total = self.opened(case, channel_of(case.directory)).sum(case.rows, FIRST)
        assert total.dtype == np.int64
        assert total.tolist() == total_of(case.rows)

    @pytest.mark.parametrize("sign", [-1, 1])
    def test_the_largest_sum_is_exact(self, sign: int) -> None:
        """Vectors at the bound add up to what the scheme states as its limit, on both sides of zero."""
        for split in self.ways:
            directory, group = circle(3, split=split)
            bound = self.scheme.limit(3) // 3
            rows = np.full((3, 2), sign * bound, dtype=np.int64)
            session = self.scheme.open(channel_of(directory), group, 2, bound)
            assert session.sum(rows, FIRST).tolist() == total_of(rows)

    @given(st.data())
    def test_steps_do_not_disturb_each_other(self, data: st.DataObject) -> None:
        """A session gives the exact sums in any order of rounds, layers, directions and parts."""
        case = self.five(split=data.draw(st.sampled_from(self.ways)))
        session = self.opened(case, channel_of(case.directory))
        number = st.integers(0, 1)
        step = st.builds(Step, number, st.integers(-1, 1), st.sampled_from(Direction), st.booleans(), number)
        for now in data.draw(st.lists(step, min_size=1, max_size=3, unique=True)):
            rows = case.rows + now.round
            assert session.sum(rows, now).tolist() == total_of(rows)

    def test_a_step_is_never_summed_twice(self) -> None:
        """A second sum of one step raises and says nothing about the vectors; other steps go on."""
        if not self.refuses_repeats:
            pytest.skip("nothing is used once in this scheme")
        for split in self.ways:
            case = self.five(split=split)
            channel = channel_of(case.directory)
            session = self.opened(case, channel)
            session.sum(case.rows, FIRST)
            said = channel.transcript.message_count
            with pytest.raises(ProtocolError, match="summed once"):
                session.sum(case.rows + 1, FIRST)
            assert channel.transcript.message_count == said
            assert session.sum(case.rows, Step(1)).tolist() == total_of(case.rows)

    @pytest.mark.parametrize("lost", range(5))
    def test_a_sender_that_drops_out_is_left_out(self, lost: int) -> None:
        """Without one sender's vector the sum is that of the others, exactly."""
        for split in self.ways:
            case = self.five(split=split)
            gone = case.group.senders[lost]

            def arrives(phase: Phase, _: Step, senders: Ints, __: Ints, gone: int = int(gone)) -> NDArray[np.bool_]:
                return np.asarray((senders != gone) | (phase is not self.vector_phase))

            session = self.opened(case, channel_of(case.directory, arrives))
            assert session.sum(case.rows, FIRST).tolist() == total_of(case.rows, (lost,))

    def test_as_many_as_allowed_may_drop_out(self) -> None:
        """The sum is still that of the others when as many senders drop out as the scheme stands."""
        case = self.five(split=self.ways[0])
        gone = case.group.senders[: self.most_lost]

        def arrives(phase: Phase, _: Step, senders: Ints, __: Ints) -> NDArray[np.bool_]:
            return ~np.isin(senders, gone) | (phase is not self.vector_phase)

        session = self.opened(case, channel_of(case.directory, arrives))
        assert session.sum(case.rows, FIRST).tolist() == total_of(case.rows, tuple(range(self.most_lost)))

    def test_a_sum_beyond_the_limit_is_refused(self) -> None:
        """One more than the limit raises at opening, before a message is sent, and names bound and limit."""
        directory, group = circle(3, split=self.ways[0])
        channel = channel_of(directory)
        with pytest.raises(FieldRangeError, match="bound must satisfy"):
            self.scheme.open(channel, group, 2, self.scheme.limit(3) // 3 + 1)
        for length, bound in ((0, 1), (1, 0), (-1, 1), (1, -5)):
            with pytest.raises(InputError, match="length and bound must be at least 1"):
                self.scheme.open(channel, group, length, bound)
        assert channel.transcript.messages == []

    @pytest.mark.parametrize("value", [1001, -1001, 2**63 - 1, -(2**63)])
    def test_a_value_beyond_the_bound_is_refused(self, value: int) -> None:
        """It raises whoever it is from, before that sum sends a message, without the value, and the session goes on."""
        case = self.five(split=self.ways[0])
        channel = channel_of(case.directory)
        session = self.opened(case, channel)
        said = channel.transcript.message_count
        for position in range(5):
            rows = case.rows.copy()
            rows[position, 1] = value
            with pytest.raises(InputError, match="beyond") as raised:
                session.sum(rows, FIRST)
            assert str(value) not in str(raised.value)
        assert channel.transcript.message_count == said
        assert session.sum(case.rows, FIRST).tolist() == total_of(case.rows)

    @pytest.mark.parametrize(
        "rows",
        [
            np.zeros((4, 3), dtype=np.int64), np.zeros((6, 3), dtype=np.int64), np.zeros((5, 2), dtype=np.int64),
            np.zeros(5, dtype=np.int64), np.zeros((5, 3, 1), dtype=np.int64), np.zeros((5, 3), dtype=np.int32),
            np.zeros((5, 3)), np.full((5, 3), np.nan),
        ],
        ids=lambda rows: f"{rows.dtype} {list(rows.shape)}",
    )  # fmt: skip
    def test_rows_of_another_kind_are_refused(self, rows: Ints) -> None:
        """Rows are int64 with one row a sender; anything else raises before that sum sends a message."""
        case = self.five(split=self.ways[0])
        channel = channel_of(case.directory)
        session = self.opened(case, channel)
        said = channel.transcript.message_count
        with pytest.raises(InputError, match="rows must be int64"):
            session.sum(rows, FIRST)
        assert channel.transcript.message_count == said

    @given(st.data())
    def test_sizes_do_not_depend_on_values(self, data: st.DataObject) -> None:
        """Number, ends and sizes of messages are the same whatever the vectors hold."""
        split = data.draw(st.sampled_from(self.ways))
        rows = data.draw(hnp.arrays(np.int64, (5, 3), elements=st.integers(-1000, 1000)))
        seen = []
        for values in (rows, np.zeros_like(rows)):
            directory, group = circle(5, split=split)
            channel = channel_of(directory)
            self.scheme.open(channel, group, 3, 1000).sum(values, FIRST)
            sent = channel.transcript.messages
            seen.append([(b.phase, b.item_bytes, b.senders.tolist(), b.receivers.tolist()) for b in sent])
        assert seen[0] == seen[1]

    def test_nobody_else_takes_part(self) -> None:
        """Messages run between senders, aggregator and receiver."""
        for split in self.ways:
            case = self.five(split=split)
            channel = channel_of(case.directory)
            self.opened(case, channel).sum(case.rows, FIRST)
            involved = {*case.group.senders.tolist(), case.group.aggregator, case.group.receiver}
            for batch in channel.transcript.messages:
                assert {*batch.senders.tolist(), *batch.receivers.tolist()} <= involved

    def test_delivery_decides_the_sum(self) -> None:
        """The sum comes from what the channel delivered, not from what was handed in: other vectors, another sum."""
        case = self.five(split=self.ways[0])
        channel = _Halving(case.directory, self.vector_phase)
        try:
            total = self.opened(case, channel).sum(case.rows, FIRST).tolist()
        except FglSecureError:
            return  # the scheme found it out
        assert total != total_of(case.rows)

    def test_claim_and_name_are_stated(self) -> None:
        """A guarantee names its source, a coalition and a statement; the scheme has a name."""
        assert self.scheme.name
        for guarantee in self.scheme.claim.guarantees:
            assert guarantee.source
            assert guarantee.statement
            assert any(guarantee.coalition.values())
            assert guarantee.strength in Strength


class _Halving(Channel):
    """Delivers the payload of one phase with every number halved."""

    def __init__(self, parties: Directory, phase: Phase) -> None:
        super().__init__(parties, SimulationCoins(0))
        self._changed = phase

    def send(  # type: ignore[no-untyped-def]  # hands all on
        self, phase, step, senders, receivers, payload, *, wire_bytes=None
    ) -> Delivery:
        said = payload // 2 if phase is self._changed else payload
        return super().send(phase, step, senders, receivers, said, wire_bytes=wire_bytes)
