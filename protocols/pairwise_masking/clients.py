"""Clients of pairwise masking: what they check, answer and forget in each stage (Bonawitz et al. 2017, figure 4).

Hybrid keys. Keys of X25519 follow from public keys alone, and the server takes away the masks of a client that has
vanished when it is given that one's private key. ML-KEM needs a ciphertext for each pair, and the server must still
need no word of the other end, which may vanish later. So of each pair one client, the one that stands within half of
the ring before the other, wraps a secret for the other, which follows from the seed of its mask key, when it hands out
shares. The key of the mask takes the X25519 secret and the wrapped one. A server that is given the seed of the one that
wrapped derives the secret anew; given the other's, it unwraps what passed through its hands. What is shared is one
seed, from which both private keys follow, so shares are as long as they were. What one of a pair wraps no other party
can
make or change, and where it does not open the client takes no further part: a vector without one of its masks would
fit no other, and a server that could have masks left out would have all left out.

Shares and votes are under other keys (`PairwiseKeys`): those of mask keys are opened when their owner vanishes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fgl_secure.crypto.cryptography import Context, Cryptography, Elements, KeyPurpose, Mask
from fgl_secure.crypto.streams import KEY_BYTES
from fgl_secure.errors import InputError, ProtocolError
from fgl_secure.protocols.identity import Names
from fgl_secure.protocols.pairwise_masking.drawing import MASK, SELF, SHARES, DrawingClients, Vetoes
from fgl_secure.protocols.pairwise_masking.plan import MaskingPlan, NeighbourGraph, UnmaskRequest
from fgl_secure.protocols.secagg.clients import SEALING, Answer, Store, stack_bytes
from fgl_secure.protocols.secagg.pairs import PairwiseKeys, Publics, check_usable
from fgl_secure.protocols.secagg.terms import Stage, bytes_of, flags_of
from fgl_secure.runtime import Draws, MessageKind, Messages, Phase
from fgl_secure.typing import Array, Flags, Ids

REQUEST_BYTES = 32
"""Of the digest of what a server asks about every party."""
PHASES: Mapping[MessageKind, Stage] = {
    Phase.DRAW: Stage.DRAW,
    Phase.KEYS: Stage.SHARES,
    Phase.SECRET_SHARES: Stage.VECTORS,
    Phase.ROSTERS: Stage.AGREEMENT,
    Phase.VETOES: Stage.VETO,
    Phase.UNMASKING: Stage.OPENING,
}
"""What the server's messages ask for, by what they carry."""


def _check_request(request: NDArray[np.uint8], place: int, known: Flags, adjacent: Flags, threshold: int) -> None:
    """A sender's role: raises unless a request is one that it may answer.

    Args:
        request: uint8 [m], what the aggregator asks about every sender.
        place: the number of the sender that is asked; its own vector is sent.
        known: bool [m], whose shares the aggregator said it forwarded.
        adjacent: bool [m], the sender's neighbours.
        threshold: least vectors in a sum.

    Raises:
        ProtocolError: the request is for both secrets of one sender, for its own mask key, about a neighbour that
            shared nothing, or for a sum of fewer than `threshold` vectors.
    """
    if (request > UnmaskRequest.MASK_KEY).any():
        first = int(np.flatnonzero(request > UnmaskRequest.MASK_KEY)[0])
        raise ProtocolError(f"a request must be for one secret of each sender; found one for both of sender {first}")
    if request[place] != UnmaskRequest.SELF_MASK:
        raise ProtocolError(f"sender {place} must be on the roster of a step that it sent its vector in; it is not")
    unknown = np.flatnonzero((request > UnmaskRequest.NOTHING) & adjacent & ~known)
    if len(unknown):
        raise ProtocolError(f"a roster must name those only that shared their secrets; found sender {unknown[0]}")
    vectors = int((request == UnmaskRequest.SELF_MASK).sum())
    if vectors < threshold:
        raise ProtocolError(f"a roster must name at least threshold = {threshold} senders; found {vectors}")


