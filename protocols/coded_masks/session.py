"""One session of LightSecAgg: the stages of a step, who is left after each, and when it stops."""

from __future__ import annotations

import numpy as np

from fgl_secure.algebra import Elements
from fgl_secure.errors import ProtocolError
from fgl_secure.protocols.coded_masks.code import MaskCode
from fgl_secure.protocols.coded_masks.links import Flags, Links
from fgl_secure.protocols.coded_masks.opening import Opening
from fgl_secure.protocols.masking.delivery import Circle
from fgl_secure.protocols.masking.passing import is_vector, passed_on
from fgl_secure.protocols.masking.roles import signed
from fgl_secure.protocols.masking.rules import Rules
from fgl_secure.protocols.relay_coded.cryptography import mask_nonce
from fgl_secure.protocols.vector_sum import Integers, VectorSession, check_rows
from fgl_secure.runtime import Phase, Step


class LightSecAggSession(VectorSession):
    """A scheme at work; see `LightSecAgg`. Keys are exchanged with the first sum."""

    def __init__(self, circle: Circle, rules: Rules, code: MaskCode, links: Links) -> None:
        self._circle, self._rules, self._code, self._links = circle, rules, code, links
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
        check_rows(rows, len(c.senders), self._code.length, rules.bound)
        mask_nonce(step)
        if step in self._done:
            raise ProtocolError(f"a step must be summed once, or its masks would be used twice; found {step} again")
        if self._members is None:
            members = self._links.set_up()
            rules.require(int(members.sum()), "exchange keys for the session", step)
            self._members = members
        self._done.add(step)
        c.channel.note_inputs("vectors", step, c.senders, rows)
        shared, told, held = self._share(step)
        total, survived = self._add_up(rows, shared & (told.sum(axis=1) >= rules.needed), step)
        if c.split:
            total, _ = passed_on(c, rules, total, survived, step)
        mask = Opening(c, rules, self._code, self._links, step).mask(survived, told, held)
        result = rules.field.subtract(total, mask)[(0,) * len(c.channel.batch_shape)]
        return signed(result.astype(np.int64), rules.field.modulus)

    def _share(self, step: Step) -> tuple[Flags, Flags, Elements]:
        """Every sender codes its mask, and gives the others a coded mask each.

        Returns:
            Bool [m], whose reached the aggregator; bool [m, m], of whom each sender holds one, itself included; and
            elements [*batch, m, m, width], by holder and owner, zeros where none.
        """
        c, code, m = self._circle, self._code, self._rules.senders
        assert self._members is not None
        who = np.flatnonzero(self._members)
        self._links.begin(step, who)
        shared, told = np.zeros(m, dtype=np.bool_), np.zeros((m, m), dtype=np.bool_)
        held = np.zeros((*c.channel.batch_shape, m, m, code.width), dtype=code.field.dtype)
        for u in who.tolist():
            coded = self._coded(step, u)
            others = who[who != u]
            shared[u], heard, given = self._links.give(step, u, others, coded[..., others, :])
            told[others[heard], u], told[u, u] = shared[u], True
            held[..., others[heard], u, :] = given[..., heard, :]
            held[..., u, u, :] = coded[..., u, :]
        self._rules.require(int(shared.sum()), "share their coded masks", step)
        return shared, told & shared, held

    def _coded(self, step: Step, u: int) -> Elements:
        """The coded masks of a sender, [*batch, m, width]; nobody keeps the noise."""
        c, code = self._circle, self._code
        owner, p = c.senders[[u]], code.field.modulus
        noise = c.channel.draw("noise", owner, p, code.noise_shape, step)
        return code.encode(self._links.mask(step, u), noise[..., 0, :, :])

    def _add_up(self, rows: Integers, who: Flags, step: Step) -> tuple[Elements, Flags]:
        """Masked vectors, one after another, and their sum, which says nothing until the masks' is known."""
        c, field = self._circle, self._rules.field
        total = np.zeros((*c.channel.batch_shape, self._code.length), dtype=field.dtype)
        survived = np.zeros_like(who)
        for u in np.flatnonzero(who).tolist():
            masked = field.add(self._links.mask(step, u), rows[u])
            here, got = c.up(Phase.MASKED_VECTORS, step, np.array([u]), masked[..., None, :])
            survived[u] = bool(here[0]) and is_vector(c, field, got, u, step)
            if survived[u]:
                total = field.add(total, got[..., 0, :])
        self._rules.require(int(survived.sum()), "send their vectors", step)
        return total, survived
