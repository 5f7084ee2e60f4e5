"""Processes of a task: one for each silo, which hosts its devices, and one for each relay.

What passes between the devices of a silo, and what they hand to it, stays in its process: a silo that reads its memory
learns what they do. The process may end after each turn. What it leaves are the states of machines, the program's state
when the round began, and what the round's calls have given since: in another process the round is run again up to the
call that is due.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any
from zlib import crc32

import numpy as np

from fgl_secure.coins import Coins, SystemCoins
from fgl_secure.errors import InputError, MalformedMessageError, ProtocolError
from fgl_secure.protocols.identity import Identities, Identity, Names
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.topology import CLIENTS, MEMBERS, NEIGHBOURS, SERVER
from fgl_secure.runtime import Direction, Role, Step
from fgl_secure.runtime.packing import Arrays, under, within
from fgl_secure.training.calls import BEGINNING, EXCHANGE, HAND_DOWN, AnswerCall, Call, CollectiveSetting
from fgl_secure.training.collectives import Collectives
from fgl_secure.training.gradient_sums import HostedMembers
from fgl_secure.training.job import Task
from fgl_secure.training.processes.neighbours import HostedSums, RelayProcess, check_hosted, hosted_sums
from fgl_secure.training.processes.process import NOTHING, Inbox, Outbox, Parcel, Process, SealedParty, fitting, only
from fgl_secure.training.processes.sums import EVERYBODY, UNBOUNDED, Company, SiloSums, SumServer
from fgl_secure.training.program import Program, Strand
from fgl_secure.training.ranges import Digits, finds_ranges, rounding_key
from fgl_secure.training.server_sums import grid_for
from fgl_secure.training.silo import Silo
from fgl_secure.typing import Array

_Make = Callable[[Collectives], Program]

_BEFORE = -1
"""In the place of a round: what comes before the first one."""
_LOCAL = (MEMBERS, HAND_DOWN)
"""Calls that a process answers by itself."""


class _SiloStep(IntEnum):
    START = 0
    PREPARING = 1
    ROUNDS = 2
    NOTHING = 3


class SiloProcess(Process):
    """One silo's process.

    Args:
        silo: what it holds.
        make: makes the program, given what it talks through.
        company: who adds vectors of silos up, and how.
        coins: its own, secret; those of a process that is taken up again must not repeat.
        neighbours: its part in sums over neighbours; None where the program has none.
        members: the scheme between devices and their silo, whose bits their sums have; None for none.
        names: its identity, which signs its keys, and those of all silos; None sends keys unsigned.
    """

    def __init__(
        self,
        silo: Silo,
        make: _Make,
        company: Company,
        coins: Coins,
        neighbours: HostedSums | None = None,
        members: Scheme | None = None,
        names: Names | None = None,
    ) -> None:
        self._silo, self._make, self._parties, self._neighbours = silo, make, company, neighbours
        self._members = HostedMembers(members, silo.facts.sizes, silo.silo)
        self._sums = SiloSums(company, silo.silo, coins, names)
        self._due, self._number = _SiloStep.START, _BEFORE
        self._program: Program | None = None
        self._strand: Strand[bool] | None = None
        self._saved: Arrays = {}
        self._answers: list[tuple[Array, ...]] = []
        self._call: Array = np.empty(0, dtype=np.int64)
        code = None if neighbours is None else neighbours.row_code
        self._ranged = finds_ranges(silo.facts, code)
        self._key = rounding_key(coins) if self._ranged or company.scheme.precision is not None else b""
        self._report: dict[str, Array] | None = None
        self._report_arrays: dict[str, Array] | None = None

    def step(self, inbox: Inbox) -> Outbox:
        """One turn."""
        self._report_arrays = None
        if self._due is _SiloStep.NOTHING:
            return NOTHING
        if self._due is _SiloStep.START:
            self._due = _SiloStep.PREPARING
            if self._neighbours is not None:
                return self._neighbours.prepare()
        if self._due is _SiloStep.PREPARING:
            out = None if self._neighbours is None else self._neighbours.take(inbox)
            if out is not None:
                return out
            self._due = _SiloStep.ROUNDS
            return self._go_on(self._begin_round(), None)
        return self._answer_call(inbox)

    def _answer_call(self, inbox: Inbox) -> Outbox:
        """Hears the others; goes on with the round once the call that is due has its answer."""
        topology = _TOPOLOGIES[int(self._call[0])]
        if topology == EXCHANGE:
            strand = self._revive_round()
            assert strand.call is not None, "it waits for what others send"
            result = self._read_rows(inbox, strand.call)
        else:
            if topology == NEIGHBOURS and self._sums.confirming:
                self._sums.take_confirmations(inbox)
                return self._begin_neighbours(self._revive_round().call)
            part = self._neighbours if topology == NEIGHBOURS else self._sums
            assert part is not None, "a program that sums over neighbours has a part in it"
            out = part.take(inbox)
            if out is not None:
                return out
            strand, result = self._revive_round(), (self._sum_result(topology),)
        self._answers.append(result)
        return self._go_on(strand, _reply(topology, result))

    def _sum_result(self, topology: str) -> Array:
        if topology == NEIGHBOURS:
            assert self._neighbours is not None, "as above"
            return self._neighbours.result
        nothing = np.empty(0, dtype=np.int64)
        return self._sums.results.get(self._silo.silo if topology == CLIENTS else EVERYBODY, nothing)

    def _read_rows(self, inbox: Inbox, call: Call) -> tuple[Array, ...]:
        """What each silo sent: rows of the type and width of those that went out."""
        assert call.phase is not None, "what is exchanged has a phase"
        sent_rows = next(iter(call.sent.values()))
        form = (sent_rows.dtype.str, (-1, sent_rows.shape[1]))
        result = {silo: fitting(only(inbox, silo, call.phase), form)[0] for silo in self._silo.others}
        return tuple(result.get(silo, sent_rows[:0]) for silo in range(self._silo.facts.silos))

    def _go_on(self, strand: Strand[bool], reply: Any) -> Outbox:
        """Lets the program work until it waits for others, or is over."""
        while True:
            strand.go_on(reply)
            if strand.call is None:
                following = self._end_round(strand)
                if following is None:
                    return NOTHING
                strand, reply = following, None
            elif strand.call.topology in _LOCAL:
                reply = self._own(strand.call)
            else:
                return self._open_collective(strand.call)

    def _begin_round(self) -> Strand[bool]:
        """The work of the current round, from its start."""
        program, number = self._program or self._make_program(), self._number
        self._program = program

        def work(ask: AnswerCall) -> bool:
            program.comm.start(None if number == _BEFORE else number, ask)
            if number == _BEFORE:
                program.begin()
                return True
            return program.round(number)

        self._strand = Strand(work)
        return self._strand

    def _make_program(self) -> Program:
        grid = grid_for(self._parties.scheme, self._parties.silos)
        summed, company = np.zeros(len(self._silo.nodes), dtype=np.int64), self._parties
        setting = CollectiveSetting(
            summed,
            grid,
            self._looks_at,
            company.largest,
            schemes=company.schemes,
            sums_gradients=self._members.sums_gradients,
            rounding_key=self._key,
            finds_ranges=self._ranged,
        )
        if self._neighbours is not None:
            rows, summed_edges = self._neighbours.between()
            summed, partners = self._neighbours.message_counts(), self._neighbours.partners()
            code = self._neighbours.row_code
            setting = replace(setting, summed=summed, rows=rows, wanted=summed_edges, partners=partners, row_code=code)
        return self._make(Collectives(self._silo, setting))

    def _looks_at(self, _step: Step) -> bool:
        return self._members.sums_gradients

    def _end_round(self, strand: Strand[bool]) -> Strand[bool] | None:
        """After a round: the next one, or None where there is none."""
        assert self._program is not None, "it has just worked"
        goes_on, self._strand, self._answers = strand.result, None, []
        if self._number != _BEFORE:
            self._report_arrays = self._program.report
        if not goes_on:
            self._due, self._report = _SiloStep.NOTHING, self._program.report
            return None
        self._number += 1
        self._saved = {**self._program.state(), **under("comm", self._program.comm.state())}
        return self._begin_round()

    def _revive_round(self) -> Strand[bool]:
        """The work of the current round, at the call that is due; run again in a process that hasn't seen it begin."""
        if self._strand is not None:
            return self._strand
        self._program = self._make_program()
        if self._number != _BEFORE:
            self._program.restore(self._saved)
            self._program.comm.restore(within("comm", self._saved))
        strand, answers, reply = self._begin_round(), list(self._answers), None
        while True:
            strand.go_on(reply)
            if strand.call is None:
                raise ProtocolError("a round must be the same when it is run again; it ended early")
            if strand.call.topology in _LOCAL:
                reply = self._own(strand.call)
            elif answers:
                reply = _reply(strand.call.topology, answers.pop(0))
            elif not np.array_equal(_call_numbers(strand.call), self._call):
                raise ProtocolError("a round must be the same when it is run again; another call is due")
            else:
                return strand

    def _own(self, call: Call) -> Any:
        if call.topology == HAND_DOWN:
            return None
        if call.sizes:
            return self._members.gradients(call.factors)
        assert call.rows is not None, "rows of devices"
        return self._members.sum(call.rows)

    def _open_collective(self, call: Call) -> Outbox:
        """Starts the collective of a call."""
        self._call = _call_numbers(call)
        if call.topology == EXCHANGE:
            assert call.phase is not None, "what is exchanged has a phase"
            return {silo: [Parcel(call.phase, call.step, (rows,))] for silo, rows in call.sent.items()}
        if call.topology == CLIENTS:
            return self._sums.begin(call.terms, call.bound or UNBOUNDED, call.step)
        assert call.rows is not None, "only devices hand over gradients in their place"
        if call.topology != NEIGHBOURS:
            outline = call.parts, call.least, Digits.of(call.numbers)
            return self._sums.begin({EVERYBODY: call.rows}, call.bound or UNBOUNDED, call.step, *outline)
        return self._sums.confirm_results(call.step) or self._begin_neighbours(call)

    def _begin_neighbours(self, call: Call | None) -> Outbox:
        """Start a sum over neighbours: rows leave once all silos have confirmed the results that rows depend on."""
        if self._neighbours is None:
            raise ProtocolError("neighbours must have a scheme where a program sums over them; found none")
        assert call is not None, "it waits for this sum"
        assert call.rows is not None, "rows of devices"
        return self._neighbours.begin(call.rows, call.step)

    @property
    def report(self) -> dict[str, Array] | None:
        """That of the program, when its last round is over."""
        return self._report

    @property
    def round_report(self) -> dict[str, Array] | None:
        """That of the program, when a round has ended in the last turn."""
        return self._report_arrays if self._report_arrays is not None else self._report

    @property
    def due(self) -> str:
        """The collective whose turns are had: its topology, round, layer and direction, which all parties know."""
        if self._due is not _SiloStep.ROUNDS:
            return {_SiloStep.PREPARING: "agreement on messages"}.get(self._due, "")
        topology, number, layer, backward, _, part, _ = self._call.tolist()
        when = "before the first round" if part % 2 == BEGINNING else f"in round {number}"
        where = f", layer {layer}{', backward' * backward}" if layer >= 0 else ""
        noun = _TOPOLOGIES[topology]
        return f"{'' if noun == EXCHANGE else 'sum of '}{noun} {when}{where}"

    def close(self) -> None:
        """Ends the thread in which a round waits."""
        if self._strand is not None:
            self._strand.stop()
            self._strand = None

    def state(self) -> dict[str, Array]:
        """States of machines, and the current round: how it began, and what its calls have given."""
        answers = {f"{n}/{place}": result for n, item in enumerate(self._answers) for place, result in enumerate(item)}
        neighbours = {} if self._neighbours is None else under("neighbours", self._neighbours.state())
        return {
            "due": np.array([self._due, self._number], dtype=np.int64),
            "call": self._call,
            "key": np.frombuffer(self._key, dtype=np.uint8),
            **under("sums", self._sums.state()),
            **neighbours,
            **under("kept", self._saved),
            **under("given", answers),
            **under("report", self._report or {}),
        }

    def restore(self, state: Arrays) -> None:
        """Goes on where a state was taken."""
        if "due" not in state or state["due"].shape != (2,):
            raise MalformedMessageError("state must be of a silo's process; it is not")
        self.close()
        self._program = None
        self._due, self._number, self._call = _SiloStep(int(state["due"][0])), int(state["due"][1]), state["call"]
        self._key = state["key"].tobytes()
        self._sums.restore(within("sums", state))
        if self._neighbours is not None:
            self._neighbours.restore(within("neighbours", state))
        self._saved, answers = within("kept", state), within("given", state)
        self._answers = [tuple(item) for item in _in_order(answers)]
        self._report = within("report", state) if self._due is _SiloStep.NOTHING else None


