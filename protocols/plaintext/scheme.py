"""Sums in plaintext, for every topology."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, ClassVar

import numpy as np

from fgl_secure.algebra import MERSENNE_61, PrimeField
from fgl_secure.config_fields import name_members
from fgl_secure.errors import FglSecureError, InputError, MalformedMessageError, ProtocolError, TooFewClientsError
from fgl_secure.protocols.hosting import Due, HostedRoute
from fgl_secure.protocols.identity import Names
from fgl_secure.protocols.scheme import Scheme, SumMachine, check_range, select_hosted
from fgl_secure.protocols.stepwise import CompositeMachine, StepwiseMachine, SumTerms
from fgl_secure.protocols.topology import CLIENTS, NEIGHBOURS, SERVER, Grouping, Topology
from fgl_secure.runtime import PAYLOAD, Claim, Direction, Draws, Messages, Phase, PublicParameters, Step
from fgl_secure.typing import Array, Ids

TOTAL, THERE, DONE = "total", "there", "sum is done"


class PlaintextClients(StepwiseMachine):
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
            _check_values(rows, self._topology)
        self._start(step, rows, len(self._owners), self._topology.width)

    def receive(self, messages: Messages) -> None:
        """Takes nothing."""
        raise MalformedMessageError(f"clients must get no message here; found {messages.phase.label}")

    def step(self) -> Iterable[Messages]:
        """The vectors, once."""
        if self._next() > 1:
            return ()
        rows, to = self._waiting["rows"], np.full(len(self._owners), self._topology.receiver, dtype=np.int64)
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

    def receive(self, messages: Messages) -> None:
        """Takes vectors, and adds them up as they come; see `Machine.take`."""
        if self._current(messages).phase is not Phase.VECTORS or DONE in self._waiting:
            raise MalformedMessageError("messages must be vectors, and come before their sum is done; they do not")
        self._check_ends(messages)
        rows, arrived = messages[PAYLOAD][(0,) * self._tape_axes], self._there
        _check_values(rows, self._topology, MalformedMessageError)
        result, first = np.unique(messages.senders, return_index=True)
        if not np.isin(result, self._topology.senders).all() or np.isin(result, arrived).any():
            raise ProtocolError("vectors must be one of each client; found another, or a second one")
        modular = self._topology.bound is None and rows.dtype.kind != "f"
        total = _residue(rows[first]) if modular else rows[first].sum(axis=0)
        if TOTAL in self._waiting:
            if (self._waiting[TOTAL].shape, self._waiting[TOTAL].dtype) != (total.shape, total.dtype):
                raise MalformedMessageError("vectors must be of one length and type; they are not")
            total = total + self._waiting[TOTAL]
            total = total % MERSENNE_61 if modular else total
        self._waiting[TOTAL], self._waiting[THERE] = total, np.union1d(arrived, result)

    def step(self) -> Iterable[Messages]:
        """Nothing. All vectors that will come have come when there are any, or at the second turn.

        Raises:
            TooFewClientsError: they are fewer than the threshold.
        """
        if self._next() == 1 and TOTAL not in self._waiting:
            return ()
        if len(self._there) < self._threshold:
            raise TooFewClientsError(
                f"at least threshold = {self._threshold} of {len(self._topology.senders)} clients must hand in a "
                f"vector; found {len(self._there)}"
            )
        self._waiting[DONE] = np.ones(1, dtype=np.bool_)
        return ()

    @property
    def over(self) -> bool:
        """See `SumMachine.over`."""
        return DONE in self._waiting

    @property
    def sums(self) -> Array | None:
        """[1, d] without a tape axis: float64 of reals, int64 else; residues where integers have no bound."""
        return self._waiting[TOTAL][None].copy() if DONE in self._waiting else None

    @property
    def contributors(self) -> Ids | None:
        """See `SumMachine.included`."""
        return self._there.copy() if DONE in self._waiting else None

    @property
    def _there(self) -> Ids:
        return self._waiting.get(THERE, np.empty(0, dtype=np.int64))


def _check_values(
    rows: Array,
    topology: Topology,
    error: type[FglSecureError] = InputError,
    reals: tuple[type[np.floating[Any]], ...] = (np.float64,),
) -> None:
    """Raises unless rows are vectors of a topology; reals have no bound, and are finite numbers of some types."""
    if rows.dtype not in reals:
        # Raises unless rows are int64 [n, d] that are no wider and no larger than the topology says; shows no value.
        if rows.dtype != np.int64 or rows.ndim != 2 or not 1 <= rows.shape[1] <= topology.width:
            raise error(f"rows must be int64 [n, d] with d <= {topology.width}; found {rows.dtype} {list(rows.shape)}")
        least, most = (0, MERSENNE_61 - 1) if topology.bound is None else (-topology.bound, topology.bound)
        if rows.size and (int(rows.min()) < least or int(rows.max()) > most):
            raise error(f"rows must have entries in {least:,}..{most:,}; at least one entry is beyond")
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


ARRIVED, SUMS = "arrived", "sums"
REALS = (np.float32, np.float64)


class _Party(StepwiseMachine):
    """What all three roles do.

    Args:
        parties: int64 [k], ascending identifiers of those hosted.
        terms: who sends what to whom; rows are alike on all tapes, as no coin is drawn.
        minimum: least messages of a sum that is computed.
        by_custodian: whether the parties read what is for those that they administer.
    """

    keeps: ClassVar[frozenset[str]] = frozenset({"rows", ARRIVED, f"{ARRIVED} at", SUMS})

    def __init__(self, parties: Ids, terms: SumTerms, minimum: int, *, by_custodian: bool = False) -> None:
        super().__init__(parties, terms)
        topology = self._topology = terms.topology
        self._phase = Phase.VALUES if topology.name == NEIGHBOURS else Phase.VECTORS
        self._parts = HostedRoute.both_ways(topology.grouping, parties, minimum, by_custodian=by_custodian)

    @property
    def _part(self) -> HostedRoute:
        return self._parts[self.now.direction]

    def begin(self, step: Step, rows: Array | None = None) -> None:
        """See `SumMachine.begin`; reals have no bound."""
        if rows is not None:
            _check_values(rows, self._topology, reals=REALS)
        self._start(step, rows, self._parts[step.direction].rows, self._topology.width)

    @property
    def sums(self) -> Array | None:
        """[h, d] without a tape axis; the caller may write to it."""
        return self._waiting.get(SUMS)

    def _add(self) -> Array:
        """The sums of all that has arrived: float64 of reals, int64 of integers, residues where they have no bound."""
        rows, places = self._waiting.get(ARRIVED), self._waiting.get(f"{ARRIVED} at")
        if rows is None or places is None:
            own_rows = self._waiting.get("rows", np.empty((0, self._topology.width)))
            rows, places = own_rows[:0], np.empty(0, dtype=np.int64)
        segments = self._part.received_segments(places)
        if rows.dtype.kind == "f":
            return segments.real_sums(rows)
        if self._topology.bound is None:
            return PrimeField(MERSENNE_61).grouped_sums(rows, segments)
        sums = np.zeros((len(segments), rows.shape[1]), dtype=np.int64)
        np.add.at(sums, self._part.target[places], rows)
        return sums

    def _take_rows(self, due: Due, messages: Messages, topology: Topology | None = None) -> None:
        payload = self._current(messages)[PAYLOAD][(0,) * self._tape_axes]
        _check_values(payload, topology or self._topology, MalformedMessageError, REALS)
        result, places = self._place_messages(due, messages)
        self._gather(ARRIVED, places, result[PAYLOAD][(0,) * self._tape_axes], 0)

    def _send(self, phase: Phase, senders: Ids, receivers: Ids, rows: Array) -> Messages:
        on_every_tape = np.broadcast_to(rows, self._tapes + rows.shape)
        return Messages(phase, self.now, senders, receivers, {PAYLOAD: on_every_tape}, self._tape_axes)


class _Owners(_Party):
    """Owners of rows and of sums, who send each other rows and add up."""

    def receive(self, messages: Messages) -> None:
        """Takes rows; see `Machine.take`."""
        _check_phase(messages, self._phase)
        self._take_rows(self._part.due, messages)

    def step(self) -> Iterable[Messages]:
        """Rows first; then nothing, as the sums stay where they are."""
        part, turn = self._part, self._next()
        if turn == 1 and part.rows:
            ends = part.leaving
            return (self._send(self._phase, ends.senders, ends.receivers, self._waiting["rows"][part.source]),)
        if len(part.groups) and SUMS not in self._waiting and (turn > 1 or not len(part.target)):
            self._waiting[SUMS] = self._add()
        return ()


class _PlaintextSenders(_Party):
    """Owners of rows and of sums, who send rows to the silos of their receivers, and are told sums by their own."""

    def __init__(self, parties: Ids, terms: SumTerms, minimum: int) -> None:
        super().__init__(parties, terms, minimum)
        topology = terms.topology
        self._answers = {way: _answers(grouping, parties) for way, grouping in _both(topology.grouping).items()}
        most = None if topology.bound is None else topology.bound * topology.terms
        self._told_of = replace(topology, bound=most)  # whose rows are sums

    def receive(self, messages: Messages) -> None:
        """Takes sums; see `Machine.take`."""
        _check_phase(messages, Phase.SUMS)
        self._take_rows(self._answers[self.now.direction], messages, self._told_of)

    def step(self) -> Iterable[Messages]:
        """Rows first, each with the device that it is for; then nothing."""
        part, turn = self._part, self._next()
        if turn == 1 and part.rows:
            ends, addresses = (part.leaving.senders, part.custodians), part.addresses.astype(np.int32)[:, None]
            return (
                self._send(Phase.ADDRESSES, *ends, addresses),
                self._send(Phase.VALUES, *ends, self._waiting["rows"][part.source]),
            )
        if len(part.groups) and turn > 2:  # rows, sums, and here they are
            self._waiting[SUMS] = self._read_sums()
        return ()

    def _read_sums(self) -> Array:
        """The sums that have arrived, as wide as the rows; zero for those that have not."""
        result = self._waiting.get(ARRIVED, np.empty((0, self._topology.width)))
        if "rows" in self._waiting:  # silos that have heard nothing answer with as many zeros as there may be
            result = result[:, : self._waiting["rows"].shape[1]]
        sums = np.zeros((len(self._part.groups), result.shape[1]), dtype=result.dtype)
        sums[self._waiting.get(f"{ARRIVED} at", np.empty(0, dtype=np.int64))] = result
        return sums


class _PlaintextSilos(_Party):
    """Silos that read the rows for their devices, add up, and tell them the sums."""

    def __init__(self, parties: Ids, terms: SumTerms, minimum: int) -> None:
        super().__init__(parties, terms, minimum, by_custodian=True)
        self._ways = _both(terms.topology.grouping)

    def begin(self, step: Step, rows: Array | None = None) -> None:
        """See `SumMachine.begin`; silos have no rows, or have them in another role."""
        self._start(step, rows, 0, self._topology.width)

    def receive(self, messages: Messages) -> None:
        """Takes rows, and for whom they are; see `Machine.take`."""
        _check_phase(messages, Phase.ADDRESSES, Phase.VALUES)
        if messages.phase is Phase.VALUES:
            self._take_rows(self._part.due, messages)
            return
        rows = self._current(messages)[PAYLOAD][(0,) * self._tape_axes]
        if rows.dtype != np.int32 or rows.shape != (len(messages), 1):
            raise MalformedMessageError(f"addresses must be int32 [m, 1]; found {rows.dtype} {list(rows.shape)}")

    def step(self) -> Iterable[Messages]:
        """Nothing first; then the sums."""
        if self._next() != 2:  # when the rows are there
            return ()
        way, groups = self._ways[self.now.direction], self._part.groups
        return (self._send(Phase.SUMS, way.group_custodian[groups], way.group_owner[groups], self._add()),)


def _both(grouping: Grouping) -> dict[Direction, Grouping]:
    return {Direction.FORWARD: grouping, Direction.BACKWARD: grouping.reverse()}


def _answers(way: Grouping, parties: Ids) -> Due:
    held = np.isin(way.group_owner, parties)
    return Due(way.group_custodian[held], way.group_owner[held])


def _check_phase(messages: Messages, *due: Phase) -> None:
    if messages.phase not in due:
        raise MalformedMessageError(f"messages must be of {due[0].label} here; found {messages.phase.label}")


LARGEST = 2**62
"""What int64 holds with a bit to spare."""


class Path(StrEnum):
    """Which way neighbours' rows travel in plaintext."""

    DIRECT = "direct"
    SILO = "silo"


