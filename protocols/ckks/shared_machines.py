"""Clients of a sum under a CKKS key that they share, and the server, which forwards the sealed key and adds.

KEYS: clients publish keys. SHARES: the first few, one more than may drop out, make a CKKS key pair each and seal it for
the others; the server forwards that of the first that is still there. VECTORS: clients encrypt, and tag what they
encrypt. AGREEMENT: they tell each other whose vectors the server says are in the sum, and which ciphertext it is.
OPENING: all that are left decrypt the sum that enough have voted for, and tell it to the server if its tag is that of
the roster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import ClassVar

import numpy as np

from fgl_secure.crypto.ckks import PREFIX, PublicKey, ReceiverKey, RunningSums
from fgl_secure.crypto.cryptography import Context
from fgl_secure.crypto.streams import KEY_BYTES
from fgl_secure.errors import MalformedMessageError, ProtocolError
from fgl_secure.protocols.ckks.wire import (
    DIGEST_BYTES,
    FIELD,
    RING,
    TAG,
    TAGS,
    SharedKeyPlan,
    check_ciphertexts,
    check_field,
    ciphertext_fields,
    ciphertexts_of,
    digest_of_sum,
    encrypt,
    pad,
    public_bytes,
    public_key,
    sealed_bytes,
    secret_bytes,
    secret_keys,
    tags_of,
    unpad,
    unwrap_key,
    wrap_key,
)
from fgl_secure.protocols.secagg.clients import SEALING, AggregationClients, Answer, Store, Vector
from fgl_secure.protocols.secagg.pairs import PairwiseKeys
from fgl_secure.protocols.secagg.server import AggregationServer
from fgl_secure.protocols.secagg.terms import USUAL, Stage, bytes_of, elements_of, flags_of
from fgl_secure.protocols.stepwise import check_arrays
from fgl_secure.runtime import Messages, Phase, Step
from fgl_secure.typing import Array, Flags, Ids, Integers

NOTHING = -1
"""Stands for a client that has not said what the sum is."""


class SharedKeyServer(AggregationServer):
    """The party that adds. It believes what at least `threshold` clients say alike.

    The integers are exact, so that honest clients cannot differ.

    Args:
        plan: of the sums.
        cryptography: sizes of keys and boxes.
        draws: none is drawn.
    """

    phases: ClassVar = {
        Phase.KEYS: Stage.KEYS,
        Phase.SECRET_SHARES: Stage.SHARES,
        Phase.CIPHERTEXTS: Stage.VECTORS,
        Phase.ROSTERS: Stage.AGREEMENT,
        Phase.UNMASKING: Stage.OPENING,
    }

    saved = ("files", "boxes", "tag", "named_sums", "which")
    _plan: SharedKeyPlan

    def _clear(self) -> None:
        n = self.terms.n
        self._files = np.zeros((n, sealed_bytes(self._plan)), dtype=np.uint8)
        self._boxes = np.zeros((n, n, self._crypto.sealed_bytes(KEY_BYTES)), dtype=np.uint8)
        self._publics: dict[int, PublicKey] = {}
        self._adding: RunningSums | None = None
        self._tag = np.zeros(TAGS, dtype=np.int64)
        self._votes = np.zeros((n, n, self._crypto.vote_bytes), dtype=np.uint8)
        self._named_sums = np.zeros((0, self.terms.length), dtype=np.int64)
        self._which = np.full(n, NOTHING, dtype=np.int64)

    def _stages(self) -> Mapping[Stage, tuple[Callable[[Messages], Store], Callable[[], Iterable[Messages]]]]:
        return {
            Stage.SHARES: (self._receive_offers, self._send_key),
            Stage.VECTORS: (self._receive_vectors, self._send_roster),
            Stage.AGREEMENT: (self._receive_votes, self._send_total),
            Stage.OPENING: (self._receive_openings, self._agree),
        }

    # ---------------------------------------------------------------------------------------------------------- SHARES
    def _receive_offers(self, messages: Messages) -> Store:
        """A candidate's key pair, public and sealed; of the others that they are there."""
        offered = flags_of(messages, "offered", 1)[:, 0]
        if not offered.any():
            if len(messages.fields) > 1:
                raise MalformedMessageError("clients that offer no key must send nothing more; they do")
            return lambda _, client: self._check_offer(client, offered=False)
        keys, files = self._public_keys(messages), bytes_of(messages, "file", self._files.shape[1])
        boxes = bytes_of(messages, "boxes", *self._boxes.shape[1:])

        def store(row: int, client: int) -> None:
            self._check_offer(client, offered=bool(offered[row]))
            if offered[row]:
                self._publics[client] = public_key(keys[row], self._plan.parameters)
                self._files[client], self._boxes[client] = files[row], boxes[row]

        return store

    def _check_offer(self, client: int, *, offered: bool) -> None:
        if offered != self._plan.candidates(self._listed)[client]:
            raise ProtocolError(f"client {client} must offer a key if it is a candidate, and none if it is not")

    def _public_keys(self, messages: Messages) -> list[bytes]:
        check_field(messages, "size", np.dtype(np.uint32), (1,))
        return unpad(
            bytes_of(messages, "key", public_bytes(self._plan.parameters)), messages["size"][:, 0], "public keys"
        )

    def _send_key(self) -> Iterable[Messages]:
        """Every party hears the sealed key of the first candidate that is there."""
        answered, maker = self._tracker.answered.copy(), min(self._publics)
        m, public = int(answered.sum()), self._publics[maker]
        fields = {
            "maker": np.broadcast_to(np.arange(self.terms.n) == maker, (m, self.terms.n)),
            "file": np.broadcast_to(self._files[maker].copy(), (m, self._files.shape[1])),
            "box": self._boxes[maker][answered],
        }
        self._publics, self._adding = {maker: public}, RunningSums(public, self._plan.count)
        self._files[:], self._boxes[:] = 0, 0
        self._tracker.go(Stage.VECTORS, answered)
        return [self._to_clients(Phase.SECRET_SHARES, answered, fields)]

    # ----------------------------------------------------------------------------------- VECTORS, AGREEMENT and OPENING
    def _receive_vectors(self, messages: Messages) -> Store:
        """A client's ciphertexts and tags, added at once."""
        adding = self._adding
        assert adding is not None, "made as the stage of vectors begins"
        check_ciphertexts(messages, self._plan.count, self._plan.parameters)
        tags = elements_of(messages, TAG, RING, TAGS)

        def store(row: int, client: int) -> None:  # noqa: ARG001  # from any client
            adding.add(ciphertexts_of(messages, row))
            self._tag = FIELD.add(self._tag, tags[row])

        return store

    def _send_roster(self) -> Iterable[Messages]:
        """Those whose vectors are in the sum hear whose are, and the digest of what they will open."""
        assert self._adding is not None, "vectors were added"
        self._included, m = self._tracker.answered.copy(), int(self._tracker.answered.sum())
        digest = digest_of_sum(self._plan.context(self.now), self._adding.to_bytes(), self._tag)
        self._tracker.go(Stage.AGREEMENT, self._included)
        fields = {"roster": self._included, "digest": np.frombuffer(digest, dtype=np.uint8)}
        copies = {name: np.broadcast_to(value, (m, len(value))) for name, value in fields.items()}
        return [self._to_clients(Phase.ROSTERS, self._included, copies)]

    def _send_total(self) -> Iterable[Messages]:
        """Those that voted hear how the others did, and the sum, encrypted."""
        assert self._adding is not None, "vectors were added"
        voted = self._tracker.answered.copy()
        voters, m = np.flatnonzero(voted), int(voted.sum())
        one = ciphertext_fields([self._adding.to_bytes()], 1, self._plan.count, self._plan.parameters)
        one[TAG] = RING.write(self._tag[None])
        fields = {name: np.broadcast_to(value, (m, *value.shape[1:])) for name, value in one.items()}
        fields["cast"] = voted & (np.arange(self.terms.n) != voters[:, None])
        fields["votes"] = self._votes[:, voters].swapaxes(0, 1) * fields["cast"][..., None]
        self._adding, self._publics = None, {}
        self._tracker.go(Stage.OPENING, voted)
        return [self._to_clients(Phase.UNMASKING, voted, fields)]

    def _receive_openings(self, messages: Messages) -> Store:
        """What a client says that the sum is."""
        check_field(messages, "sum", np.dtype(np.int64), (self.terms.length,))
        sums, most = messages["sum"], self._plan.largest

        def store(row: int, client: int) -> None:
            if int(sums[row].max()) > most or int(sums[row].min()) < -most:
                raise MalformedMessageError(
                    f"opened sum must have magnitude up to {most:,}; at least one entry is beyond"
                )
            same = np.flatnonzero((self._named_sums == sums[row]).all(axis=1))
            if not len(same):
                self._named_sums = np.concatenate([self._named_sums, sums[row : row + 1]])
            self._which[client] = same[0] if len(same) else len(self._named_sums) - 1

        return store

    def _agree(self) -> Iterable[Messages]:
        """The sum that at least `threshold` clients opened alike; no two can, for that is more than half of them.

        Raises:
            ProtocolError: there is none.
        """
        named = self._which[self._which != NOTHING]
        counts, least = np.bincount(named), self.terms.threshold
        if int(counts.max()) < least:
            raise ProtocolError(
                f"at least threshold = {least} clients must open the same sum; found {counts.max()} of {len(named)} "
                "that agree"
            )
        best = int(counts.argmax())
        for client in np.flatnonzero((self._which != NOTHING) & (self._which != best)).tolist():
            self.remark(self.now, int(self.terms.clients[client]), "it opened another sum than the others: left out")
        self._sums = self._named_sums[best : best + 1].copy()
        self._tracker.go(None)
        self._step, self._named_sums = None, self._named_sums[:0]
        return ()

    # ---------------------------------------------------------------------------------------------------------- states
    def _arrays(self) -> dict[str, Array]:
        publics, sizes = pad([key.to_bytes() for key in self._publics.values()], public_bytes(self._plan.parameters))
        totals = [] if self._adding is None else self._adding.to_bytes()
        laid = ciphertext_fields([totals] if totals else [], int(bool(totals)), self._plan.count, self._plan.parameters)
        return {
            **super()._arrays(),
            "makers": np.array(list(self._publics), dtype=np.int64),
            "publics": publics,
            "sizes": sizes,
            "adding": np.array([self._adding is not None]),
            **{f"total {name}": value for name, value in laid.items()},
        }

    def _take_arrays(self, arrays: dict[str, Array]) -> None:
        check_arrays(arrays, self._arrays())
        result = unpad(arrays["publics"], arrays["sizes"], "public keys")
        publics = {
            u: public_key(data, self._plan.parameters)
            for u, data in zip(arrays["makers"].tolist(), result, strict=True)
        }
        rows, sizes = arrays["total ciphertexts"], arrays["total sizes"]
        totals = unpad(rows[0], sizes[0], "ciphertexts") if len(rows) else []
        adding = None
        if arrays["adding"][0]:
            (public,) = publics.values()
            adding = RunningSums.restore(public, self._plan.count, totals)
        super()._take_arrays(arrays)
        self._publics, self._adding = publics, adding


