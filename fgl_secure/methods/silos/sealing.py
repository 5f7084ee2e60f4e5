"""Programs behind a mailbox that reads nothing: what goes from silo to silo is sealed end to end.

In one process the way between two silos is private by construction. Where a server carries their messages, each party
publishes a fresh X25519 key in its first turn, signed where there are identities, and seals everything that is not
for the server under a key that it shares with the receiver alone (AES-256-GCM; the nonce is sender and turn, of which
there is one message at most). Without identities a server that lies about keys could read along.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from fgl_secure.coins import Coins
from fgl_secure.crypto.keys import PUBLIC_KEY_BYTES, KeyPair
from fgl_secure.crypto.prg import KEY_BYTES
from fgl_secure.errors import MalformedMessageError, ProtocolError
from fgl_secure.methods.silos.parcels import Array, Arrays, parcels_from_bytes, parcels_to_bytes, under, within
from fgl_secure.methods.silos.program import SERVER, Outbox, Program
from fgl_secure.methods.silos.sum_server import SumServer
from fgl_secure.protocols.identity import SIGNATURE_BYTES, Identities, Identity

Post = Mapping[int, bytes]
"""By the other end: all that one party sends to another in one turn."""

_LABEL = b"fgl-secure silos/v1"
_NONCE = struct.Struct(">IQ")
_ENDS = struct.Struct(">II")


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
    """

    def __init__(
        self,
        number: int,
        parties: int,
        program: Program,
        session: bytes,
        coins: Coins,
        identity: Identity | None = None,
        identities: Identities | None = None,
    ) -> None:
        self._number, self._session, self._program = number, session, program
        self._others = [other for other in range(parties) if other != number]
        self._identity, self._identities = identity, identities
        self._private = coins.uniform(256, (KEY_BYTES,)).astype(np.uint8).tobytes()
        self._keys: dict[int, bytes] = {}
        self._turns = 0

    def __repr__(self) -> str:
        return f"SealedParty({self._number}, turns={self._turns}, keys=<secret>)"

    @property
    def turns(self) -> int:
        """How many it has had; the next one has this number."""
        return self._turns

    @property
    def report(self) -> dict[str, Array] | None:
        """That of the program."""
        return self._program.report

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
            self._keys, post = self._agreed(post), {}
        opened = {sender: self._opened(sender, data) for sender, data in post.items()}
        out = self._program.turn({sender: parcels_from_bytes(data) for sender, data in opened.items()})
        sent = {receiver: self._closed(receiver, parcels_to_bytes(parcels)) for receiver, parcels in out.items()}
        self._turns += 1
        return sent

    def _published(self) -> bytes:
        public = KeyPair(self._private).public
        return public + (b"" if self._identity is None else self._identity.sign(self._statement(self._number, public)))

    def _statement(self, owner: int, public: bytes) -> bytes:
        return _LABEL + self._session + _ENDS.pack(owner, 0) + public

    def _agreed(self, post: Post) -> dict[int, bytes]:
        """The key shared with every other party."""
        if set(post) != set(self._others):
            raise ProtocolError(f"all of {len(self._others)} other parties must publish a key; found {len(post)}")
        own, keys = KeyPair(self._private), {}
        for other, data in post.items():
            public, signature = data[:PUBLIC_KEY_BYTES], data[PUBLIC_KEY_BYTES:]
            if len(public) != PUBLIC_KEY_BYTES or len(signature) not in (0, SIGNATURE_BYTES):
                raise MalformedMessageError(f"key of party {other} must have {PUBLIC_KEY_BYTES} bytes; it has not")
            if self._identities is not None:
                self._identities.check(other, self._statement(other, public), signature)
            ends = _ENDS.pack(*sorted((self._number, other))) + b"".join(sorted((own.public, public)))
            keys[other] = own.agree(public, session=self._session, context=_LABEL + ends)
        return keys

    def _closed(self, receiver: int, plain: bytes) -> bytes:
        if receiver == SERVER:
            return plain
        return AESGCM(self._keys[receiver]).encrypt(_NONCE.pack(self._number, self._turns), plain, None)

    def _opened(self, sender: int, data: bytes) -> bytes:
        if sender == SERVER:
            return data
        if sender not in self._keys:
            raise ProtocolError(f"sender must be one of the parties; found {sender}")
        try:
            return AESGCM(self._keys[sender]).decrypt(_NONCE.pack(sender, self._turns - 1), data, None)
        except InvalidTag as error:
            message = f"message of party {sender} must be sealed for this party and turn; it is not"
            raise ProtocolError(message) from error

    def state(self) -> dict[str, Array]:
        """Keys and the program's state: secret, for this party alone."""
        keys = {str(other): np.frombuffer(key, dtype=np.uint8) for other, key in self._keys.items()}
        return {
            "turns": np.asarray(self._turns, dtype=np.int64),
            "private": np.frombuffer(self._private, dtype=np.uint8),
            **under("keys", keys),
            **under("program", self._program.state()),
        }

    def restore(self, state: Arrays) -> None:
        """Goes on where a state was taken."""
        self._turns, self._private = int(state["turns"]), state["private"].tobytes()
        self._keys = {int(other): key.tobytes() for other, key in within("keys", state).items()}
        self._program.restore(within("program", state))


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
