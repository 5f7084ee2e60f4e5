"""Silos as proxies: they forward fetches and answers, and messages of unnamed senders, and open none of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.errors import InputError, MalformedMessageError, StaleMessageError
from fgl_secure.protocols.relay_coded import wire
from fgl_secure.protocols.relay_coded.wire import Wire, by_value, found_among, names_of
from fgl_secure.protocols.stepwise import BoundMachine, SumTerms
from fgl_secure.runtime import Messages, Phase, Step, decode, encode

Array = NDArray[Any]
Ids = NDArray[np.int64]


class Forwarding:
    """What the silos that one process hosts forward.

    They see who a message is from, which relay or device it is for, and its number among those that they forward;
    everything else of it is sealed, and they hand it on as it is, in the order in which it comes.

    Args:
        wire_: makes messages.
    """

    def __init__(self, wire_: Wire) -> None:
        self._wire = wire_
        self._leaving: list[Iterable[Messages]] = []
        self.clear()

    def clear(self) -> None:
        """Forgets what was forwarded: the step is over."""
        self._sent: list[Messages] = []
        self._asked: dict[int, tuple[Ids, Ids]] = {}

    def is_for(self, messages: Messages, *, anonymous: bool) -> bool:
        """Whether messages are for somebody who forwards: sealed ones, and requests for what silos forwarded."""
        return messages.phase is Phase.SEALED or (anonymous and messages.phase is Phase.RESENDS)

    def queue(self, messages: Iterable[Messages]) -> None:
        """Lets messages leave in the next turn."""
        self._leaving.append(messages)

    def leave(self) -> list[Messages]:
        """What leaves now."""
        leaving, self._leaving = self._leaving, []
        return [each for messages in leaving for each in messages]

    def take(self, messages: Messages) -> None:
        """Takes sealed messages, and requests, of the step at hand.

        Raises:
            MalformedMessageError: they are none, or are for nobody.
        """
        if messages.phase is Phase.RESENDS:
            self._again(messages)
        elif wire.TAG in messages.fields and wire.COUNT in messages.fields:
            self._hand_back(messages)
        elif wire.OPENING in messages.fields:
            self._fetch(messages)
        else:
            self.queue(self._passed(messages))
            self._sent.append(messages)

    def _relay_of(self, messages: Messages) -> int:
        relay = self._wire.read(messages, wire.RELAY, "<u4")
        if not len(relay) or (relay != relay[0]).any():
            raise MalformedMessageError("sealed messages must be for one relay at a time; they are not")
        return int(relay[0])

    def _passed(self, messages: Messages) -> list[Messages]:
        """Messages of unnamed senders, as the relay opens them: from the silo, by their places."""
        named = (wire.TAG, wire.ATTEMPT, wire.NUMBER, wire.SEED, wire.WIDTH)
        header = {name: messages[name] for name in named if name in messages.fields}
        header[wire.SLOT] = messages[wire.PLACE]
        ends = messages.receivers, np.full(len(messages), self._relay_of(messages))
        seeded = wire.SEED in header
        phase = Phase.SHARE_SEEDS if seeded else Phase.SHARE_HEADERS
        size = self._wire.sealed_header_bytes + (wire.SEED_BYTES if seeded else 0)
        out = [self._wire.say(phase, messages.step, ends, size, header)]
        if wire.SHARE in messages.fields:
            share = messages[wire.SHARE]
            body = {wire.SHARE: share, wire.SLOT: header[wire.SLOT]}
            out.append(self._wire.say(Phase.SHARES, messages.step, ends, share.shape[-1] * share.itemsize, body))
        return out

    def _again(self, messages: Messages) -> None:
        """Sends what a relay asks for again; it is asked for by its place, as tags are not a silo's business."""
        places = self._wire.read(messages, wire.SLOT, "<u4")
        wanted = names_of(messages.receivers, places)
        for relay in np.unique(messages.senders).tolist():
            for batch in self._sent:
                if self._relay_of(batch) != relay:
                    continue
                known = names_of(batch.receivers, self._wire.read(batch, wire.PLACE, "<u4"))
                order = np.argsort(known)
                at = found_among(wanted[messages.senders == relay], known[order])
                if (at >= 0).any():
                    self.queue(self._passed(batch.rows(order[at[at >= 0]])))

    def _fetch(self, messages: Messages) -> None:
        relay, opening = self._relay_of(messages), messages[wire.OPENING]
        if opening.ndim != self._wire.axes + 3:
            raise MalformedMessageError(f"openings must be one row a relay; found shape {list(opening.shape)}")
        devices, silos = self._asked.get(relay, (np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)))
        places = np.arange(len(devices), len(devices) + len(messages))
        fields = {wire.OPENING: opening, wire.PLACE: places.astype(np.uint32)}
        ends, size = (messages.receivers, np.full(len(messages), relay)), self._wire.fetch_bytes(opening.shape[-2])
        self.queue([self._wire.say(Phase.FETCH, messages.step, ends, size, fields)])
        self._asked[relay] = (np.concatenate([devices, messages.senders]), np.concatenate([silos, messages.receivers]))

    def _hand_back(self, messages: Messages) -> None:
        """Answers of relays, to the devices whose fetches they are for."""
        places = self._wire.read(messages, wire.PLACE, "<u4").astype(np.int64)
        sums, step, out = messages[wire.SUM], messages.step, []
        if sums.ndim != self._wire.axes + 2:
            raise MalformedMessageError(f"sums must be rows; found shape {list(sums.shape)}")
        for relay, rows in by_value(messages.senders):
            part, at = (messages, places) if rows is None else (messages.rows(rows), places[rows])
            devices, silos = self._asked.get(relay, (at[:0], at[:0]))
            if (at >= len(devices)).any() or (silos[at] != part.receivers).any():
                raise MalformedMessageError("answers must be for what was fetched by way of the silo; one is not")
            ends = part.senders, devices[at]
            counts = {wire.TAG: part[wire.TAG], wire.COUNT: part[wire.COUNT]}
            given = {wire.TAG: part[wire.TAG], wire.SUM: part[wire.SUM]}
            size = sums.shape[-1] * sums.itemsize
            out.append(self._wire.say(Phase.COUNTS, step, ends, wire.COUNT_BYTES, counts))
            out.append(self._wire.say(Phase.SHARE_SUMS, step, ends, size, given))
        self.queue(out)

    def state(self) -> dict[str, Array]:
        """What waits to leave, and what was forwarded; not behind a tape axis."""
        self._leaving = [self.leave()]
        arrays = {f"leaving{n}": as_array(m) for n, m in enumerate(self._leaving[0])}
        arrays |= {f"sent{n}": as_array(m) for n, m in enumerate(self._sent)}
        return arrays | {f"asked/{relay}": np.stack(ends) for relay, ends in self._asked.items()}

    def restore(self, state: Mapping[str, Array]) -> None:
        """Goes on where a state was taken."""
        self._leaving, self._sent = [numbered("leaving", state)], numbered("sent", state)
        self._asked = {
            int(name.removeprefix("asked/")): (ends[0], ends[1])
            for name, ends in state.items()
            if name.startswith("asked/")
        }


