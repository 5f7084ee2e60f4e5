"""Sums of all silos as part of a program: for every party, or for one silo that hides the sum from the server.

A sum is machines of a scheme, one for each silo that has a part in it and one for the server, whose messages travel as
parcels. The server says when it has nothing more to do in a sum, so that all silos go on at one time; a sum for
every party it tells them then.

No scheme keeps a server from sending one silo another result than the rest. With a range that only one silo gets, or a
false mean that stops the others' gradients, the next sum would be a single silo's vector. So every silo keeps a digest
of all results that the server sent it, and confirms it to all others before each sum, and before rows leave for a sum
over neighbours. The confirmation goes from silo to silo, sealed where a server carries it, and is checked before a
machine reads its first message. Under every scheme with keys a protected vector leaves later than that. A digest bound
to the machines' session instead would end in whatever error a scheme has for keys that do not fit, and binds nothing
under `ckks`, whose keys outlive a sum.
A server that sends all silos the same false result is not noticed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fgl_secure.coins import Coins
from fgl_secure.errors import MalformedMessageError, ProtocolError
from fgl_secure.protocols.identity import Identities, Names
from fgl_secure.protocols.scheme import Scheme, SumMachine
from fgl_secure.protocols.topology import CLIENTS, Topology
from fgl_secure.protocols.topology import SERVER as SERVER_SUMS
from fgl_secure.runtime import Directory, Draws, Messages, OwnDraws, Phase, Role, Step, decode, encode
from fgl_secure.runtime.packing import Arrays, under, within
from fgl_secure.training.processes.process import (
    SERVER,
    Inbox,
    Outbox,
    Parcel,
    fitting,
    only,
    parcels_from_bytes,
    parcels_to_bytes,
    scalar,
)
from fgl_secure.training.ranges import NO_DIGITS, Digits
from fgl_secure.training.server_sums import quotients
from fgl_secure.typing import Array, Integers

EVERYBODY = -1
UNBOUNDED = -1
OPENING = Phase.CAPACITIES
"""Silos say which sums they are about to take part in: number, length, bound and receiver of each; and of one for
every party the parts of which the server tells quotients, how large entries must be where it tells no more than that
they are, and which entries are digits."""
DONE = Phase.VECTOR_SUMS
"""The server says that it is done with a sum; one for every party goes with it."""
CONFIRMATION = Phase.ROSTERS
"""A silo confirms to another one which results it got and which sums it opens, as a digest."""
_DIGEST_BYTES = 32
_LARGEST = 2**62
"""Largest sum under a scheme that names no limit."""


@dataclass(frozen=True, slots=True)
class Company:
    """How the silos of a run add up.

    Attributes:
        silos: how many.
        scheme: adds the vectors up.
        session: 16 public bytes, different in every run.
        for_silos: adds up what is for one silo; the same scheme unless given.
    """

    silos: int
    scheme: Scheme
    session: bytes
    for_silos: Scheme | None = None

    @property
    def schemes(self) -> dict[str, Scheme]:
        """By topology."""
        return {SERVER_SUMS: self.scheme, CLIENTS: self.for_silos or self.scheme}

    @property
    def parties(self) -> Directory:
        """The server, and the silos."""
        return Directory({Role.SERVER: 1, Role.SILO: self.silos})

    @property
    def largest(self) -> int:
        """The largest magnitude of a sum of one vector of each silo."""
        return self.scheme.limit(self.silos) or _LARGEST

    def machine(
        self, length: int, bound: int, receiver: int, host: int, draws: Draws, known: Names | None = None
    ) -> SumMachine | None:
        """One party's machine of one sum; None for one that has no part in it.

        Args:
            length: of the vectors.
            bound: largest magnitude of an entry; UNBOUNDED for elements of the scheme's field.
            receiver: the silo that is entitled to the sum, and adds nothing to it; or EVERYBODY.
            host: the silo, or SERVER.
            draws: its coins.
            known: identities by silo; its own among them.

        Raises:
            InputError: the scheme has no such sums, or was made for sums that some silos are missing from.
        """
        limit, parties = None if bound == UNBOUNDED else bound, self.parties
        silos = parties.ids(Role.SILO)
        if receiver == EVERYBODY:
            topology, order = Topology.to_server(parties, length, limit), list(range(self.silos))
        else:
            order = [*(silo for silo in range(self.silos) if silo != receiver), receiver]
            topology = Topology.to_client(parties, silos[order[:-1]], int(silos[receiver]), length, limit)
        scheme = self.schemes[topology.name].require_all(len(topology.senders))
        scheme.check_serves(topology)
        names, hosted = _by_place(known, order), np.array([_party(host)], dtype=np.int64)
        result = scheme.machines(topology, self.session, draws, hosted, names=names)
        return result[0] if result else None


def _party(end: int) -> int:
    """Return the identifier of a silo, or of SERVER."""
    return 0 if end == SERVER else 1 + end


def _by_place(known: Names | None, order: list[int]) -> Names | None:
    """Identities by place in a sum, from those by silo."""
    if known is None:
        return None
    identities = {order.index(silo): identity for silo, identity in known.own.items()}
    return Names(identities, Identities({place: known.known.public[silo] for place, silo in enumerate(order)}))


def _pack_parcels(company: Company, number: int, batches: list[Messages]) -> Outbox:
    """Return messages of a machine as parcels, by receiver."""
    out: dict[int, list[Parcel]] = {}
    for messages in batches:
        for party in np.unique(messages.receivers).tolist():
            data = encode(messages.rows(messages.receivers == party), company.session)
            arrays = scalar(number), np.frombuffer(data, dtype=np.uint8)
            out.setdefault(SERVER if party == 0 else party - 1, []).append(
                Parcel(messages.phase, messages.step, arrays)
            )
    return out


def _unpack_parcel(company: Company, parcel: Parcel, sender: int, receiver: int) -> tuple[int, Messages]:
    """Return the number of a sum, and what one party says to another in it."""
    number, data = fitting(parcel, ("<i8", ()), ("|u1", (-1,)))
    messages = decode(data.tobytes(), company.session)
    if not ((messages.senders == _party(sender)).all() and (messages.receivers == _party(receiver)).all()):
        raise MalformedMessageError("messages must be from who sent them, for who gets them; at least one is not")
    return int(number), messages


class SiloSums:
    """One silo's part in sums that run side by side, again and again.

    Args:
        company: who adds up, and how.
        silo: its number.
        coins: its own, secret.
        names: its identity, which signs its keys, and those of all silos; None sends keys unsigned.

    Attributes:
        company: as given.
    """

    def __init__(self, company: Company, silo: int, coins: Coins, names: Names | None = None) -> None:
        self.company, self._silo, self._draws, self._names = company, silo, OwnDraws(coins), names
        self._next = 0
        self._step = Step(0)
        self._open: Integers = np.empty((0, 4), dtype=np.int64)
        self._quotients: Integers = np.empty(0, dtype=np.int64)
        self._least = 0
        self._digits = Digits()
        self._parts: dict[int, SumMachine] = {}
        self._results: dict[int, Array] = {}
        self._digest = bytes(_DIGEST_BYTES)
        self._confirmed = self._digest
        self._confirmation = b""

    def begin(
        self,
        vectors: Mapping[int, Integers | int],
        bound: int,
        step: Step,
        parts: Sequence[int] = (),
        least: int = 0,
        digits: Digits = NO_DIGITS,
    ) -> Outbox:
        """Opens a sum for each receiver.

        Args:
            vectors: by receiver, a silo or EVERYBODY, in one order everywhere: the int64 vector that this silo adds;
                where it is the receiver itself, the length alone. Without a bound entries are 0 or more.
            bound: largest magnitude of an entry; UNBOUNDED for elements of the scheme's field.
            step: when.
            parts: see `quotients`, which the server tells of a sum for EVERYBODY; none for the sum itself.
            least: where it is not 0, the server tells of each entry of such a sum whether it is so large.
            digits: which entries of such a sum are digits of integers, which the server puts together.
        """
        self._step, self._results, rows = step, {}, []
        self._quotients, self._least, self._digits = np.array(parts, dtype=np.int64), least, digits
        for receiver, vector in vectors.items():
            number, self._next = self._next, self._next + 1
            length = vector if isinstance(vector, int) else len(vector)
            rows.append((number, length, bound, receiver))
            part = self._part(rows[-1])
            part.begin(Step(number), None if isinstance(vector, int) else vector[None])
            self._parts[number] = part
        self._open = np.array(rows, dtype=np.int64)
        opening = Parcel(OPENING, step, (self._open, self._quotients, scalar(least), digits.array))
        return self._step_machines({SERVER: [opening], **self._confirm(step, opening.to_bytes())})

    def confirm_results(self, step: Step) -> Outbox:
        """Confirm all results so far to the other silos; nothing leaves where none came since the last confirmation.

        What leaves is due from all others in the next turn, before `take_confirmations` lets anything else leave.

        Args:
            step: of the sum over neighbours that follows.
        """
        return {} if self._confirmed == self._digest else self._confirm(step, b"")

    @property
    def confirming(self) -> bool:
        """Whether confirmations of the others are due."""
        return bool(self._confirmation)

    def _confirm(self, step: Step, opening: bytes) -> dict[int, list[Parcel]]:
        self._confirmed = self._digest
        self._confirmation = hashlib.sha256(self._digest + opening).digest()
        confirmation = Parcel(CONFIRMATION, step, (np.frombuffer(self._confirmation, dtype=np.uint8),))
        return {silo: [confirmation] for silo in self._others}

    @property
    def _others(self) -> list[int]:
        return [silo for silo in range(self.company.silos) if silo != self._silo]

    def take(self, inbox: Inbox) -> Outbox | None:
        """Hears the others and answers; None when all sums are done.

        Raises:
            ProtocolError: a message is not what is due; or another silo got other results from the server, or opens
                other sums.
        """
        done = []
        for sender, parcels in self.take_confirmations(inbox).items():
            for parcel in parcels:
                if sender == SERVER and parcel.phase is DONE:
                    done.append(parcel)
                    continue
                number, messages = _unpack_parcel(self.company, parcel, sender, self._silo)
                if number not in self._parts:
                    raise ProtocolError(f"messages must be of a sum that is open; found some of {number}")
                self._parts[number].receive(messages)
        out = self._step_machines({})
        for parcel in done:
            self._keep(parcel)
        if out or len(self._results) < len(self._open):
            return out
        self._parts = {}
        return None

    def take_confirmations(self, inbox: Inbox) -> Inbox:
        """Check the confirmations of all others, where they are due, and return what has arrived beside them.

        Raises:
            ProtocolError: one is missing, or confirms other results or another opening.
        """
        if not self._confirmation:
            return inbox
        for silo in self._others:
            (digest,) = fitting(only(inbox, silo, CONFIRMATION), ("|u1", (_DIGEST_BYTES,)))
            if digest.tobytes() != self._confirmation:
                raise ProtocolError(
                    f"silos must open the same sums after the same results from the server; those of silo {silo} and "
                    f"of this one, {self._silo}, differ, so start a new run with a server that you trust"
                )
        self._confirmation = b""
        return {
            sender: [parcel for parcel in parcels if sender == SERVER or parcel.phase is not CONFIRMATION]
            for sender, parcels in inbox.items()
        }

    def _step_machines(self, out: dict[int, list[Parcel]]) -> Outbox:
        """What all parts say in their turn."""
        for number, part in self._parts.items():
            for end, parcels in _pack_parcels(self.company, number, list(part.step())).items():
                out.setdefault(end, []).extend(parcels)
        return out

    def _keep(self, parcel: Parcel) -> None:
        parts = self._quotients
        kind = "|b1" if self._least else "<f8" if len(parts) else "<i8"
        number, total = fitting(parcel, ("<i8", ()), (kind, (-1,)))
        row = self._open[self._open[:, 0] == int(number)]
        if len(row) != 1 or int(number) in self._results:
            raise ProtocolError(f"server must be done with a sum that is open, once; found {int(number)}")
        _, length, _, receiver = row[0].tolist()
        length_of_others = length - self._digits.spared_entries - len(parts) if receiver == EVERYBODY else 0
        if len(total) != length_of_others:
            raise ProtocolError(f"server must send {length_of_others} entries of sum {int(number)}; found {len(total)}")
        if receiver == self._silo:
            sums = self._parts[int(number)].sums
            if sums is None:
                raise ProtocolError(f"sum {int(number)} must be there when the server is done with it; it is not")
            total = sums[0]
        self._digest = hashlib.sha256(self._digest + parcel.to_bytes()).digest()
        self._results[int(number)] = total

    def _part(self, row: tuple[int, int, int, int]) -> SumMachine:
        _, length, bound, receiver = row
        part = self.company.machine(length, bound, receiver, self._silo, self._draws, self._names)
        assert part is not None, "every silo adds, or is entitled to the sum"
        return part

    @property
    def results(self) -> dict[int, Array]:
        """The sums that this silo learns, by receiver: EVERYBODY's and its own."""
        by_number = {int(number): int(receiver) for number, _, _, receiver in self._open}
        keys = (EVERYBODY, self._silo)
        return {by_number[n]: total for n, total in self._results.items() if by_number[n] in keys}

    def state(self) -> dict[str, Array]:
        """What is open, what the server sent so far as a digest, and each part's own state."""
        step = np.array([self._step.round, self._step.layer, self._step.part], dtype=np.int64)
        arrays: dict[str, Array] = {"next": scalar(self._next), "step": step, "open": self._open}
        arrays |= {"quotients": self._quotients, "least": scalar(self._least), "digits": self._digits.array}
        for name in ("digest", "confirmed", "confirmation"):
            digest = getattr(self, f"_{name}")
            arrays[name] = np.frombuffer(digest, dtype=np.uint8)
        for number, part in self._parts.items():
            arrays |= under(f"part{number}", part.state())
        return arrays | {f"result{n}": total for n, total in self._results.items()}

    def restore(self, state: Arrays) -> None:
        """Goes on where a state was taken."""
        self._next, self._open, self._quotients = int(state["next"]), state["open"], state["quotients"]
        self._least, self._digits = int(state["least"]), Digits(*state["digits"].tolist())
        self._digest, self._confirmed, self._confirmation = (
            state[name].tobytes() for name in ("digest", "confirmed", "confirmation")
        )
        layer_and_all = state["step"].tolist()
        self._step = Step(layer_and_all[0], layer_and_all[1], part=layer_and_all[2])
        self._parts = {}
        for row in self._open.tolist():
            part_state = within(f"part{row[0]}", state)
            if part_state:
                self._parts[row[0]] = self._part(row)
                self._parts[row[0]].restore(part_state)
        numbers = self._open[:, 0].tolist()
        self._results = {n: state[f"result{n}"] for n in numbers if f"result{n}" in state}


