"""Links as they are run: boxes that the aggregator forwards, sealed under keys that senders agree on by way of it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra import Elements
from fgl_secure.crypto.keys import KeyPair
from fgl_secure.crypto.prg import KEY_BYTES
from fgl_secure.errors import InputError, ProtocolError
from fgl_secure.protocols.coded_masks.code import MaskCode, mask_of
from fgl_secure.protocols.coded_masks.links import Flags, Ids, Links
from fgl_secure.protocols.coded_masks.roles import Roster
from fgl_secure.protocols.masking.delivery import Circle, exchanged
from fgl_secure.protocols.masking.exchange import SETUP, ReceiverKeys, agreed_keys, published, told_keys
from fgl_secure.protocols.masking.keys import TAG_BYTES, Purpose, seal, unseal
from fgl_secure.protocols.masking.votes import voted
from fgl_secure.runtime import Phase, Step

Bytes = NDArray[np.uint8]


class SealedLinks(Links):
    """Every sender holds an X25519 key pair for the session, and draws a fresh seed of its mask for every step."""

    def __init__(self, circle: Circle, code: MaskCode) -> None:
        super().__init__(circle, code)
        if circle.channel.batch_shape:
            raise InputError("coins must be those of one run where masks are derived; found several tapes at once")
        self._session = circle.channel.coins.uniform(256, (16,)).astype(np.uint8).tobytes()
        self._pair_keys: dict[int, dict[int, bytes]] = {}
        self._seeds: dict[int, bytes] = {}
        self._receiver: ReceiverKeys | None = None

    def __repr__(self) -> str:
        return f"SealedLinks(<secrets of {len(self.circle.senders)} senders>)"

    def set_up(self) -> Flags:
        """Exchanges public keys, through the aggregator, which must leave them as they are."""
        c, everyone = self.circle, np.arange(len(self.circle.senders))
        private = c.channel.draw("private keys", c.senders, 256, (KEY_BYTES,), SETUP).astype(np.uint8)
        pairs = [KeyPair(row.tobytes()) for row in private]
        here, keys = published(c, SETUP, everyone, pairs)
        own = {u: pairs[u] for u in np.flatnonzero(here).tolist()}
        told = told_keys(c, SETUP, keys, here)
        self._pair_keys = agreed_keys(c, self._session, Purpose.PAIR, None, own, told)
        self._receiver = ReceiverKeys(c, self._session, own, keys) if c.split else None
        hearing = self._pair_keys if self._receiver is None else self._receiver.of_sender
        return c.flags(np.array([u for u, keys in self._pair_keys.items() if keys and u in hearing], dtype=np.int64))

    def begin(self, step: Step, who: Ids) -> None:
        """Every sender draws a seed."""
        c = self.circle
        drawn = c.channel.draw("mask seeds", c.senders[who], 256, (KEY_BYTES,), step).astype(np.uint8)
        self._seeds = {u: row.tobytes() for u, row in zip(who.tolist(), drawn, strict=True)}

    def mask(self, step: Step, u: int) -> Elements:
        """Expanded from the seed of the step."""
        return mask_of(self._seeds[u], self._session, step, int(self.circle.senders[u]), self.code)

    def give(self, step: Step, u: int, to: Ids, coded: Elements) -> tuple[bool, Flags, Elements]:
        """In sealed boxes; one that its receiver cannot open did not arrive, which is noted."""
        c = self.circle
        boxes = self._sealed(step, u, to, coded)
        here, got = c.up(Phase.SECRET_SHARES, step, np.array([u]), boxes[None])
        if not here[0]:
            return False, np.zeros(len(to), dtype=np.bool_), coded
        heard, boxes = c.down(Phase.SECRET_SHARES, step, to, got[0])
        held = np.zeros_like(coded)
        for at in np.flatnonzero(heard).tolist():
            heard[at] = self._opened(step, u, int(to[at]), boxes[at], held[at])
        return True, heard, held

    def votes(self, step: Step, who: Ids, rosters: Roster) -> tuple[Flags, Ids]:
        """Under the pairs' keys, through the aggregator."""
        return voted(self.circle, self._pair_keys, self._session, step, who, rosters)

    def hand_in(self, step: Step, who: Ids, sums: Elements) -> tuple[Flags, Elements]:
        """To the aggregator where it is the receiver; otherwise sealed for the receiver, through it."""
        c, keys = self.circle, self._receiver
        if keys is None:
            return c.up(Phase.UNMASKING, step, who, sums)
        boxes = [
            seal(keys.of_sender[u], self._session, step, int(c.senders[u]), c.receiver, row.tobytes())
            for u, row in zip(who.tolist(), sums, strict=True)
        ]
        here, got = c.up(Phase.UNMASKING, step, who, _rows(boxes))
        ends = np.full(int(here.sum()), c.aggregator), np.full(int(here.sum()), c.receiver)
        heard, boxes_there = exchanged(c.channel, Phase.UNMASKING, step, *ends, got[here], None)
        came, out = np.zeros_like(here), np.zeros_like(sums)
        for at, box, ok in zip(np.flatnonzero(here).tolist(), boxes_there, heard.tolist(), strict=True):
            u = int(who[at])
            ends_of = int(c.senders[u]), c.receiver
            came[at] = ok and self._unsealed(step, keys.of_receiver.get(u), ends_of, box, out[at])
        return came, out

    def _sealed(self, step: Step, u: int, to: Ids, coded: Elements) -> Bytes:
        """Uint8 [n, bytes]: zeros for those whose keys the sender does not know."""
        size = coded[0].nbytes + TAG_BYTES if len(to) else 0
        boxes = np.zeros((len(to), size), dtype=np.uint8)
        for at, v in enumerate(to.tolist()):
            if v in self._pair_keys[u]:
                ends = self.circle.ends(u, v)
                box = seal(self._pair_keys[u][v], self._session, step, *ends, coded[at].tobytes())
                boxes[at] = np.frombuffer(box, dtype=np.uint8)
        return boxes

    def _opened(self, step: Step, u: int, v: int, box: Bytes, out: Elements) -> bool:
        return self._unsealed(step, self._pair_keys[v].get(u), self.circle.ends(u, v), box, out)

    def _unsealed(self, step: Step, key: bytes | None, ends: tuple[int, int], box: Bytes, out: Elements) -> bool:
        """Writes what a box holds to [width]; says whether it could be opened and holds elements."""
        if key is None:
            return False
        try:
            plain = np.frombuffer(unseal(key, self._session, step, *ends, box.tobytes()), dtype=out.dtype)
            _check_elements(plain, self.code.field.modulus, ends[0])
        except ProtocolError as error:
            self.circle.channel.note_incident(step, ends[0], str(error))
            return False
        out[...] = plain
        return True


def _rows(boxes: list[bytes]) -> Bytes:
    """Messages of one length as uint8 [n, bytes]."""
    joined = np.frombuffer(b"".join(boxes), dtype=np.uint8)
    return joined.reshape(len(boxes), len(joined) // max(1, len(boxes)))


def _check_elements(values: Elements, modulus: int, sender: int) -> None:
    if values.size and not (int(values.min()) >= 0 and int(values.max()) < modulus):
        raise ProtocolError(f"coded masks must hold elements of the field; party {sender} sent others")
