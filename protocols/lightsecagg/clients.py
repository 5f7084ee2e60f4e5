"""Clients of LightSecAgg: what they check, answer and forget in each stage (So et al. 2022, algorithm 1, and a vote).

KEYS: every client publishes a fresh key. SHARES: it hears the others' keys and seals for each of them a coded mask.
VECTORS: it gets those of the others, and hands in its vector under its mask, and under one that it shares with a
receiver that does not add up. AGREEMENT: it hears whose vectors are in the sum, and votes. OPENING: it hears the
others' votes, and opens the sum of the coded masks of those clients, if enough were told the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar

import numpy as np

from fgl_secure.crypto.cryptography import Context, Cryptography, Elements, Mask, Purpose
from fgl_secure.crypto.streams import KEY_BYTES
from fgl_secure.errors import ProtocolError
from fgl_secure.protocols.identity import Names
from fgl_secure.protocols.lightsecagg.plan import LightSecAggPlan, check_roster
from fgl_secure.protocols.one_sum.clients import SEALING, Answer, Hear, OneSumClients, Vector, VectorFrom
from fgl_secure.protocols.one_sum.pairs import Pairs
from fgl_secure.protocols.one_sum.terms import USUAL, Stage, as_elements, bytes_of, flags_of
from fgl_secure.runtime import Draws, Messages, Phase, Step
from fgl_secure.typing import Array, Flags, Ids

MASK, NOISE = 1, 2
"""Secrets of a client beside its private key: seeds of its mask, and of the uniform parts that are coded with it."""


class Clients(OneSumClients):
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

    def __init__(
        self, parties: Ids, plan: LightSecAggPlan, cryptography: Cryptography, draws: Draws, names: Names | None = None
    ) -> None:
        self._plan = plan
        super().__init__(parties, plan.terms, plan.digest, cryptography, draws, names)

    def _clear(self) -> None:
        h, n = len(self.parties), self.terms.n
        self._pairs = Pairs(self._crypto, h, n)
        self._receiver = np.zeros((h, KEY_BYTES), dtype=np.uint8)
        self._holds = np.zeros((h, n), dtype=np.bool_)
        self._own = np.zeros((*self._tapes, h, self._plan.code.width), dtype=np.int64)
        self._held = np.zeros((*self._tapes, h, n, self._plan.code.width), dtype=np.int64)
        self._roster = np.zeros((h, n), dtype=np.bool_)

    def _hearer(self, stage: Stage, messages: Messages) -> Hear:
        return {
            Stage.SHARES: self._hear_keys,
            Stage.VECTORS: self._hear_shares,
            Stage.AGREEMENT: self._hear_roster,
            Stage.OPENING: self._hear_votes,
        }[stage](messages, self._plan.context(self.now))

    def _answers(self) -> Mapping[Stage, Answer]:
        return {
            Stage.SHARES: self._share,
            Stage.VECTORS: self._hand_in,
            Stage.AGREEMENT: self._agree,
            Stage.OPENING: self._open_up,
        }

    def _statement(self, place: int, public: bytes) -> bytes:
        return self._plan.statement(self.now, place, public)

    # ---------------------------------------------------------------------------------------------------------- SHARES
    def _hear_keys(self, messages: Messages, context: Context) -> Hear:
        """Everybody's keys, and that of a receiver that is somebody else: checked, and agreed on."""
        c, read, split = self._crypto, self._listed_keys(messages), self.terms.split
        receivers = bytes_of(messages, "receiver", c.public_bytes) if split else None
        signed = bytes_of(messages, "receiver signature", c.signature_bytes) if split else None

        def hear(row: int, at: int) -> None:
            public = read(row, at)
            by_receiver = b"" if receivers is None else receivers[row].tobytes()
            if self._names is not None and signed is not None:
                n = self.terms.n
                self._names.known.check(n, self._statement(n, by_receiver), signed[row].tobytes())
            self._agree_on(at, public, by_receiver, context)

        return hear

    def _agree_on(self, at: int, public: Mapping[int, bytes], receiver: bytes, context: Context) -> None:
        """Keys of pairs with all listed, and of the receiver's mask."""
        terms, me = self.terms, int(self.parties[at])
        secret = self._secrets[at, SEALING].tobytes()
        others = {v: (int(terms.clients[v]), key) for v, key in public.items() if v != self._places[at]}
        shared, wrapped = self._agree_with_receiver(secret, me, receiver, context) if receiver else (b"", b"")
        self._pairs.agree(at, secret, context, me, others)
        if receiver:
            self._receiver[at] = np.frombuffer(shared, dtype=np.uint8)
            self._for_receiver[at] = np.frombuffer(wrapped, dtype=np.uint8)

    def _share(self, which: Ids) -> Iterable[Messages]:
        """A coded mask sealed for each other client whose key was heard, client by client; its noise is forgotten.

        So is its private key, unless it has yet to hear what others wrapped for it.
        """
        secrets = self._secrets[which]
        self._forget(which, *((NOISE,) if self._crypto.wrapped_bytes else (SEALING, NOISE)))
        return self._shared(which, secrets, self._plan.context(self.now), self.now)

    def _shared(self, which: Ids, secrets: Array, context: Context, step: Step) -> Iterator[Messages]:
        n, nothing, has = self.terms.n, bytes(self._pairs.box_bytes(self._plan.code.width)), self._pairs.has
        for at, own in zip(which.tolist(), secrets, strict=True):
            place = int(self._places[at])
            coded = self._coded(at, own, context)
            self._own[..., at, :], self._holds[at, place] = coded[..., place, :], True
            others = [v for v in range(n) if v != place]
            names = {v: int(self.terms.clients[v]) for v in others if has[at, v]}
            said = self._pairs.wrapped(at, own[SEALING].tobytes(), context, int(self.parties[at]), names)
            sealed = [self._sealed(at, v, coded, said[v], context) if v in said else nothing for v in others]
            boxes = np.frombuffer(b"".join(sealed), dtype=np.uint8).reshape(1, n - 1, len(nothing))
            fields = {"boxes": boxes, "given": has[[at]]}
            yield self._to_server(Phase.SECRET_SHARES, np.array([at]), fields, None, step)

    def _coded(self, at: int, secrets: Array, context: Context) -> Elements:
        """A client's mask, coded for every client: elements [*tapes, n, width]."""
        code, me = self._plan.code, int(self.parties[at])
        mask = self._crypto.elements(self._mask_key(at, secrets[MASK].tobytes(), context), code.length)
        noise_key = self._crypto.stretched(secrets[NOISE].tobytes(), context, Purpose.SHARING, me)
        noise = self._noise(noise_key).reshape(*mask.shape[:-1], *code.noise_shape)
        return code.encode(mask, noise).astype(np.int64, copy=False)

    def _mask_key(self, at: int, seed: bytes, context: Context) -> bytes:
        """The key of a client's mask."""
        return self._crypto.stretched(seed, context, Purpose.SELF_MASK, int(self.parties[at]))

    def _noise(self, key: bytes) -> Elements:
        """The uniform parts beside those of a mask: elements [*tapes, T * width]."""
        rows, width = self._plan.code.noise_shape
        return self._crypto.elements(key, rows * width)

    def _sealed(self, at: int, v: int, coded: Elements, said: bytes, context: Context) -> bytes:
        """The coded mask for one other client."""
        ends = int(self.parties[at]), int(self.terms.clients[v])
        return self._pairs.seal(at, v, said, context, ends, coded[..., v, :])

    # --------------------------------------------------------------------------------------------------------- VECTORS
    def _hear_shares(self, messages: Messages, context: Context) -> Hear:
        """Who shared, and the coded masks that a client holds from now on."""
        n, needed = self.terms.n, self.terms.threshold
        told = flags_of(messages, "told", n)
        boxes = bytes_of(messages, "boxes", n - 1, self._pairs.box_bytes(self._plan.code.width))

        def hear(row: int, at: int) -> None:
            strangers = np.flatnonzero(told[row] & ~self._pairs.has[at])
            if len(strangers):
                raise ProtocolError(
                    f"clients that shared must be clients that this stage allows; found client {strangers[0]}"
                )
            keys, found = self._unsealed(at, told[row], boxes[row], context)
            if len(found) + 1 < needed:
                raise ProtocolError(
                    f"coded masks of at least {needed} clients must open as sealed for client {self._places[at]}; "
                    f"found {len(found) + 1}"
                )
            self._pairs.keep(at, keys)
            self._held[..., at, int(self._places[at]), :] = self._own[..., at, :]
            for v, values in found.items():
                self._holds[at, v], self._held[..., at, v, :] = True, values

        return hear

    def _unsealed(
        self, at: int, told: Flags, boxes: Array, context: Context
    ) -> tuple[dict[int, bytes], dict[int, Elements]]:
        """Keys of those that a client hears, and the coded masks that open as sealed for it, by their owners.

        Args:
            at: the place of the client among those hosted.
            told: bool [n], who shared.
            boxes: uint8 [n - 1, bytes], of all clients but this one.
            context: of the sum.
        """
        found, me, place = {}, int(self.parties[at]), int(self._places[at])
        given = {
            v: (int(self.terms.clients[v]), boxes[v - (v > place)].tobytes()) for v in np.flatnonzero(told).tolist()
        }
        keys = self._pairs.heard(at, self._secrets[at, SEALING].tobytes(), context, me, given)
        for v, (owner, box) in given.items():
            try:
                found[v] = self._pairs.unseal(keys.get(v), context, (owner, me), box, self._plan.code.width)
            except ProtocolError as error:
                self.remark(self.now, owner, str(error))
        return keys, found

    def _hand_in(self, which: Ids) -> Iterable[Messages]:
        """Each client's vector, under its mask and the receiver's."""
        context, rows = self._plan.context(self.now), self._rows
        assert rows is not None, "see turn"
        self._used_up()
        todo = [(self._vector_from(at), self._vector(rows, at), self._masks(at, context)) for at in which.tolist()]
        self._forget(which)
        self._receiver[which] = 0
        return self._masked(todo, self.now)

    def _masks(self, at: int, context: Context) -> list[Mask]:
        """The masks of a client's vector."""
        masks: list[Mask] = [self._mask_key(at, self._secrets[at, MASK].tobytes(), context)]
        return [*masks, self._receiver[at].tobytes()] if self.terms.split else masks

    def _masked(self, todo: list[tuple[VectorFrom, Vector, list[Mask]]], step: Step) -> Iterator[Messages]:
        for (at, fields), vector_of, masks in todo:
            row = vector_of()
            total = self._crypto.add_masks(as_elements(row, self._plan.field.modulus), masks, [1] * len(masks))
            vector = np.broadcast_to(total, (*self._tapes, len(row)))[..., None, :]
            yield self._to_server(Phase.MASKED_VECTORS, np.array([at]), fields, {"vector": vector}, step)

    # ------------------------------------------------------------------------------------------- AGREEMENT and OPENING
    def _hear_roster(self, messages: Messages, context: Context) -> Hear:  # noqa: ARG002  # of those that use it
        """Whose vectors the server says are in the sum."""
        roster = flags_of(messages, "roster", self.terms.n)

        def hear(row: int, at: int) -> None:
            self._check_roster(roster[row], int(self._places[at]), self._holds[at])
            self._roster[at] = roster[row]

        return hear

    def _check_roster(self, roster: Flags, own: int, told: Flags) -> None:
        check_roster(roster, own, told, self.terms.threshold)

    def _voters(self, at: int) -> Flags:
        """Bool [n], the others on a client's roster: whom its votes are for, and whose votes it counts."""
        others: Flags = self._roster[at] & self._pairs.has[at]
        others[self._places[at]] = False
        return others

    def _agree(self, which: Ids) -> Iterable[Messages]:
        """Each client tells each other one on its roster what it was told."""
        context = self._plan.context(self.now)
        votes = np.zeros((len(which), self.terms.n, self._crypto.vote_bytes), dtype=np.uint8)
        for row, at in enumerate(which.tolist()):
            digest, me = context.digest(self._roster[at].tobytes()), int(self.parties[at])
            for v in np.flatnonzero(self._voters(at)).tolist():
                votes[row, v] = self._pairs.vote(at, v, context, (me, int(self.terms.clients[v])), digest)
        return [self._to_server(Phase.ROSTERS, which, {"votes": votes})]

    def _hear_votes(self, messages: Messages, context: Context) -> Hear:
        """The others' votes, of which enough must be for what the client was told."""
        n, needed = self.terms.n, self.terms.threshold
        cast, votes = flags_of(messages, "cast", n), bytes_of(messages, "votes", n, self._crypto.vote_bytes)

        def hear(row: int, at: int) -> None:
            strangers = np.flatnonzero(cast[row] & ~self._voters(at))
            if len(strangers):
                raise ProtocolError(f"voters must be clients that this stage allows; found client {strangers[0]}")
            alike = 1 + self._alike(at, cast[row], votes[row], context)
            if alike < needed:
                raise ProtocolError(
                    f"a roster must have {needed} votes before client {self._places[at]} opens its sum of coded masks; "
                    f"found {alike} for its own"
                )

        return hear

    def _alike(self, at: int, cast: Flags, votes: Array, context: Context) -> int:
        """How many others voted for what a client was told; any other vote is noted."""
        digest, me, found = context.digest(self._roster[at].tobytes()), int(self.parties[at]), 0
        for v in np.flatnonzero(cast).tolist():
            voter = int(self.terms.clients[v])
            if self._pairs.is_vote(at, v, context, (voter, me), digest, votes[v].tobytes()):
                found += 1
            else:
                self.remark(self.now, voter, f"its vote for a roster is not what party {me} was told")
        return found

    def _open_up(self, which: Ids) -> Iterable[Messages]:
        """The sum of the coded masks of each client's roster, and no second; then everything is forgotten."""
        sums = [self._plan.code.added(self._opened(at)) for at in which.tolist()]
        self._held[..., which, :, :], self._own[..., which, :] = 0, 0
        self._pairs.forget(which)
        self._holds[which] = False
        total = np.stack([one.astype(np.int64, copy=False) for one in sums], axis=-2)
        return [self._to_server(Phase.UNMASKING, which, {}, {"sum": total})]

    def _opened(self, at: int) -> Elements:
        """The coded masks whose sum a client opens: elements [*tapes, r, width]."""
        return np.compress(self._roster[at], self._held[..., at, :, :], axis=-2)

    def _arrays(self) -> dict[str, Array]:
        return {
            **super()._arrays(),
            **self._pairs.arrays(),
            "pad": self._receiver,
            "holds": self._holds,
            "own": self._own,
            "held": self._held,
            "roster": self._roster,
        }

    def _take_arrays(self, arrays: dict[str, Array]) -> None:
        super()._take_arrays(arrays)
        self._pairs.restore(arrays)
        self._receiver = arrays["pad"]
        self._holds, self._roster = arrays["holds"], arrays["roster"]
        self._own, self._held = arrays["own"], arrays["held"]
