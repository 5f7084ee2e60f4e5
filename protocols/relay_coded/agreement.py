"""How named senders and the relays that expand their shares agree on keys, before the first sum of a session."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from fgl_secure.crypto.keys import PUBLIC_KEY_BYTES, Offer
from fgl_secure.crypto.streams import KEY_BYTES
from fgl_secure.errors import MalformedMessageError, ProtocolError, StaleMessageError
from fgl_secure.protocols.relay_coded.cryptography import Cryptography, Keys, answer_offers, make_offers, public_keys
from fgl_secure.protocols.relay_coded.wire import Wire, as_array, find_positions, read_batches, slot_names
from fgl_secure.runtime import PAYLOAD, Draws, Messages, Phase
from fgl_secure.runtime.machine import SETUP
from fgl_secure.runtime.packing import within
from fgl_secure.typing import Array, Bytes, Ids

_RECEIVED = ("senders", "publics", "secrets")


class SendersKeys:
    """The keys of the senders that one process hosts.

    Args:
        senders: int64 [s], ascending party identifiers.
        relays: int64, those that expand their shares.
        cryptography: derives keys.
        wire: makes and reads messages.
        draws: coins of the senders.

    Attributes:
        keys: what was agreed on; None before.
        left_out: int64, ascending: the senders that did not get the key of every relay. Nothing that they send may
            leave: no relay could expand its share.
    """

    def __init__(self, senders: Ids, relays: Ids, cryptography: Cryptography, wire: Wire, draws: Draws) -> None:
        self._senders, self._relays, self._crypto, self._wire, self._draws = senders, relays, cryptography, wire, draws
        self._private: Bytes = np.empty((0, KEY_BYTES), dtype=np.uint8)
        self._offers: list[Offer] = []  # of the private keys; none after a restart
        self._received: dict[int, Bytes] = {}
        self.keys: Keys | None = None
        self.left_out: Ids = senders[:0]

    @property
    def is_pending(self) -> bool:
        """Whether keys have to be agreed on before anything is sent."""
        return self._crypto.keyed and self.keys is None and bool(len(self._senders))

    def publish(self) -> list[Messages]:
        """Draw private keys, and send each sender's public one to each relay."""
        senders, relays, draws = self._senders, self._relays, self._draws
        self._crypto.session(draws)
        agreement = self._crypto.agreement
        self._private = draws.draw("private keys", senders, 256, (agreement.private_bytes,)).astype(np.uint8)
        self._offers = make_offers(self._private, agreement)
        rows = np.repeat(np.arange(len(senders)), len(relays))
        ends = senders[rows], np.tile(relays, len(senders))
        public = public_keys(self._offers, agreement)[rows]
        return [self._wire.make(Phase.KEYS, SETUP, ends, agreement.public_bytes, {PAYLOAD: public})]

    def receive(self, messages: Messages) -> None:
        """Takes relays' public keys.

        Raises:
            MalformedMessageError: they are none, or for a party that waits for none.
            StaleMessageError: a relay has sent a party another key before.
        """
        check_setup(messages)
        size = PUBLIC_KEY_BYTES + self._crypto.agreement.wrapped_bytes
        keys, place = self._wire.read(messages, PAYLOAD, "|u1", size), find_positions(messages.receivers, self._senders)
        if not len(self._private) or (place < 0).any() or not np.isin(messages.senders, self._relays).all():
            raise MalformedMessageError(
                "public keys must be from relays, for senders that wait for them; at least one is not"
            )
        self._check_same(messages.senders, place, keys)
        for relay in np.unique(messages.senders).tolist():
            rows = np.flatnonzero(messages.senders == relay)
            stored = self._received.setdefault(relay, np.zeros((len(self._senders), size + 1), dtype=np.uint8))
            stored[place[rows], :size], stored[place[rows], -1] = keys[rows], 1

    def _check_same(self, relays: Ids, place: Ids, keys: Bytes) -> None:
        """Raises unless what arrives twice is the same: it counts once."""
        order = np.lexsort((place, relays))
        next_to = (np.diff(relays[order]) == 0) & (np.diff(place[order]) == 0)
        same = not (keys[order[1:]] != keys[order[:-1]])[next_to].any()
        for relay, stored in self._received.items():
            rows = np.flatnonzero((relays == relay) & (stored[place, -1] == 1))
            same = same and np.array_equal(stored[place[rows], :-1], keys[rows])
        if not same:
            raise StaleMessageError("a relay must send each sender one public key; one has sent another before")

    def agree(self) -> None:
        """Derives keys; private ones are not needed any more. Senders that a relay's key did not reach are left out.

        Raises:
            ProtocolError: a relay's public key has reached none of them, differs between them, or has low order.
        """
        session, relays = self._crypto.session(self._draws), self._relays.tolist()
        for relay in relays:
            self._check_public_key_of(relay)
        by_relay = np.array([self._received[relay][:, -1] for relay in relays], dtype=np.bool_)
        complete: NDArray[np.bool_] = np.logical_and.reduce(by_relay, axis=0)
        offers = self._offers or make_offers(self._private, self._crypto.agreement)
        offers, senders, secrets = [offers[u] for u in np.flatnonzero(complete)], self._senders[complete], []
        for relay in relays:
            shape, agreed = (len(complete), KEY_BYTES), None
            if not complete.all():
                agreed = self._draws.coins.uniform(256, shape).astype(np.uint8)
            derived = self._crypto.sender_keys(offers, senders, self._received[relay][complete, :-1], relay, session)
            if agreed is not None:  # no other party knows the keys of those that are left out
                agreed[complete] = derived
            secrets.append(derived if agreed is None else agreed)
        self.keys, self._private, self._received = Keys(self._senders, secrets), self._private[:0], {}
        self._offers = []
        self.left_out = self._senders[~complete]

    def _check_public_key_of(self, relay: int) -> None:
        stored, name_of = self._received.get(relay), self._draws.name_of
        if stored is None:
            first = name_of(int(self._senders[0]))
            raise ProtocolError(
                f"public keys must arrive before the first sum; that of {name_of(relay)} did not reach {first}"
                + (" or any other sender" if len(self._senders) > 1 else "")
            )
        keys = stored[stored[:, -1] == 1, :PUBLIC_KEY_BYTES]
        if (keys != keys[0]).any():
            raise ProtocolError(f"{name_of(relay)} must send all senders one public key; it sent two")

    def state(self) -> dict[str, Array]:
        """Private keys until all are agreed on, and those that are."""
        arrays: dict[str, Array] = {"private": self._private, "session": self._crypto.named_session}
        arrays["left out"] = self.left_out
        arrays |= {f"heard/{relay}": rows for relay, rows in self._received.items()}
        return arrays | {f"keys{j}": secret for j, secret in enumerate(self.keys.secrets if self.keys else ())}

    def restore(self, state: Mapping[str, Array]) -> None:
        """Goes on where a state was taken."""
        self._private, self._offers, self.left_out = state["private"], [], state["left out"]
        self._crypto.name_session(state["session"])
        self._received = {int(name): rows.copy() for name, rows in within("heard", state).items()}
        secrets = [state[f"keys{j}"] for j in range(len(self._relays)) if f"keys{j}" in state]
        self.keys = Keys(self._senders, secrets) if secrets else None


