"""Clients of one sum, as far as they are alike under all schemes: what is due, what is heard, what is answered."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import ClassVar

import numpy as np

from fgl_secure.crypto.cryptography import Context, Cryptography, Elements, KeyPurpose, Mask
from fgl_secure.crypto.keys import PUBLIC_KEY_BYTES
from fgl_secure.crypto.streams import KEY_BYTES, ModularRing
from fgl_secure.errors import InputError, ProtocolError, StaleMessageError
from fgl_secure.protocols.identity import Names
from fgl_secure.protocols.secagg.pairs import PairwiseKeys, check_usable
from fgl_secure.protocols.secagg.terms import (
    AggregationMachine,
    Stage,
    SumPlan,
    as_elements,
    bytes_of,
    each_row,
    flags_of,
    laid_out,
)
from fgl_secure.runtime import Draws, LazyArray, MessageKind, Messages, Phase, Step
from fgl_secure.typing import Array, Bytes, Flags, Ids

Store = Callable[[int, int], None]
"""Hears a message at a place of a batch, for the client at a place among those hosted, or raises."""
Answer = Callable[[Ids], Iterable[Messages]]
"""What clients at some places among those hosted say."""
Vector = Callable[[], Array]
"""Reads what a client adds, int64 [length]; raises where it was not laid out before, and is beyond the bound."""
_Masked = tuple[int, dict[str, Array], Vector, list[Mask], list[int]]
"""The place of a client among those hosted, what goes with its vector, what reads that, its masks and their signs."""

DONE = len(Stage)
"""The stage that is due to a client that has given its last answer."""
SEALING = 0
"""The first secret of a client: the private key of the pair that it publishes."""


class AggregationClients(AggregationMachine):
    """Some clients. Holds secrets, which are forgotten once no later stage needs them.

    All that a client remembers is a row of each array; a stage is heard (`receive`: checked, and kept) and answered
    (`step`) apart.

    Args:
        parties: int64 [h], ascending identifiers of those hosted.
        plan: of the sums.
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
    keys: ClassVar[Mapping[str, int]] = {"sealing": SEALING}
    """Fields of the keys that a client publishes, and which of its secrets each is of."""
    saved: ClassVar[tuple[str, ...]] = ("due", "pending", "secrets", "signature")
    _secrets: Array
    _pairs: PairwiseKeys

    def __init__(
        self, parties: Ids, plan: SumPlan, cryptography: Cryptography, draws: Draws, names: Names | None = None
    ) -> None:
        super().__init__(parties, plan.terms, plan.digest, len(draws.batch_shape))
        self._plan = plan
        self._crypto, self._names, self._tapes = cryptography, names, draws.batch_shape
        self._places = np.array([plan.terms.place_of(party) for party in parties.tolist()], dtype=np.int64)
        self._rows: Array | LazyArray | None = None
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
    def _stages(self) -> Mapping[Stage, tuple[Callable[[Messages], Store], Answer]]:
        """How messages of each stage but the first are heard, their fields checked, and what clients answer."""

    def _statement(self, place: int, *keys: bytes) -> bytes:
        """What a party's identity signs: that these are its keys in the current sum."""
        return self._plan.statement(self.now, place, *keys)

    def _check(self, rows: Array | LazyArray) -> None:
        """Raises unless rows are what hosted clients may add."""
        self.terms.check_rows(rows, len(self.parties), self._crypto.modulus)

    def begin(self, step: Step, rows: Array | LazyArray | None = None) -> None:
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
        self._start_step(step)
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

    def receive(self, messages: Messages) -> None:
        """See `Machine.receive`."""
        self._check_head(messages, self.phases, messages.phase)
        self._check_from(messages, self.terms.server)
        stage = self.phases[messages.phase]
        store = self._stages()[stage][0](messages)
        places = np.searchsorted(self.parties, messages.receivers)

        def one(row: int) -> None:
            index = int(places[row])
            self._check_due(index, stage)
            store(row, index)
            self._pending[index] = True

        each_row(self, messages, one)

    def step(self) -> Iterable[Messages]:
        """See `Machine.turn`. Vectors are made one at a time, while they are read.

        Raises:
            InputError: vectors are asked for and were not provided; turn again when they are.
        """
        due = set(self._due[self._pending].tolist())
        if not due:
            return ()
        if Stage.VECTORS in due and self._rows is None:
            raise InputError("rows must be provided to clients before they are asked for them; they were not")
        answers = {Stage.KEYS: self._publish, **{stage: answer for stage, (_, answer) in self._stages().items()}}
        ready = [(stage, np.flatnonzero(self._pending & (self._due == stage))) for stage in self.stages if stage in due]
        out = [answers[stage](indices) for stage, indices in ready]
        after = dict(zip(self.stages, [*self.stages[1:], DONE], strict=True))
        for stage, indices in ready:
            self._due[indices] = after[stage]
        self._pending[:] = False
        if (self._due > Stage.VECTORS).all():
            self._rows = None
        return chain.from_iterable(out)

    def _check_due(self, index: int, stage: Stage) -> None:
        due = int(self._due[index])
        if due != stage or self._pending[index]:
            expected = "nothing" if due == DONE else f"stage {Stage(due).name}"
            text = "a second request" if due == stage else f"one of stage {stage.name}"
            party = self._places[index]
            raise StaleMessageError(f"client {party} must be asked for what is due, {expected}; found {text}")

    # ------------------------------------------------------------------------------------------------------------ KEYS
    def _sign(self, names: Names) -> None:
        for index, place in enumerate(self._places.tolist()):
            if place in names.own:
                statement = self._statement(place, *self._public_keys(index))
                self._signature[index] = np.frombuffer(names.own[place].sign(statement), dtype=np.uint8)

    def _public_keys(self, index: int) -> tuple[bytes, ...]:
        """A client's public keys."""
        return tuple(self._crypto.public(self._secrets[index, purpose].tobytes()) for purpose in self.keys.values())

    def _publish(self, indices: Ids) -> Iterable[Messages]:
        """Each client's public keys, signed where there are identities, and what a scheme adds."""
        published = zip(*(self._public_keys(index) for index in indices.tolist()), strict=True)
        fields = {name: stack_bytes(list(keys)) for name, keys in zip(self.keys, published, strict=True)}
        fields |= {"signature": self._signature[indices], **self._beside_keys(indices)}
        return [self._to_server(Phase.KEYS, indices, fields)]

    def _beside_keys(self, indices: Ids) -> dict[str, Array]:  # noqa: ARG002  # for schemes that commit to something
        return {}

    def _listed_keys(self, messages: Messages, columns: int) -> Callable[[int, int, Ids], dict[int, tuple[bytes, ...]]]:
        """Reads the keys that some clients have published, by place; raises where no honest server sends them.

        Args:
            messages: with a column for each of the clients that a reader is told of.
            columns: how many.
        """
        listed = flags_of(messages, "listed", columns)
        keys = [bytes_of(messages, name, columns, self._crypto.public_bytes) for name in self.keys]
        signatures = bytes_of(messages, "signature", columns, self._crypto.signature_bytes)

        def read(row: int, index: int, indices: Ids) -> dict[int, tuple[bytes, ...]]:
            indices_of = {int(indices[j]): j for j in np.flatnonzero(listed[row]).tolist()}
            public = {v: tuple(key[row, j].tobytes() for key in keys) for v, j in indices_of.items()}
            self._check_keys(index, public)
            self._check_signatures(index, public, {v: signatures[row, j].tobytes() for v, j in indices_of.items()})
            return public

        return read

    @property
    def _required_votes(self) -> int:
        """Clients, itself included, whom a client must have keys of, and hear alike of what it opens."""
        return self.terms.threshold

    def _check_keys(self, index: int, public: Mapping[int, tuple[bytes, ...]]) -> None:
        place = int(self._places[index])
        if public.get(place) != self._public_keys(index):
            raise ProtocolError(f"own keys must come back as client {place} published them; they do not")
        if len(public) < self._required_votes:
            raise ProtocolError(f"keys must be those of at least {self._required_votes} clients; found {len(public)}")
        everything = [key[:PUBLIC_KEY_BYTES] for keys in public.values() for key in keys]
        if len(set(everything)) < len(everything):
            raise ProtocolError("keys must all differ; found one twice")

    def _check_signatures(
        self, index: int, public: Mapping[int, tuple[bytes, ...]], signatures: Mapping[int, bytes]
    ) -> None:
        if self._names is None:
            return
        for v, keys in public.items():
            if v != self._places[index]:
                self._names.known.check(v, self._statement(v, *keys), signatures[v])

    def _forget(self, indices: Ids, *kinds: int) -> None:
        """Forgets secrets of some clients: those of some kinds, or all."""
        of = np.array(kinds or range(self.secrets), dtype=np.int64)
        self._crypto.forget(self._secrets[indices[:, None], of])
        self._secrets[indices[:, None], of] = 0

    # ------------------------------------------------------------------------------------------- SHARES and AGREEMENT
    @property
    def _context(self) -> Context:
        """What keys of pairs are bound to."""
        return self._plan.context(self.now)

    def _others(self, index: int) -> Ids:  # noqa: ARG002  # alike for all where a client has a pair with each
        """The clients that a client may have keys with, by their places among its pairs."""
        return np.arange(self.terms.n)

    @abstractmethod
    def _voters(self, index: int) -> Flags:
        """Bool [k], the others in the sum: whom a client's votes are for, and whose votes it counts."""

    @abstractmethod
    def _vote_digest(self, index: int, context: Context) -> bytes:
        """The digest of what a client was told of the sum."""

    def _check_known(self, index: int, result: Flags, known: Flags, who: str) -> None:
        """Raises unless all of those that are found are known."""
        strangers = np.flatnonzero(result & ~known)
        if len(strangers):
            raise ProtocolError(
                f"{who} must be clients that this stage allows; found client {self._others(index)[strangers[0]]}"
            )

    def _unseal_boxes(
        self, index: int, boxes: Mapping[int, bytes], count: int, context: Context
    ) -> tuple[dict[int, bytes], dict[int, Elements]]:
        """Keys of those that a client hears, and what opens as sealed for it, by place among its pairs.

        Args:
            index: the place of the client among those hosted.
            boxes: of those that shared, by place.
            count: elements in each.
            context: of the sum.
        """
        result, me, others = {}, int(self.parties[index]), self._others(index)
        given = {j: (int(self.terms.clients[others[j]]), box) for j, box in boxes.items()}
        keys = self._pairs.unwrap_keys(index, self._secrets[index, SEALING].tobytes(), context, me, given)
        for j, (owner, box) in given.items():
            try:
                result[j] = self._pairs.unseal(keys.get(j), context, (owner, me), box, count)
            except ProtocolError as error:
                self.remark(self.now, owner, str(error))
        return keys, result

    def _agree(self, indices: Ids) -> Iterable[Messages]:
        """Each client tells each of the others in the sum what it was told."""
        context, clients, crypto = self._context, self.terms.clients, self._crypto
        votes = np.zeros((len(indices), self._pairs.has.shape[1], crypto.vote_bytes), dtype=np.uint8)
        for row, index in enumerate(indices.tolist()):
            digest, me, others = self._vote_digest(index, context), int(self.parties[index]), self._others(index)
            for j in np.flatnonzero(self._voters(index)).tolist():
                votes[row, j] = self._pairs.vote(index, j, context, (me, int(clients[others[j]])), digest)
        return [self._to_server(Phase.ROSTERS, indices, {"votes": votes})]

    def _receive_votes(self, messages: Messages) -> Store:
        """The others' votes, of which enough must be for what the client was told."""
        k, needed, context = self._pairs.has.shape[1], self._required_votes, self._context
        cast, votes = flags_of(messages, "cast", k), bytes_of(messages, "votes", k, self._crypto.vote_bytes)

        def store(row: int, index: int) -> None:
            self._check_known(index, cast[row], self._voters(index), "voters")
            alike = 1 + self._alike(index, cast[row], votes[row], context)
            if alike < needed:
                raise ProtocolError(
                    f"a roster must have {needed} votes before client {self._places[index]} opens a share; "
                    f"found {alike} for its own"
                )

        return store

    def _alike(self, index: int, cast: Flags, votes: Array, context: Context) -> int:
        """How many others voted for what a client was told; any other vote is noted."""
        digest, me, result, others = self._vote_digest(index, context), int(self.parties[index]), 0, self._others(index)
        for j in np.flatnonzero(cast).tolist():
            voter = int(self.terms.clients[others[j]])
            if self._pairs.is_vote(index, j, context, (voter, me), digest, votes[j].tobytes()):
                result += 1
            else:
                self.remark(self.now, voter, f"its vote for a roster is not what party {me} was told")
        return result

    def _vector(self, rows: Array | LazyArray, index: int) -> Vector:
        """How a client's vector is read when it is handed in; the rows must be those of the current sum."""
        return partial(self._row, rows, int(self._row_of[index]))

    def _row(self, rows: Array | LazyArray, place: int) -> Array:
        if not isinstance(rows, LazyArray):
            return np.asarray(rows[place])
        made = rows.rows(np.array([place]))
        self.terms.check_rows(made, 1, self._crypto.modulus)
        return np.asarray(made[0])

    # -------------------------------------------------------------------------------------------- messages and states
    def _to_server(
        self,
        phase: Phase,
        indices: Ids,
        fields: Mapping[str, Array],
        elements: Mapping[str, Array] | None = None,
        step: Step | None = None,
        ring: ModularRing | None = None,
    ) -> Messages:
        """A message of each of some hosted clients.

        Args:
            phase: what they carry.
            indices: int64 [m], places of the clients among those hosted.
            fields: [m, ...], the same on all tapes.
            elements: [*tapes, m, ...].
            step: of the sum; the current one unless given.
            ring: of these elements; that of masked vectors unless given.
        """
        senders, to = self.parties[indices], np.full(len(indices), self.terms.server, dtype=np.int64)
        laid = laid_out(fields, elements or {}, self._tapes, ring or self._crypto.ring)
        return Messages(phase, step or self.now, senders, to, laid, self._tape_axes)

    def _clear_common(self) -> None:
        h = len(self.parties)
        self._due = np.full(h, DONE, dtype=np.int64)
        self._pending = np.zeros(h, dtype=np.bool_)
        self._secrets = np.zeros((h, self.secrets, KEY_BYTES), dtype=np.uint8)
        self._signature = np.zeros((h, self._crypto.signature_bytes), dtype=np.uint8)

    def _arrays(self) -> dict[str, Array]:
        rows = np.zeros((0, self.terms.length), dtype=np.int64) if self._rows is None else np.asarray(self._rows)
        return {**super()._arrays(), **self._pairs.arrays(), "rows": rows}

    def _take_arrays(self, arrays: dict[str, Array]) -> None:
        super()._take_arrays(arrays)
        self._pairs.restore(arrays)
        self._rows = arrays["rows"] if len(arrays["rows"]) else None