_MOST_BITS = 64


def _join_outboxes(*outboxes: Outbox) -> Outbox:
    """Return several outboxes as one."""
    out: dict[int, list[Parcel]] = {}
    for outbox in outboxes:
        for receiver, parcels in outbox.items():
            out.setdefault(receiver, []).extend(parcels)
    return out


class SumServer:
    """The server's part in a run.

    Args:
        company: who adds up, and how.
        coins: its own.
    """

    def __init__(self, company: Company, coins: Coins) -> None:
        self._parties, self._draws = company, OwnDraws(coins)
        self._step = Step(0)
        self._parts: list[int] = []
        self._least = 0
        self._digits = NO_DIGITS
        self._receivers: dict[int, int] = {}
        self._sums: dict[int, SumMachine | None] = {}

    @property
    def silos(self) -> int:
        """How many take part."""
        return self._parties.silos

    @property
    def session(self) -> bytes:
        """16 public bytes, different in every run."""
        return self._parties.session

    def turn(self, inbox: Inbox) -> Outbox:
        """One turn: what silos have sent, and what they get.

        Raises:
            ProtocolError: silos open different sums, or an answer is not what is due.
            TooFewClientsError: fewer are left than the scheme's threshold.
        """
        if any(parcel.phase is OPENING for parcels in inbox.values() for parcel in parcels):
            self._open(inbox)
        for silo, parcels in inbox.items():
            for parcel in parcels:
                if parcel.phase is not OPENING and self._sums:
                    self._receive(silo, parcel)
        return _join_outboxes(*(self._server_messages(number) for number in list(self._sums)))

    def _open(self, inbox: Inbox) -> None:
        if self._sums:
            raise ProtocolError(f"silos must end their sums before they open others; {len(self._sums)} are open")
        openings = [only(inbox, silo, OPENING) for silo in range(self._parties.silos)]
        opened = [fitting(parcel, ("<i8", (-1, 4)), ("<i8", (-1,)), ("<i8", ()), ("<i8", (3,))) for parcel in openings]
        self._step, (rows, parts, least, digits) = openings[0].step, opened[0]
        for silo, (parcel, result) in enumerate(zip(openings, opened, strict=True)):
            same = all(np.array_equal(*pair) for pair in zip(result, opened[0], strict=True))
            if not same or parcel.step != self._step:
                raise ProtocolError(f"silos must open the same sums; those of silos 0 and {silo} differ")
        self._parts, self._least = parts.tolist(), int(least)
        if min(self._parts, default=0) < 0 or (len(parts) and (len(rows), rows[0, 3]) != (1, EVERYBODY)):
            raise ProtocolError("parts must be lengths, of the one sum that is opened, for all silos; they are not")
        if self._least < 0 or (self._least and (len(parts) or (len(rows), rows[0, 3]) != (1, EVERYBODY))):
            raise ProtocolError("least must be 0, or that of the one sum that is opened, for all silos; it is not")
        self._digits = _checked_digits(digits, rows)
        if len(parts) and sum(self._parts) + len(parts) > rows[0, 1] - self._digits.spared_entries:
            raise ProtocolError("parts must fit into the sum; they do not")
        for number, length, bound, receiver in rows.tolist():
            machine = self._parties.machine(length, bound, receiver, SERVER, self._draws)
            if machine is not None:
                machine.begin(Step(number))
            self._sums[number], self._receivers[number] = machine, receiver

    def _receive(self, silo: int, parcel: Parcel) -> None:
        number, messages = _unpack_parcel(self._parties, parcel, silo, SERVER)
        machine = self._sums.get(number)
        if machine is None:
            raise ProtocolError(f"silo {silo} must answer in a sum that is open; found {number}")
        machine.receive(messages)

    def _server_messages(self, number: int) -> Outbox:
        """What the server says in a sum; to all when it is done."""
        machine = self._sums[number]
        out = {} if machine is None else _pack_parcels(self._parties, number, list(machine.step()))
        if machine is not None and not machine.over:
            return out
        del self._sums[number]
        total: Array = np.empty(0, dtype=np.int64)
        if self._receivers.pop(number) == EVERYBODY:
            assert machine is not None, "the server adds up what is for everybody"
            sums = machine.sums
            if sums is None:
                raise ProtocolError(f"sum {number} must be there when all is said; it is not")
            total = self._digits.together(sums[0])
            total = quotients(total, self._parts) if self._parts else total
            total = total >= self._least if self._least else total
        done = {silo: [Parcel(DONE, self._step, (scalar(number), total))] for silo in range(self._parties.silos)}
        return _join_outboxes(out, done)


