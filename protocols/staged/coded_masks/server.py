"""The server of a staged sum under LightSecAgg: it forwards boxes and votes, adds vectors, and decodes one mask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from fgl_secure.algebra import Elements
from fgl_secure.coins import Coins
from fgl_secure.crypto.keys import PUBLIC_KEY_BYTES
from fgl_secure.errors import ProtocolError
from fgl_secure.protocols.identity import SIGNATURE_BYTES
from fgl_secure.protocols.masking.keys import TAG_BYTES, is_usable
from fgl_secure.protocols.pairwise_masking.requests import signed
from fgl_secure.protocols.staged.attendance import Attendance
from fgl_secure.protocols.staged.coded_masks.answers import voters_for
from fgl_secure.protocols.staged.coded_masks.plan import SCHEME, STAGES, LightSecAggPlan
from fgl_secure.protocols.staged.interface import Integers, Stage, StagedServer
from fgl_secure.protocols.staged.masking.wire import client_bytes, elements_from, rows_from

FIELDS = {Stage.KEYS: 2, Stage.SHARES: 1, Stage.VECTORS: 1, Stage.AGREEMENT: 1, Stage.OPENING: 1}
"""Fields of a client's message in each stage."""

Boxes = dict[int, bytes]


class LightSecAggServer(StagedServer):
    """A server at work; see `StagedLightSecAgg`.

    Args:
        plan: of the sum.
        coins: for locating wrong sums of coded masks; they never change a sum.
    """

    def __init__(self, plan: LightSecAggPlan, coins: Coins) -> None:
        self._plan, self._coins = plan, coins
        self._here = Attendance(SCHEME, plan.terms, STAGES)
        self._keys: dict[int, tuple[bytes, bytes]] = {}
        self._listed: tuple[int, ...] = ()
        self._boxes: dict[int, Boxes] = {}
        self._total: Elements = np.zeros(plan.terms.length, dtype=plan.field.dtype)
        self._included: tuple[int, ...] = ()
        self._votes: dict[int, Boxes] = {}
        self._sums: dict[int, Elements] = {}
        self._corrected: tuple[int, ...] = ()
        self._result: Integers | None = None

    def __repr__(self) -> str:
        stage = "done" if self.stage is None else self.stage.name
        return f"StagedServer(lightsecagg, sum={self._plan.terms.number}, stage={stage})"

    @property
    def stage(self) -> Stage | None:
        """See `StagedServer.stage`."""
        return self._here.stage

    def requests(self) -> Mapping[int, bytes]:
        """See `StagedServer.requests`; a message is made when it is looked up."""
        if self.stage is Stage.SHARES:
            listed = self._key_list()
            return self._here.requests(lambda _: listed)
        if self.stage is Stage.VECTORS:
            return self._here.requests(lambda client: self._forwarded(self._boxes, client))
        if self.stage is Stage.AGREEMENT:
            return self._here.requests(lambda _: [self._roster])
        if self.stage is Stage.OPENING:
            return self._here.requests(lambda client: self._forwarded(self._votes, client))
        return self._here.requests(lambda _: [])

    def receive(self, client: int, message: bytes) -> None:
        """See `StagedServer.receive`."""
        fields = self._here.opened(client, message, FIELDS[self.stage] if self.stage is not None else 0)
        plan = self._plan
        if self.stage is Stage.KEYS:
            self._keys[client] = self._checked_key(fields)
        elif self.stage is Stage.SHARES:
            self._boxes[client] = _dealt(fields[0], self._others(client), plan.box_bytes, "sealed coded masks")
        elif self.stage is Stage.VECTORS:
            vector = elements_from(plan.field, fields[0], (plan.terms.length,), "masked vector")
            self._total = plan.field.add(self._total, vector)
        elif self.stage is Stage.AGREEMENT:
            self._votes[client] = _dealt(fields[0], voters_for(self._roster, client), TAG_BYTES, "votes")
        else:
            what = "sum of coded masks"
            self._sums[client] = elements_from(plan.field, fields[0], (plan.code.width,), what)
        self._here.note(client)

    def advance(self) -> None:
        """See `StagedServer.advance`. Where it raises, late answers may still come, and it may be called again."""
        ending = self.stage
        if ending is Stage.OPENING and len(self._sums) >= self._plan.terms.threshold:
            self._result, self._corrected = self._decoded()
        self._here.advance()
        if ending is Stage.KEYS:
            self._listed = self._here.left
        elif ending is Stage.VECTORS:
            self._included = self._here.left
            self._boxes = {}

    @property
    def included(self) -> tuple[int, ...]:
        """See `StagedServer.included`."""
        return self._included

    @property
    def corrected(self) -> tuple[int, ...]:
        """Clients whose sums of coded masks were wrong, and left out; known when the sum is done."""
        return self._corrected

    def result(self) -> Integers:
        """See `StagedServer.result`."""
        if self._result is None or self.stage is not None:
            raise ProtocolError(f"sum {self._plan.terms.number} must be done before it is read; it is not")
        return self._result.copy()

    @property
    def _roster(self) -> bytes:
        """Uint8 [n]: whose vectors are in the sum."""
        return bytes(v in self._included for v in range(self._plan.terms.clients))

    def _others(self, client: int) -> list[int]:
        return [v for v in self._listed if v != client]

    def _key_list(self) -> list[bytes]:
        rows = [self._keys[client] for client in self._listed]
        return [client_bytes(self._listed), b"".join(row[0] for row in rows), b"".join(row[1] for row in rows)]

    def _forwarded(self, dealt: Mapping[int, Boxes], client: int) -> list[bytes]:
        """Who gave something for a client, and what."""
        givers = [u for u in sorted(dealt) if client in dealt[u]]
        return [client_bytes(givers), b"".join(dealt[u][client] for u in givers)]

    def _checked_key(self, fields: Sequence[bytes]) -> tuple[bytes, bytes]:
        (public,) = rows_from(fields[0], 1, PUBLIC_KEY_BYTES, "key")
        (signature,) = rows_from(fields[1], 1, SIGNATURE_BYTES, "signature")
        if not is_usable(public) or any(public == other for other, _ in self._keys.values()):
            raise ProtocolError("a key must be the client's own, and not of low order; it is not")
        return public, signature

    def _decoded(self) -> tuple[Integers, tuple[int, ...]]:
        """The sum without its mask, and whose answers were wrong.

        Raises:
            ProtocolError: answers contradict each other, or the sum is beyond what so many vectors can reach.
        """
        plan, holders = self._plan, sorted(self._sums)
        mask, wrong = plan.code.recover(np.stack([self._sums[v] for v in holders]), holders, self._coins)
        total = plan.field.subtract(self._total, mask).astype(np.int64)
        if plan.terms.bound is None:
            return total, wrong
        total, most = signed(total, plan.field.modulus), len(self._included) * plan.terms.bound
        if int(total.max()) > most or int(total.min()) < -most:
            raise ProtocolError(
                f"sum of {len(self._included)} vectors must have magnitude up to {most:,}; a client's coded masks are "
                "not those of its mask"
            )
        return total, wrong


def _dealt(data: bytes, to: Sequence[int], size: int, what: str) -> Boxes:
    """What one client gave for each of some others."""
    return dict(zip(to, rows_from(data, len(to), size, what), strict=True))
