"""A client's part in one round: its machines, and bytes in and out over any transport."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fgl_secure.aggregation.arguments import DEFAULT_LIMITS, Limits, bytes_of, check_kind, number_of
from fgl_secure.aggregation.encoding import RoundingErrors
from fgl_secure.aggregation.layout import TensorLayout, Tree
from fgl_secure.aggregation.privacy import EpsilonLedger
from fgl_secure.aggregation.record import warn_of_lost_updates
from fgl_secure.aggregation.rules import Rules
from fgl_secure.aggregation.sums import Opening, SumKind, SumRequest, batches_from_bytes, batches_to_bytes
from fgl_secure.coins import Coins
from fgl_secure.errors import InputError, MalformedMessageError, ProtocolError, StaleMessageError
from fgl_secure.host import numpy_settings
from fgl_secure.protocols.identity import Identities, Identity, Names
from fgl_secure.protocols.scheme import SumMachine
from fgl_secure.runtime import OwnDraws, Role
from fgl_secure.runtime.messages import SESSION_BYTES
from fgl_secure.runtime.packing import Arrays, named_from_bytes, named_to_bytes, pack, under, within
from fgl_secure.typing import Array, Integers


@dataclass(frozen=True, slots=True)
class Place:
    """Which client of which round.

    Attributes:
        session: 16 public bytes that no other session has, as the client has made sure.
        number: of the round in the session, from 0; a client takes part in each once.
        index: the client's number.
    """

    session: bytes
    number: int
    index: int


@dataclass(slots=True)
class _Part:
    """This client's part in one sum of the round."""

    purpose: SumKind
    opening: Opening
    machine: SumMachine


