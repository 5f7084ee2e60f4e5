"""The server of pairwise masking: it passes on keys, boxes and votes, adds up vectors, and takes away their masks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.coins import Coins
from fgl_secure.crypto.cryptography import Cryptography, Mask
from fgl_secure.errors import ProtocolError, TooFewClientsError
from fgl_secure.protocols.one_sum.attendance import Attendance
from fgl_secure.protocols.one_sum.fields import bytes_of, each_row, elements_of, flags_of
from fgl_secure.protocols.one_sum.machine import OneSumMachine
from fgl_secure.protocols.one_sum.terms import Stage
from fgl_secure.protocols.pairwise_masking.memory import laid_out
from fgl_secure.protocols.pairwise_masking.plan import Circles, MaskingPlan
from fgl_secure.protocols.pairwise_masking.requests import Ask, request_of
from fgl_secure.runtime import Draws, Messages, Phase, Step

Array = NDArray[Any]
Ids = NDArray[np.int64]
Flags = NDArray[np.bool_]

PHASES: Mapping[Phase, Stage] = {
    Phase.KEYS: Stage.KEYS,
    Phase.SECRET_SHARES: Stage.SHARES,
    Phase.MASKED_VECTORS: Stage.VECTORS,
    Phase.ROSTERS: Stage.AGREEMENT,
    Phase.UNMASKING: Stage.OPENING,
}
"""The stage that answers are of, by what they carry."""


class Server(OneSumMachine):
    """The party that adds up.

    It says something once answers have come, and goes on with those that answered: whoever has not has dropped out.
    Where it raises because too few are left, it is as it was, and late answers may still come.

    Args:
        plan: of the sums.
        cryptography: keys and masks.
        draws: coins, for locating wrong shares; they never change a sum.
    """

    def __init__(self, plan: MaskingPlan, cryptography: Cryptography, draws: Draws) -> None:
        parties = np.array([plan.terms.server], dtype=np.int64)
        super().__init__(parties, plan.terms, plan.digest, len(draws.batch_shape))
        self._plan, self._crypto, self._tapes = plan, cryptography, draws.batch_shape
        self._coins: Coins | None = None if draws.batch_shape else draws.coins
        self._here = Attendance(plan.terms)
        self._clear()

    def _clear(self) -> None:
        n, k, c = self._plan.terms.n, self._plan.degree, self._crypto
        self._sealing = np.zeros((n, c.public_bytes), dtype=np.uint8)
        self._mask = np.zeros((n, c.public_bytes), dtype=np.uint8)
        self._signature = np.zeros((n, c.signature_bytes), dtype=np.uint8)
        self._published = np.zeros(n, dtype=np.bool_)
        self._receiver = np.zeros(c.public_bytes + c.signature_bytes + 1, dtype=np.uint8)
        self._given = np.zeros((n, k), dtype=np.bool_)
        self._boxes = np.zeros((n, k, c.sealed_bytes(2 * self._plan.words)), dtype=np.uint8)
        self._told = np.zeros((n, k), dtype=np.bool_)
        self._total = np.zeros((*self._tapes, self._plan.terms.length), dtype=np.int64)
        self._asked = np.zeros(n, dtype=np.uint8)
        self._votes = np.zeros((n, k, c.vote_bytes), dtype=np.uint8)
        self._opened = np.zeros((n, k + 1), dtype=np.bool_)
        self._shares = np.zeros((*self._tapes, n, k + 1, self._plan.words), dtype=np.int64)

    @property
    def stage(self) -> Stage | None:
        """The stage that answers are awaited for; None when the sum is done."""
        return self._here.stage

    @property
    def included(self) -> Ids | None:
        """See `SumMachine.included`."""
        there = self._asked == Ask.SELF_MASK
        return self._plan.terms.clients[there] if there.any() else None

    def begin(self, step: Step, rows: Array | None = None) -> None:
        """See `SumMachine.begin`."""
        self._unexpected_rows(rows)
        self._started(step)
        self._clear()
        self._here.go(Stage.KEYS)

    def take(self, messages: Messages) -> None:
        """See `Machine.take`."""
        due = None if self.stage is None else next(phase for phase, stage in PHASES.items() if stage is self.stage)
        self._check_head(messages, PHASES, due)
        terms = self._plan.terms
        if terms.split and messages.phase is Phase.KEYS and messages.senders.tolist() == [terms.receiver]:
            self._hear_receiver(messages)
            return
        hear = {
            Phase.KEYS: self._hear_keys,
            Phase.SECRET_SHARES: self._hear_shares,
            Phase.MASKED_VECTORS: self._hear_vectors,
            Phase.ROSTERS: self._hear_votes,
            Phase.UNMASKING: self._hear_opened,
        }[messages.phase](messages)

        def one(row: int) -> None:
            client = terms.place_of(int(messages.senders[row]))
            self._here.check(client)
            hear(row, client)
            self._here.note(client)

        each_row(self, messages, one)

    def turn(self) -> Iterable[Messages]:
        """See `Machine.turn`.

        Raises:
            TooFewClientsError: fewer than the threshold are left; names the stage and both numbers.
            ProtocolError: answers contradict each other beyond repair, or no receiver has a key.
        """
        stage = self.stage
        if stage is None or not self._here.ready():
            return ()
        self._here.require(int(self._here.answered.sum()))
        go_on: dict[Stage, Callable[[Circles], Iterable[Messages]]] = {
            Stage.KEYS: self._tell_keys,
            Stage.SHARES: self._tell_shares,
            Stage.VECTORS: self._tell_roster,
            Stage.AGREEMENT: self._tell_votes,
            Stage.OPENING: self._unmask,
        }
        return go_on[stage](self._plan.circles(self.step))

    # ------------------------------------------------------------------------------------------------------------ KEYS
    def _hear_keys(self, messages: Messages) -> Callable[[int, int], None]:
        """Keys that work, and that nobody else has published."""
        c = self._crypto
        sealing, mask = (bytes_of(messages, name, c.public_bytes) for name in ("sealing", "mask"))
        signature = bytes_of(messages, "signature", c.signature_bytes)

        def hear(row: int, client: int) -> None:
            keys = sealing[row].tobytes(), mask[row].tobytes()
            if not all(map(c.usable, keys)):
                raise ProtocolError(f"keys must not be points of low order; found one from client {client}")
            here = self._published
            before = np.concatenate([self._sealing[here], self._mask[here]])
            if keys[0] == keys[1] or any((before == row_of).all(axis=1).any() for row_of in (sealing[row], mask[row])):
                raise ProtocolError(f"keys must all differ; found one from client {client} that was published before")
            self._sealing[client], self._mask[client], self._signature[client] = sealing[row], mask[row], signature[row]
            here[client] = True

        return hear

    def _hear_receiver(self, messages: Messages) -> None:
        """The key of a receiver that is somebody else."""
        c = self._crypto
        key = bytes_of(messages, "sealing", c.public_bytes)
        signature = bytes_of(messages, "signature", c.signature_bytes)
        if self._receiver[-1]:
            raise ProtocolError("the receiver must publish one key; found a second one")
        if not c.usable(key[0].tobytes()):
            raise ProtocolError("keys must not be points of low order; found one from the receiver")
        self._receiver[:] = np.concatenate([key[0], signature[0], np.ones(1, dtype=np.uint8)])
        self._here.note_other()

    def _tell_keys(self, circles: Circles) -> Iterable[Messages]:
        """Everybody in whose circle enough have published keys hears them; a receiver hears everybody's."""
        terms, c = self._plan.terms, self._crypto
        if terms.split and not self._receiver[-1]:
            raise ProtocolError(f"public keys must pass between party {terms.receiver} and the server; one was lost")
        listed = self._here.answered[circles.all]
        asked = self._here.answered & (listed.sum(axis=1) >= self._plan.needed)
        self._here.require(int(asked.sum()), f"have {self._plan.needed} clients with keys in their circles")
        who, there = circles.all[asked], listed[asked]
        fields: dict[str, Array] = {"listed": there}
        for name, keys in (("sealing", self._sealing), ("mask", self._mask), ("signature", self._signature)):
            fields[name] = keys[who] * there[..., None]
        out = []
        if terms.split:
            by_receiver = np.broadcast_to(self._receiver[:-1], (len(who), len(self._receiver) - 1))
            fields["receiver"] = by_receiver[:, : c.public_bytes]
            fields["receiver signature"] = by_receiver[:, c.public_bytes :]
            out.append(self._to_receiver(Phase.KEYS, self._all_keys(asked)))
        self._here.go(Stage.SHARES, asked)
        return [self._to_clients(Phase.KEYS, asked, fields), *out]

    def _all_keys(self, asked: Flags) -> dict[str, Array]:
        return {
            "listed": asked[None],
            "sealing": (self._sealing * asked[:, None])[None],
            "mask": (self._mask * asked[:, None])[None],
            "signature": (self._signature * asked[:, None])[None],
        }

    # ---------------------------------------------------------------------------------------------------------- SHARES
    def _hear_shares(self, messages: Messages) -> Callable[[int, int], None]:
        """A sealed box for each neighbour that a client was told of."""
        given = flags_of(messages, "given", self._plan.degree)
        boxes = bytes_of(messages, "boxes", *self._boxes.shape[1:])
        circles = self._plan.circles(self.step)

        def hear(row: int, client: int) -> None:
            if not np.array_equal(given[row], self._published[circles.near[client]]):
                raise ProtocolError(f"boxes must be for those whose keys client {client} was told; they are not")
            self._given[client], self._boxes[client] = given[row], boxes[row]

        return hear

    def _tell_shares(self, circles: Circles) -> Iterable[Messages]:
        """Everybody in whose circle enough have shared hears who did, and what they sealed for it."""
        near, shared = circles.near, self._here.answered
        told = shared[near] & self._given[near, circles.back] & shared[:, None]
        asked = shared & (told.sum(axis=1) + 1 >= self._plan.needed)
        self._here.require(int(asked.sum()), f"have {self._plan.needed} clients that shared in their circles")
        self._told = told & asked[:, None]
        boxes = self._boxes[near[asked], circles.back[asked]] * told[asked][..., None]
        self._boxes[:] = 0
        self._here.go(Stage.VECTORS, asked)
        return [self._to_clients(Phase.SECRET_SHARES, asked, {"told": told[asked], "boxes": boxes})]

    # --------------------------------------------------------------------------------------------------------- VECTORS
    def _hear_vectors(self, messages: Messages) -> Callable[[int, int], None]:
        """A masked vector, added up at once."""
        field = self._plan.field
        vectors = elements_of(messages, "vector", field.modulus, self._plan.terms.length)

        def hear(row: int, client: int) -> None:  # noqa: ARG001  # whoever it is from
            self._total = field.add(self._total, vectors[..., row, :]).astype(np.int64, copy=False)

        return hear

    def _tell_roster(self, circles: Circles) -> Iterable[Messages]:
        """Those whose vectors are in the sum hear what is asked about everybody.

        Nothing is asked about a client that shared and then dropped out together with all its neighbours: no mask of
        its is left, and nobody who could open one.
        """
        survived, shared = self._here.answered, np.zeros(self._plan.terms.n, dtype=np.bool_)
        shared[circles.near[survived][self._told[survived]]] = True
        self._asked = request_of(shared, survived)
        self._here.go(Stage.AGREEMENT, survived)
        asked = np.broadcast_to(self._asked, (int(survived.sum()), len(survived)))
        return [self._to_clients(Phase.ROSTERS, survived, {"asked": asked})]

    # ------------------------------------------------------------------------------------------- AGREEMENT and OPENING
    def _hear_votes(self, messages: Messages) -> Callable[[int, int], None]:
        """A vote for each neighbour in the sum."""
        votes = bytes_of(messages, "votes", *self._votes.shape[1:])

        def hear(row: int, client: int) -> None:
            self._votes[client] = votes[row]

        return hear

    def _tell_votes(self, circles: Circles) -> Iterable[Messages]:
        """Those that voted hear how their neighbours did."""
        voted, near = self._here.answered, circles.near
        cast = self._told & (self._asked[near] == Ask.SELF_MASK) & voted[near]
        votes = self._votes[near[voted], circles.back[voted]] * cast[voted][..., None]
        self._here.go(Stage.OPENING, voted)
        return [self._to_clients(Phase.UNMASKING, voted, {"cast": cast[voted], "votes": votes})]

    def _hear_opened(self, messages: Messages) -> Callable[[int, int], None]:
        """Shares of what is asked for, as far as a client holds them."""
        k, circles = self._plan.degree, self._plan.circles(self.step)
        given = flags_of(messages, "given", k + 1)
        shares = elements_of(messages, "shares", self._plan.field.modulus, k + 1, self._plan.words)

        def hear(row: int, client: int) -> None:
            told = np.insert(self._told[client], circles.own[client], True)
            strangers = np.flatnonzero(given[row] & ~(told & (self._asked[circles.all[client]] != Ask.NOTHING)))
            if len(strangers):
                owner = int(circles.all[client, strangers[0]])
                raise ProtocolError(f"owners of shares must be clients that this stage allows; found client {owner}")
            self._opened[client], self._shares[..., client, :, :] = given[row], shares[..., row, :, :]

        return hear

    def _unmask(self, circles: Circles) -> Iterable[Messages]:
        """Opens what is asked for and takes the masks away; a receiver that is somebody else hears the sum.

        Raises:
            TooFewClientsError: a secret has fewer shares than it needs.
            ProtocolError: shares contradict each other, or do not open what takes the masks away.
        """
        terms, masks, signs = self._plan.terms, *self._masks_left(circles)
        total = self._crypto.add_masks(self._total.copy(), masks, signs)
        there = self._asked == Ask.SELF_MASK
        if not terms.split:
            self._sums = terms.opened(total, int(there.sum()), self._plan.field.modulus)[..., None, :]
        self._here.go(None)
        step, self._step = self.step, None
        self._shares[:], self._total = 0, np.zeros_like(self._total)
        if not terms.split:
            return ()
        return [self._to_receiver(Phase.MASKED_SUMS, {"roster": there[None]}, {"sum": total[..., None, :]}, step)]

    def _masks_left(self, circles: Circles) -> tuple[list[Mask], list[int]]:
        """The masks that are left in the sum, and the signs that take them away.

        The own masks of who is in it, and what neighbours in it put on for the others.
        """
        terms, asked, length = self._plan.terms, self._asked, self._plan.terms.length
        opened, context = self._secrets(circles), self._plan.context(self.step)
        masks: list[Mask] = []
        signs: list[int] = []
        for u in np.flatnonzero(asked == Ask.SELF_MASK).tolist():
            masks.append(self._crypto.mask_of_seed(opened[u], context, int(terms.clients[u]), length))
            signs.append(-1)
        for u in np.flatnonzero(asked == Ask.MASK_KEY).tolist():
            near = {
                j: (int(terms.clients[v]), self._mask[v].tobytes())
                for j, v in enumerate(circles.near[u].tolist())
                if asked[v] == Ask.SELF_MASK and self._told[v, circles.back[u, j]]
            }
            name, public = int(terms.clients[u]), self._mask[u].tobytes()
            found = self._crypto.masks_of_key(opened[u], public, context, name, near, length)
            for j, mask in found.items():
                masks.append(mask)
                signs.append(1 if u < circles.near[u, j] else -1)
        return masks, signs

    def _secrets(self, circles: Circles) -> dict[int, Array]:
        """What is asked for, opened: elements [*tapes, words] by owner."""
        there = self._opened[circles.all, circles.back_all]
        shares = self._shares[..., circles.all, circles.back_all, :]
        wanted, found = np.flatnonzero(self._asked != Ask.NOTHING), there.sum(axis=1)
        short = wanted[found[wanted] < self._plan.needed]
        if len(short):
            raise TooFewClientsError(
                f"{self._plan.needed} shares are needed to unmask client {short[0]} in stage {Stage.OPENING.name} "
                f"({Stage.OPENING:d}); found {found[short[0]]}"
            )
        return self._plan.sharing.open_each(shares, there, circles.all, wanted.tolist(), self._coins)

    # -------------------------------------------------------------------------------------------- messages and states
    def _to_clients(self, phase: Phase, which: Flags, fields: Mapping[str, Array]) -> Messages:
        to = self._plan.terms.clients[which]
        laid = laid_out(fields, {}, self._tapes, self._plan)
        return Messages(phase, self.step, np.full(len(to), self.parties[0]), to, laid, self._tape_axes)

    def _to_receiver(
        self, phase: Phase, fields: Mapping[str, Array], elements: Mapping[str, Array] | None = None,
        step: Step | None = None,
    ) -> Messages:  # fmt: skip
        to = np.array([self._plan.terms.receiver], dtype=np.int64)
        laid = laid_out(fields, elements or {}, self._tapes, self._plan)
        return Messages(phase, step or self.step, self.parties, to, laid, self._tape_axes)

    def _arrays(self) -> dict[str, Array]:
        return {
            "sealing": self._sealing, "mask": self._mask, "signature": self._signature, "published": self._published,
            "receiver": self._receiver, "given": self._given, "boxes": self._boxes, "told": self._told,
            "total": self._total, "asked": self._asked, "votes": self._votes, "opened": self._opened,
            "shares": self._shares, **self._here.arrays(),
        }  # fmt: skip

    def _take_arrays(self, arrays: Mapping[str, Array]) -> None:
        self._sealing, self._mask, self._signature = arrays["sealing"], arrays["mask"], arrays["signature"]
        self._published, self._receiver = arrays["published"], arrays["receiver"]
        self._given, self._boxes, self._told = arrays["given"], arrays["boxes"], arrays["told"]
        self._total, self._asked, self._votes = arrays["total"], arrays["asked"], arrays["votes"]
        self._opened, self._shares = arrays["opened"], arrays["shares"]
        self._here.restore(arrays)
