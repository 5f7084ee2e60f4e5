"""A receiver that does not add up itself: it agrees on a mask with every client, and takes them from the sum."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

import numpy as np

from fgl_secure.crypto.cryptography import Cryptography, KeyPurpose, Mask
from fgl_secure.crypto.streams import KEY_BYTES
from fgl_secure.errors import ProtocolError
from fgl_secure.protocols.identity import Names
from fgl_secure.protocols.secagg.terms import AggregationMachine, SumPlan, bytes_of, elements_of, flags_of, laid_out
from fgl_secure.runtime import Draws, MessageKind, Messages, Phase, Step
from fgl_secure.typing import Array, Ids

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

    kept: ClassVar[tuple[str, ...]] = ("secret", "keys", "has", "roster", "speaks")

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
            said = self._plan.statement(self.now, self._plan.terms.n, public)
            signature[0] = np.frombuffer(self._names.own[self._plan.terms.n].sign(said), dtype=np.uint8)
        fields = {"sealing": np.frombuffer(public, dtype=np.uint8)[None], "signature": signature}
        to = np.array([self._plan.terms.server], dtype=np.int64)
        laid = laid_out(fields, {}, self._tapes, self._crypto.ring)
        return [Messages(Phase.KEYS, self.now, self.parties, to, laid, self._tape_axes)]

    def receive(self, messages: Messages) -> None:
        """See `Machine.take`."""
        due = Phase.MASKED_SUMS if self._has.any() else Phase.KEYS
        self._check_head(messages, PHASES, due)
        self._check_from(messages, self._plan.terms.server)
        if len(messages) != 1:
            raise ProtocolError(f"the receiver must be told once what it is told; found {len(messages)} messages")
        if due is Phase.KEYS:
            self._hear_keys(messages)
        else:
            self._hear_sum(messages)

    def _hear_keys(self, messages: Messages) -> None:
        """Everybody's keys, with which it agrees on masks when it hears whose are in the sum."""
        terms, c = self._plan.terms, self._crypto
        listed = flags_of(messages, "listed", terms.n)[0]
        keys = [bytes_of(messages, name, terms.n, c.public_bytes)[0] for name in self._key_fields]
        signatures = bytes_of(messages, "signature", terms.n, c.signature_bytes)[0]
        if int(listed.sum()) < terms.threshold:
            raise ProtocolError(f"keys must be those of at least {terms.threshold} clients; found {int(listed.sum())}")
        who = np.flatnonzero(listed).tolist()
        if self._names is not None:
            for u in who:
                said = self._plan.statement(self.now, u, *(key[u].tobytes() for key in keys))
                self._names.known.check(u, said, signatures[u].tobytes())
        for u in who:
            if not c.usable(keys[0][u].tobytes()):
                raise ProtocolError(f"the key of client {u} must not be a public key of low order, or no key at all")
        self._keys, self._has = keys[0] * listed[:, None], listed.copy()

    def _hear_sum(self, messages: Messages) -> None:
        """The sum under masks, and whose are in it."""
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

    def _masks(self, messages: Messages, who: list[int]) -> list[Mask]:
        """The masks that it shares with some clients, for which they have wrapped something where keys are hybrid."""
        terms, c = self._plan.terms, self._crypto
        names, received = {u: int(terms.clients[u]) for u in who}, {}
        if c.wrapped_bytes:
            wrapped = bytes_of(messages, "wrapped", terms.n, c.wrapped_bytes)[0]
            received = {names[u]: wrapped[u].tobytes() for u in who}
        public = {names[u]: self._keys[u].tobytes() for u in who}
        context, secret = self._plan.context(self.now), self._secret.tobytes()
        agreed = c.agree(secret, context, KeyPurpose.RECEIVER_MASK, terms.receiver, public, terms.length, received)
        return [agreed[names[u]] for u in who]
