"""Programs of all parties in one process, turn by turn; every message goes over a channel as the bytes that it is."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fgl_secure.errors import ProtocolError
from fgl_secure.methods.silos.parcels import Array, Parcel, parcels_from_bytes, parcels_to_bytes
from fgl_secure.methods.silos.program import SERVER, Inbox, Outbox, Program
from fgl_secure.methods.silos.sum_server import SumServer
from fgl_secure.runtime import Channel, Role

MOST_TURNS = 10**6


class Mailbox:
    """Hands parcels from outboxes to inboxes.

    Args:
        silos: how many; parties with higher numbers are relays.
        channel: between one server, silos and relays; None records nothing.
    """

    def __init__(self, silos: int, channel: Channel | None = None) -> None:
        self._silos, self._channel = silos, channel

    def sorted(self, outboxes: Mapping[int, Outbox]) -> dict[int, dict[int, tuple[Parcel, ...]]]:
        """Inboxes by receiver, of all that was sent in one turn.

        Raises:
            MalformedMessageError: something that was sent cannot be read.
        """
        inboxes: dict[int, dict[int, tuple[Parcel, ...]]] = {}
        for sender, outbox in outboxes.items():
            for receiver, parcels in outbox.items():
                if parcels:
                    for parcel in parcels:
                        self._record(sender, receiver, parcel)
                    inboxes.setdefault(receiver, {})[sender] = parcels_from_bytes(parcels_to_bytes(parcels))
        return inboxes

    def served(self, outboxes: Mapping[int, Outbox], server: SumServer) -> dict[int, Inbox]:
        """One turn of the server, and what all others find after it."""
        inboxes: dict[int, Inbox] = dict(self.sorted(outboxes))
        for receiver, from_server in self.sorted({SERVER: server.turn(inboxes.pop(SERVER, {}))}).items():
            inboxes[receiver] = {**inboxes.get(receiver, {}), **from_server}
        return inboxes

    def _record(self, sender: int, receiver: int, parcel: Parcel) -> None:
        if self._channel is not None:
            senders, receivers = np.array([self._party(sender)]), np.array([self._party(receiver)])
            payload = np.frombuffer(parcel.to_bytes(), dtype=np.uint8)[None]
            self._channel.send(parcel.phase, parcel.step, senders, receivers, payload)

    def _party(self, number: int) -> int:
        assert self._channel is not None
        parties = self._channel.parties
        if number == SERVER:
            return int(parties.ids(Role.SERVER)[0])
        if number < self._silos:
            return int(parties.ids(Role.SILO)[number])
        return int(parties.ids(Role.RELAY)[number - self._silos])


def run_together(
    programs: Mapping[int, Program], server: SumServer, channel: Channel | None = None
) -> dict[int, dict[str, Array]]:
    """Runs programs to their end.

    Args:
        programs: of silos 0 .. K - 1, and of relays from K on.
        server: leads sums.
        channel: carries and records; its parties are a server, the silos, whatever devices, and the relays.

    Returns:
        The report of every silo, by number.
    """
    mailbox = Mailbox(server.silos, channel)
    inboxes: dict[int, Inbox] = {}
    for _ in range(MOST_TURNS):
        outboxes = {party: program.turn(inboxes.get(party, {})) for party, program in programs.items()}
        reports = {party: programs[party].report for party in range(server.silos)}
        if None not in reports.values():
            return {silo: report for silo, report in reports.items() if report is not None}
        inboxes = mailbox.served(outboxes, server)
    raise ProtocolError(f"programs must end within {MOST_TURNS:,} turns; they did not")
