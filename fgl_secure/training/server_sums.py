"""Sums of one real vector of every client for the server: in the clear, or by a sum in stages.

A weighted mean is such a sum: of the weighted rows, and of the weights beside them. So the server learns a mean without
a single weight, and every method whose server averages something is written against `ServerSums`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import cast

import numpy as np
from numpy.typing import NDArray

from fgl_secure.errors import FieldRangeError, InputError
from fgl_secure.protocols.promising import Promising
from fgl_secure.protocols.staged.interface import StagedScheme
from fgl_secure.runtime import Channel, Phase, Role, Step
from fgl_secure.training.update_sums import StagedSums

Reals = NDArray[np.float64]

BOUND = 64.0
"""Largest magnitude of an entry; more is refused."""
FRACTION_BITS = 32
"""Bits behind the binary point; fewer where a scheme has no room for them."""

CLEAR = "plaintext"
"""The scheme under which every client sends its vector as it is."""

SERVER_SUM = "server sum"
"""What the server of a secured round learns: the sum, one row."""
PARTICIPANTS = "participants"
"""The clients in it, one a row."""


class ServerSums(ABC):
    """Adds one vector of every client up for the server."""

    @abstractmethod
    def __call__(self, rows: Reals, step: Step) -> Reals:
        """The sum over the clients, as the server learns it.

        Args:
            rows: float64 [K, P], the vector of each client, entries of magnitude up to `BOUND`.
            step: when; rounds ascend from call to call.

        Returns:
            float64 [P], every entry off by K 2^-(f + 1) at most, where f is the number of bits behind the point.

        Raises:
            InputError: an entry is not finite or too large, or under a scheme the round is not above that of the call
                before; nothing was sent.
        """


class ClearSums(ServerSums):
    """Every client sends its vector as it is, on the grid that secured sums use: equal seeds give equal bits.

    Args:
        channel: between server and clients.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._clients = channel.parties.ids(Role.SILO)
        self._server = np.full(len(self._clients), channel.parties.ids(Role.SERVER)[0])

    def __call__(self, rows: Reals, step: Step) -> Reals:
        """Records the vectors as messages and adds them up."""
        units = _units(rows, FRACTION_BITS)
        sent = units / 2.0**FRACTION_BITS
        self._channel.send(Phase.SUMMANDS, step, self._clients, self._server, sent)
        return _reals(units.sum(axis=0), FRACTION_BITS)


class SecuredSums(ServerSums):
    """The server learns the sum, and nothing of a single client.

    Args:
        scheme: adds integers up.
        channel: between server and clients; gives the coins.
    """

    def __init__(self, scheme: StagedScheme, channel: Channel) -> None:
        self._channel = channel
        self._sums = StagedSums(scheme, channel)
        room = np.floor(np.log2(max(self._sums.room / BOUND, 0.5)))
        self.fraction_bits = int(min(FRACTION_BITS, room))
        if self.fraction_bits < 1:
            raise FieldRangeError(
                f"bound of the entries must leave a bit behind the point under {scheme.name}; found {BOUND:g}"
            )

    def __call__(self, rows: Reals, step: Step) -> Reals:
        """Runs the stages and notes what the server learns."""
        units = _units(rows, self.fraction_bits)
        total = _reals(self._sums(units, int(BOUND * 2.0**self.fraction_bits), step), self.fraction_bits)
        server = self._channel.parties.ids(Role.SERVER)
        self._channel.note_inputs(SERVER_SUM, step, server, total[None])
        self._channel.note_inputs(PARTICIPANTS, step, np.repeat(server, len(rows)), np.arange(len(rows))[:, None])
        return total


def server_sums(scheme: StagedScheme | None, channel: Channel) -> ServerSums:
    """The sums of a scheme; in the clear where there is none."""
    return ClearSums(channel) if scheme is None else SecuredSums(scheme, channel)


def hiding(runs: Iterable[Mapping[str, Promising]], clients: int) -> tuple[StagedScheme | None, ...]:
    """For each run the scheme for its server's sums; None in the clear.

    Args:
        runs: schemes by topology, one of them for "server".
        clients: how many there are.

    Raises:
        InputError: too few clients for a scheme or its threshold.
    """
    schemes = tuple(cast(StagedScheme, run["server"]) for run in runs)
    secured = tuple(None if scheme.name == CLEAR else scheme for scheme in schemes)
    for scheme in secured:
        if scheme is not None:
            scheme.threshold_for(clients)
    return secured


def _units(rows: Reals, fraction_bits: int) -> NDArray[np.int64]:
    if not np.isfinite(rows).all() or float(np.abs(rows).max(initial=0.0)) > BOUND:
        raise InputError(
            f"summands must be finite and of magnitude up to {BOUND:g}; at least one entry is not: scale the features "
            "or lower the learning rate"
        )
    return np.rint(rows.astype(np.float64) * 2.0**fraction_bits).astype(np.int64)


def _reals(total: NDArray[np.int64], fraction_bits: int) -> Reals:
    return total / 2.0**fraction_bits
