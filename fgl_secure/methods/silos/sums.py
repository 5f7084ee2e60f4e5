"""Staged sums of all silos as part of a program: for everybody, or for one silo that hides the sum from the server.

The server leads every sum and learns it. A sum that is for one silo alone goes through it all the same: its receiver
takes part with a vector of its own, uniform modulo the scheme's modulus and never used again, so that what the server
learns is uniform whatever the others add; the receiver takes its vector off.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fgl_secure.coins import Coins
from fgl_secure.errors import InputError, ProtocolError
from fgl_secure.methods.silos.parcels import Array, Arrays, Parcel
from fgl_secure.methods.silos.program import Inbox, Machine, Outbox, fitting, scalar
from fgl_secure.protocols.identity import Identities, Identity
from fgl_secure.protocols.staged.envelope import SERVER
from fgl_secure.protocols.staged.interface import Integers, StagedClient, StagedScheme, SumTerms
from fgl_secure.runtime import Phase, Step

EVERYBODY = -1
UNBOUNDED = -1
OPENING = Phase.CAPACITIES
"""Silos say which sums they are about to take part in: number, length, bound and receiver of each."""


@dataclass(frozen=True, slots=True)
class Company:
    """How the silos of a run add up.

    Attributes:
        silos: how many.
        scheme: adds the vectors up.
        session: 16 public bytes, different in every run.
    """

    silos: int
    scheme: StagedScheme
    session: bytes

    def terms(self, number: int, length: int, bound: int) -> SumTerms:
        """What all know of one sum, whose bound may be UNBOUNDED.

        All silos must stay to the end: in a sum without its receiver's own vector the server would learn what the
        others add.
        """
        limit = None if bound == UNBOUNDED else bound
        return SumTerms(self.session, number, self.silos, self.silos, length, limit)

    @property
    def largest(self) -> int:
        """The largest magnitude of a sum of one vector of each silo."""
        return self.scheme.limit(self.silos)

    @property
    def modulus(self) -> int:
        """Of sums for one silo.

        Raises:
            InputError: the scheme has none.
        """
        if self.scheme.modulus is None:
            raise InputError(
                f"scheme must have a modulus for sums that one silo alone learns; {self.scheme.name} has none"
            )
        return self.scheme.modulus


class SiloSums(Machine):
    """One silo's part in sums that run side by side, again and again.

    Args:
        company: who adds up, and how.
        silo: its number.
        coins: its own, secret.
        identity: signs its keys; None sends them unsigned.
        identities: of all silos.

    Attributes:
        company: as given.
    """

    def __init__(
        self,
        company: Company,
        silo: int,
        coins: Coins,
        identity: Identity | None = None,
        identities: Identities | None = None,
    ) -> None:
        self.company, self._silo, self._coins = company, silo, coins
        self._identity, self._identities = identity, identities
        self._next = 0
        self._step = Step(0)
        self._open: Integers = np.empty((0, 4), dtype=np.int64)
        self._parts: dict[int, StagedClient] = {}
        self._pads: dict[int, Integers] = {}
        self._results: dict[int, Array] = {}

    def begin(self, vectors: Mapping[int, Integers | int], bound: int, step: Step) -> Outbox:
        """Opens a sum for each receiver.

        Args:
            vectors: by receiver, a silo or EVERYBODY, in one order everywhere: the int64 vector that this silo adds;
                where it is the receiver itself, the length alone. For one silo entries are 0 or more.
            bound: largest magnitude of an entry of a vector for EVERYBODY.
            step: when.
        """
        self._step, self._results, rows = step, {}, []
        for receiver, given in vectors.items():
            number, self._next = self._next, self._next + 1
            length = given if isinstance(given, int) else len(given)
            rows.append((number, length, bound if receiver == EVERYBODY else UNBOUNDED, receiver))
            terms = self.company.terms(number, length, rows[-1][2])
            vector = self._pad(number, length) if isinstance(given, int) else given
            part = self.company.scheme.client(terms, self._silo, self._coins, self._identity, self._identities)
            part.provide(vector)
            self._parts[number] = part
        self._open = np.array(rows, dtype=np.int64)
        return {SERVER: [Parcel(OPENING, step, (self._open,))]}

    def _pad(self, number: int, length: int) -> Integers:
        self._pads[number] = self._coins.uniform(self.company.modulus, (length,))
        return self._pads[number]

    def take(self, inbox: Inbox) -> Outbox | None:
        """Answers the server; None when all sums are done."""
        answers = []
        for parcel in inbox.get(SERVER, ()):
            if parcel.phase in (Phase.VECTOR_SUMS, Phase.MASKED_SUMS):
                self._keep(parcel)
                continue
            number, message = fitting(parcel, ("<i8", ()), ("|u1", (-1,)))
            part = self._parts.get(int(number))
            if part is None:
                raise ProtocolError(f"server must ask for a sum that is open; found {int(number)}")
            answer = np.frombuffer(part.reply(message.tobytes()), dtype=np.uint8)
            answers.append(Parcel(parcel.phase, self._step, (number, answer)))
        if answers or len(self._results) < len(self._open):
            return {SERVER: answers}
        self._parts, self._pads = {}, {}
        return None

    def _keep(self, parcel: Parcel) -> None:
        number, total = fitting(parcel, ("<i8", ()), ("<i8", (-1,)))
        row = self._open[self._open[:, 0] == int(number)]
        if len(row) != 1 or int(number) in self._results:
            raise ProtocolError(f"server must give the result of a sum that is open, once; found {int(number)}")
        _, length, _, receiver = row[0].tolist()
        mine = receiver in (EVERYBODY, self._silo)
        if len(total) != (length if mine else 0):
            raise ProtocolError(f"result of sum {int(number)} must have {length if mine else 0} entries; it has not")
        pad = self._pads.get(int(number))
        if pad is not None:
            modulus = self.company.modulus
            if len(total) and not (int(total.min()) >= 0 and int(total.max()) < modulus):
                raise ProtocolError(f"result of sum {int(number)} must have entries in 0..{modulus - 1}; it has not")
            difference = total - pad
            total = np.where(difference < 0, difference + modulus, difference)
        self._results[int(number)] = total

    @property
    def results(self) -> dict[int, Array]:
        """The sums that this silo learns, by receiver: EVERYBODY's and its own."""
        by_number = {int(number): int(receiver) for number, _, _, receiver in self._open}
        mine = (EVERYBODY, self._silo)
        return {by_number[n]: total for n, total in self._results.items() if by_number[n] in mine}

    def state(self) -> dict[str, Array]:
        """What is open, and each part's own state."""
        step = np.array([self._step.round, self._step.layer, self._step.part], dtype=np.int64)
        arrays: dict[str, Array] = {"next": scalar(self._next), "step": step, "open": self._open}
        arrays |= {f"part{n}": np.frombuffer(part.state(), dtype=np.uint8) for n, part in self._parts.items()}
        arrays |= {f"pad{n}": pad for n, pad in self._pads.items()}
        return arrays | {f"result{n}": total for n, total in self._results.items()}

    def restore(self, state: Arrays) -> None:
        """Goes on where a state was taken."""
        self._next, self._open = int(state["next"]), state["open"]
        layer_and_all = state["step"].tolist()
        self._step = Step(layer_and_all[0], layer_and_all[1], part=layer_and_all[2])
        lengths = {int(row[0]): (int(row[1]), int(row[2])) for row in self._open}
        scheme, terms = self.company.scheme, self.company.terms
        self._parts = {
            n: scheme.restored(terms(n, *lengths[n]), state[f"part{n}"].tobytes())
            for n in lengths
            if f"part{n}" in state
        }
        self._pads = {n: state[f"pad{n}"] for n in lengths if f"pad{n}" in state}
        self._results = {n: state[f"result{n}"] for n in lengths if f"result{n}" in state}