class MaskingClients(DrawingClients):
    """Some clients.

    Args:
        parties: int64 [h], ascending identifiers of those hosted.
        plan: of the sums.
        cryptography: keys, masks, seals and votes.
        draws: coins of those hosted.
        names: their identities; None for none.
    """

    phases: ClassVar = PHASES
    secrets: ClassVar = 4
    vetoes: ClassVar[type[Vetoes]] = Vetoes
    """Another one only in tests of what it is for."""

    keys: ClassVar = {"sealing": SEALING, "mask": MASK}
    saved = ("mask", "forwarded", "holds", "held", "requests", "request")

    def __init__(
        self, parties: Ids, plan: MaskingPlan, cryptography: Cryptography, draws: Draws, names: Names | None = None
    ) -> None:
        absent = {Stage.DRAW: not plan.sparse, Stage.VETO: not plan.terms.veto}
        self.stages = tuple(stage for stage in Stage if not absent.get(stage, False))
        super().__init__(parties, plan, cryptography, draws, names)

    def _clear(self) -> None:
        h, k = len(self.parties), self._plan.degree
        super()._clear()
        size = self._crypto.public_bytes if self._crypto.wrapped_bytes else 0
        self._pairs = PairwiseKeys(self._crypto, h, k)
        self._publics = Publics(h, k, size)
        self._mask = np.zeros((h, k, KEY_BYTES), dtype=np.uint8)
        self._forwarded = np.zeros((h, k), dtype=np.bool_)
        self._holds = np.zeros((h, k + 1), dtype=np.bool_)
        self._held = np.zeros((*self._tapes, h, k + 1, 2, self._plan.words), dtype=np.int64)
        self._requests = np.zeros((h, k + 1), dtype=np.uint8)
        self._request = np.zeros((h, REQUEST_BYTES), dtype=np.uint8)
        self._vetoes = self.vetoes(self._plan, self._crypto, self._tapes, h)

    def veto(self, senders: Flags) -> None:
        """See `SumMachine.veto`."""
        if not senders.any():
            return
        super().veto(senders & (not self.terms.veto))
        if (self._due[senders] > Stage.SHARES).any():
            raise InputError("veto must come before a client has shared its secrets; it is too late")
        self._vetoes.cast |= senders

    def _stages(self) -> Mapping[Stage, tuple[Callable[[Messages], Store], Answer]]:
        return {
            Stage.DRAW: (self._receive_commitments, self._reveal),
            Stage.SHARES: (self._receive_keys, self._share),
            Stage.VECTORS: (self._receive_shares, self._hand_in),
            Stage.AGREEMENT: (self._receive_roster, self._agree),
            Stage.VETO: (self._receive_votes, self._send_vetoes),
            Stage.OPENING: (self._receive_go if self.terms.veto else self._receive_votes, self._open_up),
        }

    @property
    def _circles(self) -> NeighbourGraph:
        return self._plan.circles(self.now, self._seed)

    @property
    def _context(self) -> Context:
        return self._plan.context(self.now, self._seed)

    @property
    def _required_votes(self) -> int:
        return self._plan.required_shares

    def _others(self, index: int) -> Ids:
        return np.asarray(self._circles.neighbours[self._places[index]])

    # ------------------------------------------------------------------------------------------- KEYS, DRAW and SHARES
    def _beside_keys(self, indices: Ids) -> dict[str, Array]:
        """What a sparse graph needs."""
        return {"pledge": stack_bytes([self._commit(index) for index in indices.tolist()])} if self._plan.sparse else {}

    def _receive_keys(self, messages: Messages) -> Store:
        """Keys of a client's circle, and of a receiver that is another party: checked, and agreed on."""
        drawn = self._receive_draw(messages)
        listed_keys, receivers_key = self._listed_keys(messages, self._plan.degree + 1), self._receivers_key(messages)

        def store(row: int, index: int) -> None:
            draw = drawn(row, index)
            seed = b"" if draw is None else draw.seed
            circles = self._plan.circles(self.now, seed)
            public = listed_keys(row, index, circles.closed_neighbours[self._places[index]])
            if draw is not None:
                draw.check_keys(public)
            self._agree_on(index, public, receivers_key(row), circles, self._plan.context(self.now, seed))
            self._seed = seed

        return store

    def _agree_on(
        self,
        index: int,
        public: Mapping[int, tuple[bytes, ...]],
        receiver: bytes,
        circles: NeighbourGraph,
        context: Context,
    ) -> None:
        """Keys of pairs and of masks with every neighbour listed, and of the receiver's mask.

        Keys of masks with those that lead a client follow when it hears what they wrapped for it.
        """
        c, terms, place = self._crypto, self.terms, int(self._places[index])
        me, sealing, mask = int(self.parties[index]), *(self._secrets[index, i].tobytes() for i in (SEALING, MASK))
        near = {j: v for j, v in enumerate(circles.neighbours[place].tolist()) if v in public}
        names = {j: int(terms.clients[v]) for j, v in near.items()}
        check_usable(c, {names[j]: public[v][1] for j, v in near.items()})
        now = {names[j]: public[v][1] for j, v in near.items() if circles.initiates[place, j] or not c.wrapped_bytes}
        masks = c.agree(mask, context, KeyPurpose.PAIR_MASK, me, now, terms.length)
        shared = self._agree_with_receiver(index, receiver, self._plan.context(self.now))  # which knows no graph
        self._pairs.agree(index, sealing, context, me, {j: (names[j], public[v][0]) for j, v in near.items()})
        self._keep_receiver(index, *shared)
        for j, v in near.items():
            if c.wrapped_bytes:
                self._publics.put(index, j, public[v][1])
            if names[j] in masks:
                self._mask[index, j] = np.frombuffer(masks[names[j]], dtype=np.uint8)

    def _share(self, indices: Ids) -> Iterable[Messages]:
        """Shares of both secrets, sealed for each neighbour whose keys were heard; what made them is forgotten.

        With them goes what is wrapped for the neighbours that a client leads; private keys are then kept until it has
        heard what others wrapped for it.
        """
        circles, context, has = self._circles, self._context, self._pairs.has
        boxes = np.zeros(
            (len(indices), self._plan.degree, self._pairs.box_bytes(self._plan.sealed_elements)), dtype=np.uint8
        )
        for row, index in enumerate(indices.tolist()):
            place, me = int(self._places[index]), int(self.parties[index])
            shares, secret = self._shares(index, circles, context), self._secrets[index, SEALING].tobytes()
            self._held[..., index, circles.self_index[place], :, :] = shares[..., circles.self_index[place], :, :]
            self._holds[index, circles.self_index[place]] = True
            others = circles.others(place)
            values = np.compress(others, shares, axis=-3).reshape(*self._tapes, self._plan.degree, -1)
            if self.terms.veto:
                seed = self._secrets[index, SHARES].tobytes()
                vetoes = self._vetoes.share(index, seed, context, me, circles.closed_neighbours[place])
                self._vetoes.keep(index, circles.self_index[place], vetoes[..., circles.self_index[place]])
                values = np.concatenate([values, np.compress(others, vetoes, axis=-1)[..., None]], axis=-1)
            names = {
                j: int(self.terms.clients[circles.neighbours[place, j]]) for j in np.flatnonzero(has[index]).tolist()
            }
            for j, wrapped in self._pairs.wrap_keys(index, secret, context, me, names).items():
                box = self._pairs.seal(index, j, wrapped, context, (me, names[j]), values[..., j, :])
                boxes[row, j] = np.frombuffer(box, dtype=np.uint8)
        fields = {"boxes": boxes, "given": has[indices]}
        if self._crypto.wrapped_bytes:
            fields["wrapped"] = np.stack([self._wrap_neighbours(index, circles, context) for index in indices.tolist()])
        self._forget(indices, *((SHARES,) if self._crypto.wrapped_bytes else (SEALING, MASK, SHARES)))
        return [self._to_server(Phase.SECRET_SHARES, indices, fields)]

    def _wrap_neighbours(self, index: int, circles: NeighbourGraph, context: Context) -> NDArray[np.uint8]:
        """What a client wraps for the neighbours that it leads: uint8 [led, bytes]."""
        out = np.zeros((self._plan.max_initiated, self._crypto.wrapped_bytes), dtype=np.uint8)
        place, secret = int(self._places[index]), self._secrets[index, MASK].tobytes()
        led = np.flatnonzero(self._pairs.has[index] & circles.initiates[place]).tolist()
        names = {j: int(self.terms.clients[circles.neighbours[place, j]]) for j in led}
        publics = {names[j]: self._publics.get(index, j) for j in led}
        wrapped = self._crypto.wrap_keys(secret, context, KeyPurpose.PAIR_MASK, int(self.parties[index]), publics)
        for j in led:
            out[circles.leading[place, j]] = np.frombuffer(wrapped[names[j]], dtype=np.uint8)
        return out

    def _shares(self, index: int, circles: NeighbourGraph, context: Context) -> Elements:
        """Shares of a client's own mask and of its mask key for its circle: elements [*tapes, k + 1, 2, words]."""
        c, plan, me = self._crypto, self._plan, int(self.parties[index])
        w, needed, length = plan.words, plan.required_shares, plan.terms.length
        seed, own_mask = self._secrets[index, SELF].tobytes(), self._self_mask(index, context)
        masks = {j: self._mask[index, j].tobytes() for j in np.flatnonzero(self._pairs.has[index]).tolist()}
        secrets = [
            c.seed_words(seed, own_mask, w, length),
            c.key_words(self._secrets[index, MASK].tobytes(), masks, w, length),
        ]
        coins = self._share_coins(c.derive_key(self._secrets[index, SHARES].tobytes(), context, KeyPurpose.SHARING, me))
        both = np.concatenate(secrets, axis=-1)
        shares = plan.sharing.share(
            both, coins.reshape(*coins.shape[:-1], needed - 1, 2 * w), circles.closed_neighbours[self._places[index]]
        )
        return shares.reshape(*shares.shape[:-1], 2, w)

    def _share_coins(self, key: bytes) -> Elements:
        """Coefficients of the polynomials that share both secrets: elements [*tapes, (needed - 1) * 2 * words]."""
        return self._crypto.elements(key, (self._plan.required_shares - 1) * 2 * self._plan.words)

    def _self_mask(self, index: int, context: Context) -> bytes:
        seed = self._secrets[index, SELF].tobytes()
        return self._crypto.derive_key(seed, context, KeyPurpose.SELF_MASK, int(self.parties[index]))

    # --------------------------------------------------------------------------------------------------------- VECTORS
    def _receive_shares(self, messages: Messages) -> Store:
        """Who shared, the shares that a client holds from now on, and the masks with those that lead it."""
        circles, context = self._circles, self._context
        plan, k, c = self._plan, self._plan.degree, self._crypto
        flags = flags_of(messages, "told", k)
        boxes = bytes_of(messages, "boxes", k, self._pairs.box_bytes(plan.sealed_elements))
        wrapped = bytes_of(messages, "wrapped", plan.max_initiated, c.wrapped_bytes) if c.wrapped_bytes else None

        def store(row: int, index: int) -> None:
            place = int(self._places[index])
            self._check_known(index, flags[row], self._pairs.has[index], "clients that shared")
            if int(flags[row].sum()) + 1 < plan.required_shares:
                raise ProtocolError(
                    f"shares must be those of at least {plan.required_shares} clients; "
                    f"found {int(flags[row].sum()) + 1}"
                )
            of = {j: boxes[row, j].tobytes() for j in np.flatnonzero(flags[row]).tolist()}
            keys, result = self._unseal_boxes(index, of, plan.sealed_elements, context)
            if len(result) + 1 < plan.required_shares:
                raise ProtocolError(
                    f"shares of at least {plan.required_shares} clients must open as sealed for client {place}; "
                    f"found {len(result) + 1}"
                )
            masks = {} if wrapped is None else self._unwrap_masks(index, flags[row], wrapped[row], circles, context)
            self._forwarded[index] = flags[row]
            self._pairs.keep(index, keys)
            for j, key in masks.items():
                self._mask[index, j] = np.frombuffer(key, dtype=np.uint8)
            for j, values in result.items():
                in_circle = j + int(j >= circles.self_index[place])
                self._holds[index, in_circle] = True
                both = values[..., : 2 * plan.words]
                self._held[..., index, in_circle, :, :] = both.reshape(*both.shape[:-1], 2, plan.words)
                if plan.terms.veto:
                    self._vetoes.keep(index, in_circle, values[..., -1])

        return store

    def _unwrap_masks(
        self, index: int, forwarded: Array, wrapped: Array, circles: NeighbourGraph, context: Context
    ) -> dict[int, bytes]:
        """Keys of the masks with those that lead a client and have shared, by their places.

        Raises:
            ProtocolError: what one of them wrapped does not open. Without its mask the client's vector would not fit
                the other's; and a party that could have a client leave out masks could have it leave out all.
        """
        place, me = int(self._places[index]), int(self.parties[index])
        names = {j: int(self.terms.clients[circles.neighbours[place, j]]) for j in range(len(forwarded))}
        followers = np.flatnonzero(forwarded & ~circles.initiates[place]).tolist()
        received = {names[j]: wrapped[circles.following[place, j]].tobytes() for j in followers}
        publics = {names[j]: self._publics.get(index, j) for j in followers}
        secret, width = self._secrets[index, MASK].tobytes(), self.terms.length
        keys = self._crypto.agree(secret, context, KeyPurpose.PAIR_MASK, me, publics, width, received)
        return {j: keys[names[j]] for j in followers}

    def _forget_masks(self, indices: Ids) -> None:
        self._vetoes.forget(indices)
        self._mask[indices] = 0

    def _masks(self, index: int, context: Context) -> tuple[list[Mask], list[int]]:
        """The masks of a client's vector, and their signs: those of a pair cancel in the sum."""
        place = int(self._places[index])
        near = self._circles.neighbours[place]
        masks: list[Mask] = [self._self_mask(index, context)]
        signs = [1]
        for j in np.flatnonzero(self._forwarded[index]).tolist():
            masks.append(self._mask[index, j].tobytes())
            signs.append(1 if place < near[j] else -1)
        more = [*self._receivers_mask(index), *self._vetoes.blanks(index)]
        return masks + more, signs + [1] * len(more)

    # ------------------------------------------------------------------------------------------- AGREEMENT and OPENING
    def _receive_roster(self, messages: Messages) -> Store:
        """What the server asks about every party: kept of a client's circle, and of all as a digest for votes."""
        n, circles, context = self.terms.n, self._circles, self._context
        requests = bytes_of(messages, "asked", n)

        def store(row: int, index: int) -> None:
            place = int(self._places[index])
            near, known, adjacent = circles.neighbours[place], np.zeros(n, dtype=np.bool_), np.zeros(n, dtype=np.bool_)
            known[near[self._forwarded[index]]] = known[place] = True
            adjacent[near] = True
            self._check_asked(requests[row], place, known, adjacent)
            self._requests[index] = requests[row][circles.closed_neighbours[place]]
            self._request[index] = np.frombuffer(context.digest(requests[row].tobytes()), dtype=np.uint8)

        return store

    def _check_asked(self, request: Array, place: int, known: Array, adjacent: Array) -> None:
        _check_request(request, place, known, adjacent, self.terms.threshold)

    def _voters(self, index: int) -> Flags:
        """Bool [k], the neighbours in the sum."""
        others = self._circles.others(self._places[index])
        return np.asarray(self._forwarded[index] & (self._requests[index, others] == UnmaskRequest.SELF_MASK))

    def _vote_digest(self, index: int, context: Context) -> bytes:  # noqa: ARG002  # the digest is kept
        digest: bytes = self._request[index].tobytes()
        return digest

    def _send_vetoes(self, indices: Ids) -> Iterable[Messages]:
        """Each client's share of the sum of the vetoes of all in the sum; of a client that lacks one, none."""
        counted, shares = self._vetoes.open_sum(
            indices, self._requests[indices] == UnmaskRequest.SELF_MASK, self._holds[indices]
        )
        return [self._to_server(Phase.VETOES, indices, {"counted": counted}, {"share": shares[..., None]})]

    def _receive_go(self, messages: Messages) -> Store:  # noqa: ARG002  # says nothing
        """That no party vetoes, so that the sum may be opened."""

        def store(row: int, index: int) -> None:
            pass

        return store

    def _open_up(self, ids: Ids) -> Iterable[Messages]:
        """One share at most of each secret that is asked for; then everything is forgotten."""
        given = np.zeros((len(ids), self._plan.degree + 1), dtype=np.bool_)
        shares = np.zeros((*self._tapes, *given.shape, self._plan.words), dtype=np.int64)
        for row, index in enumerate(ids.tolist()):
            request = self._requests[index]
            given[row] = self._holds[index] & (request != UnmaskRequest.NOTHING)
            kind = np.where(request == UnmaskRequest.MASK_KEY, 1, 0)
            chosen = self._held[..., index, np.arange(len(kind)), kind, :]
            shares[..., row, :, :] = np.where(given[row][:, None], chosen, 0)
        self._pairs.forget(ids)
        self._holds[ids] = False
        self._held[..., ids, :, :, :] = 0
        return [self._to_server(Phase.UNMASKING, ids, {"given": given}, {"shares": shares}, ring=self._crypto.field)]

    # ---------------------------------------------------------------------------------------------------------- states
    def _arrays(self) -> dict[str, Array]:
        publics, numbers = self._publics.arrays()
        return {**super()._arrays(), **self._vetoes.arrays(), "mask keys": publics, "which mask key": numbers}

    def _take_arrays(self, arrays: dict[str, Array]) -> None:
        super()._take_arrays(arrays)
        self._publics.restore(arrays["mask keys"], arrays["which mask key"])
        self._vetoes.restore(arrays)
