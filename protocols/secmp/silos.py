"""Silos: they draw mu once, hand it out, and decode sums of codes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import numpy as np

from fgl_secure.coins import distinct_elements
from fgl_secure.errors import MalformedMessageError
from fgl_secure.protocols.hosting import Due
from fgl_secure.protocols.secmp.setting import (
    NEVER,
    Mu,
    MuDelivery,
    Points,
    Setting,
    check_elements,
    fetches,
    silo_decode,
)
from fgl_secure.protocols.stepwise import StepwiseMachine
from fgl_secure.protocols.topology import Grouping, Route
from fgl_secure.runtime import PAYLOAD, Draws, Messages, Phase, Step
from fgl_secure.typing import Array, Ids

ROUNDS, FETCHING, MU, REQUESTS, AGGREGATES = "rounds of mu", "fetching", "mu", "requests", "aggregates"


class Silos(StepwiseMachine):
    """Silos of the targets.

    Args:
        parties: int64 [k], ascending identifiers of those hosted.
        setting: what everybody knows.
        draws: their coins.
        points: of every silo; None lets each draw its own.
    """

    keeps: ClassVar[frozenset[str]] = frozenset({FETCHING, REQUESTS, f"{REQUESTS} at", AGGREGATES, f"{AGGREGATES} at"})
    lasting: ClassVar[frozenset[str]] = frozenset({ROUNDS, MU})
    always: ClassVar[frozenset[str]] = frozenset({FETCHING})

    def __init__(self, parties: Ids, setting: Setting, draws: Draws, points: Points | None) -> None:
        super().__init__(parties, setting.terms)
        self._setting, self._axis = setting, len(setting.tapes)
        self._requests = {way: _requests(route, parties) for way, route in setting.routes.items()}
        self._aggregates = {way: _aggregates(route.way, parties) for way, route in setting.routes.items()}
        self._kept[ROUNDS] = np.full(2, NEVER)
        self._kept[MU] = self._drawn(draws, points).rows(setting.field.dtype)

    def begin(self, step: Step, rows: Array | None = None) -> None:
        """See `SumMachine.begin`; silos have no rows."""
        self._start(step, rows, 0, self._setting.width)
        self._kept[FETCHING] = np.array([fetches(self._setting, self._kept[ROUNDS], step)])

    def take(self, messages: Messages) -> None:
        """Takes requests for mu, or sums of codes; see `Machine.take`."""
        empty = self._current(messages)[PAYLOAD].shape[self._axis + 1 :] == (0,)
        if messages.phase is Phase.PARAMETER_REQUEST and self._kept[FETCHING][0] and empty:
            name, due = REQUESTS, self._requests[self.now.direction]
        elif messages.phase is Phase.AGGREGATE:
            check_elements(self._setting, messages, self._setting.T + 1, None)
            name, due = AGGREGATES, self._aggregates[self.now.direction]
        else:
            raise MalformedMessageError(f"messages must be due; found {messages.phase.label}")
        found, places = self._placed(due, messages)
        self._gather(name, places, found[PAYLOAD], self._axis)

    def turn(self) -> Iterable[Messages]:
        """Mu to those who have asked, or unasked to the targets; then the decoded sums."""
        turn, by_target = self._next(), self._setting.delivery is MuDelivery.TARGET
        if self._kept[FETCHING][0] and turn == 1:
            rounds = self._kept[ROUNDS].copy()
            rounds[self._setting.slot(self.now)] = self.now.round
            self._kept[ROUNDS] = rounds
            return self._handed(self._aggregates[self.now.direction]) if by_target else ()
        if REQUESTS in self._kept:
            self._kept.pop(REQUESTS)
            asked, due = self._kept.pop(f"{REQUESTS} at"), self._requests[self.now.direction]
            return self._handed(
                due if len(asked) == len(due.senders) else Due(due.senders[asked], due.receivers[asked])
            )
        return self._decoded() if AGGREGATES in self._kept else ()

    @property
    def sums(self) -> None:
        """None: what silos decode is for their devices."""

    def _drawn(self, draws: Draws, points: Points | None) -> Mu:
        T, modulus = self._setting.T, self._setting.field.modulus
        found = [
            distinct_elements(draws.coins, modulus, 2 * T + 2) if points is None else [*points.alphas, *points.betas]
            for _ in self.parties
        ]
        table = np.array(found, dtype=np.int64).reshape(len(self.parties), 2 * T + 2)
        draws.note_coins("alphas and betas", self.parties, table)
        z = draws.draw("z", self.parties, modulus, (T, self._setting.width))
        return Mu(table[:, : T + 1], table[:, T + 1 :], z)

    def _handed(self, to: Due) -> Iterable[Messages]:
        """Its silo's mu to each that has asked."""
        rows = np.take(self._kept[MU], np.searchsorted(self.parties, to.receivers), axis=self._axis)
        return (self._say(Phase.PARAMETERS, to.receivers, to.senders, rows),)

    def _decoded(self) -> Iterable[Messages]:
        aggregates, at, due = (
            self._kept.pop(AGGREGATES),
            self._kept.pop(f"{AGGREGATES} at"),
            self._aggregates[self.now.direction],
        )
        devices, silos = due.senders[at], due.receivers[at]
        mu = Mu.from_rows(self._kept[MU], self._setting.T)
        decoded = silo_decode(self._setting.field, aggregates, mu, np.searchsorted(self.parties, silos))
        return (self._say(Phase.DECODED, silos, devices, decoded),)

    def _say(self, phase: Phase, senders: Ids, receivers: Ids, payload: Array) -> Messages:
        return Messages(phase, self.now, senders, receivers, {PAYLOAD: payload}, self._axis)


def _requests(route: Route, silos: Ids) -> Due:
    """Requests of all sources with a target in one of some silos."""
    own = np.isin(route.custodians, silos)
    if own.all():
        return Due(route.senders, route.custodians)
    return Due(route.senders[own], route.custodians[own])


def _aggregates(way: Grouping, silos: Ids) -> Due:
    """Sums of codes of all devices of some silos that somebody sends to."""
    asking = np.unique(way.target)
    owners, custodians = way.group_owner[asking], way.group_custodian[asking]
    own = np.isin(custodians, silos)
    return Due(owners[own], custodians[own])
