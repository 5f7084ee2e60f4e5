"""The server of one sum, as far as it is alike under all schemes: whose answers are in, and every party's keys.

Where another party is entitled to the sum, it agrees on a mask with every client, and takes them from the sum.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fgl_secure.coins import Coins
from fgl_secure.crypto.cryptography import Cryptography, KeyPurpose, Mask
from fgl_secure.crypto.keys import PUBLIC_KEY_BYTES
from fgl_secure.crypto.streams import KEY_BYTES
from fgl_secure.errors import ProtocolError, TooFewClientsError
from fgl_secure.protocols.identity import Names
from fgl_secure.protocols.secagg.terms import (
    SUM_FOR_RECEIVER,
    AggregationMachine,
    AggregationTerms,
    Stage,
    SumPlan,
    bytes_of,
    each_row,
    elements_of,
    flags_of,
    laid_out,
)
from fgl_secure.runtime import Draws, MessageKind, Messages, Phase, Step
from fgl_secure.typing import Array, Bytes, Flags, Ids, Integers

PHASES: Mapping[MessageKind, None] = {Phase.KEYS: None, Phase.MASKED_SUMS: None}


class SumReceiver(AggregationMachine):
    """The party that is entitled to the sum, where another one adds up.

    Args:
        plan: of the sums.
        cryptography: keys and masks.
        draws: its coins.
        names: its identity, as that of place n, and those of the clients; None for none.
        keys: fields of what clients publish; the first is the key that the receiver's mask is agreed under.
    """

    saved: ClassVar[tuple[str, ...]] = ("secret", "keys", "has", "roster", "speaks")

    def __init__(
        self,
        plan: SumPlan,
        cryptography: Cryptography,
        draws: Draws,
        names: Names | None = None,
        keys: Sequence[str] = ("sealing",),
    ) -> None:
        parties = np.array([plan.terms.receiver], dtype=np.int64)
        super().__init__(parties, plan.terms, plan.digest, len(draws.batch_shape))
        self._plan, self._crypto, self._names, self._tapes = plan, cryptography, names, draws.batch_shape
        self._key_fields = tuple(keys)
        self._clear()

    def _clear(self) -> None:
        n = self._plan.terms.n
        self._secret = np.zeros((1, 1, KEY_BYTES), dtype=np.uint8)
        self._keys = np.zeros((n, self._crypto.public_bytes), dtype=np.uint8)
        self._has, self._roster = np.zeros((2, n), dtype=np.bool_)
        self._speaks = np.zeros(1, dtype=np.bool_)

    @property
    def contributors(self) -> Ids | None:
        """See `SumMachine.included`."""
        return self._plan.terms.clients[self._roster] if self._roster.any() else None

    def begin(self, step: Step, rows: Array | None = None) -> None:
        """See `SumMachine.begin`."""
        self._unexpected_rows(rows)
        self._start_step(step)
        self._clear()
        self._secret, self._speaks[:] = self._crypto.fresh(self.parties, 1, step).copy(), True

    def step(self) -> Iterable[Messages]:
        """See `Machine.turn`: the public key, once."""
        if not self._speaks[0]:
            return ()
        self._speaks[:] = False
        public = self._crypto.public(self._secret.tobytes())
        signature = np.zeros((1, self._crypto.signature_bytes), dtype=np.uint8)
        if self._names is not None and self._plan.terms.n in self._names.own:
            statement = self._plan.statement(self.now, self._plan.terms.n, public)
            signature[0] = np.frombuffer(self._names.own[self._plan.terms.n].sign(statement), dtype=np.uint8)
        fields = {"sealing": np.frombuffer(public, dtype=np.uint8)[None], "signature": signature}
        to = np.array([self._plan.terms.server], dtype=np.int64)
        laid = laid_out(fields, {}, self._tapes, self._crypto.ring)
        return [Messages(Phase.KEYS, self.now, self.parties, to, laid, self._tape_axes)]

    def receive(self, messages: Messages) -> None:
        """See `Machine.receive`."""
        due = Phase.MASKED_SUMS if self._has.any() else Phase.KEYS
        self._check_head(messages, PHASES, due)
        self._check_from(messages, self._plan.terms.server)
        if len(messages) != 1:
            raise ProtocolError(f"the receiver must get one batch of messages; found {len(messages)} messages")
        if due is Phase.KEYS:
            self._receive_keys(messages)
        else:
            # The sum under masks, and whose are in it.
            terms, ring = self._plan.terms, self._crypto.ring
            roster = flags_of(messages, "roster", terms.n)[0]
            masked = elements_of(messages, "sum", ring, terms.length)[..., 0, :]
            if int(roster.sum()) < terms.threshold:
                raise ProtocolError(
                    f"a roster must name at least threshold = {terms.threshold} senders; party {terms.receiver} found "
                    f"{int(roster.sum())}"
                )
            strangers = np.flatnonzero(roster & ~self._has)
            if len(strangers):
                raise ProtocolError(f"a roster must name clients with keys only; found client {strangers[0]}")
            masks = self._masks(messages, np.flatnonzero(roster).tolist())
            total = self._crypto.add_masks(masked.copy(), masks, [-1] * len(masks))
            self._sums = terms.decode_total(total, len(masks), ring.modulus)[..., None, :]
            self._roster, self._step = roster.copy(), None
            self._keys, self._secret = np.zeros_like(self._keys), np.zeros_like(self._secret)

    def _receive_keys(self, messages: Messages) -> None:
        """Every party's keys, with which it agrees on masks when it hears whose are in the sum."""
        terms, c = self._plan.terms, self._crypto
        listed = flags_of(messages, "listed", terms.n)[0]
        keys = [bytes_of(messages, name, terms.n, c.public_bytes)[0] for name in self._key_fields]
        signatures = bytes_of(messages, "signature", terms.n, c.signature_bytes)[0]
        if int(listed.sum()) < terms.threshold:
            raise ProtocolError(f"keys must be those of at least {terms.threshold} clients; found {int(listed.sum())}")
        listed_clients = np.flatnonzero(listed).tolist()
        if self._names is not None:
            for u in listed_clients:
                statement = self._plan.statement(self.now, u, *(key[u].tobytes() for key in keys))
                self._names.known.check(u, statement, signatures[u].tobytes())
        for u in listed_clients:
            if not c.usable(keys[0][u].tobytes()):
                raise ProtocolError(f"the key of client {u} must not be a public key of low order, or no key at all")
        self._keys, self._has = keys[0] * listed[:, None], listed.copy()

    def _masks(self, messages: Messages, members: list[int]) -> list[Mask]:
        """The masks that it shares with some clients, for which they have wrapped something where keys are hybrid."""
        terms, c = self._plan.terms, self._crypto
        names, received = {u: int(terms.clients[u]) for u in members}, {}
        if c.wrapped_bytes:
            wrapped = bytes_of(messages, "wrapped", terms.n, c.wrapped_bytes)[0]
            received = {names[u]: wrapped[u].tobytes() for u in members}
        public = {names[u]: self._keys[u].tobytes() for u in members}
        context, secret = self._plan.context(self.now), self._secret.tobytes()
        agreed = c.agree(secret, context, KeyPurpose.RECEIVER_MASK, terms.receiver, public, terms.length, received)
        return [agreed[names[u]] for u in members]