class Silos(BoundMachine):
    """Silos that own neither rows nor sums, and forward for their devices.

    Args:
        parties: int64 [k], ascending identifiers.
        terms: of the sums.
        anonymous: whether senders are unnamed.
        seal_bytes: what sealing for a public key adds to a message.
    """

    def __init__(self, parties: Ids, terms: SumTerms, *, anonymous: bool, seal_bytes: int) -> None:
        super().__init__(parties, terms)
        self._anonymous = anonymous
        self._forwarding = Forwarding(Wire(terms.tapes, seal_bytes))

    def begin(self, step: Step, rows: Array | None = None) -> None:
        """See `SumMachine.begin`; silos have no rows."""
        self._check_new(step)
        if rows is not None:
            raise InputError("rows must be those of hosted devices, of which there are none; found some")
        self._step = step
        self._forwarding.clear()

    @property
    def sums(self) -> Array | None:
        """None."""
        return None

    def take(self, messages: Messages) -> None:
        """See `Machine.take`."""
        self._check_ends(messages)
        if not self._forwarding.is_for(messages, anonymous=self._anonymous):
            raise StaleMessageError(f"messages must be sealed for somebody else; found {messages.phase.label}")
        if messages.step != self._step:
            raise StaleMessageError(f"messages must be of step {self._step}; found {messages.step}")
        self._forwarding.take(messages)
        self._used_up()

    def turn(self) -> Iterable[Messages]:
        """What came, in the order in which it came."""
        return self._forwarding.leave()

    def _arrays(self) -> dict[str, Array]:
        """What waits to leave, and what was forwarded."""
        return self._forwarding.state()

    def _take_arrays(self, steps: Mapping[str, Array], arrays: dict[str, Array]) -> None:
        """See `BoundMachine._take_arrays`."""
        self._take_steps(steps)
        self._forwarding.restore(arrays)


def as_array(messages: Messages) -> Array:
    """Messages as an array that a state may hold."""
    return np.frombuffer(encode(messages), dtype=np.uint8)


def numbered(name: str, state: Mapping[str, Array]) -> list[Messages]:
    """Messages that a state holds under a name with numbers."""
    found: list[Messages] = []
    while f"{name}{len(found)}" in state:
        found.append(decode(state[f"{name}{len(found)}"].tobytes()))
    return found


def within(prefix: str, state: Mapping[str, Array]) -> dict[str, Array]:
    """The arrays of a state whose names have a prefix, without it."""
    start = f"{prefix}/"
    return {name.removeprefix(start): value for name, value in state.items() if name.startswith(start)}
