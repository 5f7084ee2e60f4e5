"""Grouped sums in the clear: the oracle of correctness, and the unprotected run that attacks must break."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.protocols.grouped_sum import Scheme, Session
from fgl_secure.protocols.topology import Grouping, Ids, Reals, Route
from fgl_secure.runtime import Channel, Claim, Delivery, Phase, PublicParameters, Step


class Path(StrEnum):
    """Which way values in the clear travel."""

    DIRECT = "direct"
    SILO = "silo"


@dataclass(frozen=True, slots=True)
class Plaintext(Scheme):
    """Every row is sent as it is, and the receiver adds up.

    Attributes:
        minimum_group: least messages of a sum that is computed, to compare with schemes that refuse small groups.
        path: DIRECT sends each value to the owner of its sum. SILO sends it to the silo of that owner, which adds
            up: how frameworks work that let silos read the neighbours of their nodes, the setting that HiFGL's
            leakage measure (A.1, Eq. 6) was made for.
    """

    path: Path = Path.DIRECT
    minimum_group: int = 1

    @property
    def name(self) -> str:
        """`plaintext`, with the path and the least group where they differ from the default."""
        extras = [
            "path=silo" if self.path is Path.SILO else "",
            f"k_min={self.minimum_group}" if self.minimum_group > 1 else "",
        ]
        named = ",".join(extra for extra in extras if extra)
        return f"plaintext[{named}]" if named else "plaintext"

    @property
    def claim(self) -> Claim:
        """No promise."""
        return Claim(guarantees=(), leaks_by_design=(), assumptions=())

    def gradient_scheme(self, members: int) -> None:  # whatever the silo's size
        """None: nothing is hidden."""

    def fixed_point(self, terms: int) -> None:  # real numbers
        """None: values are summed as they are."""

    @property
    def relays(self) -> int:
        """None."""
        return 0

    @property
    def public(self) -> PublicParameters:
        """Nothing to know."""
        return PublicParameters()

    @property
    def variants(self) -> tuple[Scheme, ...]:
        """None: the silo path is a reference for attacks, not a reading of anything."""
        return ()

    def open(self, channel: Channel, grouping: Grouping, width: int) -> Session:  # noqa: ARG002  # any width will do
        """Needs no set-up."""
        return _PlaintextSession(channel, grouping, self)


class _PlaintextSession(Session):
    def __init__(self, channel: Channel, grouping: Grouping, scheme: Plaintext) -> None:
        self._channel, self._path = channel, scheme.path
        self._routes = Route.both_ways(grouping, scheme.minimum_group)

    def sum(self, values: Reals, step: Step) -> NDArray[np.float64]:
        route = self._routes[step.direction]
        way = route.way
        route.check_values(values)
        self._channel.note_inputs("values", step, way.row_owner, values)
        readers = route.receivers if self._path is Path.DIRECT else route.custodians
        if self._path is Path.SILO:
            addresses = route.receivers.astype(np.int32)[:, None]
            self._send(Phase.ADDRESSES, step, route.senders, readers, addresses)
        arrived = self._send(Phase.VALUES, step, route.senders, readers, values[way.source])
        sums = route.arrived(arrived).real_sums(self._one_tape(arrived))
        if self._path is Path.DIRECT:
            return sums
        return self._one_tape(self._send(Phase.SUMS, step, way.group_custodian, way.group_owner, sums)).copy()

    def _send(self, phase: Phase, step: Step, senders: Ids, receivers: Ids, payload: NDArray[Any]) -> Delivery:
        on_every_tape = np.broadcast_to(payload, self._channel.batch_shape + payload.shape)
        return self._channel.send(phase, step, senders, receivers, on_every_tape)

    def _one_tape(self, delivery: Delivery) -> NDArray[np.float64]:
        tape = (0,) * len(self._channel.batch_shape)  # no coin is drawn, so all tapes are alike
        return np.asarray(delivery.payload[tape])
