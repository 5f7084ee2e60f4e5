"""Clients and server of LightSecAgg: what they check, answer and forget (So et al. 2022, algorithm 1, and a vote).

KEYS: every client publishes a fresh key. SHARES: it hears the others' keys and seals for each of them a coded mask.
VECTORS: it gets those of the others, and hands in its vector under its mask, and under one that it shares with a
receiver that does not add up. AGREEMENT: it hears whose vectors are in the sum, and votes. OPENING: it hears the
others' votes, and opens the sum of the coded masks of those clients, if enough were told the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import ClassVar

import numpy as np

from fgl_secure.crypto.cryptography import Context, Elements, KeyPurpose, Mask
from fgl_secure.errors import ProtocolError
from fgl_secure.protocols.lightsecagg.plan import LightSecAggPlan, check_roster
from fgl_secure.protocols.secagg.clients import SEALING, Answer, MaskedClients, Store
from fgl_secure.protocols.secagg.pairs import PairwiseKeys
from fgl_secure.protocols.secagg.server import AggregationServer
from fgl_secure.protocols.secagg.terms import USUAL, Stage, bytes_of, elements_of, flags_of
from fgl_secure.runtime import Messages, Phase, Step
from fgl_secure.typing import Array, Bytes, Flags, Ids


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

    saved = ("given", "forwarded", "total", "opened")
    _plan: LightSecAggPlan

    def _clear(self) -> None:
        n, c, code = self.terms.n, self._crypto, self._plan.code
        self._given = np.zeros((n, n), dtype=np.bool_)
        self._boxes: dict[int, Bytes] = {}
        self._box_bytes = c.wrapped_bytes + c.sealed_bytes(code.width)
        self._forwarded = np.zeros((n, n), dtype=np.bool_)
        self._total = np.zeros((*self._tapes, code.length), dtype=np.int64)
        self._votes = np.zeros((n, n, c.vote_bytes), dtype=np.uint8)
        self._opened = np.zeros((*self._tapes, 0, code.width), dtype=np.int64)

    def _stages(self) -> Mapping[Stage, tuple[Callable[[Messages], Store], Callable[[], Iterable[Messages]]]]:
        return {
            Stage.SHARES: (self._receive_shares, self._send_shares),
            Stage.VECTORS: (self._receive_vectors, self._send_roster),
            Stage.AGREEMENT: (self._receive_votes, self._send_votes),
            Stage.OPENING: (self._receive_openings, self._decode),
        }

    # ---------------------------------------------------------------------------------------------------------- SHARES
    def _receive_shares(self, messages: Messages) -> Store:
        """A sealed box for each other client."""
        n = self.terms.n
        flags = flags_of(messages, "given", n)
        boxes = bytes_of(messages, "boxes", n - 1, self._box_bytes)

        def store(row: int, client: int) -> None:
            others = self._listed.copy()
            others[client] = False
            if not np.array_equal(flags[row], others):
                raise ProtocolError(f"boxes must be for those whose keys client {client} received; they are not")
            self._given[client], self._boxes[client] = flags[row], boxes[row]

        return store

    def _send_shares(self) -> Iterable[Messages]:
        """Every party that has shared hears who did, and what they sealed for it."""
        shared = self._tracker.answered.copy()
        self._forwarded = self._given.T & shared & shared[:, None]
        boxes, self._boxes = self._boxes, {}
        self._tracker.go(Stage.VECTORS, shared)
        return self._forward_boxes(boxes, shared, self._forwarded, self.now)

    def _forward_boxes(self, boxes: dict[int, Bytes], shared: Flags, shown: Flags, step: Step) -> Iterator[Messages]:
        """Client by client: all boxes together are as large as what all clients shared."""
        nothing = np.zeros(self._box_bytes, dtype=np.uint8)
        for client in np.flatnonzero(shared).tolist():
            others = [u for u in range(len(shared)) if u != client]
            client_boxes = [boxes[u][client - (client > u)] if shown[client, u] else nothing for u in others]
            receiver = np.arange(len(shared)) == client
            fields = {"told": shown[client][None], "boxes": np.stack(client_boxes)[None]}
            yield self._to_clients(Phase.SECRET_SHARES, receiver, fields, None, step)

    # --------------------------------------------------------------------------------------------------------- VECTORS
    def _receive_vectors(self, messages: Messages) -> Store:
        """A masked vector, added up at once."""
        field = self._plan.field
        vectors = elements_of(messages, "vector", self._crypto.ring, self.terms.length)
        wrapped = self._read_wrapped(messages)

        def store(row: int, client: int) -> None:
            self._total = field.add(self._total, vectors[..., row, :]).astype(np.int64, copy=False)
            self._for_receiver[client] = wrapped[row]

        return store

    def _send_roster(self) -> Iterable[Messages]:
        """Those whose vectors are in the sum hear whose are."""
        self._included = self._tracker.answered.copy()
        self._tracker.go(Stage.AGREEMENT, self._included)
        roster = np.broadcast_to(self._included, (int(self._included.sum()), self.terms.n))
        return [self._to_clients(Phase.ROSTERS, self._included, {"roster": roster})]

    # ------------------------------------------------------------------------------------------- AGREEMENT and OPENING
    def _send_votes(self) -> Iterable[Messages]:
        """Those that voted hear how the others did."""
        voted = self._tracker.answered.copy()
        cast = self._forwarded & voted
        votes = self._votes.transpose(1, 0, 2)[voted] * cast[voted][..., None]
        self._tracker.go(Stage.OPENING, voted)
        return [self._to_clients(Phase.UNMASKING, voted, {"cast": cast[voted], "votes": votes})]

    def _receive_openings(self, messages: Messages) -> Store:
        """A client's sum of coded masks."""
        code = self._plan.code
        sums = elements_of(messages, "sum", self._crypto.ring, code.width)

        def store(row: int, client: int) -> None:
            if not self._opened.shape[-2]:
                self._opened = np.zeros((*self._tapes, self.terms.n, code.width), dtype=np.int64)
            self._opened[..., client, :] = sums[..., row, :]

        return store

    def _decode(self) -> Iterable[Messages]:
        """Takes the sum of the masks away; a receiver that is another party hears what is left.

        Raises:
            ProtocolError: answers contradict each other, or the sum is beyond what so many vectors can reach.
        """
        terms, field = self.terms, self._plan.field
        holders = np.flatnonzero(self._tracker.answered)
        sums = np.moveaxis(self._opened[..., holders, :], -2, 0)
        mask, errors = self._plan.code.recover(sums, holders.tolist(), self._coins)
        total = field.subtract(self._total, mask.astype(np.int64, copy=False)).astype(np.int64, copy=False)
        if not terms.split:
            self._sums = terms.decode_total(total, int(self._included.sum()), field.modulus)[..., None, :]
        for client in errors:
            self.remark(self.now, int(terms.clients[client]), "its sum of coded masks is wrong: corrected")
        self._tracker.go(None)
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


