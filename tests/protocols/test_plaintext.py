"""The plaintext scheme: exact sums, one message an edge, nothing promised."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from fgl_secure.coins import TapeCoins
from fgl_secure.protocols.grouped_sum import Scheme
from fgl_secure.protocols.plaintext import Path, Plaintext
from fgl_secure.protocols.topology import Grouping
from fgl_secure.runtime import Channel, Party, Phase, Role
from tests.protocols.conformance import FORWARD, SchemeConformance, Traffic, channel_of, triangle

FLOAT64_BYTES = 8
ADDRESS_BYTES = 4


class TestDirect(SchemeConformance):
    """Values sent straight to the owner of the sum."""

    scheme: ClassVar[Scheme] = Plaintext()
    lossy_phase = Phase.VALUES
    refused: ClassVar[tuple[float, ...]] = ()  # any real number can be sent as it is

    def allowed_error(self, grouping: Grouping) -> float:  # noqa: ARG002  # exact for all
        return 0.0

    def expected_traffic(self, grouping: Grouping, width: int) -> Traffic:
        m = len(grouping.source)
        return {(Phase.VALUES, Role.DEVICE, Role.DEVICE): (m, m * width * FLOAT64_BYTES)}

    def test_nothing_is_promised(self) -> None:
        """The claim is empty: no guarantee, no leak, no assumption, no public parameter."""
        assert not self.scheme.claim.guarantees
        assert not self.scheme.claim.leaks_by_design
        assert self.scheme.public.modulus is self.scheme.public.T is None

    def test_receiver_sees_the_values(self) -> None:
        """The owner of a sum sees each value bit for bit: the positive control of every attack."""
        case, values = triangle(), np.array([[0.1], [0.2], [0.3], [0.4]])
        channel = channel_of(case.directory)
        self.scheme.open(channel, case.grouping, 1).sum(values, FORWARD)
        (seen,) = channel.transcript.view([Party(Role.DEVICE, 2)]).messages(Phase.VALUES)
        assert np.asarray(seen.payload).tolist() == [[0.1], [0.2]]

    def test_enumeration_changes_nothing(self) -> None:
        """Under enumeration the payload has the tapes in front and is the same on all of them."""
        case = triangle()
        channel = Channel(case.directory, TapeCoins(3, 1))
        assert self.scheme.open(channel, case.grouping, 1).sum(np.ones((4, 1)), FORWARD)[:, 0].tolist() == [1, 0, 2, 0]


class TestThroughSilos(SchemeConformance):
    """Values sent to the silo of the owner, which adds up and answers."""

    scheme: ClassVar[Scheme] = Plaintext(Path.SILO)
    lossy_phase = Phase.VALUES
    refused: ClassVar[tuple[float, ...]] = ()  # any real number can be sent as it is

    def allowed_error(self, grouping: Grouping) -> float:  # noqa: ARG002  # exact for all
        return 0.0

    def expected_traffic(self, grouping: Grouping, width: int) -> Traffic:
        m, groups = len(grouping.source), len(grouping.group_owner)
        return {
            (Phase.ADDRESSES, Role.DEVICE, Role.SILO): (m, m * ADDRESS_BYTES),
            (Phase.VALUES, Role.DEVICE, Role.SILO): (m, m * width * FLOAT64_BYTES),
            (Phase.SUMS, Role.SILO, Role.DEVICE): (groups, groups * width * FLOAT64_BYTES),
        }

    def test_silo_sees_who_sends_what_to_whom(self) -> None:
        """The silo reads values, senders and addresses of all messages to its devices."""
        case, values = triangle(), np.array([[0.1], [0.2], [0.3], [0.4]])
        channel = channel_of(case.directory)
        self.scheme.open(channel, case.grouping, 1).sum(values, FORWARD)
        view = channel.transcript.view([Party(Role.SILO, 1)])
        (seen,), (addresses,) = view.messages(Phase.VALUES), view.messages(Phase.ADDRESSES)
        devices = case.directory.ids(Role.DEVICE)
        assert seen.senders.tolist() == devices[:2].tolist()
        assert np.asarray(seen.payload).tolist() == [[0.1], [0.2]]
        assert np.asarray(addresses.payload).tolist() == [[devices[2]], [devices[2]]]

    def test_sums_belong_to_the_caller(self) -> None:
        """The caller may write into the sums, as torch assumes of every array that it shares."""
        case = triangle()
        sums = self.scheme.open(channel_of(case.directory), case.grouping, 1).sum(np.ones((4, 1)), FORWARD)
        assert sums.flags.writeable

    def test_path_is_in_the_name(self) -> None:
        """The two paths are told apart by name."""
        assert (Plaintext().name, Plaintext(Path.SILO).name) == ("plaintext", "plaintext[path=silo]")
