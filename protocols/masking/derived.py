"""Masks derived from keys that parties agree on: pairwise masking as it is run."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra import Elements, PrimeField
from fgl_secure.crypto.keys import KeyPair
from fgl_secure.crypto.prg import KEY_BYTES
from fgl_secure.errors import InputError, ProtocolError
from fgl_secure.protocols.masking.delivery import Circle
from fgl_secure.protocols.masking.exchange import SETUP, ReceiverKeys, agreed_keys, published, told_keys
from fgl_secure.protocols.masking.expansion import add_masks
from fgl_secure.protocols.masking.keys import TAG_BYTES, Purpose, derived, seal, unseal
from fgl_secure.protocols.masking.opening import masks_left, self_mask_key
from fgl_secure.protocols.masking.roles import NO_SHARE, Asked, mask_sign
from fgl_secure.protocols.masking.shares import words_of, words_per_seed
from fgl_secure.protocols.masking.supply import Flags, Ids, MaskSupply
from fgl_secure.protocols.masking.votes import voted
from fgl_secure.runtime import Phase, Step

Bytes = NDArray[np.uint8]


class DerivedMasks(MaskSupply):
    """Masks of senders that hold an X25519 key pair for the session, for sealing, and a fresh one for every step.

    Mask keys and self-mask seeds are made anew in every step, so that what unmasking opens tells nothing of another
    step, and a sender that dropped out of one step may take part in the next.
    """

    def __init__(self, circle: Circle, field: PrimeField, length: int) -> None:
        super().__init__(circle, field, length)
        if circle.channel.batch_shape:
            raise InputError("coins must be those of one run where masks are derived; found several tapes at once")
        self._session = circle.channel.coins.uniform(256, (16,)).astype(np.uint8).tobytes()
        self._pair_keys: dict[int, dict[int, bytes]] = {}
        self._mask_keys: dict[int, dict[int, bytes]] = {}
        self._receiver: ReceiverKeys | None = None
        self._private: Bytes = np.zeros((len(circle.senders), KEY_BYTES), dtype=np.uint8)
        self._seeds, self._public = self._private, self._private  # of the step at hand, by sender

    def __repr__(self) -> str:
        return f"DerivedMasks(<secrets of {len(self.circle.senders)} senders>)"

    @property
    def words(self) -> int:
        """Those of a seed."""
        return words_per_seed(self.field)

    def set_up(self) -> Flags:
        """Exchanges the session's public keys, through the aggregator, which must leave them as they are."""
        c, everyone = self.circle, np.arange(len(self.circle.senders))
        private = self._drawn("private keys", everyone, SETUP)
        pairs = [KeyPair(row.tobytes()) for row in private]
        here, keys = published(c, SETUP, everyone, pairs)
        own = {u: pairs[u] for u in np.flatnonzero(here).tolist()}
        told = told_keys(c, SETUP, keys, here)
        self._pair_keys = agreed_keys(c, self._session, Purpose.PAIR, None, own, told)
        self._receiver = ReceiverKeys(c, self._session, own, keys) if c.split else None
        hearing = self._pair_keys if self._receiver is None else self._receiver.of_sender
        return c.flags(np.array([u for u, keys in self._pair_keys.items() if keys and u in hearing], dtype=np.int64))

    def begin(self, step: Step, alive: Flags) -> tuple[Flags, Flags]:
        """Every sender publishes the mask key of the step."""
        c, who = self.circle, np.flatnonzero(alive)
        self._private = self._drawn("mask keys", who, step)
        pairs = [KeyPair(self._private[u].tobytes()) for u in who.tolist()]
        here, self._public = published(c, step, who, pairs)
        told = told_keys(c, step, self._public, here)
        own = {u: pair for u, pair in zip(who.tolist(), pairs, strict=True) if here[u]}
        self._mask_keys = agreed_keys(c, self._session, Purpose.PAIR_MASK, step, own, told)
        known = np.zeros((len(alive), len(alive)), dtype=np.bool_)
        for u, keys in self._mask_keys.items():
            known[u, [v for v in keys if v in self._pair_keys[u]]] = True
        return here, known

    def secrets(self, step: Step, who: Ids) -> Elements:
        """A fresh seed for the self mask, and the private key of the step."""
        self._seeds = self._drawn("self-mask seeds", who, step)
        return np.stack([words_of(self.field, self._seeds[who]), words_of(self.field, self._private[who])], axis=1)

    def hand_over(self, step: Step, who: Ids, shares: Elements) -> tuple[Flags, Flags, Elements]:
        """Sealed for each neighbour, through the aggregator."""
        c, m = self.circle, len(self.circle.senders)
        sealed = self._sealed(step, who, shares)
        here, sealed[who] = c.up(Phase.SECRET_SHARES, step, who, sealed[who])
        shared, to = c.flags(who[here]), who[here]
        heard, bundles = c.down(Phase.SECRET_SHARES, step, to, c.forwarded(sealed, shared)[to])
        told = np.zeros((m, m), dtype=np.bool_)
        held = np.full((m, m, *shares.shape[-2:]), NO_SHARE, dtype=self.field.dtype)
        for v, bundle in zip(to[heard].tolist(), bundles[heard], strict=True):
            told[v, c.neighbours.table[v]] = bundle[:, 0] > 0
            told[v] &= np.isin(np.arange(m), list(self._mask_keys[v]))  # others have no key, whatever is said of them
            told[v, v] = True
            held[v, v] = shares[int(np.searchsorted(who, v)), v]
            self._open(step, v, bundle, held[v])
        return shared, told, held

    def masked(self, u: int, row: NDArray[np.int64], others: Ids, step: Step) -> Elements:
        """Under masks expanded from the seeds and keys of the step."""
        total = self.field.add(row, 0).astype(np.int64)
        keys = [self_mask_key(self._seeds[u].tobytes(), self._session, step, int(self.circle.senders[u]))]
        keys += [self._mask_keys[u][v] for v in others.tolist()]
        signs = [1, *(mask_sign(u, v) for v in others.tolist())]
        if self._receiver is not None:
            keys.append(self._receiver_key(u, self._receiver.of_sender[u], step))
            signs.append(1)
        add_masks(total, keys, signs, self.field.modulus)
        return total.astype(self.field.dtype, copy=False)

    def votes(self, step: Step, who: Ids, asked: Asked) -> tuple[Flags, Ids]:
        """Under the pairs' keys, through the aggregator."""
        return voted(self.circle, self._pair_keys, self._session, step, who, asked)

    def unmask(self, total: Elements, secrets: Elements, asked: Asked, step: Step) -> None:
        """Expands what was opened as its owner would; a mask key that is not the published one is refused."""
        c = self.circle
        public = {u: key.tobytes() for u, key in enumerate(self._public)}
        names = c.senders.tolist()
        keys, signs = masks_left(self.field, secrets, asked, c.neighbours, public, names, self._session, step)
        add_masks(total, keys, signs, self.field.modulus)

    def release(self, total: Elements, roster: Ids, step: Step) -> None:
        """Expanded from the keys that the receiver shares with each."""
        of_receiver = {} if self._receiver is None else self._receiver.of_receiver
        strangers = [u for u in roster.tolist() if u not in of_receiver]
        if strangers:
            raise ProtocolError(f"a roster must name senders with keys only; the receiver found sender {strangers[0]}")
        keys = [self._receiver_key(u, of_receiver[u], step) for u in roster.tolist()]
        add_masks(total, keys, [-1] * len(keys), self.field.modulus)

    def _drawn(self, name: str, who: Ids, step: Step) -> Bytes:
        """Uint8 [m, 32]: fresh secret bytes of some senders, zeros for the others."""
        out = np.zeros((len(self.circle.senders), KEY_BYTES), dtype=np.uint8)
        out[who] = self.circle.channel.draw(name, self.circle.senders[who], 256, (KEY_BYTES,), step)
        return out

    def _sealed(self, step: Step, who: Ids, shares: Elements) -> Bytes:
        """Uint8 [m, k, bytes]: what some senders have for each neighbour that they know keys of."""
        c = self.circle
        size = shares[0, 0].nbytes + TAG_BYTES if len(who) else 0
        sealed = np.zeros((*c.neighbours.table.shape, size), dtype=np.uint8)
        for u, own in zip(who.tolist(), shares, strict=True):
            for j, v in enumerate(c.neighbours.table[u].tolist()):
                if v in self._mask_keys[u] and v in self._pair_keys[u]:
                    box = seal(self._pair_keys[u][v], self._session, step, *c.ends(u, v), own[v].tobytes())
                    sealed[u, j] = np.frombuffer(box, dtype=np.uint8)
        return sealed

    def _open(self, step: Step, v: int, bundle: Bytes, held: Elements) -> None:
        """Writes the shares that neighbours sealed for a sender to [m, 2, words]; those that do not open stay away."""
        c = self.circle
        for j in np.flatnonzero(bundle[:, 0]).tolist():
            u = int(c.neighbours.table[v, j])
            if u not in self._pair_keys[v]:
                continue
            try:
                plain = unseal(self._pair_keys[v][u], self._session, step, *c.ends(u, v), bundle[j, 1:].tobytes())
            except ProtocolError as error:
                c.channel.note_incident(step, int(c.senders[u]), str(error))
            else:
                held[u] = np.frombuffer(plain, dtype=held.dtype).reshape(held.shape[1:])

    def _receiver_key(self, u: int, shared: bytes, step: Step) -> bytes:
        ends = int(self.circle.senders[u]), self.circle.receiver
        return derived(shared, self._session, Purpose.RECEIVER_MASK, step, *ends)
