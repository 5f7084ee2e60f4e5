"""The channel that joins parties of one process and records, and the driver of machines over it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.coins import Coins
from fgl_secure.errors import InputError, ProtocolError
from fgl_secure.runtime.machine import SETUP, Directory, Draws, Machine
from fgl_secure.runtime.messages import PAYLOAD, SESSION_BYTES, MessageKind, Messages, Step, is_frozen
from fgl_secure.runtime.transcript import (
    Endpoints,
    Incident,
    MessageBatch,
    Private,
    PrivateBatch,
    RepeatedEndpoints,
    Transcript,
)

Loss = Callable[[Any, Step, NDArray[np.int64], NDArray[np.int64]], NDArray[np.bool_]]
"""Decides from phase, step, senders [m] and receivers [m] which messages arrive: bool [m]."""


class RecordingLevel(StrEnum):
    """How much of each message is kept."""

    SIZES = "sizes"
    EVERYTHING = "everything"


@dataclass(frozen=True, slots=True, eq=False)
class TamperedBatch:
    """What becomes of a batch of messages on a hostile network.

    Attributes:
        rows: int64 [k], which messages arrive and in which order; one that is named twice arrives twice.
        fields: by name, [*tapes, k, ...], what they carry on arrival.
        sizes: int64 [k], bytes that arrive of each; None where all arrive whole.
        by_network: whether a party on the way did it, whom authentication catches, and not the sender itself.
    """

    rows: NDArray[np.int64]
    fields: Mapping[str, NDArray[Any]]
    sizes: NDArray[np.int64] | None = None
    by_network: bool = False

    @property
    def payload(self) -> NDArray[Any]:
        """Of messages with one field."""
        return self.fields[PAYLOAD]

    @classmethod
    def of_payload(
        cls,
        rows: NDArray[np.int64],
        payload: NDArray[Any],
        sizes: NDArray[np.int64] | None = None,
        by_network: bool = False,
    ) -> TamperedBatch:
        """For messages with one field."""
        return cls(rows, {PAYLOAD: payload}, sizes, by_network)


Tamper = Callable[[Messages], TamperedBatch | None]
"""Decides what arrives of messages; None leaves a batch alone."""


@dataclass(frozen=True, slots=True)
class Recording:
    """What a channel keeps: sizes always, payloads, inputs and coins on demand.

    Attributes:
        level: sizes only, or everything.
        rounds: payloads are kept for rounds 0 .. rounds - 1, and what parties are left with in the end; None keeps all.
        phases: payloads are kept of messages of these phases alone, and inputs and coins not at all; None keeps all.
    """

    level: RecordingLevel = RecordingLevel.SIZES
    rounds: int | None = None
    phases: frozenset[MessageKind] | None = None

    @classmethod
    def everything(cls, rounds: int | None = None) -> Recording:
        """Payloads, inputs and coins of the first `rounds` rounds, or of all."""
        return cls(RecordingLevel.EVERYTHING, rounds)

    def keeps(self, step: Step, phase: MessageKind | None = None) -> bool:
        """Whether payloads of this step, and of this phase where it is given, are kept."""
        in_time = self.level is RecordingLevel.EVERYTHING and (
            self.rounds is None or step.round < self.rounds or step.final
        )
        return in_time and (self.phases is None or phase in self.phases)


@dataclass(frozen=True, slots=True, eq=False)
class Delivery:
    """What arrived: the rows a receiving role goes on with.

    Attributes:
        messages: those that arrived, read-only.
        rows: int64 [m], position of each in the batch that was sent; None when all of it arrived.
        sizes: int64 [m], bytes that arrived of each message; None when all arrived whole.
        genuine: bool [m], which messages are as their sender sent them, as authenticated encryption would tell; None
            when all are.
    """

    messages: Messages
    rows: NDArray[np.int64] | None = None
    sizes: NDArray[np.int64] | None = None
    genuine: NDArray[np.bool_] | None = None

    @property
    def senders(self) -> NDArray[np.int64]:
        """Party identifiers, int64 [m]."""
        return self.messages.senders

    @property
    def receivers(self) -> NDArray[np.int64]:
        """Party identifiers, int64 [m]."""
        return self.messages.receivers

    @property
    def payload(self) -> NDArray[Any]:
        """Of messages with one field: [*tapes, m, ...]."""
        return self.messages[PAYLOAD]


class Channel(Draws):
    """Carries messages between the parties of one process and records them.

    Recording happens here and nowhere else, so a scheme can neither forget nor embellish a message.

    Args:
        parties: who takes part.
        coins: where all randomness of the schemes on this channel comes from.
        recording: what to keep of the messages.
        loss: a network that loses messages; None loses none.
        tamper: a network that repeats, reorders, cuts or changes messages; None leaves them alone.
    """

    def __init__(
        self,
        parties: Directory,
        coins: Coins,
        recording: Recording | None = None,
        loss: Loss | None = None,
        tamper: Tamper | None = None,
    ) -> None:
        self.parties = parties
        self._loss, self._tamper = loss, tamper
        self.recording = recording or Recording()
        self.transcript = Transcript(parties, batch_axes=len(coins.batch_shape))
        self._coins = coins
        self._ends = RepeatedEndpoints(len(parties))

    def keeping_only(self, *phases: MessageKind) -> Channel:
        """The same channel to those whose payloads are too large to keep: sizes of all, payloads of some phases."""
        quiet = copy.copy(self)
        quiet.recording = replace(self.recording, phases=frozenset(phases))
        return quiet

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """Leading axes of every payload: (), or (tapes,) under enumeration."""
        return self._coins.batch_shape

    def send(
        self,
        phase: MessageKind,
        step: Step,
        senders: NDArray[np.int64],
        receivers: NDArray[np.int64],
        payload: NDArray[Any],
        *,
        wire_bytes: int | None = None,
    ) -> Delivery:
        """Delivers a batch of messages.

        Args:
            phase: what they carry.
            step: when they are sent.
            senders: int64 [m], party identifiers.
            receivers: int64 [m], party identifiers.
            payload: [*batch_shape, m, ...]; becomes read-only.
            wire_bytes: size of one message where that is not its payload's: headers and authentication included, or
                a message that the payload holds in a shorter form.

        Returns:
            What the receivers got.
        """
        expected = (*self.batch_shape, len(senders))
        if payload.shape[: len(expected)] != expected or len(receivers) != len(senders):
            raise InputError(
                f"payload must start with axes {list(expected)}, one row a message; found {list(payload.shape)}"
            )
        messages = Messages(phase, step, senders, receivers, {PAYLOAD: payload}, len(self.batch_shape))
        return self._deliver(messages, wire_bytes)

    def carry(self, messages: Messages) -> Messages:
        """Delivers a batch of a machine's messages.

        A message that is cut short or changed on the way fails its authentication: it is as good as lost, and noted.

        Args:
            messages: of parties of this run; their fields become read-only.

        Returns:
            Those that arrived.
        """
        if messages.tape_axes != len(self.batch_shape):
            raise InputError(f"messages must have {len(self.batch_shape)} tape axes; found {messages.tape_axes}")
        arrived = self._deliver(messages, None)
        if arrived.genuine is None and arrived.sizes is None:
            return arrived.messages
        good = np.ones(len(arrived.senders), dtype=np.bool_) if arrived.genuine is None else arrived.genuine
        if arrived.sizes is not None:
            good = good & (arrived.sizes >= messages.item_bytes)
        result = arrived.messages
        if good.all():
            return result
        bad, counts = np.unique(result.senders[~good], return_counts=True)
        for sender, count in zip(bad.tolist(), counts.tolist(), strict=True):
            text = f"{count} of its messages ({result.phase.label}) arrived cut or changed: dropped"
            self.note_incident(result.step, sender, text)
        return result.rows(good)

    def _deliver(self, messages: Messages, wire_bytes: int | None) -> Delivery:
        """Records messages and says what arrives of them."""
        self._check_known(messages.senders, "senders")
        self._check_known(messages.receivers, "receivers")
        arrived = None
        if self._loss is not None:
            mask = self._loss(messages.phase, messages.step, messages.senders, messages.receivers)
            arrived = np.flatnonzero(mask)
            messages = messages.rows(arrived)
        changed = None
        if self._tamper is not None:
            messages = messages.laid_out()
            changed = self._tamper(messages)
        genuine = None
        if changed is not None:
            genuine = self._genuine(messages, changed)
            ends = messages.senders[changed.rows], messages.receivers[changed.rows]
            messages = replace(messages, senders=ends[0], receivers=ends[1], fields=changed.fields)
            arrived = changed.rows if arrived is None else arrived[changed.rows]
        keeps = self.recording.keeps(messages.step, messages.phase) and not messages.sealed
        messages = messages.read_only(own=keeps)
        size = messages.item_bytes if wire_bytes is None else wire_bytes
        self._record(messages, size, messages.fields if keeps else None)
        return Delivery(messages, arrived, None if changed is None else changed.sizes, genuine)

    def send_sizes(
        self,
        phase: MessageKind,
        step: Step,
        senders: NDArray[np.int64],
        receivers: NDArray[np.int64],
        item_bytes: int,
        repeats: int = 1,
    ) -> None:
        """Records messages whose payload is never laid out row by row: models, and gradients of single devices.

        Args:
            phase: what they carry.
            step: when they are sent.
            senders: int64 [m], party identifiers.
            receivers: int64 [m], party identifiers.
            item_bytes: size of one message.
            repeats: how many such batches are sent one after another.
        """
        self._record(Messages(phase, step, senders, receivers, {}), item_bytes, None, repeats)

    @property
    def coins(self) -> Coins:
        """The coins, for samplers that need more than uniform elements; note their results with `note_coins`."""
        return self._coins

    def session(self) -> bytes:
        """The public name of a session, different in every one."""
        return bytes(self._coins.uniform(256, (SESSION_BYTES,)).tolist())

    def draw(
        self, name: str, owners: NDArray[np.int64], modulus: int, shape: tuple[int, ...], step: Step = SETUP
    ) -> NDArray[np.int64]:
        """Draws secret coins for each owner: int64 [*batch_shape, len(owners), *shape], below `modulus`."""
        values = self._coins.uniform(modulus, (len(owners), *shape))
        self._keep(Private.COINS, name, step, owners, values)
        return values

    def note_coins(self, name: str, owners: NDArray[np.int64], values: NDArray[np.int64], step: Step = SETUP) -> None:
        """Records what owners drew with a sampler of their own, or were configured with: values [m, ...]."""
        self._keep(Private.COINS, name, step, owners, self._on_every_tape(values))

    def note_secrets(self, name: str, owners: NDArray[np.int64], values: NDArray[Any], step: Step = SETUP) -> None:
        """Records what owners know by ideal means: values [*batch_shape, m, ...]."""
        self._keep(Private.COINS, name, step, owners, values)

    def note_inputs(self, name: str, step: Step, owners: NDArray[np.int64], values: NDArray[Any]) -> None:
        """Records what owners bring into the run: values [m, ...]."""
        if self.recording.keeps(step):
            self._keep(Private.INPUT, name, step, owners, self._on_every_tape(values))

    def note_outputs(self, name: str, step: Step, owners: NDArray[np.int64], values: NDArray[Any]) -> None:
        """Records what a protocol leaves owners with: values [*batch_shape, m, ...]."""
        self._keep(Private.OUTPUT, name, step, owners, values)

    def name_of(self, party: int) -> str:
        """Its role and index."""
        return str(self.parties.party_of(party))

    def note_incident(self, step: Step, party: int, text: str) -> None:
        """Records that something went wrong and was dealt with; `party` is the identifier of the one at fault."""
        self.transcript.incidents.append(Incident(step, self.parties.party_of(party), text))

    def _genuine(self, sent: Messages, changed: TamperedBatch) -> NDArray[np.bool_] | None:
        """Which messages are as they were sent; None where only their senders can have changed them."""
        if not changed.by_network:
            return None
        axis, genuine = len(self.batch_shape), np.ones(len(changed.rows), dtype=np.bool_)
        for name, value in changed.fields.items():
            same = np.moveaxis(np.take(sent[name], changed.rows, axis=axis) == value, axis, 0)
            genuine &= same.reshape(len(same), int(np.prod(same.shape[1:]))).all(axis=1)
        return genuine

    def _check_known(self, ids: NDArray[np.int64], name: str) -> None:
        if len(ids) and int(ids.view(np.uint64).max()) >= len(self.parties):  # negative ones are large there
            raise InputError(
                f"{name} must be identifiers in 0..{len(self.parties) - 1}; found {int(ids.min())}..{int(ids.max())}"
            )

    def _on_every_tape(self, values: NDArray[Any]) -> NDArray[Any]:
        return np.broadcast_to(values, (*self.batch_shape, *values.shape))

    def _keep(self, kind: Private, name: str, step: Step, owners: NDArray[np.int64], values: NDArray[Any]) -> None:
        if self.recording.keeps(step):
            self.transcript.private.append(PrivateBatch(kind, name, step, owners, _own_copy(values)))

    def _record(
        self, messages: Messages, item_bytes: int, fields: Mapping[str, NDArray[Any]] | None, repeats: int = 1
    ) -> None:
        make_ends = self._ends.reuse if fields is None else Endpoints
        ends = make_ends(messages.senders, messages.receivers)
        batch = MessageBatch(messages.phase, messages.step, ends, item_bytes, fields, repeats)
        self.transcript.messages.append(batch)


def _own_copy(values: NDArray[Any]) -> NDArray[Any]:
    """The array, or else a copy, that no party can write to."""
    if is_frozen(values):
        return values
    copy = values.copy()
    copy.flags.writeable = False
    return copy


MOST_TURNS = 10**6
SILENT_TURNS = 2


def simulate(machines: Sequence[Machine], channel: Channel, most_turns: int = MOST_TURNS) -> None:
    """Lets machines have their turns, all at one time, until no party has anything to say twice in a row.

    What a machine refuses to take is lost, and noted as an incident of its sender. A machine that awaits answers is
    silent for the turn in which others make them; the second silent turn tells it that none will come.

    Args:
        machines: no party is hosted by two of them.
        channel: between their parties.
        most_turns: after which machines that still comm are given up.

    Raises:
        ProtocolError: a machine finds no way on; it has a note of every message that was refused before.
    """
    seen, silent = len(channel.transcript.incidents), 0
    host = np.full(len(channel.parties), -1, dtype=np.int64)
    for place, machine in enumerate(machines):
        host[machine.parties] = place
    for _ in range(most_turns):
        silent += 1
        try:
            for outbox in [_collect_messages(machine) for machine in machines]:
                for messages in outbox:
                    silent = 0
                    _deliver(machines, host, channel, messages)
            going_on = [machine.on_idle() for machine in machines] if silent else []
            silent = 0 if any(going_on) else silent
        except ProtocolError as error:
            _note_remarks(machines, channel)
            for incident in channel.transcript.incidents[seen:]:
                error.add_note(f"{incident.party}: {incident.what}")
            raise
        _note_remarks(machines, channel)
        if silent == SILENT_TURNS:
            return
    raise ProtocolError(f"machines must come to an end within {most_turns:,} turns; they did not")


def _collect_messages(machine: Machine) -> Iterable[Messages]:
    outbox = machine.step()
    if not isinstance(outbox, Iterable):
        raise ProtocolError(f"turn of {type(machine).__name__} must give messages; found {type(outbox).__name__}")
    return outbox


def _deliver(machines: Sequence[Machine], host: NDArray[np.int64], channel: Channel, messages: Messages) -> None:
    if not isinstance(messages, Messages):
        raise ProtocolError(f"machines must say Messages; found {type(messages).__name__}")
    arrived = channel.carry(messages)
    if not len(arrived):
        return
    between = host[int(arrived.receivers.min()) : int(arrived.receivers.max()) + 1]
    hosts = between[:1] if bool((between == between[0]).all()) else host[arrived.receivers]
    places = np.unique(hosts).tolist() if len(hosts) > 1 else hosts.tolist()
    for place in places:
        part = arrived if len(places) == 1 else arrived.rows(hosts == place)
        if place < 0:
            continue  # for parties that no machine of this protocol hosts
        try:
            machines[place].receive(part)
        except ProtocolError as error:
            for sender in np.unique(part.senders).tolist():
                channel.note_incident(part.step, sender, f"a message ({part.phase.label}) is refused: {error}")


def _note_remarks(machines: Sequence[Machine], channel: Channel) -> None:
    for machine in machines:
        for remark in machine.remarks:
            channel.note_incident(remark.step, remark.party, remark.what)
        machine.remarks.clear()