_OVER = -1


class ResponseTracker:
    """Who is there.

    A server speaks when answers have come since it spoke last. If none have, it is silent for one turn, in which
    clients make them; where none have come then, none will.

    Args:
        terms: of the sum.

    Attributes:
        stage: whose answers are awaited; None when there is none, or no more.
        asked: bool [n], who is asked.
        answered: bool [n], who has answered.
    """

    def __init__(self, terms: AggregationTerms) -> None:
        self._terms = terms
        self.stage: Stage | None = None
        self._got_reply, self._timed_out = False, False
        self.asked: Flags = np.zeros(terms.n, dtype=np.bool_)
        self.answered: Flags = np.zeros(terms.n, dtype=np.bool_)

    def go(self, stage: Stage | None, expected: Flags | None = None) -> None:
        """Goes to a stage.

        Args:
            stage: None when the sum is done.
            expected: bool [n], who is asked; every party unless given.
        """
        self.stage = stage
        self._got_reply = self._timed_out = False
        self.asked = np.ones(self._terms.n, dtype=np.bool_) if expected is None else expected.copy()
        self.answered = np.zeros(self._terms.n, dtype=np.bool_)

    def check(self, client: int) -> None:
        """Raises unless a client is asked in this stage and has not answered."""
        assert self.stage is not None
        if self.answered[client]:
            raise ProtocolError(f"client {client} must answer once in stage {self.stage.name}; found a second answer")
        if not self.asked[client]:
            raise ProtocolError(f"client must be one that stage {self.stage.name} asks; found {client}")

    def note(self, client: int) -> None:
        """A client's answer is good."""
        self.answered[client] = self._got_reply = True

    def note_other(self) -> None:
        """Something has come from a party who is no client."""
        self._got_reply = True

    def ready(self) -> bool:
        """Whether all answers are there that will come; a machine asks this once a turn."""
        if self.stage is None:
            return False
        if self._got_reply or self._timed_out:
            return True
        self._timed_out = True
        return False

    def require(self, count: int, verb: str = "answer") -> None:
        """Raises `TooFewClientsError` where fewer clients than the threshold do what they must."""
        terms, stage = self._terms, self.stage
        assert stage is not None
        if count < terms.threshold:
            raise TooFewClientsError(
                f"at least threshold = {terms.threshold} of {terms.n} clients must {verb} in stage {stage.name} "
                f"({stage:d}); found {count}"
            )

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All of it, for a state."""
        stage = _OVER if self.stage is None else self.stage
        marks = np.array([stage, self._got_reply, self._timed_out], dtype=np.int64)
        return {"attendance": marks, "asked clients": self.asked, "answered": self.answered}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Goes on from arrays."""
        stage, received, waited = arrays["attendance"].tolist()
        self.stage = None if stage == _OVER else Stage(stage)
        self._got_reply, self._timed_out = bool(received), bool(waited)
        self.asked, self.answered = arrays["asked clients"], arrays["answered"]


