"""Silos as proxies: they forward fetches and answers, and open none of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from fgl_secure.errors import InputError, MalformedMessageError, StaleMessageError
from fgl_secure.protocols.relay_coded import wire
from fgl_secure.protocols.relay_coded.wire import Wire, by_value
from fgl_secure.protocols.stepwise import CheckpointedMachine, SumTerms
from fgl_secure.runtime import Messages, Phase, Step, decode, encode
from fgl_secure.typing import Array, Ids


class Forwarding:
    """What the silos that one process hosts forward: fetches of their devices, and the relays' answers.

    They see which device a fetch is from, which relay it is for, and its number among those that they forward;
    everything else of it is sealed, and they hand it on as it is, in the order in which it comes.

    Args:
        wire_: makes messages.
    """

    def __init__(self, wire_: Wire) -> None:
        self._wire = wire_
        self._leaving: list[Iterable[Messages]] = []
        self.clear()

    def clear(self) -> None:
        """Forgets what was forwarded: another step begins."""
        self._asked: dict[int, tuple[Ids, Ids]] = {}

    def is_for(self, messages: Messages) -> bool:
        """Whether messages are for somebody who forwards."""
        return messages.phase is Phase.SEALED

    def queue(self, messages: Iterable[Messages]) -> None:
        """Lets messages leave in the next turn."""
        self._leaving.append(messages)

    def queue_behind(self, messages: Iterable[Messages]) -> None:
        """Lets messages leave together with those that arrive in this turn and are handed on."""
        self.queue(messages)

    def leave(self, step: Step | None) -> list[Messages]:  # noqa: ARG002  # those who mix draw coins
        """What leaves now."""
        leaving, self._leaving = self._leaving, []
        return [each for messages in leaving for each in messages]

    def take(self, messages: Messages) -> None:
        """Takes sealed messages of the step at hand.

        Raises:
            MalformedMessageError: they are none, or are for nobody.
        """
        if wire.OPENING in messages.fields:
            self._fetch(messages)
        else:
            self._hand_back(messages)

    def _fetch(self, messages: Messages) -> None:
        relay, opening = relay_of(messages, self._wire), openings_of(messages, self._wire)
        devices, silos = self._asked.get(relay, (np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)))
        places = np.arange(len(devices), len(devices) + len(messages))
        fields = {wire.OPENING: opening, wire.PLACE: places.astype(np.uint32)}
        ends, size = (messages.receivers, np.full(len(messages), relay)), self._wire.fetch_bytes(opening.shape[-2])
        self.queue([self._wire.say(Phase.FETCH, messages.step, ends, size, fields)])
        self._asked[relay] = (np.concatenate([devices, messages.senders]), np.concatenate([silos, messages.receivers]))

    def _hand_back(self, messages: Messages) -> None:
        """Answers of relays, to the devices whose fetches they are for."""
        places = self._wire.read(messages, wire.PLACE, "<u4").astype(np.int64)
        outgoing: list[Messages] = []  # queued once all relays' answers are checked: a refusal changes nothing
        for relay, rows in by_value(messages.senders):
            part, at = (messages, places) if rows is None else (messages.rows(rows), places[rows])
            devices, silos = self._asked.get(relay, (at[:0], at[:0]))
            if (at >= len(devices)).any() or (silos[at] != part.receivers).any():
                raise MalformedMessageError("answers must be for what was fetched by way of the silo; one is not")
            outgoing += answered(part, part.senders, devices[at], self._wire)
        self.queue(outgoing)

    def state(self) -> dict[str, Array]:
        """What waits to leave, and what was asked; not behind a tape axis."""
        self._leaving = [[each for messages in self._leaving for each in messages]]
        arrays = {f"leaving{n}": as_array(m) for n, m in enumerate(self._leaving[0])}
        return arrays | {f"asked/{relay}": np.stack(ends) for relay, ends in self._asked.items()}

    def restore(self, state: Mapping[str, Array]) -> None:
        """Goes on where a state was taken."""
        self._leaving = [numbered("leaving", state)]
        self._asked = {int(name): (ends[0], ends[1]) for name, ends in within("asked", state).items()}


def relay_of(messages: Messages, wire_: Wire) -> int:
    """The relay that sealed messages are for.

    Raises:
        MalformedMessageError: they are for none, or for several.
    """
    relay = wire_.read(messages, wire.RELAY, "<u4")
    if not len(relay) or (relay != relay[0]).any():
        raise MalformedMessageError("sealed messages must be for one relay at a time; they are not")
    return int(relay[0])


def openings_of(messages: Messages, wire_: Wire) -> Array:
    """What opens tags: [*tapes, m, relays, 2].

    Raises:
        MalformedMessageError: they are no such rows.
    """
    opening = messages[wire.OPENING]
    if opening.ndim != wire_.axes + 3:
        raise MalformedMessageError(f"openings must be one row a relay; found shape {list(opening.shape)}")
    return opening


def answered(messages: Messages, relays: Ids, devices: Ids, wire_: Wire) -> list[Messages]:
    """Answers of relays as devices open them: counts, and sums of shares.

    Raises:
        MalformedMessageError: they are none.
    """
    sums = messages[wire.SUM]
    if sums.ndim != wire_.axes + 2:
        raise MalformedMessageError(f"sums must be rows; found shape {list(sums.shape)}")
    counts = {wire.TAG: messages[wire.TAG], wire.COUNT: messages[wire.COUNT]}
    given, size = {wire.TAG: messages[wire.TAG], wire.SUM: sums}, sums.shape[-1] * sums.itemsize
    return [
        wire_.say(Phase.COUNTS, messages.step, (relays, devices), wire.COUNT_BYTES, counts),
        wire_.say(Phase.SHARE_SUMS, messages.step, (relays, devices), size, given),
    ]


class Silos(CheckpointedMachine):
    """Silos that own neither rows nor sums, and forward for their devices.

    Args:
        parties: int64 [k], ascending identifiers.
        terms: of the sums.
        forwarding: how they do that.
    """

    def __init__(self, parties: Ids, terms: SumTerms, forwarding: Forwarding) -> None:
        super().__init__(parties, terms, len(terms.tapes))
        self._forwarding = forwarding

    def begin(self, step: Step, rows: Array | None = None) -> None:
        """See `SumMachine.begin`; silos have no rows."""
        self._check_new(step)
        if rows is not None:
            raise InputError("rows must be those of hosted devices, of which there are none; found some")
        self._step = step
        self._forwarding.clear()

    def reset(self) -> None:
        """See `SumMachine.rest`."""
        self._step = None
        self._forwarding.clear()

    @property
    def sums(self) -> Array | None:
        """None."""
        return None

    def receive(self, messages: Messages) -> None:
        """See `Machine.take`."""
        self._check_ends(messages)
        if not self._forwarding.is_for(messages):
            raise StaleMessageError(f"messages must be sealed for somebody else; found {messages.phase.label}")
        if messages.step != self._step:
            raise StaleMessageError(f"messages must be of step {self._step}; found {messages.step}")
        self._forwarding.take(messages)
        self._used_up()

    def step(self) -> Iterable[Messages]:
        """What came, as it is handed on."""
        return self._forwarding.leave(self._step)

    def _arrays(self) -> dict[str, Array]:
        """What waits to leave, and what was forwarded."""
        return self._forwarding.state()

    def _take_arrays(self, arrays: dict[str, Array]) -> None:
        """See `CheckpointedMachine._take_arrays`."""
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
