"""The server of pairwise masking: it passes on keys, boxes and votes, adds up vectors, and takes away their masks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar

import numpy as np

from fgl_secure.crypto.aes_instructions import add_words
from fgl_secure.crypto.cryptography import Mask, Partner
from fgl_secure.errors import ProtocolError, TooFewClientsError
from fgl_secure.protocols.pairwise_masking.drawing import (
    COMMITMENT_BYTES,
    Commitments,
    GraphSeed,
    commitment_of,
    digest_of_keys,
)
from fgl_secure.protocols.pairwise_masking.graph import MOST_WITHHELD
from fgl_secure.protocols.pairwise_masking.plan import MaskingPlan, NeighbourGraph, UnmaskRequest
from fgl_secure.protocols.secagg.server import AggregationServer, Store
from fgl_secure.protocols.secagg.terms import Stage, bytes_of, elements_of, flags_of
from fgl_secure.runtime import MessageKind, Messages, Phase
from fgl_secure.typing import Array, Flags

MASK_KEY = 1
"""Which of a client's keys that of its masks is."""
ALL_BITS = np.int64(-1)
PHASES: Mapping[MessageKind, Stage] = {
    Phase.KEYS: Stage.KEYS,
    Phase.DRAW: Stage.DRAW,
    Phase.SECRET_SHARES: Stage.SHARES,
    Phase.MASKED_VECTORS: Stage.VECTORS,
    Phase.ROSTERS: Stage.AGREEMENT,
    Phase.VETOES: Stage.VETO,
    Phase.UNMASKING: Stage.OPENING,
}
"""The stage that answers are of, by what they carry."""


