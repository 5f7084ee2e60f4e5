"""The server of a sum under a CKKS key that clients share: it forwards a key that it cannot open, and adds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar

import numpy as np

from fgl_secure.crypto.ckks import PublicKey, RunningSums
from fgl_secure.crypto.streams import KEY_BYTES
from fgl_secure.errors import MalformedMessageError, ProtocolError
from fgl_secure.protocols.ckks.wire import (
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
    pad,
    public_bytes,
    public_key,
    sealed_bytes,
    unpad,
)
from fgl_secure.protocols.secagg.server import AggregationServer, Hear
from fgl_secure.protocols.secagg.terms import Stage, bytes_of, elements_of, flags_of
from fgl_secure.protocols.stepwise import check_arrays
from fgl_secure.runtime import Messages, Phase
from fgl_secure.typing import Array

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

    kept = ("files", "boxes", "tag", "said", "which")
    _plan: SharedKeyPlan

    def _clear(self) -> None:
        n = self.terms.n
        self._files = np.zeros((n, sealed_bytes(self._plan)), dtype=np.uint8)
        self._boxes = np.zeros((n, n, self._crypto.sealed_bytes(KEY_BYTES)), dtype=np.uint8)
        self._publics: dict[int, PublicKey] = {}
        self._adding: RunningSums | None = None
        self._tag = np.zeros(TAGS, dtype=np.int64)
        self._votes = np.zeros((n, n, self._crypto.vote_bytes), dtype=np.uint8)
        self._said = np.zeros((0, self.terms.length), dtype=np.int64)
        self._which = np.full(n, NOTHING, dtype=np.int64)

    def _stages(self) -> Mapping[Stage, tuple[Callable[[Messages], Hear], Callable[[], Iterable[Messages]]]]:
        return {
            Stage.SHARES: (self._hear_offers, self._tell_key),
            Stage.VECTORS: (self._hear_vectors, self._tell_roster),
            Stage.AGREEMENT: (self._hear_votes, self._tell_total),
            Stage.OPENING: (self._hear_opened, self._agree),
        }

    # ---------------------------------------------------------------------------------------------------------- SHARES
    def _hear_offers(self, messages: Messages) -> Hear:
        """A candidate's key pair, public and sealed; of the others that they are there."""
        offered = flags_of(messages, "offered", 1)[:, 0]
        if not offered.any():
            if len(messages.fields) > 1:
                raise MalformedMessageError("clients that offer no key must send nothing more; they do")
            return lambda _, client: self._check_offer(client, offered=False)
        keys, files = self._public_keys(messages), bytes_of(messages, "file", self._files.shape[1])
        boxes = bytes_of(messages, "boxes", *self._boxes.shape[1:])

        def hear(row: int, client: int) -> None:
            self._check_offer(client, offered=bool(offered[row]))
            if offered[row]:
                self._publics[client] = public_key(keys[row], self._plan.parameters)
                self._files[client], self._boxes[client] = files[row], boxes[row]

        return hear

    def _check_offer(self, client: int, *, offered: bool) -> None:
        if offered != self._plan.candidates(self._listed)[client]:
            raise ProtocolError(f"client {client} must offer a key if it is a candidate, and none if it is not")

    def _public_keys(self, messages: Messages) -> list[bytes]:
        check_field(messages, "size", np.dtype(np.uint32), (1,))
        return unpad(
            bytes_of(messages, "key", public_bytes(self._plan.parameters)), messages["size"][:, 0], "public keys"
        )

    def _tell_key(self) -> Iterable[Messages]:
        """Everybody hears the sealed key of the first candidate that is there."""
        here, maker = self._here.answered.copy(), min(self._publics)
        m, public = int(here.sum()), self._publics[maker]
        fields = {
            "maker": np.broadcast_to(np.arange(self.terms.n) == maker, (m, self.terms.n)),
            "file": np.broadcast_to(self._files[maker].copy(), (m, self._files.shape[1])),
            "box": self._boxes[maker][here],
        }
        self._publics, self._adding = {maker: public}, RunningSums(public, self._plan.count)
        self._files[:], self._boxes[:] = 0, 0
        self._here.go(Stage.VECTORS, here)
        return [self._to_clients(Phase.SECRET_SHARES, here, fields)]

    # ----------------------------------------------------------------------------------- VECTORS, AGREEMENT and OPENING
    def _hear_vectors(self, messages: Messages) -> Hear:
        """A client's ciphertexts and tags, added at once."""
        adding = self._adding
        assert adding is not None, "made as the stage of vectors begins"
        check_ciphertexts(messages, self._plan.count, self._plan.parameters)
        tags = elements_of(messages, TAG, RING, TAGS)

        def hear(row: int, client: int) -> None:  # noqa: ARG001  # whoever it is from
            adding.add(ciphertexts_of(messages, row))
            self._tag = FIELD.add(self._tag, tags[row])

        return hear

    def _tell_roster(self) -> Iterable[Messages]:
        """Those whose vectors are in the sum hear whose are, and the digest of what they will open."""
        assert self._adding is not None, "vectors were added"
        self._included, m = self._here.answered.copy(), int(self._here.answered.sum())
        digest = digest_of_sum(self._plan.context(self.now), self._adding.to_bytes(), self._tag)
        self._here.go(Stage.AGREEMENT, self._included)
        fields = {"roster": self._included, "digest": np.frombuffer(digest, dtype=np.uint8)}
        told = {name: np.broadcast_to(value, (m, len(value))) for name, value in fields.items()}
        return [self._to_clients(Phase.ROSTERS, self._included, told)]

    def _tell_total(self) -> Iterable[Messages]:
        """Those that voted hear how the others did, and the sum, encrypted."""
        assert self._adding is not None, "vectors were added"
        voted = self._here.answered.copy()
        who, m = np.flatnonzero(voted), int(voted.sum())
        one = ciphertext_fields([self._adding.to_bytes()], 1, self._plan.count, self._plan.parameters)
        one[TAG] = RING.write(self._tag[None])
        fields = {name: np.broadcast_to(value, (m, *value.shape[1:])) for name, value in one.items()}
        fields["cast"] = voted & (np.arange(self.terms.n) != who[:, None])
        fields["votes"] = self._votes[:, who].swapaxes(0, 1) * fields["cast"][..., None]
        self._adding, self._publics = None, {}
        self._here.go(Stage.OPENING, voted)
        return [self._to_clients(Phase.UNMASKING, voted, fields)]

    def _hear_opened(self, messages: Messages) -> Hear:
        """What a client says that the sum is."""
        check_field(messages, "sum", np.dtype(np.int64), (self.terms.length,))
        sums, most = messages["sum"], self._plan.largest

        def hear(row: int, client: int) -> None:
            if int(sums[row].max()) > most or int(sums[row].min()) < -most:
                raise MalformedMessageError(
                    f"opened sum must have magnitude up to {most:,}; at least one entry is beyond"
                )
            same = np.flatnonzero((self._said == sums[row]).all(axis=1))
            if not len(same):
                self._said = np.concatenate([self._said, sums[row : row + 1]])
            self._which[client] = same[0] if len(same) else len(self._said) - 1

        return hear

    def _agree(self) -> Iterable[Messages]:
        """The sum that at least `threshold` clients opened alike; no two can, for that is more than half of them.

        Raises:
            ProtocolError: there is none.
        """
        said = self._which[self._which != NOTHING]
        counts, least = np.bincount(said), self.terms.threshold
        if int(counts.max()) < least:
            raise ProtocolError(
                f"at least threshold = {least} clients must open the same sum; found {counts.max()} of {len(said)} "
                "that agree"
            )
        best = int(counts.argmax())
        for client in np.flatnonzero((self._which != NOTHING) & (self._which != best)).tolist():
            self.remark(self.now, int(self.terms.clients[client]), "it opened another sum than the others: left out")
        self._sums = self._said[best : best + 1].copy()
        self._here.go(None)
        self._step, self._said = None, self._said[:0]
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