@dataclass(frozen=True, slots=True)
class Plaintext(Scheme):
    """Every row is sent as it is, and the receiver adds up.

    Attributes:
        path: DIRECT sends each row to the owner of its sum. SILO sends neighbours' rows to the silo of that owner,
            which adds up: how frameworks work that let silos read the neighbours of their nodes, the setting that
            HiFGL's leakage measure (A.1, Eq. 6) was made for.
        minimum_group: least messages of a neighbours' sum that is computed, to compare with schemes that refuse small
            groups.
        threshold: least clients whose vectors are in one sum of all; None takes floor(2 n / 3) + 1 of n, as the
            schemes do that this one is compared with.
    """

    path: Path = Path.DIRECT
    minimum_group: int = 1
    threshold: int | None = None

    label: ClassVar[str] = "plaintext"
    summary: ClassVar[str] = "every value in plaintext; the oracle of correctness"
    parameters: ClassVar[tuple[str, ...]] = ("threshold", "path", "minimum_group")
    wide: ClassVar[str] = "it is what others are compared with, and sends numbers as they are"
    takes_reals: ClassVar[bool] = True
    uses_keys: ClassVar[bool] = False

    def __post_init__(self) -> None:
        name_members(self)
        for name, value in (("minimum_group", self.minimum_group), ("threshold", self.threshold)):
            if value is not None and value < 1:
                raise InputError(f"{name} must be at least 1; found {value}")

    @property
    def modulus(self) -> int:
        """2^61 - 1."""
        return MERSENNE_61

    @property
    def public(self) -> PublicParameters:
        """Nothing to know."""
        return PublicParameters()

    def refuses(self, topology: Topology) -> str | None:
        """None, except for sums of all clients that no party adds up."""
        if topology.name in (CLIENTS, SERVER) and not topology.is_one_sum:
            return "it adds up one vector of each client, and one party does so"
        return None

    def refuses_hosting(self, *, devices: bool) -> str | None:  # noqa: ARG002  # any adder
        """None, except for rows via silos; see `HostedScheme`."""
        return None if self.path is Path.DIRECT else "its rows travel by way of silos; take path=direct"

    def claim_for(self, topology: Topology) -> Claim:  # noqa: ARG002  # whatever it is
        """No promise."""
        return Claim(guarantees=(), leaks_by_design=(), assumptions=())

    def limit(self, terms: int) -> int:  # noqa: ARG002  # whatever their number
        """What int64 holds with a bit to spare; reals are summed as they are."""
        return LARGEST

    def answered_grouping(self, grouping: Grouping) -> Grouping:
        """Without the messages to groups that are too small."""
        return grouping.answered_grouping(self.minimum_group)

    def threshold_for(self, clients: int) -> int:
        """Least clients in a sum of so many.

        Raises:
            InputError: there are fewer clients than the threshold.
        """
        if self.threshold is not None and self.threshold > clients:
            raise InputError(f"threshold must be at most the number of clients, {clients}; found {self.threshold}")
        return 2 * clients // 3 + 1 if self.threshold is None else self.threshold

    def require_all(self, senders: int) -> Plaintext:  # noqa: ARG002  # whatever their number
        """Itself: who adds up reads every vector, so that subtraction reveals nothing more."""
        return self

    def machines(
        self,
        topology: Topology,
        session: bytes,
        draws: Draws,
        hosted: Ids | None = None,
        *,
        names: Names | None = None,  # noqa: ARG002  # there is nothing to sign
    ) -> tuple[SumMachine, ...]:
        """See `Scheme.machines`. Clients and an adder, or all owners in one; silos beside them on the path of silos.

        Nothing but the states of machines is bound to the session.
        """
        self.check_serves(topology)
        check_range(self, topology)
        g, terms = topology.grouping, SumTerms(repr(self), topology, session, draws.batch_shape)
        owners = select_hosted(hosted, g.owners)
        least = self.minimum_group if topology.name == NEIGHBOURS else 1
        result: tuple[SumMachine, ...] = (_Owners(owners, terms, least),)
        if topology.name in (CLIENTS, SERVER):
            clients, adder = select_hosted(hosted, g.row_owner), select_hosted(hosted, g.group_owner)
            threshold = self.threshold_for(len(g.row_owner))
            result = (PlaintextClients(clients, terms), Adder(adder, terms, threshold))
        elif topology.name == NEIGHBOURS and self.path is Path.SILO:
            silos = select_hosted(hosted, g.row_custodian, g.group_custodian)
            result = (_PlaintextSenders(owners, terms, least), _PlaintextSilos(silos, terms, least))
            if np.isin(owners, silos).any():
                read = (Phase.ADDRESSES, Phase.VALUES)
                result = (CompositeMachine((result[0], (Phase.SUMS,)), (result[1], read)),)
        return tuple(machine for machine in result if len(machine.parties))
