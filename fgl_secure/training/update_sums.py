"""How the updates of clients become their weighted mean: in the clear, or by a sum in stages."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra import Quantizer
from fgl_secure.errors import InputError
from fgl_secure.protocols.staged.interface import SESSION_BYTES, StagedScheme, SumTerms
from fgl_secure.protocols.staged.recorded import run_recorded
from fgl_secure.runtime import Channel, Phase, Role, Step

Ids = NDArray[np.int64]

COUNT_BYTES = 8
BOUND = 64.0
"""Largest magnitude of an entry of an update; more is refused."""
FRACTION_BITS = 30
"""Most bits behind the binary point."""
REMEDY = "lower the learning rate, or scale the features"


class UpdateSum(ABC):
    """Brings clients' updates to the server."""

    @abstractmethod
    def __call__(self, rows: NDArray[np.float32], weights: Ids, step: Step) -> NDArray[np.float64]:
        """The weighted mean as the server learns it.

        Args:
            rows: float32 [K, P], the update of each client.
            weights: int64 [K], at least 1 each.
            step: when.

        Returns:
            float64 [P].
        """


class ClearUpdates(UpdateSum):
    """Every client sends its update and its weight as they are.

    Args:
        channel: between server and clients.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._clients = channel.parties.ids(Role.SILO)
        self._server = np.full(len(self._clients), channel.parties.ids(Role.SERVER)[0])

    def __call__(self, rows: NDArray[np.float32], weights: Ids, step: Step) -> NDArray[np.float64]:
        """Records the updates as messages and takes their mean."""
        arrived = self._channel.send(Phase.GRADIENT, step, self._clients, self._server, rows)
        self._channel.send(Phase.COUNTS, step, self._clients, self._server, weights[:, None])
        mean: NDArray[np.float64] = np.average(arrived.payload.astype(np.float64), axis=0, weights=weights)
        return mean


def note_learnt(channel: Channel, mean: NDArray[np.float64], clients: int, step: Step) -> None:
    """Notes what the server of a secured round learns.

    Args:
        channel: between server and clients.
        mean: float64 [P], the weighted mean of the updates; times the number of clients it is noted as their sum,
            which it is where weights are equal.
        clients: how many are in it; all of them.
        step: when.
    """
    server = channel.parties.ids(Role.SERVER)
    channel.note_inputs("gradient sum", step, server, clients * mean[None])
    channel.note_inputs("participants", step, np.repeat(server, clients), np.arange(clients)[:, None])


class StagedSums:
    """Sums of integer vectors of all clients of a channel, one for each step.

    Args:
        scheme: adds integers up.
        channel: between server and clients; gives the coins.
    """

    def __init__(self, scheme: StagedScheme, channel: Channel) -> None:
        self._scheme, self._channel = scheme, channel
        self._clients = channel.parties.ids(Role.SILO)
        self._server = int(channel.parties.ids(Role.SERVER)[0])
        self._session = bytes(channel.coins.uniform(256, (SESSION_BYTES,)).tolist())
        self._last: int | None = None
        self.threshold = scheme.threshold_for(len(self._clients))

    def quantizer(self, bound: float, most_bits: int, heaviest: int = 1) -> Quantizer:
        """What makes integers of clients' numbers up to a bound, for sums with weights up to `heaviest`."""
        terms = len(self._clients)
        limit = self._scheme.limit(terms)
        return Quantizer.for_sums(bound=bound, limit=limit, terms=terms, heaviest=heaviest, most_bits=most_bits)

    def __call__(self, rows: NDArray[np.int64], bound: int, step: Step) -> NDArray[np.int64]:
        """The sum int64 [length] of rows int64 [K, length] of magnitude up to the bound.

        Raises:
            InputError: the round is not above that of the sum before. It numbers the sum, to which all messages are
                bound: those of two sums of one number could be taken for each other.
        """
        if self._last is not None and step.round <= self._last:
            raise InputError(
                f"rounds of secured sums must ascend, as messages are bound to their numbers; found {step.round} after "
                f"{self._last}"
            )
        self._last = step.round
        terms = SumTerms(self._session, step.round, len(rows), self.threshold, rows.shape[1], bound)
        return run_recorded(self._scheme, terms, rows, self._channel, self._clients, self._server, step)


class StagedUpdates(UpdateSum):
    """The server learns the weighted sum of the updates and the sum of the weights, and nothing of a single client.

    Every entry is rounded to a multiple of 2^-f and multiplied by the client's weight, so the mean is off by
    2^-(f + 1) at most.

    Args:
        scheme: adds integers up.
        channel: between server and clients; gives the coins.
        heaviest: the largest weight that a client may have; public.
    """

    def __init__(self, scheme: StagedScheme, channel: Channel, heaviest: int) -> None:
        self._channel, self._heaviest = channel, heaviest
        self._sums = StagedSums(scheme, channel)
        self.grid = self._sums.quantizer(BOUND, FRACTION_BITS, heaviest)

    def __call__(self, rows: NDArray[np.float32], weights: Ids, step: Step) -> NDArray[np.float64]:
        """Runs the stages and notes what the server learns."""
        units = self._units(rows, weights)
        total = self._sums(units, self.grid.largest * self._heaviest, step)
        mean = self.grid.decode(total[:-1], int(total[-1]))
        note_learnt(self._channel, mean, len(rows), step)
        return mean

    def _units(self, rows: NDArray[np.float32], weights: Ids) -> NDArray[np.int64]:
        """Int64 [K, P + 1]: the weighted entries in fixed point, then the weight."""
        if int(weights.min()) < 1 or int(weights.max()) > self._heaviest:
            raise InputError(f"weights must lie in 1..{self._heaviest:,}; at least one does not")
        fixed = self.grid.encode(rows, "updates", REMEDY)
        return np.concatenate([fixed * weights[:, None], weights[:, None]], axis=1)
