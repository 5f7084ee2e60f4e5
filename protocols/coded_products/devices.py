"""Devices: they share the rows whose products are their gradients among relays, and hear nothing more of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import IntEnum

import numpy as np

from fgl_secure.algebra.residues import Residues, Words
from fgl_secure.errors import InputError, MalformedMessageError
from fgl_secure.protocols.coded_products import plan as names
from fgl_secure.protocols.coded_products.code import device_shares
from fgl_secure.protocols.coded_products.cryptography import ProductCryptography
from fgl_secure.protocols.coded_products.factors import Encoded
from fgl_secure.protocols.coded_products.plan import LARGEST_BATCH, Plan
from fgl_secure.protocols.relay_coded.agreement import SendersKeys
from fgl_secure.protocols.relay_coded.silos import within
from fgl_secure.protocols.relay_coded.wire import AUTHENTICATION_BYTES, SHARE, Wire
from fgl_secure.protocols.stepwise import CheckpointedMachine, SumTerms
from fgl_secure.runtime import Draws, Messages, Phase, Step
from fgl_secure.typing import Array, Ids


class _Due(IntEnum):
    NOTHING = 0
    START = 1
    AWAIT_KEYS = 2
    SHARES = 3


class Devices(CheckpointedMachine):
    """The devices that one process hosts.

    Args:
        parties: int64 [k], ascending identifiers.
        terms: of the sums.
        plan: what all parties know.
        cryptography: what is cryptographic about it.
        draws: their coins.
    """

    def __init__(
        self, parties: Ids, terms: SumTerms, plan: Plan, cryptography: ProductCryptography, draws: Draws
    ) -> None:
        super().__init__(parties, terms, len(terms.tapes))
        self._plan, self._crypto, self._draws = plan, cryptography, draws
        self._wire = Wire(draws.batch_shape, cryptography.keys.agreement.seal_bytes)
        expanding = plan.relays[: cryptography.keys.expanded]
        self._agreement = SendersKeys(parties, expanding, cryptography.keys, self._wire, draws)
        self._due, self._shared_once = _Due.NOTHING, not plan.layout.static
        self._rows: Array | Encoded = np.empty((0, 0), dtype=np.int64)

    @property
    def awaited(self) -> int:
        """How many numbers a device brings to the next step: those that are shared once come with the first."""
        layout = self._plan.layout
        return layout.fresh if self._shared_once else layout.static + layout.fresh

    def begin(self, step: Step, rows: Array | Encoded | None = None) -> None:
        """See `SumMachine.begin`; rows are int64 or int32 [k, awaited], encoded or to be so when they are sent."""
        self._check_new(step)
        shape = (len(self.parties), self.awaited)
        if rows is None or rows.shape != shape or rows.dtype not in (np.int64, np.int32):
            raise InputError(
                f"rows must be int64 or int32 {list(shape)}; found {None if rows is None else list(rows.shape)}"
            )
        self._step, self._rows, self._due = step, rows, _Due.START
        self._used_up()

    @property
    def sums(self) -> Array | None:
        """None: sums are for silos."""
        return None

    def take(self, messages: Messages) -> None:
        """See `Machine.take`: relays' public keys alone."""
        self._check_ends(messages)
        if messages.phase is not Phase.KEYS:
            raise MalformedMessageError(f"messages must be for devices; found {messages.phase.label}")
        self._agreement.take(messages)

    def turn(self) -> Iterable[Messages]:
        """Keys before the first step; then shares."""
        if self._due is _Due.START and self._agreement.due:
            self._due = _Due.AWAIT_KEYS
            return self._agreement.publish()
        if self._due is _Due.AWAIT_KEYS:
            self._due = _Due.SHARES
            return ()
        if self._due in (_Due.START, _Due.SHARES):
            self._due = _Due.NOTHING
            return self._send()
        return ()

    def settle(self) -> bool:
        """Whether something is due."""
        return self._due is not _Due.NOTHING

    def _send(self) -> Iterator[Messages]:
        """Shares of every row, for every relay; those that expand theirs are told of it alone."""
        if self._agreement.due:
            self._agreement.agree()
        for party in self._agreement.left_out.tolist():
            self.remark(self.now, party, "it did not agree on keys with every relay: what it sends is left out")
        once, self._shared_once = not self._shared_once, True
        kept, width = np.flatnonzero(~np.isin(self.parties, self._agreement.left_out)), self._rows.shape[1]
        expanded = self._crypto.keys.expanded
        for relay in self._plan.relays[:expanded].tolist():
            ends = self.parties[kept], np.full(len(kept), relay)
            told = np.broadcast_to(np.uint32(width), (len(kept),))
            size = told.itemsize + AUTHENTICATION_BYTES
            yield self._wire.say(Phase.FACTOR_SHARES, self.now, ends, size, {names.WIDTH: told})
        static = self._plan.layout.static if once else 0
        size, several = self._plan.size(width, static), max(LARGEST_BATCH // max(width, 1), 1)
        for start in range(0, len(kept), several):
            part = kept[start : start + several]
            factors = self._parts(part, once=once)
            for j, relay in enumerate(self._plan.relays[expanded:].tolist(), start=expanded):
                ends = self.parties[part], np.full(len(part), relay)
                fields = self._plan.put(SHARE, self._shares(factors, j))
                yield self._wire.say(Phase.FACTOR_SHARES, self.now, ends, size, fields)
        self._rows = np.empty((0, 0), dtype=np.int64)

    def _parts(self, part: Ids, *, once: bool) -> list[tuple[int, Array, list[Words]]]:
        """Fields, rows and masks of some devices: of what is shared once, where that is due, and of what is fresh."""
        static, keys = self._plan.layout.static if once else 0, self._agreement.keys
        chosen = np.asarray(self._rows) if len(part) == len(self._rows) else self._rows[part]
        sides = [(chosen[:, :static], True)] if once else []
        sides.append((chosen[:, static:], False))
        of = {True: self._plan.static_fields, False: len(self._plan.fields)}
        return [
            (
                of[first],
                rows,
                self._crypto.masks(self._draws, self.now, self.parties[part], rows.shape[1], keys, once=first),
            )
            for rows, first in sides
            if rows.shape[1]
        ]

    def _shares(self, parts: list[tuple[int, Array, list[Words]]], j: int) -> Residues:
        """Relay j's by field, [*tapes, k, d]: what is shared once ahead of what is fresh, where a field holds both."""
        found = [device_shares(self._plan.fields[:count], j, rows, masks) for count, rows, masks in parts]
        if len(found) == 1:
            return found[0]
        static, fresh = found
        both = [np.concatenate(each, axis=-1) for each in zip(static, fresh, strict=False)]
        return (*both, *fresh[len(static) :])

    def _arrays(self) -> dict[str, Array]:
        """Keys, and the rows of the step at hand."""
        now = np.array([self._due, self._shared_once], dtype=np.int64)
        agreed = {f"agreement/{name}": value for name, value in self._agreement.state().items()}
        return {"now": now, "rows": np.asarray(self._rows), **agreed}

    def _take_arrays(self, arrays: dict[str, Array]) -> None:
        """See `CheckpointedMachine._take_arrays`."""
        self._due, self._shared_once = _Due(int(arrays["now"][0])), bool(arrays["now"][1])
        self._rows = arrays["rows"]
        self._agreement.restore(within("agreement", arrays))
