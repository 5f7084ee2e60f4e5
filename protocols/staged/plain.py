"""A staged sum in the clear: the oracle of the others, and the unprotected run that they are held against."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fgl_secure.algebra import MERSENNE_61
from fgl_secure.coins import Coins
from fgl_secure.errors import InputError, MalformedMessageError, ProtocolError
from fgl_secure.protocols.identity import Identities, Identity
from fgl_secure.protocols.plain_vectors import LARGEST, PlainVectors
from fgl_secure.protocols.staged.attendance import Attendance
from fgl_secure.protocols.staged.interface import (
    Integers,
    Stage,
    StagedClient,
    StagedScheme,
    StagedServer,
    SumTerms,
)
from fgl_secure.protocols.staged.terms import check_terms, checked_vector, span_of, threshold_of
from fgl_secure.protocols.staged.turn import Turn
from fgl_secure.runtime import Claim, PublicParameters

STAGES = (Stage.VECTORS,)
LEAST = 1
"""Smallest threshold: there is nothing to protect."""
_SCHEME = b"CLR1"
_ENTRY = np.dtype("<i8")


@dataclass(frozen=True, slots=True)
class StagedPlain(StagedScheme):
    """Every client hands its vector to the server, who adds up. Protects nothing.

    Attributes:
        threshold: least clients that must be left, from 1 on; None takes floor(2 n / 3) + 1 of n, as the schemes do
            that this one is compared with.
    """

    threshold: int | None = None

    @property
    def name(self) -> str:
        """`plaintext`."""
        return "plaintext"

    @property
    def claim(self) -> Claim:
        """No promise."""
        return PlainVectors().claim

    @property
    def public(self) -> PublicParameters:
        """The modulus of sums without a bound."""
        return PublicParameters(MERSENNE_61)

    @property
    def modulus(self) -> int:
        """2^61 - 1."""
        return MERSENNE_61

    def limit(self, terms: int) -> int:  # noqa: ARG002  # whatever their number
        """What int64 holds with a bit to spare."""
        return LARGEST

    def threshold_for(self, clients: int) -> int:
        """The threshold given, or floor(2 n / 3) + 1."""
        return threshold_of(self.threshold, clients, LEAST)

    def claim_for(self, clients: int) -> Claim:  # noqa: ARG002  # whatever their number
        """No promise."""
        return self.claim

    def check(self, terms: SumTerms) -> None:
        """See `StagedScheme.check`."""
        check_terms(self, terms, LEAST)

    def client(
        self,
        terms: SumTerms,
        index: int,
        coins: Coins,  # noqa: ARG002  # nothing is drawn
        identity: Identity | None = None,  # noqa: ARG002  # no keys, so nothing to sign
        identities: Identities | None = None,  # noqa: ARG002
    ) -> StagedClient:
        """A client's part."""
        self.check(terms)
        return _PlainClient(Turn(_SCHEME, terms, index, STAGES), None)

    def server(self, terms: SumTerms, coins: Coins) -> StagedServer:  # noqa: ARG002  # nothing is drawn
        """The server's part."""
        self.check(terms)
        return _PlainServer(terms)

    def restored(self, terms: SumTerms, state: bytes) -> StagedClient:
        """A client that goes on where `state` was taken."""
        self.check(terms)
        turn, (data,) = Turn.restored(_SCHEME, terms, STAGES, state, 1)
        return _PlainClient(turn, _read(data, terms) if data else None)


class _PlainClient(StagedClient):
    def __init__(self, turn: Turn, vector: Integers | None) -> None:
        self._turn, self._vector = turn, vector

    def __repr__(self) -> str:
        return f"StagedClient(plaintext, index={self._turn.index}, vector=<secret>)"

    def provide(self, vector: Integers) -> None:
        if self._vector is not None:
            raise InputError("vector must be provided once; found a second")
        self._vector = checked_vector(vector, self._turn.terms, MERSENNE_61)

    def reply(self, message: bytes) -> bytes:
        self._turn.opened(message, 0)
        if self._vector is None:
            raise InputError("vector must be provided before it is asked for; found none")
        return self._turn.answer([_written(self._vector)])

    def state(self) -> bytes:
        return self._turn.state([b"" if self._vector is None else _written(self._vector)])


class _PlainServer(StagedServer):
    def __init__(self, terms: SumTerms) -> None:
        self._terms, self._here = terms, Attendance(_SCHEME, terms, STAGES)
        self._total: Integers = np.zeros(terms.length, dtype=np.int64)

    @property
    def stage(self) -> Stage | None:
        return self._here.stage

    def requests(self) -> Mapping[int, bytes]:
        return self._here.requests(lambda _: [])

    def receive(self, client: int, message: bytes) -> None:
        (data,) = self._here.opened(client, message, 1)
        vector = _read(data, self._terms)
        self._here.note(client)
        self._total += vector
        if self._terms.bound is None:
            self._total %= MERSENNE_61

    def advance(self) -> None:
        self._here.advance()

    @property
    def included(self) -> tuple[int, ...]:
        return self._here.left if self.stage is None else ()

    def result(self) -> Integers:
        if self.stage is not None:
            raise ProtocolError(f"sum must be done before it is read; found it in stage {self.stage.name}")
        return self._total.copy()


def _written(vector: Integers) -> bytes:
    return vector.astype(_ENTRY).tobytes()


def _read(data: bytes, terms: SumTerms) -> Integers:
    """The vector in a message.

    Raises:
        MalformedMessageError: it has another length, or an entry beyond the bound or the field.
    """
    if len(data) != terms.length * _ENTRY.itemsize:
        raise MalformedMessageError(f"vector must have {terms.length * _ENTRY.itemsize:,} bytes; found {len(data):,}")
    vector = np.frombuffer(data, dtype=_ENTRY).astype(np.int64)
    least, most = span_of(terms, MERSENNE_61)
    if int(vector.min()) < least or int(vector.max()) > most:
        raise MalformedMessageError(f"vector must have entries in {least}..{most}; at least one entry is beyond")
    return vector