class ClientRound:
    """One client's part in one round. Holds secrets: its repr shows none.

    Args:
        rules: as all parties agreed on them.
        place: which client of which round.
        coins: of this client.
        identity: the key that it signs with, if clients have any.
        identities: the others' public keys, as this client knows them from elsewhere.
        ledger: counts rounds against a privacy budget; None for a fresh one.
        limits: what this client accepts at most, whatever the rules and messages say.
        rounding_errors: rounding errors of its round before, where they are fed back; None for none.

    Raises:
        InputError: the rules are for more clients than the limits allow, or have none of that number, or an identity
            comes without the others'.
    """

    def __init__(
        self,
        rules: Rules,
        place: Place,
        coins: Coins,
        identity: Identity | None = None,
        identities: Identities | None = None,
        ledger: EpsilonLedger | None = None,
        limits: Limits = DEFAULT_LIMITS,
        rounding_errors: RoundingErrors | None = None,
    ) -> None:
        limits.check_clients(rules.clients)
        if not 0 <= place.index < rules.clients:
            raise InputError(f"index must lie in 0..{rules.clients - 1}; found {place.index}")
        if (identity is None) != (identities is None):
            raise InputError("identity and identities must be given together; found one without the other")
        if identity is not None:
            check_kind(identity, Identity, "identity")
            check_kind(identities, Identities, "identities", "give Identities(public keys by client)")
        self._rules, self._place, self._coins, self._limits = rules, place, coins, limits
        self._names: Names | None = None
        if identity is not None and identities is not None:
            self._names = Names({place.index: identity}, identities)
        self._ledger = ledger or EpsilonLedger(rules.privacy, rules.threshold)
        self._kept = (rounding_errors or RoundingErrors()) if rules.feeds_back else None
        self._mapping: Tree | None = None
        self._weight = 1.0
        self._part: _Part | None = None

    def __repr__(self) -> str:
        return f"ClientRound({self._place}, <secrets>)"

    @property
    def place(self) -> Place:
        """Which client of which round."""
        return self._place

    @property
    def has_contribution(self) -> bool:
        """Whether it has what it adds, or had it before it began to hand it in."""
        return self._mapping is not None or self._part is not None

    @property
    def rounding_errors(self) -> RoundingErrors | None:
        """What its numbers were rounded by, for its next round; secret. None where errors are not fed back."""
        return self._kept

    @property
    def over(self) -> bool:
        """Whether it has given its last answer in the round."""
        return self._part is not None and self._part.purpose.is_mean and self._part.machine.over

    @numpy_settings()
    def provide(self, mapping: Tree, weight: float = 1) -> None:
        """Takes what this client adds; wanted before it answers for the first time.

        Args:
            mapping: arrays by name, or in order, which must stay as they are until the round is done.
            weight: how much it counts.

        Raises:
            InputError: a second mapping, or no such weight.
        """
        if self.has_contribution:
            raise InputError("mapping must be provided once in a round; found a second one")
        weight = number_of(weight, "weight")
        self._rules.weighing.units(weight)
        if self._rules.privacy is not None and weight != 1:
            raise InputError("weights must all be 1 under privacy, or one client counts for several; one is not")
        TensorLayout.of(mapping)
        self._mapping, self._weight = mapping, weight

    @numpy_settings()
    def check(self, message: bytes) -> None:
        """Raises unless a request is one to answer, as far as that can be seen before this client has what it adds.

        Raises:
            ProtocolError: see `reply`.
            InputError, FieldRangeError: the sum that it opens is none that can be.
        """
        request = self._read(message)
        if self._opens(request):
            self._machine(request.purpose, self._checked_opening(request))

    @numpy_settings()
    def reply(self, message: bytes) -> bytes:
        """Answers the server.

        Raises:
            ProtocolError: the request is malformed, stale, or asks for what an honest client does not give.
            InputError: no mapping was provided, or it has another layout, NaN, or a number beyond its bound.
            BudgetExhaustedError: the round would cost more than the privacy budget has left.
            In all these cases the client is as it was before, and answers a good request later.
        """
        request = self._read(message)
        part = self._part_for(request)
        rules, session = self._rules, self._place.session
        server, party = int(rules.parties.ids(Role.SERVER)[0]), self._party
        batches = batches_from_bytes(request.batches, session, server, party)
        before = part.machine.state()
        try:
            for messages in batches:
                part.machine.receive(messages)
            answer = pack(batches_to_bytes(part.machine.step(), session))
        except ProtocolError:
            part.machine.restore(before)
            raise
        self._part = part
        if part.purpose is SumKind.VALUES:  # the last sum of a round: its machine has the vector until it is sent
            self._mapping = None
        if self._kept is not None and self.over:
            self._kept.settle()
        return answer

    def state(self) -> bytes:
        """Everything that `restore` needs to go on in another process; secret, for this client alone."""
        place, part = self._place, self._part
        arrays: dict[str, Array] = {
            "session": np.frombuffer(place.session, np.uint8),
            "place": np.array([place.number, place.index, self._names is not None], dtype=np.int64),
            "weight": np.asarray(self._weight, dtype=np.float64),
        }
        if self._mapping is not None:
            layout = TensorLayout.of(self._mapping)
            arrays["layout"] = np.frombuffer(layout.to_bytes(), np.uint8)
            arrays |= under("mapping", layout.pack(self._mapping))
        if part is not None:
            arrays["purpose"] = np.asarray(part.purpose, dtype=np.int64)
            arrays["opening"] = np.frombuffer(part.opening.to_bytes(), np.uint8)
            arrays |= under("machine", part.machine.state())
        if self._kept is not None:
            arrays |= under("kept", self._kept.arrays)
        return named_to_bytes(arrays)

    @classmethod
    def restore(
        cls,
        rules: Rules,
        state: bytes,
        coins: Coins,
        identity: Identity | None = None,
        identities: Identities | None = None,
        ledger: EpsilonLedger | None = None,
        limits: Limits = DEFAULT_LIMITS,
    ) -> ClientRound:
        """A client that goes on where `state` was taken.

        Raises:
            MalformedMessageError: it is no state of a client under these rules.
            InputError: the client checked identities, and would not any more.
        """
        result = named_from_bytes(bytes_of(state, "state"))
        forms = {name: (array.dtype.str, array.shape) for name, array in result.items()}
        if any(forms.get(name) != form for name, form in _HEAD.items()):
            raise MalformedMessageError("state must name its round and client by numbers; it does not")
        number, index, signed = result["place"].tolist()
        if signed and identities is None:
            raise InputError("identity and identities must be given again to a client that had them; found none")
        errors = RoundingErrors.from_arrays(within("kept", result)) if rules.feeds_back else None
        place = Place(result["session"].tobytes(), number, index)
        client = cls(rules, place, coins, identity, identities, ledger, limits, errors)
        client._weight = float(result["weight"])
        if "layout" in result:
            layout = TensorLayout.from_bytes(result["layout"].tobytes(), limits)
            client._mapping = layout.unpack(within("mapping", result))
        if "purpose" in result:
            client._part = client._read_part(result)
        return client

    @property
    def _party(self) -> int:
        return int(self._rules.parties.ids(Role.SILO)[self._place.index])

    def _part_for(self, request: SumRequest) -> _Part:
        """The part of the current sum, or of the next one that a request opens."""
        if self._opens(request):
            return self._open_part(request)
        part = self._part
        assert part is not None, "see _opens"
        if request.purpose is not part.purpose:
            raise StaleMessageError(f"request must be of the sum of {part.purpose.name}; found {request.purpose.name}")
        if request.opening is not None:
            raise StaleMessageError(f"sum of {part.purpose.name} must be opened once; found another opening")
        return part

    def _read(self, message: bytes) -> SumRequest:
        request = SumRequest.from_bytes(bytes_of(message, "message"), self._limits)
        if (request.session, request.number) != (self._place.session, self._place.number):
            raise StaleMessageError(f"request must be of round {self._place.number} of this session; it is of another")
        return request

    def _opens(self, request: SumRequest) -> bool:
        """Whether a request begins a sum; who has opened a mean takes part in no other sum of the round."""
        if self._part is None:
            return True
        return request.purpose.may_follow(self._part.purpose) and not self.over

    def _checked_opening(self, request: SumRequest) -> Opening:
        """How a request opens its sum, if that is as the rules have it."""
        opening, values = request.opening, request.purpose.is_mean
        if opening is None:
            raise StaleMessageError(f"first request of the sum of {request.purpose.name} must open it; it does not")
        if request.batches:
            raise MalformedMessageError("first request of a sum must hold no messages; it does")
        finds, has_bounds = self._rules.finds_ranges(opening.layout), opening.bounds is not None
        fits = (
            finds and (self._rules.watched or not has_bounds)
            if request.purpose is SumKind.RANGES
            else finds == has_bounds
        )
        if not fits:
            raise ProtocolError("ranges must be asked for, and bounds be named, only where the rules leave them open")
        if request.purpose is SumKind.WATCHED and not (has_bounds and self._rules.has_vetoes(opening.layout)):
            raise ProtocolError("mean must be one to veto only where ranges are known and watched, and the scheme can")
        marks, opens = request.purpose is SumKind.CONTRIBUTOR_COUNT, opening.opened is not None
        closes = self._rules.closes_entries(opening.layout)
        if (marks or opens) and not closes:
            raise ProtocolError("marks must be asked for, and entries be opened, only where k_min is above 1")
        if closes and opens != values:
            raise ProtocolError("entries must be opened with the sum of the values, and with no other; they are not")
        return opening

    def _open_part(self, request: SumRequest) -> _Part:
        """The part of a sum that a request opens; of this client nothing changes but its budget."""
        opening = self._checked_opening(request)
        if self._mapping is None:
            raise InputError("mapping must be provided before a sum is opened; found none")
        opening.layout.check(self._mapping)
        machine, step = self._machine(request.purpose, opening), self._rules.step(request.purpose, self._place.number)
        if self._rules.exceeds_range(request.purpose, opening, self._mapping):
            machine.begin(step, np.zeros((1, self._rules.code(opening).width), np.int64))
            machine.veto(np.ones(1, dtype=np.bool_))
        else:
            machine.begin(step, self._vector(request.purpose, opening, self._mapping)[None])
        return _Part(request.purpose, opening, machine)

    def _vector(self, purpose: SumKind, opening: Opening, mapping: Tree) -> Integers:
        """What it adds to a sum that it does not veto."""
        rules = self._rules
        vector = rules.vector(purpose, opening, mapping, self._weight, self._coins, self._kept)
        if purpose.is_mean:
            client, heaviest = self._place.index, rules.clients * rules.weighing.bound
            warn_of_lost_updates(rules, rules.code(opening), {client: mapping}, (client,), heaviest)
            if rules.privacy is not None:
                self._ledger.spend(opening.layout, self._place.session, self._place.number, self._place.index)
        return vector

    def _machine(self, purpose: SumKind, opening: Opening) -> SumMachine:
        rules, hosted = self._rules, np.array([self._party], dtype=np.int64)
        session = rules.session(self._place.session, opening)
        topology = rules.topology(purpose, opening)
        (machine,) = rules.scheme.machines(topology, session, OwnDraws(self._coins), hosted, names=self._names)
        return machine

    def _read_part(self, result: Arrays) -> _Part:
        number = int(result["purpose"]) if result["purpose"].size == 1 else -1
        if number not in set(SumKind) or "opening" not in result:
            raise MalformedMessageError("state must say which sum it is of; it does not")
        purpose, opening = SumKind(number), Opening.from_bytes(result["opening"].tobytes(), self._limits)
        machine = self._machine(purpose, opening)
        machine.restore(within("machine", result))
        return _Part(purpose, opening, machine)


_HEAD = {"session": ("|u1", (SESSION_BYTES,)), "place": ("<i8", (3,)), "weight": ("<f8", ())}
"""Type and shape of what every state has."""
