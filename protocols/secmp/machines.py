"""Devices, who encode embeddings and add codes up, and silos, who draw mu once and decode sums of codes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import numpy as np

from fgl_secure.coins import distinct_elements
from fgl_secure.errors import InputError, MalformedMessageError, ProtocolError
from fgl_secure.protocols.hosting import Due, HostedRoute
from fgl_secure.protocols.secmp.setting import (
    NEVER,
    Mu,
    MuDelivery,
    Points,
    SecMPSetting,
    silo_decode,
    source_encode,
    target_aggregate,
)
from fgl_secure.protocols.stepwise import StepwiseMachine
from fgl_secure.protocols.topology import Grouping, Route
from fgl_secure.runtime import PAYLOAD, Draws, Messages, Phase, Step
from fgl_secure.typing import Array, Ids

ROUNDS, FETCHING, COPIES, CODES, DECODED, SUMS = "rounds of mu", "fetching", "copies of mu", "codes", "decoded", "sums"
_SLOTS = ("first mu", "second mu")


def _check_elements(setting: SecMPSetting, messages: Messages, *item: int | None) -> None:
    """Raises unless every message carries field elements of a shape; shows no value.

    Args:
        setting: of the run.
        messages: on as many tapes as the run has.
        item: of one message's payload; None for 1 to `width` coordinates.

    Raises:
        MalformedMessageError: another type or shape, or a value is no element.
    """
    payload, field = messages[PAYLOAD], setting.field
    shape = payload.shape[len(setting.tapes) + 1 :]
    fits = len(shape) == len(item) and all(
        1 <= result <= setting.width if wanted is None else result == wanted
        for result, wanted in zip(shape, item, strict=True)
    )
    if payload.dtype != field.dtype or not fits:
        wanted = [f"1..{setting.width}" if size is None else size for size in item]
        raise MalformedMessageError(
            f"{messages.phase.label} must be {field.dtype} {wanted} a message; found {payload.dtype} {list(shape)}"
        )
    unsigned = payload.view(f"u{payload.itemsize}")  # in which a negative number is beyond all elements
    if payload.size and int(unsigned.max()) >= field.modulus:
        raise MalformedMessageError(f"{messages.phase.label} must carry elements of the field; at least one is none")


def _fetches(setting: SecMPSetting, rounds: Ids, step: Step) -> bool:
    """Whether mu travels in a step: once a round for each set of messages (Algorithm 1, lines 6 and 7).

    Args:
        setting: of the run.
        rounds: int64 [2], the round in which mu travelled last, by slot.
        step: the current one.
    """
    return not setting.is_empty(step) and int(rounds[setting.slot(step)]) != step.round


class SecMPDevices(StepwiseMachine):
    """Owners of rows and of sums.

    Args:
        parties: int64 [k], ascending identifiers of those hosted.
        setting: what every party knows.
    """

    keeps: ClassVar[frozenset[str]] = frozenset({
        "rows", FETCHING, COPIES, f"{COPIES} at", CODES, f"{CODES} at", DECODED, f"{DECODED} at", SUMS
    })  # fmt: skip
    lasting: ClassVar[frozenset[str]] = frozenset({ROUNDS, *_SLOTS})
    always: ClassVar[frozenset[str]] = frozenset({FETCHING})

    def __init__(self, parties: Ids, setting: SecMPSetting) -> None:
        super().__init__(parties, setting.terms)
        self._setting, self._axis = setting, len(setting.tapes)
        self._parts = {way: HostedRoute.of(route, parties) for way, route in setting.routes.items()}
        self._silo_of = {way: np.searchsorted(setting.silos, part.custodians) for way, part in self._parts.items()}
        self._answers = {way: _answers(route.way, self._parts[way]) for way, route in setting.routes.items()}
        self._waiting[ROUNDS] = np.full(2, NEVER)

    def begin(self, step: Step, rows: Array | None = None) -> None:
        """See `SumMachine.begin`; rows are field elements, no wider than the masks."""
        most = self._setting.field.modulus - 1
        if rows is not None and (rows.dtype.kind != "i" or (rows.size and not 0 <= rows.min() <= rows.max() <= most)):
            raise InputError(f"rows must be elements 0..{most}; found {rows.dtype}, or others")
        self._start(step, rows, self._parts[step.direction].rows, self._setting.width)
        self._waiting[FETCHING] = np.array([_fetches(self._setting, self._waiting[ROUNDS], step)])

    def receive(self, messages: Messages) -> None:
        """Takes mu, codes or decoded sums; see `Machine.take`."""
        setting = self._setting
        self._current(messages)
        width = self._waiting["rows"].shape[1] if "rows" in self._waiting else None
        if messages.phase is Phase.PARAMETERS and self._fetching():
            _check_elements(setting, messages, setting.mu_width)
            # Raises MalformedMessageError unless the points of every mu are all distinct, as interpolation needs them.
            points = np.sort(messages[PAYLOAD][..., : setting.points], axis=-1)
            if (points[..., 1:] == points[..., :-1]).any():
                raise MalformedMessageError("interpolation points of a silo must be all distinct; at least two are not")
            self._keep(COPIES, self._mu_due(), messages)
        elif messages.phase is Phase.CODES:
            _check_elements(setting, messages, setting.T + 1, width)
            self._keep(CODES, self._part.due, messages)
        elif messages.phase is Phase.DECODED:
            _check_elements(setting, messages, width)
            self._keep(DECODED, self._answers[self.now.direction], messages)
        else:
            raise MalformedMessageError(f"messages must be due; found {messages.phase.label}")

    def step(self) -> Iterable[Messages]:
        """Mu first, where it is missing; then codes, then sums of codes, and then the sums are there.

        Raises:
            ProtocolError: a message about mu is missing: the published scheme has no way on without it.
        """
        turn = self._next()
        if self._setting.is_empty(self.now):
            self._waiting[SUMS] = self._zeros(len(self._part.groups))
            return ()
        if self._fetching() and turn <= 2:  # a request and an answer, or twice handed on
            return self._fetch(turn)
        after = turn - 2 * int(self._fetching())
        if after == 1:
            if self._fetching():
                self._note_mu()
            return self._send_codes()
        if after == 2:  # when codes are there
            return self._send_aggregates()
        if after > 3 and SUMS not in self._waiting:  # when the silos have answered
            self._waiting[SUMS] = self._read_sums()
        return ()

    @property
    def sums(self) -> Array | None:
        """Elements [*tapes, h, d]; zero for a device that was not answered."""
        return self._waiting.get(SUMS)

    @property
    def _part(self) -> HostedRoute:
        return self._parts[self.now.direction]

    def _fetching(self) -> bool:
        return bool(self._waiting[FETCHING][0])

    # Mu

    def _mu_due(self) -> Due:
        part, by_target = self._part, self._setting.delivery is MuDelivery.TARGET
        if by_target and self._turns == 1:
            return self._answers[self.now.direction]
        return Due(part.leaving.receivers if by_target else part.custodians, part.leaving.senders)

    def _fetch(self, turn: int) -> Iterable[Messages]:
        part = self._part
        if self._setting.delivery is MuDelivery.SILO:
            if turn > 1 or not part.rows:
                return ()
            empty = np.empty((*self._setting.tapes, len(part.custodians), 0), dtype=np.int8)
            return (self._send(Phase.PARAMETER_REQUEST, part.leaving.senders, part.custodians, empty),)
        if turn == 1:
            return ()
        copies = self._copies(self._answers[self.now.direction])
        of_group = np.searchsorted(part.asking, part.target)
        passed = np.take(copies, of_group, axis=self._axis)
        return (self._send(Phase.PARAMETERS, part.due.receivers, part.due.senders, passed),) if len(part.groups) else ()

    def _copies(self, due: Due) -> Array:
        """All copies of mu that were due.

        Raises:
            ProtocolError: one is missing.
        """
        arrived = self._waiting.pop(f"{COPIES} at", np.empty(0, dtype=np.int64))
        copies = self._waiting.pop(COPIES, np.empty((*self._setting.tapes, 0, self._setting.mu_width), dtype=np.int64))
        if len(arrived) < len(due.senders):
            lost = int(np.setdiff1d(np.arange(len(due.senders)), arrived)[0])
            raise ProtocolError(
                f"a source cannot encode: the message about coding parameters from party {due.senders[lost]} to party "
                f"{due.receivers[lost]} in round {self.now.round} did not arrive"
            )
        return copies

    def _note_mu(self) -> None:
        """Keeps one mu of each silo: all copies of one are alike, so the first that arrived stands for all."""
        setting, copies = self._setting, self._copies(self._mu_due())
        present, first = np.unique(self._silo_of[self.now.direction], return_index=True)
        table = np.zeros((*setting.tapes, len(setting.silos), setting.mu_width), dtype=copies.dtype)
        table[..., present, :] = np.take(copies, first, axis=self._axis)
        absent = np.setdiff1d(np.arange(len(setting.silos)), present)
        table[..., absent, : setting.points] = np.arange(setting.points)  # no party asked these: any points will do
        slot, rounds = setting.slot(self.now), self._waiting[ROUNDS].copy()
        rounds[slot] = self.now.round
        self._waiting[_SLOTS[slot]], self._waiting[ROUNDS] = table, rounds

    # Codes and sums

    def _send_codes(self) -> Iterable[Messages]:
        part, setting = self._part, self._setting
        if not part.rows:
            return ()
        mu = Mu.from_rows(self._waiting[_SLOTS[setting.slot(self.now)]], setting.T)
        silo_of = self._silo_of[self.now.direction]
        codes = source_encode(setting.field, self._waiting["rows"], mu, part.source, silo_of)
        return (self._send(Phase.CODES, part.leaving.senders, part.leaving.receivers, codes),)

    def _send_aggregates(self) -> Iterable[Messages]:
        part = self._part
        if not len(part.target):
            return ()
        codes = self._waiting.pop(CODES, None)
        if codes is None:
            width = self._waiting["rows"].shape[1] if "rows" in self._waiting else self._setting.width
            codes = np.zeros((*self._setting.tapes, 0, self._setting.T + 1, width), dtype=self._setting.field.dtype)
        arrived = part.received_segments(self._waiting.pop(f"{CODES} at", np.empty(0, dtype=np.int64)))
        sums = target_aggregate(self._setting.field, codes, arrived, self._axis)
        due = self._answers[self.now.direction]  # a device without neighbours has nothing to decode
        return (self._send(Phase.AGGREGATE, due.receivers, due.senders, np.take(sums, part.asking, axis=self._axis)),)

    def _read_sums(self) -> Array:
        decoded, sums = self._waiting.pop(DECODED, None), self._zeros(len(self._part.groups))
        if decoded is not None:
            sums = sums[..., : decoded.shape[-1]]
            sums[..., self._part.asking[self._waiting.pop(f"{DECODED} at")], :] = decoded
        return sums

    def _zeros(self, groups: int) -> Array:
        width = self._waiting["rows"].shape[1] if "rows" in self._waiting else self._setting.width
        return np.zeros((*self._setting.tapes, groups, width), dtype=self._setting.field.dtype)

    def _keep(self, name: str, due: Due, messages: Messages) -> None:
        result, places = self._place_messages(due, messages)
        self._gather(name, places, result[PAYLOAD], self._axis)

    def _send(self, phase: Phase, senders: Ids, receivers: Ids, payload: Array) -> Messages:
        return Messages(phase, self.now, senders, receivers, {PAYLOAD: payload}, self._axis)


def _answers(way: Grouping, part: HostedRoute) -> Due:
    """What comes from the silos of hosted groups that a party sends to."""
    groups = part.groups[part.asking]
    return Due(way.group_custodian[groups], way.group_owner[groups])


MU, REQUESTS, AGGREGATES = "mu", "requests", "aggregates"


class SecMPSilos(StepwiseMachine):
    """Silos of the targets.

    Args:
        parties: int64 [k], ascending identifiers of those hosted.
        setting: what every party knows.
        draws: their coins.
        points: of every silo; None lets each draw its own.
    """

    keeps: ClassVar[frozenset[str]] = frozenset({FETCHING, REQUESTS, f"{REQUESTS} at", AGGREGATES, f"{AGGREGATES} at"})
    lasting: ClassVar[frozenset[str]] = frozenset({ROUNDS, MU})
    always: ClassVar[frozenset[str]] = frozenset({FETCHING})

    def __init__(self, parties: Ids, setting: SecMPSetting, draws: Draws, points: Points | None) -> None:
        super().__init__(parties, setting.terms)
        self._setting, self._axis = setting, len(setting.tapes)
        self._requests = {way: _requests(route, parties) for way, route in setting.routes.items()}
        self._aggregates = {way: _aggregates(route.way, parties) for way, route in setting.routes.items()}
        self._waiting[ROUNDS] = np.full(2, NEVER)
        T, modulus = self._setting.T, self._setting.field.modulus
        result = [
            distinct_elements(draws.coins, modulus, 2 * T + 2) if points is None else [*points.alphas, *points.betas]
            for _ in self.parties
        ]
        table = np.array(result, dtype=np.int64).reshape(len(self.parties), 2 * T + 2)
        draws.note_coins("alphas and betas", self.parties, table)
        z = draws.draw("z", self.parties, modulus, (T, self._setting.width))
        self._waiting[MU] = Mu(table[:, : T + 1], table[:, T + 1 :], z).rows(setting.field.dtype)

    def begin(self, step: Step, rows: Array | None = None) -> None:
        """See `SumMachine.begin`; silos have no rows."""
        self._start(step, rows, 0, self._setting.width)
        self._waiting[FETCHING] = np.array([_fetches(self._setting, self._waiting[ROUNDS], step)])

    def receive(self, messages: Messages) -> None:
        """Takes requests for mu, or sums of codes; see `Machine.take`."""
        empty = self._current(messages)[PAYLOAD].shape[self._axis + 1 :] == (0,)
        if messages.phase is Phase.PARAMETER_REQUEST and self._waiting[FETCHING][0] and empty:
            name, due = REQUESTS, self._requests[self.now.direction]
        elif messages.phase is Phase.AGGREGATE:
            _check_elements(self._setting, messages, self._setting.T + 1, None)
            name, due = AGGREGATES, self._aggregates[self.now.direction]
        else:
            raise MalformedMessageError(f"messages must be due; found {messages.phase.label}")
        result, places = self._place_messages(due, messages)
        self._gather(name, places, result[PAYLOAD], self._axis)

    def step(self) -> Iterable[Messages]:
        """Mu to those who have asked, or unasked to the targets; then the decoded sums."""
        turn, by_target = self._next(), self._setting.delivery is MuDelivery.TARGET
        if self._waiting[FETCHING][0] and turn == 1:
            rounds = self._waiting[ROUNDS].copy()
            rounds[self._setting.slot(self.now)] = self.now.round
            self._waiting[ROUNDS] = rounds
            return self._send_mu(self._aggregates[self.now.direction]) if by_target else ()
        if REQUESTS in self._waiting:
            self._waiting.pop(REQUESTS)
            received, due = self._waiting.pop(f"{REQUESTS} at"), self._requests[self.now.direction]
            return self._send_mu(
                due if len(received) == len(due.senders) else Due(due.senders[received], due.receivers[received])
            )
        return self._send_decoded() if AGGREGATES in self._waiting else ()

    @property
    def sums(self) -> None:
        """None: what silos decode is for their devices."""

    def _send_mu(self, to: Due) -> Iterable[Messages]:
        """Its silo's mu to each that has asked."""
        rows = np.take(self._waiting[MU], np.searchsorted(self.parties, to.receivers), axis=self._axis)
        return (self._send(Phase.PARAMETERS, to.receivers, to.senders, rows),)

    def _send_decoded(self) -> Iterable[Messages]:
        aggregates, index, due = (
            self._waiting.pop(AGGREGATES),
            self._waiting.pop(f"{AGGREGATES} at"),
            self._aggregates[self.now.direction],
        )
        devices, silos = due.senders[index], due.receivers[index]
        mu = Mu.from_rows(self._waiting[MU], self._setting.T)
        decoded = silo_decode(self._setting.field, aggregates, mu, np.searchsorted(self.parties, silos))
        return (self._send(Phase.DECODED, silos, devices, decoded),)

    def _send(self, phase: Phase, senders: Ids, receivers: Ids, payload: Array) -> Messages:
        return Messages(phase, self.now, senders, receivers, {PAYLOAD: payload}, self._axis)


def _requests(route: Route, silos: Ids) -> Due:
    """Requests of all sources with a target in one of some silos."""
    mask = np.isin(route.custodians, silos)
    if mask.all():
        return Due(route.senders, route.custodians)
    return Due(route.senders[mask], route.custodians[mask])


def _aggregates(way: Grouping, silos: Ids) -> Due:
    """Sums of codes of all devices of some silos that a party sends to."""
    asking = np.unique(way.target)
    owners, custodians = way.group_owner[asking], way.group_custodian[asking]
    mask = np.isin(custodians, silos)
    return Due(owners[mask], custodians[mask])
