"""How targets have their sums fetched from the relays, and what they make of the answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra import Elements, PrimeField, Segments
from fgl_secure.errors import ProtocolError, TooManyErrors
from fgl_secure.protocols.relay_delivery import AUTHENTICATION_BYTES, SEAL_BYTES, TAG_BYTES, Held, carried
from fgl_secure.protocols.relay_roles import grouped_by_tag, relay_answers, tags_of, target_decode
from fgl_secure.protocols.topology import Grouping, Ids
from fgl_secure.runtime import Channel, Delivery, Phase, Step

FETCH_BYTES = TAG_BYTES + SEAL_BYTES
COUNT_BYTES = 4 + AUTHENTICATION_BYTES


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """The messages that relays agreed to count, which is one for all of them.

    Attributes:
        agreed: bool [m], which messages they are; None for all.
        tags: int64 [t, 2], in ascending order.
        by_tag: which of the agreed messages bear each tag.
    """

    agreed: NDArray[np.bool_] | None
    tags: Ids
    by_tag: Segments

    @classmethod
    def of(cls, headers: Ids, agreed: NDArray[np.bool_]) -> Table:
        """Groups the agreed ones of headers int64 [m, h] by their tags."""
        everything = bool(agreed.all())
        return cls(None if everything else agreed, *grouped_by_tag((headers if everything else headers[agreed])[:, :2]))


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """What one relay's answers are by group.

    Attributes:
        there: bool [g], which groups' owners got both count and sum.
        counts: int64 [g], messages in each sum; 0 where the relay refuses.
        sums: elements [*batch, g, d].
    """

    there: NDArray[np.bool_]
    counts: Ids
    sums: Elements


@dataclass(frozen=True, slots=True, eq=False)
class Fetch:
    """The fetching of one step.

    Attributes:
        channel: between the parties.
        field: of the shares.
        T: degree of the polynomials.
        k_min: least messages of a sum that a target decodes.
        least: least messages under a tag for which a relay answers.
        step: when.
        way: the messages that go into sums.
        openings: int64 [g, 2], of the groups' tags.
        points: for each relay that is alive its point.
    """

    channel: Channel
    field: PrimeField
    T: int
    k_min: int
    least: int
    step: Step
    way: Grouping
    openings: Ids
    points: tuple[int, ...]

    def sums(self, held: list[Held], agreed: NDArray[np.bool_]) -> Elements:
        """Every target has its sum fetched from every relay, and decodes: elements [*batch, g, d].

        Args:
            held: what each relay has, in the order of `points`.
            agreed: bool [m], which messages count.

        Raises:
            ProtocolError: fewer than T + 1 relays answered, or they disagree in more places than can be corrected.
        """
        groups, axis = len(self.openings), self._axis
        table = Table.of(held[0].headers[(0,) * axis], agreed)
        answers = [self._answer(each, table) for each in held]
        entitled = np.bincount(self.way.target, minlength=groups) >= self.k_min
        self._note_silent(held, answers, entitled)
        got = self._with_equal_counts(held, answers, entitled)
        sums = np.zeros((*self.channel.batch_shape, groups, held[0].shares.shape[-1]), dtype=self.field.dtype)
        for pattern in np.unique(got[:, entitled], axis=1).T:
            here = entitled & (got == pattern[:, None]).all(axis=0)
            heard = np.flatnonzero(pattern)
            self._require_enough(held, pattern)
            stacked = np.stack([np.take(answers[j].sums, np.flatnonzero(here), axis=axis) for j in heard])
            sums[..., here, :] = self._decoded(stacked, [held[j] for j in heard], [self.points[j] for j in heard])
        self._note_refused(got, answers, entitled)
        return sums

    @property
    def _axis(self) -> int:
        return len(self.channel.batch_shape)

    def _answer(self, held: Held, table: Table) -> Answers:
        """One relay answers what is fetched."""
        channel, way, tags = self.channel, self.way, tags_of(self.openings)
        order = np.argsort(tags[:, 0])  # silos forward in an order that tells nothing
        proxied = order[way.group_owner[order] != way.group_custodian[order]]
        channel.send_sizes(Phase.SEALED, self.step, way.group_owner[proxied], way.group_custodian[proxied], FETCH_BYTES)
        fetches = self._on_every_tape(np.concatenate([tags, self.openings], axis=1)[order])
        to = np.full(len(order), held.relay)
        asked = carried(
            channel, Phase.FETCH, self.step, way.group_custodian[order], to, fetches, wire_bytes=FETCH_BYTES
        )
        rows = order if asked.rows is None else order[asked.rows]
        once = np.sort(np.unique(rows, return_index=True)[1])
        if len(once) < len(rows):
            again = f"{len(rows) - len(once)} tags were fetched again and not answered"
            channel.note_incident(self.step, held.relay, again)
        counts, sums = self._relay_answers(held, table, asked.payload[(0,) * self._axis][once])
        return self._returned(held.relay, rows[once], counts, sums)

    def _relay_answers(self, held: Held, table: Table, wanted: Ids) -> tuple[Ids, Elements]:
        """What a relay makes of fetches [k, 4]: counts [k], 0 where it refuses, and sums [*batch, k, d]."""
        shares = held.shares
        if table.agreed is not None:
            shares = np.compress(table.agreed, shares, axis=self._axis)
        return relay_answers(self.field, shares, table.tags, table.by_tag, wanted, self.least, self._axis)

    def _shape(self, rows: Ids, like: Elements) -> tuple[int, ...]:
        return (*self.channel.batch_shape, len(rows), like.shape[-1])

    def _returned(self, relay: int, fetched: Ids, counts: Ids, sums: Elements) -> Answers:
        """Sends the answers back by way of the silos, and puts what arrives in the order of the groups."""
        channel, way, step = self.channel, self.way, self.step
        size = sums.shape[-1] * sums.itemsize + COUNT_BYTES
        back = fetched[way.group_owner[fetched] != way.group_custodian[fetched]]
        channel.send_sizes(Phase.SEALED, step, np.full(len(back), relay), way.group_custodian[back], size)
        sender, owners = np.full(len(fetched), relay), way.group_owner[fetched]
        counted = self._on_every_tape(counts[:, None])
        told = carried(channel, Phase.COUNTS, step, sender, owners, counted, wire_bytes=COUNT_BYTES)
        given = carried(channel, Phase.SHARE_SUMS, step, sender, owners, sums)
        groups = np.arange(len(self.openings))
        there = np.isin(groups, _groups(told, fetched)) & np.isin(groups, _groups(given, fetched))
        by_group = np.zeros_like(groups)
        by_group[_groups(told, fetched)] = told.payload[(0,) * self._axis][:, 0]
        out = np.zeros(self._shape(by_group, sums), dtype=sums.dtype)
        out[..., _groups(given, fetched), :] = given.payload
        return Answers(there, by_group, out)

    def _with_equal_counts(
        self, held: list[Held], answers: list[Answers], entitled: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """Which answers are used, bool [relays, g]: who counts otherwise than the rest has summed otherwise."""
        got, counts = np.array([each.there for each in answers]), np.array([each.counts for each in answers])
        usual = np.take_along_axis(counts, got.argmax(axis=0)[None], axis=0)
        for group in np.flatnonzero((got & (counts != usual)).any(axis=0) & entitled):
            said, votes = np.unique(counts[got[:, group], group], return_counts=True)
            wrong = got[:, group] & (counts[:, group] != said[votes.argmax()])
            if int(wrong.sum()) > self._correctable(int(got[:, group].sum())):
                each = ", ".join(f"{self._name(r.relay)} {c}" for r, c in zip(held, counts[:, group], strict=True))
                owner = self._name(int(self.way.group_owner[group]))
                raise ProtocolError(
                    f"relays must count the same messages in the sum for {owner} in round {self.step.round}; "
                    f"found {each}"
                )
            got[wrong, group] = False
            for j in np.flatnonzero(wrong):
                self.channel.note_incident(self.step, held[j].relay, "the relay counts otherwise: its sum is not used")
        return got

    def _require_enough(self, held: list[Held], heard: NDArray[np.bool_]) -> None:
        if heard.sum() <= self.T:
            silent = ", ".join(self._name(held[j].relay) for j in np.flatnonzero(~heard))
            raise ProtocolError(
                f"T + 1 = {self.T + 1} relays must answer; found {int(heard.sum())} in round {self.step.round}, "
                f"without {silent}"
            )

    def _note_silent(self, held: list[Held], answers: list[Answers], entitled: NDArray[np.bool_]) -> None:
        for each, answer in zip(held, answers, strict=True):
            missing = int((entitled & ~answer.there).sum())
            if missing:
                self.channel.note_incident(self.step, each.relay, f"{missing} answers of the relay did not arrive")

    def _note_refused(self, got: NDArray[np.bool_], answers: list[Answers], entitled: NDArray[np.bool_]) -> None:
        counts = np.array([each.counts for each in answers])
        for group in np.flatnonzero(entitled & (np.where(got, counts, 0) == 0).all(axis=0)):
            owner = int(self.way.group_owner[group])
            self.channel.note_incident(self.step, owner, "too few messages are left for its sum, which is not computed")

    def _decoded(self, stacked: Elements, held: list[Held], points: list[int]) -> Elements:
        try:
            sums, wrong = target_decode(self.field, self.T, points, stacked, self.channel.coins)
        except TooManyErrors as error:
            names = ", ".join(self._name(each.relay) for each in held)
            raise ProtocolError(
                f"the sums of {names} in round {self.step.round} must lie on one polynomial of degree {self.T}; more "
                f"than {self._correctable(len(points))} of them are wrong, and {len(points)} relays tell no more"
            ) from error
        for position in wrong:
            what = "the relay answered with wrong sums, which are corrected"
            self.channel.note_incident(self.step, held[position].relay, what)
        return sums

    def _correctable(self, relays: int) -> int:
        return max((relays - self.T - 1) // 2, 0)

    def _name(self, party: int) -> str:
        return str(self.channel.parties.party_of(party))

    def _on_every_tape(self, values: NDArray[Any]) -> NDArray[Any]:
        return np.broadcast_to(values, (*self.channel.batch_shape, *values.shape))


def _groups(delivery: Delivery, fetched: Ids) -> Ids:
    """The group of each answer that arrived."""
    return fetched if delivery.rows is None else fetched[delivery.rows]