MASK, NOISE = 1, 2
"""Secrets of a client beside its private key: seeds of its mask, and of the uniform parts that are coded with it."""


class LightSecAggClients(MaskedClients):
    """Some clients.

    Args:
        parties: int64 [h], ascending identifiers of those hosted.
        plan: of the sums.
        cryptography: keys, masks, seals and votes.
        draws: coins of those hosted.
        names: their identities; None for none.
    """

    phases: ClassVar = {
        Phase.KEYS: Stage.SHARES,
        Phase.SECRET_SHARES: Stage.VECTORS,
        Phase.ROSTERS: Stage.AGREEMENT,
        Phase.UNMASKING: Stage.OPENING,
    }
    stages = USUAL
    secrets: ClassVar = 3

    saved = ("holds", "own", "held", "roster")
    _plan: LightSecAggPlan

    def _clear(self) -> None:
        h, n = len(self.parties), self.terms.n
        super()._clear()
        self._pairs = PairwiseKeys(self._crypto, h, n)
        self._holds = np.zeros((h, n), dtype=np.bool_)
        self._own = np.zeros((*self._tapes, h, self._plan.code.width), dtype=np.int64)
        self._held = np.zeros((*self._tapes, h, n, self._plan.code.width), dtype=np.int64)
        self._roster = np.zeros((h, n), dtype=np.bool_)

    def _stages(self) -> Mapping[Stage, tuple[Callable[[Messages], Store], Answer]]:
        return {
            Stage.SHARES: (self._receive_keys, self._share),
            Stage.VECTORS: (self._receive_shares, self._hand_in),
            Stage.AGREEMENT: (self._receive_roster, self._agree),
            Stage.OPENING: (self._receive_votes, self._open_up),
        }

    # ---------------------------------------------------------------------------------------------------------- SHARES
    def _receive_keys(self, messages: Messages) -> Store:
        """Every party's keys, and that of a receiver that is another party: checked, and agreed on."""
        n, context = self.terms.n, self._context
        listed_keys, receivers_key = self._listed_keys(messages, n), self._receivers_key(messages)

        def store(row: int, index: int) -> None:
            public, me = listed_keys(row, index, np.arange(n)), int(self.parties[index])
            others = {v: (int(self.terms.clients[v]), key) for v, (key,) in public.items() if v != self._places[index]}
            receiver = self._agree_with_receiver(index, receivers_key(row), context)
            self._pairs.agree(index, self._secrets[index, SEALING].tobytes(), context, me, others)
            self._keep_receiver(index, *receiver)

        return store

    def _share(self, indices: Ids) -> Iterable[Messages]:
        """A coded mask sealed for each other client whose key was heard, client by client; its noise is forgotten.

        So is its private key, unless it has yet to hear what others wrapped for it.
        """
        secrets = self._secrets[indices]
        self._forget(indices, *((NOISE,) if self._crypto.wrapped_bytes else (SEALING, NOISE)))
        return self._share_masks(indices, secrets, self._context, self.now)

    def _share_masks(self, indices: Ids, secrets: Array, context: Context, step: Step) -> Iterator[Messages]:
        n, nothing, has = self.terms.n, bytes(self._pairs.box_bytes(self._plan.code.width)), self._pairs.has
        for index, secret in zip(indices.tolist(), secrets, strict=True):
            place = int(self._places[index])
            coded = self._encode_mask(index, secret, context)
            self._own[..., index, :], self._holds[index, place] = coded[..., place, :], True
            others = [v for v in range(n) if v != place]
            names = {v: int(self.terms.clients[v]) for v in others if has[index, v]}
            keys = self._pairs.wrap_keys(index, secret[SEALING].tobytes(), context, int(self.parties[index]), names)
            sealed = [self._seal_coded(index, v, coded, keys[v], context) if v in keys else nothing for v in others]
            boxes = np.frombuffer(b"".join(sealed), dtype=np.uint8).reshape(1, n - 1, len(nothing))
            fields = {"boxes": boxes, "given": has[[index]]}
            yield self._to_server(Phase.SECRET_SHARES, np.array([index]), fields, None, step)

    def _encode_mask(self, index: int, secrets: Array, context: Context) -> Elements:
        """A client's mask, coded for every client: elements [*tapes, n, width]."""
        code, me = self._plan.code, int(self.parties[index])
        mask = self._crypto.elements(self._mask_key(index, secrets[MASK].tobytes(), context), code.length)
        noise_key = self._crypto.derive_key(secrets[NOISE].tobytes(), context, KeyPurpose.SHARING, me)
        noise = self._noise(noise_key).reshape(*mask.shape[:-1], *code.noise_shape)
        return code.encode(mask, noise).astype(np.int64, copy=False)

    def _mask_key(self, index: int, seed: bytes, context: Context) -> bytes:
        """The key of a client's mask."""
        return self._crypto.derive_key(seed, context, KeyPurpose.SELF_MASK, int(self.parties[index]))

    def _noise(self, key: bytes) -> Elements:
        """The uniform parts beside those of a mask: elements [*tapes, T * width]."""
        rows, width = self._plan.code.noise_shape
        return self._crypto.elements(key, rows * width)

    def _seal_coded(self, index: int, v: int, coded: Elements, wrapped: bytes, context: Context) -> bytes:
        """The coded mask for one other client."""
        ends = int(self.parties[index]), int(self.terms.clients[v])
        return self._pairs.seal(index, v, wrapped, context, ends, coded[..., v, :])

    # --------------------------------------------------------------------------------------------------------- VECTORS
    def _receive_shares(self, messages: Messages) -> Store:
        """Who shared, and the coded masks that a client holds from now on."""
        n, threshold, width, context = self.terms.n, self.terms.threshold, self._plan.code.width, self._context
        flags = flags_of(messages, "told", n)
        boxes = bytes_of(messages, "boxes", n - 1, self._pairs.box_bytes(width))

        def store(row: int, index: int) -> None:
            place = int(self._places[index])
            self._check_known(index, flags[row], self._pairs.has[index], "clients that shared")
            of = {v: boxes[row, v - (v > place)].tobytes() for v in np.flatnonzero(flags[row]).tolist()}
            keys, result = self._unseal_boxes(index, of, width, context)
            if len(result) + 1 < threshold:
                raise ProtocolError(
                    f"coded masks of at least {threshold} clients must open as sealed for client {place}; "
                    f"found {len(result) + 1}"
                )
            self._pairs.keep(index, keys)
            self._held[..., index, place, :] = self._own[..., index, :]
            for v, values in result.items():
                self._holds[index, v], self._held[..., index, v, :] = True, values

        return store

    def _masks(self, index: int, context: Context) -> tuple[list[Mask], list[int]]:
        masks = [self._mask_key(index, self._secrets[index, MASK].tobytes(), context), *self._receivers_mask(index)]
        return masks, [1] * len(masks)

    # ------------------------------------------------------------------------------------------- AGREEMENT and OPENING
    def _receive_roster(self, messages: Messages) -> Store:
        """Whose vectors the server says are in the sum."""
        roster = flags_of(messages, "roster", self.terms.n)

        def store(row: int, index: int) -> None:
            self._check_roster(roster[row], int(self._places[index]), self._holds[index])
            self._roster[index] = roster[row]

        return store

    def _check_roster(self, roster: Flags, place: int, known: Flags) -> None:
        check_roster(roster, place, known, self.terms.threshold)

    def _voters(self, index: int) -> Flags:
        """Bool [n], the others on a client's roster: whom its votes are for, and whose votes it counts."""
        others: Flags = self._roster[index] & self._pairs.has[index]
        others[self._places[index]] = False
        return others

    def _vote_digest(self, index: int, context: Context) -> bytes:
        return context.digest(self._roster[index].tobytes())

    def _open_up(self, indices: Ids) -> Iterable[Messages]:
        """The sum of the coded masks of each client's roster, and no second; then everything is forgotten."""
        sums = [self._plan.code.add_coded(self._sum_coded(index)) for index in indices.tolist()]
        self._held[..., indices, :, :], self._own[..., indices, :] = 0, 0
        self._pairs.forget(indices)
        self._holds[indices] = False
        total = np.stack([one.astype(np.int64, copy=False) for one in sums], axis=-2)
        return [self._to_server(Phase.UNMASKING, indices, {}, {"sum": total})]

    def _sum_coded(self, index: int) -> Elements:
        """The coded masks whose sum a client opens: elements [*tapes, r, width]."""
        return np.compress(self._roster[index], self._held[..., index, :, :], axis=-2)
