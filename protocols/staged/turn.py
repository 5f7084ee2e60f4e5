"""What every client of a staged sum keeps track of: which stage is due, and how its state is laid out."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence

from fgl_secure.errors import InputError, MalformedMessageError, StaleMessageError
from fgl_secure.protocols.staged.envelope import SERVER, Envelope, packed, unpacked
from fgl_secure.protocols.staged.interface import Stage, SumTerms

_STATE = b"fgl-secure client state 1"
_BODY = len(_STATE) + hashlib.sha256().digest_size
_DONE = 255
_OWN = 4
"""Fields of a state before the scheme's own."""


class Turn:
    """A client's idea of which stage is due.

    Args:
        scheme: 4 bytes that name the scheme.
        terms: of the sum.
        index: the client's number.
        stages: those that are to come, in order.
    """

    __slots__ = ("_scheme", "_stages", "index", "terms")

    def __init__(self, scheme: bytes, terms: SumTerms, index: int, stages: Sequence[Stage]) -> None:
        if not 0 <= index < terms.clients:
            raise InputError(f"index must lie in 0..{terms.clients - 1}; found {index}")
        self._scheme, self._stages = scheme, tuple(stages)
        self.terms, self.index = terms, index

    @property
    def stage(self) -> Stage:
        """The stage that is due.

        Raises:
            StaleMessageError: none is.
        """
        if not self._stages:
            raise StaleMessageError("a client that has given its last answer in a sum gives no more")
        return self._stages[0]

    def opened(self, message: bytes, count: int) -> list[bytes]:
        """The fields of the request that is due; see `StagedClient.reply` for what is refused."""
        return Envelope(self._scheme, self.terms, self.stage, SERVER, self.index).opened(message, count)

    def answer(self, fields: Sequence[bytes]) -> bytes:
        """The answer, after which the next stage is due."""
        made = Envelope(self._scheme, self.terms, self.stage, self.index, SERVER).sealed(fields)
        self._stages = self._stages[1:]
        return made

    def state(self, fields: Sequence[bytes]) -> bytes:
        """Where this client is, and what else it holds, behind its SHA-256."""
        stage = self._stages[0] if self._stages else _DONE
        body = packed([self._scheme, _named(self.terms), bytes((stage,)), self.index.to_bytes(4), *fields])
        return _STATE + hashlib.sha256(body).digest() + body

    @classmethod
    def restored(
        cls, scheme: bytes, terms: SumTerms, stages: Sequence[Stage], state: bytes, count: int
    ) -> tuple[Turn, list[bytes]]:
        """What `state` was made of.

        Raises:
            MalformedMessageError: it is no state of this scheme in this sum.
        """
        body, start = state[_BODY:], _STATE + hashlib.sha256(state[_BODY:]).digest()
        if not hmac.compare_digest(state[:_BODY], start):
            raise MalformedMessageError("state must be that of a client of a staged sum, whole; it is not")
        fields, marks = unpacked(body), [*(bytes((stage,)) for stage in stages), bytes((_DONE,))]
        own, fields = fields[:_OWN], fields[_OWN:]
        if own[:2] != [scheme, _named(terms)] or len(own) != _OWN or len(fields) != count or own[2] not in marks:
            raise MalformedMessageError("state must be that of a client of this scheme in this sum; it is not")
        return cls(scheme, terms, int.from_bytes(own[3]), stages[marks.index(own[2]) :]), fields


def _named(terms: SumTerms) -> bytes:
    bound = -1 if terms.bound is None else terms.bound
    numbers = (terms.number, terms.clients, terms.threshold, terms.length, bound)
    return terms.binding + "|".join(map(str, numbers)).encode()