GROUP = 1
"""Secret of a client beside its private key: what it seals its key file under, should it be a candidate."""


class SharedKeyClients(AggregationClients):
    """Some clients.

    Args:
        parties: int64 [h], ascending identifiers of those hosted.
        plan: of the sums.
        cryptography: keys and seals, over bytes.
        draws: coins of those hosted; keys and ciphertexts take SEAL's randomness.
        names: their identities; None for none.
    """

    phases: ClassVar = {
        Phase.KEYS: Stage.SHARES,
        Phase.SECRET_SHARES: Stage.VECTORS,
        Phase.ROSTERS: Stage.AGREEMENT,
        Phase.UNMASKING: Stage.OPENING,
    }
    stages = USUAL
    secrets: ClassVar = 2

    saved = ("maker", "group", "roster", "sum_digest")
    _plan: SharedKeyPlan

    def _clear(self) -> None:
        h, n = len(self.parties), self.terms.n
        self._pairs = PairwiseKeys(self._crypto, h, n)
        self._maker = np.zeros(h, dtype=np.int64)
        self._group = np.zeros((h, KEY_BYTES), dtype=np.uint8)
        self._roster = np.zeros((h, n), dtype=np.bool_)
        self._sum_digest = np.zeros((h, DIGEST_BYTES), dtype=np.uint8)
        self._keys: dict[int, ReceiverKey] = {}
        self._sums_of: dict[int, Integers] = {}

    def _stages(self) -> Mapping[Stage, tuple[Callable[[Messages], Store], Answer]]:
        return {
            Stage.SHARES: (self._receive_keys, self._offer),
            Stage.VECTORS: (self._receive_offer, self._encrypt),
            Stage.AGREEMENT: (self._receive_roster, self._agree),
            Stage.OPENING: (self._receive_total, self._open_up),
        }

    def _key_owners(self, index: int) -> Flags:
        """Bool [n], all clients with keys: a client itself, and those that it has pairs with."""
        return np.asarray(self._pairs.has[index] | (np.arange(self.terms.n) == self._places[index]))

    # ---------------------------------------------------------------------------------------------------------- SHARES
    def _receive_keys(self, messages: Messages) -> Store:
        """Every party's keys: checked, and agreed on."""
        n, context = self.terms.n, self._context
        listed_keys = self._listed_keys(messages, n)

        def store(row: int, index: int) -> None:
            public, me = listed_keys(row, index, np.arange(n)), int(self.parties[index])
            others = {v: (int(self.terms.clients[v]), key) for v, (key,) in public.items() if v != self._places[index]}
            self._pairs.agree(index, self._secrets[index, SEALING].tobytes(), context, me, others)

        return store

    def _offer(self, indices: Ids) -> Iterable[Messages]:
        """A key pair of each candidate, sealed for the others; the rest say that they are there."""
        can = np.array(
            [self._plan.candidates(self._key_owners(index))[self._places[index]] for index in indices.tolist()]
        )
        out = []
        if (~can).any():
            none = {"offered": np.zeros((int((~can).sum()), 1), dtype=np.bool_)}
            out.append(self._to_server(Phase.SECRET_SHARES, indices[~can], none))
        if can.any():
            out.append(self._to_server(Phase.SECRET_SHARES, indices[can], self._offers(indices[can])))
        self._forget(indices, SEALING)
        return out

    def _offers(self, indices: Ids) -> dict[str, Array]:
        plan, context = self._plan, self._plan.context(self.now)
        keys, files = [], []
        boxes = np.zeros((len(indices), self.terms.n, self._crypto.sealed_bytes(KEY_BYTES)), dtype=np.uint8)
        for row, index in enumerate(indices.tolist()):
            me, pair = int(self.parties[index]), ReceiverKey.generate(plan.parameters)
            keys.append(pair.public_context())
            files.append(self._wrap_key_file(me, self._secrets[index, GROUP].tobytes(), pair, context))
            for v in np.flatnonzero(self._pairs.has[index]).tolist():
                boxes[row, v] = np.frombuffer(self._seal_group_key(index, v, context), dtype=np.uint8)
        rows, sizes = pad(keys, public_bytes(plan.parameters))
        return {
            "offered": np.ones((len(indices), 1), dtype=np.bool_),
            "key": rows,
            "size": sizes[:, None],
            "file": np.frombuffer(b"".join(files), dtype=np.uint8).reshape(len(indices), -1),
            "boxes": boxes,
        }

    def _wrap_key_file(self, me: int, group: bytes, pair: ReceiverKey, context: Context) -> bytes:
        """A candidate's key file under its group key."""
        return wrap_key(self._plan, context, me, group, pair.secret_file())

    def _seal_group_key(self, index: int, v: int, context: Context) -> bytes:
        """A candidate's group key, sealed for one other client."""
        ends = int(self.parties[index]), int(self.terms.clients[v])
        return self._pairs.seal(index, v, b"", context, ends, self._secrets[index, GROUP])

    # --------------------------------------------------------------------------------------------------------- VECTORS
    def _receive_offer(self, messages: Messages) -> Store:
        """The key of one candidate, which a client opens."""
        plan, n, size = self._plan, self.terms.n, self._crypto.sealed_bytes(KEY_BYTES)
        makers = flags_of(messages, "maker", n)
        files, boxes = bytes_of(messages, "file", sealed_bytes(plan)), bytes_of(messages, "box", size)
        context = plan.context(self.now)

        def store(row: int, index: int) -> None:
            chosen = np.flatnonzero(makers[row])
            if len(chosen) != 1 or not plan.candidates(self._key_owners(index))[chosen[0]]:
                raise ProtocolError(f"a key must have one maker, who is a candidate; found {chosen.tolist()}")
            maker = int(chosen[0])
            group, name = self._group_key(index, maker, boxes[row].tobytes(), context), int(self.terms.clients[maker])
            self._keys[index] = unwrap_key(plan, context, name, group, files[row].tobytes())
            self._maker[index], self._group[index] = name, np.frombuffer(group, dtype=np.uint8)

        return store

    def _group_key(self, index: int, maker: int, box: bytes, context: Context) -> bytes:
        group: bytes = self._secrets[index, GROUP].tobytes()
        if maker == self._places[index]:
            return group
        ends = int(self.terms.clients[maker]), int(self.parties[index])
        keys = self._pairs.unwrap_keys(index, b"", context, ends[1], {maker: (ends[0], box)})
        return bytes(self._pairs.unseal(keys[maker], context, ends, box, KEY_BYTES).astype(np.uint8))

    def _encrypt(self, indices: Ids) -> Iterable[Messages]:
        """Each client's vector, encrypted while it is read."""
        rows = self._rows
        assert rows is not None, "see turn"
        self._used_up()
        todo = [(index, self._vector(rows, index), self._keys[index].public) for index in indices.tolist()]
        self._forget(indices)
        return self._send_vectors(todo, self.now)

    def _send_vectors(self, todo: list[tuple[int, Vector, PublicKey]], step: Step) -> Iterator[Messages]:
        for index, vector_of, key in todo:
            row = vector_of()
            fields = ciphertext_fields([self._encrypt_row(key, row)], 1, self._plan.count, self._plan.parameters)
            tags = RING.write(self._tags(index, [int(self.parties[index])], row, step)[None])
            yield self._to_server(Phase.CIPHERTEXTS, np.array([index]), {**fields, TAG: tags}, None, step)

    def _tags(self, index: int, clients: list[int], vector: Integers, step: Step) -> Integers:
        return tags_of(self._plan.context(step), int(self._maker[index]), self._group[index].tobytes(), clients, vector)

    def _encrypt_row(self, key: PublicKey, row: Integers) -> Iterable[bytes]:
        return encrypt(key, row)

    # ------------------------------------------------------------------------------------------- AGREEMENT and OPENING
    def _receive_roster(self, messages: Messages) -> Store:
        """Whose vectors the server says are in the sum, and the digest of what it will have opened."""
        rosters, least = flags_of(messages, "roster", self.terms.n), self.terms.threshold
        digests = bytes_of(messages, "digest", DIGEST_BYTES)

        def store(row: int, index: int) -> None:
            roster, place = rosters[row], int(self._places[index])
            if not roster[place] or (roster & ~self._key_owners(index)).any():
                raise ProtocolError(f"a roster must name client {place}, and others with keys only; it does not")
            if int(roster.sum()) < least:
                raise ProtocolError(f"a roster must name at least threshold = {least} clients; found {roster.sum()}")
            self._roster[index], self._sum_digest[index] = roster, digests[row]

        return store

    def _vote_digest(self, index: int, context: Context) -> bytes:
        return context.digest(b"vote" + self._roster[index].tobytes() + self._sum_digest[index].tobytes())

    def _voters(self, index: int) -> Flags:
        return np.asarray(self._roster[index] & self._pairs.has[index])

    def _receive_total(self, messages: Messages) -> Store:
        """The encrypted sum that clients voted for, which a client decrypts: one, and no second."""
        n, context = self.terms.n, self._plan.context(self.now)
        check_ciphertexts(messages, self._plan.count, self._plan.parameters)
        tags = elements_of(messages, TAG, RING, TAGS)
        cast, votes = flags_of(messages, "cast", n), bytes_of(messages, "votes", n, self._crypto.vote_bytes)

        def store(row: int, index: int) -> None:
            self._check_votes(index, cast[row], votes[row], context)
            result = ciphertexts_of(messages, row)
            if digest_of_sum(context, result, tags[row]) != self._sum_digest[index].tobytes():
                raise ProtocolError("the opened sum must be the one that clients voted for; it is another")
            self._sums_of[index] = self._decrypt(index, result, tags[row])

        return store

    def _check_votes(self, index: int, cast: Array, votes: Array, context: Context) -> None:
        """More than half of the clients vote for one roster and one sum; each votes once, so that no two are opened."""
        alike, least = 1 + self._alike(index, cast & self._voters(index), votes, context), self.terms.threshold
        if alike < least:
            raise ProtocolError(f"a sum must have {least} votes before it is opened; found {alike} for the same")

    def _decrypt(self, index: int, result: list[bytes], tags: Array) -> Integers:
        """The sum, of the terms that the roster names and of no others."""
        terms = {PREFIX.unpack_from(data)[1] for data in result if len(data) >= PREFIX.size}
        if terms != {int(self._roster[index].sum())}:
            raise ProtocolError(f"a sum must say that it has the terms of its roster; found {sorted(terms)}")
        total = self._keys[index].decrypt(result, self.terms.length)
        self._check_tags(index, total, tags)
        return total

    def _check_tags(self, index: int, total: Integers, tags: Array) -> None:
        clients = self.terms.clients[self._roster[index]].tolist()
        if not np.array_equal(self._tags(index, clients, total, self.now), tags):
            raise ProtocolError("a sum must be that of the clients on its roster; its tag is that of another")

    def _open_up(self, indices: Ids) -> Iterable[Messages]:
        """What each client decrypted; then everything is forgotten."""
        self._pairs.forget(indices)
        self._group[indices] = 0
        for index in indices.tolist():
            self._keys.pop(index)
        opened = [(index, self._sums_of.pop(index)) for index in indices.tolist()]
        return self._send_sums(opened, self.now)

    def _send_sums(self, sums: list[tuple[int, Integers]], step: Step) -> Iterator[Messages]:
        for index, total in sums:
            yield self._to_server(Phase.UNMASKING, np.array([index]), {"sum": total[None]}, None, step)

    # ---------------------------------------------------------------------------------------------------------- states
    def _arrays(self) -> dict[str, Array]:
        rows, sizes = pad([key.secret_file() for key in self._keys.values()], secret_bytes(self._plan.parameters))
        sums = list(self._sums_of.values())
        return {
            **super()._arrays(),
            "holders": np.array(list(self._keys), dtype=np.int64),
            "files": rows,
            "sizes": sizes,
            "openers": np.array(list(self._sums_of), dtype=np.int64),
            "opened": np.array(sums, dtype=np.int64).reshape(len(sums), self.terms.length),
        }

    def _take_arrays(self, arrays: dict[str, Array]) -> None:
        check_arrays(arrays, self._arrays())
        keys = secret_keys(arrays["files"], arrays["sizes"])
        super()._take_arrays(arrays)
        self._keys = dict(zip(arrays["holders"].tolist(), keys, strict=True))
        self._sums_of = dict(zip(arrays["openers"].tolist(), arrays["opened"], strict=True))
