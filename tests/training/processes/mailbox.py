"""What programs of all parties send each other in a turn, sorted; a channel records every message as its bytes."""

from collections.abc import Mapping

import numpy as np

from fgl_secure.runtime import Channel, Role
from fgl_secure.training.processes.process import SERVER, Inbox, Outbox, Parcel, parcels_from_bytes, parcels_to_bytes
from fgl_secure.training.processes.sums import SumServer


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