class MaskedClients(AggregationClients):
    """Clients that hand in vectors under masks, one of them shared with a receiver that does not add up."""

    saved: ClassVar[tuple[str, ...]] = ("receiver", "for_receiver")

    def _clear(self) -> None:
        h = len(self.parties)
        self._receiver = np.zeros((h, KEY_BYTES), dtype=np.uint8)
        self._for_receiver = np.zeros((h, self._crypto.wrapped_bytes if self.terms.split else 0), dtype=np.uint8)

    @abstractmethod
    def _masks(self, index: int, context: Context) -> tuple[list[Mask], list[int]]:
        """The masks of a client's vector, and their signs."""

    def _forget_masks(self, indices: Ids) -> None:
        """Forgets what masks were made of, of clients whose vectors have left."""

    def _receivers_key(self, messages: Messages) -> Callable[[int], bytes]:
        """Reads the key of a receiver that is another party; empty where there is none."""
        if not self.terms.split:
            return lambda _row: b""
        c, n = self._crypto, self.terms.n
        keys = bytes_of(messages, "receiver", c.public_bytes)
        signed = bytes_of(messages, "receiver signature", c.signature_bytes)

        def read(row: int) -> bytes:
            key: bytes = keys[row].tobytes()
            if self._names is not None:
                self._names.known.check(n, self._statement(n, key), signed[row].tobytes())
            return key

        return read

    def _agree_with_receiver(self, index: int, public: bytes, context: Context) -> tuple[bytes, bytes]:
        """The key of the receiver's mask, and what the receiver needs to agree: with a vector it is sent."""
        if not public:
            return b"", b""
        to, c = {self.terms.receiver: public}, self._crypto
        secret, me = self._secrets[index, SEALING].tobytes(), int(self.parties[index])
        check_usable(c, to)
        shared = c.agree(secret, context, KeyPurpose.RECEIVER_MASK, me, to, self.terms.length)
        wrapped = c.wrap_keys(secret, context, KeyPurpose.RECEIVER_MASK, me, to)
        return shared[self.terms.receiver], wrapped[self.terms.receiver]

    def _keep_receiver(self, index: int, shared: bytes, wrapped: bytes) -> None:
        if shared:
            self._receiver[index] = np.frombuffer(shared, dtype=np.uint8)
            self._for_receiver[index] = np.frombuffer(wrapped, dtype=np.uint8)

    def _hand_in(self, indices: Ids) -> Iterable[Messages]:
        """Each client's vector, under its masks and the receiver's."""
        context, rows = self._context, self._rows
        assert rows is not None, "see turn"
        self._used_up()
        todo = []
        for index in indices.tolist():
            masks, signs = self._masks(index, context)
            wrapped = {"wrapped": self._for_receiver[[index]]} if self._for_receiver.shape[1] else {}
            todo.append((index, wrapped, self._vector(rows, index), masks, signs))
        self._forget(indices)
        self._forget_masks(indices)
        self._receiver[indices] = 0
        return self._mask_vectors(todo, self.now)

    def _mask_vectors(self, todo: list[_Masked], step: Step) -> Iterator[Messages]:
        modulus = self._crypto.ring.modulus
        for index, fields, vector_of, masks, signs in todo:
            row = vector_of()
            total = self._crypto.add_masks(as_elements(row, modulus), masks, signs)
            total.flags.writeable = False  # it has left, and recordings need no copy
            vector = np.broadcast_to(total, (*self._tapes, len(row)))[..., None, :]
            yield self._to_server(Phase.MASKED_VECTORS, np.array([index]), fields, {"vector": vector}, step)

    def _receivers_mask(self, index: int) -> list[Mask]:
        return [self._receiver[index].tobytes()] if self.terms.split else []


def stack_bytes(rows: list[bytes]) -> Bytes:
    """Bytes of one length, a row each."""
    return np.frombuffer(b"".join(rows), dtype=np.uint8).reshape(len(rows), -1)
