"""Silos that mix: what unnamed senders send a relay passes two silos, the sender's own and one drawn for the message.

The first knows from whom a message is, the second hands it to the relay. So a relay sees each message come from a silo
that was drawn at random, whatever the graph, and no silo sees more than how many messages its devices send.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from fgl_secure.errors import MalformedMessageError
from fgl_secure.protocols.relay_coded import wire
from fgl_secure.protocols.relay_coded.silos import (
    Forwarding,
    answered,
    as_array,
    numbered,
    openings_of,
    relay_of,
    within,
)
from fgl_secure.protocols.relay_coded.wire import Wire, by_value, found_among, names_of, ordered
from fgl_secure.runtime import Messages, Phase, Step
from fgl_secure.typing import Array, Ids

Coins = Callable[[Step, Ids, int], Ids]
"""Draws int64 [m, 2] for messages of some silos, of which so many came before: see `Cryptography.ways`."""

_NONE: Ids = np.empty(0, dtype=np.int64)
_MOST_SMALL = 2**16


class Ways:
    """What the silos of a process know of messages that they have handed on.

    Attributes:
        names: int64 [m]: what tells the messages apart, in the order in which they were added.
        known: int64 [k, m], what is known of each; the silo that handed it on comes first.
        leaving: int64 [m], the order in which all of them leave, where they were added at one go; None else.
    """

    def __init__(self, names: Ids = _NONE, known: Ids | None = None) -> None:
        self.names, self.known = names, known
        self.leaving: Ids | None = None
        self._ascending: tuple[Ids, Ids] | None = None

    def missing(self, names: Ids) -> Ids:
        """int64, the places of those that are not there, each at its first appearance."""
        new = np.flatnonzero(self._at(names) < 0)
        found = names[new]
        if (found[1:] > found[:-1]).all():
            return new
        in_order = np.sort(found)
        if (in_order[1:] == in_order[:-1]).any():
            _, first = np.unique(names[new], return_index=True)
            new = np.sort(new[first])
        return new

    def _at(self, names: Ids) -> Ids:
        """int64 [m]: the places of messages, -1 for those that are not there."""
        if np.array_equal(names, self.names):
            return np.arange(len(names))
        if self._ascending is None:
            order = np.argsort(self.names)
            self._ascending = order, self.names[order]
        order, ascending = self._ascending
        at = found_among(names, ascending)
        return np.where(at < 0, -1, order[at]) if len(order) else at

    def before(self, silos: Ids) -> Ids:
        """int64 [m], how many messages each of some silos has handed on."""
        if self.known is None:
            return np.zeros(len(silos), dtype=np.int64)
        whole = np.bincount(self.known[0], minlength=int(silos.max(initial=0)) + 1)
        return whole[silos].astype(np.int64)

    def add(self, names: Ids, *known: Ids, leaving: Ids | None = None) -> None:
        """Adds some that are not there; `leaving` is their order, which stands if nothing was there."""
        columns = np.stack(known)
        self.leaving = leaving if self.known is None else None
        self.known = columns if self.known is None else np.concatenate([self.known, columns], axis=1)
        self.names, self._ascending = np.concatenate([self.names, names]), None

    def of(self, names: Ids) -> tuple[Ids, Ids | None]:
        """int64 [k, m], what is known of some, and the order in which they leave, if they were added at one go.

        Raises:
            MalformedMessageError: one is not there.
        """
        if self.known is not None and np.array_equal(names, self.names):
            return self.known, self.leaving
        at = self._at(names)
        if (at < 0).any() or self.known is None:
            raise MalformedMessageError("answers must be for what was fetched by way of the silo; one is not")
        return self.known[:, at], None

    def state(self) -> dict[str, Array]:
        """All of it but orders, which follow."""
        return {} if self.known is None else {"names": self.names, "known": self.known}

    @classmethod
    def of_state(cls, state: Mapping[str, Array]) -> Ways:
        """Reads such arrays."""
        return cls(state["names"], state["known"]) if state else cls()


class Mixing(Forwarding):
    """What the silos that one process hosts forward for their own devices, and for each other's.

    A silo draws for each message of its devices by way of which silo it goes on; the copies for all relays go the same
    way, as relays compare what they hold. Those that go by way of a silo leave it in an order that it draws. Answers
    come back as fetches went. A silo by way of which no answer came in a step is left out in later ones, until it is
    heard of again.

    Args:
        wire_: makes messages.
        silos: int64 [s], ascending: all of them.
        coins: of the hosted ones.
    """

    def __init__(self, wire_: Wire, silos: Ids, coins: Coins) -> None:
        self._silos, self._coins = silos, coins
        self._quiet: Ids = _NONE
        self._heard: Ids = _NONE
        self._fetched: dict[int, Ways] = {}
        super().__init__(wire_)

    def clear(self) -> None:
        """Forgets what was forwarded, but not who forwarded nothing: another step begins."""
        asked = [names_of(known[0], known[2]) for ways in self._fetched.values() if (known := ways.known) is not None]
        tried = np.unique(np.concatenate([*asked, self._quiet]))
        self._quiet, self._heard = np.setdiff1d(tried, self._heard), _NONE
        self._arrived: list[Messages] = []
        self._behind: list[Iterable[Messages]] = []
        self._sent: list[Messages] = []
        self._passed, self._placed = Ways(), Ways()
        self._fetched.clear()
        self._asked_for: dict[int, Ways] = {}
        super().clear()

    def is_for(self, messages: Messages) -> bool:
        """Whether messages are for somebody who forwards: sealed ones, and requests for what silos forwarded."""
        return messages.phase in (Phase.SEALED, Phase.MIXED, Phase.RESENDS)

    def queue_behind(self, messages: Iterable[Messages]) -> None:
        """See `Forwarding.queue_behind`: a turn later, as messages pass two silos."""
        self._behind.append(messages)

    def leave(self, step: Step | None) -> list[Messages]:
        """What leaves now: what other silos handed over leaves together, in an order that is drawn."""
        out = super().leave(step)
        self._leaving, self._behind = self._behind, []
        arrived, self._arrived = self._arrived, []
        fetches = [messages for messages in arrived if wire.OPENING in messages.fields]
        shares = [messages for messages in arrived if wire.OPENING not in messages.fields]
        return [*out, *self._shares_for_relays(shares), *self._fetches_for_relays(fetches)]

    def take(self, messages: Messages) -> None:
        """Takes sealed messages, and requests, of the step at hand.

        Raises:
            MalformedMessageError: they are none, or are for nobody.
        """
        if messages.phase is Phase.RESENDS:
            self._again(messages)
            return
        answers, fetches = wire.SUM in messages.fields, wire.OPENING in messages.fields
        if messages.phase is Phase.MIXED:
            if not np.isin(messages.senders, self._silos).all():
                raise MalformedMessageError("messages to be handed on must be from silos; at least one is not")
            if answers:
                self._to_devices(messages)
            else:
                relay_of(messages, self._wire)
                self._wire.read(messages, wire.PLACE, "<u4")
                self._arrived.append(messages)
            self._heard = np.union1d(self._heard, self._pairs(messages))
        elif answers:
            self._back(messages)
        elif fetches:
            self._pass_fetches(messages)
        else:
            self._pass_shares(messages)

    def _pairs(self, messages: Messages) -> Ids:
        """Names of who was heard by whom."""
        first, kinds = self._range
        by, of = np.divmod(np.flatnonzero(np.bincount(self._pair(messages.receivers, messages.senders))), kinds)
        return names_of(by + first, of + first)

    @property
    def _range(self) -> tuple[int, int]:
        """The first silo, and how many numbers there are up to the last."""
        return int(self._silos[0]), int(self._silos[-1] - self._silos[0]) + 1

    def _pair(self, ones: Ids, others: Ids) -> Ids:
        """One number for each pair of silos, small ones."""
        first, kinds = self._range
        return (ones - first) * kinds + (others - first)

    def _drawn(self, step: Step, silos: Ids, ways: Ways) -> tuple[Ids, Ids, Ids]:
        """Coins of some silos for messages, by others their order, by silo, and their places at each in that order."""
        coins = self._coins(step, silos, len(ways.names))
        order, places = ordered(silos, coins[:, 1])
        return coins[:, 0], order, ways.before(silos) + places

    def _by_ends(self, order: Ids, senders: Ids, receivers: Ids) -> Ids:
        """An order by sender, then receiver, of messages of silos that are in order for each sender."""
        pairs, (_, kinds) = self._pair(senders, receivers), self._range
        small = np.uint16 if kinds**2 <= _MOST_SMALL else np.int64  # the former numpy sorts by counting
        return order[np.argsort(pairs[order].astype(small), kind="stable")]

    def _chosen(self, silos: Ids, coins: Ids) -> Ids:
        """By way of whom messages of some silos go on."""
        out = self._silos[coins % len(self._silos)]
        for silo in np.unique(self._quiet >> 32).tolist():
            lives = np.setdiff1d(self._silos, self._quiet[self._quiet >> 32 == silo] & (2**32 - 1))
            of_it = silos == silo
            out[of_it] = lives[coins[of_it] % len(lives)] if len(lives) else out[of_it]
        return out

    def _pass_shares(self, messages: Messages) -> None:
        """Messages of unnamed devices: to a silo that is drawn for each."""
        names = names_of(messages.senders, self._wire.read(messages, wire.PLACE, "<u4"))
        relay_of(messages, self._wire)
        new = self._passed.missing(names)
        if len(new):
            silos = messages.receivers[new]
            coins, order, places = self._drawn(messages.step, silos, self._passed)
            through = self._chosen(silos, coins)
            self._passed.add(names[new], silos, places, through, leaving=self._by_ends(order, silos, through))
        (_, places, through), leaving = self._passed.of(names)
        if leaving is None:
            leaving = self._by_ends(np.argsort(places), messages.receivers, through)
        self.queue([self._mixed(messages, through, places, leaving)])

    def _pass_fetches(self, messages: Messages) -> None:
        relay, silos = relay_of(messages, self._wire), messages.receivers
        openings_of(messages, self._wire)
        ways = self._fetched.setdefault(relay, Ways())
        coins, _, places = self._drawn(messages.step, silos, ways)
        through = self._chosen(silos, coins)
        ways.add(names_of(silos, places), silos, messages.senders, through)
        leaving = self._by_ends(np.argsort(places), silos, through)
        self.queue([self._mixed(messages, through, places, leaving)])

    def _mixed(self, messages: Messages, through: Ids, places: Ids, order: Ids) -> Messages:
        """Messages of devices as their silos hand them to others: under places, and in the order of these."""
        ends = messages.receivers, through
        fields = {name: value for name, value in messages.fields.items() if name != wire.PLACE}
        whole = self._wire.say(
            Phase.MIXED, messages.step, ends, messages.item_bytes,
            fields | {wire.PLACE: places.astype(np.uint32)}, sealed=True,
        )  # fmt: skip
        return whole.rows(order)

    def _shares_for_relays(self, arrived: Sequence[Messages]) -> list[Messages]:
        """What other silos handed over, as relays open it: from the silos hosted here, by places that these draw."""
        if not arrived:
            return []
        batches = [(names_of(each.senders, self._wire.read(each, wire.PLACE, "<u4")), each) for each in arrived]
        for names, each in batches:
            new = self._placed.missing(names)
            if len(new):
                silos = each.receivers[new]
                _, order, places = self._drawn(each.step, silos, self._placed)
                self._placed.add(names[new], silos, places, leaving=order)
        out = []
        for together in alike(batches, self._wire).values():
            messages = joined([each for _, each in together])
            (_, places), leaving = self._placed.of(np.concatenate([each for each, _ in together]))
            order = ordered(messages.receivers, places)[0] if leaving is None else leaving
            out += self._opened(messages.rows(order), places[order])
        self._sent += out
        return out

    def _opened(self, messages: Messages, places: Ids) -> list[Messages]:
        named = (wire.TAG, wire.ATTEMPT, wire.NUMBER, wire.SEED, wire.WIDTH)
        header = {name: messages[name] for name in named if name in messages.fields}
        slots = {wire.SLOT: places.astype(np.uint32)}
        ends = messages.receivers, np.full(len(messages), relay_of(messages, self._wire))
        seeded = wire.SEED in header
        phase = Phase.SHARE_SEEDS if seeded else Phase.SHARE_HEADERS
        size = self._wire.sealed_header_bytes + (wire.SEED_BYTES if seeded else 0)
        out = [self._wire.say(phase, messages.step, ends, size, header | slots)]
        if wire.SHARE in messages.fields:
            share = messages[wire.SHARE]
            body = {wire.SHARE: share} | slots
            out.append(self._wire.say(Phase.SHARES, messages.step, ends, share.shape[-1] * share.itemsize, body))
        return out

    def _again(self, messages: Messages) -> None:
        """Sends what a relay asks for again; it is asked for by its place, as tags are not a silo's business."""
        wanted = names_of(messages.receivers, self._wire.read(messages, wire.SLOT, "<u4"))
        for batch in self._sent:
            asked = messages.senders == batch.receivers[0]
            if asked.any():
                known = names_of(batch.senders, self._wire.read(batch, wire.SLOT, "<u4"))
                again = np.isin(known, wanted[asked])
                self.queue([batch.rows(again)] if again.any() else [])

    def _fetches_for_relays(self, arrived: Sequence[Messages]) -> list[Messages]:
        batches = [(names_of(each.senders, self._wire.read(each, wire.PLACE, "<u4")), each) for each in arrived]
        out = []
        for together in alike(batches, self._wire).values():
            messages, names = joined([each for _, each in together]), np.concatenate([each for each, _ in together])
            relay, silos = relay_of(messages, self._wire), messages.receivers
            ways = self._asked_for.setdefault(relay, Ways())
            _, _, places = self._drawn(messages.step, silos, ways)
            ways.add(names_of(silos, places), silos, names)
            order, _ = ordered(silos, places)
            opening = openings_of(messages, self._wire)
            fields = {wire.OPENING: opening, wire.PLACE: places.astype(np.uint32)}
            size = self._wire.fetch_bytes(opening.shape[-2])
            ends = silos, np.full(len(silos), relay)
            out.append(self._wire.say(Phase.FETCH, messages.step, ends, size, fields).rows(order))
        return out

    def _back(self, messages: Messages) -> None:
        """Answers of relays, to the silos that handed the fetches over."""
        places = self._wire.read(messages, wire.PLACE, "<u4")
        outgoing: list[Messages] = []  # queued once all relays' answers are checked: a refusal changes nothing
        for relay, rows in by_value(messages.senders):
            part, at = (messages, places) if rows is None else (messages.rows(rows), places[rows])
            (_, names), _ = self._asked_for.get(relay, Ways()).of(names_of(part.receivers, at))
            fields = dict(part.fields) | {
                wire.PLACE: (names & (2**32 - 1)).astype(np.uint32),
                wire.RELAY: np.full(len(part), relay, dtype=np.uint32),
            }
            ends, size = (part.receivers, names >> 32), part.item_bytes
            outgoing.append(self._wire.say(Phase.MIXED, part.step, ends, size, fields, sealed=True))
        self.queue(outgoing)

    def _to_devices(self, messages: Messages) -> None:
        """Answers that come back, to the devices whose fetches they are for."""
        relay = relay_of(messages, self._wire)
        places = self._wire.read(messages, wire.PLACE, "<u4")
        (_, devices, through), _ = self._fetched.get(relay, Ways()).of(names_of(messages.receivers, places))
        if (through != messages.senders).any():
            raise MalformedMessageError("answers must come back as fetches went; at least one does not")
        self.queue(answered(messages, np.full(len(messages), relay), devices, self._wire))

    def state(self) -> dict[str, Array]:
        """What waits to leave, and what was forwarded; not behind a tape axis."""
        self._behind = [[each for messages in self._behind for each in messages]]
        arrays = super().state() | {"quiet": self._quiet, "heard": self._heard}
        listed = {"behind": self._behind[0], "arrived": self._arrived, "sent": self._sent}
        for name, batches in listed.items():
            arrays |= {f"{name}{n}": as_array(m) for n, m in enumerate(batches)}
        tables = {"passed": self._passed, "placed": self._placed}
        tables |= {f"fetched/{relay}": ways for relay, ways in self._fetched.items()}
        tables |= {f"asked_for/{relay}": ways for relay, ways in self._asked_for.items()}
        return arrays | {f"{name}/{of}": value for name, ways in tables.items() for of, value in ways.state().items()}

    def restore(self, state: Mapping[str, Array]) -> None:
        """Goes on where a state was taken."""
        super().restore(state)
        self._quiet, self._heard = state["quiet"], state["heard"]
        self._behind, self._arrived, self._sent = (
            [numbered("behind", state)],
            numbered("arrived", state),
            numbered("sent", state),
        )
        self._passed, self._placed = (Ways.of_state(within(name, state)) for name in ("passed", "placed"))
        self._fetched, self._asked_for = (_by_relay(within(name, state)) for name in ("fetched", "asked_for"))


def _by_relay(state: Mapping[str, Array]) -> dict[int, Ways]:
    relays = {name.split("/")[0] for name in state}
    return {int(relay): Ways.of_state(within(relay, state)) for relay in relays}


Named = tuple[Ids, Messages]


def alike(batches: Iterable[Named], wire_: Wire) -> dict[tuple[object, ...], list[Named]]:
    """Batches that can be joined: for one relay, with the same fields."""
    found: dict[tuple[object, ...], list[Named]] = {}
    for names, messages in batches:
        shapes = sorted((name, kind.str, shape) for name, (kind, shape) in messages.kinds.items())
        found.setdefault((relay_of(messages, wire_), *shapes), []).append((names, messages))
    return found


def joined(batches: Sequence[Messages]) -> Messages:
    """One batch of several with the same fields."""
    first = batches[0]
    if len(batches) == 1:
        return first
    axis = first.tape_axes
    fields = {name: np.concatenate([each.fields[name] for each in batches], axis=axis) for name in first.fields}
    senders, receivers = np.concatenate([[each.senders, each.receivers] for each in batches], axis=1)
    return replace(first, senders=senders, receivers=receivers, fields=fields)
