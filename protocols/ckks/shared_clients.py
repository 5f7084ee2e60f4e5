"""Clients of a sum under a CKKS key that they share.

KEYS: clients publish keys. SHARES: the first few, one more than may drop out, make a CKKS key pair each and seal it for
the others; the server forwards that of the first that is still there. VECTORS: clients encrypt. OPENING: all that are
left decrypt the sum and tell it to the server.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fgl_secure.crypto.ckks import PublicKey, ReceiverKey
from fgl_secure.crypto.ckks_public import PREFIX
from fgl_secure.crypto.cryptography import Context, Cryptography, Purpose
from fgl_secure.crypto.prg import KEY_BYTES
from fgl_secure.errors import ProtocolError
from fgl_secure.protocols.ckks.plan import SharedKeyPlan
from fgl_secure.protocols.ckks.sealing import sealed_bytes, unwrapped, wrapped
from fgl_secure.protocols.ckks.wire import (
    check_ciphertexts,
    ciphertext_fields,
    ciphertexts_of,
    encrypted,
    padded,
    public_bytes,
    secret_bytes,
    secret_keys,
)
from fgl_secure.protocols.identity import Names
from fgl_secure.protocols.one_sum.clients import SEALING, Answer, Hear, OneSumClients
from fgl_secure.protocols.one_sum.fields import bytes_of, flags_of
from fgl_secure.protocols.one_sum.terms import Stage
from fgl_secure.runtime import Draws, Messages, Phase, Step

Array = NDArray[Any]
Ids = NDArray[np.int64]
Integers = NDArray[np.int64]

GROUP = 1
"""Secret of a client beside its private key: what it seals its key file under, should it be a candidate."""


class SharedKeyClients(OneSumClients):
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
        Phase.UNMASKING: Stage.OPENING,
    }
    stages: ClassVar = (Stage.KEYS, Stage.SHARES, Stage.VECTORS, Stage.OPENING)
    secrets: ClassVar = 2

    def __init__(
        self, parties: Ids, plan: SharedKeyPlan, cryptography: Cryptography, draws: Draws, names: Names | None = None
    ) -> None:
        self._plan = plan
        super().__init__(parties, plan.terms, plan.digest, cryptography, draws, names)

    def _clear(self) -> None:
        h, n = len(self.parties), self.terms.n
        self._has = np.zeros((h, n), dtype=np.bool_)
        self._pair = np.zeros((h, n, KEY_BYTES), dtype=np.uint8)
        self._keys: dict[int, ReceiverKey] = {}
        self._sums_of: dict[int, Integers] = {}

    def _hearer(self, stage: Stage, messages: Messages) -> Hear:
        if stage is Stage.SHARES:
            return self._hear_keys(messages)
        return self._hear_offer(messages) if stage is Stage.VECTORS else self._hear_total(messages)

    def _answers(self) -> Mapping[Stage, Answer]:
        return {Stage.SHARES: self._offer, Stage.VECTORS: self._encrypt, Stage.OPENING: self._open_up}

    def _statement(self, place: int, public: bytes) -> bytes:
        return self._plan.statement(self.step, place, public)

    # ---------------------------------------------------------------------------------------------------------- SHARES
    def _hear_keys(self, messages: Messages) -> Hear:
        """Everybody's keys: checked, and agreed on."""
        read, context = self._listed_keys(messages), self._plan.context(self.step)

        def hear(row: int, at: int) -> None:
            public, own = read(row, at), int(self._places[at])
            others = {int(self.terms.clients[v]): key for v, key in public.items() if v != own}
            secret, me = self._secrets[at, SEALING].tobytes(), int(self.parties[at])
            pairs = self._crypto.agree(secret, context, Purpose.PAIR, me, others)
            for v in public:
                self._has[at, v] = True
                if v != own:
                    self._pair[at, v] = np.frombuffer(pairs[int(self.terms.clients[v])], dtype=np.uint8)

        return hear

    def _offer(self, which: Ids) -> Iterable[Messages]:
        """A key pair of each candidate, sealed for the others; the rest say that they are there."""
        can = np.array([self._plan.candidates(self._has[at])[self._places[at]] for at in which.tolist()])
        out = []
        if (~can).any():
            none = {"offered": np.zeros((int((~can).sum()), 1), dtype=np.bool_)}
            out.append(self._to_server(Phase.SECRET_SHARES, which[~can], none))
        if can.any():
            out.append(self._to_server(Phase.SECRET_SHARES, which[can], self._offers(which[can])))
        self._secrets[which, SEALING] = 0
        return out

    def _offers(self, which: Ids) -> dict[str, Array]:
        plan, context = self._plan, self._plan.context(self.step)
        keys, files = [], []
        boxes = np.zeros((len(which), self.terms.n, self._crypto.sealed_bytes(KEY_BYTES)), dtype=np.uint8)
        for row, at in enumerate(which.tolist()):
            me, pair = int(self.parties[at]), ReceiverKey.generate(plan.parameters)
            keys.append(pair.public_context())
            files.append(self._wrapped(me, self._secrets[at, GROUP].tobytes(), pair, context))
            for v in np.flatnonzero(self._has[at]).tolist():
                if v != self._places[at]:
                    boxes[row, v] = np.frombuffer(self._sealed(at, v, context), dtype=np.uint8)
        rows, sizes = padded(keys, public_bytes(plan.parameters))
        return {
            "offered": np.ones((len(which), 1), dtype=np.bool_),
            "key": rows,
            "size": sizes[:, None],
            "file": np.frombuffer(b"".join(files), dtype=np.uint8).reshape(len(which), -1),
            "boxes": boxes,
        }

    def _wrapped(self, me: int, group: bytes, pair: ReceiverKey, context: Context) -> bytes:
        """A candidate's key file under its group key."""
        return wrapped(self._plan, context, me, group, pair.secret_file())

    def _sealed(self, at: int, v: int, context: Context) -> bytes:
        """A candidate's group key, sealed for one other client."""
        me, to, group = int(self.parties[at]), int(self.terms.clients[v]), self._secrets[at, GROUP]
        return self._crypto.seal(self._pair[at, v].tobytes(), context, me, to, group)

    # --------------------------------------------------------------------------------------------------------- VECTORS
    def _hear_offer(self, messages: Messages) -> Hear:
        """The key of one candidate, which a client opens."""
        plan, n, size = self._plan, self.terms.n, self._crypto.sealed_bytes(KEY_BYTES)
        makers = flags_of(messages, "maker", n)
        files, boxes = bytes_of(messages, "file", sealed_bytes(plan)), bytes_of(messages, "box", size)
        context = plan.context(self.step)

        def hear(row: int, at: int) -> None:
            who = np.flatnonzero(makers[row])
            if len(who) != 1 or not plan.candidates(self._has[at])[who[0]]:
                raise ProtocolError(f"a key must have one maker, who is a candidate; found {who.tolist()}")
            maker = int(who[0])
            group = self._group_key(at, maker, boxes[row].tobytes(), context)
            self._keys[at] = unwrapped(plan, context, int(self.terms.clients[maker]), group, files[row].tobytes())

        return hear

    def _group_key(self, at: int, maker: int, box: bytes, context: Context) -> bytes:
        group: bytes = self._secrets[at, GROUP].tobytes()
        if maker == self._places[at]:
            return group
        key, ends = self._pair[at, maker].tobytes(), (int(self.terms.clients[maker]), int(self.parties[at]))
        opened = self._crypto.unseal(key, context, *ends, box, KEY_BYTES)
        return bytes(opened.astype(np.uint8))

    def _encrypt(self, which: Ids) -> Iterable[Messages]:
        """Each client's vector, encrypted while it is read."""
        rows = self._rows
        assert rows is not None, "see turn"
        self._used_up()
        todo = [(at, rows[self._row_of[at]], self._keys[at].public) for at in which.tolist()]
        self._secrets[which], self._pair[which] = 0, 0
        return self._sent(todo, self.step)

    def _sent(self, todo: list[tuple[int, Integers, PublicKey]], step: Step) -> Iterator[Messages]:
        for at, row, key in todo:
            fields = ciphertext_fields([self._encrypted(key, row)], 1, self._plan.count, self._plan.parameters)
            yield self._to_server(Phase.CIPHERTEXTS, np.array([at]), fields, None, step)

    def _encrypted(self, key: PublicKey, row: Integers) -> Iterable[bytes]:
        return encrypted(key, row)

    # --------------------------------------------------------------------------------------------------------- OPENING
    def _hear_total(self, messages: Messages) -> Hear:
        """The encrypted sum, which a client decrypts: one, and no second."""
        check_ciphertexts(messages, self._plan.count, self._plan.parameters)
        least = self.terms.threshold

        def hear(row: int, at: int) -> None:
            found = ciphertexts_of(messages, row)
            terms = min((PREFIX.unpack_from(data)[1] for data in found if len(data) >= PREFIX.size), default=0)
            if terms < least:  # a server that lies can write another number, but none says it by mistake
                raise ProtocolError(f"a sum must say that it has at least {least} terms; found {terms}")
            self._sums_of[at] = self._keys[at].decrypt(found, self.terms.length)

        return hear

    def _open_up(self, which: Ids) -> Iterable[Messages]:
        """What each client decrypted; then everything is forgotten."""
        for at in which.tolist():
            self._keys.pop(at)
        said = [(at, self._sums_of.pop(at)) for at in which.tolist()]
        return self._opened(said, self.step)

    def _opened(self, said: list[tuple[int, Integers]], step: Step) -> Iterator[Messages]:
        for at, total in said:
            yield self._to_server(Phase.UNMASKING, np.array([at]), {"sum": total[None]}, None, step)

    # ---------------------------------------------------------------------------------------------------------- states
    def _arrays(self) -> dict[str, Array]:
        rows, sizes = padded([key.secret_file() for key in self._keys.values()], secret_bytes(self._plan.parameters))
        sums = list(self._sums_of.values())
        return {
            **super()._arrays(),
            "has": self._has,
            "pair": self._pair,
            "holders": np.array(list(self._keys), dtype=np.int64),
            "files": rows,
            "sizes": sizes,
            "openers": np.array(list(self._sums_of), dtype=np.int64),
            "opened": np.array(sums, dtype=np.int64).reshape(len(sums), self.terms.length),
        }

    def _take_arrays(self, arrays: Mapping[str, Array]) -> None:
        keys = secret_keys(arrays["files"], arrays["sizes"])
        super()._take_arrays(arrays)
        self._has, self._pair = arrays["has"], arrays["pair"]
        self._keys = dict(zip(arrays["holders"].tolist(), keys, strict=True))
        self._sums_of = dict(zip(arrays["openers"].tolist(), arrays["opened"], strict=True))