Store = Callable[[int, int], None]
"""Hears a message at a place of a batch, from a client, or raises."""


class AggregationServer(AggregationMachine):
    """The party that adds up.

    It says something once answers have come, and goes on with those that answered: a party that has not has dropped
    out. Where it raises because too few are left, it is as it was, and late answers may still come.

    Args:
        plan: of the sums.
        cryptography: sizes of keys and votes, and masks.
        draws: coins, for locating wrong answers; they never change a sum.
    """

    phases: ClassVar[Mapping[MessageKind, Stage]]
    """The stage that answers are of, by what they carry."""

    keys: ClassVar[tuple[str, ...]] = ("sealing",)
    """Fields of the keys that clients publish."""
    saved: ClassVar[tuple[str, ...]] = ("keys", "signature", "receiver", "for_receiver", "listed", "included", "votes")
    _votes: Bytes

    def __init__(self, plan: SumPlan, cryptography: Cryptography, draws: Draws) -> None:
        super().__init__(np.array([plan.terms.server], dtype=np.int64), plan.terms, plan.digest, len(draws.batch_shape))
        self._plan = plan
        self._crypto, self._draws, self._tapes = cryptography, draws, draws.batch_shape
        self._coins: Coins | None = None if draws.batch_shape else draws.coins
        self._tracker = ResponseTracker(plan.terms)
        self._clear_common()
        self._clear()

    @property
    def over(self) -> bool:
        """See `SumMachine.over`."""
        return self.stage is None

    @property
    def stage(self) -> Stage | None:
        """The stage that answers are awaited for; None when the sum is done."""
        return self._tracker.stage

    @property
    def contributors(self) -> Ids | None:
        """See `SumMachine.included`."""
        return self.terms.clients[self._included] if self._included.any() else None

    @abstractmethod
    def _clear(self) -> None:
        """Forgets everything but the step."""

    @abstractmethod
    def _stages(self) -> Mapping[Stage, tuple[Callable[[Messages], Store], Callable[[], Iterable[Messages]]]]:
        """How answers of each stage but the first are heard, their fields checked, and what the server says after it.

        It goes to the next stage by that.
        """

    def begin(self, step: Step, rows: Array | None = None) -> None:
        """See `SumMachine.begin`."""
        self._unexpected_rows(rows)
        self._start_step(step)
        self._clear_common()
        self._clear()
        self._tracker.go(Stage.KEYS)

    def receive(self, messages: Messages) -> None:
        """See `Machine.receive`."""
        due = None if self.stage is None else next(phase for phase, stage in self.phases.items() if stage is self.stage)
        self._check_head(messages, self.phases, due)
        stage = self.phases[messages.phase]
        if self.terms.split and stage is Stage.KEYS and messages.senders.tolist() == [self.terms.receiver]:
            # The key of a receiver that is another party.
            c = self._crypto
            key = bytes_of(messages, "sealing", c.public_bytes)
            signature = bytes_of(messages, "signature", c.signature_bytes)
            if self._receiver[-1]:
                raise ProtocolError("the receiver must publish one key; found a second one")
            if not c.usable(key[0].tobytes()):
                raise ProtocolError("keys must not be points of low order; found one from the receiver")
            self._receiver[:] = np.concatenate([key[0], signature[0], np.ones(1, dtype=np.uint8)])
            self._tracker.note_other()
            return
        store = self._receive_keys(messages) if stage is Stage.KEYS else self._stages()[stage][0](messages)

        def one(row: int) -> None:
            client = self.terms.place_of(int(messages.senders[row]))
            self._tracker.check(client)
            store(row, client)
            self._tracker.note(client)

        each_row(self, messages, one)

    def step(self) -> Iterable[Messages]:
        """See `Machine.turn`.

        Raises:
            TooFewClientsError: fewer than the threshold are left; names the stage and both numbers.
            ProtocolError: answers contradict each other beyond repair, or no receiver has a key.
        """
        stage = self.stage
        if stage is None or not self._tracker.ready():
            return ()
        self._tracker.require(int(self._tracker.answered.sum()))
        return self._send_keys() if stage is Stage.KEYS else self._stages()[stage][1]()

    # ------------------------------------------------------------------------------------------------------------ KEYS
    def _receive_keys(self, messages: Messages) -> Store:
        """Keys that work, and that no other party has published."""
        c = self._crypto
        keys = np.stack([bytes_of(messages, name, c.public_bytes) for name in self.keys], axis=1)
        signature = bytes_of(messages, "signature", c.signature_bytes)

        def store(row: int, client: int) -> None:
            published = [key.tobytes() for key in keys[row]]
            if not all(map(c.usable, published)):
                raise ProtocolError(f"keys must not be points of low order; found one from client {client}")
            points = {key[:PUBLIC_KEY_BYTES] for key in published}
            if len(points) < len(published) or points & self._points:
                raise ProtocolError(f"keys must all differ; found one from client {client} that was published before")
            self._points |= points
            self._keys[client], self._signature[client] = keys[row], signature[row]

        return store

    def _check_receiver(self) -> None:
        """Raises ProtocolError where there is a receiver that has published no key."""
        if self.terms.split and not self._receiver[-1]:
            raise ProtocolError(
                f"public keys must pass between party {self.terms.receiver} and the server; one was lost"
            )

    def _send_keys(self) -> Iterable[Messages]:
        """Every party hears every party's keys."""
        self._check_receiver()
        self._listed = listed = self._tracker.answered.copy()
        m, all_keys = int(listed.sum()), self._all_keys(listed)
        fields = {name: np.broadcast_to(value, (m, *value.shape[1:])) for name, value in all_keys.items()}
        return self._make_key_messages(listed, fields)

    def _make_key_messages(self, receivers: Flags, fields: Mapping[str, Array]) -> Iterable[Messages]:
        """Keys for those that the next stage asks, and for a receiver that is another party."""
        out, size = [], self._crypto.public_bytes
        if self.terms.split:
            by_receiver = np.broadcast_to(self._receiver[:-1], (int(receivers.sum()), len(self._receiver) - 1))
            fields = {**fields, "receiver": by_receiver[:, :size], "receiver signature": by_receiver[:, size:]}
            out.append(self._to_receiver(Phase.KEYS, self._all_keys(receivers)))
        self._tracker.go(Stage.SHARES, receivers)
        return [self._to_clients(Phase.KEYS, receivers, fields), *out]

    def _all_keys(self, listed: Flags) -> dict[str, Array]:
        keys = {name: (self._keys[:, index] * listed[:, None])[None] for index, name in enumerate(self.keys)}
        return {"listed": listed[None], **keys, "signature": (self._signature * listed[:, None])[None]}

    def _receive_votes(self, messages: Messages) -> Store:
        """A vote for each of the others in the sum."""
        votes = bytes_of(messages, "votes", *self._votes.shape[1:])

        def store(row: int, client: int) -> None:
            self._votes[client] = votes[row]

        return store

    # --------------------------------------------------------------------------- what is for another one's ears only
    def _read_wrapped(self, messages: Messages) -> Array:
        """What clients wrapped for a receiver, beside their vectors: uint8 [m, bytes]."""
        size = self._for_receiver.shape[1]
        return bytes_of(messages, "wrapped", size) if size else np.zeros((len(messages), 0), dtype=np.uint8)

    def _masked_sum(self, roster: Flags, total: Integers, step: Step) -> Messages:
        """The sum for a receiver, under the masks that it shares with some clients, and what it needs to make them."""
        fields: dict[str, Array] = {"roster": roster[None]}
        if self._for_receiver.shape[1]:
            fields["wrapped"] = (self._for_receiver * roster[:, None])[None]
        messages = self._to_receiver(Phase.MASKED_SUMS, fields, {"sum": total[..., None, :]}, step)
        self._draws.note_secrets(SUM_FOR_RECEIVER, self.parties, np.asarray(messages["sum"]), step)
        return messages

    # -------------------------------------------------------------------------------------------- messages and states
    def _to_clients(
        self, phase: Phase, mask: Flags, fields: Mapping[str, Array], elements: Mapping[str, Array] | None = None,
        step: Step | None = None,
    ) -> Messages:  # fmt: skip
        to = self.terms.clients[mask]
        laid = laid_out(fields, elements or {}, self._tapes, self._crypto.ring)
        return Messages(phase, step or self.now, np.full(len(to), self.parties[0]), to, laid, self._tape_axes)

    def _to_receiver(
        self, phase: Phase, fields: Mapping[str, Array], elements: Mapping[str, Array] | None = None,
        step: Step | None = None,
    ) -> Messages:  # fmt: skip
        to = np.array([self.terms.receiver], dtype=np.int64)
        laid = laid_out(fields, elements or {}, self._tapes, self._crypto.ring)
        return Messages(phase, step or self.now, self.parties, to, laid, self._tape_axes)

    def _clear_common(self) -> None:
        n, c = self.terms.n, self._crypto
        self._keys = np.zeros((n, len(self.keys), c.public_bytes), dtype=np.uint8)
        self._points = set[bytes]()
        self._signature = np.zeros((n, c.signature_bytes), dtype=np.uint8)
        self._receiver = np.zeros(c.public_bytes + c.signature_bytes + 1, dtype=np.uint8)
        self._for_receiver = np.zeros((n, c.wrapped_bytes if self.terms.split else 0), dtype=np.uint8)
        self._listed = np.zeros(n, dtype=np.bool_)
        self._included = np.zeros(n, dtype=np.bool_)

    def _arrays(self) -> dict[str, Array]:
        return {**super()._arrays(), **self._tracker.arrays()}

    def _take_arrays(self, arrays: dict[str, Array]) -> None:
        super()._take_arrays(arrays)
        self._tracker.restore(arrays)
        answered = self._tracker.answered  # keys are compared while they come
        self._points = {key[:PUBLIC_KEY_BYTES].tobytes() for keys in self._keys[answered] for key in keys}
