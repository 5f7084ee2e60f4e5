"""The driver of simulations: machines of all parties in one process, every message over a channel that records."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from fgl_secure.errors import ProtocolError
from fgl_secure.runtime.channel import Channel
from fgl_secure.runtime.machine import Machine
from fgl_secure.runtime.messages import Messages

MOST_TURNS = 10**6
SILENT_TURNS = 2


def simulate(machines: Sequence[Machine], channel: Channel, most_turns: int = MOST_TURNS) -> None:
    """Lets machines have their turns, all at one time, until nobody has anything to say twice in a row.

    What a machine refuses to take is lost, and noted as an incident of its sender. A machine that awaits answers is
    silent for the turn in which others make them; the second silent turn tells it that none will come.

    Args:
        machines: no party is hosted by two of them.
        channel: between their parties.
        most_turns: after which machines that still talk are given up.

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
            for outbox in [_said(machine) for machine in machines]:
                for messages in outbox:
                    silent = 0
                    _deliver(machines, host, channel, messages)
            going_on = [machine.settle() for machine in machines] if silent else []
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


def _said(machine: Machine) -> Iterable[Messages]:
    outbox = machine.turn()
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
            machines[place].take(part)
        except ProtocolError as error:
            for sender in np.unique(part.senders).tolist():
                channel.note_incident(part.step, sender, f"a message ({part.phase.label}) is refused: {error}")


def _note_remarks(machines: Sequence[Machine], channel: Channel) -> None:
    for machine in machines:
        for remark in machine.remarks:
            channel.note_incident(remark.step, remark.party, remark.what)
        machine.remarks.clear()
