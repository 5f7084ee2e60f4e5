"""Public keys of pairwise masking on their way through the aggregator."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from fgl_secure.crypto.keys import PUBLIC_KEY_BYTES, KeyPair
from fgl_secure.crypto.prg import KEY_BYTES
from fgl_secure.errors import ProtocolError
from fgl_secure.protocols.masking.delivery import Circle, exchanged
from fgl_secure.protocols.masking.keys import Purpose, agreed, is_usable
from fgl_secure.runtime import Phase, Step

Ids = NDArray[np.int64]
Flags = NDArray[np.bool_]
Bytes = NDArray[np.uint8]

SETUP = Step(0)


def key_bytes(pairs: list[KeyPair]) -> Bytes:
    """Public keys of some pairs: uint8 [n, 32]."""
    joined = np.frombuffer(b"".join(pair.public for pair in pairs), dtype=np.uint8)
    return joined.reshape(len(pairs), PUBLIC_KEY_BYTES)


def published(circle: Circle, step: Step, who: Ids, pairs: list[KeyPair]) -> tuple[Flags, Bytes]:
    """Senders give the aggregator a public key each, and it leaves out those that are no good.

    Returns:
        Bool [m], whose keys are known, and uint8 [m, 32].
    """
    here, got = circle.up(Phase.KEYS, step, who, key_bytes(pairs))
    keys = np.zeros((len(circle.senders), PUBLIC_KEY_BYTES), dtype=np.uint8)
    keys[who] = got
    for at in np.flatnonzero(here).tolist():
        if not is_usable(got[at].tobytes()):
            here[at] = False
            sender = int(circle.senders[who[at]])
            circle.channel.note_incident(step, sender, "its public key is a point of low order: left out")
    return circle.flags(who[here]), keys


def told_keys(circle: Circle, step: Step, keys: Bytes, here: Flags) -> Bytes:
    """The aggregator tells everybody the keys of its neighbours.

    Returns:
        uint8 [m, k, 33], what each sender hears: a flag and a key for each neighbour, zeros where it hears nothing.
    """
    table, who = circle.neighbours.table, np.flatnonzero(here)
    flags = here[table][..., None].astype(np.uint8)
    bundles = np.concatenate([flags, keys[table] * flags], axis=2)
    out = np.zeros_like(bundles)
    _, out[who] = circle.down(Phase.KEYS, step, who, bundles[who])
    return out


def agreed_keys(
    circle: Circle, session: bytes, purpose: Purpose, step: Step | None, own: Mapping[int, KeyPair], told: Bytes
) -> dict[int, dict[int, bytes]]:
    """For each sender the key that it shares with each neighbour it was told of.

    A sender that is told a point of low order takes no part, which is noted: whoever it is from means it no good.

    Args:
        circle: the parties.
        session: public, and different in every session.
        purpose: what the keys are for.
        step: when; None for the whole session.
        own: the senders' key pairs, by number.
        told: uint8 [m, k, 33], a flag and the public key of each neighbour.
    """
    found: dict[int, dict[int, bytes]] = {}
    for u, pair in own.items():
        try:
            found[u] = {
                v: agreed(pair, told[u, j, 1:].tobytes(), session, purpose, step, circle.ends(u, v))
                for j, v in enumerate(circle.neighbours.table[u].tolist())
                if told[u, j, 0]
            }
        except ProtocolError as error:
            circle.channel.note_incident(step or SETUP, int(circle.senders[u]), f"takes no part: {error}")
    return found


class ReceiverKeys:
    """The keys that a receiver who does not add up itself shares with the senders, on both sides.

    Args:
        circle: the parties.
        session: public, and different in every session.
        own: the senders' key pairs, by number.
        keys: uint8 [m, 32], their public keys, zeros where unknown.

    Raises:
        ProtocolError: keys do not reach the receiver, or its key not the aggregator; or one is a point of low order.
    """

    def __init__(self, circle: Circle, session: bytes, own: Mapping[int, KeyPair], keys: Bytes) -> None:
        receiver = np.array([circle.receiver])
        private = circle.channel.draw("private keys", receiver, 256, (KEY_BYTES,), SETUP).astype(np.uint8)
        pair, who = KeyPair(private[0].tobytes()), np.array(sorted(own), dtype=np.int64)
        told, heard, got = self._exchange(circle, key_bytes([pair]), keys, who)
        self.of_sender: dict[int, bytes] = {}
        self.of_receiver: dict[int, bytes] = {}
        for at in np.flatnonzero(heard).tolist():
            u = int(who[at])
            rest = (session, Purpose.RECEIVER_MASK, None, (int(circle.senders[u]), circle.receiver))
            self.of_sender[u] = agreed(own[u], told[at].tobytes(), *rest)
            self.of_receiver[u] = agreed(pair, got[u].tobytes(), *rest)

    def __repr__(self) -> str:
        return f"ReceiverKeys(<{len(self.of_sender)} secret keys>)"

    @staticmethod
    def _exchange(circle: Circle, own: Bytes, keys: Bytes, who: Ids) -> tuple[Bytes, Flags, Bytes]:
        """What each sender hears of the receiver's key, which of them do, and the keys that the receiver hears."""
        channel, receiver, aggregator = circle.channel, np.array([circle.receiver]), np.array([circle.aggregator])
        heard, at_aggregator = exchanged(channel, Phase.KEYS, SETUP, receiver, aggregator, own, None)
        got, at_receiver = exchanged(channel, Phase.KEYS, SETUP, aggregator, receiver, keys[None], None)
        if not (heard.all() and got.all()):
            party = channel.parties.party_of(circle.receiver)
            raise ProtocolError(f"public keys must pass between {party} and the aggregator; one was lost")
        hearing, told = circle.down(Phase.KEYS, SETUP, who, np.repeat(at_aggregator, len(who), axis=0))
        return told, hearing, at_receiver[0]