def _checked_digits(digits: Array, rows: Array) -> Digits:
    """Which entries of the one sum that is opened, for every party, are digits."""
    result = Digits(*digits.tolist())
    if result == NO_DIGITS:
        return result
    fits = result.whole >= 1 and 1 <= result.places <= _MOST_BITS and 2 <= result.bits <= _MOST_BITS
    if not fits or (len(rows), rows[0, 3]) != (1, EVERYBODY) or result.whole * result.places > rows[0, 1]:
        raise ProtocolError("digits must be those of the one sum that is opened, for all silos; they are not")
    return result


def deliver_posts(posts: Mapping[int, Mapping[int, bytes]], server: SumServer) -> dict[int, dict[int, bytes]]:
    """What a mailbox does in one turn: hands the server what is for it, and every party what is for them.

    Args:
        posts: by sender, what left.
        server: leads sums.

    Returns:
        By receiver, then by sender.

    Raises:
        ProtocolError: see `SumServer.turn`.
    """
    sorted_: dict[int, dict[int, bytes]] = {}
    for sender, post in posts.items():
        for receiver, data in post.items():
            sorted_.setdefault(receiver, {})[sender] = data
    to_server = {sender: parcels_from_bytes(data) for sender, data in sorted_.pop(SERVER, {}).items()}
    answer: Outbox = server.turn(to_server)
    for receiver, parcels in answer.items():
        sorted_.setdefault(receiver, {})[SERVER] = parcels_to_bytes(parcels)
    return sorted_