class RelaysKeys:
    """The keys of the relays that one process hosts.

    Args:
        relays: int64 [k], ascending party identifiers.
        cryptography: derives keys.
        wire: makes and reads messages.
        draws: coins of the relays.
    """

    def __init__(self, relays: Ids, cryptography: Cryptography, wire: Wire, draws: Draws) -> None:
        self._relays, self._crypto, self._wire, self._draws = relays, cryptography, wire, draws
        self._arrived: list[Messages] = []
        self._private: Bytes = np.empty((0, KEY_BYTES), dtype=np.uint8)
        self._received: dict[int, tuple[Ids, Bytes, Bytes]] = {}
        self._keys: dict[int, Keys] = {}

    def receive(self, messages: Messages) -> None:
        """Takes senders' public keys.

        Raises:
            MalformedMessageError: they are none.
            StaleMessageError: keys have been agreed on.
        """
        check_setup(messages)
        self._wire.read(messages, PAYLOAD, "|u1", self._crypto.agreement.public_bytes)
        if not self._crypto.keyed:
            raise MalformedMessageError("keys must be sent only if they are agreed on; here they are not")
        if self._received:
            raise StaleMessageError("keys must be sent before they are agreed on; at least one was not")
        earlier = [slot_names(batch.senders, batch.receivers) for batch in self._arrived]
        names = slot_names(messages.senders, messages.receivers)
        _, first = np.unique(names, return_index=True)  # what arrives twice counts once
        self._arrived.append(
            messages.rows(np.sort(first[~np.isin(names[first], np.concatenate([names[:0], *earlier]))]))
        )

    def answer(self) -> list[Messages]:
        """Answer each sender whose key has arrived with the key of every relay."""
        arrived, self._arrived = self._arrived, []
        if not arrived:
            return []
        out: list[Messages] = []
        self._private = self._draws.draw("private keys", self._relays, 256, (KEY_BYTES,)).astype(np.uint8)
        for n, relay in enumerate(self._relays.tolist()):
            senders, publics = self._collect_keys(relay, arrived)
            if not len(senders):
                continue
            owners, size = np.full(len(senders), relay), self._crypto.agreement.secret_bytes
            secrets = np.empty((len(senders), 0), dtype=np.uint8)
            if size:
                secrets = self._draws.draw("wrapped secrets", owners, 256, (size,)).astype(np.uint8)
            replies, valid = answer_offers(self._private[n], publics, secrets)
            self._received[relay] = senders[valid], publics[valid], secrets[valid]
            ends = owners[valid], senders[valid]
            out.append(self._wire.make(Phase.KEYS, SETUP, ends, replies.shape[1], {PAYLOAD: replies}))
        return out

    def _collect_keys(self, relay: int, arrived: list[Messages]) -> tuple[Ids, Bytes]:
        """Senders, ascending, and their public keys."""
        size = self._crypto.agreement.public_bytes
        masks = [(messages, messages.receivers == relay) for messages in arrived]
        parts = [(batch.senders[mask], self._wire.read(batch, PAYLOAD, "|u1", size)[mask]) for batch, mask in masks]
        senders, publics = (np.concatenate(batch) for batch in zip(*parts, strict=True))
        order = np.argsort(senders, kind="stable")
        return senders[order], publics[order]

    def senders_of(self, relay: int) -> Ids:
        """int64 [s], ascending: the senders that one relay shares keys with."""
        return self._received[relay][0] if relay in self._received else self._relays[:0]

    def keys_of(self, relay: int) -> Keys:
        """The keys of one relay, derived at the first call.

        Raises:
            ProtocolError: no sender has sent one.
        """
        if relay not in self._keys:
            if relay not in self._received:
                raise ProtocolError("keys must be agreed on before the first sum; they are not")
            senders, publics, secrets = self._received[relay]
            private = self._private[int(np.searchsorted(self._relays, relay))]
            session = self._crypto.session(self._draws)
            agreed = self._crypto.relay_keys(private, relay, publics, secrets, senders, session)
            self._keys[relay] = Keys(senders, [agreed])
        return self._keys[relay]

    def state(self) -> dict[str, Array]:
        """All of it."""
        arrays: dict[str, Array] = {"private": self._private, "session": self._crypto.named_session}
        arrays |= {f"arrived{n}": as_array(messages) for n, messages in enumerate(self._arrived)}
        for relay, received in self._received.items():
            named: dict[str, Array] = dict(zip(_RECEIVED, received, strict=True))
            arrays |= {f"heard/{relay}/{name}": array for name, array in named.items()}
        return arrays | {f"keys/{relay}": keys.secrets[0] for relay, keys in self._keys.items()}

    def restore(self, state: Mapping[str, Array]) -> None:
        """Goes on where a state was taken."""
        self._private, self._arrived = state["private"], read_batches("arrived", state)
        self._crypto.name_session(state["session"])
        self._received, self._keys = {}, {}
        for relay in self._relays.tolist():
            received = within(f"heard/{relay}", state)
            if received:
                self._received[relay] = received["senders"], received["publics"], received["secrets"]
            if f"keys/{relay}" in state:
                self._keys[relay] = Keys(received["senders"], [state[f"keys/{relay}"]])


def check_setup(messages: Messages) -> None:
    """Refuse keys that are not of the set-up."""
    if messages.step != SETUP:
        raise StaleMessageError(f"keys must be sent in {SETUP}; found some in {messages.step}")
