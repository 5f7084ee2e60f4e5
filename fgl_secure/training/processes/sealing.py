"""Processes behind a mailbox that reads nothing: what goes from silo to silo is sealed end to end.

In one process the way between two silos is private by construction. Where a server carries their messages, each party
publishes fresh keys in its first turn, X25519 and where the library has it ML-KEM-768, signed where there are
identities, and seals everything that is not for the server under a key for one sender and one receiver (AES-256-GCM;
the nonce is sender and turn, of which there is one message at most). Its first message to a party is preceded by the
secret that it wraps for that party. Without identities a server that lies about keys could read along.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from fgl_secure.coins import Coins
from fgl_secure.crypto.keys import PUBLIC_KEY_BYTES, KeyAgreement, KeyPair, Offer, wrap
from fgl_secure.crypto.prg import KEY_BYTES
from fgl_secure.errors import MalformedMessageError, ProtocolError
from fgl_secure.host import library_settings
from fgl_secure.protocols.identity import SIGNATURE_BYTES, Identities, Identity
from fgl_secure.runtime.packing import Arrays, under, within
from fgl_secure.threads import one_thread
from fgl_secure.training.processes.process import SERVER, Outbox, Process, parcels_from_bytes, parcels_to_bytes
from fgl_secure.training.processes.sums import SumServer
from fgl_secure.typing import Array

Post = Mapping[int, bytes]
"""By the other end: all that one party sends to another in one turn."""

_LABEL = b"fgl-secure silos/v2"
_NONCE = struct.Struct(">IQ")
_ENDS = struct.Struct(">II")
_KEPT = ("sending", "wrapped", "publics", "receiving")
"""What a state has of each other party: keys both ways, the secret that waits to leave, and what it published."""


class SealedParty:
    """A program and the keys of its party.

    Args:
        number: of the party: a silo, or a relay after them.
        parties: silos and relays together.
        program: what the party does.
        session: 16 public bytes, different in every run.
        coins: its own, secret.
        identity: signs its key; None sends it unsigned.
        identities: of all parties.
        agreement: on keys, the same for all parties; the best that the library has unless given.

    Attributes:
        program: as given.
        agreed: bytes for whatever else all parties must have been told alike; a message opens only where the receiver's
            are those of the sender.
    """

    agreed: bytes = b""

    def __init__(
        self,
        number: int,
        parties: int,
        program: Process,
        session: bytes,
        coins: Coins,
        identity: Identity | None = None,
        identities: Identities | None = None,
        agreement: KeyAgreement | None = None,
    ) -> None:
        self._number, self._session, self.program = number, session, program
        self._others = [other for other in range(parties) if other != number]
        self._identity, self._identities = identity, identities
        self._agreement, self._coins = agreement or KeyAgreement.best(), coins
        self._private = coins.uniform(256, (self._agreement.private_bytes,)).astype(np.uint8).tobytes()
        self._sending: dict[int, bytes] = {}
        self._wrapped: dict[int, bytes] = {}
        self._publics: dict[int, bytes] = {}
        self._receiving: dict[int, bytes] = {}
        self._turns = 0

    def __repr__(self) -> str:
        return f"SealedParty({self._number}, turns={self._turns}, keys=<secret>)"

    @property
    def turns(self) -> int:
        """How many it has had; the next one has this number."""
        return self._turns

    @property
    def due(self) -> str:
        """What the party waits for; see `Process.due`."""
        return self.program.due if self._turns > 1 else f"agreement on {'' if self.signed else 'unsigned '}keys"

    @property
    def signed(self) -> bool:
        """Whether its keys are signed, and those of others must be."""
        return self._identity is not None

    @library_settings()
    @one_thread()
    def turn(self, post: Post) -> dict[int, bytes]:
        """One turn.

        Args:
            post: by sender, what it sent; the first turn finds nothing, the second everybody's key.

        Returns:
            By receiver, what leaves.

        Raises:
            ProtocolError: something was not made by who is said to have sent it, or not for this party and turn.
        """
        if self._turns == 0:
            self._turns = 1
            return dict.fromkeys(self._others, self._published())
        if self._turns == 1:
            self._agree(post)
            post = {}
        opened = {sender: self._opened(sender, data) for sender, data in post.items()}
        out = self.program.turn({sender: parcels_from_bytes(data) for sender, data in opened.items()})
        sent = {receiver: self._closed(receiver, parcels_to_bytes(parcels)) for receiver, parcels in out.items()}
        self._turns += 1
        return sent

    def _published(self) -> bytes:
        public = Offer(self._private, self._agreement).public
        return public + (b"" if self._identity is None else self._identity.sign(self._statement(self._number, public)))

    def _statement(self, owner: int, public: bytes) -> bytes:
        return _LABEL + self._session + _ENDS.pack(owner, len(public)) + public

    def _agree(self, post: Post) -> None:
        """Checks every other party's key, and makes the key under which messages to it are sealed."""
        if set(post) != set(self._others):
            raise ProtocolError(f"all of {len(self._others)} other parties must publish a key; found {len(post)}")
        size, sending, wrapped, publics = self._agreement.public_bytes, {}, {}, {}
        own, pair = Offer(self._private, self._agreement).public, KeyPair(self._private[:KEY_BYTES])
        for other, data in post.items():
            public, signature = data[:size], data[size:]
            if len(public) != size or len(signature) not in (0, SIGNATURE_BYTES):
                raise MalformedMessageError(
                    f"key of party {other} must have {size} bytes, {self._agreement}; it has not"
                )
            if self._identities is not None:
                self._identities.check(other, self._statement(other, public), signature)
            secret = self._coins.uniform(256, (self._agreement.secret_bytes,)).astype(np.uint8).tobytes()
            first, context = public[:PUBLIC_KEY_BYTES], self._context(self._number, other, own, public)
            sending[other] = pair.agree(first, session=self._session, context=context, secret=secret)
            wrapped[other], publics[other] = wrap(public, secret), public
        self._sending, self._wrapped, self._publics = sending, wrapped, publics

    def _context(self, sender: int, receiver: int, sender_key: bytes, receiver_key: bytes) -> bytes:
        return _LABEL + _ENDS.pack(sender, receiver) + sender_key + receiver_key

    def _closed(self, receiver: int, plain: bytes) -> bytes:
        if receiver == SERVER:
            return plain
        sealed = AESGCM(self._sending[receiver]).encrypt(_NONCE.pack(self._number, self._turns), plain, self.agreed)
        return self._wrapped.pop(receiver, b"") + sealed

    def _opened(self, sender: int, data: bytes) -> bytes:
        if sender == SERVER:
            return data
        if sender not in self._publics:
            raise ProtocolError(f"sender must be one of the parties; found {sender}")
        try:
            key, sealed = self._receiving.get(sender), data
            if key is None:
                key, sealed = self._received_key(sender, data)
            plain = AESGCM(key).decrypt(_NONCE.pack(sender, self._turns - 1), sealed, self.agreed)
        except (InvalidTag, ProtocolError) as error:
            message = f"message of party {sender} must be sealed for this party and turn; it is not"
            raise ProtocolError(message) from error
        self._receiving[sender] = key
        return plain

    def _received_key(self, sender: int, data: bytes) -> tuple[bytes, bytes]:
        """The key of a party's messages, from the secret that precedes its first one; and what follows."""
        offer, size, public = (
            Offer(self._private, self._agreement),
            self._agreement.wrapped_bytes,
            self._publics[sender],
        )
        context, first = self._context(sender, self._number, public, offer.public), public[:PUBLIC_KEY_BYTES]
        return offer.agree(first, data[:size], session=self._session, context=context), data[size:]

    def state(self) -> dict[str, Array]:
        """Keys and the program's state: secret, for this party alone."""
        kept = {name: getattr(self, f"_{name}") for name in _KEPT}
        return {
            "turns": np.asarray(self._turns, dtype=np.int64),
            "private": np.frombuffer(self._private, dtype=np.uint8),
            **{f"{name}/{other}": np.frombuffer(key, np.uint8) for name in _KEPT for other, key in kept[name].items()},
            **under("program", self.program.state()),
        }

    def restore(self, state: Arrays) -> None:
        """Goes on where a state was taken."""
        self._turns, self._private = int(state["turns"]), state["private"].tobytes()
        for name in _KEPT:
            setattr(self, f"_{name}", {int(other): key.tobytes() for other, key in within(name, state).items()})
        self.program.restore(within("program", state))


def carried(posts: Mapping[int, Post], server: SumServer) -> dict[int, dict[int, bytes]]:
    """What a mailbox does in one turn: hands the server what is for it, and everybody what is for them.

    Args:
        posts: by sender, what left.
        server: leads sums.

    Returns:
        By receiver, then by sender.

    Raises:
        ProtocolError: see `SumServer.turn`.
    """
    sorted_: dict[int, dict[int, bytes]] = {}
    for sender, post in posts.items():
        for receiver, data in post.items():
            sorted_.setdefault(receiver, {})[sender] = data
    to_server = {sender: parcels_from_bytes(data) for sender, data in sorted_.pop(SERVER, {}).items()}
    answer: Outbox = server.turn(to_server)
    for receiver, parcels in answer.items():
        sorted_.setdefault(receiver, {})[SERVER] = parcels_to_bytes(parcels)
    return sorted_
