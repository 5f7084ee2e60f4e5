"""One session of pairwise masking: the rounds of a step, who is left after each, and when it stops."""

from __future__ import annotations

import numpy as np

from fgl_secure.algebra import Elements
from fgl_secure.errors import ProtocolError
from fgl_secure.protocols.masking.delivery import Circle
from fgl_secure.protocols.masking.passing import is_vector, passed_on
from fgl_secure.protocols.masking.roles import request_of, signed
from fgl_secure.protocols.masking.rules import Rules
from fgl_secure.protocols.masking.shares import Sharing
from fgl_secure.protocols.masking.supply import Flags, MaskSupply
from fgl_secure.protocols.masking.unmasking import Unmasking
from fgl_secure.protocols.relay_coded.cryptography import mask_nonce
from fgl_secure.protocols.vector_sum import Integers, VectorSession, check_rows
from fgl_secure.runtime import Phase, Step


class MaskingSession(VectorSession):
    """A scheme at work; see `PairwiseMasking`. Keys are exchanged with the first sum."""

    def __init__(self, circle: Circle, rules: Rules, supply: MaskSupply) -> None:
        self._circle, self._rules, self._supply = circle, rules, supply
        self._sharing = Sharing(rules.field, rules.senders, rules.needed)
        self._members: Flags | None = None
        self._done: set[Step] = set()

    def sum(self, rows: Integers, step: Step) -> Integers:
        """See `VectorSession.sum`.

        Raises:
            InputError: rows have another shape, or a value is beyond the bound.
            ProtocolError: the step was summed before, fewer than the threshold are left, or a party departs from the
                protocol in a way that cannot be mended.
        """
        c, rules = self._circle, self._rules
        check_rows(rows, len(c.senders), self._supply.length, rules.bound)
        mask_nonce(step)
        if step in self._done:
            raise ProtocolError(f"a step must be summed once, or its masks would be used twice; found {step} again")
        if self._members is None:
            members = self._supply.set_up()
            self._rules.require(int(members.sum()), "exchange keys for the session", step)
            self._members = members
        self._done.add(step)
        c.channel.note_inputs("vectors", step, c.senders, rows)
        shared, told, held = self._share(step)
        total, survived = self._add_up(rows, shared, told, step)
        asked = request_of(shared, survived)
        opened = Unmasking(c, rules, self._sharing, self._supply, step).secrets(asked, told, held)
        self._supply.unmask(total, opened, asked, step)
        result = self._pass_on(total, survived, step) if c.split else total
        return signed(result[(0,) * len(c.channel.batch_shape)].astype(np.int64), rules.field.modulus)

    def _share(self, step: Step) -> tuple[Flags, Flags, Elements]:
        """Rounds 0 and 1: keys of the step, and shares of every sender's secrets; see `MaskSupply.hand_over`."""
        c, rules, m = self._circle, self._rules, len(self._circle.senders)
        assert self._members is not None
        listed, known = self._supply.begin(step, self._members)
        self._rules.require(int(listed.sum()), "publish their mask keys", step)
        who = np.flatnonzero(known.sum(axis=1) + 1 >= rules.needed)
        secrets = self._supply.secrets(step, who)
        size = rules.needed - 1, 2, self._supply.words
        coins = c.channel.draw("share coins", c.senders[who], rules.field.modulus, size, step)
        batch, w = secrets.shape[:-3], 2 * self._supply.words
        flat = self._sharing.share(secrets.reshape(*batch, len(who), w), coins.reshape(*batch, len(who), -1, w))
        shared, told, held = self._supply.hand_over(step, who, flat.reshape(*batch, len(who), m, 2, -1))
        self._rules.require(int(shared.sum()), "share their secrets", step)
        return shared, told, held

    def _add_up(self, rows: Integers, shared: Flags, told: Flags, step: Step) -> tuple[Elements, Flags]:
        """Round 2: masked vectors, one after another, and their sum; who heard of too few others sends none."""
        c, field, rules = self._circle, self._rules.field, self._rules
        m, batch = len(c.senders), c.channel.batch_shape
        total = np.zeros((*batch, self._supply.length), dtype=np.int64)
        survived = np.zeros(m, dtype=np.bool_)
        for u in np.flatnonzero(shared & (told.sum(axis=1) >= rules.needed)).tolist():
            others = np.flatnonzero(told[u] & c.neighbours.adjacent[u])
            masked = self._supply.masked(u, rows[u], others, step)
            here, got = c.up(Phase.MASKED_VECTORS, step, np.array([u]), masked[..., None, :])
            survived[u] = bool(here[0]) and is_vector(c, field, got, u, step)
            if survived[u]:
                total = field.add(total, got[..., 0, :]).astype(np.int64)
        self._rules.require(int(survived.sum()), "send their vectors", step)
        return total, survived

    def _pass_on(self, total: Elements, survived: Flags, step: Step) -> Elements:
        """The receiver gets the masked sum and takes its masks away."""
        got, named = passed_on(self._circle, self._rules, total, survived, step)
        result = got.astype(np.int64)
        self._supply.release(result, named, step)
        return result
