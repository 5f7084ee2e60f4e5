"""Silos: each decodes the sum of its own devices' products from the relays' answers."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from fgl_secure.algebra.residues import Residues
from fgl_secure.errors import InputError, MalformedMessageError, ProtocolError, StaleMessageError, TooManyErrors
from fgl_secure.protocols.coded_products import plan as names
from fgl_secure.protocols.coded_products.code import silo_decode
from fgl_secure.protocols.coded_products.plan import DIGEST_WORDS, Plan
from fgl_secure.protocols.relay_coded.wire import SUM, Wire
from fgl_secure.protocols.stepwise import CheckpointedMachine, SumTerms
from fgl_secure.runtime import Draws, Messages, Phase, Step
from fgl_secure.typing import Array, Ids


def _repeats(relays: Ids, groups: Ids) -> bool:
    pairs = np.stack([relays, groups])
    return len(np.unique(pairs, axis=1).T) < len(relays)


class Silos(CheckpointedMachine):
    """The owners of sums that one process hosts.

    Args:
        parties: int64 [k], ascending identifiers.
        terms: of the sums.
        plan: what all parties know.
        seal_bytes: what sealing for a public key adds to a message.
        draws: their coins.
    """

    def __init__(self, parties: Ids, terms: SumTerms, plan: Plan, seal_bytes: int, draws: Draws) -> None:
        super().__init__(parties, terms, len(terms.tapes))
        self._plan, self._draws, self._wire = plan, draws, Wire(draws.batch_shape, seal_bytes)
        self._groups = np.flatnonzero(np.isin(plan.grouping.group_owner, parties))
        self._wanted = plan.sizes[self._groups] >= plan.k_min
        self._silent = 0
        self._clear()
        self._waits = False

    def _clear(self) -> None:
        relays, groups = self._plan.R, len(self._groups)
        self._counts: Ids = np.full((relays, groups), -1, dtype=np.int64)
        self._agreed: Ids = np.zeros((relays, groups, DIGEST_WORDS), dtype=np.int64)
        self._given: dict[tuple[int, int], Residues] = {}
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

    def take(self, messages: Messages) -> None:
        """See `Machine.take`: answers of relays."""
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
                self._given[place] = tuple(np.take(share, row, axis=-2) for share in shares)

    def turn(self) -> Iterable[Messages]:
        """Nothing to say; decodes when all answers are there."""
        self._silent = max(self._silent - 1, 0)
        if self._waits and (self._counts >= 0).all():
            self._decode()
        return ()

    def settle(self) -> bool:
        """Makes do with the answers that there are, once nobody has said anything for two turns."""
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
        for group in np.flatnonzero(self._wanted).tolist():
            used = self._agreeing(group)
            if used is not None:
                sums[..., group, :] = self._decoded(group, used)
        self._sums = sums
        self._given = {}

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
        if not len(answered) and (counts == 0).sum() >= plan.needed:
            self.remark(self.now, owner, "too few devices are left for its sum, which is not computed")
            return None
        said, votes = np.unique(self._agreed[answered, group], axis=0, return_counts=True)
        usual = said[votes.argmax()] if len(said) else np.zeros(DIGEST_WORDS, dtype=np.int64)
        used = [j for j in answered.tolist() if np.array_equal(self._agreed[j, group], usual)]
        if len(used) < plan.needed:
            missing = ", ".join(name_of(int(relay)) for j, relay in enumerate(plan.relays) if j not in used)
            raise ProtocolError(
                f"2 T + 1 = {plan.needed} relays must answer {name_of(owner)} for the same devices; found {len(used)} "
                f"in round {self.now.round}, without {missing}"
            )
        for j in set(answered.tolist()) - set(used):
            what = "the relay adds up other devices' products than the rest: its answer is not used"
            self.remark(self.now, int(plan.relays[j]), what)
        left_out = int(plan.sizes[self._groups[group]] - counts[used[0]])
        if left_out:
            self.remark(self.now, owner, f"its sum lacks {left_out} devices, whose shares did not reach every relay")
        return used

    def _decoded(self, group: int, used: list[int]) -> Array:
        plan, name_of = self._plan, self._draws.name_of
        answers = [self._given[j, group] for j in used]
        try:
            found, wrong = silo_decode(plan.fields, plan.T, [j + 1 for j in used], answers, self._draws.coins)
        except TooManyErrors as error:
            relays = ", ".join(name_of(int(plan.relays[j])) for j in used)
            raise ProtocolError(
                f"the answers of {relays} in round {self.now.round} must lie on one polynomial of degree {2 * plan.T}; "
                f"more than {(len(used) - plan.needed) // 2} of them are wrong, and {len(used)} relays tell no more"
            ) from error
        for place in wrong:
            relay = int(plan.relays[used[place]])
            self.remark(self.now, relay, "the relay answered with wrong products, which are corrected")
        return found

    def _arrays(self) -> dict[str, Array]:
        """The answers to the step at hand."""
        arrays: dict[str, Array] = {
            "now": np.array([self._waits, self._silent], dtype=np.int64),
            "counts": self._counts,
            "agreed": self._agreed,
        }
        for (j, group), given in self._given.items():
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
            self._given[int(j), int(group)] = tuple(arrays[f"given/{j}/{group}/{place}"] for place in fields)
