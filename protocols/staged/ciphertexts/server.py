"""The server's part in a staged sum under CKKS: it forwards a key that it cannot open, and adds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fgl_secure.crypto.ckks import PublicKey
from fgl_secure.crypto.ckks_adder import RunningSums
from fgl_secure.crypto.keys import PUBLIC_KEY_BYTES
from fgl_secure.errors import InputError, MalformedMessageError, ProtocolError
from fgl_secure.protocols.identity import SIGNATURE_BYTES
from fgl_secure.protocols.masking.keys import is_usable
from fgl_secure.protocols.staged.attendance import Attendance
from fgl_secure.protocols.staged.ciphertexts.plan import SCHEME, STAGES, CkksPlan
from fgl_secure.protocols.staged.ciphertexts.secrets import BOX_BYTES, sealed_bytes
from fgl_secure.protocols.staged.ciphertexts.wire import ciphertext_field, ciphertexts_from, integers_from, unpadded
from fgl_secure.protocols.staged.interface import Integers, Stage, StagedServer
from fgl_secure.protocols.staged.masking.wire import client_bytes, rows_from

FIELDS = {Stage.KEYS: 2, Stage.SHARES: 3, Stage.VECTORS: 1, Stage.OPENING: 1}
"""Fields of a client's message in each stage."""


@dataclass(frozen=True, slots=True)
class Offer:
    """What a candidate made.

    Attributes:
        public: key to encrypt with.
        sealed: its key file, under its group key.
        boxes: the group key, sealed for each other client with a key.
    """

    public: PublicKey
    sealed: bytes
    boxes: dict[int, bytes]


class CkksServer(StagedServer):
    """See `StagedServer`.

    Args:
        plan: of the sum.
    """

    def __init__(self, plan: CkksPlan) -> None:
        self._plan, self._here = plan, Attendance(SCHEME, plan.terms, STAGES)
        self._keys: dict[int, tuple[bytes, bytes]] = {}
        self._listed: tuple[int, ...] = ()
        self._offers: dict[int, Offer] = {}
        self._maker = -1
        self._sums: RunningSums | None = None
        self._included: tuple[int, ...] = ()
        self._opened: Counter[bytes] = Counter()
        self._result: Integers | None = None

    @property
    def stage(self) -> Stage | None:
        """What answers are awaited for."""
        return self._here.stage

    def requests(self) -> Mapping[int, bytes]:
        """What to send to whom."""
        if self.stage is Stage.SHARES:
            listed = self._key_list()
            return self._here.requests(lambda _: listed)
        if self.stage is Stage.VECTORS:
            offer, maker = self._offers[self._maker], client_bytes([self._maker])
            return self._here.requests(lambda client: [maker, offer.sealed, offer.boxes.get(client, b"")])
        if self.stage is Stage.OPENING:
            total = ciphertext_field(self._plan, self._running.to_bytes())
            return self._here.requests(lambda _: [total])
        return self._here.requests(lambda _: [])

    def receive(self, client: int, message: bytes) -> None:
        """Takes an answer."""
        fields = self._here.opened(client, message, FIELDS[self.stage] if self.stage is not None else 0)
        if self.stage is Stage.KEYS:
            self._keys[client] = self._checked_key(fields)
        elif self.stage is Stage.SHARES:
            self._take_offer(client, fields)
        elif self.stage is Stage.VECTORS:
            self._running.add(ciphertexts_from(self._plan, fields[0]))
        else:
            integers_from(fields[0], self._plan.terms.length, self._largest, "opened sum")
            self._opened[fields[0]] += 1
        self._here.note(client)

    def advance(self) -> None:
        """Ends the stage."""
        if self.stage is Stage.OPENING and len(self._here.answered) >= self._plan.terms.threshold:
            self._agree()
        ending = self.stage
        self._here.advance()
        if ending is Stage.KEYS:
            self._listed = self._here.left
        elif ending is Stage.SHARES:
            self._maker = min(maker for maker in self._offers if maker in self._here.left)
            self._sums = RunningSums(self._offers[self._maker].public, self._plan.ciphertexts)
        elif ending is Stage.VECTORS:
            self._included = self._here.left

    @property
    def included(self) -> tuple[int, ...]:
        """Whose vectors are in the sum."""
        return self._included

    def result(self) -> Integers:
        """The sum."""
        if self._result is None:
            raise ProtocolError("sum must be done before it is read; it is not")
        return self._result.copy()

    @property
    def _largest(self) -> int:
        return self._plan.terms.clients * self._plan.parameters.bound

    def _key_list(self) -> list[bytes]:
        rows = [self._keys[client] for client in self._listed]
        return [client_bytes(self._listed), b"".join(row[0] for row in rows), b"".join(row[1] for row in rows)]

    @property
    def _running(self) -> RunningSums:
        assert self._sums is not None, "made as the stage of vectors begins"
        return self._sums

    def _checked_key(self, fields: Sequence[bytes]) -> tuple[bytes, bytes]:
        (public,) = rows_from(fields[0], 1, PUBLIC_KEY_BYTES, "key")
        (signature,) = rows_from(fields[1], 1, SIGNATURE_BYTES, "signature")
        if not is_usable(public) or any(public == other for other, _ in self._keys.values()):
            raise ProtocolError("a key must be the client's own, and not of low order; it is not")
        return public, signature

    def _take_offer(self, client: int, fields: Sequence[bytes]) -> None:
        others = [v for v in self._listed if v != client]
        if client not in self._plan.candidates(self._listed):
            if any(fields):
                raise MalformedMessageError(f"client {client} must offer no key, for others do; found one")
            return
        rows = rows_from(fields[2], len(others), BOX_BYTES, "sealed group keys")
        (sealed,) = rows_from(fields[1], 1, sealed_bytes(self._plan), "sealed key file")
        self._offers[client] = Offer(self._public(fields[0]), sealed, dict(zip(others, rows, strict=True)))

    def _public(self, field: bytes) -> PublicKey:
        data = unpadded(field, self._plan.public_bytes, "public key")
        try:
            public = PublicKey.from_bytes(data)
        except InputError as error:
            raise MalformedMessageError("public key must be a whole one; it is not") from error
        if public.parameters != self._plan.parameters:
            raise ProtocolError(f"public key must have {self._plan.parameters}; found {public.parameters}")
        return public

    def _agree(self) -> None:
        """The sum that at least `threshold` clients opened alike; no two can, for that is more than half of them."""
        said, votes = self._opened.most_common(1)[0]
        if votes < self._plan.terms.threshold:
            raise ProtocolError(
                f"at least threshold = {self._plan.terms.threshold} clients must open the same sum; found {votes} of "
                f"{len(self._here.answered)} that agree"
            )
        self._result = np.frombuffer(said, dtype="<i8").astype(np.int64)
