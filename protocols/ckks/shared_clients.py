"""Clients of a sum under a CKKS key that they share.

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

from fgl_secure.crypto.ckks import PREFIX, PublicKey, ReceiverKey
from fgl_secure.crypto.cryptography import Context
from fgl_secure.crypto.streams import KEY_BYTES
from fgl_secure.errors import ProtocolError
from fgl_secure.protocols.ckks.wire import (
    DIGEST_BYTES,
    RING,
    TAG,
    TAGS,
    SharedKeyPlan,
    check_ciphertexts,
    ciphertext_fields,
    ciphertexts_of,
    digest_of_sum,
    encrypt,
    pad,
    public_bytes,
    sealed_bytes,
    secret_bytes,
    secret_keys,
    tags_of,
    unwrap_key,
    wrap_key,
)
from fgl_secure.protocols.secagg.clients import SEALING, AggregationClients, Answer, Hear, Vector
from fgl_secure.protocols.secagg.pairs import PairwiseKeys
from fgl_secure.protocols.secagg.terms import USUAL, Stage, bytes_of, elements_of, flags_of
from fgl_secure.protocols.stepwise import check_arrays
from fgl_secure.runtime import Messages, Phase, Step
from fgl_secure.typing import Array, Flags, Ids, Integers

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

    kept = ("maker", "group", "roster", "sum_digest")
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

    def _stages(self) -> Mapping[Stage, tuple[Callable[[Messages], Hear], Answer]]:
        return {
            Stage.SHARES: (self._hear_keys, self._offer),
            Stage.VECTORS: (self._hear_offer, self._encrypt),
            Stage.AGREEMENT: (self._hear_roster, self._agree),
            Stage.OPENING: (self._hear_total, self._open_up),
        }

    def _key_owners(self, index: int) -> Flags:
        """Bool [n], all clients with keys: a client itself, and those that it has pairs with."""
        return np.asarray(self._pairs.has[index] | (np.arange(self.terms.n) == self._places[index]))

    # ---------------------------------------------------------------------------------------------------------- SHARES
    def _hear_keys(self, messages: Messages) -> Hear:
        """Everybody's keys: checked, and agreed on."""
        n, context = self.terms.n, self._context
        listed_keys = self._listed_keys(messages, n)

        def hear(row: int, at: int) -> None:
            public, me = listed_keys(row, at, np.arange(n)), int(self.parties[at])
            others = {v: (int(self.terms.clients[v]), key) for v, (key,) in public.items() if v != self._places[at]}
            self._pairs.agree(at, self._secrets[at, SEALING].tobytes(), context, me, others)

        return hear

    def _offer(self, which: Ids) -> Iterable[Messages]:
        """A key pair of each candidate, sealed for the others; the rest say that they are there."""
        can = np.array(
            [self._plan.candidates(self._key_owners(index))[self._places[index]] for index in which.tolist()]
        )
        out = []
        if (~can).any():
            none = {"offered": np.zeros((int((~can).sum()), 1), dtype=np.bool_)}
            out.append(self._to_server(Phase.SECRET_SHARES, which[~can], none))
        if can.any():
            out.append(self._to_server(Phase.SECRET_SHARES, which[can], self._offers(which[can])))
        self._forget(which, SEALING)
        return out

    def _offers(self, which: Ids) -> dict[str, Array]:
        plan, context = self._plan, self._plan.context(self.now)
        keys, files = [], []
        boxes = np.zeros((len(which), self.terms.n, self._crypto.sealed_bytes(KEY_BYTES)), dtype=np.uint8)
        for row, index in enumerate(which.tolist()):
            me, pair = int(self.parties[index]), ReceiverKey.generate(plan.parameters)
            keys.append(pair.public_context())
            files.append(self._wrap_key_file(me, self._secrets[index, GROUP].tobytes(), pair, context))
            for v in np.flatnonzero(self._pairs.has[index]).tolist():
                boxes[row, v] = np.frombuffer(self._seal_group_key(index, v, context), dtype=np.uint8)
        rows, sizes = pad(keys, public_bytes(plan.parameters))
        return {
            "offered": np.ones((len(which), 1), dtype=np.bool_),
            "key": rows,
            "size": sizes[:, None],
            "file": np.frombuffer(b"".join(files), dtype=np.uint8).reshape(len(which), -1),
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
    def _hear_offer(self, messages: Messages) -> Hear:
        """The key of one candidate, which a client opens."""
        plan, n, size = self._plan, self.terms.n, self._crypto.sealed_bytes(KEY_BYTES)
        makers = flags_of(messages, "maker", n)
        files, boxes = bytes_of(messages, "file", sealed_bytes(plan)), bytes_of(messages, "box", size)
        context = plan.context(self.now)

        def hear(row: int, at: int) -> None:
            who = np.flatnonzero(makers[row])
            if len(who) != 1 or not plan.candidates(self._key_owners(at))[who[0]]:
                raise ProtocolError(f"a key must have one maker, who is a candidate; found {who.tolist()}")
            maker = int(who[0])
            group, name = self._group_key(at, maker, boxes[row].tobytes(), context), int(self.terms.clients[maker])
            self._keys[at] = unwrap_key(plan, context, name, group, files[row].tobytes())
            self._maker[at], self._group[at] = name, np.frombuffer(group, dtype=np.uint8)

        return hear

    def _group_key(self, index: int, maker: int, box: bytes, context: Context) -> bytes:
        group: bytes = self._secrets[index, GROUP].tobytes()
        if maker == self._places[index]:
            return group
        ends = int(self.terms.clients[maker]), int(self.parties[index])
        keys = self._pairs.unwrap_keys(index, b"", context, ends[1], {maker: (ends[0], box)})
        return bytes(self._pairs.unseal(keys[maker], context, ends, box, KEY_BYTES).astype(np.uint8))

    def _encrypt(self, which: Ids) -> Iterable[Messages]:
        """Each client's vector, encrypted while it is read."""
        rows = self._rows
        assert rows is not None, "see turn"
        self._used_up()
        todo = [(index, self._vector(rows, index), self._keys[index].public) for index in which.tolist()]
        self._forget(which)
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
    def _hear_roster(self, messages: Messages) -> Hear:
        """Whose vectors the server says are in the sum, and the digest of what it will have opened."""
        rosters, least = flags_of(messages, "roster", self.terms.n), self.terms.threshold
        digests = bytes_of(messages, "digest", DIGEST_BYTES)

        def hear(row: int, at: int) -> None:
            roster, place = rosters[row], int(self._places[at])
            if not roster[place] or (roster & ~self._key_owners(at)).any():
                raise ProtocolError(f"a roster must name client {place}, and others with keys only; it does not")
            if int(roster.sum()) < least:
                raise ProtocolError(f"a roster must name at least threshold = {least} clients; found {roster.sum()}")
            self._roster[at], self._sum_digest[at] = roster, digests[row]

        return hear

    def _voted_for(self, index: int, context: Context) -> bytes:
        return context.digest(b"vote" + self._roster[index].tobytes() + self._sum_digest[index].tobytes())

    def _voters(self, index: int) -> Flags:
        return np.asarray(self._roster[index] & self._pairs.has[index])

    def _hear_total(self, messages: Messages) -> Hear:
        """The encrypted sum that clients voted for, which a client decrypts: one, and no second."""
        n, context = self.terms.n, self._plan.context(self.now)
        check_ciphertexts(messages, self._plan.count, self._plan.parameters)
        tags = elements_of(messages, TAG, RING, TAGS)
        cast, votes = flags_of(messages, "cast", n), bytes_of(messages, "votes", n, self._crypto.vote_bytes)

        def hear(row: int, at: int) -> None:
            self._check_votes(at, cast[row], votes[row], context)
            result = ciphertexts_of(messages, row)
            if digest_of_sum(context, result, tags[row]) != self._sum_digest[at].tobytes():
                raise ProtocolError("the opened sum must be the one that clients voted for; it is another")
            self._sums_of[at] = self._decrypt(at, result, tags[row])

        return hear

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

    def _open_up(self, which: Ids) -> Iterable[Messages]:
        """What each client decrypted; then everything is forgotten."""
        self._pairs.forget(which)
        self._group[which] = 0
        for index in which.tolist():
            self._keys.pop(index)
        said = [(index, self._sums_of.pop(index)) for index in which.tolist()]
        return self._send_sums(said, self.now)

    def _send_sums(self, said: list[tuple[int, Integers]], step: Step) -> Iterator[Messages]:
        for index, total in said:
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