class MaskingServer(AggregationServer):
    """The party that adds up.

    Args:
        plan: of the sums.
        cryptography: keys and masks.
        draws: coins, for locating wrong shares; they never change a sum.
    """

    phases: ClassVar = PHASES

    keys: ClassVar = ("sealing", "mask")
    saved = (
        "pledged", "pledges", "nonces", "given", "boxes", "wrapped", "forwarded", "total", "requests",
        "opened", "shares", "counted", "vetoes", "vetoed_sum",
    )  # fmt: skip
    _plan: MaskingPlan

    @property
    def _circles(self) -> NeighbourGraph:
        return self._plan.circles(self.now, self._seed)

    def _clear(self) -> None:
        n, k, c = self.terms.n, self._plan.degree, self._crypto
        self._seed = b""
        self._pledged = np.zeros(n if self._plan.sparse else 0, dtype=np.bool_)
        self._pledges, self._nonces = np.zeros((2, len(self._pledged), COMMITMENT_BYTES), dtype=np.uint8)
        self._given = np.zeros((n, k), dtype=np.bool_)
        self._boxes = np.zeros((n, k, c.wrapped_bytes + c.sealed_bytes(self._plan.sealed_elements)), dtype=np.uint8)
        self._wrapped = np.zeros(
            (n, self._plan.max_initiated if c.wrapped_bytes else 0, c.wrapped_bytes), dtype=np.uint8
        )
        self._forwarded = np.zeros((n, k), dtype=np.bool_)
        self._total = np.zeros((*self._tapes, self.terms.length), dtype=np.int64)
        self._requests = np.zeros(n, dtype=np.uint8)
        self._votes = np.zeros((n, k, c.vote_bytes), dtype=np.uint8)
        self._opened = np.zeros((n, k + 1), dtype=np.bool_)
        self._shares = np.zeros((*self._tapes, n, k + 1, self._plan.words), dtype=np.int64)
        self._counted = np.zeros(n * self.terms.veto, dtype=np.bool_)
        self._vetoes = np.zeros((*self._tapes, len(self._counted)), dtype=np.int64)
        self._vetoed_sum = np.zeros(1, dtype=np.bool_)

    @property
    def is_vetoed(self) -> bool:
        """See `SumMachine.vetoed`."""
        return bool(self._vetoed_sum[0])

    def _stages(self) -> Mapping[Stage, tuple[Callable[[Messages], Store], Callable[[], Iterable[Messages]]]]:
        return {
            Stage.DRAW: (self._receive_nonces, self._send_drawn),
            Stage.SHARES: (self._receive_shares, self._send_shares),
            Stage.VECTORS: (self._receive_vectors, self._send_roster),
            Stage.AGREEMENT: (self._receive_votes, self._send_votes),
            Stage.VETO: (self._receive_vetoes, self._send_vetoes),
            Stage.OPENING: (self._receive_openings, self._unmask),
        }

    # --------------------------------------------------------------------------------------------------- KEYS and DRAW
    def _receive_keys(self, messages: Messages) -> Store:
        """Keys, and commitments to what a graph is drawn from."""
        store = super()._receive_keys(messages)
        if not self._plan.sparse:
            return store
        pledges = bytes_of(messages, "pledge", COMMITMENT_BYTES)

        def store_both(row: int, client: int) -> None:
            store(row, client)
            self._pledges[client] = pledges[row]

        return store_both

    def _send_keys(self) -> Iterable[Messages]:
        """Where a graph is drawn, every party first hears every party's commitments to what it is drawn from."""
        self._check_receiver()
        if not self._plan.sparse:
            return self._send_drawn()
        self._pledged = made = self._tracker.answered.copy()
        self._tracker.go(Stage.DRAW, made)
        fields = {"made": made, "pledges": self._pledges * made[:, None]}
        copies = {name: np.broadcast_to(value, (int(made.sum()), *value.shape)) for name, value in fields.items()}
        return [self._to_clients(Phase.DRAW, made, copies)]

    def _receive_nonces(self, messages: Messages) -> Store:
        """What clients committed to."""
        nonces = bytes_of(messages, "nonce", COMMITMENT_BYTES)

        def store(row: int, client: int) -> None:
            if commitment_of(client, self._digest_of(client), nonces[row].tobytes()) != self._pledges[client].tobytes():
                raise ProtocolError(f"client {client} must reveal what it committed to; it does not")
            self._nonces[client] = nonces[row]

        return store

    def _digest_of(self, client: int) -> bytes:
        return digest_of_keys(*(key.tobytes() for key in self._keys[client]))

    def _send_drawn(self) -> Iterable[Messages]:
        """Every party in whose circle enough have published keys hears them; a receiver hears every party's."""
        published = self._tracker.answered
        self._seed, drawn = self._graph_seed(published)
        circles = self._circles
        listed = published[circles.closed_neighbours]
        active = self._tracker.answered & (listed.sum(axis=1) >= self._plan.required_shares)
        shares = self._plan.required_shares
        self._tracker.require(int(active.sum()), f"have {shares} clients with keys in their circles")
        self._listed = self._tracker.answered.copy()
        neighbours, with_keys = circles.closed_neighbours[active], listed[active]
        fields: dict[str, Array] = {"listed": with_keys}
        fields |= {name: np.broadcast_to(value, (len(neighbours), *value.shape)) for name, value in drawn.items()}
        for index, name in enumerate(self.keys):
            fields[name] = _only(self._keys[neighbours, index], with_keys)
        fields["signature"] = _only(self._signature[neighbours], with_keys)
        return self._make_key_messages(active, fields)

    def _graph_seed(self, revealed: Flags) -> tuple[bytes, dict[str, Array]]:
        """The seed of a sparse graph, and what clients draw it from; nothing where all mask with all.

        Raises:
            TooFewClientsError: more have withheld what they committed to than may.
        """
        if not self._plan.sparse:
            return b"", {}
        made = int(self._pledged.sum())
        if int(revealed.sum()) < made - MOST_WITHHELD:
            raise TooFewClientsError(
                f"at least {made - MOST_WITHHELD} of {made} clients must reveal what the graph is drawn from in stage "
                f"{Stage.DRAW.name} ({Stage.DRAW:d}); found {revealed.sum()}"
            )
        digests = np.zeros_like(self._pledges)
        for client in np.flatnonzero(revealed).tolist():
            digests[client] = np.frombuffer(self._digest_of(client), dtype=np.uint8)
        draw = GraphSeed(
            Commitments(self._pledged, self._pledges * self._pledged[:, None]), revealed, digests, self._nonces
        )
        return draw.seed, {"revealed": revealed, "digests": digests, "nonces": self._nonces}

    # ---------------------------------------------------------------------------------------------------------- SHARES
    def _receive_shares(self, messages: Messages) -> Store:
        """A sealed box for each neighbour that a client was told of."""
        flags = flags_of(messages, "given", self._plan.degree)
        boxes = bytes_of(messages, "boxes", *self._boxes.shape[1:])
        wrapped = bytes_of(messages, "wrapped", *self._wrapped.shape[1:]) if self._crypto.wrapped_bytes else None
        circles = self._circles

        def store(row: int, client: int) -> None:
            if not np.array_equal(flags[row], self._listed[circles.neighbours[client]]):
                raise ProtocolError(f"boxes must be for those whose keys client {client} received; they are not")
            self._given[client], self._boxes[client] = flags[row], boxes[row]
            if wrapped is not None:
                self._wrapped[client] = wrapped[row]

        return store

    def _send_shares(self) -> Iterable[Messages]:
        """Every party in whose circle enough have shared hears who did, and what they sealed for it."""
        circles, shared = self._circles, self._tracker.answered
        near = circles.neighbours
        forwarded = shared[near] & self._given[near, circles.reverse_index] & shared[:, None]
        active = shared & (forwarded.sum(axis=1) + 1 >= self._plan.required_shares)
        shares = self._plan.required_shares
        self._tracker.require(int(active.sum()), f"have {shares} clients that shared in their circles")
        self._forwarded = forwarded & active[:, None]
        boxes = _only(self._boxes[near[active], circles.reverse_index[active]], forwarded[active])
        self._boxes[:] = 0
        fields: dict[str, Array] = {"told": forwarded[active], "boxes": boxes}
        if self._crypto.wrapped_bytes:
            fields["wrapped"] = self._select_wrapped(active)
        self._tracker.go(Stage.VECTORS, active)
        return [self._to_clients(Phase.SECRET_SHARES, active, fields)]

    def _select_wrapped(self, active: Flags) -> Array:
        """What those that lead some clients and have shared wrapped for them: uint8 [asked, led, bytes]."""
        circles, out = self._circles, np.zeros_like(self._wrapped)
        members, index = np.nonzero(self._forwarded & active[:, None] & ~circles.initiates)
        out[members, circles.following[members, index]] = self._from_leader(members, index)
        return out[active]

    def _from_leader(self, members: Array, index: Array) -> Array:
        """What the neighbours of some clients at some places wrapped for them: uint8 [..., bytes]."""
        circles = self._circles
        leader = circles.neighbours[members, index]
        return self._wrapped[leader, circles.leading[leader, circles.reverse_index[members, index]]]

    # --------------------------------------------------------------------------------------------------------- VECTORS
    def _receive_vectors(self, messages: Messages) -> Store:
        """A masked vector, added up at once."""
        ring = self._crypto.ring
        vectors = elements_of(messages, "vector", ring, self.terms.length)
        wrapped = self._read_wrapped(messages)

        def store(row: int, client: int) -> None:
            if self._tapes:
                self._total = ring.add(self._total, vectors[..., row, :])
            else:
                add_words(self._total, vectors[row], ALL_BITS, ring.modulus, negative=False)
            self._for_receiver[client] = wrapped[row]

        return store

    def _send_roster(self) -> Iterable[Messages]:
        """Those whose vectors are in the sum hear what is asked about every party.

        Nothing is asked about a client that shared and then dropped out together with all its neighbours: no mask of
        its is left, and no party who could open one.
        """
        survived, shared = self._tracker.answered.copy(), np.zeros(self.terms.n, dtype=np.bool_)
        self._included = survived
        shared[self._circles.neighbours[survived][self._forwarded[survived]]] = True
        # The aggregator's role: what to ask, uint8 [m], given whose secrets are shared and whose vectors came.
        self._requests = np.where(
            survived, UnmaskRequest.SELF_MASK, np.where(shared, UnmaskRequest.MASK_KEY, UnmaskRequest.NOTHING)
        ).astype(np.uint8)
        self._tracker.go(Stage.AGREEMENT, survived)
        requests = np.broadcast_to(self._requests, (int(survived.sum()), len(survived)))
        return [self._to_clients(Phase.ROSTERS, survived, {"asked": requests})]

    # ------------------------------------------------------------------------------------------- AGREEMENT and OPENING
    def _send_votes(self) -> Iterable[Messages]:
        """Those that voted hear how their neighbours did."""
        circles, voted = self._circles, self._tracker.answered
        near = circles.neighbours
        cast = self._forwarded & (self._requests[near] == UnmaskRequest.SELF_MASK) & voted[near]
        votes = _only(self._votes[near[voted], circles.reverse_index[voted]], cast[voted])
        stage, phase = (Stage.VETO, Phase.VETOES) if self.terms.veto else (Stage.OPENING, Phase.UNMASKING)
        self._tracker.go(stage, voted)
        return [self._to_clients(phase, voted, {"cast": cast[voted], "votes": votes})]

    def _receive_vetoes(self, messages: Messages) -> Store:
        """A share of the sum of the vetoes, of a client that holds one of each."""
        counted = flags_of(messages, "counted")
        shares = elements_of(messages, "share", self._crypto.field, 1)

        def store(row: int, client: int) -> None:
            self._counted[client], self._vetoes[..., client] = counted[row], shares[..., row, 0]

        return store

    def _send_vetoes(self) -> Iterable[Messages]:
        """Where no party vetoes, all are asked to open the sum; else it is over, and stays closed.

        Raises:
            TooFewClientsError: fewer than the threshold have a share of every veto.
            ProtocolError: shares contradict each other beyond repair.
        """
        answered = self._tracker.answered.copy()
        holders = np.flatnonzero(answered & self._counted)
        self._tracker.require(len(holders), "hold a share of every veto")
        shares = np.moveaxis(self._vetoes[..., holders], -1, 0)
        opened = self._plan.sharing.open(shares[..., None], holders.tolist(), self._coins)
        self._vetoed_sum[0] = opened.any()
        if self.is_vetoed:
            self._included[:] = False
            self._tracker.go(None)
            self._step, self._total = None, np.zeros_like(self._total)
            return ()
        self._tracker.go(Stage.OPENING, answered)
        return [self._to_clients(Phase.UNMASKING, answered, {})]

    def _receive_openings(self, messages: Messages) -> Store:
        """Shares of what is asked for, as far as a client holds them."""
        k, circles = self._plan.degree, self._plan.circles(self.now, self._seed)
        flags = flags_of(messages, "given", k + 1)
        shares = elements_of(messages, "shares", self._crypto.field, k + 1, self._plan.words)

        def store(row: int, client: int) -> None:
            known = np.insert(self._forwarded[client], circles.self_index[client], True)
            strangers = np.flatnonzero(
                flags[row] & ~(known & (self._requests[circles.closed_neighbours[client]] != UnmaskRequest.NOTHING))
            )
            if len(strangers):
                owner = int(circles.closed_neighbours[client, strangers[0]])
                raise ProtocolError(f"owners of shares must be clients that this stage allows; found client {owner}")
            self._opened[client], self._shares[..., client, :, :] = flags[row], shares[..., row, :, :]

        return store

    def _unmask(self) -> Iterable[Messages]:
        """Opens what is asked for and takes the masks away; a receiver that is another party hears the sum.

        Raises:
            TooFewClientsError: a secret has fewer shares than it needs.
            ProtocolError: shares contradict each other, or do not open what takes the masks away.
        """
        terms, masks, signs = self.terms, *self._sum_remaining_masks(self._circles)
        total = self._crypto.add_masks(self._total.copy(), masks, signs)
        survived = self._requests == UnmaskRequest.SELF_MASK
        if not terms.split:
            self._sums = terms.decode_total(total, int(survived.sum()), self._crypto.ring.modulus)[..., None, :]
        self._tracker.go(None)
        step, self._step = self.now, None
        self._shares[:], self._total = 0, np.zeros_like(self._total)
        if not terms.split:
            return ()
        return [self._masked_sum(survived, total, step)]

    def _sum_remaining_masks(self, circles: NeighbourGraph) -> tuple[list[Mask], list[int]]:
        """The masks that are left in the sum, and the signs that take them away.

        The own masks of who is in it, and what neighbours in it put on for the others.
        """
        terms, requests, length = self.terms, self._requests, self.terms.length
        secrets, context = self._secrets(circles), self._plan.context(self.now, self._seed)
        masks: list[Mask] = []
        signs: list[int] = []
        for u in np.flatnonzero(requests == UnmaskRequest.SELF_MASK).tolist():
            masks.append(self._crypto.mask_of_seed(secrets[u], context, int(terms.clients[u]), length))
            signs.append(-1)
        for u in np.flatnonzero(requests == UnmaskRequest.MASK_KEY).tolist():
            near = {
                j: self._partner(u, j)
                for j, v in enumerate(circles.neighbours[u].tolist())
                if requests[v] == UnmaskRequest.SELF_MASK and self._forwarded[v, circles.reverse_index[u, j]]
            }
            name, public = int(terms.clients[u]), self._keys[u, MASK_KEY].tobytes()
            result = self._crypto.masks_of_key(secrets[u], public, context, name, near, length)
            for j, mask in result.items():
                masks.append(mask)
                signs.append(1 if u < circles.neighbours[u, j] else -1)
        return masks, signs

    def _partner(self, u: int, j: int) -> Partner:
        """A neighbour of a client whose mask key was opened."""
        circles = self._circles
        v = int(circles.neighbours[u, j])
        led = bool(self._crypto.wrapped_bytes) and not circles.initiates[u, j]
        wrapped = self._from_leader(np.array(u), np.array(j)).tobytes() if led else None
        return Partner(int(self.terms.clients[v]), self._keys[v, MASK_KEY].tobytes(), wrapped)

    def _secrets(self, circles: NeighbourGraph) -> dict[int, Array]:
        """What is asked for, opened: elements [*tapes, words] by owner."""
        has_share = self._opened[circles.closed_neighbours, circles.closed_reverse_index]
        shares = self._shares[..., circles.closed_neighbours, circles.closed_reverse_index, :]
        wanted, result = np.flatnonzero(self._requests != UnmaskRequest.NOTHING), has_share.sum(axis=1)
        short = wanted[result[wanted] < self._plan.required_shares]
        if len(short):
            raise TooFewClientsError(
                f"{self._plan.required_shares} shares are needed to unmask client {short[0]} in stage "
                f"{Stage.OPENING.name} ({Stage.OPENING:d}); found {result[short[0]]}"
            )
        return self._plan.sharing.open_each(shares, has_share, circles.closed_neighbours, wanted, self._coins)

    # ---------------------------------------------------------------------------------------------------------- states
    def _arrays(self) -> dict[str, Array]:
        return {**super()._arrays(), "seed": np.frombuffer(self._seed, dtype=np.uint8)}

    def _take_arrays(self, arrays: dict[str, Array]) -> None:
        super()._take_arrays(arrays)
        self._seed = arrays["seed"].tobytes()


def _only(rows: Array, mask: Flags) -> Array:
    """The rows [m, k, ...] that are there, bool [m, k], and zeros for the others; the caller gives them up."""
    if not mask.all():
        rows[~mask] = 0
    return rows
