"""Relays: they see shares under tags, agree on the messages of a step, and answer with sums to whoever opens a tag."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from fgl_secure.algebra import Elements, Segments
from fgl_secure.errors import InputError, MalformedMessageError, ProtocolError, StaleMessageError
from fgl_secure.protocols.relay_coded import wire
from fgl_secure.protocols.relay_coded.agreement import RelaysKeys
from fgl_secure.protocols.relay_coded.code import added_up, find_tags, is_laid_out, relay_sums
from fgl_secure.protocols.relay_coded.cryptography import Cryptography
from fgl_secure.protocols.relay_coded.holdings import Arrivals, At, Held, Standing
from fgl_secure.protocols.relay_coded.plan import Parameters
from fgl_secure.protocols.relay_coded.silos import within
from fgl_secure.protocols.relay_coded.wire import Wire, by_value, found_among
from fgl_secure.protocols.stepwise import CheckpointedMachine, SumTerms
from fgl_secure.runtime import PAYLOAD, Direction, Draws, LazyArray, Messages, Phase, Step
from fgl_secure.runtime.transcript import Numbers, kind_of
from fgl_secure.typing import Array, Ids

DIGEST_WORDS = 4
DIGEST_BYTES = 32
AGREED_ROWS = "rows"
ROSTER_AXES, ROSTER_COLUMNS, LABELLED_COLUMNS = 3, (3, 4), (2,)
"""Of names and headers: [m, held, name and tag, and a number where senders are unnamed]; no labels in place of tags."""

_CARRYING = (Phase.SHARE_HEADERS, Phase.SHARE_SEEDS, Phase.SHARES)


class Relays(CheckpointedMachine):
    """The relays that one process hosts.

    Args:
        parties: int64 [k], ascending identifiers.
        terms: of the sums; the helpers of their topology are all relays.
        scheme: its parameters.
        cryptography: what is cryptographic about it.
        draws: their coins.
    """

    def __init__(
        self, parties: Ids, terms: SumTerms, scheme: Parameters, cryptography: Cryptography, draws: Draws
    ) -> None:
        super().__init__(parties, terms, len(terms.tapes))
        self._scheme, self._crypto, self._draws = scheme, cryptography, draws
        topology = terms.topology
        self._everybody, grouping = topology.helpers, topology.grouping
        self._least = {
            Direction.FORWARD: scheme.least(grouping, topology.name),
            Direction.BACKWARD: scheme.least(grouping.reverse(), topology.name),
        }
        self._labelled = scheme.labelled(topology.name)
        self._wire = Wire(draws.batch_shape, cryptography.agreement.seal_bytes)
        self._keys = RelaysKeys(parties, cryptography, self._wire, draws)
        self._clear()

    def _clear(self) -> None:
        self._tables: dict[bytes, tuple[Ids, Segments]] = {}
        self._noted: set[int] = set()
        field = self._scheme.field
        expanding = self._everybody[: self._crypto.expanded]
        self._relays = [
            Standing(party, Arrivals(self._wire, field, expands=party in expanding)) for party in self.parties.tolist()
        ]

    def begin(self, step: Step, rows: Array | None = None) -> None:
        """See `SumMachine.begin`; relays have no rows."""
        self._check_new(step)
        if rows is not None:
            raise InputError("rows must be those of hosted devices, of which there are none; found some")
        self._step = step
        self._clear()

    def reset(self) -> None:
        """See `SumMachine.rest`."""
        self._step = None
        self._clear()

    @property
    def sums(self) -> Array | None:
        """None: relays are entitled to nothing."""
        return None

    def receive(self, messages: Messages) -> None:
        """See `Machine.take`."""
        self._check_ends(messages)
        if messages.phase is Phase.KEYS:
            self._keys.take(messages)
            return
        if messages.phase not in (*_CARRYING, Phase.ROSTERS, Phase.FETCH):
            raise MalformedMessageError(f"messages must be for relays; found {messages.phase.label}")
        if messages.step != self._step:
            raise StaleMessageError(f"messages must be of step {self._step}; found {messages.step}")
        by_party = {relay.party: relay for relay in self._relays}
        given = [
            (by_party[party], messages if rows is None else messages.rows(rows))
            for party, rows in by_value(messages.receivers)
        ]
        for relay, part in given:
            self._check(relay, part)
        for relay, part in given:
            self._give(relay, part)
        self._used_up()

    def _check(self, relay: Standing, messages: Messages) -> None:
        if messages.phase in _CARRYING:
            if relay.at not in (At.GATHERING, At.RESENDS, At.RESENT):
                raise StaleMessageError("messages must arrive before relays have agreed on them; at least one did not")
            relay.arrivals.check(messages)
        elif messages.phase is Phase.ROSTERS:
            if not np.isin(messages.senders, self._others(relay)).all():
                raise MalformedMessageError("rosters must be from other relays; at least one is not")
            self._check_roster(messages)
        else:
            self._wire.read(messages, wire.OPENING, "<i8", self._opening_rows, 2)

    @property
    def _opening_rows(self) -> int:
        """How many rows open a sum: one for each relay, or the labels of all of its messages."""
        return self._least[self.now.direction] if self._labelled else len(self._everybody)

    def _check_roster(self, messages: Messages) -> None:
        if messages.fields.keys() not in ({PAYLOAD}, {wire.AGREED}, {AGREED_ROWS}):
            raise MalformedMessageError(f"rosters must be digests or names; found {', '.join(messages.fields)}")
        if AGREED_ROWS not in messages.fields:
            self._wire.read(messages, next(iter(messages.fields)), "<i8", DIGEST_WORDS)
            return
        whole = messages[AGREED_ROWS][(0,) * self._wire.axes]
        if whole.dtype.str != "<i8" or whole.ndim != ROSTER_AXES or whole.shape[2] not in self._roster_columns:
            raise MalformedMessageError("rosters must hold names and headers; at least one does not")
        if not (whole[:, 1:, 0] > whole[:, :-1, 0]).all():
            raise MalformedMessageError("rosters must be in the order of names, each once; at least one is not")

    def _give(self, relay: Standing, messages: Messages) -> None:
        if messages.phase in _CARRYING:
            relay.arrivals.take(messages)
        elif messages.phase is Phase.ROSTERS:
            relay.rosters.append(messages)
            relay.told = True
        else:
            relay.fetches.append(messages)

    def step(self) -> Iterable[Messages]:
        """What each relay says now."""
        out = self._keys.answer()
        for relay in self._relays:
            out += self._next(relay)
            relay.rosters = []
        return out

    def _next(self, relay: Standing) -> Iterator[Messages]:
        """One relay's turn."""
        if relay.at is At.GATHERING:
            if relay.arrivals.any:
                relay.held = self._gathered(relay)
                if len(relay.held):
                    relay.at = At.DIGESTS
                    yield from self._tell(relay, PAYLOAD, self._digest_of(relay.held))
            elif relay.fetches and not relay.told:  # nobody has sent anything
                relay.held, relay.at = self._gathered(relay), At.AGREED
        elif relay.at is At.DIGESTS:
            yield from self._compare(relay)
        elif relay.at is At.NAMES:
            yield from self._settle_names(relay)
        elif relay.at is At.RESENDS:
            relay.at = At.RESENT
        elif relay.at is At.RESENT:
            relay.held = self._gathered(relay)
            yield from self._tell_names(relay)
        elif relay.at is At.CONFIRMING:
            self._confirm(relay)
        if relay.at is At.AGREED and relay.fetches:
            yield from self._answer(relay)

    def _gathered(self, relay: Standing) -> Held:
        """What a relay holds whole, without messages of senders that share no key with it, if it needs one."""
        held = relay.arrivals.held(self._draws.name_of, relay.party, self._remark)
        for other in self._relays:  # they hold the same, which is in memory once
            if other.held is not None and np.array_equal(other.held.names, held.names):
                held = replace(held, names=other.held.names)
                break
        if not self._crypto.keyed or relay.party not in self._everybody[: self._crypto.expanded]:
            return held
        senders = held.names >> 32
        firsts = np.flatnonzero(np.append(True, senders[1:] != senders[:-1])[: len(senders)])
        known = found_among(senders[firsts], self._keys.known(relay.party)) >= 0
        return held if known.all() else held.some(np.flatnonzero(np.repeat(known, np.diff(firsts, append=len(held)))))

    def _remark(self, party: int, what: str) -> None:
        self.remark(self.now, party, what)

    def _others(self, relay: Standing) -> Ids:
        others: Ids = self._everybody[self._everybody != relay.party]
        return others

    def _tell(self, relay: Standing, name: str, digest: Ids) -> Iterator[Messages]:
        others = self._others(relay)
        ends = np.full(len(others), relay.party), others
        fields = {name: np.broadcast_to(digest, (len(others), DIGEST_WORDS))}
        yield self._wire.say(Phase.ROSTERS, self.now, ends, DIGEST_BYTES, fields)

    def _compare(self, relay: Standing) -> Iterator[Messages]:
        """After digests: all that are heard of hold the same, or they tell each other what they hold."""
        said = self._said(relay, PAYLOAD)
        relay.live = np.array([relay.party, *sorted(said)], dtype=np.int64)
        if len(relay.live) <= self._scheme.T:
            self._remark(relay.party, "the relay hears of too few others, and gives no answers in this step")
            relay.at = At.OUT
            return
        for other in self._everybody.tolist():
            if other not in self._noted and other != relay.party and other not in said:
                self._noted.add(other)
                self._remark(other, "the relay is not heard of and is left out of this step")
        assert relay.held is not None, "it has told its digest"
        if all(np.array_equal(digest, self._digest_of(relay.held)) for digest in said.values()):
            relay.at = At.AGREED
            return
        yield from self._tell_names(relay)

    def _said(self, relay: Standing, name: str) -> dict[int, Ids]:
        """What other relays said: digests by party."""
        found: dict[int, Ids] = {}
        for messages in relay.rosters:
            if name in messages.fields:
                digests = self._wire.read(messages, name, "<i8", DIGEST_WORDS)
                found |= dict(zip(messages.senders.tolist(), digests, strict=True))
        return found

    def _tell_names(self, relay: Standing) -> Iterator[Messages]:
        """Names and headers of all that a relay holds, to all that are heard of."""
        held, others = relay.held, relay.live[relay.live != relay.party]
        assert held is not None, "it has told its digest"
        relay.at = At.NAMES
        whole = np.column_stack([held.names, self._header_of(held)])
        fields = {AGREED_ROWS: np.broadcast_to(whole, (len(others), *whole.shape))}
        size = whole.size * whole.itemsize
        yield self._wire.say(Phase.ROSTERS, self.now, (np.full(len(others), relay.party), others), size, fields)

    def _settle_names(self, relay: Standing) -> Iterator[Messages]:
        """After rosters: what others hold is asked for, or what all hold counts."""
        held = relay.held
        assert held is not None, "it has told its roster"
        heard = {party: rows for party, rows in self._rosters(relay).items() if party in relay.live}
        relay.live = np.array([relay.party, *sorted(heard)], dtype=np.int64)
        if len(relay.live) <= self._scheme.T:
            self._remark(relay.party, "the relay hears of too few others, and gives no answers in this step")
            relay.at = At.OUT
            return
        names = {relay.party: held.names, **{party: rows[:, 0] for party, rows in heard.items()}}
        anywhere = np.unique(np.concatenate(list(names.values())))
        self._check_headers(relay, heard)
        if relay.attempts < self._scheme.resends and any(len(each) < len(anywhere) for each in names.values()):
            relay.attempts, relay.at = relay.attempts + 1, At.RESENDS
            yield from self._ask_again(relay, np.setdiff1d(anywhere, held.names))
            return
        counted = anywhere
        for each in names.values():
            counted = np.intersect1d(counted, each)
        self._note_left_out(np.setdiff1d(anywhere, counted))
        relay.held, relay.at = held.some(found_among(counted, held.names)), At.CONFIRMING
        yield from self._tell(relay, wire.AGREED, self._digest_of(relay.held))

    @property
    def _roster_columns(self) -> tuple[int, ...]:
        return LABELLED_COLUMNS if self._labelled else ROSTER_COLUMNS

    def _digest_of(self, held: Held) -> Ids:
        return held.digest(tags=not self._labelled)

    def _header_of(self, held: Held) -> Ids:
        """What relays compare of each message: int64 [m, columns]."""
        tags, numbers = held.tags, held.numbers[:, None]
        if self._labelled:
            return numbers
        return np.concatenate([tags, numbers], axis=1) if len(numbers) else tags

    def _rosters(self, relay: Standing) -> dict[int, Ids]:
        found: dict[int, Ids] = {}
        for messages in relay.rosters:
            if AGREED_ROWS in messages.fields:
                whole = messages[AGREED_ROWS][(0,) * self._wire.axes]
                found |= dict(zip(messages.senders.tolist(), whole, strict=True))
        return found

    def _check_headers(self, relay: Standing, heard: Mapping[int, Ids]) -> None:
        held = relay.held
        assert held is not None, "it has told its roster"
        own = self._header_of(held)
        for other, rows in heard.items():
            at = found_among(rows[:, 0], held.names)
            both = np.flatnonzero(at >= 0)
            wrong = both[(rows[both, 1:] != own[at[both]]).any(axis=1)]
            if len(wrong):
                sender, ends = int(rows[wrong[0], 0]) >> 32, sorted((relay.party, other))
                raise ProtocolError(
                    f"{self._draws.name_of(sender)} must send the same header to every relay; those that reached "
                    f"{self._draws.name_of(ends[0])} and {self._draws.name_of(ends[1])} in round {self.now.round} "
                    "differ"
                )

    def _ask_again(self, relay: Standing, missing: Ids) -> Iterator[Messages]:
        """Asks senders, or the silos that forward for them, for what another relay holds, by slot or place."""
        if len(missing):
            slots = missing & (2**32 - 1)
            slot = slots.astype(np.uint32) if self._scheme.anonymous else slots.astype(np.uint16)
            ends = np.full(len(missing), relay.party), missing >> 32
            yield self._wire.say(Phase.RESENDS, self.now, ends, slot.itemsize, {wire.SLOT: slot})

    def _note_left_out(self, missing: Ids) -> None:
        if -1 in self._noted or not len(missing):
            return
        self._noted.add(-1)
        senders, counts = np.unique(missing >> 32, return_counts=True)
        for sender, count in zip(senders.tolist(), counts.tolist(), strict=True):
            self._remark(sender, f"{count} messages did not reach every relay and are left out")

    def _confirm(self, relay: Standing) -> None:
        """Relays that would count different messages give no answers."""
        said = self._said(relay, wire.AGREED)
        assert relay.held is not None, "it has told what it counts"
        own = self._digest_of(relay.held)
        relay.at = At.AGREED
        others = relay.live[relay.live != relay.party].tolist()
        if not all(other in said and np.array_equal(said[other], own) for other in others):
            self._remark(relay.party, "the relay does not agree with the others on what counts, and gives no answers")
            relay.at = At.OUT

    def _answer(self, relay: Standing) -> Iterator[Messages]:
        """Answers those who open tags, or name labels, each once."""
        fetches, relay.fetches = relay.fetches, []
        place = int(np.searchsorted(self._everybody, relay.party))
        for fetched in fetches:
            messages, shown = fetched, self._wire.read(fetched, wire.OPENING, "<i8", self._opening_rows, 2)
            named = shown if self._labelled else self._crypto.tags.opened(shown, place)[:, None]
            fresh = _fresh(named, relay.answered)
            if len(fresh) < len(named):
                again = f"{len(named) - len(fresh)} tags were fetched again and not answered"
                self._remark(relay.party, again)
                messages, named = messages.rows(fresh), named[fresh]
            relay.answered = np.concatenate([relay.answered, named.reshape(-1, 2)])
            tags = named[:, 0]
            counts, sums = self.labelled_answers(relay, named) if self._labelled else self.answers(relay, tags)
            yield from self._returned(relay, messages, tags, counts, sums)

    def labelled_answers(self, relay: Standing, labels: Ids) -> tuple[Ids, Elements]:
        """What a relay makes of labels [k, each, 2], as `answers`; it refuses a sum that lacks a message."""
        known, by_label = self._table(relay)
        held, each = relay.held, labels.shape[1]
        assert held is not None, "it has agreed on them"
        place = find_tags(labels.reshape(-1, 2), known).reshape(-1, each)
        once = np.append(by_label.sizes == 1, False)  # the last one is for those that are not there
        answered = once[place].all(axis=1)
        rows = by_label.order[by_label.starts[place[answered]]].ravel()
        width = max(held.width, 1)
        out = np.zeros((*self._draws.batch_shape, len(labels), width), dtype=self._scheme.field.dtype)
        if len(rows) and self._is_read_later(held):
            groups = np.repeat(np.arange(len(rows) // each), each)
            out[answered] = self._added_up(relay, held, groups, len(rows) // each, rows)
        elif len(rows):
            if held.shares is None:
                relay.held = held = replace(held, shares=self._expanded(relay, held))
            shares, order = np.asarray(held.shares), np.arange(len(rows), dtype=np.int64)
            chosen, order = (shares, rows) if len(rows) == len(held) else (np.take(shares, rows, axis=-2), order)
            sums = Segments(order, np.arange(0, len(rows) + 1, each, dtype=np.int64))
            out[..., answered, :] = relay_sums(self._scheme.field, chosen, sums, self._wire.axes)
        return np.where(answered, each, 0), out

    def answers(self, relay: Standing, tags: Ids) -> tuple[Ids, Elements]:
        """What a relay makes of opened tags: counts int64 [k], 0 where it refuses, and sums [*batch, k, d]."""
        known, by_tag = self._table(relay)
        sums, sizes = self._sums(relay, by_tag), by_tag.sizes
        if not len(sizes):
            nothing = np.zeros((*sums.shape[:-2], len(tags), sums.shape[-1]), dtype=sums.dtype)
            return np.zeros(len(tags), dtype=np.int64), nothing
        place = find_tags(tags, known)
        answered = (place >= 0) & (sizes[place] >= self._least[self.now.direction])
        out = np.take(sums, np.where(answered, place, 0), axis=-2)
        if not answered.all():
            out[..., ~answered, :] = 0
        return np.where(answered, sizes[place], 0), out

    def _table(self, relay: Standing) -> tuple[Ids, Segments]:
        """Tags and their messages, which are the same at all relays that agree."""
        assert relay.held is not None, "it has agreed on them"
        if relay.table is None and self._labelled:
            relay.table = relay.held.by_tag()
        if relay.table is None:
            digest = relay.held.digest().tobytes()
            if digest not in self._tables:
                self._tables[digest] = relay.held.by_tag()
            relay.table = self._tables[digest]
        return relay.table

    def _sums(self, relay: Standing, by_tag: Segments) -> Elements:
        field, held = self._scheme.field, relay.held
        assert held is not None, "it has agreed on them"
        if relay.sums is None:
            if held.shares is None and not len(held):
                relay.sums = np.zeros((*self._draws.batch_shape, 0, max(held.width, 1)), dtype=field.dtype)
            elif self._is_read_later(held):
                kind = kind_of(len(by_tag))
                groups = np.empty(len(held), dtype=kind)
                groups[by_tag.order] = np.repeat(np.arange(len(by_tag), dtype=kind), by_tag.sizes)
                relay.sums = self._added_up(relay, held, groups, len(by_tag))
            else:
                shares = self._expanded(relay, held) if held.shares is None else np.asarray(held.shares)
                relay.sums = relay_sums(field, shares, by_tag, self._wire.axes)
            relay.arrivals.forget()
        return relay.sums

    def _is_read_later(self, held: Held) -> bool:
        """Whether shares are added up some at a time: they were not laid out, or would be many."""
        if held.shares is None:
            return not is_laid_out((len(held), held.width), self._draws.batch_shape)
        return isinstance(held.shares, LazyArray)

    def _added_up(self, relay: Standing, held: Held, groups: Numbers, count: int, rows: Ids | None = None) -> Elements:
        """Sums of the shares of all messages, or of some, by group."""

        def shares(some: slice) -> Elements:
            places = np.arange(some.start, min(some.stop, len(held))) if rows is None else rows[some]
            if isinstance(held.shares, LazyArray):
                return held.shares.rows(places)
            return self._expanded(relay, held.at(places))

        return added_up(self._scheme.field, shares, groups, count, max(held.width, 1))

    def _expanded(self, relay: Standing, held: Held) -> Elements:
        party = relay.party
        if len(held.seeds):
            return self._crypto.expand(self.now, party, held.names, held.seeds, held.width, None)
        keys = self._keys.of(party)
        return self._crypto.expand(self.now, party, held.names, keys.secrets[0], held.width, keys)

    def _returned(
        self, relay: Standing, messages: Messages, tags: Ids, counts: Ids, sums: Elements
    ) -> Iterator[Messages]:
        """Answers, by way of the silo that fetched, or to the owner itself."""
        ends, step = (np.full(len(tags), relay.party), messages.senders), self.now
        told: dict[str, Array] = {wire.TAG: tags, wire.COUNT: counts.astype(np.uint32)}
        size = sums.shape[-1] * sums.itemsize
        if wire.PLACE in messages.fields:
            whole = told | {wire.SUM: sums, wire.PLACE: messages[wire.PLACE]}
            yield self._wire.say(Phase.SEALED, step, ends, size + wire.COUNT_BYTES, whole, sealed=True)
            return
        yield self._wire.say(Phase.COUNTS, step, ends, wire.COUNT_BYTES, told)
        yield self._wire.say(Phase.SHARE_SUMS, step, ends, size, {wire.TAG: tags, wire.SUM: sums})

    def _arrays(self) -> dict[str, Array]:
        """Keys, and what each relay knows of the step at hand; not behind a tape axis."""
        arrays: dict[str, Array] = {"noted": np.array(sorted(self._noted), dtype=np.int64)}
        arrays |= {f"keys/{name}": value for name, value in self._keys.state().items()}
        for relay in self._relays:
            arrays |= {f"relay/{relay.party}/{name}": value for name, value in relay.state().items()}
        return arrays

    def _take_arrays(self, arrays: dict[str, Array]) -> None:
        """See `CheckpointedMachine._take_arrays`."""
        self._clear()
        self._noted = set(arrays["noted"].tolist())
        self._keys.restore(within("keys", arrays))
        for relay in self._relays:
            relay.restore(within(f"relay/{relay.party}", arrays))


def _fresh(named: Ids, before: Ids) -> Ids:
    """Positions of the rows [k, each, 2] of which everything appears for the first time, and not before."""
    first = _first_of(named.reshape(-1, 2), before)
    found: Ids = np.flatnonzero(np.bincount(first // named.shape[1], minlength=len(named)) == named.shape[1])
    return found


def _first_of(tags: Ids, before: Ids) -> Ids:
    """Positions of the tags [k, 2] that appear for the first time, and not before."""
    if not len(before):
        first_words = np.sort(tags[:, 0])
        if bool((first_words[1:] > first_words[:-1]).all()):
            return np.arange(len(tags))
    everything = np.concatenate([before, tags])
    order = np.lexsort((everything[:, 1], everything[:, 0]))
    in_order = everything[order]
    new = np.ones(len(order), dtype=np.bool_)
    new[1:] = (in_order[1:] != in_order[:-1]).any(axis=1)
    first = np.sort(order[new]) - len(before)
    return first[first >= 0]
