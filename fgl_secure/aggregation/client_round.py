"""A client's part in one round: messages in, messages out, over any transport."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fgl_secure.aggregation.arguments import number_of
from fgl_secure.aggregation.layout import Layout
from fgl_secure.aggregation.ledger import Ledger
from fgl_secure.aggregation.messages import Opening, Request, fields
from fgl_secure.aggregation.rules import Purpose, Rules
from fgl_secure.coins import Coins
from fgl_secure.errors import InputError, MalformedMessageError, ProtocolError, StaleMessageError
from fgl_secure.protocols.staged.envelope import packed
from fgl_secure.protocols.staged.identity import Identities, Identity
from fgl_secure.protocols.staged.interface import SESSION_BYTES, Integers, StagedClient, SumTerms


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

    purpose: Purpose
    opening: Opening
    client: StagedClient
    handed: bool = False


class ClientRound:
    """One client's part in one round. Holds secrets: its repr shows none.

    Args:
        rules: as all parties agreed on them.
        place: which client of which round.
        coins: of this client.
        identity: the key that it signs with, if clients have any.
        identities: the others' public keys, as this client knows them from elsewhere.
        ledger: counts rounds against a privacy budget; None for a fresh one.
    """

    def __init__(
        self,
        rules: Rules,
        place: Place,
        coins: Coins,
        identity: Identity | None = None,
        identities: Identities | None = None,
        ledger: Ledger | None = None,
    ) -> None:
        if not 0 <= place.index < rules.clients:
            raise InputError(f"index must lie in 0..{rules.clients - 1}; found {place.index}")
        self._rules, self._place, self._coins = rules, place, coins
        self._identity, self._identities = identity, identities
        self._ledger = ledger or Ledger(rules)
        self._mapping: Mapping[str, Any] | None = None
        self._weight = 1.0
        self._part: _Part | None = None

    def __repr__(self) -> str:
        return f"ClientRound({self._place}, <secrets>)"

    @property
    def place(self) -> Place:
        """Which client of which round."""
        return self._place

    def provide(self, mapping: Mapping[str, Any], weight: float = 1) -> None:
        """Takes what this client adds; wanted before the vectors are asked for.

        Args:
            mapping: from names to arrays, which must stay as they are until the round is done.
            weight: how much it counts.

        Raises:
            InputError: a second mapping, one of another layout than the server's, or no such weight.
        """
        if self._mapping is not None:
            raise InputError("mapping must be provided once in a round; found a second one")
        self._rules.weighing.units(number_of(weight, "weight"))
        if self._rules.privacy is not None and weight != 1:
            raise InputError("weights must all be 1 under privacy, or one client counts for several; one is not")
        layout = Layout.of(mapping) if self._part is None else self._part.opening.layout
        layout.check(mapping)
        self._mapping, self._weight = mapping, float(weight)

    def reply(self, message: bytes) -> bytes:
        """Answers the server.

        Raises:
            ProtocolError: the request is malformed, stale, or asks for what an honest client does not give.
            InputError: no mapping was provided, or it has another layout, NaN, or a number beyond its bound.
            BudgetExhaustedError: the round would cost more than the privacy budget has left.
            In all these cases the client is as it was before, and answers a good request later.
        """
        request = Request.from_bytes(message)
        part = self._part_for(request)
        if self._mapping is not None and not part.handed:
            part.client.provide(self._vector(part, self._mapping))
            part.handed = True
        answer = part.client.reply(request.message)
        self._part = part
        return answer

    def state(self) -> bytes:
        """Everything that `restored` needs to go on in another process; secret, for this client alone."""
        place, part, own, at = self._place, self._part, b"", b""
        if self._mapping is not None:
            layout = Layout.of(self._mapping)
            own = packed([layout.to_bytes(), layout.packed(self._mapping)])
        if part is not None:
            at = packed([bytes([part.purpose, part.handed]), part.opening.to_bytes(), part.client.state()])
        signed = self._identities is not None
        head = {"number": place.number, "index": place.index, "weight": self._weight, "signed": signed}
        return packed([place.session, json.dumps(head).encode(), own, at])

    @classmethod
    def restored(
        cls,
        rules: Rules,
        state: bytes,
        coins: Coins,
        identity: Identity | None = None,
        identities: Identities | None = None,
        ledger: Ledger | None = None,
    ) -> ClientRound:
        """A client that goes on where `state` was taken.

        Raises:
            MalformedMessageError: it is no state of a client under these rules.
            InputError: the client checked identities, and would not any more.
        """
        session, head, own, at = fields(state, 4)
        number, index, weight, signed = _read_head(head)
        if signed and identities is None:
            raise InputError("identity and identities must be given again to a client that had them; found none")
        if len(session) != SESSION_BYTES:
            raise MalformedMessageError(f"session must have {SESSION_BYTES} bytes; found {len(session)}")
        client = cls(rules, Place(session, number, index), coins, identity, identities, ledger)
        if own:
            layout, numbers = fields(own, 2)
            client._mapping, client._weight = Layout.from_bytes(layout).unpacked(numbers), weight
        if at:
            client._part = client._read_part(at)
        return client

    def _part_for(self, request: Request) -> _Part:
        """The part of the sum at hand, or of the next one that a request opens."""
        part = self._part
        if part is None or request.purpose > part.purpose:
            return self._opened(request)
        if request.purpose < part.purpose:
            raise StaleMessageError(f"request must be of the sum of {part.purpose.name}; found {request.purpose.name}")
        return part

    def _opened(self, request: Request) -> _Part:
        """The part of a sum that a request opens; of this client nothing changes but its budget."""
        opening, values = request.opening, request.purpose is Purpose.VALUES
        if opening is None:
            raise StaleMessageError(f"first request of the sum of {request.purpose.name} must open it; it does not")
        finds, named = self._rules.finds_ranges(opening.layout), opening.bounds is not None
        fits = finds == named if values else finds and not named
        if not fits:
            raise ProtocolError("ranges must be asked for, and bounds be named, only where the rules leave them open")
        if self._mapping is not None:
            opening.layout.check(self._mapping)
        terms = self._terms(request.purpose, opening)
        if values:
            self._ledger.spend(opening.layout, self._place.session, self._place.number)
        client = self._rules.scheme.client(terms, self._place.index, self._coins, self._identity, self._identities)
        return _Part(request.purpose, opening, client)

    def _read_part(self, data: bytes) -> _Part:
        head, opening, staged = fields(data, 3)
        if len(head) != 2 or head[0] not in set(Purpose) or head[1] > 1:
            raise MalformedMessageError("state must say which sum it is of; it does not")
        purpose, read = Purpose(head[0]), Opening.from_bytes(opening)
        return _Part(purpose, read, self._rules.scheme.restored(self._terms(purpose, read), staged), bool(head[1]))

    def _terms(self, purpose: Purpose, opening: Opening) -> SumTerms:
        return self._rules.terms(purpose, self._place.session, self._place.number, opening.layout, opening.bounds)

    def _vector(self, part: _Part, mapping: Mapping[str, Any]) -> Integers:
        layout, bounds = part.opening.layout, part.opening.bounds
        if part.purpose is Purpose.RANGES:
            return self._rules.levels(layout).encode(mapping, self._coins)
        return self._rules.code(layout, bounds, self._coins).encode(mapping, self._weight)


def _read_head(data: bytes) -> tuple[int, int, float, bool]:
    try:
        head = json.loads(data)
        values = head["number"], head["index"], head["weight"], head["signed"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise MalformedMessageError("state must name its round and client; it does not") from error
    if [type(value) for value in values] != [int, int, float, bool]:
        raise MalformedMessageError("state must name its round and client by numbers; it does not")
    return values