_TOPOLOGIES = (NEIGHBOURS, SERVER, CLIENTS, EXCHANGE)


def _reply(topology: str, result: tuple[Array, ...]) -> Any:
    """What a call gives: a sum, or what each silo sent."""
    return list(result) if topology == EXCHANGE else result[0]


def _in_order(arrays: Arrays) -> list[list[Array]]:
    """Arrays by call and place, as a state has them."""
    result: list[list[Array]] = []
    for name in sorted(arrays, key=lambda name: tuple(map(int, name.split("/")))):
        call, _ = name.split("/")
        if int(call) == len(result):
            result.append([])
        result[-1].append(arrays[name])
    return result


def _call_numbers(call: Call) -> Array:
    """Which call it is, as numbers: int64 [7]."""
    step, phase = call.step, -1 if call.phase is None else crc32(call.phase.name.encode())
    backward = step.direction is Direction.BACKWARD
    numbers = [_TOPOLOGIES.index(call.topology), step.round, step.layer, backward, step.evaluation, step.part, phase]
    return np.array(numbers, dtype=np.int64)


LEAST_SILOS = 3
"""Of two silos each knows the other by their sum."""


@dataclass(frozen=True, slots=True, eq=False)
class ProgramRun:
    """What every process of a run is told.

    Attributes:
        task: what silos do.
        silos: how many.

    Raises:
        InputError: there are too few silos, or a scheme cannot be had with a process for each of them, or was made for
            sums that some of them are missing from: then a server could open the sum of all and that of all but one.
    """

    task: Task
    silos: int

    def __post_init__(self) -> None:
        if self.silos < LEAST_SILOS:
            raise InputError(
                f"silos must be at least {LEAST_SILOS}, or two know each other by their sum; found {self.silos}"
            )
        schemes = self.task.schemes
        if NEIGHBOURS in schemes:
            check_hosted(schemes[NEIGHBOURS], devices=not (self.task.between or self.task.crossing))
        for topology, senders in ((SERVER, self.silos), (CLIENTS, self.silos - 1)):
            if topology in schemes:
                schemes[topology].require_all(senders)

    @property
    def parties(self) -> int:
        """Silos, and the relays of neighbours' sums after them."""
        rows = self.task.schemes.get(NEIGHBOURS)
        return self.silos + (0 if rows is None else rows.helpers.get(Role.RELAY, 0))

    def company(self, session: bytes) -> Company:
        """How silos add up."""
        schemes = self.task.schemes
        return Company(self.silos, schemes.get(SERVER, Plaintext()), session, schemes.get(CLIENTS))

    def server(self, session: bytes) -> SumServer:
        """The server's part."""
        return SumServer(self.company(session), SystemCoins())

    def process(self, number: int, session: bytes, silo: Callable[[], Silo], names: Names | None = None) -> Process:
        """Return what a party does, before its first turn; arguments as for `party`."""
        task, coins = self.task, SystemCoins()
        rows, members = task.schemes.get(NEIGHBOURS), task.schemes.get(MEMBERS)
        if number >= self.silos:
            assert rows is not None, "without sums over neighbours there are no relays"
            return RelayProcess(number - self.silos, self.silos, rows, session, coins)
        silo_data, ways = silo(), {"between": task.between, "crossing": task.crossing}
        sums = None if rows is None else hosted_sums(silo_data, rows, session, coins, task.width, **ways)
        return SiloProcess(
            silo_data, lambda comm: task.make(comm, coins), self.company(session), coins, sums, members, names
        )

    def party(
        self,
        number: int,
        session: bytes,
        silo: Callable[[], Silo],
        identity: Identity | None = None,
        identities: Identities | None = None,
    ) -> SealedParty:
        """Return a party, before its first turn, behind a mailbox that reads nothing.

        Without identities the server must be trusted to pass on keys: one that sends keys of its own instead reads all
        that silos and relays send each other.

        Args:
            number: of the party: silos come first.
            session: of the run.
            silo: gives what a silo holds.
            identity: signs the party's keys; None sends them unsigned.
            identities: public ones of all parties, known from elsewhere than the server; given with `identity`.

        Raises:
            InputError: only one of identity and identities is given, or the identity is not that of the party.
        """
        if (identity is None) != (identities is None):
            raise InputError("identity and identities must be given together; only one is")
        names = None if identity is None or identities is None else Names({number: identity}, identities)
        program = self.process(number, session, silo, names)
        return SealedParty(number, self.parties, program, session, SystemCoins(), identity, identities)
