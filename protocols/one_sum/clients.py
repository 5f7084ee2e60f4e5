"""Clients of one sum, as far as they are alike under all schemes: what is due, what is heard, what is answered."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import ClassVar

import numpy as np

from fgl_secure.crypto.cryptography import Context, Cryptography, Purpose
from fgl_secure.crypto.keys import PUBLIC_KEY_BYTES
from fgl_secure.crypto.streams import KEY_BYTES, Ring
from fgl_secure.errors import InputError, ProtocolError, StaleMessageError
from fgl_secure.protocols.identity import Names
from fgl_secure.protocols.one_sum.pairs import check_usable
from fgl_secure.protocols.one_sum.terms import OneSum, OneSumMachine, Stage, bytes_of, each_row, flags_of, laid_out
from fgl_secure.runtime import Draws, Later, MessageKind, Messages, Phase, Step
from fgl_secure.typing import Array, Ids

Hear = Callable[[int, int], None]
"""Hears a message at a place of a batch, for the client at a place among those hosted, or raises."""
Answer = Callable[[Ids], Iterable[Messages]]
"""What clients at some places among those hosted say."""
Vector = Callable[[], Array]
"""Reads what a client adds, int64 [length]; raises where it was not laid out before, and is beyond the bound."""
VectorFrom = tuple[int, dict[str, Array]]
"""The place of a client among those hosted, and what goes with its vector."""

DONE = len(Stage)
"""The stage that is due to a client that has given its last answer."""
SEALING = 0
"""The first secret of a client: the private key of the pair that it publishes."""


class OneSumClients(OneSumMachine):
    """Some clients. Holds secrets, which are forgotten once no later stage needs them.

    All that a client remembers is a row of each array; a stage is heard (`take`: checked, and kept) and answered
    (`turn`) apart.

    Args:
        parties: int64 [h], ascending identifiers of those hosted.
        terms: of the sums.
        owner: see `OneSumMachine`.
        cryptography: keys, masks, seals and votes.
        draws: coins of those hosted.
        names: their identities; None for none.
    """

    phases: ClassVar[Mapping[MessageKind, Stage]]
    """What the server's messages ask for, by what they carry."""
    stages: Sequence[Stage]
    """Those of the sum, in order."""
    secrets: ClassVar[int]
    """How many a client draws for one sum."""
    _secrets: Array

    def __init__(
        self,
        parties: Ids,
        terms: OneSum,
        owner: bytes,
        cryptography: Cryptography,
        draws: Draws,
        names: Names | None = None,
    ) -> None:
        super().__init__(parties, terms, owner, len(draws.batch_shape))
        self._crypto, self._names, self._tapes = cryptography, names, draws.batch_shape
        self._places = np.array([terms.place_of(party) for party in parties.tolist()], dtype=np.int64)
        self._rows: Array | Later | None = None
        self._row_of = np.argsort(np.argsort(self._places))  # rows come in the order of the topology
        self._clear_common()
        self._clear()

    @property
    def due(self) -> Ids:
        """The stage that each hosted client awaits the server's message of, int64 [h]; `DONE` after the last."""
        return self._due.copy()

    @property
    def over(self) -> bool:
        """See `SumMachine.over`."""
        return bool((self._due == DONE).all())

    @abstractmethod
    def _clear(self) -> None:
        """Forgets everything but the step."""

    @abstractmethod
    def _hearer(self, stage: Stage, messages: Messages) -> Hear:
        """How messages of a stage are heard, once their fields are found to be as they must be."""

    @abstractmethod
    def _answers(self) -> Mapping[Stage, Answer]:
        """What clients answer in each stage but the first."""

    @abstractmethod
    def _statement(self, place: int, public: bytes) -> bytes:
        """What a party's identity signs: that this is its key in the sum at hand."""

    def _check(self, rows: Array | Later) -> None:
        """Raises unless rows are what hosted clients may add."""
        self.terms.check_rows(rows, len(self.parties), self._crypto.modulus)

    def begin(self, step: Step, rows: Array | Later | None = None) -> None:
        """See `SumMachine.begin`.

        Args:
            step: of the sum.
            rows: int64 [h, length], which must stay as they are until the sum is done; they may also be given later,
                by `provide`, before the vectors are asked for. Of rows that are not laid out each is read once, when
                its client hands it in, so that no more than one is in memory; one that is beyond the bound is refused
                then.
        """
        if rows is not None:
            self._check(rows)
        self._started(step)
        self._crypto.forget(self._secrets)
        self._clear_common()
        self._clear()
        self._rows = rows
        self._secrets = self._crypto.fresh(self.parties, self.secrets, step).copy()
        self._due[:], self._pending[:] = Stage.KEYS, True
        if self._names is not None:
            self._sign(self._names)

    def provide(self, rows: Array) -> None:
        """Takes what the hosted clients add, where `begin` was not given it.

        Args:
            rows: int64 [h, length], which must stay as they are until the sum is done.

        Raises:
            InputError: another shape or type, an entry beyond the bound (not shown), or rows that are there already.
        """
        if self._rows is not None or (self._due > Stage.VECTORS).any():
            raise InputError("rows must be provided once a sum; found some that were provided before")
        self._check(rows)
        self._rows = rows

    def take(self, messages: Messages) -> None:
        """See `Machine.take`."""
        self._check_head(messages, self.phases, messages.phase)
        self._check_from(messages, self.terms.server)
        stage = self.phases[messages.phase]
        hear = self._hearer(stage, messages)
        places = np.searchsorted(self.parties, messages.receivers)

        def one(row: int) -> None:
            at = int(places[row])
            self._check_due(at, stage)
            hear(row, at)
            self._pending[at] = True

        each_row(self, messages, one)

    def turn(self) -> Iterable[Messages]:
        """See `Machine.turn`. Vectors are made one at a time, while they are read.

        Raises:
            InputError: vectors are asked for and were not provided; turn again when they are.
        """
        due = set(self._due[self._pending].tolist())
        if not due:
            return ()
        if Stage.VECTORS in due and self._rows is None:
            raise InputError("rows must be provided to clients before they are asked for them; they were not")
        answers = {Stage.KEYS: self._publish, **self._answers()}
        ready = [(stage, np.flatnonzero(self._pending & (self._due == stage))) for stage in self.stages if stage in due]
        out = [answers[stage](which) for stage, which in ready]
        after = dict(zip(self.stages, [*self.stages[1:], DONE], strict=True))
        for stage, which in ready:
            self._due[which] = after[stage]
        self._pending[:] = False
        if (self._due > Stage.VECTORS).all():
            self._rows = None
        return chain.from_iterable(out)

    def _check_due(self, at: int, stage: Stage) -> None:
        due = int(self._due[at])
        if due != stage or self._pending[at]:
            what = "nothing" if due == DONE else f"stage {Stage(due).name}"
            said = "a second request" if due == stage else f"one of stage {stage.name}"
            raise StaleMessageError(f"client {self._places[at]} must be asked for what is due, {what}; found {said}")

    # ------------------------------------------------------------------------------------------------------------ KEYS
    def _sign(self, names: Names) -> None:
        for at, place in enumerate(self._places.tolist()):
            if place in names.own:
                said = self._statement(place, self._public(at))
                self._signature[at] = np.frombuffer(names.own[place].sign(said), dtype=np.uint8)

    def _public(self, at: int) -> bytes:
        return self._crypto.public(self._secrets[at, SEALING].tobytes())

    def _publish(self, which: Ids) -> Iterable[Messages]:
        """Each client's public key, signed where there are identities."""
        keys = b"".join(self._public(at) for at in which.tolist())
        fields = {
            "sealing": np.frombuffer(keys, dtype=np.uint8).reshape(len(which), -1),
            "signature": self._signature[which],
        }
        return [self._to_server(Phase.KEYS, which, fields)]

    def _listed_keys(self, messages: Messages) -> Callable[[int, int], dict[int, bytes]]:
        """Reads the keys of all clients that have published one, by place; raises where no honest server sends them."""
        n = self.terms.n
        listed = flags_of(messages, "listed", n)
        keys = bytes_of(messages, "sealing", n, self._crypto.public_bytes)
        signatures = bytes_of(messages, "signature", n, self._crypto.signature_bytes)

        def read(row: int, at: int) -> dict[int, bytes]:
            public = {v: keys[row, v].tobytes() for v in np.flatnonzero(listed[row]).tolist()}
            self._check_keys(at, public)
            if self._names is not None:
                for v, key in public.items():
                    if v != self._places[at]:
                        self._names.known.check(v, self._statement(v, key), signatures[row, v].tobytes())
            return public

        return read

    def _check_keys(self, at: int, public: Mapping[int, bytes]) -> None:
        place, needed = int(self._places[at]), self.terms.threshold
        if public.get(place) != self._public(at):
            raise ProtocolError(f"own key must come back as client {place} published it; it does not")
        if len(public) < needed:
            raise ProtocolError(f"keys must be those of at least {needed} clients; found {len(public)}")
        if len({key[:PUBLIC_KEY_BYTES] for key in public.values()}) < len(public):
            raise ProtocolError("keys must all differ; found one twice")

    def _forget(self, which: Ids, *kinds: int) -> None:
        """Forgets secrets of some clients: those of some kinds, or all."""
        of = np.array(kinds or range(self.secrets), dtype=np.int64)
        self._crypto.forget(self._secrets[which[:, None], of])
        self._secrets[which[:, None], of] = 0

    # ----------------------------------------------------------------------- a receiver that does not add up itself
    def _agree_with_receiver(self, secret: bytes, me: int, public: bytes, context: Context) -> tuple[bytes, bytes]:
        """The key of the receiver's mask, and what the receiver needs to agree: with a vector it is sent."""
        to, c = {self.terms.receiver: public}, self._crypto
        check_usable(c, to)
        shared = c.agree(secret, context, Purpose.RECEIVER_MASK, me, to, self.terms.length)
        wrapped = c.wrapped(secret, context, Purpose.RECEIVER_MASK, me, to)
        return shared[self.terms.receiver], wrapped[self.terms.receiver]

    def _vector(self, rows: Array | Later, at: int) -> Vector:
        """How a client's vector is read when it is handed in; the rows must be those of the sum at hand."""
        return partial(self._row, rows, int(self._row_of[at]))

    def _row(self, rows: Array | Later, place: int) -> Array:
        if not isinstance(rows, Later):
            return np.asarray(rows[place])
        made = rows.rows(np.array([place]))
        self.terms.check_rows(made, 1, self._crypto.modulus)
        return np.asarray(made[0])

    def _vector_from(self, at: int) -> VectorFrom:
        """A client's place, and what goes with its vector."""
        wrapped = self.terms.split and self._crypto.wrapped_bytes
        return at, {"wrapped": self._for_receiver[[at]]} if wrapped else {}

    # -------------------------------------------------------------------------------------------- messages and states
    def _to_server(
        self,
        phase: Phase,
        which: Ids,
        fields: Mapping[str, Array],
        elements: Mapping[str, Array] | None = None,
        step: Step | None = None,
        ring: Ring | None = None,
    ) -> Messages:
        """A message of each of some hosted clients.

        Args:
            phase: what they carry.
            which: int64 [m], places of the clients among those hosted.
            fields: [m, ...], the same on all tapes.
            elements: [*tapes, m, ...].
            step: of the sum; the one at hand unless given.
            ring: of these elements; that of masked vectors unless given.
        """
        senders, to = self.parties[which], np.full(len(which), self.terms.server, dtype=np.int64)
        laid = laid_out(fields, elements or {}, self._tapes, ring or self._crypto.ring)
        return Messages(phase, step or self.now, senders, to, laid, self._tape_axes)

    def _clear_common(self) -> None:
        h = len(self.parties)
        self._due = np.full(h, DONE, dtype=np.int64)
        self._pending = np.zeros(h, dtype=np.bool_)
        self._secrets = np.zeros((h, self.secrets, KEY_BYTES), dtype=np.uint8)
        self._signature = np.zeros((h, self._crypto.signature_bytes), dtype=np.uint8)
        self._for_receiver = np.zeros((h, self._crypto.wrapped_bytes if self.terms.split else 0), dtype=np.uint8)

    def _arrays(self) -> dict[str, Array]:
        rows = np.zeros((0, self.terms.length), dtype=np.int64) if self._rows is None else np.asarray(self._rows)
        return {
            **super()._arrays(),
            "due": self._due,
            "pending": self._pending,
            "secrets": self._secrets,
            "signature": self._signature,
            "for receiver": self._for_receiver,
            "rows": rows,
        }

    def _take_arrays(self, arrays: dict[str, Array]) -> None:
        super()._take_arrays(arrays)
        self._due, self._pending = arrays["due"], arrays["pending"]
        self._secrets, self._signature = arrays["secrets"], arrays["signature"]
        self._for_receiver = arrays["for receiver"]
        self._rows = arrays["rows"] if len(arrays["rows"]) else None
