"""Networks without the messages of absent devices, and with those of deviating ones."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.runtime import PAYLOAD, Messages, Phase, Step, Tampered
from fgl_secure.typing import Ids

CARRYING = (Phase.VALUES, Phase.CODES, Phase.SHARE_HEADERS, Phase.SHARE_SEEDS, Phase.SHARES, Phase.SEALED)
"""Messages that an absent device does not send; of what is sealed for relays, those of which each device sends several:
shares, where relays are not to see the graph. What fetches its own sum is one for each relay."""


@dataclass(slots=True, eq=False)
class Absence:
    """A network without the messages of devices that are not there.

    Attributes:
        absent: bool [rounds, n].
        first: identifier of the first device.
        effective: whether any message of a device was left out.
    """

    absent: NDArray[np.bool_]
    first: int
    effective: bool = False

    def __call__(self, phase: Phase, step: Step, senders: Ids, receivers: Ids) -> NDArray[np.bool_]:
        """Bool [m]: which messages arrive."""
        arrives = np.ones(len(receivers), dtype=np.bool_)
        devices = self.absent.shape[1]
        of_devices = (senders >= self.first) & (senders < self.first + devices)
        several = phase is not Phase.SEALED or len(np.unique(senders)) < len(senders)
        if phase in CARRYING and several and len(senders) and bool(of_devices.all()):
            arrives = ~self.absent[step.round, senders - self.first]
            self.effective |= not arrives.all()
        return arrives


@dataclass(slots=True, eq=False)
class Silence:
    """A network in which nothing that silent devices seal for relays reaches their silos.

    Attributes:
        by_round: int64 [rounds, k], identifiers of silent devices; others for nobody.
    """

    by_round: Ids = field(default_factory=lambda: np.empty((0, 2), dtype=np.int64))

    def __call__(self, phase: Phase, step: Step, senders: Ids, receivers: Ids) -> NDArray[np.bool_]:
        """Bool [m]: which messages arrive."""
        if phase is not Phase.SEALED:
            return np.ones(len(receivers), dtype=np.bool_)
        return ~np.isin(senders, self.by_round[step.round])


@dataclass(slots=True, eq=False)
class Deviation:
    """Devices that send the codes of their first neighbour where the protocol has them send a sum.

    Attributes:
        devices: int64 [k], those with several neighbours.
        chosen: int64 [k], the neighbour of each.
    """

    devices: Ids = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    chosen: Ids = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    codes: NDArray[Any] | None = None

    def __call__(self, messages: Messages) -> Tampered | None:
        """Remembers codes, and puts those of one neighbour in the place of aggregates."""
        phase, senders, receivers = messages.phase, messages.senders, messages.receivers
        if phase is Phase.CODES:
            order = np.lexsort((senders, receivers))
            owners, first, counts = np.unique(receivers[order], return_index=True, return_counts=True)
            rows, several = order[first], counts > 1
            self.devices, self.chosen, self.codes = (
                owners[several],
                senders[rows[several]],
                messages[PAYLOAD][rows[several]],
            )
        if phase is not Phase.AGGREGATE or self.codes is None:
            return None
        sent = messages[PAYLOAD].copy()
        sent[np.searchsorted(senders, self.devices)] = self.codes
        return Tampered.of_payload(np.arange(len(senders)), sent)
