"""Vectors of all clients in the clear to the one party that is entitled to their sum."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np

from fgl_secure.algebra import MERSENNE_61
from fgl_secure.errors import FglSecureError, InputError, MalformedMessageError, ProtocolError, TooFewClientsError
from fgl_secure.protocols.stepwise import StepwiseMachine, SumTerms
from fgl_secure.protocols.topology import Topology, check_rows
from fgl_secure.runtime import PAYLOAD, Messages, Phase, Step
from fgl_secure.typing import Array, Ids

TOTAL, THERE, DONE = "total", "there", "sum is done"


class Clients(StepwiseMachine):
    """Clients, who hand in a vector each.

    Args:
        parties: int64 [k], ascending identifiers of those hosted.
        terms: of one sum of all clients.
    """

    keeps: ClassVar[frozenset[str]] = frozenset({"rows"})

    def __init__(self, parties: Ids, terms: SumTerms) -> None:
        super().__init__(parties, terms)
        topology = self._topology = terms.topology
        self._owners = topology.senders[np.isin(topology.senders, parties)]

    def begin(self, step: Step, rows: Array | None = None) -> None:
        """See `SumMachine.begin`."""
        if rows is not None:
            check_values(rows, self._topology)
        self._start(step, rows, len(self._owners), self._topology.width)

    def take(self, messages: Messages) -> None:
        """Takes nothing."""
        raise MalformedMessageError(f"clients must be told nothing here; found {messages.phase.label}")

    def turn(self) -> Iterable[Messages]:
        """The vectors, once."""
        if self._next() > 1:
            return ()
        rows, to = self._kept["rows"], np.full(len(self._owners), self._topology.receiver, dtype=np.int64)
        fields = {PAYLOAD: np.broadcast_to(rows, self._tapes + rows.shape)}
        return (Messages(Phase.VECTORS, self.now, self._owners, to, fields, self._tape_axes),)

    @property
    def over(self) -> bool:
        """See `SumMachine.over`."""
        return self._turns > 0

    @property
    def sums(self) -> None:
        """None: clients are told none."""


class Adder(StepwiseMachine):
    """The party that is entitled to the sum, and adds up.

    Args:
        parties: int64 [1], its identifier.
        terms: of one sum of all clients.
        threshold: least clients whose vectors must be there.
    """

    keeps: ClassVar[frozenset[str]] = frozenset({TOTAL, THERE, DONE})

    def __init__(self, parties: Ids, terms: SumTerms, threshold: int) -> None:
        super().__init__(parties, terms)
        self._topology, self._threshold = terms.topology, threshold

    def begin(self, step: Step, rows: Array | None = None) -> None:
        """See `SumMachine.begin`."""
        self._start(step, rows, 0, self._topology.width)

    def take(self, messages: Messages) -> None:
        """Takes vectors, and adds them up as they come; see `Machine.take`."""
        if self._current(messages).phase is not Phase.VECTORS or DONE in self._kept:
            raise MalformedMessageError("messages must be vectors, and come before their sum is done; they do not")
        self._check_ends(messages)
        rows, there = messages[PAYLOAD][(0,) * self._tape_axes], self._there
        check_values(rows, self._topology, MalformedMessageError)
        found, first = np.unique(messages.senders, return_index=True)
        if not np.isin(found, self._topology.senders).all() or np.isin(found, there).any():
            raise ProtocolError("vectors must be one of each client; found another, or a second one")
        modular = self._topology.bound is None and rows.dtype.kind != "f"
        total = _residue(rows[first]) if modular else rows[first].sum(axis=0)
        if TOTAL in self._kept:
            if (self._kept[TOTAL].shape, self._kept[TOTAL].dtype) != (total.shape, total.dtype):
                raise MalformedMessageError("vectors must be of one length and type; they are not")
            total = total + self._kept[TOTAL]
            total = total % MERSENNE_61 if modular else total
        self._kept[TOTAL], self._kept[THERE] = total, np.union1d(there, found)

    def turn(self) -> Iterable[Messages]:
        """Nothing. All vectors that will come have come when there are any, or at the second turn.

        Raises:
            TooFewClientsError: they are fewer than the threshold.
        """
        if self._next() == 1 and TOTAL not in self._kept:
            return ()
        if len(self._there) < self._threshold:
            raise TooFewClientsError(
                f"at least threshold = {self._threshold} of {len(self._topology.senders)} clients must hand in a "
                f"vector; found {len(self._there)}"
            )
        self._kept[DONE] = np.ones(1, dtype=np.bool_)
        return ()

    @property
    def over(self) -> bool:
        """See `SumMachine.over`."""
        return DONE in self._kept

    @property
    def sums(self) -> Array | None:
        """[1, d] without a tape axis: float64 of reals, int64 else; residues where integers have no bound."""
        return self._kept[TOTAL][None].copy() if DONE in self._kept else None

    @property
    def included(self) -> Ids | None:
        """See `SumMachine.included`."""
        return self._there.copy() if DONE in self._kept else None

    @property
    def _there(self) -> Ids:
        return self._kept.get(THERE, np.empty(0, dtype=np.int64))


def check_values(
    rows: Array,
    topology: Topology,
    error: type[FglSecureError] = InputError,
    reals: tuple[type[np.floating[Any]], ...] = (np.float64,),
) -> None:
    """Raises unless rows are vectors of a topology; reals have no bound, and are finite numbers of some types."""
    if rows.dtype not in reals:
        check_rows(rows, topology, error)
    elif rows.ndim != 2 or not 1 <= rows.shape[1] <= topology.width or not _finite(rows):
        raise error(f"rows must be finite [n, d] with 1 <= d <= {topology.width}; found {list(rows.shape)}, or others")


def _finite(rows: Array) -> bool:
    """Whether all are: a sum of squares that is finite has no other terms, and no flags have to be laid out."""
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(np.vdot(rows, rows))) or bool(np.isfinite(rows).all())


def _residue(rows: Array) -> Array:
    """The sum of the rows modulo 2^61 - 1; 2^2 of them would be too many for an int64 at once."""
    total = np.zeros(rows.shape[1], dtype=np.int64)
    for row in rows:
        total = (total + row) % MERSENNE_61
    return total
