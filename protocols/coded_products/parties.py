"""Devices, which share rows among relays, and silos, which decode the sums of their products."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra import PrimeField, lagrange_matrix
from fgl_secure.algebra.residues import Residues, Words, combine
from fgl_secure.errors import InputError, MalformedMessageError, ProtocolError, StaleMessageError, TooManyErrors
from fgl_secure.protocols.coded_products import plan as names
from fgl_secure.protocols.coded_products.code import silo_decode
from fgl_secure.protocols.coded_products.cryptography import ProductCryptography
from fgl_secure.protocols.coded_products.encoding import EncodedFactors
from fgl_secure.protocols.coded_products.plan import DIGEST_WORDS, LARGEST_BATCH, ProductPlan
from fgl_secure.protocols.relay_coded.agreement import SendersKeys
from fgl_secure.protocols.relay_coded.wire import AUTHENTICATION_BYTES, SHARE, SUM, Wire
from fgl_secure.protocols.stepwise import CheckpointedMachine, SumTerms
from fgl_secure.runtime import Draws, Messages, Phase, Step
from fgl_secure.runtime.packing import within
from fgl_secure.typing import Array, Ids


class _NextAction(IntEnum):
    NOTHING = 0
    START = 1
    AWAIT_KEYS = 2
    SHARES = 3


def _device_shares(
    fields: Sequence[PrimeField], j: int, rows: NDArray[np.signedinteger[Any]], masks: Sequence[Words]
) -> Residues:
    """A device's role: relay j's values of the polynomials through its rows at 0 and its masks at 1 .. T.

    Args:
        fields: of shares.
        j: number of the relay, from 0; those below T hold masks.
        rows: integers [n, d].
        masks: T arrays of words [*batch, n, d], see `words_below`: uniform, secret and never used before.

    Returns:
        Remainders [*batch, n, d] by field.
    """
    nodes = tuple(range(len(masks) + 1))
    if j < len(masks):
        return combine(fields, np.tile([int(node == j + 1) for node in nodes], (len(fields), 1)), rows, masks)
    return combine(fields, np.array([lagrange_matrix(f, nodes, (j + 1,))[0] for f in fields]), rows, masks)


class ProductDevices(CheckpointedMachine):
    """The devices that one process hosts.

    Args:
        parties: int64 [k], ascending identifiers.
        terms: of the sums.
        plan: what all parties know.
        cryptography: what is cryptographic about it.
        draws: their coins.
    """

    def __init__(
        self, parties: Ids, terms: SumTerms, plan: ProductPlan, cryptography: ProductCryptography, draws: Draws
    ) -> None:
        super().__init__(parties, terms, len(terms.tapes))
        self._plan, self._crypto, self._draws = plan, cryptography, draws
        self._wire = Wire(draws.batch_shape)
        expanding = plan.relays[: cryptography.keys.expanded]
        self._agreement = SendersKeys(parties, expanding, cryptography.keys, self._wire, draws)
        self._due, self._shared_once = _NextAction.NOTHING, not plan.layout.static
        self._rows: Array | EncodedFactors = np.empty((0, 0), dtype=np.int64)

    @property
    def numbers_due(self) -> int:
        """How many numbers a device brings to the next step: those that are shared once come with the first."""
        layout = self._plan.layout
        return layout.fresh if self._shared_once else layout.static + layout.fresh

    def begin(self, step: Step, rows: Array | EncodedFactors | None = None) -> None:
        """See `SumMachine.begin`; rows are int64 or int32 [k, awaited], encoded or to be so when they are sent."""
        self._check_new(step)
        shape = (len(self.parties), self.numbers_due)
        if rows is None or rows.shape != shape or rows.dtype not in (np.int64, np.int32):
            raise InputError(
                f"rows must be int64 or int32 {list(shape)}; found {None if rows is None else list(rows.shape)}"
            )
        self._step, self._rows, self._due = step, rows, _NextAction.START
        self._used_up()

    @property
    def sums(self) -> Array | None:
        """None: sums are for silos."""
        return None

    def receive(self, messages: Messages) -> None:
        """See `Machine.receive`: relays' public keys alone."""
        self._check_ends(messages)
        if messages.phase is not Phase.KEYS:
            raise MalformedMessageError(f"messages must be for devices; found {messages.phase.label}")
        self._agreement.receive(messages)

    def step(self) -> Iterable[Messages]:
        """Keys before the first step; then shares."""
        if self._due is _NextAction.START and self._agreement.is_pending:
            self._due = _NextAction.AWAIT_KEYS
            return self._agreement.publish()
        if self._due is _NextAction.AWAIT_KEYS:
            self._due = _NextAction.SHARES
            return ()
        if self._due in (_NextAction.START, _NextAction.SHARES):
            self._due = _NextAction.NOTHING
            return self._send()
        return ()

    def on_idle(self) -> bool:
        """Whether something is due."""
        return self._due is not _NextAction.NOTHING

    def _send(self) -> Iterator[Messages]:
        """Shares of every row, for every relay; those that expand theirs are told of it alone."""
        if self._agreement.is_pending:
            self._agreement.agree()
        for party in self._agreement.left_out.tolist():
            self.remark(self.now, party, "it did not agree on keys with every relay: what it sends is left out")
        once, self._shared_once = not self._shared_once, True
        sending, width = np.flatnonzero(~np.isin(self.parties, self._agreement.left_out)), self._rows.shape[1]
        expanded = self._crypto.keys.expanded
        for relay in self._plan.relays[:expanded].tolist():
            ends = self.parties[sending], np.full(len(sending), relay)
            widths = np.broadcast_to(np.uint32(width), (len(sending),))
            size = widths.itemsize + AUTHENTICATION_BYTES
            yield self._wire.make(Phase.FACTOR_SHARES, self.now, ends, size, {names.WIDTH: widths})
        static = self._plan.layout.static if once else 0
        size, several = self._plan.size(width, static), max(LARGEST_BATCH // max(width, 1), 1)
        for start in range(0, len(sending), several):
            part = sending[start : start + several]
            factors = self._parts(part, once=once)
            for j, relay in enumerate(self._plan.relays[expanded:].tolist(), start=expanded):
                ends = self.parties[part], np.full(len(part), relay)
                fields = self._plan.put(SHARE, self._shares(factors, j))
                yield self._wire.make(Phase.FACTOR_SHARES, self.now, ends, size, fields)
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
        shares = [_device_shares(self._plan.fields[:count], j, rows, masks) for count, rows, masks in parts]
        if len(shares) == 1:
            return shares[0]
        static, fresh = shares
        both = [np.concatenate(item, axis=-1) for item in zip(static, fresh, strict=False)]
        return (*both, *fresh[len(static) :])

    def _arrays(self) -> dict[str, Array]:
        """Keys, and the rows of the current step."""
        now = np.array([self._due, self._shared_once], dtype=np.int64)
        agreed = {f"agreement/{name}": value for name, value in self._agreement.state().items()}
        return {"now": now, "rows": np.asarray(self._rows), **agreed}

    def _take_arrays(self, arrays: dict[str, Array]) -> None:
        """See `CheckpointedMachine._take_arrays`."""
        self._due, self._shared_once = _NextAction(int(arrays["now"][0])), bool(arrays["now"][1])
        self._rows = arrays["rows"]
        self._agreement.restore(within("agreement", arrays))


def _repeats(relays: Ids, groups: Ids) -> bool:
    pairs = np.stack([relays, groups])
    return len(np.unique(pairs, axis=1).T) < len(relays)


class ProductSilos(CheckpointedMachine):
    """The owners of sums that one process hosts.

    Args:
        parties: int64 [k], ascending identifiers.
        terms: of the sums.
        plan: what all parties know.
        draws: their coins.
    """

    def __init__(self, parties: Ids, terms: SumTerms, plan: ProductPlan, draws: Draws) -> None:
        super().__init__(parties, terms, len(terms.tapes))
        self._plan, self._draws, self._wire = plan, draws, Wire(draws.batch_shape)
        self._groups = np.flatnonzero(np.isin(plan.grouping.group_owner, parties))
        self._is_wanted = plan.sizes[self._groups] >= plan.k_min
        self._silent = 0
        self._clear()
        self._waits = False

    def _clear(self) -> None:
        relays, groups = self._plan.R, len(self._groups)
        self._counts: Ids = np.full((relays, groups), -1, dtype=np.int64)
        self._agreed: Ids = np.zeros((relays, groups, DIGEST_WORDS), dtype=np.int64)
        self._arrived_shares: dict[tuple[int, int], Residues] = {}
        self._sums: Array | None = None

    def begin(self, step: Step, rows: Array | None = None) -> None:
        """See `SumMachine.begin`; silos have no rows."""
        self._check_new(step)
        if rows is not None:
            raise InputError("rows must be those of hosted devices, of which there are none; found some")
        self._clear()
        self._step, self._waits, self._silent = step, True, 0
        self._used_up()

    @property
    def sums(self) -> Array | None:
        """int64 [*tapes, k, entries], encoded; 0 where a sum is not computed."""
        return self._sums

    def receive(self, messages: Messages) -> None:
        """See `Machine.receive`: answers of relays."""
        self._check_ends(messages)
        if messages.phase is not Phase.PRODUCT_SHARES:
            raise MalformedMessageError(f"messages must be answers of relays; found {messages.phase.label}")
        if messages.step != self._step or not self._waits:
            raise StaleMessageError("answers must be for sums that are waited for; at least one is not")
        counts = self._wire.read(messages, names.COUNT, "<u4").astype(np.int64)
        agreed = self._wire.read(messages, names.AGREED, "<i8", DIGEST_WORDS)
        shares: Residues | None = None
        if counts.any():
            layout = self._plan.layout
            shares = self._plan.read(self._wire, messages, SUM, layout.entries, layout.static_entries)
        relays = np.searchsorted(self._plan.relays, messages.senders)
        owners = self._plan.grouping.group_owner[self._groups]
        groups = np.searchsorted(owners, messages.receivers)
        known = np.isin(messages.senders, self._plan.relays).all()
        if not known or (self._counts[relays, groups] >= 0).any() or _repeats(relays, groups):
            raise MalformedMessageError("answers must be from relays, one of each to a silo; at least one is not")
        self._counts[relays, groups], self._agreed[relays, groups] = counts, agreed
        for row, place in enumerate(zip(relays.tolist(), groups.tolist(), strict=True)):
            if shares is not None and counts[row]:
                self._arrived_shares[place] = tuple(np.take(share, row, axis=-2) for share in shares)

    def step(self) -> Iterable[Messages]:
        """Nothing to say; decodes when all answers are there."""
        self._silent = max(self._silent - 1, 0)
        if self._waits and (self._counts >= 0).all():
            self._decode()
        return ()

    def on_idle(self) -> bool:
        """Makes do with the answers that there are, once no party has said anything for two turns."""
        if not self._waits:
            return False
        self._silent += 2
        if self._silent > 2:
            self._decode()
        return True

    def _decode(self) -> None:
        shape = (*self._draws.batch_shape, len(self._groups), self._plan.layout.entries)
        sums, self._waits = np.zeros(shape, dtype=np.int64), False
        self._note_silent()
        for group in np.flatnonzero(self._is_wanted).tolist():
            used = self._agreeing(group)
            if used is not None:
                sums[..., group, :] = self._decode_group(group, used)
        self._sums = sums
        self._arrived_shares = {}

    def _note_silent(self) -> None:
        for j in np.flatnonzero((self._counts < 0).all(axis=1)).tolist():
            self.remark(self.now, int(self._plan.relays[j]), "the relay did not answer")

    def _agreeing(self, group: int) -> list[int] | None:
        """The relays whose answers go together; None where too few devices are left for a sum.

        Raises:
            ProtocolError: there are too few of them.
        """
        counts, plan, name_of = self._counts[:, group], self._plan, self._draws.name_of
        owner = int(plan.grouping.group_owner[self._groups[group]])
        answered = np.flatnonzero(counts > 0)
        if not len(answered) and (counts == 0).sum() >= plan.required_relays:
            self.remark(self.now, owner, "too few devices are left for its sum, which is not computed")
            return None
        digests, votes = np.unique(self._agreed[answered, group], axis=0, return_counts=True)
        usual = digests[votes.argmax()] if len(digests) else np.zeros(DIGEST_WORDS, dtype=np.int64)
        used = [j for j in answered.tolist() if np.array_equal(self._agreed[j, group], usual)]
        if len(used) < plan.required_relays:
            missing = ", ".join(name_of(int(relay)) for j, relay in enumerate(plan.relays) if j not in used)
            raise ProtocolError(
                f"2 T + 1 = {plan.required_relays} relays must answer {name_of(owner)} for the same devices; found "
                f"{len(used)} in round {self.now.round}, without {missing}"
            )
        for j in set(answered.tolist()) - set(used):
            text = "the relay adds up other devices' products than the rest: its answer is not used"
            self.remark(self.now, int(plan.relays[j]), text)
        left_out = int(plan.sizes[self._groups[group]] - counts[used[0]])
        if left_out:
            self.remark(self.now, owner, f"its sum lacks {left_out} devices, whose shares did not reach every relay")
        return used

    def _decode_group(self, group: int, used: list[int]) -> Array:
        plan, name_of = self._plan, self._draws.name_of
        answers = [self._arrived_shares[j, group] for j in used]
        try:
            result, errors = silo_decode(plan.fields, plan.T, [j + 1 for j in used], answers, self._draws.coins)
        except TooManyErrors as error:
            relays = ", ".join(name_of(int(plan.relays[j])) for j in used)
            raise ProtocolError(
                f"the answers of {relays} in round {self.now.round} must lie on one polynomial of degree {2 * plan.T}; "
                f"more than {(len(used) - plan.required_relays) // 2} of them are wrong, and {len(used)} relays "
                "tell no more"
            ) from error
        for place in errors:
            relay = int(plan.relays[used[place]])
            self.remark(self.now, relay, "the relay answered with wrong products, which are corrected")
        return result

    def _arrays(self) -> dict[str, Array]:
        """The answers to the current step."""
        arrays: dict[str, Array] = {
            "now": np.array([self._waits, self._silent], dtype=np.int64),
            "counts": self._counts,
            "agreed": self._agreed,
        }
        for (j, group), given in self._arrived_shares.items():
            arrays |= {f"given/{j}/{group}/{place}": share for place, share in enumerate(given)}
        return arrays if self._sums is None else {**arrays, "sums": self._sums}

    def _take_arrays(self, arrays: dict[str, Array]) -> None:
        """See `CheckpointedMachine._take_arrays`."""
        self._clear()
        self._waits, self._silent = bool(arrays["now"][0]), int(arrays["now"][1])
        self._counts, self._agreed, self._sums = arrays["counts"], arrays["agreed"], arrays.get("sums")
        places = {tuple(name.split("/")[1:3]) for name in arrays if name.startswith("given/")}
        for j, group in places:
            fields = range(len(self._plan.fields))
            self._arrived_shares[int(j), int(group)] = tuple(arrays[f"given/{j}/{group}/{place}"] for place in fields)
