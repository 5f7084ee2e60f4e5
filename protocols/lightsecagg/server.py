"""The server of LightSecAgg: it passes on keys, boxes and votes, adds up vectors, and decodes one mask."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import ClassVar

import numpy as np

from fgl_secure.errors import ProtocolError
from fgl_secure.protocols.lightsecagg.plan import LightSecAggPlan
from fgl_secure.protocols.secagg.server import AggregationServer, Hear
from fgl_secure.protocols.secagg.terms import Stage, bytes_of, elements_of, flags_of
from fgl_secure.runtime import Messages, Phase, Step
from fgl_secure.typing import Array, Bytes, Flags


class LightSecAggServer(AggregationServer):
    """The party that adds up.

    Args:
        plan: of the sums.
        cryptography: sizes of keys, boxes and votes.
        draws: coins, for locating wrong sums of coded masks; they never change a sum.
    """

    phases: ClassVar = {
        Phase.KEYS: Stage.KEYS,
        Phase.SECRET_SHARES: Stage.SHARES,
        Phase.MASKED_VECTORS: Stage.VECTORS,
        Phase.ROSTERS: Stage.AGREEMENT,
        Phase.UNMASKING: Stage.OPENING,
    }

    kept = ("given", "told", "total", "opened")
    _plan: LightSecAggPlan

    def _clear(self) -> None:
        n, c, code = self.terms.n, self._crypto, self._plan.code
        self._given = np.zeros((n, n), dtype=np.bool_)
        self._boxes: dict[int, Bytes] = {}
        self._box_bytes = c.wrapped_bytes + c.sealed_bytes(code.width)
        self._told = np.zeros((n, n), dtype=np.bool_)
        self._total = np.zeros((*self._tapes, code.length), dtype=np.int64)
        self._votes = np.zeros((n, n, c.vote_bytes), dtype=np.uint8)
        self._opened = np.zeros((*self._tapes, 0, code.width), dtype=np.int64)

    def _stages(self) -> Mapping[Stage, tuple[Callable[[Messages], Hear], Callable[[], Iterable[Messages]]]]:
        return {
            Stage.SHARES: (self._hear_shares, self._tell_shares),
            Stage.VECTORS: (self._hear_vectors, self._tell_roster),
            Stage.AGREEMENT: (self._hear_votes, self._tell_votes),
            Stage.OPENING: (self._hear_opened, self._decode),
        }

    # ---------------------------------------------------------------------------------------------------------- SHARES
    def _hear_shares(self, messages: Messages) -> Hear:
        """A sealed box for each other client."""
        n = self.terms.n
        flags = flags_of(messages, "given", n)
        boxes = bytes_of(messages, "boxes", n - 1, self._box_bytes)

        def hear(row: int, client: int) -> None:
            others = self._listed.copy()
            others[client] = False
            if not np.array_equal(flags[row], others):
                raise ProtocolError(f"boxes must be for those whose keys client {client} was told; they are not")
            self._given[client], self._boxes[client] = flags[row], boxes[row]

        return hear

    def _tell_shares(self) -> Iterable[Messages]:
        """Everybody that has shared hears who did, and what they sealed for it."""
        shared = self._here.answered.copy()
        self._told = self._given.T & shared & shared[:, None]
        boxes, self._boxes = self._boxes, {}
        self._here.go(Stage.VECTORS, shared)
        return self._forward_boxes(boxes, shared, self._told, self.now)

    def _forward_boxes(self, boxes: dict[int, Bytes], shared: Flags, told: Flags, step: Step) -> Iterator[Messages]:
        """Client by client: all boxes together are as large as what everybody shared."""
        nothing = np.zeros(self._box_bytes, dtype=np.uint8)
        for client in np.flatnonzero(shared).tolist():
            others = [u for u in range(len(shared)) if u != client]
            own = [boxes[u][client - (client > u)] if told[client, u] else nothing for u in others]
            which = np.arange(len(shared)) == client
            fields = {"told": told[client][None], "boxes": np.stack(own)[None]}
            yield self._to_clients(Phase.SECRET_SHARES, which, fields, None, step)

    # --------------------------------------------------------------------------------------------------------- VECTORS
    def _hear_vectors(self, messages: Messages) -> Hear:
        """A masked vector, added up at once."""
        field = self._plan.field
        vectors = elements_of(messages, "vector", self._crypto.ring, self.terms.length)
        wrapped = self._wrapped_with(messages)

        def hear(row: int, client: int) -> None:
            self._total = field.add(self._total, vectors[..., row, :]).astype(np.int64, copy=False)
            self._for_receiver[client] = wrapped[row]

        return hear

    def _tell_roster(self) -> Iterable[Messages]:
        """Those whose vectors are in the sum hear whose are."""
        self._included = self._here.answered.copy()
        self._here.go(Stage.AGREEMENT, self._included)
        roster = np.broadcast_to(self._included, (int(self._included.sum()), self.terms.n))
        return [self._to_clients(Phase.ROSTERS, self._included, {"roster": roster})]

    # ------------------------------------------------------------------------------------------- AGREEMENT and OPENING
    def _tell_votes(self) -> Iterable[Messages]:
        """Those that voted hear how the others did."""
        voted = self._here.answered.copy()
        cast = self._told & voted
        votes = self._votes.transpose(1, 0, 2)[voted] * cast[voted][..., None]
        self._here.go(Stage.OPENING, voted)
        return [self._to_clients(Phase.UNMASKING, voted, {"cast": cast[voted], "votes": votes})]

    def _hear_opened(self, messages: Messages) -> Hear:
        """A client's sum of coded masks."""
        code = self._plan.code
        sums = elements_of(messages, "sum", self._crypto.ring, code.width)

        def hear(row: int, client: int) -> None:
            if not self._opened.shape[-2]:
                self._opened = np.zeros((*self._tapes, self.terms.n, code.width), dtype=np.int64)
            self._opened[..., client, :] = sums[..., row, :]

        return hear

    def _decode(self) -> Iterable[Messages]:
        """Takes the sum of the masks away; a receiver that is somebody else hears what is left.

        Raises:
            ProtocolError: answers contradict each other, or the sum is beyond what so many vectors can reach.
        """
        terms, field = self.terms, self._plan.field
        holders = np.flatnonzero(self._here.answered)
        sums = np.moveaxis(self._opened[..., holders, :], -2, 0)
        mask, wrong = self._plan.code.recover(sums, holders.tolist(), self._coins)
        total = field.subtract(self._total, mask.astype(np.int64, copy=False)).astype(np.int64, copy=False)
        if not terms.split:
            self._sums = terms.decode_total(total, int(self._included.sum()), field.modulus)[..., None, :]
        for client in wrong:
            self.remark(self.now, int(terms.clients[client]), "its sum of coded masks is wrong: corrected")
        self._here.go(None)
        step, self._step = self.now, None
        self._opened, self._total = self._opened[..., :0, :].copy(), np.zeros_like(self._total)
        if not terms.split:
            return ()
        return [self._masked_sum(self._included, total, step)]

    def _arrays(self) -> dict[str, Array]:
        shape = len(self._boxes), self.terms.n - 1, self._box_bytes
        return {
            **super()._arrays(),
            "owners": np.array(list(self._boxes), dtype=np.int64),
            "boxes": np.array(list(self._boxes.values()), dtype=np.uint8).reshape(shape),
        }

    def _take_arrays(self, arrays: dict[str, Array]) -> None:
        super()._take_arrays(arrays)
        self._boxes = dict(zip(arrays["owners"].tolist(), arrays["boxes"], strict=True))
